/* SPDX-License-Identifier: Apache-2.0 */
/*
 * undo - the last apply, backwards: the host gets its old files back, and the sandbox its
 * changes.
 *
 * While the sandbox runs its upper layer cannot be written: then undo works only if the
 * changes are still there, which they are when they were applied during this run.
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "os/copytree.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* ---- the sandbox's side --------------------------------------------------------- */

/* What is made in the upper layer is made beside it first, and gets its name there when
 * it is complete: cut off in between, nothing half-made is taken for the sandbox's work.
 */
#define PART ".part"

static int put_dir(const struct layer *l, int parent, const char *name,
		   const struct ident *like)
{
	int r = remove_tree_at(l->dir, PART);

	if (r < 0)
		return r;
	if (mkdirat(l->dir, PART, 0700) < 0)
		return -errno;
	if (geteuid() == 0 &&
	    fchownat(l->dir, PART, like->uid, like->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (fchmodat(l->dir, PART, like->mode & 01777, 0) < 0)
		return -errno;
	return rename_at(l->dir, PART, parent, name, RENAME_NOREPLACE);
}

/* A directory of the upper layer like the host's, unless there is something. */
static int make_dir(const struct layer *l, const char *path, int parent, const char *name)
{
	struct ident host, up;
	int r = ident_at(parent, name, &up);

	if (r < 0 || up.mode)
		return r;
	r = ident_at(l->lower, path, &host);
	if (r < 0)
		return r;
	if (!host.mode)
		host = (struct ident){
			.mode = S_IFDIR | 0755, .uid = geteuid(), .gid = getegid()};
	return put_dir(l, parent, name, &host);
}

/* Makes the directories on the way to path in the upper layer. */
static int make_way(const struct layer *l, char *path)
{
	int r = 0;

	for (char *slash = strchr(path, '/'); r == 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		const char *name;

		*slash = '\0';
		cleanup_fd int parent = open_parent(l->upper, path, &name);
		r = parent < 0 ? parent : make_dir(l, path, parent, name);
		*slash = '/';
	}
	return r;
}

static int copy_link(int stage, const char *number, int dir, const struct stat *st)
{
	char target[4096];
	ssize_t n = readlinkat(stage, number, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (symlinkat(target, dir, PART) < 0)
		return -errno;
	return geteuid() == 0 && fchownat(dir, PART, st->st_uid, st->st_gid,
					  AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

static int copy_file(int stage, const char *number, int dir, const struct stat *st)
{
	cleanup_fd int from = openat(stage, number, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_fd int to =
		from < 0 ? -1
			 : openat(dir, PART, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool no_reflink = false;
	int r;

	if (to < 0)
		return -errno;
	r = copy_content(from, to, st, &no_reflink);
	if (r == 0)
		r = copy_xattrs(from, to);
	if (r == 0 && geteuid() == 0 && fchown(to, st->st_uid, st->st_gid) < 0)
		r = -errno;
	if (r == 0 && (fchmod(to, st->st_mode & 07777) < 0 || fsync(to) < 0))
		r = -errno;
	return r;
}

static int put_file(const struct layer *l, int stage, const char *number, int parent,
		    const char *name)
{
	struct stat st;
	int r = rename_at(stage, number, parent, name, RENAME_NOREPLACE);

	if (r != -EXDEV)
		return r == -ENOENT ? 0 : r;
	if (fstatat(stage, number, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	remove_tree_at(l->dir, PART);
	r = S_ISLNK(st.st_mode) ? copy_link(stage, number, l->dir, &st)
				: copy_file(stage, number, l->dir, &st);
	return r < 0 ? r : rename_at(l->dir, PART, parent, name, RENAME_NOREPLACE);
}

/* One change back into the upper layer, unless the sandbox has a newer one there. */
static int give_back(const struct layer *l, const struct step *s, int stage)
{
	cleanup_free char *way = strdup(s->path);
	const char *name;
	char number[16];
	struct stat st;
	int r = way ? make_way(l, way) : -ENOMEM;

	if (r == -ENOTDIR || r == -ELOOP) /* above it is no directory any more */
		return 0;
	cleanup_fd int parent = r < 0 ? r : open_parent(l->upper, s->path, &name);
	if (parent < 0)
		return parent == -ENOTDIR || parent == -ELOOP ? 0 : parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0; /* as it was, or newer */
	stage_name(number, s->stage);
	if (!s->upper.mode)
		return mknodat(parent, name, S_IFCHR, makedev(0, 0)) < 0 &&
				       errno != EEXIST
			       ? -errno
			       : 0;
	if (!S_ISDIR(s->upper.mode))
		return stage < 0 ? 0 : put_file(l, stage, number, parent, name);
	return put_dir(l, parent, name, &s->upper);
}

/* From now on the host's old file is the base of the change again. 1: it is so; 0: no,
 * somebody changed it meanwhile. */
static int rebase_on_old(const struct layer *l, struct ledger *g, const struct step *s,
			 struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(LEDGER_BLOB_MAX);
	struct ident host;
	int r = ident_at(l->lower, s->path, &host);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", s->path);
	if (!ident_alike(&host, &s->old))
		return 0;
	if (S_ISREG(host.mode) && host.size <= LEDGER_BLOB_MAX) {
		cleanup_fd int fd = open_beneath(l->lower, s->path, O_RDONLY);

		if (fd < 0 || read_fd(fd, &text) < 0)
			buf_clear(&text);
	}
	r = ledger_set_seen(g, s->path, &host, text.data, text.len, err);
	return r < 0 ? r : 1;
}

static bool counts(const struct step *s)
{
	return s->whole && s->kind != STEP_SAME &&
	       !((s->kind == STEP_RMDIR || s->kind == STEP_REMOVE) && s->upper.mode) &&
	       (s->kind != STEP_ATTRS || s->old.mode); /* of a new one: its MKDIR */
}

static int by_path(const void *a, const void *b)
{
	const struct step *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

/* A directory before what is in it: a deleted one needs no more than its own whiteout. */
static int restore_layer(const struct work *w, const struct landing *land, size_t k,
			 struct cove_error *err)
{
	const struct layer *l = &w->layers->v[k];
	const struct journal *j = land->j;
	cleanup_free const struct step **v = calloc(j->n + 1, sizeof(*v));
	size_t n = 0;
	int r = 0;

	if (!v)
		return fail_nomem(err);
	for (size_t i = 0; l->upper >= 0 && i < j->n; i++)
		if (j->v[i].layer == k && counts(&j->v[i]))
			v[n++] = &j->v[i];
	qsort(v, n, sizeof(*v), by_path);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!w->layers->running)
			r = give_back(l, v[i], land->sites[k].stage);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "give back %s", v[i]->path);
		r = rebase_on_old(l, w->ledgers[k], v[i], err);
		if (r == 0) /* then its time tells that it changed */
			ledger_forget(w->ledgers[k], v[i]->path);
		r = r < 0 ? r : 0;
	}
	return r < 0 || l->upper < 0 ? r : ledger_save(w->ledgers[k], err);
}

/* ---- the host's side ------------------------------------------------------------ */

struct again {
	const struct journal *j;
	const struct recover_ops *ops;
};

static int leave_it(void *arg, const struct step *s, struct cove_error *err)
{
	const struct again *a = arg;
	char path[PATH_MAX * 2];

	(void)err;
	snprintf(path, sizeof(path), "%s/%s", a->j->layers[s->layer].source, s->path);
	a->ops->note(a->ops->arg, path,
		     "changed on the host after an undo was cut off: it stays as it is");
	return 0;
}

/* Backward on the host; if it is in the way, forward again, and the level is kept. */
static int go_back(const struct work *w, const struct journal *j,
		   const struct recover_ops *ops, struct cove_error *err)
{
	struct again a = {j, ops};
	int record = w->layers->record, r;
	struct cove_error again = {0};
	struct landing land;
	char path[32];

	if (landing_open(&land, j, err) < 0)
		return err->code;
	r = landing_run(&land, false, err);
	if (r == 0)
		r = landing_sync(&land, err);
	land.fresh = land.copied = true;
	land.left = ops ? leave_it : NULL;
	land.left_arg = &a;
	if (r < 0 && landing_run(&land, true, &again) == 0 &&
	    landing_sync(&land, &again) == 0 &&
	    stage_store(record, DIR_UNDO_GO, j, &again) == 0) {
		undo_path(path, undo_last(record) + 1);
		phase(record, DIR_UNDO_GO, path, &again);
	}
	landing_close(&land);
	return r;
}

int undo_go(const struct work *w, const struct recover_ops *ops, struct cove_error *err)
{
	int record = w->layers->record, r;
	struct journal j = {0};

	if (journal_load(record, DIR_UNDO_GO, &j, err) < 0)
		return err->code;
	r = stage_fetch(record, DIR_UNDO_GO, &j, err);
	if (r == 0)
		r = go_back(w, &j, ops, err);
	if (r == 0)
		r = phase(record, DIR_UNDO_GO, DIR_UNDO_DONE, err);
	journal_clear(&j);
	return r < 0 ? r : undo_finish(w, err);
}

/* The host is done: the sandbox gets its changes back. May be run again at any point. */
int undo_finish(const struct work *w, struct cove_error *err)
{
	int record = w->layers->record, r;
	struct journal j = {0};
	struct landing land;

	if (journal_load(record, DIR_UNDO_DONE, &j, err) < 0)
		return err->code;
	r = landing_open(&land, &j, err);
	if (r == 0) {
		for (size_t k = 0; r == 0 && k < w->layers->n && k < j.n_layers; k++)
			r = restore_layer(w, &land, k, err);
		landing_close(&land);
	}
	if (r == 0 && syncfs(record) < 0)
		r = fail(err, COVE_EIO, errno, "sync");
	if (r == 0)
		r = stage_remove(&j, err);
	if (r == 0)
		r = phase(record, DIR_UNDO_DONE, DIR_UNDO_OLD, err);
	if (r == 0)
		remove_tree_at(record, DIR_UNDO_OLD); /* or by the next command */
	journal_clear(&j);
	return r < 0 ? err->code : 0;
}

/* Does the host have something there, before or after, that is not told by another step?
 */
static bool has_old(const struct step *s)
{
	return s->kind != STEP_SAME && (s->kind != STEP_ATTRS || s->old.mode);
}

static int note_step(const struct work *w, const struct step *s, bool *ret_changed,
		     struct cove_error *err)
{
	const struct layer *l = &w->layers->v[s->layer];
	struct ident host;
	int r;

	if (s->old.mode) {
		r = rebase_on_old(l, w->ledgers[s->layer], s, err);
		*ret_changed = r == 0;
		return r < 0 ? r : 0;
	}
	r = ident_at(l->lower, s->path, &host);
	*ret_changed = r == 0 && host.mode;
	return r < 0 ? fail(err, COVE_EIO, -r, "%s", s->path) : 0;
}

int undo_note_back(const struct work *w, const struct journal *j,
		   void (*changed)(void *arg, const struct step *s), void *arg,
		   struct cove_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < j->n; i++) {
		bool differs = false;

		if (j->v[i].layer >= w->layers->n || !has_old(&j->v[i]))
			continue;
		r = note_step(w, &j->v[i], &differs, err);
		if (differs && changed)
			changed(arg, &j->v[i]);
	}
	for (size_t k = 0; r == 0 && k < w->layers->n && k < j->n_layers; k++)
		r = ledger_save(w->ledgers[k], err);
	return r;
}

struct undoing {
	const struct journal *j;
	const struct cove_apply_options *o;
	uint32_t conflicts;
};

static void conflict(void *arg, const struct step *s, const char *why)
{
	struct undoing *u = arg;
	struct cove_conflict pub = {sizeof(pub), u->j->layers[s->layer].source, s->path,
				    why};

	u->conflicts++;
	if (u->o->conflict)
		u->o->conflict(u->o->arg, &pub);
}

/* A stage that is elsewhere than when the steps ran: the check looks at the host only. */
static int check(const struct work *w, const struct journal *j, const char *level,
		 struct undoing *u, struct cove_error *err)
{
	struct landing land;
	size_t bad = 0;
	int r = landing_open(&land, j, err);

	for (size_t k = 0; r == 0 && k < j->n_layers; k++) {
		char path[64];

		snprintf(path, sizeof(path), "%.31s/L%zu", level, k);
		if (land.sites[k].stage < 0)
			land.sites[k].stage = openat(w->layers->record, path,
						     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (r == 0) {
		r = landing_check_done(&land, conflict, u, &bad, err);
		if (r == 0)
			r = landing_check_foreign(&land, conflict, u, &bad, err);
		landing_close(&land);
	}
	if (r == 0 && bad)
		return fail(
			err, COVE_ECONFLICT, 0,
			"the host changed %zu of these paths since; nothing was undone",
			bad);
	return r;
}

/* A running sandbox must still hold what it would get back. */
static int check_running(const struct work *w, const struct journal *j,
			 struct cove_error *err)
{
	for (size_t i = 0; w->layers->running && i < j->n; i++) {
		const struct step *s = &j->v[i];
		const struct layer *l = &w->layers->v[s->layer];
		struct ident up;

		if (!counts(s) || !s->upper.mode || l->upper < 0)
			continue;
		if (ident_at(l->upper, s->path, &up) < 0 || !up.mode) {
			fail(err, COVE_ESTATE, 0, "it runs, so it cannot get %s back",
			     s->path);
			return hint(err, "stop it first");
		}
	}
	return 0;
}

static void report(const struct journal *j, const struct cove_apply_options *o,
		   struct cove_apply_result *r)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct step *s = &j->v[i];
		struct cove_change pub = {.size = sizeof(pub),
					  .source = j->layers[s->layer].source,
					  .path = s->path,
					  .old_mode = s->upper.mode,
					  .new_mode = s->old.mode};

		if (!counts(s))
			continue;
		pub.kind = !s->old.mode     ? COVE_DELETED
			   : !s->upper.mode ? COVE_ADDED
					    : COVE_EDITED;
		r->applied++;
		if (o->change)
			o->change(o->arg, &pub);
	}
}

int work_undo(const struct work *w, const struct cove_apply_options *o,
	      struct cove_apply_result *r, struct cove_error *err)
{
	int record = w->layers->record, e;
	unsigned last = undo_last(record);
	struct journal j = {0};
	struct undoing u = {&j, o, 0};
	char level[32];

	if (!last) {
		fail(err, COVE_ENOENT, 0, "there is no apply to undo");
		return err->code;
	}
	undo_path(level, last);
	e = journal_load(record, level, &j, err);
	if (e == 0 && j.n_layers > w->layers->n)
		e = fail(err, COVE_ESTATE, 0, "the mounts of the sandbox changed since");
	if (e == 0)
		e = check(w, &j, level, &u, err);
	if (e == 0)
		e = check_running(w, &j, err);
	if (e == 0 && !(o->flags & COVE_APPLY_DRY_RUN)) {
		e = phase(record, level, DIR_UNDO_GO, err);
		if (e == 0)
			e = undo_go(w, NULL, err);
	}
	r->conflicts = u.conflicts;
	if (e == 0)
		report(&j, o, r);
	journal_clear(&j);
	return e;
}
