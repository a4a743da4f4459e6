/* SPDX-License-Identifier: Apache-2.0 */
/* modules_elf - what a module's file says about it. Pure. */
#include "vm/modules.h"

#include "base/util.h"

#include <elf.h>

/* ---- names --------------------------------------------------------------------- */

static const struct {
	const char *suffix;
	enum module_packing packing;
} packings[] = {
	{".ko",     MODULE_PLAIN},
	{".ko.xz",  MODULE_XZ   },
	{".ko.zst", MODULE_ZSTD },
	{".ko.gz",  MODULE_GZIP },
};

static bool ends_with(const char *s, size_t n, const char *suffix)
{
	size_t len = strlen(suffix);

	return n > len && memcmp(s + n - len, suffix, len) == 0;
}

/* File names have '-' where modules have '_', or not: the kernel takes both for one. */
static bool copy_name(const char *s, size_t n, char ret[MODULE_NAME_MAX + 1])
{
	if (n == 0 || n > MODULE_NAME_MAX)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      (c >= '0' && c <= '9') || c == '_' || c == '-'))
			return false;
		ret[i] = c == '-' ? '_' : c;
	}
	ret[n] = '\0';
	return true;
}

bool module_name(const char *path, size_t n, char ret[MODULE_NAME_MAX + 1],
		 enum module_packing *ret_packing)
{
	const char *slash = memrchr(path, '/', n);
	const char *base = slash ? slash + 1 : path;
	size_t len = n - (size_t)(base - path);

	for (size_t i = 0; i < ARRAY_LEN(packings); i++)
		if (ends_with(base, len, packings[i].suffix)) {
			*ret_packing = packings[i].packing;
			return copy_name(base, len - strlen(packings[i].suffix), ret);
		}
	return false;
}

bool module_listed(const char *builtin, size_t n, const char *name)
{
	for (size_t at = 0; at < n;) {
		const char *end = memchr(builtin + at, '\n', n - at);
		size_t len = end ? (size_t)(end - builtin) - at : n - at;
		char one[MODULE_NAME_MAX + 1];
		enum module_packing packing;

		if (module_name(builtin + at, len, one, &packing) &&
		    strcmp(one, name) == 0)
			return true;
		at += len + 1;
	}
	return false;
}

/* ---- the signature ------------------------------------------------------------- */

#define SIGNATURE_MARK "~Module signature appended~\n"
#define SIGNATURE_INFO \
	12 /* kinds and lengths; the last four: of the signature, big end first */

size_t module_unsigned_size(const void *data, size_t n)
{
	const size_t mark = sizeof(SIGNATURE_MARK) - 1;
	const uint8_t *p = data;
	size_t left, len;

	if (n < mark + SIGNATURE_INFO || memcmp(p + n - mark, SIGNATURE_MARK, mark) != 0)
		return n;
	left = n - mark - SIGNATURE_INFO;
	p += left + SIGNATURE_INFO - 4;
	len = (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
	return len <= left ? left - len : n;
}

/* ---- .modinfo ------------------------------------------------------------------ */

struct elf {
	const uint8_t *data;
	size_t size;
	Elf64_Ehdr head;
};

static bool within(const struct elf *e, uint64_t at, uint64_t n)
{
	return at <= e->size && n <= e->size - at;
}

static bool open_elf(struct elf *e, const void *data, size_t n)
{
	e->data = data;
	e->size = n;
	if (n < sizeof(e->head))
		return false;
	memcpy(&e->head, data, sizeof(e->head));
	return memcmp(e->head.e_ident, ELFMAG, SELFMAG) == 0 &&
	       e->head.e_ident[EI_CLASS] == ELFCLASS64 &&
	       e->head.e_ident[EI_DATA] == ELFDATA2LSB && e->head.e_type == ET_REL &&
	       e->head.e_shentsize == sizeof(Elf64_Shdr) &&
	       e->head.e_shstrndx < e->head.e_shnum &&
	       within(e, e->head.e_shoff, (uint64_t)e->head.e_shnum * sizeof(Elf64_Shdr));
}

static bool section(const struct elf *e, unsigned i, Elf64_Shdr *ret)
{
	memcpy(ret, e->data + e->head.e_shoff + i * sizeof(*ret), sizeof(*ret));
	return ret->sh_type != SHT_NOBITS && within(e, ret->sh_offset, ret->sh_size);
}

static bool is_called(const struct elf *e, const Elf64_Shdr *names, uint32_t at,
		      const char *want)
{
	size_t n = strlen(want) + 1;

	return at <= names->sh_size && n <= names->sh_size - at &&
	       memcmp(e->data + names->sh_offset + at, want, n) == 0;
}

int modinfo_find(const void *data, size_t n, const char **ret, size_t *ret_len)
{
	Elf64_Shdr names, s;
	struct elf e;

	if (!open_elf(&e, data, n) || !section(&e, e.head.e_shstrndx, &names))
		return -EBADMSG;
	for (unsigned i = 0; i < e.head.e_shnum; i++) {
		if (!section(&e, i, &s) || !is_called(&e, &names, s.sh_name, ".modinfo"))
			continue;
		*ret = (const char *)e.data + s.sh_offset;
		*ret_len = s.sh_size;
		return 0;
	}
	return -EBADMSG;
}

const char *modinfo_next(const char *info, size_t len, size_t *pos, const char *key)
{
	size_t n = strlen(key);

	while (*pos < len) {
		const char *s = info + *pos;
		const char *end = memchr(s, '\0', len - *pos);

		if (!end) /* cut off: not a string */
			break;
		*pos += (size_t)(end - s) + 1;
		if ((size_t)(end - s) > n && memcmp(s, key, n) == 0 && s[n] == '=')
			return s + n + 1;
	}
	*pos = len;
	return NULL;
}
