/* SPDX-License-Identifier: Apache-2.0 */
/* tar_parse - reading entries of an archive that may be hostile. Strict: only what
 * tar_print() writes is understood. */
#include "spec/tar.h"

#include "base/util.h"

#define XATTR_KEY "SCHILY.xattr."
#define XATTR_NAME_MAX 255
#define NS 1000000000

enum field { /* of a header block */
	     AT_MODE = 100,
	     AT_SIZE = 124,
	     AT_SUM = 148,
	     AT_TYPE = 156,
	     AT_MAGIC = 257,
	     AT_MAJOR = 329,
	     AT_MINOR = 337
};

/* ---- header blocks -------------------------------------------------------------- */

/* Octal digits up to a NUL or a blank; nothing else. */
static int octal(const unsigned char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	if (i == 0 || i == n || (p[i] != '\0' && p[i] != ' '))
		return -EBADMSG;
	*ret = v;
	return 0;
}

static bool all_zero(const unsigned char *p, size_t n)
{
	while (n && !*p)
		p++, n--;
	return n == 0;
}

static bool sum_ok(const unsigned char *b)
{
	uint64_t want;
	unsigned sum = 0;

	if (octal(b + AT_SUM, 8, &want) < 0 || b[AT_SUM + 7] != ' ')
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : b[i];
	return sum == want;
}

int tar_parse_header(struct tar_entry *e, const unsigned char block[TAR_BLOCK])
{
	static const char types[] = {TAR_FILE, TAR_LINK, TAR_SYMLINK, TAR_WHITEOUT,
				     TAR_DIR,  TAR_FIFO, TAR_PAX};
	uint64_t mode, size, major, minor;

	if (all_zero(block, TAR_BLOCK)) {
		e->type = TAR_END;
		return 0;
	}
	if (memcmp(block + AT_MAGIC, "ustar\00000", 8) != 0 || !sum_ok(block) ||
	    !memchr(types, block[AT_TYPE], sizeof(types)) ||
	    octal(block + AT_MODE, 8, &mode) < 0 ||
	    octal(block + AT_SIZE, 12, &size) < 0 ||
	    octal(block + AT_MAJOR, 8, &major) < 0 ||
	    octal(block + AT_MINOR, 8, &minor) < 0)
		return -EBADMSG;
	e->type = (enum tar_type)block[AT_TYPE];
	if (major || minor || mode > 07777 || (e->type == TAR_PAX && size > TAR_PAX_MAX))
		return -EBADMSG;
	/* the pax header has the size that counts, however large */
	if (e->type == TAR_PAX)
		e->size = size;
	else if ((e->size & 077777777777u) != size)
		return -EBADMSG;
	e->mode = (uint32_t)mode;
	return 0;
}

/* ---- pax records ---------------------------------------------------------------- */

