/* SPDX-License-Identifier: Apache-2.0 */
#include "core/workspace.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/quarantine.h"
#include "core/snapshot.h"
#include "work/apply.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define PENDING "pending"
#define LOCK_FILE "work.lock"

/* ---- marks and locks ------------------------------------------------------------ */

static int pending_path(const struct store *st, const char *name, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/" PENDING "%s%s", st->home, *name ? "/" : "",
			 name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int workspace_mark(struct store *st, const char *name, bool on)
{
	char dir[4096], path[4096];
	int r = pending_path(st, "", dir, sizeof(dir));

	if (r == 0)
		r = pending_path(st, name, path, sizeof(path));
	if (r < 0)
		return r;
	if (!on)
		return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return -errno;
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	cleanup_fd int parent =
		fd < 0 ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return parent < 0 || fsync(parent) < 0 ? -errno : 0;
}

static int take_lock(int record, int how)
{
	int fd = openat(record, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			0600);

	if (fd < 0)
		return -errno;
	while (flock(fd, how) < 0)
		if (errno != EINTR) {
			int saved = errno;

			close(fd);
			return -saved;
		}
	return fd;
}

int workspace_lock(int record, struct cove_error *err)
{
	int fd = take_lock(record, LOCK_EX);

	return fd < 0 ? fail(err, COVE_EIO, -fd, "%s", LOCK_FILE) : fd;
}

/* ---- layers --------------------------------------------------------------------- */

static int open_dir(int at, const char *path)
{
	return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int copy_skips(const struct spec *s, size_t i, struct layer *l)
{
	const char *v[SPEC_LIST_MAX * 2];
	size_t n = spec_skips(s, i, v, ARRAY_LEN(v));

	if (n > ARRAY_LEN(v))
		n = ARRAY_LEN(v);
	l->skip = calloc(n + 1, sizeof(*l->skip));
	for (size_t k = 0; l->skip && k < n; k++) {
		l->skip[k] = strdup(v[k]);
		if (!l->skip[k])
			return -ENOMEM;
		l->n_skip++;
	}
	return l->skip ? 0 : -ENOMEM;
}

/* 1: the mount has a layer; 0: it has none yet. */
static int open_layer(const struct spec *s, size_t i, int record, struct layer *l,
		      struct cove_error *err)
{
	const struct spec_mount *m = &s->mounts[i];

	*l = (struct layer){.lower = -1, .dir = -1, .upper = -1};
	snprintf(l->name, sizeof(l->name), "m%d", spec_layer_number(s, i));
	l->dir = open_dir(record, l->name);
	if (l->dir < 0)
		return errno == ENOENT ? 0
				       : fail(err, COVE_EIO, errno, "layer %s", l->name);
	remove_tree_at(l->dir, ".dropped"); /* a discard that was cut off */
	l->upper = open_dir(l->dir, "upper");
	l->source = strdup(m->source);
	l->target = strdup(m->target ? m->target : m->source);
	if (!l->source || !l->target || copy_skips(s, i, l) < 0)
		return fail_nomem(err);
	l->lower = open(m->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->lower < 0) {
		fail(err, COVE_EIO, errno, "the mounted directory %s", m->source);
		return hint(err,
			    "the changes are kept; put the directory back to see them");
	}
	return 1;
}

static int open_layers(struct workspace *w, struct cove_error *err)
{
	const struct spec *s = &w->spec;
	struct layers *l = &w->layers;

	l->v = calloc(s->n_mounts + 1, sizeof(*l->v));
	w->ledgers = calloc(s->n_mounts + 1, sizeof(*w->ledgers));
	if (!l->v || !w->ledgers)
		return fail_nomem(err);
	for (size_t i = 0; i < s->n_mounts; i++) {
		int r;

		if (s->mounts[i].mode != MOUNT_OVERLAY)
			continue;
		r = open_layer(s, i, l->record, &l->v[l->n], err);
		l->n += r != 0; /* a half-opened one is cleared with the rest */
		if (r < 0)
			return r;
		if (r &&
		    ledger_open(&w->ledgers[l->n - 1], &l->v[l->n - 1], NULL, err) < 0)
			return err->code;
	}
	return 0;
}

static void capture(struct workspace *w)
{
	for (size_t i = 0; i < w->layers.n; i++) {
		struct cove_error ignored = {0};

		if (w->layers.v[i].upper >= 0 && w->ledgers[i] &&
		    ledger_capture(w->ledgers[i], &w->layers.v[i], &ignored) == 0)
			ledger_save(w->ledgers[i], &ignored);
	}
}

/* ---- opening -------------------------------------------------------------------- */

/* A one-shot has its spec in the run directory until it is kept. */
static int load_spec(struct store *st, const char *name, struct spec *ret,
		     struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(SPEC_TEXT_MAX);
	cleanup_buf struct buf problems = BUF_INIT(1 << 16);
	struct cove_error other = {0};
	char path[SPEC_NAME_MAX + 32];
	int r = store_load(st, name, ret, err);

	if (r != COVE_EDAMAGED)
		return r;
	snprintf(path, sizeof(path), "%s/spec.json", name);
	if (read_file_at(st->run_fd, path, &text) < 0 || !text.data)
		return r;
	spec_init(ret);
	if (spec_parse(ret, text.data, text.len, path, &problems, &other) == 0)
		return 0;
	spec_clear(ret);
	return r;
}

static bool restore_pending(int record)
{
	struct stat st;

	return fstatat(record, "restoring", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int lock_state(struct workspace *w, uint32_t flags, struct cove_error *err)
{
	int r;

	if (!(flags & (WORKSPACE_WRITE | WORKSPACE_STOPPED)) &&
	    !work_interrupted(w->layers.record) && !restore_pending(w->layers.record)) {
		w->layers.running = store_is_running(w->store, w->name);
		return 0;
	}
	r = store_lock(w->store, w->name, &w->run_lock, err);
	if (r == COVE_ESTATE && !(flags & WORKSPACE_STOPPED)) {
		w->layers.running = true;
		return 0;
	}
	return r == COVE_ESTATE ? hint(err, "'cove stop %s' first", w->name) : r;
}

static int keep_file(void *arg, int root, int dir, const char *name, const char *path,
		     const char *why)
{
	struct workspace *w = arg;

	return quarantine_take(w->store, w->name, root, dir, name, path, why);
}

static void note_path(void *arg, const char *path, const char *why)
{
	struct workspace *w = arg;

	quarantine_note(w->store, w->name, path, why);
}

/* The log has a word of how what it says has begun came to an end. */
static int recover(struct workspace *w, bool rebase, struct cove_error *err)
{
	const struct recover_ops ops = {w, keep_file, note_path};
	struct work work = {&w->layers, w->ledgers};
	struct cove_error ignored = {0};
	struct recovery did = {NULL, NULL};
	int r = 0;

	if (work_interrupted(w->layers.record))
		r = work_recover(&work, &ops, &did, err);
	if (did.event)
		audit_log(w->store, w->name, did.event,
			  json_pack("{s:s, s:b}", "result", did.result, "afterCrash", 1),
			  &ignored);
	return r == 0 && rebase ? work_rebase(&work, err) : r;
}

static int open_parts(struct workspace *w, uint32_t flags, struct cove_error *err)
{
	w->layers.record = open_dir(w->store->boxes, w->name);
	if (w->layers.record < 0)
		return fail(err, COVE_EIO, errno, "sandbox %s", w->name);
	w->lock = workspace_lock(w->layers.record, err);
	if (w->lock < 0 || lock_state(w, flags, err) < 0)
		return err->code;
	if (w->run_lock >= 0 && snapshot_recover(w->store, w->name, err) < 0)
		return err->code;
	if (flags & WORKSPACE_WRITE) {
		int r = workspace_mark(w->store, w->name, true);

		if (r < 0) /* a crash would go unnoticed */
			return fail(err, COVE_EIO, -r, "%s/" PENDING, w->store->home);
		w->marked = true;
	}
	if (open_layers(w, err) < 0 || recover(w, w->run_lock >= 0, err) < 0)
		return err->code;
	capture(w);
	return 0;
}

static void workspace_init(struct workspace *w, struct store *st, const char *name)
{
	*w = (struct workspace){.store = st, .lock = -1, .run_lock = -1};
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->layers.record = -1;
}

int workspace_open(struct workspace *w, struct store *st, const char *name,
		   uint32_t flags, struct cove_error *err)
{
	workspace_init(w, st, name);
	if (load_spec(st, name, &w->spec, err) < 0)
		return err->code;
	if (open_parts(w, flags, err) < 0) {
		workspace_close(w);
		return err->code;
	}
	return 0;
}

void workspace_close(struct workspace *w)
{
	for (size_t i = 0; w->ledgers && i < w->layers.n; i++)
		ledger_close(w->ledgers[i]);
	free(w->ledgers);
	if (w->marked && !work_interrupted(w->layers.record))
		workspace_mark(w->store, w->name, false);
	layers_clear(&w->layers);
	if (w->run_lock >= 0) {
		store_clear_run(w->store, w->name);
		close_fd(&w->run_lock);
	}
	close_fd(&w->lock);
	spec_clear(&w->spec);
}

/* ---- for the keeper ------------------------------------------------------------- */

/* The parts without the spec's own loading; the caller knows whether it runs. */
static int open_known(struct workspace *w, struct store *st, const char *name,
		      const struct spec *spec, int how, struct cove_error *err)
{
	workspace_init(w, st, name);
	if (spec_copy(&w->spec, spec, err) < 0)
		return err->code;
	w->layers.record = open_dir(st->boxes, name);
	w->lock = w->layers.record < 0 ? -errno : take_lock(w->layers.record, how);
	if (w->lock < 0) {
		fail(err, COVE_EIO, -w->lock, "sandbox %s", name);
		w->lock = -1;
		return err->code;
	}
	return 0;
}

void workspace_capture(struct store *st, const char *name, const struct spec *spec)
{
	struct cove_error ignored = {0};
	struct workspace w;

	/* Somebody who has it open looks himself. */
	if (open_known(&w, st, name, spec, LOCK_EX | LOCK_NB, &ignored) == 0 &&
	    open_layers(&w, &ignored) == 0)
		capture(&w);
	workspace_close(&w);
}

int workspace_settle(struct store *st, const char *name, const struct spec *spec,
		     struct cove_error *err)
{
	struct workspace w;
	int r = open_known(&w, st, name, spec, LOCK_EX, err);

	if (r == 0)
		r = snapshot_recover(st, name, err);
	if (r == 0)
		r = open_layers(&w, err);
	if (r == 0) {
		r = recover(&w, true, err);
		capture(&w);
	}
	workspace_close(&w);
	return r;
}

/* Somebody who notes changes holds the lock for a moment, somebody who applies for
 * longer: the one is waited for, the other not. */
static int lock_soon(int record)
{
	static const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	int fd = take_lock(record, LOCK_EX | LOCK_NB);

	for (int i = 0; i < 30 && fd == -EWOULDBLOCK; i++) {
		nanosleep(&pause, NULL);
		fd = take_lock(record, LOCK_EX | LOCK_NB);
	}
	return fd;
}

void workspace_sweep(struct store *st)
{
	char path[4096];
	DIR *d = pending_path(st, "", path, sizeof(path)) == 0 ? opendir(path) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct cove_error err = {0};
		struct workspace w;

		if (!spec_name_ok(e->d_name))
			continue;
		cleanup_fd int record = open_dir(st->boxes, e->d_name);
		cleanup_fd int lock = record < 0 ? -ENOENT : lock_soon(record);
		if (record >= 0 && lock < 0)
			continue; /* somebody works on it */
		close_fd(&lock);
		if (record < 0) {
			workspace_mark(st, e->d_name, false);
			continue;
		}
		/* its closing takes the mark away if all is well */
		if (workspace_open(&w, st, e->d_name, WORKSPACE_WRITE, &err) == 0)
			workspace_close(&w);
	}
	if (d)
		closedir(d);
}
