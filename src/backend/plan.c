/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/plan.h"

#include "backend/etc.h"
#include "base/util.h"
#include "os/landlock.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define ARENA_BASE (16u * 1024) /* the fixed part of a root; mounts come on top */

/* ---- building blocks ------------------------------------------------------------ */

const char *plan_keep(struct plan *p, const char *s)
{
	size_t n;
	char *at;

	if (!s)
		return NULL;
	n = strlen(s) + 1;
	if (n > p->arena_size - p->arena_len) {
		p->full = true;
		return "";
	}
	at = p->arena + p->arena_len;
	memcpy(at, s, n);
	p->arena_len += n;
	return at;
}

/* NULL for 0: no limit. */
static const char *keep_number(struct plan *p, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return v ? plan_keep(p, text) : NULL;
}

struct op *plan_add(struct plan *p, enum op_kind kind, const char *source,
		    const char *target, uint32_t flags)
{
	struct op *o = &p->ops[p->n_ops];

	/* Out of room: the last one is overwritten, and plan_build() refuses the plan. */
	if (p->n_ops < PLAN_OPS_MAX - 1)
		p->n_ops++;
	else
		p->full = true;
	*o = (struct op){.kind = kind, .flags = flags, .fd = -1, .layer_fd = -1};
	o->source = plan_keep(p, source);
	o->target = plan_keep(p, target && target[0] == '/' ? target + 1 : target);
	return o;
}

void plan_grant(struct plan *p, const char *path, uint64_t rights, bool optional)
{
	if (p->n_grants == PLAN_GRANTS_MAX)
		p->full = true;
	else
		p->grants[p->n_grants++] =
			(struct landlock_grant){plan_keep(p, path), rights, optional};
}

/* ---- the parts of a root -------------------------------------------------------- */

/* On a merged-/usr host these are symlinks, and stay so; elsewhere real directories. */
static void add_system_dirs(struct plan *p)
{
	static const char *const dirs[] = {"/usr",   "/bin",   "/sbin",  "/lib",
					   "/lib32", "/lib64", "/libx32"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		char to[256];
		struct stat st;
		ssize_t n;

		if (lstat(dirs[i], &st) < 0)
			continue;
		if (S_ISLNK(st.st_mode)) {
			n = readlink(dirs[i], to, sizeof(to) - 1);
			if (n <= 0)
				continue;
			to[n] = '\0';
			plan_add(p, OP_SYMLINK, to, dirs[i], 0);
		} else {
			plan_add(p, OP_BIND, dirs[i], dirs[i], OPF_RDONLY);
			plan_grant(p, dirs[i], LL_READ_EXEC, false);
		}
	}
}

static void add_dev(struct plan *p)
{
	static const char *const nodes[] = {"/dev/null",   "/dev/zero",    "/dev/full",
					    "/dev/random", "/dev/urandom", "/dev/tty"};
	static const char *const links[][2] = {
		{"/proc/self/fd",   "/dev/fd"    },
                {"/proc/self/fd/0", "/dev/stdin" },
		{"/proc/self/fd/1", "/dev/stdout"},
                {"/proc/self/fd/2", "/dev/stderr"},
		{"pts/ptmx",        "/dev/ptmx"  },
	};

	plan_add(p, OP_DIR, NULL, "/dev", 0);
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		plan_add(p, OP_BIND, nodes[i], nodes[i], OPF_DEV | OPF_FILE);
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		plan_add(p, OP_SYMLINK, links[i][0], links[i][1], 0);
	plan_add(p, OP_DIR, NULL, "/dev/pts", 0);
	plan_add(p, OP_DEVPTS, NULL, "/dev/pts", 0);
	plan_add(p, OP_DIR, NULL, "/dev/shm", 0);
	plan_grant(p, "/dev", LL_READ | LL_WRITE_FILE | LL_TRUNCATE | LL_IOCTL_DEV,
		   false);
	plan_grant(p, "/dev/shm", LL_FULL, false);
}

/* Directories of the root that the sandbox may write. The rest of the root, a tmpfs of
 * its own that dies with it, is held by Landlock: there is no right to make or remove
 * anything outside of these. */
static void add_writable(struct plan *p, const struct place_config *c)
{
	static const char *const dirs[] = {"/tmp", "/run", "/var/tmp"};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		plan_add(p, OP_DIR, NULL, dirs[i], 0);
		plan_grant(p, dirs[i], LL_FULL, false);
	}
	plan_add(p, OP_DIR, NULL, c->home, 0);
	if (c->home_dir)
		plan_add(p, OP_BIND, c->home_dir, c->home, OPF_IDMAP | OPF_HIDDEN);
	plan_grant(p, c->home, LL_FULL, false);
}

