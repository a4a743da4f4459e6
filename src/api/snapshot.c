/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot - snapshots, restores and clones by name. */
#include "api/handle.h"
#include "api/state.h"

#include "base/util.h"
#include "core/clone.h"
#include "core/snapshot.h"

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

int cove_snapshot(const char *name, const char *tag, const char *description,
		  struct cove_error *err)
{
	struct store st;
	struct cut c;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = snapshot_check_new(&st, name, tag, err);
	if (r == 0)
		r = open_cut(&c, &st, name, err);
	if (r == 0) {
		r = snapshot_take(&c, tag, description, err);
		cut_clear(&c);
	}
	store_close(&st);
	return r;
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

int cove_restore(const char *name, const char *tag, struct cove_error *err)
{
	struct store st;
	struct cut c;
	int none = -1, r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = cut_open(&c, &st, name, &none, err);
	if (r == 0)
		r = snapshot_restore(&c, tag, err);
	else if (r == COVE_ESTATE && !err->hint[0])
		hint(err, "'cove stop %s' first", name);
	cut_clear(&c);
	store_close(&st);
	return r;
}

int cove_snapshot_remove(const char *name, const char *tag, struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = snapshot_remove(&st, name, tag, err);
	store_close(&st);
	return r;
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
