/* SPDX-License-Identifier: Apache-2.0 */
#include "core/box.h"

#include "base/io.h"
#include "base/util.h"
#include "core/guestfile.h"
#include "core/session.h"
#include "os/seccomp.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

/* ---- the spec, made concrete ---------------------------------------------------- */

/* What later parts of cove will bring is refused here, never ignored. */
static int refuse_unsupported(const struct spec *s, struct cove_error *err)
{
	if (s->network.mode != NET_NONE) {
		fail(err, COVE_EUNSUPPORTED, 0,
		     "network.mode: only 'none' works in this build: other modes need "
		     "the "
		     "egress role");
		return hint(err, "--net none");
	}
	if ((s->secrets && json_array_size(s->secrets)))
		return fail(err, COVE_EUNSUPPORTED, 0,
			    "secrets: need the egress role, which is not in this build");
	if (s->ports && json_array_size(s->ports))
		return fail(err, COVE_EUNSUPPORTED, 0, "ports: not in this build");
	if (s->services && json_array_size(s->services))
		return fail(err, COVE_EUNSUPPORTED, 0, "services: not in this build");
	if (s->provision && json_array_size(s->provision))
		return fail(err, COVE_EUNSUPPORTED, 0, "provision: not in this build");
	if (s->image.kind != IMAGE_HOST && s->image.kind != IMAGE_ROOTFS) {
		fail(err, COVE_EUNSUPPORTED, 0,
		     "image: only 'host' and 'rootfs:DIR' work in "
		     "this build");
		return hint(err, "unpack the image into a directory and use rootfs:DIR");
	}
	for (size_t i = 0; i < s->n_mounts; i++)
		if (s->mounts[i].mode == MOUNT_COPY || s->mounts[i].mode == MOUNT_VOLUME)
			return fail(err, COVE_EUNSUPPORTED, 0,
				    "mounts: mode copy and volume are not in this build");
	return 0;
}

static int make_absolute(char **path, struct cove_error *err, const char *what)
{
	char *full = realpath(*path, NULL);

	if (!full)
		return fail(err, COVE_EINVAL, errno, "%s: %s", what, *path);
	free(*path);
	*path = full;
	return 0;
}

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* "." is where cove was called, if that is visible inside; otherwise the home directory.
 */
static int resolve_workdir(struct spec *s, struct cove_error *err)
{
	char cwd[PATH_MAX];
	const char *dir = s->exec.workdir, *home, *user, *pick;
	uid_t uid;
	gid_t gid;

	if (box_user(s, &uid, &gid, &home, &user, err) < 0)
		return err->code;
	if (dir && dir[0] == '/')
		return 0;
	pick = home;
	if (getcwd(cwd, sizeof(cwd)))
		for (size_t i = 0; i < s->n_mounts; i++)
			if (below(cwd, s->mounts[i].target))
				pick = cwd;
	if (dir && strcmp(dir, ".") != 0)
		return fail(err, COVE_EINVAL, 0, "exec.workDir: %s is not absolute", dir);
	return spec_set(s, "exec.workDir", pick, err);
}

static int check_target(const char *target, struct cove_error *err)
{
	const char *problem = spec_target_problem(target);

	if (!problem)
		return 0;
	fail(err, COVE_EINVAL, 0, "mounts: target %s: %s", target, problem);
	return hint(err, "give another target: SRC:/data/x:ro");
}

int box_resolve_spec(struct spec *s, struct cove_error *err)
{
	const struct backend *be;

	if (refuse_unsupported(s, err) < 0 || backend_pick(&be, s->backend, err) < 0)
		return err->code;
	if (s->image.kind == IMAGE_ROOTFS &&
	    make_absolute(&s->image.value, err, "image") < 0)
		return err->code;
	for (size_t i = 0; i < s->n_mounts; i++) {
		struct spec_mount *m = &s->mounts[i];

		if (make_absolute(&m->source, err, "mounts") < 0)
			return err->code;
		if (!m->target && !(m->target = strdup(m->source)))
			return fail_nomem(err);
		if (check_target(m->target, err) < 0)
			return err->code;
		for (size_t k = 0; k < i; k++)
			if (strcmp(s->mounts[k].target, m->target) == 0)
				return fail(err, COVE_EINVAL, 0,
					    "mounts: %s is there twice", m->target);
	}
	return resolve_workdir(s, err);
}