bool tar_path_ok(const char *path, size_t n)
{
	if (n == 0 || n > TAR_PATH_MAX || memchr(path, '\0', n))
		return false;
	for (;;) {
		const char *slash = memchr(path, '/', n);
		size_t len = slash ? (size_t)(slash - path) : n;

		if (len == 0 || len > TAR_NAME_MAX || (len == 1 && path[0] == '.') ||
		    (len == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		if (!slash)
			return true;
		path += len + 1;
		n -= len + 1;
	}
}

static int number(const char *p, size_t n, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (n == 0 || n > 20)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9' || v > max / 10)
			return -EBADMSG;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	if (v > max)
		return -EBADMSG;
	*ret = v;
	return 0;
}

static int take(struct buf *b, const char *value, size_t n)
{
	if (b->len || n == 0 || memchr(value, '\0', n))
		return -EBADMSG;
	return buf_append(b, value, n) == -ENOMEM ? -ENOMEM : b->len == n ? 0 : -EBADMSG;
}

static int on_path(struct tar_entry *e, const char *v, size_t n)
{
	return tar_path_ok(v, n) ? take(&e->path, v, n) : -EBADMSG;
}

static int on_link(struct tar_entry *e, const char *v, size_t n)
{
	return take(&e->link, v, n);
}

static int on_size(struct tar_entry *e, const char *v, size_t n)
{
	return number(v, n, TAR_SIZE_MAX, &e->size);
}

static int on_real_size(struct tar_entry *e, const char *v, size_t n)
{
	e->sparse = true;
	return number(v, n, TAR_SIZE_MAX, &e->real_size);
}

static int on_time(struct tar_entry *e, const char *v, size_t n)
{
	const char *dot = memchr(v, '.', n);
	uint64_t s, ns;

	if (!dot || n - (size_t)(dot - v) != 10 ||
	    number(v, (size_t)(dot - v), INT64_MAX / NS - 1, &s) < 0 ||
	    number(dot + 1, 9, NS - 1, &ns) < 0)
		return -EBADMSG;
	e->mtime_ns = (int64_t)(s * NS + ns);
	return 0;
}

static int on_major(struct tar_entry *e, const char *v, size_t n)
{
	(void)e;
	return n == 1 && v[0] == '1' ? 0 : -EBADMSG;
}

static int on_minor(struct tar_entry *e, const char *v, size_t n)
{
	(void)e;
	return n == 1 && v[0] == '0' ? 0 : -EBADMSG;
}

static int on_xattr(struct tar_entry *e, const char *key, size_t key_len, const char *v,
		    size_t n)
{
	char name[XATTR_NAME_MAX + 1];
	int r;

	if (key_len < 6 || key_len > XATTR_NAME_MAX || memcmp(key, "user.", 5) != 0 ||
	    memchr(key, '\0', key_len) || n > 65536)
		return -EBADMSG;
	memcpy(name, key, key_len);
	name[key_len] = '\0';
	r = tar_add_xattr(e, name, v, n);
	return r == -ENOBUFS ? -EBADMSG : r;
}

static const struct {
	const char *key;
	int (*fn)(struct tar_entry *e, const char *value, size_t n);
} keys[] = {
	{"path",                on_path     },
	{"linkpath",            on_link     },
	{"size",                on_size     },
	{"mtime",               on_time     },
	{"GNU.sparse.major",    on_major    },
	{"GNU.sparse.minor",    on_minor    },
	{"GNU.sparse.name",     on_path     },
	{"GNU.sparse.realsize", on_real_size},
};

/* key=value, without the length and the newline. */
static int record(struct tar_entry *e, const char *text, size_t n)
{
	const size_t prefix = strlen(XATTR_KEY);
	const char *eq = memchr(text, '=', n);
	size_t len = eq ? (size_t)(eq - text) : 0;

	if (len == 0)
		return -EBADMSG;
	if (len > prefix && memcmp(text, XATTR_KEY, prefix) == 0)
		return on_xattr(e, text + prefix, len - prefix, eq + 1, n - len - 1);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strlen(keys[i].key) == len && memcmp(keys[i].key, text, len) == 0)
			return keys[i].fn(e, eq + 1, n - len - 1);
	return -EBADMSG;
}

int tar_parse_pax(struct tar_entry *e, const char *text, size_t n)
{
	while (n) {
		const char *blank = memchr(text, ' ', min_size(n, 9));
		size_t digits = blank ? (size_t)(blank - text) : 0;
		uint64_t len = 0;
		int r = digits ? number(text, digits, TAR_PAX_MAX, &len) : -EBADMSG;

		if (r < 0 || len > n || len < digits + 4 || text[len - 1] != '\n')
			return -EBADMSG;
		r = record(e, blank + 1, (size_t)len - digits - 2);
		if (r < 0)
			return r;
		text += len;
		n -= (size_t)len;
	}
	return 0;
}

int tar_check(const struct tar_entry *e)
{
	bool file = e->type == TAR_FILE, link = e->type == TAR_LINK;
	bool symlink = e->type == TAR_SYMLINK;

	if (!e->path.len || e->type == TAR_PAX || e->type == TAR_END ||
	    (!file && (e->size || e->sparse)) || (e->link.len != 0) != (link || symlink))
		return -EBADMSG;
	if (symlink && e->link.len > TAR_LINK_MAX)
		return -EBADMSG;
	if (link && !tar_path_ok(e->link.data, e->link.len))
		return -EBADMSG;
	if (e->xattrs.len && !file && e->type != TAR_DIR)
		return -EBADMSG;
	return 0;
}

/* ---- maps ----------------------------------------------------------------------- */

int tar_parse_number(const char *text, size_t n, uint64_t *ret)
{
	const char *end = memchr(text, '\n', min_size(n, 21));
	size_t len = end ? (size_t)(end - text) : 0;

	if (!end)
		return n > 20 ? -EBADMSG : 0;
	return number(text, len, TAR_SIZE_MAX, ret) < 0 ? -EBADMSG : (int)len + 1;
}

bool tar_map_ok(const struct tar_piece *v, size_t n, uint64_t size, uint64_t data)
{
	uint64_t at = 0, sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i].at < at || v[i].at > size || v[i].len > size - v[i].at)
			return false;
		at = v[i].at + v[i].len;
		sum += v[i].len; /* disjoint pieces of size: it cannot overflow */
	}
	return sum == data;
}
