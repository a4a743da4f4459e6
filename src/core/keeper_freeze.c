/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_freeze - holding the sandbox still: for a client that copies its files, or until
 * somebody says otherwise.
 *
 * `freeze` is a lease: it belongs to the connection that asked and ends with it, with
 * `thaw`, with any stop of the sandbox, or after FREEZE_LEASE_MS unless asked for again.
 * Whoever took it learns at `thaw` whether it held all the time; if not, his copy is
 * worth nothing. `pause` belongs to nobody and lasts until `resume`, or a stop. The two
 * may overlap: the sandbox goes on when neither holds it.
 */
#include "core/keeper_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>

#define FREEZE_LEASE_MS 60000

static int set_frozen(struct keeper *k, bool on, struct cove_error *err)
{
	struct place *p = &k->box.place;

	if (!p->backend->freeze)
		return fail(err, COVE_EUNSUPPORTED, 0, "backend %s cannot freeze",
			    p->backend->name);
	return p->backend->freeze(p, on, err);
}

int keeper_hold_still(struct keeper *k, struct cove_error *err)
{
	if (k->stopping)
		return fail(err, COVE_ESTATE, 0, "the sandbox is stopping");
	if (k->frozen)
		return 0;
	if (set_frozen(k, true, err) < 0)
		return err->code;
	k->frozen = true;
	/* A group may have been made for it: noted for whoever sweeps after a crash. */
	if (k->box.place.has_cgroup && k->box.config.cgroup_made)
		k->box.config.cgroup_made(k->box.config.arg, &k->box.place.cgroup);
	return 0;
}

static int go_on(struct keeper *k, struct cove_error *err)
{
	if (!k->frozen || k->freezer || k->paused)
		return 0;
	if (set_frozen(k, false, err) < 0)
		return err->code;
	k->frozen = false;
	return 0;
}

/* ---- for a copy ----------------------------------------------------------------- */

/* With {"memory": true}, or a disk inside, the guest is asked to be quiet first, which
 * takes a moment: asked again until "frozen" is true. */
json_t *verb_freeze(struct keeper *k, json_t *args, struct cove_error *err)
{
	bool memory = json_is_true(json_object_get(args, "memory"));
	int r;

	if (k->freezer && k->freezer != k->asking) {
		fail(err, COVE_ESTATE, 0, "the sandbox is frozen for somebody else");
		hint(err, "try again in a moment");
		return NULL;
	}
	/* What a guest has not written to its disk yet is in no file. */
	r = memory || k->box.place.sync_ms ? save_ask(k, err) : keeper_hold_still(k, err);
	if (r < 0)
		return NULL;
	k->freezer = k->asking;
	k->thaw_at = keeper_now() + FREEZE_LEASE_MS;
	return json_pack("{s:b}", "frozen", k->frozen);
}

void keeper_thaw(struct keeper *k)
{
	struct cove_error ignored = {0};

	if (!k->freezer)
		return;
	k->freezer = NULL;
	k->thaw_at = 0;
	go_on(k, &ignored);
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

json_t *verb_pause(struct keeper *k, json_t *args, struct cove_error *err)
{
	(void)args;
	if (keeper_hold_still(k, err) < 0)
		return NULL;
	k->paused = true;
	mark_paused(k);
	return json_pack("{s:b}", "paused", 1);
}

json_t *verb_resume(struct keeper *k, json_t *args, struct cove_error *err)
{
	bool was = k->paused;

	(void)args;
	k->paused = false;
	if (was && go_on(k, err) < 0) {
		k->paused = true;
		return NULL;
	}
	mark_paused(k);
	return json_pack("{s:b}", "was", was);
}

void keeper_unpause(struct keeper *k)
{
	struct cove_error ignored = {0};

	if (k->paused)
		json_decref(verb_resume(k, NULL, &ignored));
}
