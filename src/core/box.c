/* SPDX-License-Identifier: Apache-2.0 */
#include "core/box_impl.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit_notes.h"
#include "core/egress.h"
#include "core/guestfile.h"
#include "core/secret.h"
#include "core/session.h"
#include "core/workspace.h"
#include "os/seccomp.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* ---- start and end -------------------------------------------------------------- */

static void oneshot_name(char *out)
{
	static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char r[8];

	if (getrandom(r, sizeof(r), 0) != sizeof(r))
		memset(r, (int)getpid(), sizeof(r));
	memcpy(out, "run-", 4);
	for (size_t i = 0; i < sizeof(r); i++)
		out[4 + i] = letters[r[i] % 32];
	out[4 + sizeof(r)] = '\0';
}

static int write_run_file(struct box *b, const char *file, const char *text, size_t n)
{
	char path[SPEC_NAME_MAX + 32];

	snprintf(path, sizeof(path), "%s/%s", b->name, file);
	cleanup_fd int fd = openat(b->store->run_fd, path,
				   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	/* The directory is closed to others; the sandbox's user may be one of them. */
	if (fd < 0 || (strcmp(file, "hosts") == 0 && fchmod(fd, 0644) < 0))
		return -errno;
	return write_all(fd, text, n);
}

int box_note_spec(struct box *b, struct cove_error *err)
{
	json_t *j;
	char *text;
	int r;

	if (!b->oneshot || !box_needs_record(b))
		return 0;
	j = spec_json(&b->spec, true);
	text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
	json_decref(j);
	if (!text)
		return fail_nomem(err);
	r = write_run_file(b, "spec.json", text, strlen(text));
	free(text);
	return r < 0 ? fail(err, COVE_EIO, -r, "run directory of %s", b->name) : 0;
}

static void note_cgroup(void *arg, const struct cgroup *c)
{
	char text[4096];

	if (cgroup_save(c, text, sizeof(text)) >= 0)
		write_run_file(arg, "cgroup", text, strlen(text));
}

/* Two users, or two homes of one, may each have a sandbox of the same name. */
static void cgroup_id(struct box *b)
{
	uint32_t h = 2166136261u;

	for (const char *p = b->store->home; *p; p++)
		h = (h ^ (unsigned char)*p) * 16777619u;
	snprintf(b->id, sizeof(b->id), "%.40s.%08x", b->name, h);
}

/* A named sandbox has its name as host name, and that name must resolve. */
static int make_hosts(struct box *b, struct cove_error *err)
{
	char text[200];
	int n = snprintf(text, sizeof(text),
			 "127.0.0.1 localhost %s\n::1 localhost ip6-localhost %s\n",
			 b->name, b->name);
	int r = write_run_file(b, "hosts", text, (size_t)n);

	if (r == 0 &&
	    store_run_path(b->store, b->name, "hosts", b->hosts, sizeof(b->hosts)) < 0)
		r = -ENAMETOOLONG;
	b->config.hosts = b->hosts;
	return r < 0 ? fail(err, COVE_EIO, -r, "hosts file of %s", b->name) : 0;
}

/* What a backend must know of this host before a box is there. */
static int host_config(struct place_config *c, const struct spec *s,
		       const struct store *st, struct cove_error *err)
{
	*c = (struct place_config){.spec = s,
				   .cache_dir = st->cache,
				   .kernels = st->kernels,
				   .guest = guest_file(err)};
	return c->guest ? 0 : err->code;
}

int box_backend(const struct spec *s, const struct store *st, const struct backend **ret,
		struct cove_error *err)
{
	struct place_config c;

	return host_config(&c, s, st, err) < 0 ? err->code : backend_pick(ret, &c, err);
}

int box_prepare(const struct spec *s, const struct store *st, struct cove_error *err)
{
	const struct backend *be;
	struct place_config c;
	struct image image;
	const char *user;

	if (host_config(&c, s, st, err) < 0 || backend_pick(&be, &c, err) < 0 ||
	    image_use(st, s, &image, err) < 0)
		return err->code;
	image_release(&image);
	if (box_user(s, &c.uid, &c.gid, &c.home, &user, err) < 0)
		return err->code;
	return be->prepare ? be->prepare(&c, err) : 0;
}

static int pick_saver(const struct spec *s, const struct store *st,
		      struct place_config *c, const struct place_saver **ret,
		      struct cove_error *err)
{
	const struct backend *be;

	if (host_config(c, s, st, err) < 0 || backend_pick(&be, c, err) < 0)
		return err->code;
	*ret = be->saver;
	return be->saver ? 0
			 : fail(err, COVE_ESTATE, 0,
				"the memory is a machine's, and this is backend %s",
				be->name);
}

int box_check_state(const struct spec *s, const struct store *st, const json_t *head,
		    struct cove_error *err)
{
	const struct place_saver *saver;
	struct place_config c;

	if (pick_saver(s, st, &c, &saver, err) < 0)
		return err->code;
	return saver->check(&c, json_object_get(head, "machine"), err);
}

int box_share(const struct spec *s, const struct store *st,
	      const struct place_state *from, struct place_image *ret, json_t **ret_head,
	      struct cove_error *err)
{
	const struct place_saver *saver;
	struct place_config c;

	if (pick_saver(s, st, &c, &saver, err) < 0)
		return err->code;
	return saver->share(&c, from, ret, ret_head, err);
}

int box_probe(const struct backend *be, const struct store *st, json_t *checks,
	      struct cove_error *err)
{
	struct place_config c;

	return host_config(&c, NULL, st, err) < 0 ? err->code
						  : be->probe(&c, checks, err);
}

static int fill_config(struct box *b, bool degraded, struct cove_error *err)
{
	struct place_config *c = &b->config;
	const char *user;

	c->spec = &b->spec;
	c->mounts = b->mounts;
	c->n_mounts = b->n_mounts;
	cgroup_id(b);
	c->id = b->id;
	c->account = !b->oneshot;
	c->cgroup_made = note_cgroup;
	c->arg = b;
	c->hostname = b->oneshot ? "cove" : b->name;
	c->cache_dir = b->store->cache;
	c->image_root = b->image.root[0] ? b->image.root : NULL;
	c->image_disk = spec_image_is_disk(&b->spec) ? b->spec.image.value : NULL;
	c->kernels = b->store->kernels;
	c->degraded = degraded;
	c->state = b->state;
	c->guest = guest_file(err);
	if (!c->guest || (!b->oneshot && make_hosts(b, err) < 0))
		return err->code;
	return box_user(&b->spec, &c->uid, &c->gid, &c->home, &user, err);
}

static int start(struct box *b, bool degraded, struct cove_error *err)
{
	const struct backend *be;

	if (box_backend(&b->spec, b->store, &be, err) < 0)
		return err->code;
	if (!b->oneshot && workspace_settle(b->store, b->name, &b->spec, err) < 0)
		return err->code;
	if (image_use(b->store, &b->spec, &b->image, err) < 0)
		return err->code;
	if (box_make_dirs(b, err) < 0 || fill_config(b, degraded, err) < 0 ||
	    secrets_fill_spec(b->secrets, &b->spec, err) < 0 || box_net_start(b, err) < 0)
		return err->code;
	if (be->start(&b->place, &b->config, err) < 0)
		return err->code;
	b->started = true;
	if (box_net_listen(b, err) < 0)
		return err->code;
	b->started_at = time(NULL);
	diskwatch_init(&b->disk, b->store->boxes, b->name,
		       !b->oneshot || box_needs_record(b) ? b->spec.resources.disk_bytes
							  : 0,
		       now_ms());
	return 0;
}

int box_start(struct box *b, struct store *st, const char *name, struct spec *spec,
	      bool oneshot, bool degraded, struct cove_error *err)
{
	/* Not a whole initialiser: mounts[] is large and need not be touched. */
	b->store = st;
	b->spec = *spec;
	spec_init(spec);
	b->n_mounts = 0;
	b->config = (struct place_config){0};
	b->paths = NULL;
	b->guards = NULL;
	b->volumes = (struct volume_locks){0};
	b->image = (struct image)IMAGE_NONE;
	b->notes = NULL;
	b->lock = -1;
	b->oneshot = oneshot;
	b->started = false;
	b->place = place_none();
	b->egress = NULL;
	b->trust = NULL;
	b->net = NULL;
	b->net_events = b->net_timer = -1;
	b->execs = (struct execs){0};
	b->who_always = false;
	b->owner_reads = NULL;
	b->stopped_for[0] = '\0';
	if (oneshot)
		oneshot_name(b->name);
	else
		snprintf(b->name, sizeof(b->name), "%s", name);
	if (store_lock(st, b->name, &b->lock, err) < 0 || start(b, degraded, err) < 0) {
		struct cove_error ignored = {0};
		uint64_t changes;

		box_end(b, &changes, &ignored);
		return err->code;
	}
	return 0;
}

void box_forget(struct box *b)
{
	char path[SPEC_NAME_MAX + 32];

	snprintf(path, sizeof(path), "%s/spec.json", b->name);
	unlinkat(b->store->run_fd, path, 0);
}

void box_halt(struct box *b)
{
	if (b->started)
		b->place.backend->release(&b->place);
	b->started = false;
	box_net_stop(b);
}

void box_check_guards(struct box *b)
{
	guards_check(b->guards, b->store, b->name);
}

int box_end(struct box *b, uint64_t *ret_changes, struct cove_error *err)
{
	bool was_started = b->started;
	int r = 0;

	*ret_changes = 0;
	box_halt(b);
	if (b->lock >= 0) {
		if (was_started)
			box_check_guards(b);
		box_tidy_layers(b);
		if (was_started && !b->oneshot &&
		    store_count_changes(b->store, b->name, 1))
			syncfs(b->store->boxes); /* the overlay was volatile: now it lasts
						  */
		if (b->oneshot)
			r = store_settle(b->store, b->name, ret_changes, err);
		if (b->oneshot && r == 0 && *ret_changes)
			notes_write(b);
		if (b->oneshot && r == 0 && *ret_changes)
			workspace_capture(b->store, b->name, &b->spec);
		volume_release(&b->volumes); /* whoever sees it ended may want them */
		if (r == 0)
			store_clear_run(b->store, b->name);
		close_fd(&b->lock);
	}
	image_release(&b->image);
	notes_free(take_ptr(b->notes));
	secrets_free(take_ptr(b->secrets));
	box_clear_dirs(b);
	spec_clear(&b->spec);
	return r;
}

void box_explain(struct box *b, enum place_trouble t, struct cove_error *why)
{
	static const char *const texts[] = {
		[PLACE_NOT_UP] = "the guest does not answer",
		[PLACE_ENDED] = "the guest ended",
		[PLACE_SILENT] = "the guest hangs: no answer",
	};

	fail(why, COVE_EGONE, 0, "%s", texts[t]);
	if (b->stopped_for[0])
		fail(why, COVE_EGONE, 0, "%s", b->stopped_for);
	else if (b->started && b->place.backend->explain)
		b->place.backend->explain(&b->place, t, why);
}

/* ---- reports -------------------------------------------------------------------- */

bool box_check_disk(struct box *b, int64_t now, int64_t *ret_next_ms)
{
	bool over = b->started && diskwatch_over(&b->disk, now);

	if (over)
		b->place.backend->kill(&b->place);
	*ret_next_ms = over ? 0 : b->disk.next_ms;
	return over;
}

json_t *box_degraded(const struct box *b)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {
		{CG_MEMORY, "memory"},
		{CG_CPU,    "cpus"  },
		{CG_PIDS,   "pids"  },
		{CG_SWAP,   "swap"  }
        };
	json_t *a = json_array();

	for (size_t i = 0; a && i < ARRAY_LEN(names); i++)
		if (b->place.missing_asked & names[i].bit)
			json_array_append_new(a, json_string(names[i].name));
	return a;
}

