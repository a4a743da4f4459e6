/* SPDX-License-Identifier: Apache-2.0 */
/* archive_export - which files of a sandbox go into its archive, and in which order. */
#include "core/archive.h"

#include "base/io.h"
#include "base/util.h"
#include "core/archive_out.h"
#include "core/audit.h"
#include "core/snapshot_impl.h"
#include "core/store_impl.h"
#include "os/treewalk.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct export
{
	struct archive_out *a;
	struct cut *c;
	char prefix[400]; /* "m0", "snapshots/TAG/m0", ... */
	const char *unit; /* its name, without what is before it */
	struct buf path;
	uint64_t paths;
};

/* What is of use only on this host, or to the kernel. */
static bool left_out(const char *unit, const char *path)
{
	static const char *const names[] = {"work", "ledger", "blobs"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i]);

		if (cut_hollow(unit) && strncmp(path, names[i], n) == 0 &&
		    (path[n] == '\0' || path[n] == '/'))
			return true;
	}
	return false;
}

static int put_entry(void *arg, const struct tree_entry *e)
{
	struct export *x = arg;
	int r;

	if (left_out(x->unit, e->path))
		return e->fd >= 0 ? TREE_HOLLOW : 0;
	x->path.len = 0;
	r = buf_puts(&x->path, x->prefix);
	if (r == 0 && e->path_len)
		r = buf_printf(&x->path, "/%s", e->path);
	if (r == 0)
		r = archive_put_path(x->a, x->path.data, e->dir, e->name, e->fd, e->st);
	x->paths++;
	return r;
}

static int leave(void *arg, const struct tree_entry *e)
{
	(void)arg;
	(void)e;
	return 0;
}

static int put_tree(struct export *x, int dir, struct cove_error *err)
{
	static const struct tree_ops ops = {put_entry, leave, put_entry};
	cleanup_buf struct buf where = BUF_INIT(TREE_PATH_MAX);
	int r = tree_walk(dir, &ops, x, &where);

	return r < 0 ? fail(err, COVE_EIO, -r, "archive %s/%.300s", x->prefix,
			    where.data ? where.data : "")
		     : 0;
}

struct unit_place {
	struct export *x;
	int files;
	const char *below; /* "" or "snapshots/TAG/" */
};

static int put_unit(void *arg, const char *unit, struct cove_error *err)
{
	struct unit_place *p = arg;
	cleanup_fd int dir = openat(p->files, unit, OPEN_DIR);

	if (dir < 0)
		return fail(err, COVE_EIO, errno, "open %s", unit);
	snprintf(p->x->prefix, sizeof(p->x->prefix), "%s%s", p->below, unit);
	p->x->unit = unit;
	return put_tree(p->x, dir, err);
}

static int put_units(struct export *x, int files, const char *below,
		     struct cove_error *err)
{
	struct unit_place p = {x, files, below};

	return cut_each_unit(files, put_unit, &p, err);
}

/* A directory of which only the shell is wanted. */
static int put_dir(struct export *x, int dir, const char *path, struct cove_error *err)
{
	struct stat st;
	int r = fstat(dir, &st) < 0 ? -errno
				    : archive_put_path(x->a, path, -1, path, dir, &st);

	return r < 0 ? fail(err, COVE_EIO, -r, "archive %s", path) : 0;
}

/* ---- snapshots ------------------------------------------------------------------ */

static int put_snapshot(struct export *x, int snapshots, const char *tag,
			struct cove_error *err)
{
	cleanup_buf struct buf meta = BUF_INIT(META_MAX);
	char path[320], below[320];
	cleanup_fd int dir = openat(snapshots, tag, OPEN_DIR);
	int r;

