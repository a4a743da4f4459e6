/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive - looks into zip, tar and compressed files (libarchive), and into archives in
 * them.
 *
 * What comes out is hostile: entries, bytes, ratio and depth are bounded for the file as
 * a whole, and whatever is beyond a bound, damaged or encrypted is a finding, because it
 * was not looked at.
 */
#include "scan/file.h"

#include "base/buf.h"
#include "base/util.h"

#include <archive.h>
#include <archive_entry.h>

#define BLOCK 65536u
#define INNER_MAX 65536u

struct unpack {
	struct file_scanner *s;
	int depth;
	uint64_t entries, bytes, packed;
	bool over; /* a bound was passed: stop, everywhere */
};

struct input {
	struct archive_source src;
	uint64_t at;
	char block[BLOCK];
};

/* ---- magic ------------------------------------------------------------------------ */

static size_t peek(const struct archive_source *src, uint64_t at, char *buf, size_t n)
{
	ssize_t r;

	if (at >= src->size)
		return 0;
	n = min_size(n, (size_t)(src->size - at));
	if (src->fd < 0) {
		memcpy(buf, src->data + at, n);
		return n;
	}
	r = pread(src->fd, buf, n, (off_t)at);
	return r > 0 ? (size_t)r : 0;
}

/* A zip may have anything in front; its directory is at the end. */
static bool zip_tail(const struct archive_source *src)
{
	char buf[4096];
	uint64_t at = src->size > sizeof(buf) ? src->size - sizeof(buf) : 0;
	size_t n = peek(src, at, buf, sizeof(buf));

	return memmem(buf, n, "PK\5\6", 4) != NULL;
}

bool archive_like(const struct archive_source *src)
{
	static const struct {
		size_t at, len;
		const char *bytes;
	} magic[] = {
		{0,   4, "PK\3\4"          },
		{0,   4, "PK\5\6"          },
		{0,   2, "\x1f\x8b"        },
		{0,   3, "BZh"             },
		{0,   6,
		 "\xfd"
		 "7zXZ\0"                  },
		{0,   4, "\x28\xb5\x2f\xfd"},
		{257, 5, "ustar"           },
	};
	char head[262];
	size_t n = peek(src, 0, head, sizeof(head));

	for (size_t i = 0; i < ARRAY_LEN(magic); i++)
		if (n >= magic[i].at + magic[i].len &&
		    memcmp(head + magic[i].at, magic[i].bytes, magic[i].len) == 0)
			return true;
	return n >= 22 && zip_tail(src);
}

/* ---- libarchive's side ------------------------------------------------------------ */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct input *in = arg;
	size_t n = peek(&in->src, in->at, in->block, sizeof(in->block));

	(void)a;
	in->at += n;
	*ret = in->block;
	return (la_ssize_t)n;
}

static la_int64_t on_skip(struct archive *a, void *arg, la_int64_t n)
{
	struct input *in = arg;

	(void)a;
	if (n < 0 || (uint64_t)n > in->src.size - in->at)
		return 0;
	in->at += (uint64_t)n;
	return n;
}

static la_int64_t on_seek(struct archive *a, void *arg, la_int64_t offset, int whence)
{
	struct input *in = arg;
	int64_t base = whence == SEEK_SET   ? 0
		       : whence == SEEK_CUR ? (int64_t)in->at
					    : (int64_t)in->src.size;

	(void)a;
	if (offset < -base || offset > (int64_t)in->src.size - base)
		return ARCHIVE_FATAL;
	in->at = (uint64_t)(base + offset);
	return (la_int64_t)in->at;
}

static struct archive *open_archive(struct input *in)
{
	struct archive *a = archive_read_new();

	if (!a)
		return NULL;
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_format_tar(a);
	archive_read_support_format_zip(a);
	archive_read_support_format_empty(a);
	archive_read_support_format_raw(a);
	/* Names as the bytes they are: no conversion, no table of characters to load. */
	archive_read_set_read_callback(a, on_read);
	archive_read_set_skip_callback(a, on_skip);
	archive_read_set_seek_callback(a, on_seek);
	archive_read_set_callback_data(a, in);
	if (archive_read_open1(a) == ARCHIVE_OK)
		return a;
	archive_read_free(a);
	return NULL;
}

/* ---- entries ---------------------------------------------------------------------- */

static void too_much(struct unpack *u, const char *why)
{
	if (!u->over)
		file_report(u->s, "archive-limit", why);
	u->over = true;
}

static bool within(struct unpack *u, size_t n)
{
	u->bytes += n;
	if (u->bytes > ARCHIVE_BYTES)
		too_much(u, "unpacks to more than 1 GiB; the rest was not scanned");
	else if (u->bytes > ARCHIVE_RATIO_FROM && u->bytes / ARCHIVE_RATIO > u->packed)
		too_much(u, "unpacks to more than 250 times its size");
	return !u->over;
}

