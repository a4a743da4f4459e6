/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle - stopping, removing and changing sandboxes by name. */
#include "api/handle.h"

#include "base/util.h"

#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

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
	r = store_reset(&st, name, err);
	unlock(&st, name, &lock);
	return r;
}

/* ---- update --------------------------------------------------------------------- */

/* Equal in everything that cannot change while it runs? */
static bool only_limits_differ(const struct spec *a, const struct spec *b)
{
	json_t *x = spec_json(a, false), *y = spec_json(b, false);
	bool same;

	json_object_del(x, "resources");
	json_object_del(y, "resources");
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

static int update_stopped(struct store *st, const char *name, const struct spec *new,
			  struct cove_error *err)
{
	int lock = -1, r = store_lock(st, name, &lock, err);

	if (r < 0)
		return r;
	r = store_save(st, name, new, err);
	store_clear_run(st, name);
	close_fd(&lock);
	return r;
}

static int make_updated(struct spec *new, const struct spec *old,
			const struct cove_spec *changes, uint32_t flags,
			struct cove_error *err)
{
	int r = spec_copy(new, flags & COVE_UPDATE_FULL ? &changes->spec : old, err);

	if (r == 0 && !(flags & COVE_UPDATE_FULL))
		r = spec_merge(new, &changes->spec, err);
	if (r == 0) {
		r = box_resolve_spec(new, err);
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
		r = make_updated(&new, &old, changes, flags, err);
		if (r == 0) {
			r = store_is_running(&st, name)
				    ? update_running(name, &old, &new, err)
				    : update_stopped(&st, name, &new, err);
			spec_clear(&new);
		}
		spec_clear(&old);
	}
	store_close(&st);
	return r;
}
