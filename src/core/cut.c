/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cut.h"

#include "base/util.h"
#include "core/snapshot_impl.h"
#include "core/store_impl.h"
#include "core/workspace.h"
#include "work/apply.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#define QUIET_MS 60000 /* for a guest to finish what it is about, and sync its disk */
#define RENEW_MS 15000 /* the keeper's lease is four times as long */
#define OPEN_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* ---- units ---------------------------------------------------------------------- */

bool cut_is_unit(const char *name)
{
	size_t n = strspn(name + (name[0] == 'm'), "0123456789");

	if (name[0] == 'm' && n > 0 && n < 8 && name[1 + n] == '\0')
		return true;
	return strcmp(name, "home") == 0 || strcmp(name, "root") == 0 ||
	       strcmp(name, "mask") == 0;
}

/* The kernel's scratch: it must be empty for the next mount, but its time says when the
 * last one was. */
const char *cut_hollow(const char *unit)
{
	bool layer = store_is_layer(unit) || strcmp(unit, "root") == 0;

	return layer ? "work" : NULL;
}

int cut_copy_unit(struct copytree *t, int from, const char *unit, int to, const char *as,
		  struct cove_error *err)
{
	cleanup_fd int dir = openat(from, unit, OPEN_DIR);

	if (dir < 0)
		return fail(err, COVE_EIO, errno, "open %s", unit);
	t->label = as;
	t->hollow = cut_hollow(unit);
	return copytree(t, dir, to, as, err);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

int cut_each_unit(int dir, int (*fn)(void *arg, const char *unit, struct cove_error *err),
		  void *arg, struct cove_error *err)
{
	int fd = openat(dir, ".", OPEN_DIR), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char names[SPEC_LIST_MAX + 8][16];
	struct dirent *e;
	size_t n = 0;

	if (!d) {
		closep(&fd);
		return fail(err, COVE_EIO, errno, "read the record");
	}
	while ((e = readdir(d)) && n < ARRAY_LEN(names))
		if (cut_is_unit(e->d_name))
			snprintf(names[n++], sizeof(names[0]), "%.15s", e->d_name);
	closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	if (n == ARRAY_LEN(names))
		return fail(err, COVE_EDAMAGED, 0, "more layers than mounts can be");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = fn(arg, names[i], err);
	return r;
}

struct unit_copy {
	struct copytree *t;
	int from, to;
};

static int copy_one(void *arg, const char *unit, struct cove_error *err)
{
	struct unit_copy *u = arg;

	return cut_copy_unit(u->t, u->from, unit, u->to, unit, err);
}

int cut_copy_units(struct copytree *t, int from, int to, struct cove_error *err)
{
	struct unit_copy u = {t, from, to};

	return cut_each_unit(from, copy_one, &u, err);
}

/* ---- volumes -------------------------------------------------------------------- */

size_t spec_volumes(const struct spec *s, const char *names[SPEC_LIST_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_mounts && n < SPEC_LIST_MAX; i++) {
		bool known = s->mounts[i].mode != MOUNT_VOLUME;

		for (size_t k = 0; k < n && !known; k++)
			known = strcmp(names[k], s->mounts[i].source) == 0;
		if (!known)
			names[n++] = s->mounts[i].source;
	}
	return n;
}

int cut_open_volume(const struct cut *c, const char *volume)
{
	struct cove_error err = {0};
	cleanup_fd int parent = c->files == c->record
					? volume_parent(c->store, &err)
					: openat(c->files, "volumes", OPEN_DIR);
	int fd;

	if (parent < 0)
		return c->files != c->record ? -errno : err.sys ? -err.sys : -EIO;
	fd = openat(parent, volume, OPEN_DIR);
	return fd < 0 ? -errno : fd;
}

/* ---- opening and holding -------------------------------------------------------- */

int record_open(struct store *st, const char *name, struct cove_error *err)
{
	int fd = openat(st->boxes, name, OPEN_DIR);

	return fd < 0 ? fail(err, COVE_EIO, errno, "directory of %s", name) : fd;
}

/* 1: it holds still; 0: it is about to. */
static int ask_hold(struct cut *c, struct cove_error *err)
{
	json_t *answer = NULL, *args = c->memory ? json_pack("{s:b}", "memory", 1) : NULL;
	int r = session_keeper(c->keeper, "freeze", args, &answer, err);

	if (r == 0)
		r = json_is_true(json_object_get(answer, "frozen"));
	json_decref(answer);
	return r;
}

static int hold(struct cut *c, struct cove_error *err)
{
	static const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
	static const struct timespec moment = {.tv_nsec = 2 * 1000 * 1000};
	int64_t until = now_ms() + QUIET_MS;
	int r = ask_hold(c, err);

	/* We have the lock: whoever had it before us and was killed is about to be
	 * noticed by the keeper. */
	for (int i = 0; r == COVE_ESTATE && i < 50 && !c->memory; i++) {
		nanosleep(&pause, NULL);
		r = ask_hold(c, err);
	}
	while (r == 0 && now_ms() < until) {
		nanosleep(&moment, NULL);
		r = ask_hold(c, err);
	}
	if (r == 0)
		r = fail(err, COVE_ETIMEDOUT, 0, "it does not become quiet");
	c->renew_at = now_ms() + RENEW_MS;
	return r < 0 ? wrap(err, "hold %s still", c->name) : 0;
}

static int start(struct cut *c, struct store *st, const char *name,
		 struct cove_error *err)
{
	int r;

