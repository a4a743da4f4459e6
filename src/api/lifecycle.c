/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle - stopping, removing and changing sandboxes by name. */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/copymount.h"
#include "core/workspace.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define PAUSE_MS 20000 /* for a machine to stop */

static void nap_ms(int ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000L};

	nanosleep(&t, NULL);
}

/* Until the keeper has let go of the lock: then everything of it is gone. */
static int wait_gone(struct store *st, const char *name, int timeout_ms,
		     struct cove_error *err)
{
	int64_t until = now_ms() + timeout_ms;

	for (int pause = 1; store_is_running(st, name);
	     pause = pause < 32 ? pause * 2 : 32) {
		if (now_ms() > until)
			return fail(err, COVE_ETIMEDOUT, 0, "%s does not end", name);
		nap_ms(pause);
	}
	return 0;
}

/* A one-shot has no socket: its keeper is the program that runs it, and ends on a signal.
 */
static int end_oneshot(const char *name, int signo, int grace_ms, struct cove_error *err)
{
	struct store st;
	struct cove_error late = {0};
	int r;

	if (store_open(&st, err) < 0)
		return err->code;
	cleanup_fd int holder = store_holder(&st, name);
	if (holder < 0) {
		store_close(&st);
		return fail(err, COVE_ESTATE, 0, "%s is not running", name);
	}
	syscall(SYS_pidfd_send_signal, holder, signo, NULL, 0);
	r = wait_gone(&st, name, grace_ms, &late);
	if (r == COVE_ETIMEDOUT) {
		syscall(SYS_pidfd_send_signal, holder, SIGKILL, NULL, 0);
		r = wait_gone(&st, name, 5000, err);
	}
	store_sweep(&st);
	store_close(&st);
	return r;
}

/* Sends a verb that ends the sandbox, then waits for the end of the connection. */
static int end_it(const char *name, const char *verb, json_t *args, int timeout_ms,
		  struct cove_error *err)
{
	struct cove_error gone = {0};
	struct cove *s = NULL;
	int r = cove_connect(&s, name, err);

	if (r < 0) {
		json_int_t grace = json_integer_value(json_object_get(args, "graceMs"));

		json_decref(args);
		if (r != COVE_ESTATE && r != COVE_EDAMAGED)
			return r;
		return end_oneshot(name, args ? SIGTERM : SIGKILL, (int)grace, err);
	}
	r = session_keeper(s->session, verb, args, NULL, err);
	if (r == COVE_EGONE) /* it was faster than its answer */
		r = 0;
	while (r == 0 && !session_gone(s->session) && timeout_ms > 0) {
		int64_t before = now_ms();

		if (session_turn(s->session, timeout_ms, &gone) < 0)
			break;
		timeout_ms -= (int)(now_ms() - before);
	}
	if (r == 0)
		r = wait_gone(&s->store, name, 5000, err);
	cove_free(s);
	return r;
}

int cove_stop(const char *name, int grace_ms, struct cove_error *err)
{
	int grace = grace_ms < 0 ? 5000 : grace_ms;

	return end_it(name, "stop", json_pack("{s:i}", "graceMs", grace), grace + 10000,
		      ERR(err));
}

int cove_kill(const char *name, struct cove_error *err)
{
	return end_it(name, "kill", NULL, 10000, ERR(err));
}

/* ---- pausing -------------------------------------------------------------------- */

/* A machine may take a moment to stop; one that does not is let go again. */
static int hold_still(struct session *s, struct cove_error *err)
{
	static const struct timespec moment = {.tv_nsec = 5 * 1000 * 1000};
	int64_t until = now_ms() + PAUSE_MS;
	bool paused = false;

	while (!paused) {
		json_t *answer = NULL;

		if (session_keeper(s, "pause", NULL, &answer, err) < 0)
			return err->code;
		paused = json_is_true(json_object_get(answer, "paused"));
		json_decref(answer);
		if (!paused && now_ms() > until) {
			struct cove_error ignored = {0};

			session_keeper(s, "resume", NULL, NULL, &ignored);
			return fail(err, COVE_ETIMEDOUT, 0, "it does not hold still");
		}
		if (!paused)
			nanosleep(&moment, NULL);
	}
	return 0;
}

static int hold(const char *name, const char *verb, struct cove_error *err)
{
	struct cove *s = NULL;
	int r = cove_connect(&s, name, err);

	if (r == 0)
		r = audit_log(&s->store, name, verb,
			      json_pack("{s:i}", "uid", (int)getuid()), err);
	if (r == 0)
		r = strcmp(verb, "pause") == 0
			    ? hold_still(s->session, err)
			    : session_keeper(s->session, verb, NULL, NULL, err);
	cove_free(s);
	return r;
}

int cove_pause(const char *name, struct cove_error *err)
{
	return hold(name, "pause", ERR(err));
}

int cove_resume(const char *name, struct cove_error *err)
{
	return hold(name, "resume", ERR(err));
}

/* Opens the store and takes the lock of an existing, stopped sandbox. ending_ok: one that
 * is damaged, or about to end, will do as well. */
