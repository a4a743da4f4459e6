/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive_import - a sandbox from an archive, which may be anybody's work.
 *
 * Its bytes are read by cove-unpack, which can do nothing but make files in one empty
 * directory; what it leaves there is looked at here like any other foreign input. The
 * directory becomes the record of the new sandbox by one rename, at the very end.
 */
#include "core/archive.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/box.h"
#include "core/clone.h"
#include "core/snapshot_impl.h"
#include "core/store_impl.h"
#include "os/program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define REPORT_MAX 1024

/* ---- the role ------------------------------------------------------------------- */

/* Its text names paths of the archive: nothing in it may drive a terminal. */
static int unpack_failed(int report, int status, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(REPORT_MAX);

	read_fd(report, &text);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] < 0x20 || text.data[i] == 0x7f)
			text.data[i] = '?';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		return fail(err, COVE_EIO, 0, "%s", text.len ? text.data : "unpack");
	fail(err, COVE_EDAMAGED, 0, "the archive: %s",
	     text.len ? text.data : "its reader was killed");
	return hint(err, "only archives that 'cove export' wrote can be imported");
}

static int unpack(int fd, int dir, struct cove_error *err)
{
	static _Thread_local char cache[PATH_MAX];
	const char *file = program_find(cache, "cove-unpack", "COVE_UNPACK", err);
	int p[2], status = -1, r;
	pid_t pid = 0;

	if (!file)
		return err->code;
	if (pipe2(p, O_CLOEXEC) < 0)
		return fail(err, COVE_EIO, errno, "pipe");
	cleanup_fd int report = p[0];
	cleanup_fd int out = p[1];
	/* 0: the archive, 1: its report, 3: the directory; nothing else. */
	r = program_spawn(file, "cove-unpack", (const int[]){fd, out, -1, dir}, &pid);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "start %s", file);
	close_fd(&out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0
		       ? 0
		       : unpack_failed(report, status, err);
}

/* ---- what it left --------------------------------------------------------------- */

static int read_meta(int dir, char name[SPEC_NAME_MAX + 1], struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(65536);
	json_error_t je;
	int r = read_file_at(dir, ARCHIVE_META, &text);
	json_t *j = r == 0 && text.data ? json_loads(text.data, 0, &je) : NULL;
	const char *is = json_string_value(json_object_get(j, "name"));
	json_int_t format = json_integer_value(json_object_get(j, "format"));

	if (format == ARCHIVE_FORMAT && is && spec_name_ok(is))
		snprintf(name, SPEC_NAME_MAX + 1, "%s", is);
	else if (format > ARCHIVE_FORMAT)
		r = fail(err, COVE_EUNSUPPORTED, 0, "the archive is of a newer cove");
	else
		r = fail(err, COVE_EDAMAGED, 0, "the archive: %s is damaged",
			 ARCHIVE_META);
	json_decref(j);
	unlinkat(dir, ARCHIVE_META, 0);
	return r < 0 ? err->code : 0;
}

static int read_spec(int dir, struct spec *ret, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	int r = read_file_at(dir, ARCHIVE_SPEC, &text);

	if (r < 0)
		return fail(err, COVE_EDAMAGED, -r, "the archive: %s", ARCHIVE_SPEC);
	spec_init(ret);
	r = spec_parse(ret, text.data ? text.data : "", text.len, ARCHIVE_SPEC, &problems,
		       err);
	if (r == 0)
		return 0;
	spec_clear(ret);
	err->code = COVE_EDAMAGED;
	return wrap(err, "the archive");
}

/* Every snapshot must have a name and a description that can be used. */
static int check_snapshots(int dir, struct cove_error *err)
{
	int fd = openat(dir, SNAPSHOTS, OPEN_DIR), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		closep(&fd);
		return 0;
	}
	while (r == 0 && (e = readdir(d))) {
		json_t *meta;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		cleanup_fd int one = openat(dirfd(d), e->d_name, OPEN_DIR);
		meta = one < 0 || !spec_name_ok(e->d_name)
			       ? NULL
			       : snapshot_load_meta(one, e->d_name, err);
		if (!meta)
			r = fail(err, COVE_EDAMAGED, 0,
				 "the archive: a snapshot is damaged");
		json_decref(meta);
	}
	closedir(d);
	return r;
}

/* ---- the spec of the new sandbox ------------------------------------------------ */

/* The only overlay of each spec, for which the other has no mount at the same place: the
 * project has another path here. The working directory moves with it. */
static int move_workdir(const struct spec *from, struct spec *to, const int *layer,
			struct cove_error *err)
{
	for (size_t i = 0; i < to->n_mounts; i++)
		for (size_t k = 0; layer[i] >= 0 && k < from->n_mounts; k++) {
			const char *old = from->mounts[k].target, *dir = to->exec.workdir;
			char path[2 * SPEC_STR_MAX];

			if (spec_layer_number(from, k) != layer[i] || !old || !dir ||
			    strcmp(old, to->mounts[i].target) == 0 ||
			    !spec_path_below(dir, old))
				continue;
			snprintf(path, sizeof(path), "%s%s", to->mounts[i].target,
				 dir + strlen(old));
			return spec_set(to, "exec.workDir", path, err);
		}
	return 0;
}