struct entry_source {
	struct unpack *u;
	struct archive *a;
	struct buf keep; /* the whole entry: it may be an archive itself */
	bool spilled;    /* larger than ARCHIVE_NESTED */
};

static ssize_t read_entry(void *arg, char *buf, size_t n)
{
	struct entry_source *e = arg;
	la_ssize_t r;

	if (e->u->over)
		return 0;
	r = archive_read_data(e->a, buf, n);
	if (r < 0)
		return -EIO;
	if (!within(e->u, (size_t)r))
		return 0;
	if (!e->spilled && buf_append(&e->keep, buf, (size_t)r) < 0)
		e->spilled = true;
	return r;
}

static void look(struct unpack *u, const struct archive_source *src);

static void scan_nested(struct unpack *u, struct entry_source *e)
{
	struct archive_source src = {-1, e->keep.data, e->keep.len};

	if (u->over || !e->keep.len || !archive_like(&src))
		return;
	if (e->spilled) {
		too_much(u, "an archive inside is larger than 64 MiB");
		return;
	}
	if (u->depth == ARCHIVE_DEPTH) {
		too_much(u, "archives inside archives, too deep");
		return;
	}
	u->depth++;
	look(u, &src);
	u->depth--;
}

static void scan_entry(struct unpack *u, struct archive *a, struct archive_entry *entry)
{
	struct entry_source e = {.u = u, .a = a, .keep = BUF_INIT(ARCHIVE_NESTED)};
	struct file_scanner *s = u->s;

	engine_file(s->engine, *s->inner ? s->inner : s->path, file_on_found, s);
	if (archive_entry_is_data_encrypted(entry)) {
		file_report(s, "unreadable", "it is encrypted");
		return;
	}
	if (file_stream(s, read_entry, &e) < 0)
		file_report(s, "unreadable", "this part of the archive is damaged");
	scan_nested(u, &e);
	buf_clear(&e.keep);
}

static const char *entry_name(struct archive *a, struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);

	if (archive_format(a) == ARCHIVE_FORMAT_RAW || !name)
		return "";
	return name;
}

/* Zip and tar have names; a file that is only compressed has none. */
static int join_name(struct buf *b, const char *outer, const char *name)
{
	int r = buf_puts(b, outer);

	if (r == 0 && *outer && *name)
		r = buf_puts(b, "!/");
	return r == 0 ? buf_puts(b, name) : r;
}

static bool next_entry(struct unpack *u, struct archive *a, const char *outer)
{
	cleanup_buf struct buf inner = BUF_INIT(INNER_MAX);
	struct file_scanner *s = u->s;
	struct archive_entry *entry;
	int r = archive_read_next_header(a, &entry);

	if (r == ARCHIVE_EOF)
		return false;
	if (r < ARCHIVE_WARN) {
		file_report(s, "unreadable", "the archive is damaged");
		return false;
	}
	if (archive_format(a) == ARCHIVE_FORMAT_RAW &&
	    archive_filter_code(a, 0) == ARCHIVE_FILTER_NONE)
		return false; /* no archive after all: its bytes were scanned as they are
			       */
	if (++u->entries > ARCHIVE_ENTRIES)
		too_much(u, "more than 100000 entries; the rest was not scanned");
	else if (join_name(&inner, outer, entry_name(a, entry)) < 0)
		too_much(u, "a name in it is longer than 64 KiB");
	if (u->over)
		return false;
	s->inner = inner.data ? inner.data : "";
	if (archive_entry_filetype(entry) == AE_IFREG ||
	    archive_format(a) == ARCHIVE_FORMAT_RAW)
		scan_entry(u, a, entry);
	else
		engine_file(s->engine, s->inner, file_on_found, s);
	s->inner = outer;
	return !u->over;
}

static void look(struct unpack *u, const struct archive_source *src)
{
	cleanup_free struct input *in = calloc(1, sizeof(*in));
	const char *outer = u->s->inner; /* lives in the caller's frame */
	struct archive *a;

	if (!in) {
		file_report(u->s, "scan-failed", "not enough memory to look into it");
		return;
	}
	in->src = *src;
	a = open_archive(in);
	if (!a) {
		file_report(u->s, "unreadable", "the archive is damaged");
		return;
	}
	while (next_entry(u, a, outer))
		;
	archive_read_free(a);
}

void archive_look(struct file_scanner *s, const struct archive_source *src)
{
	struct unpack u = {.s = s, .depth = 1, .packed = src->size};

	look(&u, src);
	s->inner = "";
}