static int lock_stopped(struct store *st, const char *name, bool ending_ok, int *ret_lock,
			struct cove_error *err)
{
	struct spec spec;
	int r;

	if (handle_store(st, err) < 0)
		return err->code;
	r = store_load(st, name, &spec, err);
	if (r == 0)
		spec_clear(&spec);
	if (r == COVE_EDAMAGED && ending_ok)
		r = 0;
	if (r == 0 && ending_ok)
		wait_gone(st, name, 3000, err);
	if (r == 0)
		r = store_lock(st, name, ret_lock, err);
	if (r < 0) {
		if (r == COVE_ESTATE)
			hint(err, "'cove stop %s' first", name);
		store_close(st);
	}
	return r;
}

static void unlock(struct store *st, const char *name, int *lock)
{
	store_clear_run(st, name);
	close_fd(lock);
	store_close(st);
}

int cove_remove(const char *name, uint32_t flags, struct cove_error *err)
{
	struct store st;
	int lock = -1, r;

	err = ERR(err);
	if (flags & ~(uint32_t)COVE_REMOVE_FORCE)
		return fail(err, COVE_EINVAL, 0, "remove: unknown flag");
	if (flags & COVE_REMOVE_FORCE) {
		struct cove_error ignored = {0};

		cove_kill(name, &ignored);
	}
	r = lock_stopped(&st, name, flags & COVE_REMOVE_FORCE, &lock, err);
	if (r < 0)
		return r;
	r = audit_keep(&st, name, err);
	if (r == 0)
		r = store_remove(&st, name, err);
	unlock(&st, name, &lock);
	return r;
}

int cove_reset(const char *name, struct cove_error *err)
{
	struct store st;
	int lock = -1, r;

	err = ERR(err);
	r = lock_stopped(&st, name, false, &lock, err);
	if (r < 0)
		return r;
	r = audit_log(&st, name, "reset", json_pack("{s:i}", "uid", (int)getuid()), err);
	if (r == 0)
		r = store_reset(&st, name, err);
	unlock(&st, name, &lock);
	return r;
}

/* ---- update --------------------------------------------------------------------- */

/* What of the network the egress role takes while it runs. */
static void drop_live_network(json_t *spec)
{
	static const char *const keys[] = {"mode",  "allowedHosts", "allowedPorts",
					   "rules", "ask",          "addresses",
					   "file"};
	json_t *network = json_object_get(spec, "network");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		json_object_del(network, keys[i]);
}

/* Equal in everything that cannot change while it runs? */
static bool only_limits_differ(const struct spec *a, const struct spec *b)
{
	json_t *x = spec_json(a, false), *y = spec_json(b, false);
	bool same;

	json_object_del(x, "resources");
	json_object_del(y, "resources");
	drop_live_network(x);
	drop_live_network(y);
	same = x && y && json_equal(x, y);
	json_decref(x);
	json_decref(y);
	return same;
}

static int update_running(const char *name, const struct spec *old,
			  const struct spec *new, struct cove_error *err)
{
	json_t *j = spec_json(new, true);
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
	struct cove *s = NULL;
	int r;

	json_decref(j);
	if (!text)
		return fail_nomem(err);
	if (!only_limits_differ(old, new)) {
		free(text);
		fail(err, COVE_ESTATE, 0,
		     "this change needs a restart; nothing was changed");
		return hint(err, "'cove stop %s', then again", name);
	}
	r = cove_connect(&s, name, err);
	if (r == 0)
		r = session_keeper(s->session, "update", json_pack("{s:s}", "spec", text),
				   NULL, err);
	cove_free(s);
	free(text);
	return r;
}

/* ---- layers of a changed mount list --------------------------------------------- */

