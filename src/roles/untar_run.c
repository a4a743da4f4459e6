/* SPDX-License-Identifier: Apache-2.0 */
/* untar_run - reads a tar file with libarchive, entry by entry. */
#include "roles/untar.h"

#include "base/util.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- the archive ------------------------------------------------------------------ */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct untar *u = arg;
	ssize_t n;

	do
		n = read(u->fd, u->block, sizeof(u->block));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "read");
	*ret = u->block;
	return n;
}

static int open_archive(struct untar *u)
{
	u->a = archive_read_new();
	if (!u->a)
		return -ENOMEM;
	archive_read_support_filter_gzip(u->a);
	archive_read_support_filter_bzip2(u->a);
	archive_read_support_filter_xz(u->a);
	archive_read_support_filter_zstd(u->a);
	archive_read_support_format_tar(u->a);
	/* Names as the bytes they are: no conversion, no table of characters to load. */
	return archive_read_open(u->a, u, NULL, on_read, NULL) == ARCHIVE_OK ? 0
									     : -EBADMSG;
}

/* ---- entries ---------------------------------------------------------------------- */

static int bad(struct untar *u, const char *why)
{
	u->why = why;
	return -EBADMSG;
}

static int clean_path(struct untar *u, const char *path, char out[PATH_MAX])
{
	int r = path ? untar_clean(path, out) : -EINVAL;

	if (r == 0)
		return 0;
	snprintf(u->item.path, sizeof(u->item.path), "%s", path ? path : "");
	return bad(u, r == -ENAMETOOLONG ? "a path that is too long"
		      : path             ? "a path with '..' in it"
					 : "an entry without a name");
}

static int take_link(struct untar *u, struct archive_entry *e)
{
	struct item *item = &u->item;
	const char *hard = archive_entry_hardlink(e);
	const char *text = archive_entry_symlink(e);

	item->link[0] = '\0';
	if (hard) {
		item->type = 0;
		return clean_path(u, hard, item->link);
	}
	if (item->type != S_IFLNK)
		return 0;
	if (!text || !*text || strlen(text) >= sizeof(item->link))
		return bad(u, "a symlink that leads nowhere");
	memcpy(item->link, text, strlen(text) + 1);
	return 0;
}

static int take_entry(struct untar *u, struct archive_entry *e)
{
	struct item *item = &u->item;
	la_int64_t size = archive_entry_size(e);

	item->type = archive_entry_filetype(e);
	item->mode = archive_entry_mode(e);
	item->seconds = archive_entry_mtime(e);
	item->nanoseconds = archive_entry_mtime_nsec(e);
	item->size = size > 0 ? (uint64_t)size : 0;
	if (clean_path(u, archive_entry_pathname(e), item->path) < 0 ||
	    take_link(u, e) < 0)
		return -EBADMSG;
	return 0;
}

static bool is_device(const struct item *item)
{
	return item->type == S_IFCHR || item->type == S_IFBLK || item->type == S_IFSOCK;
}

/* 0, 1: the end of the archive, or -errno. */
static int one_entry(struct untar *u)
{
	struct archive_entry *e;
	int r = archive_read_next_header(u->a, &e);

	if (r == ARCHIVE_EOF)
		return 1;
	/* a warning is about names that are no UTF-8, times out of range and the like */
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return -EBADMSG;
	r = take_entry(u, e);
	if (r < 0)
		return r;
	/* What an archive says of itself costs time and memory as well. */
	if ((uint64_t)archive_filter_bytes(u->a, 0) > u->bytes_max ||
	    u->item.size > u->bytes_max)
		return -EFBIG;
	if (is_device(&u->item)) {
		u->devices++;
		return 0;
	}
	u->entries += u->item.path[0] != '\0';
	return tree_make(&u->tree, &u->item, u->a);
}

int untar_run(struct untar *u)
{
	int r = open_archive(u);

	while (r == 0)
		r = one_entry(u);
	if (r < 0)
		return r;
	u->item.path[0] = '\0';
	if (!u->entries)
		return bad(u, "there is nothing in it");
	return tree_finish(&u->tree);
}