static int explain_mounts(const struct spec *s, struct cove_error *err)
{
	struct stat st;

	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct spec_mount *m = &s->mounts[i];

		if (m->mode == MOUNT_VOLUME || stat(m->source, &st) == 0)
			continue;
		fail(err, COVE_EINVAL, errno, "the archive mounts %s", m->source);
		return hint(err, "say where it is here: --mount DIR:%s",
			    m->mode == MOUNT_OVERLAY ? "overlay"
			    : m->mode == MOUNT_COPY  ? "copy"
			    : m->mode == MOUNT_RW    ? "rw"
						     : "ro");
	}
	return err->code;
}

/* An archive is somebody's word: write access to a directory of this host is the user's
 * to give, not the archive's. */
static int refuse_live_mounts(const struct spec *to, const struct spec *changes,
			      struct cove_error *err)
{
	for (size_t i = 0; i < to->n_mounts; i++) {
		const struct spec_mount *m = &to->mounts[i];
		bool named = false;

		for (size_t k = 0; changes && k < changes->n_mounts; k++)
			named |= changes->mounts[k].mode == MOUNT_RW;
		if (m->mode != MOUNT_RW || named)
			continue;
		fail(err, COVE_EDENIED, 0, "the archive wants to write to %s", m->source);
		return hint(err,
			    "--mount DIR:overlay or --mount DIR:rw says what it may");
	}
	return 0;
}

/* Nor may it help itself to the user's secrets, or run a command for one. */
static int refuse_secrets(const struct spec *from, const struct spec *changes,
			  struct cove_error *err)
{
	const json_t *first = json_array_get(from->secrets, 0);
	const char *name = json_string_value(json_object_get(first, "name"));

	if (!name || (changes && json_array_size(changes->secrets)))
		return 0;
	fail(err, COVE_EDENIED, 0, "the archive wants to use secret %s", name);
	return hint(err, "--secret NAME@HOST,... says which it may use, and where");
}

static void drop_unmatched(int dir, const struct spec *to, const int *layer)
{
	for (int number = 0; number < 10 * SPEC_LIST_MAX; number++) {
		char unit[16];
		bool used = false;

		for (size_t i = 0; i < to->n_mounts; i++)
			used |= layer[i] == number;
		snprintf(unit, sizeof(unit), "m%d", number);
		if (!used)
			remove_tree_at(dir, unit);
	}
}

static int fit_spec(struct store *st, int dir, const char *name,
		    const struct spec *changes, struct cove_error *err)
{
	int layer[SPEC_LIST_MAX];
	struct spec from, to;
	int r = read_spec(dir, &from, err);

	if (r < 0)
		return r;
	r = clone_spec(st, &from, name, changes, &to, err);
	if (r < 0) {
		if (r == COVE_EINVAL && !changes)
			explain_mounts(&from, err);
		spec_clear(&from);
		return err->code;
	}
	layers_match(&from, &to, layer, true);
	r = refuse_live_mounts(&to, changes, err);
	if (r == 0)
		r = refuse_secrets(&from, changes, err);
	if (r == 0)
		r = layers_check_dropped(&from, &to, layer, dir, err);
	if (r == 0)
		r = move_workdir(&from, &to, layer, err);
	if (r == 0) {
		drop_unmatched(dir, &to, layer);
		r = store_write_spec(dir, &to, 0, err);
	}
	spec_clear(&from);
	spec_clear(&to);
	return r;
}

/* ---- all of it ------------------------------------------------------------------ */

static int fill(struct store *st, int dir, int fd, const char *name,
		const struct spec *changes, char ret_name[SPEC_NAME_MAX + 1],
		struct cove_error *err)
{
	if (unpack(fd, dir, err) < 0 || read_meta(dir, ret_name, err) < 0 ||
	    check_snapshots(dir, err) < 0)
		return err->code;
	if (name)
		snprintf(ret_name, SPEC_NAME_MAX + 1, "%.*s", SPEC_NAME_MAX, name);
	if (fit_spec(st, dir, name ? name : ret_name, changes, err) < 0)
		return err->code;
	return sync_all(dir, err);
}

int archive_import(struct store *st, const char *name, int fd, const struct spec *changes,
		   char ret_name[SPEC_NAME_MAX + 1], struct cove_error *err)
{
	char tmp[48];
	int r;

	snprintf(tmp, sizeof(tmp), ".new-import-%d", (int)getpid());
	if (mkdirat(st->boxes, tmp, 0700) < 0)
		return fail(err, COVE_EIO, errno, "make a directory to unpack in");
	cleanup_fd int dir = openat(st->boxes, tmp, OPEN_DIR);
	r = dir < 0 ? fail(err, COVE_EIO, errno, "open a directory to unpack in")
		    : fill(st, dir, fd, name, changes, ret_name, err);
	if (r == 0 && store_rename_new(st->boxes, tmp, ret_name) < 0)
		r = errno == EEXIST
			    ? fail(err, COVE_EEXIST, 0, "%s exists already", ret_name)
			    : fail(err, COVE_EIO, errno, "create %s", ret_name);
	if (r < 0) {
		remove_tree_at(st->boxes, tmp);
		return r;
	}
	if (fsync(st->boxes) < 0)
		return fail(err, COVE_EIO, errno, "sync %s", ret_name);
	return audit_log(st, ret_name, "import", NULL, err);
}
