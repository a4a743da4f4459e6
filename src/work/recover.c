/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover - an apply or undo that was cut off is completed, or taken back; what the host
 * changed since stays as it is, and nothing that it had is lost.
 *
 * The name of the directory in the record says how far it was (see land.h).
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *const phases[] = {DIR_PREP,    DIR_GO,        DIR_DONE,
				     DIR_UNDO_GO, DIR_UNDO_DONE, DIR_UNDO_OLD};

static bool there(int record, const char *name)
{
	struct stat st;

	return fstatat(record, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool work_interrupted(int record)
{
	for (size_t i = 0; i < ARRAY_LEN(phases); i++)
		if (there(record, phases[i]))
			return true;
	return false;
}

/* Staged, but nothing touched: the stage goes. There may be no journal yet. */
static int drop(const struct work *w, struct cove_error *err)
{
	char stage[32];
	int r;

	stage_dir_name(w->layers->record, stage);
	for (size_t i = 0; i < w->layers->n; i++) {
		r = remove_tree_at(w->layers->v[i].lower, stage);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "%s/%s", w->layers->v[i].source,
				    stage);
	}
	r = remove_tree_at(w->layers->record, DIR_PREP);
	return r < 0 ? fail(err, COVE_EIO, -r, "%s", DIR_PREP) : 0;
}

/* ---- taking an apply back ------------------------------------------------------- */

struct back {
	struct landing *land;
	const struct recover_ops *ops;
	bool *told; /* by step */
};

static void host_path(const struct back *b, const struct step *s, char *out, size_t size)
{
	snprintf(out, size, "%s/%s", b->land->j->layers[s->layer].source, s->path);
}

/* A path that the host changed after it landed. Its file from before the apply is in the
 * stage, which goes. */
static int leave_it(void *arg, const struct step *s, struct cove_error *err)
{
	struct back *b = arg;
	const struct land_site *site = &b->land->sites[s->layer];
	char path[PATH_MAX * 2], number[16];
	struct ident old = {0};
	int r;

	if (s->kind != STEP_EXCHANGE && s->kind != STEP_REMOVE)
		return 0;
	stage_name(number, s->stage);
	r = site->stage < 0 ? 0 : ident_at(site->stage, number, &old);
	if (r == 0 && (!old.mode || ident_same_file(&old, &s->new)))
		return 0; /* kept before, or it never landed */
	host_path(b, s, path, sizeof(path));
	if (r == 0)
		r = b->ops->keep(b->ops->arg, site->lower, site->stage, number, path,
				 "changed on the host after an apply was cut off: it "
				 "stays, and the file it replaced was saved");
	if (r < 0)
		return fail(err, COVE_EIO, -r, "keep what was %s before the apply", path);
	b->told[s - b->land->j->v] = true;
	return 0;
}

static void tell_changed(void *arg, const struct step *s)
{
	struct back *b = arg;
	char path[PATH_MAX * 2];

	if (b->told[s - b->land->j->v])
		return;
	host_path(b, s, path, sizeof(path));
	b->ops->note(b->ops->arg, path,
		     "changed on the host after an apply was cut off: it stays as it is");
}

static int take_back(const struct work *w, struct back *b, struct cove_error *err)
{
	int r;

	b->land->left = leave_it;
	r = landing_run(b->land, false, err);
	b->land->left = NULL;
	if (r == 0)
		r = landing_sync(b->land, err);
	return r < 0 ? r : undo_note_back(w, b->land->j, tell_changed, b, err);
}

/* Forward if the host lets us, else back. *ret_done: forward. */
static int go_on(const struct work *w, const struct recover_ops *ops, bool *ret_done,
		 struct cove_error *err)
{
	int record = w->layers->record, r;
	struct journal j = {0};
	struct landing land;
	struct back b = {&land, ops, NULL};
	struct cove_error ahead = {0};

	if (journal_load(record, DIR_GO, &j, err) < 0)
		return err->code;
	b.told = calloc(j.n + 1, sizeof(*b.told));
	r = b.told ? landing_open(&land, &j, err) : fail_nomem(err);
	if (r == 0) {
		/* What somebody changed since is not what was judged: it stays, and all
		 * goes back. */
		land.fresh = true;
		land.left_arg = &b;
		*ret_done = landing_run(&land, true, &ahead) == 0;
		r = *ret_done ? landing_sync(&land, err) : take_back(w, &b, err);
		landing_close(&land);
	}
	if (r == 0)
		r = phase(record, DIR_GO, *ret_done ? DIR_DONE : DIR_PREP, err);
	journal_clear(&j);
	free(b.told);
	return r;
}

/* ---- everything that may have been cut off -------------------------------------- */

static int finish(const struct work *w, struct cove_error *err)
{
	struct journal j = {0};
	int r = journal_load(w->layers->record, DIR_DONE, &j, err);

	if (r == 0)
		r = finish_apply(w, &j, err);
	journal_clear(&j);
	return r;
}

static int recover_apply(const struct work *w, const struct recover_ops *ops,
			 struct recovery *ret, struct cove_error *err)
{
	int record = w->layers->record;
	bool done = true;

	if (!there(record, DIR_GO) && !there(record, DIR_DONE))
		return 0;
	if (there(record, DIR_GO) && go_on(w, ops, &done, err) < 0)
		return wrap(err, "an apply was cut off, and going on with it failed");
	*ret = (struct recovery){"apply", done ? "completed" : "taken back"};
	if (there(record, DIR_DONE) && finish(w, err) < 0)
		return wrap(err, "finish an apply that was cut off");
	return 0;
}

static int recover_undo(const struct work *w, const struct recover_ops *ops,
			struct recovery *ret, struct cove_error *err)
{
	int record = w->layers->record, r = 0;
	struct cove_error why = {0};

	if (!there(record, DIR_UNDO_GO) && !there(record, DIR_UNDO_DONE))
		return 0;
	if (there(record, DIR_UNDO_GO))
		r = undo_go(w, ops, &why);
	if (r < 0 && (there(record, DIR_UNDO_GO) || there(record, DIR_UNDO_DONE))) {
		*err = why;
		return wrap(err, "finish an undo that was cut off");
	}
	*ret = (struct recovery){"undo", r == 0 ? "completed" : "taken back"};
	if (there(record, DIR_UNDO_DONE) && undo_finish(w, err) < 0)
		return wrap(err, "finish an undo that was cut off");
	return 0;
}

int work_recover(const struct work *w, const struct recover_ops *ops,
		 struct recovery *ret, struct cove_error *err)
{
	int record = w->layers->record;

	*ret = (struct recovery){NULL, NULL};
	if (recover_apply(w, ops, ret, err) < 0 || recover_undo(w, ops, ret, err) < 0)
		return err->code;
	remove_tree_at(record, DIR_UNDO_OLD);
	return there(record, DIR_PREP) ? drop(w, err) : 0;
}