json_t *box_attest(struct box *b, int *ret_short, struct cove_error *err)
{
	json_t *items = json_array(), *o;
	int n;

	if (!items) {
		fail_nomem(err);
		return NULL;
	}
	n = b->place.backend->attest(&b->place, &b->config, items, err);
	if (n < 0) {
		json_decref(items);
		return NULL;
	}
	if (b->egress)
		n += egress_attest(b->egress, items);
	o = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o}", "name", b->name, "backend",
		      b->place.backend->name, "seccompFilter", seccomp_guest_digest(),
		      "short", n, "degraded", box_degraded(b), "items", items);
	if (!o)
		fail_nomem(err);
	*ret_short = n;
	return o;
}

/* What a disk of its own takes of this host, and the most that it can. */
static void add_disk_stats(json_t *o, const struct box *b)
{
	char path[PATH_MAX];
	struct stat st;

	if (!o || !b->config.image_disk ||
	    snprintf(path, sizeof(path), "%s/disk", b->config.root_layer) >=
		    (int)sizeof(path) ||
	    lstat(path, &st) < 0)
		return;
	json_object_set_new(o, "diskBytes", json_integer((json_int_t)st.st_blocks * 512));
	json_object_set_new(o, "diskLimitBytes", json_integer((json_int_t)st.st_size));
}

json_t *box_stats(struct box *b)
{
	struct cgroup_stats s = {0};
	bool have = b->place.has_cgroup && cgroup_stats(&b->place.cgroup, &s) == 0;
	json_t *o;

	o = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", b->name,
		      "cgroup", have, "memoryBytes", (json_int_t)s.mem_bytes,
		      "memoryPeakBytes", (json_int_t)s.mem_peak_bytes, "memoryLimitBytes",
		      (json_int_t)s.mem_limit, "cpuNs", (json_int_t)s.cpu_ns, "pids",
		      (json_int_t)s.pids, "oomKills", (json_int_t)s.oom_kills,
		      "uptimeSeconds", (json_int_t)(time(NULL) - b->started_at));
	add_disk_stats(o, b);
	return o;
}
