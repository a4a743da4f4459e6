/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot - snapshots, restores and clones by name. */
#include "api/handle.h"
#include "api/state.h"

#include "base/util.h"
#include "core/clone.h"
#include "core/secret.h"
#include "core/snapshot_impl.h"
#include "core/snapshot_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#define START_WAIT_MS 5000 /* somebody who starts or stops it is waited for */

/* A connection if it runs, -1 if it is stopped; COVE_ESTATE if neither can be told. */
static int reach_keeper(struct store *st, const char *name, int *ret_fd,
			struct cove_error *err)
{
	*ret_fd = -1;
	if (!store_is_running(st, name))
		return 0;
	return connect_keeper(st, name, ret_fd, err);
}

int open_cut(struct cut *c, struct store *st, const char *name, struct cove_error *err)
{
	static const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	int64_t until = now_ms() + START_WAIT_MS;

	for (;;) {
		cleanup_fd int fd = -1;
		int r;

		*err = (struct cove_error){0};
		r = reach_keeper(st, name, &fd, err);
		if (r == 0) {
			bool stopped = fd < 0;

			r = cut_open(c, st, name, &fd, err);
			if (r == 0)
				return 0;
			cut_clear(c);
			if (r != COVE_ESTATE || !stopped)
				return r;
		}
		if (r != COVE_ESTATE)
			return r;
		if (now_ms() > until) {
			fail(err, COVE_ESTATE, 0, "%s runs without a keeper to hold it",
			     name);
			return hint(err, "a one-shot can be copied when it has ended");
		}
		nanosleep(&pause, NULL);
	}
}

/* One that runs, held such that its memory can be saved. */
static int open_live_cut(struct cut *c, struct store *st, const char *name,
			 struct cove_error *err)
{
	struct spec spec;
	int fd = -1, r = store_load(st, name, &spec, err);

	if (r < 0)
		return r;
	spec_clear(&spec);
	r = reach_keeper(st, name, &fd, err);
	if (r == 0 && fd < 0) {
		fail(err, COVE_ESTATE, 0, "%s is not running: it has no memory to keep",
		     name);
		r = hint(err, "'cove snapshot %s TAG' keeps its files", name);
	}
	if (r < 0)
		return r;
	r = cut_open_memory(c, st, name, &fd, err);
	closep(&fd);
	if (r < 0)
		cut_clear(c);
	return r;
}

int cove_snapshot_with(const char *name, const char *tag,
		       const struct cove_snapshot_options *opt, struct cove_error *err)
{
	struct cove_snapshot_options o = {.size = sizeof(o)};
	struct store st;
	struct cut c;
	int r;

	err = ERR(err);
	if (opt && options_import(&o, sizeof(o), 8, opt, "snapshot options", err) < 0)
		return err->code;
	if (o.flags & ~(uint32_t)COVE_SNAPSHOT_MEMORY)
		return fail(err, COVE_EINVAL, 0, "snapshot: unknown flag");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = snapshot_check_new(&st, name, tag, err);
	if (r == 0)
		r = o.flags & COVE_SNAPSHOT_MEMORY ? open_live_cut(&c, &st, name, err)
						   : open_cut(&c, &st, name, err);
	if (r == 0) {
		r = snapshot_take(&c, tag, o.description, err);
		cut_clear(&c);
	}
	store_close(&st);
	return r;
}

int cove_snapshot(const char *name, const char *tag, const char *description,
		  struct cove_error *err)
{
	struct cove_snapshot_options o = {.size = sizeof(o), .description = description};

	return cove_snapshot_with(name, tag, &o, err);
}

int cove_snapshots_json(const char *name, char **ret, struct cove_error *err)
{
	struct store st;
	json_t *list = NULL;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = snapshot_list(&st, name, &list, err);
	store_close(&st);
	return r < 0 ? r : json_out(list, ret, err);
}

/* It says so, even if it is gone by now; or there is some that nobody has noted. */
static bool has_memory(const struct cut *c, const char *tag)
{
	struct cove_error ignored = {0};
	cleanup_fd int dir = snapshot_open(c->record, c->name, tag, &ignored);
	json_t *meta = dir < 0 ? NULL : snapshot_load_meta(dir, tag, &ignored);
	bool noted = json_object_get(meta, "memory") != NULL;

	json_decref(meta);
	return noted || (dir >= 0 && memory_size(dir) >= 0);
}

int start_from_memory(struct store *st, const char *name, const char *from,
		      const char *tag, struct cove_error *err)
{
	const struct cove_start_options o = {.size = sizeof(o)};
	char state[2 * SPEC_NAME_MAX + 2];
	struct secrets *secrets = NULL;
	struct spec spec;
	int r = store_load(st, name, &spec, err);

	if (r < 0)
		return r;
	snprintf(state, sizeof(state), "%s@%s", from, tag);
	r = start_secrets(&secrets, st, name, &spec, &o, err);
	if (r == 0)
		r = spawn_keeper(st, name, false, state, secrets, err);
	secrets_free(secrets);
	spec_clear(&spec);
	return r;
}

/* Everything that can be wrong with it is found before anything is changed. */
static int restore(struct cut *c, const char *tag, bool *memory, struct cove_error *err)
{
	*memory = *memory && has_memory(c, tag);
	if (*memory && memory_check(c->store, c->name, tag, &c->spec, err) < 0)
		return err->code;
	return snapshot_restore(c, tag, err);
}

int cove_restore_with(const char *name, const char *tag, uint32_t flags,
		      struct cove_error *err)
{
	bool memory = !(flags & COVE_RESTORE_FILES_ONLY);
	struct store st;
	struct cut c;
	int none = -1, r;

	err = ERR(err);
	if (flags & ~(uint32_t)COVE_RESTORE_FILES_ONLY)
		return fail(err, COVE_EINVAL, 0, "restore: unknown flag");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = cut_open(&c, &st, name, &none, err);
	if (r == 0)
		r = restore(&c, tag, &memory, err);
	else if (r == COVE_ESTATE && !err->hint[0])
		hint(err, "'cove stop %s' first", name);
	cut_clear(&c);
	if (r == 0 && memory && start_from_memory(&st, name, name, tag, err) < 0)
		r = wrap(err, "its files are restored, but it does not go on");
	store_close(&st);
	return r;
}

int cove_restore(const char *name, const char *tag, struct cove_error *err)
{
	return cove_restore_with(name, tag, 0, err);
}

static int remove_snapshot(const char *name, const char *tag, bool shred,
			   struct cove_error *err)
{
	struct store st;
	int r;

	if (handle_store(&st, err) < 0)
		return err->code;
	r = snapshot_remove(&st, name, tag, shred, err);
	store_close(&st);
	return r;
}

int cove_snapshot_remove(const char *name, const char *tag, struct cove_error *err)
{
	return remove_snapshot(name, tag, false, ERR(err));
}

int cove_snapshot_shred(const char *name, const char *tag, struct cove_error *err)
{
	return remove_snapshot(name, tag, true, ERR(err));
}

int cove_clone(const char *name, const char *tag, const char *new_name,
	       const struct cove_spec *changes, struct cove_error *err)
{
	struct store st;
	struct cut c;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	if (tag) {
		r = cut_open_snapshot(&c, &st, name, tag, err);
		if (r < 0)
			cut_clear(&c);
	} else {
		r = open_cut(&c, &st, name, err);
	}
	if (r == 0) {
		r = clone_make(&c, new_name, changes ? &changes->spec : NULL, err);
		cut_clear(&c);
	}
	store_close(&st);
	return r;
}
