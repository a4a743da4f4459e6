/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rebase - takes out of an upper layer what the host has by now, so that it no longer
 * shows as a change and the sandbox sees the host's file again.
 *
 * Only while the overlay is not mounted: its kernel side does not expect changes below
 * its feet. A directory that hides what is below it (opaque) stops hiding once nothing is
 * hidden by it that was not deleted on the host as well; while it still hides something,
 * the files in it must stay, and the ledger remembers them as applied.
 */
#include "work/apply_impl.h"

#include "base/util.h"
#include "work/attrs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define OPAQUE "user.overlay.opaque"

bool upper_is_opaque(int dir)
{
	char value[2];

	return fgetxattr(dir, OPAQUE, value, sizeof(value)) == 1 && value[0] == 'y';
}

static int open_dir(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Would the host's directory show anything that the upper one has no word about? */
static bool covers(int upper, int lower, int depth)
{
	int fd = depth < CHANGE_DEPTH_MAX ? open_dir(lower, ".") : -1;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool whole = d != NULL;
	struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (whole && (e = readdir(d))) {
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		whole = fstatat(upper, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
		if (!whole || !S_ISDIR(st.st_mode))
			continue;
		cleanup_fd int up = open_dir(upper, e->d_name);
		cleanup_fd int low = open_dir(lower, e->d_name);
		if (up >= 0 && low >= 0 && !upper_is_opaque(up))
			whole = covers(up, low, depth + 1);
		else
			whole = up >= 0;
	}
	if (d)
		closedir(d);
	return whole;
}

/* An opaque directory at path stops hiding, if that changes nothing but who has the
 * files.
 */
static void unhide(const struct layer *l, const char *path)
{
	cleanup_fd int up = open_beneath(l->upper, path, O_RDONLY | O_DIRECTORY);

	if (up < 0 || !upper_is_opaque(up))
		return;
	cleanup_fd int low = open_beneath(l->lower, path, O_RDONLY | O_DIRECTORY);
	if (low >= 0 && covers(up, low, 0))
		fremovexattr(up, OPAQUE);
}

/* Each directory on the way to path that was not on the way to `last`. */
static void unhide_way(const struct layer *l, char *path, const char *last, bool itself)
{
	size_t same = 0;

	while (path[same] && path[same] == last[same])
		same++;
	for (size_t i = 0;; i++) {
		char c = path[i];

		if ((c != '/' && c) || (i < same && c))
			continue;
		if (!c && !itself)
			break;
		path[i] = '\0';
		unhide(l, path);
		path[i] = c;
		if (!c)
			break;
	}
}

/* Does a directory above path hide what is below it? */
static bool below_opaque(const struct layer *l, const char *path)
{
	cleanup_free char *way = strdup(path);
	bool hidden = false;

	for (char *slash = way ? strrchr(way, '/') : NULL; slash && !hidden;
	     slash = strrchr(way, '/')) {
		*slash = '\0';
		cleanup_fd int up = open_beneath(l->upper, way, O_RDONLY | O_DIRECTORY);
		hidden = up >= 0 && upper_is_opaque(up);
	}
	return hidden || !way;
}

/* The directory of the path at hand; its neighbours share it. */
struct spot {
	int parent; /* -errno: it is gone */
	bool hidden;
};

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Same mode and owner as the host's: then an empty one says nothing. */
static bool says_nothing(const struct layer *l, const char *path, int parent,
			 const char *name)
{
	struct ident up, low;

	cleanup_fd int fd = open_dir(parent, name);
	return fd >= 0 && !upper_is_opaque(fd) && ident_at(parent, name, &up) == 0 &&
	       ident_at(l->lower, path, &low) == 0 && up.mode == low.mode &&
	       up.uid == low.uid && up.gid == low.gid;
}

/* Is what lies in the upper layer what was applied? */
static bool is_applied(const struct step *s, const struct stat *st)
{
	struct ident now;

	ident_from(&now, st);
	if (!s->upper.mode || is_whiteout(st))
		return !s->upper.mode && is_whiteout(st);
	return S_ISDIR(st->st_mode) ? S_ISDIR(s->upper.mode)
				    : ident_same_file(&now, &s->upper);
}

/* 1: it stays, because a directory above it hides the host's. */
static int let_go(const struct layer *l, const struct step *s, const struct spot *at)
{
	const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;
	int parent = at->parent;
	struct stat st;

	if (parent < 0 || fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* gone, or part of a directory that is */
	if (!is_applied(s, &st))
		return 0; /* written to since: a change of its own */
	if (at->hidden)
		return 1;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(parent, name, 0) < 0 ? -errno : 0;
	if (says_nothing(l, s->path, parent, name) &&
	    unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
	    errno != EEXIST)
		return -errno;
	return 0;
}

/* Directories that were there only for what was in them. */
static void prune(const struct layer *l, char *path)
{
	for (char *slash = strrchr(path, '/'); slash; slash = strrchr(path, '/')) {
		const char *name;

		*slash = '\0';
		cleanup_fd int parent = open_parent(l->upper, path, &name);
		if (parent < 0 || !says_nothing(l, path, parent, name) ||
		    unlinkat(parent, name, AT_REMOVEDIR) < 0)
			return;
	}
}

static int by_path(const void *a, const void *b)
{
	const struct step *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

static bool same_parent(const char *a, const char *b)
{
	const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
	size_t n = x ? (size_t)(x - a) : 0, m = y ? (size_t)(y - b) : 0;

	return n == m && strncmp(a, b, n) == 0;
}

static int remember(const struct layer *l, struct ledger *g, const struct step *s,
		    struct cove_error *err)
{
	struct ident host;
	int r = ident_at(l->lower, s->path, &host);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", s->path);
	return ledger_set_applied(g, s->path, &host, &s->upper, NULL, 0, err);
}

static int let_all_go(const struct layer *l, struct ledger *g, const struct step **v,
		      size_t n, struct cove_error *err)
{
	struct spot at = {.parent = -1};
	int r = 0;

	for (size_t i = n; r >= 0 && i-- > 0;) {
		const char *name;

		if (i == n - 1 || !same_parent(v[i]->path, v[i + 1]->path)) {
			close_fd(&at.parent);
			at.parent = open_parent(l->upper, v[i]->path, &name);
			at.hidden = below_opaque(l, v[i]->path);
		}
		r = let_go(l, v[i], &at);
		if (r == 1)
			r = remember(l, g, v[i], err);
		else if (r == 0)
			ledger_forget(g, v[i]->path);
		else
			fail(err, COVE_EIO, -r, "upper layer: %s", v[i]->path);
		if (r >= 0 && (i == 0 || !same_parent(v[i]->path, v[i - 1]->path))) {
			cleanup_free char *path = strdup(v[i]->path);

			if (path)
				prune(l, path);
		}
	}
	close_fd(&at.parent);
	return r < 0 ? err->code : 0;
}

int rebase_paths(const struct layer *l, struct ledger *g, const struct step *const *steps,
		 size_t n, struct cove_error *err)
{
	cleanup_free const struct step **v = calloc(n + 1, sizeof(*v));
	const char *last = "";

	if (!v)
		return fail_nomem(err);
	if (n)
		memcpy(v, steps, n * sizeof(*v));
	qsort(v, n, sizeof(*v), by_path);
	for (size_t i = 0; i < n; i++) {
		unhide_way(l, v[i]->path, last, S_ISDIR(v[i]->upper.mode));
		last = v[i]->path;
	}
	return let_all_go(l, g, v, n, err);
}

/* What was deleted since without a trace gets its whiteout: from the next mount on the
 * host's file would show again. */
static int mark_gone(const struct layer *l, struct ledger *g, struct cove_error *err)
{
	for (size_t i = 0; i < ledger_count(g); i++) {
		const struct ledger_entry *e = ledger_at(g, i);
		struct ident host;
		const char *name;

		if (!ledger_is_gone(e, l, &host))
			continue;
		cleanup_fd int parent = open_parent(l->upper, e->path, &name);
		if (parent < 0) /* a directory above it is gone as well */
			continue;
		if (mknodat(parent, name, S_IFCHR, makedev(0, 0)) < 0 && errno != EEXIST)
			return fail(err, COVE_EIO, errno, "upper layer: %s", e->path);
		cleanup_free char *path = strdup(e->path);
		if (!path)
			return fail_nomem(err);
		if (ledger_set_applied(g, path, &host, &ledger_only_base, NULL, 0, err) <
		    0)
			return err->code;
	}
	return 0;
}

/* What was applied while the sandbox ran. */
static int rebase_layer(const struct layer *l, struct ledger *g, struct cove_error *err)
{
	size_t n = ledger_count(g), k = 0;
	cleanup_free struct step *v = calloc(n + 1, sizeof(*v));
	cleanup_free const struct step **list = calloc(n + 1, sizeof(*list));
	int r;

	if (!v || !list)
		return fail_nomem(err);
	for (size_t i = 0; i < n; i++) {
		const struct ledger_entry *e = ledger_at(g, i);
		struct ident upper;
		char *path;

		if (e->kind != LEDGER_APPLIED || ident_at(l->upper, e->path, &upper) < 0)
			continue;
		if (S_ISCHR(upper.mode))
			upper.mode = 0;
		path = ledger_has_landed(g, e->path, &upper) ? strdup(e->path) : NULL;
		if (!path)
			continue;
		v[k] = (struct step){.kind = STEP_SAME, .whole = true, .upper = e->upper};
		v[k].path = path;
		list[k] = &v[k];
		k++;
	}
	r = rebase_paths(l, g, list, k, err);
	for (size_t i = 0; i < k; i++)
		free(v[i].path);
	return r;
}

int work_rebase(const struct work *w, struct cove_error *err)
{
	for (size_t i = 0; i < w->layers->n; i++) {
		const struct layer *l = &w->layers->v[i];

		if (l->upper < 0 || !ledger_count(w->ledgers[i]))
			continue;
		if (mark_gone(l, w->ledgers[i], err) < 0 ||
		    rebase_layer(l, w->ledgers[i], err) < 0 ||
		    ledger_save(w->ledgers[i], err) < 0)
			return err->code;
	}
	return 0;
}