static int add_host_root(struct plan *p, const struct place_config *c,
			 struct cove_error *err)
{
	char etc[4096];
	struct op *o;

	o = plan_add(p, OP_ROOT_TMPFS, NULL, "", 0);
	o->arg = keep_number(p, c->spec->resources.memory_bytes);
	if (etc_ensure(c->cache_dir, etc, sizeof(etc), &p->etc_ref, err) < 0)
		return wrap(err, "copy of /etc");
	plan_grant(p, "/", LL_READ_DIR, false);
	add_system_dirs(p);
	plan_add(p, OP_BIND, etc, "/etc", OPF_RDONLY | OPF_HIDDEN);
	if (c->hosts)
		plan_add(p, OP_BIND, c->hosts, "/etc/hosts",
			 OPF_RDONLY | OPF_FILE | OPF_HIDDEN);
	plan_grant(p, "/etc", LL_READ, false);
	plan_add(p, OP_DIR, NULL, "/proc", 0);
	plan_add(p, OP_PROC, NULL, "/proc", 0);
	plan_grant(p, "/proc", LL_READ | LL_WRITE_FILE | LL_TRUNCATE, false);
	add_dev(p);
	add_writable(p, c);
	return 0;
}

/* An image directory: its own /usr and /etc, writable in an upper layer. */
static void add_image_root(struct plan *p, const struct place_config *c)
{
	struct op *o =
		plan_add(p, OP_ROOT_OVERLAY, c->image_root, "", OPF_IDMAP | OPF_HIDDEN);

	o->layer = plan_keep(p, c->root_layer);
	plan_grant(p, "/", LL_FULL | LL_EXECUTE, false);
	plan_add(p, OP_DIR, NULL, "/proc", 0);
	plan_add(p, OP_PROC, NULL, "/proc", 0);
	plan_add(p, OP_DIR, NULL, "/dev", 0);
	o = plan_add(p, OP_TMPFS, NULL, "/dev", 0);
	o->arg = plan_keep(p, "16777216");
	add_dev(p);
	plan_add(p, OP_DIR, NULL, c->home, 0);
	if (c->home_dir)
		plan_add(p, OP_BIND, c->home_dir, c->home, OPF_IDMAP | OPF_HIDDEN);
}

/* The image is on a disk that only the machine sees: what it gets from here is mounts. */
static void add_bare_root(struct plan *p, const struct place_config *c)
{
	struct op *o = plan_add(p, OP_ROOT_TMPFS, NULL, "", 0);

	o->arg = keep_number(p, c->spec->resources.memory_bytes);
	plan_grant(p, "/", LL_READ_DIR, false);
	plan_add(p, OP_DIR, NULL, "/proc", 0);
	plan_add(p, OP_PROC, NULL, "/proc", 0);
	add_dev(p);
	if (!c->home_dir)
		return;
	plan_add(p, OP_DIR, NULL, c->home, 0);
	plan_add(p, OP_BIND, c->home_dir, c->home, OPF_IDMAP | OPF_HIDDEN);
	plan_grant(p, c->home, LL_FULL, false);
}

static void add_guards(struct plan *p, const struct place_mount *m)
{
	for (size_t i = 0; i < m->n_guards; i++) {
		const struct place_guard *g = &m->guards[i];
		char path[2 * SPEC_STR_MAX];

		if (snprintf(path, sizeof(path), "%s/%s", m->target, g->path) >=
		    (int)sizeof(path))
			p->full = true;
		plan_add(p, OP_GUARD, NULL, path,
			 OPF_HOSTILE | (g->pin ? 0 : OPF_RDONLY));
	}
}

static void add_mount(struct plan *p, const struct place_config *c,
		      const struct place_mount *m)
{
	uint32_t flags = OPF_IDMAP | OPF_HIDDEN | OPF_HOSTILE;
	struct stat st;
	struct op *o;

	if (!m->source) {
		plan_add(p, OP_DIR, NULL, m->target, OPF_HOSTILE);
		o = plan_add(p, OP_TMPFS, NULL, m->target, OPF_HOSTILE);
		o->arg = keep_number(p, c->spec->resources.memory_bytes);
		plan_grant(p, m->target, LL_FULL, false);
		return;
	}
	if (stat(m->source, &st) == 0 && !S_ISDIR(st.st_mode))
		flags |= OPF_FILE;
	if (!(flags & OPF_FILE))
		plan_add(p, OP_DIR, NULL, m->target, OPF_HOSTILE);
	if (m->mode == MOUNT_OVERLAY) {
		o = plan_add(p, OP_OVERLAY, m->source, m->target, flags);
		o->layer = plan_keep(p, m->layer);
	} else {
		plan_add(p, OP_BIND, m->source, m->target,
			 flags | (m->mode == MOUNT_RO ? OPF_RDONLY : 0));
	}
	plan_grant(p, m->target, m->mode == MOUNT_RO ? LL_READ_EXEC : LL_FULL, false);
	add_guards(p, m);
}

