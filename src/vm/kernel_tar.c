/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_tar - the formats around a kernel: tar (ustar and GNU) and ar archives, the head
 * of an image. Pure; every length is checked against what is there.
 */
#include "vm/kernel_package.h"

#include "base/util.h"

#include <elf.h>

/* ---- tar ----------------------------------------------------------------------- */

#define BLOCK 512u

enum field {
	AT_NAME = 0,
	AT_SIZE = 124,
	AT_SUM = 148,
	AT_TYPE = 156,
	AT_MAGIC = 257,
	AT_PREFIX = 345
};
enum length { LEN_NAME = 100, LEN_SIZE = 12, LEN_SUM = 8, LEN_PREFIX = 155 };

/* Octal digits, blanks before and a blank or NUL behind them. (A size of 8 GiB and more
 * is written otherwise; no kernel has one.) */
static bool octal(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0, first;

	while (i < n && p[i] == ' ')
		i++;
	for (first = i; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	*ret = v;
	return i > first && (i == n || p[i] == '\0' || p[i] == ' ');
}

static bool sum_ok(const uint8_t *block)
{
	uint64_t want;
	unsigned sum = 0;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + LEN_SUM ? ' ' : block[i];
	return octal(block + AT_SUM, LEN_SUM, &want) && sum == want;
}

static bool all_zero(const uint8_t *block)
{
	for (size_t i = 0; i < BLOCK; i++)
		if (block[i])
			return false;
	return true;
}

static bool append_path(struct tar_walk *w, size_t *len, const uint8_t *p, size_t n)
{
	n = strnlen((const char *)p, n);
	if (n > PACKAGE_PATH_MAX - *len)
		return false;
	memcpy(w->path + *len, p, n);
	*len += n;
	w->path[*len] = '\0';
	return true;
}

/* The path in the header: of ustar with a prefix, which GNU uses for other things. */
static bool header_path(struct tar_walk *w, const uint8_t *block)
{
	size_t len = 0;

	if (memcmp(block + AT_MAGIC, "ustar\0", 6) == 0 && block[AT_PREFIX] &&
	    !(append_path(w, &len, block + AT_PREFIX, LEN_PREFIX) &&
	      append_path(w, &len, (const uint8_t *)"/", 1)))
		return false;
	return append_path(w, &len, block + AT_NAME, LEN_NAME);
}

/* A header and what it says: 1; 0 at the end. */
static int next_header(struct tar_walk *w, const uint8_t **ret, uint64_t *ret_size)
{
	const uint8_t *block = w->data + w->at;

	if (w->at == w->size || (w->size - w->at >= BLOCK && all_zero(block)))
		return 0;
	if (w->size - w->at < BLOCK || memcmp(block + AT_MAGIC, "ustar", 5) != 0 ||
	    !sum_ok(block) || !octal(block + AT_SIZE, LEN_SIZE, ret_size))
		return -EBADMSG;
	w->at += BLOCK;
	if (*ret_size > w->size - w->at)
		return -EBADMSG;
	*ret = block;
	return 1;
}

static void skip_data(struct tar_walk *w, uint64_t n)
{
	uint64_t padded = (n + BLOCK - 1) / BLOCK * BLOCK;

	w->at += (size_t)(padded < w->size - w->at ? padded : w->size - w->at);
}

int tar_walk_next(struct tar_walk *w, struct tar_file *ret)
{
	bool named = false; /* by a member of its own, which comes before */
	const uint8_t *block;
	uint64_t size;
	int r;

	while ((r = next_header(w, &block, &size)) == 1) {
		const uint8_t *data = w->data + w->at;
		char type = (char)block[AT_TYPE];
		size_t len = 0;

		skip_data(w, size);
		if (type == 'L') {
			if (!append_path(w, &len, data, (size_t)size))
				return -EBADMSG;
			named = true;
			continue;
		}
		if (!named && !header_path(w, block))
			return -EBADMSG;
		named = false;
		if (type != '0' && type != '\0')
			continue;
		ret->path = strncmp(w->path, "./", 2) == 0 ? w->path + 2 : w->path;
		ret->data = data;
		ret->size = (size_t)size;
		return 1;
	}
	return r;
}

/* ---- ar ------------------------------------------------------------------------ */

#define AR_MAGIC "!<arch>\n"
#define AR_HEADER 60
#define AR_SIZE 48 /* ten decimal digits, and two bytes that end the header */

static bool decimal(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < n && p[i] >= '0' && p[i] <= '9'; i++)
		v = v * 10 + (uint64_t)(p[i] - '0');
	*ret = v;
	return i > 0 && (i == n || p[i] == ' ');
}