int box_user(const struct spec *s, uid_t *uid, gid_t *gid, const char **home,
	     const char **name, struct cove_error *err)
{
	const char *u = s->exec.user && *s->exec.user ? s->exec.user : "agent";
	unsigned long n;
	char *end;

	*name = u;
	*home = "/home/agent";
	*uid = *gid = 1000;
	if (strcmp(u, "agent") == 0)
		return 0;
	if (strcmp(u, "root") == 0) {
		*uid = *gid = 0;
		*home = "/root";
		return 0;
	}
	errno = 0;
	n = strtoul(u, &end, 10);
	if (errno || *end || end == u || n >= 65534) {
		fail(err, COVE_EINVAL, 0,
		     "exec.user: '%s' is not agent, root or a number", u);
		return hint(err, "the sandbox maps exactly one user");
	}
	*uid = *gid = (uid_t)n;
	return 0;
}

/* ---- directories ---------------------------------------------------------------- */

struct strings {
	char *data;
	size_t len, size;
};

static const char *keepf(struct strings *s, const char *dir, const char *name)
{
	char *at = s->data + s->len;
	int n = snprintf(at, s->size - s->len, "%s/%s", dir, name);

	if (n < 0 || (size_t)n >= s->size - s->len)
		return NULL;
	s->len += (size_t)n + 1;
	return at;
}

/* upper holds the changes; work is the kernel's scratch and must be clean for a mount (a
 * volatile overlay marks it, and refuses a marked one). mode: of the directory below. */
static int make_layer(int record, const char *name, mode_t mode)
{
	char upper[64], work[64], used[64];
	int r;

	snprintf(upper, sizeof(upper), "%s/upper", name);
	snprintf(work, sizeof(work), "%s/work", name);
	snprintf(used, sizeof(used), "%s/work/work", name);
	if (mkdirat(record, name, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (mkdirat(record, work, 0700) < 0) {
		r = errno == EEXIST ? remove_tree_at(record, used) : -errno;
		if (r < 0)
			return r;
	}
	if (mkdirat(record, upper, mode) < 0)
		return errno == EEXIST ? 0 : -errno;
	/* inside, the layer's own directory is what the mount's root looks like */
	return mode == 0755 || fchmodat(record, upper, mode, 0) == 0 ? 0 : -errno;
}

static int make_mounts(struct box *b, int record, const char *dir, struct strings *str,
		       struct cove_error *err)
{
	for (size_t i = 0; i < b->spec.n_mounts; i++) {
		const struct spec_mount *m = &b->spec.mounts[i];
		struct place_mount *pm = &b->mounts[b->n_mounts++];
		char name[24];

		*pm = (struct place_mount){m->source, m->target, m->mode, NULL};
		if (m->mode != MOUNT_OVERLAY)
			continue;
		snprintf(name, sizeof(name), "m%zu", i);
		pm->layer = keepf(str, dir, name);
		if (!pm->layer)
			return fail_nomem(err);
		struct stat st;
		int r = stat(m->source, &st) < 0
				? -errno
				: make_layer(record, name, st.st_mode & 0777);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "layer of %s", m->target);
	}
	return 0;
}

/* Home and image root, where the spec or the image wants them on disk. */
static int make_roots(struct box *b, int record, const char *dir, struct strings *str,
		      struct cove_error *err)
{
	if (b->spec.storage == STORAGE_PERSISTENT) {
		if (mkdirat(record, "home", 0700) < 0 && errno != EEXIST)
			return fail(err, COVE_EIO, errno, "home directory");
		b->config.home_dir = keepf(str, dir, "home");
	}
	if (b->spec.image.kind == IMAGE_ROOTFS) {
		int r = 0;

		if (b->spec.storage == STORAGE_EPHEMERAL)
			r = remove_tree_at(record, "root");
		if (r == 0)
			r = make_layer(record, "root", 0755);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "layer of the image");
		b->config.root_layer = keepf(str, dir, "root");
	}
	return 0;
}