/* One more than any that the spec or the record has. */
static int fresh_layer(struct store *st, const char *name, const struct spec *old)
{
	cleanup_fd int record = openat(st->boxes, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int next = 0;
	struct stat sb;
	char dir[24];

	for (size_t i = 0; i < old->n_mounts; i++)
		if (spec_layer_number(old, i) >= next)
			next = spec_layer_number(old, i) + 1;
	for (;; next++) {
		snprintf(dir, sizeof(dir), "m%d", next);
		if (fstatat(record, dir, &sb, AT_SYMLINK_NOFOLLOW) < 0)
			return next;
	}
}

/* A working directory that went with its mount: then that of the first mount. */
static int follow_workdir(const struct spec *old, struct spec *new,
			  struct cove_error *err)
{
	const char *dir = new->exec.workdir, *home, *user;
	bool was = false, is = false;
	uid_t uid;
	gid_t gid;

	if (!dir || strcmp(dir, old->exec.workdir ? old->exec.workdir : "") != 0)
		return 0; /* asked for */
	for (size_t i = 0; i < old->n_mounts; i++)
		was |= spec_path_below(dir, old->mounts[i].target);
	for (size_t i = 0; i < new->n_mounts; i++)
		is |= spec_path_below(dir, new->mounts[i].target);
	if (!was || is)
		return 0;
	if (box_user(new, &uid, &gid, &home, &user, err) < 0)
		return err->code;
	return spec_set(new, "exec.workDir", new->n_mounts ? new->mounts[0].target : home,
			err);
}

/* What 'cove diff' would show of it; all paths, where that cannot be told. */
static uint64_t overlay_changes(struct store *st, const char *name, int layer)
{
	uint64_t paths = store_count_layer(st, name, layer, 100000), n = 0;
	struct cove_error ignored = {0};
	struct changes list = {0};
	struct workspace w;
	char dir[24];
	int r;

	if (paths == 0 || workspace_open(&w, st, name, 0, &ignored) < 0)
		return paths;
	r = changes_list(&list, &w.layers, w.ledgers, NULL, CHANGES_NO_RENAMES, &ignored);
	snprintf(dir, sizeof(dir), "m%d", layer);
	for (size_t i = 0; r == 0 && i < list.n; i++)
		n += strcmp(w.layers.v[list.v[i].layer].name, dir) == 0;
	changes_clear(&list);
	workspace_close(&w);
	return r < 0 ? paths : n;
}

static uint64_t layer_changes(struct store *st, const char *name, const struct spec *s,
			      size_t i)
{
	int layer = spec_layer_number(s, i);
	char dir[24];

	if (s->mounts[i].mode == MOUNT_OVERLAY)
		return overlay_changes(st, name, layer);
	if (s->mounts[i].mode != MOUNT_COPY)
		return 0;
	cleanup_fd int record = openat(st->boxes, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(dir, sizeof(dir), "m%d", layer);
	return copymount_changes(record, dir, 100000);
}

/* Nobody's work goes with a mount. */
static int refuse_loss(struct store *st, const char *name, const struct spec *old,
		       const struct spec *new, struct cove_error *err)
{
	for (size_t i = 0; i < old->n_mounts; i++) {
		const struct spec_mount *m = &old->mounts[i];
		uint64_t n;

		if (spec_find_mount(new, m) < new->n_mounts)
			continue;
		n = layer_changes(st, name, old, i);
		if (n == 0)
			continue;
		fail(err, COVE_ESTATE, 0,
		     "the mount of %s holds %llu changed path%s; nothing was changed",
		     m->target, (unsigned long long)n, n == 1 ? "" : "s");
		return m->mode == MOUNT_COPY
			       ? hint(err,
				      "copy out with 'cove cp' what you need, then "
				      "'cove reset %s'",
				      name)
			       : hint(err, "apply or discard them first: 'cove diff %s'",
				      name);
	}
	return 0;
}

static void drop_layers(struct store *st, const char *name, const struct spec *old,
			const struct spec *new)
{
	cleanup_fd int record = openat(st->boxes, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < old->n_mounts; i++) {
		char dir[24];

		snprintf(dir, sizeof(dir), "m%d", spec_layer_number(old, i));
		if (spec_find_mount(new, &old->mounts[i]) == new->n_mounts)
			remove_tree_at(record, dir);
	}
}

static int update_stopped(struct store *st, const char *name, const struct spec *old,
			  const struct spec *new, struct cove_error *err)
{
	int lock = -1, r = store_lock(st, name, &lock, err);

	if (r < 0)
		return r;
	r = refuse_loss(st, name, old, new, err);
	if (r == 0)
		r = audit_log_spec(st, name, old, new, err);
	if (r == 0)
		r = store_save(st, name, new, err);
	if (r == 0)
		drop_layers(st, name, old, new);
	store_clear_run(st, name);
	close_fd(&lock);
	return r;
}

static int make_updated(const struct store *st, struct spec *new, const struct spec *old,
			const struct cove_spec *changes, uint32_t flags,
			struct cove_error *err)
{
	int r = spec_copy(new, flags & COVE_UPDATE_FULL ? &changes->spec : old, err);

	if (r == 0 && !(flags & COVE_UPDATE_FULL))
		r = spec_merge(new, &changes->spec, err);
	if (r == 0) {
		r = box_resolve_spec(new, st, err);
		if (r == 0)
			r = follow_workdir(old, new, err);
		if (r < 0)
			spec_clear(new);
	}
	return r;
}

int cove_update(const char *name, const struct cove_spec *changes, uint32_t flags,
		struct cove_error *err)
{
	struct store st;
	struct spec old, new;
	int r;

	err = ERR(err);
	if (flags & ~(uint32_t)COVE_UPDATE_FULL)
		return fail(err, COVE_EINVAL, 0, "update: unknown flag");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = store_load(&st, name, &old, err);
	if (r == 0) {
		r = make_updated(&st, &new, &old, changes, flags, err);
		if (r == 0) {
			spec_keep_layers(&new, &old, fresh_layer(&st, name, &old));
			r = store_is_running(&st, name)
				    ? update_running(name, &old, &new, err)
				    : update_stopped(&st, name, &old, &new, err);
			spec_clear(&new);
		}
		spec_clear(&old);
	}
	store_close(&st);
	return r;
}
