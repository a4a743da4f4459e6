/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_freeze - holding the sandbox still for a client that copies its files.
 *
 * A lease: it belongs to the connection that asked and ends with it, with `thaw`, with
 * any stop of the sandbox, or after FREEZE_LEASE_MS unless asked for again. Whoever took
 * it learns at `thaw` whether it held all the time; if not, his copy is worth nothing.
 */
#include "core/keeper_impl.h"

#include "base/util.h"

#define FREEZE_LEASE_MS 60000

static int set_frozen(struct keeper *k, bool on, struct cove_error *err)
{
	struct place *p = &k->box.place;

	if (!p->backend->freeze)
		return fail(err, COVE_EUNSUPPORTED, 0, "backend %s cannot freeze",
			    p->backend->name);
	return p->backend->freeze(p, on, err);
}

json_t *verb_freeze(struct keeper *k, json_t *args, struct cove_error *err)
{
	(void)args;
	if (k->stopping) {
		fail(err, COVE_ESTATE, 0, "the sandbox is stopping");
		return NULL;
	}
	if (k->freezer && k->freezer != k->asking) {
		fail(err, COVE_ESTATE, 0, "the sandbox is frozen for somebody else");
		hint(err, "try again in a moment");
		return NULL;
	}
	if (!k->freezer && set_frozen(k, true, err) < 0)
		return NULL;
	/* A group may have been made for it: noted for whoever sweeps after a crash. */
	if (!k->freezer && k->box.place.has_cgroup && k->box.config.cgroup_made)
		k->box.config.cgroup_made(k->box.config.arg, &k->box.place.cgroup);
	k->freezer = k->asking;
	k->thaw_at = keeper_now() + FREEZE_LEASE_MS;
	return json_pack("{s:b}", "frozen", 1);
}

void keeper_thaw(struct keeper *k)
{
	struct cove_error ignored = {0};

	if (!k->freezer)
		return;
	k->freezer = NULL;
	k->thaw_at = 0;
	set_frozen(k, false, &ignored);
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