static bool is_tree(const uint8_t *name, enum module_packing *ret)
{
	static const struct {
		char name[17]; /* as in the header, padded with blanks */
		enum module_packing packing;
	} trees[] = {
		{"data.tar.xz     ", MODULE_XZ   },
		{"data.tar.zst    ", MODULE_ZSTD },
		{"data.tar.gz     ", MODULE_GZIP },
		{"data.tar        ", MODULE_PLAIN},
	};

	for (size_t i = 0; i < ARRAY_LEN(trees); i++)
		if (memcmp(name, trees[i].name, 16) == 0) {
			*ret = trees[i].packing;
			return true;
		}
	return false;
}

int deb_find_tree(const uint8_t *data, size_t n, size_t *ret_at, size_t *ret_size,
		  enum module_packing *ret_packing)
{
	size_t at = sizeof(AR_MAGIC) - 1;
	uint64_t size;

	if (n < at || memcmp(data, AR_MAGIC, at) != 0)
		return -EBADMSG;
	while (n - at >= AR_HEADER) {
		const uint8_t *head = data + at;

		if (!decimal(head + AR_SIZE, 10, &size) ||
		    memcmp(head + AR_SIZE + 10, "`\n", 2) != 0)
			return -EBADMSG;
		at += AR_HEADER;
		if (size > n - at)
			return -EBADMSG;
		if (is_tree(head, ret_packing)) {
			*ret_at = at;
			*ret_size = (size_t)size;
			return 0;
		}
		at += (size_t)size;
		at += at < n && size % 2; /* members begin at even places */
	}
	return -EBADMSG;
}

/* ---- the head of an image ------------------------------------------------------ */

#define SETUP_MAGIC 0x202   /* "HdrS" */
#define SETUP_VERSION 0x20e /* where the version is, from 0x200 on */
#define ARM64_MAGIC 0x38    /* "ARM\x64" */

static bool is_bzimage(const uint8_t *data, size_t n)
{
	return n > SETUP_VERSION + 2 && memcmp(data + SETUP_MAGIC, "HdrS", 4) == 0;
}

static bool is_elf(const uint8_t *data, size_t n)
{
	return n > sizeof(Elf64_Ehdr) && memcmp(data, ELFMAG, SELFMAG) == 0 &&
	       data[EI_CLASS] == ELFCLASS64;
}

bool image_is_one(const uint8_t *data, size_t n)
{
	return is_bzimage(data, n) || is_elf(data, n) ||
	       (n > ARM64_MAGIC + 4 && memcmp(data + ARM64_MAGIC, "ARM\x64", 4) == 0);
}

/* The first word; only what a version is made of. */
static bool first_word(const uint8_t *p, size_t n, char ret[KERNEL_VERSION_MAX + 1])
{
	size_t len = 0;

	while (len < n && p[len] > ' ' && p[len] < 0x7f && p[len] != '/')
		len++;
	if (len == 0 || len == n || len > KERNEL_VERSION_MAX)
		return false;
	memcpy(ret, p, len);
	ret[len] = '\0';
	return true;
}

bool image_version(const uint8_t *data, size_t n, char ret[KERNEL_VERSION_MAX + 1])
{
	static const char banner[] = "Linux version ";
	const uint8_t *found;
	size_t at;

	if (is_bzimage(data, n)) {
		at = 0x200 +
		     ((size_t)data[SETUP_VERSION] | (size_t)data[SETUP_VERSION + 1] << 8);
		return at < n && first_word(data + at, n - at, ret);
	}
	found = image_is_one(data, n) ? memmem(data, n, banner, sizeof(banner) - 1)
				      : NULL;
	if (!found)
		return false;
	found += sizeof(banner) - 1;
	return first_word(found, n - (size_t)(found - data), ret);
}