	*c = (struct cut){
		.store = st, .record = -1, .files = -1, .work_lock = -1, .run_lock = -1};
	spec_init(&c->spec);
	snprintf(c->name, sizeof(c->name), "%s", name);
	r = store_load(st, name, &c->spec, err);
	if (r < 0)
		return r;
	c->record = record_open(st, name, err);
	return c->record < 0 ? c->record : 0;
}

/* What was cut off is completed, and the ledgers notice what is new. A mount whose
 * directory is gone from the host keeps neither from being copied. */
static int settle(struct cut *c, uint32_t flags, struct cove_error *err)
{
	struct workspace w;
	int r = workspace_open(&w, c->store, c->name, flags, err);

	if (r == 0)
		workspace_close(&w);
	else if (r != COVE_ESTATE && !work_interrupted(c->record))
		r = 0;
	return r;
}

static int open_cut(struct cut *c, struct store *st, const char *name, int *keeper,
		    bool memory, struct cove_error *err)
{
	bool stopped = *keeper < 0;
	int r = start(c, st, name, err);

	c->memory = memory;
	if (r == 0)
		r = settle(c, stopped ? WORKSPACE_STOPPED : 0, err);
	if (r < 0)
		return r;
	c->files = c->record;
	/* Others hold it for moments; the sandbox is not to wait frozen for them. */
	c->work_lock = workspace_lock(c->record, err);
	if (c->work_lock < 0)
		return c->work_lock;
	if (stopped)
		return store_lock(st, name, &c->run_lock, err);
	c->keeper = session_new(keeper, err);
	return c->keeper ? hold(c, err) : err->code;
}

int cut_open(struct cut *c, struct store *st, const char *name, int *keeper,
	     struct cove_error *err)
{
	return open_cut(c, st, name, keeper, false, err);
}

int cut_open_memory(struct cut *c, struct store *st, const char *name, int *keeper,
		    struct cove_error *err)
{
	return open_cut(c, st, name, keeper, true, err);
}

int cut_open_snapshot(struct cut *c, struct store *st, const char *name, const char *tag,
		      struct cove_error *err)
{
	struct spec spec;
	int r = start(c, st, name, err);

	if (r < 0)
		return r;
	c->work_lock = workspace_lock(c->record, err);
	if (c->work_lock < 0)
		return c->work_lock;
	c->files = snapshot_open(c->record, name, tag, err);
	if (c->files < 0)
		return c->files;
	r = snapshot_load_spec(c->files, tag, &spec, err);
	if (r < 0)
		return r;
	spec_clear(&c->spec);
	c->spec = spec;
	return 0;
}

int cut_tick(void *arg)
{
	struct cut *c = arg;

	if (!c->keeper || now_ms() < c->renew_at)
		return 0;
	return c->broken.code ? c->broken.code : hold(c, &c->broken);
}

int cut_release(struct cut *c, struct cove_error *err)
{
	json_t *answer = NULL;
	bool held;
	int r = 0;

	if (!c->keeper)
		return 0;
	if (c->broken.code) {
		*err = c->broken;
		return err->code;
	}
	r = session_keeper(c->keeper, "thaw", NULL, &answer, err);
	held = json_is_true(json_object_get(answer, "held"));
	json_decref(answer);
	session_free(c->keeper);
	c->keeper = NULL;
	if (r == 0 && !held) {
		fail(err, COVE_ESTATE, 0, "%s went on or ended while it was copied",
		     c->name);
		r = hint(err, "nothing was kept; try again");
	}
	return r;
}

void cut_clear(struct cut *c)
{
	struct cove_error ignored = {0};

	/* At once: its end would be noticed a little later. */
	if (c->keeper)
		session_keeper(c->keeper, "thaw", NULL, NULL, &ignored);
	session_free(c->keeper);
	c->keeper = NULL;
	if (c->files != c->record)
		close_fd(&c->files);
	if (c->run_lock >= 0)
		store_clear_run(c->store, c->name);
	close_fd(&c->run_lock);
	volume_release(&c->volumes);
	close_fd(&c->work_lock);
	close_fd(&c->record);
	spec_clear(&c->spec);
}
