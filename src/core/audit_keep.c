/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_keep - the logs of removed sandboxes, in HOME/audit/NAME-TIME/.
 *
 * The files get a second name there before the record goes; whatever is cut off, at least
 * one of the two names leads to the whole log. The newest AUDIT_REMOVED_MAX are kept.
 */
#include "core/audit_impl.h"
#include "core/store_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define KEPT "audit"

/* ---- which are there ------------------------------------------------------------- */

struct kept_list {
	char **v;
	size_t n;
};

static void list_clear(struct kept_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

static int by_stamp(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	int c = strcmp(store_kept_stamp(*x, NULL), store_kept_stamp(*y, NULL));

	return c ? c : strcmp(*x, *y);
}

/* name: NULL for all. Oldest first. */
static int list_kept(int kept, const char *name, struct kept_list *ret)
{
	int fd = openat(kept, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	*ret = (struct kept_list){.n = 0};
	if (!d) {
		close_fd(&fd);
		return -errno;
	}
	while (r == 0 && (e = readdir(d))) {
		char **more;

		if (!store_kept_stamp(e->d_name, name))
			continue;
		more = realloc(ret->v, (ret->n + 1) * sizeof(*more));
		if (more)
			ret->v = more;
		if (more && (more[ret->n] = strdup(e->d_name)))
			ret->n++;
		else
			r = -ENOMEM;
	}
	closedir(d);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_stamp);
	return r;
}

static void prune(int kept)
{
	struct kept_list l;

	if (list_kept(kept, NULL, &l) == 0)
		for (size_t i = 0; i + AUDIT_REMOVED_MAX < l.n; i++)
			remove_tree_at(kept, l.v[i]);
	list_clear(&l);
}

/* ---- keeping --------------------------------------------------------------------- */

/* A second name for every file of the log. */
static int link_files(int record, int place)
{
	char name[32];
	int r = 0;

	for (int i = -1; r == 0 && i < AUDIT_FILES; i++) {
		if (i < 0)
			snprintf(name, sizeof(name), "%s", AUDIT_HEAD);
		else
			audit_file_name(i, name, sizeof(name));
		/* where there are no hard links, or it is no file, it is moved */
		if (linkat(record, name, place, name, 0) < 0 && errno != ENOENT &&
		    renameat(record, name, place, name) < 0)
			r = -errno;
	}
	if (r == 0 && fsync(place) < 0)
		r = -errno;
	return r;
}

static int keep_files(struct store *st, const char *name)
{
	char hidden[SPEC_NAME_MAX + 40];
	cleanup_fd int record =
		openat(st->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_fd int kept = record < 0 ? -1 : store_kept_open(st, KEPT, true);
	struct stat has;
	int r;

	if (record < 0)
		return -errno;
	if (fstatat(record, AUDIT_LOG, &has, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (kept < 0)
		return kept;
	r = store_kept_make(kept, ".", name, hidden, sizeof(hidden));
	if (r < 0)
		return r;
	cleanup_fd int place =
		openat(kept, hidden, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = place < 0 ? -errno : link_files(record, place);
	if (r == 0 && renameat(kept, hidden, kept, hidden + 1) < 0)
		r = -errno;
	if (r < 0)
		remove_tree_at(kept, hidden);
	else
		fsync(kept);
	prune(kept);
	return r;
}

int audit_keep(struct store *st, const char *name, struct cove_error *err)
{
	struct cove_error ignored = {0};
	int r;

	/* On a full disk removing must work; the log is kept then without its last word.
	 */
	audit_log(st, name, "removed", json_pack("{s:i}", "uid", (int)getuid()),
		  &ignored);
	r = keep_files(st, name);
	if (r < 0) {
		fail(err, COVE_EIO, -r, "%s: keep its audit log in %s/%s", name, st->home,
		     KEPT);
		return hint(err, "nothing was removed");
	}
	return 0;
}

void audit_swept(struct store *st, const char *name)
{
	static const char *const traces[] = {"s", "spec.json"};
	struct cove_error ignored = {0};
	char path[SPEC_NAME_MAX + 16];
	struct stat has;
	bool ran = false;

	for (size_t i = 0; i < ARRAY_LEN(traces); i++) {
		snprintf(path, sizeof(path), "%s/%s", name, traces[i]);
		ran |= fstatat(st->run_fd, path, &has, AT_SYMLINK_NOFOLLOW) == 0;
	}
	if (ran && store_exists(st, name))
		audit_log(st, name, "stop",
			  json_pack("{s:s}", "reason", "its keeper was killed"),
			  &ignored);
}

int audit_find(struct store *st, const char *name, int *ret_dir, struct cove_error *err)
{
	struct kept_list l = {.n = 0};
	int fd = -1;

	if (!spec_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "'%.80s' is not a name", name);
	fd = openat(st->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		cleanup_fd int kept = store_kept_open(st, KEPT, false);

		if (kept >= 0 && list_kept(kept, name, &l) == 0 && l.n)
			fd = openat(kept, l.v[l.n - 1],
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		else
			errno = ENOENT;
		list_clear(&l);
	}
	if (fd < 0 && errno == ENOENT) {
		fail(err, COVE_ENOENT, 0,
		     "no sandbox named %s, nor a log of a removed one", name);
		return hint(err, "'cove ls' shows what there is");
	}
	if (fd < 0)
		return fail(err, COVE_EIO, errno, "audit log of %s", name);
	*ret_dir = fd;
	return 0;
}