	if (dir < 0)
		return fail(err, COVE_EIO, errno, "snapshot %s", tag);
	snprintf(path, sizeof(path), SNAPSHOTS "/%s", tag);
	if (put_dir(x, dir, path, err) < 0)
		return err->code;
	snprintf(path, sizeof(path), SNAPSHOTS "/%s/" SNAPSHOT_META, tag);
	r = read_file_at(dir, SNAPSHOT_META, &meta);
	if (r == 0)
		r = archive_put_text(x->a, path, meta.data ? meta.data : "");
	if (r < 0)
		return fail(err, COVE_EIO, -r, "snapshot %s", tag);
	snprintf(below, sizeof(below), SNAPSHOTS "/%s/", tag);
	if (put_units(x, dir, below, err) < 0)
		return err->code;
	cleanup_fd int volumes = openat(dir, "volumes", OPEN_DIR);
	if (volumes < 0)
		return errno == ENOENT ? 0 : fail(err, COVE_EIO, errno, "volumes");
	snprintf(x->prefix, sizeof(x->prefix), SNAPSHOTS "/%s/volumes", tag);
	x->unit = "volumes";
	return put_tree(x, volumes, err);
}

static int put_snapshots(struct export *x, struct cove_error *err)
{
	int fd = openat(x->c->record, SNAPSHOTS, OPEN_DIR), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		closep(&fd);
		return fd < 0 && errno == ENOENT ? 0
						 : fail(err, COVE_EIO, errno, SNAPSHOTS);
	}
	r = put_dir(x, dirfd(d), SNAPSHOTS, err);
	while (r == 0 && (e = readdir(d)))
		if (spec_name_ok(e->d_name))
			r = put_snapshot(x, dirfd(d), e->d_name, err);
	closedir(d);
	return r;
}

/* ---- all of it ------------------------------------------------------------------ */

static int put_json(struct export *x, const char *path, json_t *j, struct cove_error *err)
{
	char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
	int r;

	json_decref(j);
	if (!text)
		return fail_nomem(err);
	r = archive_put_text(x->a, path, text);
	free(text);
	return r < 0 ? fail(err, COVE_EIO, -r, "archive %s", path) : 0;
}

static int put_all(struct export *x, int files, struct cove_error *err)
{
	json_t *meta = json_pack("{s:i, s:s, s:s, s:I}", "format", ARCHIVE_FORMAT, "name",
				 x->c->name, "version", COVE_VERSION, "time",
				 (json_int_t)time(NULL));
	int r;

	if (put_json(x, ARCHIVE_META, meta, err) < 0 ||
	    put_json(x, ARCHIVE_SPEC, spec_json(&x->c->spec, true), err) < 0 ||
	    put_units(x, files, "", err) < 0 || put_snapshots(x, err) < 0)
		return err->code;
	r = archive_put_end(x->a);
	return r < 0 ? fail(err, COVE_EIO, -r, "write the archive") : 0;
}

/* A running sandbox must not wait for whoever reads the archive: its files are copied
 * first, and it goes on. */
static int put_running(struct export *x, struct cove_error *err)
{
	struct copytree t = {.tick = cut_tick, .arg = x->c};
	char tmp[48];
	int r;

	cleanup_fd int parent = snapshots_dir(x->c->record, true, err);
	if (parent < 0)
		return parent;
	snprintf(tmp, sizeof(tmp), ".new-export-%d", (int)getpid());
	if (mkdirat(parent, tmp, 0700) < 0)
		return fail(err, COVE_EIO, errno, "copy for the archive");
	cleanup_fd int dir = openat(parent, tmp, OPEN_DIR);
	r = dir < 0 ? fail(err, COVE_EIO, errno, "copy for the archive")
		    : cut_copy_units(&t, x->c->files, dir, err);
	if (r == 0)
		r = cut_release(x->c, err);
	if (r == 0)
		r = put_all(x, dir, err);
	remove_tree_at(parent, tmp);
	return r;
}

int archive_export(struct cut *c, int fd, struct cove_error *err)
{
	struct archive_out a;
	struct export x = {.a = &a, .c = c};
	int r;

	archive_out_init(&a, fd);
	buf_init(&x.path, TREE_PATH_MAX);
	r = c->keeper ? put_running(&x, err) : put_all(&x, c->files, err);
	if (r == 0)
		r = audit_log(c->store, c->name, "export",
			      json_pack("{s:I}", "paths", (json_int_t)x.paths), err);
	buf_clear(&x.path);
	archive_out_clear(&a);
	return r;
}
