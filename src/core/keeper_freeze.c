/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_freeze - holding the sandbox still: for a client that copies its files, or until
 * somebody says otherwise.
 *
 * `freeze` is a lease: it belongs to the connection that asked and ends with it, with
 * `thaw`, with any stop of the sandbox, or after FREEZE_LEASE_MS unless asked for again.
 * Whoever took it learns at `thaw` whether it held all the time; if not, his copy is
 * worth nothing. `pause` belongs to nobody and lasts until `resume`, or a stop. The two
 * may overlap: the sandbox goes on when neither holds it. A machine with a disk is made
 * quiet before it is paused: then all that it has is in the file, for whoever copies
 * that.
 *
 * The keeper does not wait for a machine that takes its time to stop or to go on: whoever
 * asked for the first asks again, and the second is tried until it is done.
 */
#include "core/keeper_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>

#define FREEZE_LEASE_MS 60000
#define GOING_MS 30000    /* for a machine to go on */
#define QUIET_MS 5000     /* for a guest to write out its disk before it is paused */
#define GOING_AGAIN_MS 20 /* between two words to it */

static int set_frozen(struct keeper *k, bool on, struct cove_error *err)
{
	struct place *p = &k->box.place;

	if (!p->backend->freeze)
		return fail(err, COVE_EUNSUPPORTED, 0, "backend %s cannot freeze",
			    p->backend->name);
	return p->backend->freeze(p, on, err);
}

/* A group may have been made for it: noted for whoever sweeps after a crash. */
static void note_group(struct keeper *k)
{
	if (k->box.place.has_cgroup && k->box.config.cgroup_made)
		k->box.config.cgroup_made(k->box.config.arg, &k->box.place.cgroup);
}

static void begin_going(struct keeper *k)
{
	if (k->still == STILL_GOING)
		return;
	k->still = STILL_GOING;
	k->going_at = keeper_now();
	k->going_until = k->going_at + GOING_MS;
}

int keeper_hold_still(struct keeper *k, struct cove_error *err)
{
	int r;

	if (k->stopping)
		return fail(err, COVE_ESTATE, 0, "the sandbox is stopping");
	if (k->still == STILL_HELD)
		return 0;
	r = set_frozen(k, true, err);
	if (r < 0) {
		if (k->still != STILL_RUNS)
			begin_going(k);
		return r;
	}
	k->going_at = 0;
	k->still = r ? STILL_STOPPING : STILL_HELD;
	if (r == 0)
		note_group(k);
	return r;
}

/* A machine whose memory was just on its way refuses for a moment: until it obeys, or is
 * given up. */
void keeper_going(struct keeper *k)
{
	struct cove_error why = {0};
	int r = set_frozen(k, false, &why);

	if (r == 0) {
		k->still = STILL_RUNS;
		k->going_at = 0;
		return;
	}
	k->going_at = keeper_now() + GOING_AGAIN_MS;
	if (k->going_at > k->going_until || why.code == COVE_EGONE)
		keeper_lost(k, PLACE_SILENT);
}

static void go_on(struct keeper *k)
{
	if (k->still == STILL_RUNS || k->freezer || k->paused)
		return;
	begin_going(k);
	keeper_going(k);
}

/* ---- for a copy ----------------------------------------------------------------- */

/* Asked again until "frozen" is true: with {"memory": true}, or a disk inside, the guest
 * is asked to be quiet first, which takes a moment. */
json_t *verb_freeze(struct keeper *k, json_t *args, struct cove_error *err)
{
	/* What a guest has not written to its disk yet is in no file. */
	bool quiet =
		json_is_true(json_object_get(args, "memory")) || k->box.place.sync_ms;
	int r;

	if (k->freezer && k->freezer != k->asking) {
		fail(err, COVE_ESTATE, 0, "the sandbox is frozen for somebody else");
		hint(err, "try again in a moment");
		return NULL;
	}
	r = quiet ? save_ask(k, err) : keeper_hold_still(k, err);
	if (r < 0)
		return NULL;
	k->freezer = k->asking;
	k->thaw_at = keeper_now() + FREEZE_LEASE_MS;
	return json_pack("{s:b}", "frozen",
			 quiet ? save_is_quiet(k) : k->still == STILL_HELD);
}

void keeper_thaw(struct keeper *k)
{
	if (!k->freezer)
		return;
	k->freezer = NULL;
	k->thaw_at = 0;
	go_on(k);
	if (!k->paused)
		save_thawed(k);
}

json_t *verb_thaw(struct keeper *k, json_t *args, struct cove_error *err)
{
	bool held = k->freezer && k->freezer == k->asking;

	(void)args;
	(void)err;
	if (held)
		keeper_thaw(k);
	return json_pack("{s:b}", "held", held);
}

void freeze_client_gone(struct keeper *k, const struct client *c)
{
	if (k->freezer == c)
		keeper_thaw(k);
}

/* ---- until told otherwise ------------------------------------------------------- */

/* For whoever lists sandboxes; it goes with the run directory. */
static void mark_paused(const struct keeper *k)
{
	char path[SPEC_NAME_MAX + 16];

	snprintf(path, sizeof(path), "%s/paused", k->box.name);
	if (!k->paused)
		unlinkat(k->store.run_fd, path, 0);
	else
		closep(&(int){openat(k->store.run_fd, path,
				     O_WRONLY | O_CREAT | O_CLOEXEC, 0600)});
}

/* A guest that does not become quiet is paused as it is. */
static int pause_it(struct keeper *k, struct cove_error *err)
{
	struct cove_error ignored = {0};

	if (!k->box.place.sync_ms || k->still == STILL_HELD)
		return keeper_hold_still(k, err);
	if (!k->quiet_until)
		k->quiet_until = keeper_now() + QUIET_MS;
	if (keeper_now() < k->quiet_until && save_ask(k, &ignored) == 0)
		return 1;
	if (!k->freezer)
		save_thawed(k);
	return keeper_hold_still(k, err);
}

/* Asked again until "paused" is true. */
json_t *verb_pause(struct keeper *k, json_t *args, struct cove_error *err)
{
	(void)args;
	k->paused = pause_it(k, err) >= 0;
	if (!k->paused || k->still == STILL_HELD)
		k->quiet_until = 0;
	if (!k->paused)
		go_on(k);
	mark_paused(k);
	return k->paused ? json_pack("{s:b}", "paused", k->still == STILL_HELD) : NULL;
}

json_t *verb_resume(struct keeper *k, json_t *args, struct cove_error *err)
{
	bool was = k->paused;

	(void)args;
	(void)err;
	k->paused = false;
	k->quiet_until = 0;
	mark_paused(k);
	go_on(k);
	if (!k->freezer)
		save_thawed(k);
	return json_pack("{s:b}", "was", was);
}

void keeper_unpause(struct keeper *k)
{
	struct cove_error ignored = {0};

	if (k->paused)
		json_decref(verb_resume(k, NULL, &ignored));
}