/* The way to the target is the image's, or the sandbox's of an earlier run. */
static void add_files(struct plan *p, const struct place_config *c)
{
	for (size_t i = 0; i < c->n_files; i++) {
		const struct place_file *f = &c->files[i];

		plan_add(p, OP_BIND, f->source, f->target,
			 OPF_RDONLY | OPF_FILE | OPF_HIDDEN | OPF_HOSTILE |
				 (f->optional ? OPF_SOFT : 0));
		plan_grant(p, f->target, LL_READ, true);
	}
}

static int by_target(const void *a, const void *b)
{
	const struct place_mount *const *x = a, *const *y = b;

	return strcmp((*x)->target,
		      (*y)->target); /* a parent sorts before its children */
}

static int add_mounts(struct plan *p, const struct place_config *c,
		      struct cove_error *err)
{
	const struct place_mount *sorted[PLACE_MOUNTS_MAX];

	if (c->n_mounts > PLACE_MOUNTS_MAX)
		return fail(err, COVE_EINVAL, 0, "more than %d mounts", PLACE_MOUNTS_MAX);
	for (size_t i = 0; i < c->n_mounts; i++)
		sorted[i] = &c->mounts[i];
	qsort(sorted, c->n_mounts, sizeof(sorted[0]), by_target);
	for (size_t i = 0; i < c->n_mounts; i++)
		add_mount(p, c, sorted[i]);
	return 0;
}

static size_t arena_need(const struct place_config *c)
{
	size_t n = ARENA_BASE + 8 * (strlen(c->cache_dir) + strlen(c->home));

	for (size_t i = 0; i < c->n_mounts; i++) {
		const struct place_mount *m = &c->mounts[i];

		n += (m->source ? strlen(m->source) : 0) + 4 * strlen(m->target) + 64;
		for (size_t k = 0; k < m->n_guards; k++)
			n += strlen(m->target) + strlen(m->guards[k].path) + 2;
		n += m->layer ? strlen(m->layer) : 0;
	}
	for (size_t i = 0; i < c->n_files; i++)
		n += strlen(c->files[i].source) + 2 * strlen(c->files[i].target) + 3;
	n += c->home_dir ? strlen(c->home_dir) : 0;
	n += c->hosts ? strlen(c->hosts) : 0;
	n += c->root_layer ? strlen(c->root_layer) : 0;
	return n + (c->image_root ? strlen(c->image_root) : 0);
}

int plan_init(struct plan *p, size_t arena_size, struct cove_error *err)
{
	*p = (struct plan){.etc_ref = -1, .arena_size = arena_size};
	/* malloc, not calloc: pages that are not used are never touched */
	p->arena = malloc(p->arena_size);
	p->ops = malloc(PLAN_OPS_MAX * sizeof(*p->ops));
	p->grants = malloc(PLAN_GRANTS_MAX * sizeof(*p->grants));
	return p->arena && p->ops && p->grants ? 0 : fail_nomem(err);
}

int plan_build(struct plan *p, const struct place_config *c, struct cove_error *err)
{
	int r = 0;

	if (plan_init(p, arena_need(c), err) < 0)
		return err->code;
	if (c->image_disk)
		add_bare_root(p, c);
	else if (c->image_root)
		add_image_root(p, c);
	else
		r = add_host_root(p, c, err);
	add_files(p, c); /* before the mounts: who mounts over them wants his own */
	if (r == 0)
		r = add_mounts(p, c, err);
	for (size_t i = 0; c->spec->image.kind != IMAGE_HOST && i < p->n_ops; i++)
		p->ops[i].flags |= OPF_HOSTILE; /* an image is somebody's work */
	if (r == 0 && p->full)
		return fail(err, COVE_EINVAL, 0, "too many mounts");
	return r;
}

void plan_clear(struct plan *p)
{
	for (size_t i = 0; i < p->n_ops; i++) {
		close_fd(&p->ops[i].fd);
		close_fd(&p->ops[i].layer_fd);
	}
	close_fd(&p->etc_ref);
	userns_reap(&p->holder);
	free(p->ops);
	free(p->grants);
	free(p->arena);
	*p = (struct plan){.etc_ref = -1};
}
