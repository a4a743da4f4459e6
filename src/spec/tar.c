/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/tar.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

#define XATTR_KEY "SCHILY.xattr."
#define NS 1000000000

/* The ustar header, field by field. */
struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type,
		link[100], magic[6], version[2], uname[32], gname[32], major[8], minor[8],
		prefix[155], pad[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a header is a block");

/* ---- entries -------------------------------------------------------------------- */

void tar_entry_init(struct tar_entry *e)
{
	*e = (struct tar_entry){0};
	buf_init(&e->path, TAR_PATH_MAX);
	buf_init(&e->link, TAR_PATH_MAX);
	buf_init(&e->xattrs, TAR_PAX_MAX / 2);
}

void tar_entry_reset(struct tar_entry *e)
{
	struct tar_entry n = {.path = e->path, .link = e->link, .xattrs = e->xattrs};

	n.path.len = n.link.len = n.xattrs.len = 0;
	*e = n;
}

void tar_entry_clear(struct tar_entry *e)
{
	buf_clear(&e->path);
	buf_clear(&e->link);
	buf_clear(&e->xattrs);
}

int tar_add_xattr(struct tar_entry *e, const char *name, const void *value, size_t n)
{
	uint32_t len = (uint32_t)n;
	size_t before = e->xattrs.len;
	int r = n > UINT32_MAX ? -ENOBUFS
			       : buf_append(&e->xattrs, name, strlen(name) + 1);

	if (r == 0)
		r = buf_append(&e->xattrs, &len, sizeof(len));
	if (r == 0)
		r = buf_append(&e->xattrs, value, n);
	if (r < 0)
		e->xattrs.len = before;
	return r;
}

bool tar_next_xattr(const struct tar_entry *e, size_t *pos, const char **ret_name,
		    const void **ret_value, size_t *ret_len)
{
	uint32_t len;

	if (*pos >= e->xattrs.len)
		return false;
	*ret_name = e->xattrs.data + *pos;
	*pos += strlen(*ret_name) + 1;
	memcpy(&len, e->xattrs.data + *pos, sizeof(len));
	*pos += sizeof(len);
	*ret_value = e->xattrs.data + *pos;
	*ret_len = len;
	*pos += len;
	return true;
}

/* ---- printing ------------------------------------------------------------------- */

static int put_padding(struct buf *out)
{
	static const char zeros[TAR_BLOCK];
	size_t over = out->len % TAR_BLOCK;

	return over ? buf_append(out, zeros, TAR_BLOCK - over) : 0;
}

/* "LEN KEY=VALUE\n", where LEN counts its own digits. */
static int put_record(struct buf *out, const char *prefix, const char *key,
		      const void *value, size_t n)
{
	size_t rest = strlen(prefix) + strlen(key) + n + 3, len = rest + 1;
	char digits[24];
	int r;

	while (len != rest + (size_t)snprintf(digits, sizeof(digits), "%zu", len))
		len = rest + strlen(digits);
	r = buf_printf(out, "%zu %s%s=", len, prefix, key);
	if (r == 0)
		r = buf_append(out, value, n);
	return r < 0 ? r : buf_append(out, "\n", 1);
}

static int put_text(struct buf *out, const char *key, const char *value)
{
	return put_record(out, "", key, value, strlen(value));
}

static int put_number(struct buf *out, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	return put_text(out, key, text);
}

static int put_time(struct buf *out, int64_t ns)
{
	char text[40];

	snprintf(text, sizeof(text), "%" PRId64 ".%09" PRId64, ns / NS, ns % NS);
	return put_text(out, "mtime", text);
}

static int put_pax(struct buf *out, const struct tar_entry *e)
{
	const char *name;
	const void *value;
	size_t pos = 0, n;
	int r;

	if (e->sparse) {
		r = put_text(out, "GNU.sparse.major", "1");
		if (r == 0)
			r = put_text(out, "GNU.sparse.minor", "0");
		if (r == 0)
			r = put_text(out, "GNU.sparse.name", e->path.data);
		if (r == 0)
			r = put_number(out, "GNU.sparse.realsize", e->real_size);
	} else {
		r = put_text(out, "path", e->path.data);
	}
	if (r == 0 && e->link.len)
		r = put_text(out, "linkpath", e->link.data);
	if (r == 0)
		r = put_number(out, "size", e->size);
	if (r == 0)
		r = put_time(out, e->mtime_ns);
	while (r == 0 && tar_next_xattr(e, &pos, &name, &value, &n))
		r = put_record(out, XATTR_KEY, name, value, n);
	return r;
}

static void put_octal(char *field, size_t width, uint64_t v)
{
	field[--width] = '\0';
	while (width) {
		field[--width] = (char)('0' + (v & 7));
		v >>= 3;
	}
}

/* What does not fit here is in the pax header. */
static int put_header(struct buf *out, enum tar_type type, const char *name,
		      const char *link, uint32_t mode, uint64_t size, int64_t mtime)
{
	struct ustar h = {
		.type = (char)type, .magic = "ustar", .version = {'0', '0'}
        };
	unsigned sum = 0;

	memcpy(h.name, name, min_size(strlen(name), sizeof(h.name)));
	memcpy(h.link, link, min_size(strlen(link), sizeof(h.link)));
	put_octal(h.mode, sizeof(h.mode), mode);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), size);
	put_octal(h.mtime, sizeof(h.mtime), (uint64_t)mtime);
	put_octal(h.major, sizeof(h.major), 0);
	put_octal(h.minor, sizeof(h.minor), 0);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	put_octal(h.sum, 7, sum);
	return buf_append(out, &h, sizeof(h));
}

int tar_print(const struct tar_entry *e, struct buf *out)
{
	cleanup_buf struct buf pax = BUF_INIT(TAR_PAX_MAX);
	const char *link = e->link.len ? e->link.data : "";
	int r = put_pax(&pax, e);

	if (r == 0)
		r = put_header(out, TAR_PAX, "PaxHeader", "", 0644, pax.len, 0);
	if (r == 0)
		r = buf_append(out, pax.data, pax.len);
	if (r == 0)
		r = put_padding(out);
	return r < 0 ? r
		     : put_header(out, e->type,
				  e->sparse ? "GNUSparseFile.0/file" : e->path.data, link,
				  e->mode, e->size, e->mtime_ns / NS);
}

int tar_print_map(const struct tar_piece *v, size_t n, struct buf *out)
{
	int r = buf_printf(out, "%zu\n", n);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = buf_printf(out, "%" PRIu64 "\n%" PRIu64 "\n", v[i].at, v[i].len);
	return r < 0 ? r : put_padding(out);
}