static bool needs_record(const struct box *b)
{
	bool disk = b->spec.storage == STORAGE_PERSISTENT ||
		    b->spec.image.kind == IMAGE_ROOTFS;

	for (size_t i = 0; i < b->spec.n_mounts; i++)
		disk |= b->spec.mounts[i].mode == MOUNT_OVERLAY;
	return disk;
}

static int make_dirs(struct box *b, struct cove_error *err)
{
	char dir[PATH_MAX];
	struct strings str;

	str.size = 4096 + (b->spec.n_mounts + 4) * (strlen(b->store->home) + 128);
	str.len = 0;
	str.data = b->paths = malloc(str.size);
	if (!b->paths)
		return fail_nomem(err);
	if (store_path(b->store, b->name, "", dir, sizeof(dir)) < 0)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "%s", b->store->home);
	if (b->oneshot && !needs_record(b))
		return make_mounts(b, -1, dir, &str, err);
	if (b->oneshot && store_claim(b->store, b->name) < 0)
		return fail(err, COVE_EIO, errno, "directory of %s", b->name);
	cleanup_fd int record = openat(b->store->boxes, b->name,
				       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (record < 0)
		return fail(err, COVE_EIO, errno, "directory of %s", b->name);
	if (make_mounts(b, record, dir, &str, err) < 0)
		return err->code;
	return make_roots(b, record, dir, &str, err);
}

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

	if (!b->oneshot || !needs_record(b))
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
	c->degraded = degraded;
	c->guest = guest_file(err);
	if (!c->guest || (!b->oneshot && make_hosts(b, err) < 0))
		return err->code;
	return box_user(&b->spec, &c->uid, &c->gid, &c->home, &user, err);
}

static int start(struct box *b, bool degraded, struct cove_error *err)
{
	const struct backend *be;

	if (backend_pick(&be, b->spec.backend, err) < 0 || make_dirs(b, err) < 0 ||
	    fill_config(b, degraded, err) < 0)
		return err->code;
	if (be->start(&b->place, &b->config, err) < 0)
		return err->code;
	b->started = true;
	b->started_at = time(NULL);
	diskwatch_init(&b->disk, b->store->boxes, b->name,
		       !b->oneshot || needs_record(b) ? b->spec.resources.disk_bytes : 0,
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
	b->lock = -1;
	b->oneshot = oneshot;
	b->started = false;
	b->place = (struct place){.link = -1, .pidfd = -1, .etc_ref = -1};
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

int box_end(struct box *b, uint64_t *ret_changes, struct cove_error *err)
{
	bool was_started = b->started;
	int r = 0;

	*ret_changes = 0;
	if (b->started)
		b->place.backend->release(&b->place);
	b->started = false;
	if (b->lock >= 0) {
		if (was_started && !b->oneshot &&
		    store_count_changes(b->store, b->name, 1))
			syncfs(b->store->boxes); /* the overlay was volatile: now it lasts
						  */
		if (b->oneshot)
			r = store_settle(b->store, b->name, ret_changes, err);
		if (r == 0)
			store_clear_run(b->store, b->name);
		close_fd(&b->lock);
	}
	spec_clear(&b->spec);
	free(b->paths);
	b->paths = NULL;
	return r;
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
	o = json_pack("{s:s, s:s, s:s, s:i, s:o, s:o}", "name", b->name, "backend",
		      b->place.backend->name, "seccompFilter", seccomp_guest_digest(),
		      "short", n, "degraded", box_degraded(b), "items", items);
	if (!o)
		fail_nomem(err);
	*ret_short = n;
	return o;
}

json_t *box_stats(struct box *b)
{
	struct cgroup_stats s = {0};
	bool have = b->place.has_cgroup && cgroup_stats(&b->place.cgroup, &s) == 0;

	return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", b->name,
			 "cgroup", have, "memoryBytes", (json_int_t)s.mem_bytes,
			 "memoryPeakBytes", (json_int_t)s.mem_peak_bytes,
			 "memoryLimitBytes", (json_int_t)s.mem_limit, "cpuNs",
			 (json_int_t)s.cpu_ns, "pids", (json_int_t)s.pids, "oomKills",
			 (json_int_t)s.oom_kills, "uptimeSeconds",
			 (json_int_t)(time(NULL) - b->started_at));
}
