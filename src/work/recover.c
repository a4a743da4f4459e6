/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover - an apply or undo that was cut off is completed, or taken back.
 *
 * The name of the directory in the record says how far it was (see land.h).
 */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
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

/* Forward if the host lets us, else back. *ret_done: forward. */
static int go_on(const struct work *w, bool *ret_done, struct cove_error *err)
{
	int record = w->layers->record, r;
	struct journal j = {0};
	struct landing land;
	struct cove_error ahead = {0};

	if (journal_load(record, DIR_GO, &j, err) < 0)
		return err->code;
	r = landing_open(&land, &j, err);
	if (r == 0) {
		*ret_done = landing_run(&land, true, &ahead) == 0;
		if (!*ret_done)
			r = landing_run(&land, false, err);
		if (r == 0)
			r = landing_sync(&land, err);
		if (r == 0 && !*ret_done)
			r = undo_note_back(w, &j, err);
		landing_close(&land);
	}
	if (r == 0)
		r = phase(record, DIR_GO, *ret_done ? DIR_DONE : DIR_PREP, err);
	journal_clear(&j);
	return r;
}

static int finish(const struct work *w, struct cove_error *err)
{
	struct journal j = {0};
	int r = journal_load(w->layers->record, DIR_DONE, &j, err);

	if (r == 0)
		r = finish_apply(w, &j, err);
	journal_clear(&j);
	return r;
}

int work_recover(const struct work *w, char *said, size_t said_size,
		 struct cove_error *err)
{
	int record = w->layers->record;
	bool done = false;

	said[0] = '\0';
	if (there(record, DIR_GO)) {
		if (go_on(w, &done, err) < 0)
			return wrap(err,
				    "an apply was cut off, and going on with it failed");
		snprintf(said, said_size, "an apply was cut off; it was %s",
			 done ? "completed" : "taken back");
	}
	if (there(record, DIR_DONE) && finish(w, err) < 0)
		return wrap(err, "finish an apply that was cut off");
	if (there(record, DIR_UNDO_GO)) {
		struct cove_error undo = {0};
		int r = undo_go(w, &undo);

		if (r < 0 &&
		    (there(record, DIR_UNDO_GO) || there(record, DIR_UNDO_DONE))) {
			*err = undo;
			return wrap(err, "finish an undo that was cut off");
		}
		snprintf(said, said_size, "an undo was cut off; it was %s",
			 r == 0 ? "completed" : "taken back");
	}
	if (there(record, DIR_UNDO_DONE) && undo_finish(w, err) < 0)
		return wrap(err, "finish an undo that was cut off");
	remove_tree_at(record, DIR_UNDO_OLD);
	return there(record, DIR_PREP) ? drop(w, err) : 0;
}
