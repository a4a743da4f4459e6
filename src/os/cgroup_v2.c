/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_v2 - making a sandbox's directory in the v2 tree, with its controllers on.
 *
 * Theory of operation: a controller works in a directory only if the parent's
 * cgroup.subtree_control names it, and a group with processes of its own cannot name any
 * (the root excepted). The caller's own group has at least the caller in it, so its
 * parent is tried first. If only the own group is ours (a service with Delegate=yes), the
 * caller moves itself into a leaf below it; other processes are never moved.
 */
#include "os/cgroup_impl.h"

#include "base/util.h"

#include <sys/stat.h>

#define LEAF "cove.host" /* where the caller goes; not of the form cove-ID */

static const struct {
	uint32_t bit;
	const char *word, *file;
} enables[] = {
	{CG_MEMORY, "+memory", "memory.max"},
	{CG_CPU,    "+cpu",    "cpu.max"   },
	{CG_PIDS,   "+pids",   "pids.max"  },
};

/* The controllers among bits that do not work in the directory. */
static uint32_t lacking(const char *dir, uint32_t bits)
{
	uint32_t lack = 0;
	char path[CGROUP_PATH_MAX + 64];

	for (size_t i = 0; i < ARRAY_LEN(enables); i++)
		if ((bits & enables[i].bit) &&
		    (cg_path(path, sizeof(path), "%s/%s", dir, enables[i].file) < 0 ||
		     access(path, F_OK) < 0))
			lack |= enables[i].bit;
	return lack;
}

/* One by one: a kernel without one of them refuses a line that has it. */
static int enable(const char *dir, uint32_t bits)
{
	int first = 0;

	for (size_t i = 0; i < ARRAY_LEN(enables); i++) {
		int r = 0;

		if (bits & enables[i].bit)
			r = cg_write(dir, "cgroup.subtree_control", enables[i].word);
		if (r < 0 && first == 0)
			first = r;
	}
	return first;
}

/* 1 if the kernel lets this group hand controllers down: it is the real root, or it has
 * no processes. (The kernel would enable some for a group with processes as well, and
 * leave its children unusable.) */
static int may_enable(const char *dir)
{
	char path[CGROUP_PATH_MAX + 64], procs[32];

	if (cg_path(path, sizeof(path), "%s/cgroup.type", dir) < 0)
		return 0;
	if (access(path, F_OK) < 0) /* only the real root has none */
		return 1;
	return cg_read(dir, "cgroup.procs", procs, sizeof(procs)) == 0 && !procs[0];
}

/* For a group that the caller itself is in: step aside, and back if it is no use. */
static int enable_from_inside(const char *dir, uint32_t bits)
{
	char leaf[CGROUP_PATH_MAX];
	int r = cg_path(leaf, sizeof(leaf), "%s/" LEAF, dir);

	if (r < 0)
		return r;
	if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
		return -errno;
	r = cg_write(leaf, "cgroup.procs", "0");
	if (r == 0)
		r = may_enable(dir) ? enable(dir, bits) : -EBUSY;
	if (r < 0) {
		cg_write(dir, "cgroup.procs", "0");
		rmdir(leaf);
	}
	return r;
}

static int enable_in(const char *dir, const char *own, uint32_t bits)
{
	if (may_enable(dir))
		return enable(dir, bits);
	return strcmp(dir, own) == 0 ? enable_from_inside(dir, bits) : -EBUSY;
}

static int may_write(const char *dir)
{
	char procs[CGROUP_PATH_MAX + 64];

	/* Moving a process needs its nearest common ancestor's cgroup.procs. */
	return cg_path(procs, sizeof(procs), "%s/cgroup.procs", dir) == 0 &&
	       access(procs, W_OK) == 0 && access(dir, W_OK) == 0;
}

struct place {
	char base[CGROUP_PATH_MAX];
	char above[CGROUP_PATH_MAX]; /* "" if base exists already */
	char own[CGROUP_PATH_MAX];   /* where the caller is */
};

/* Makes BASE/cove-ID; when a controller is off, turns it on on the way down to there. */
static int make_in(struct cgroup_dir *d, const struct place *p, const char *id,
		   uint32_t bits, uint32_t *ret_lack)
{
	uint32_t lack;
	int r = cg_path(d->path, sizeof(d->path), "%s/cove-%s", p->base, id);

	if (r == 0)
		r = cg_mkdir(d->path);
	if (r == -ENOENT && p->above[0]) {
		if (mkdir(p->base, 0755) < 0 && errno != EEXIST)
			return -errno;
		r = cg_mkdir(d->path);
	}
	if (r < 0)
		return r;
	lack = lacking(d->path, bits);
	if (lack) {
		if (p->above[0])
			enable_in(p->above, p->own, lack);
		enable_in(p->base, p->own, lack);
		lack = lacking(d->path, bits);
	}
	*ret_lack = lack;
	return 0;
}

/* The directories to try, best first; returns how many. */
static int places(struct place *p, const struct cg_home *home)
{
	char own[CGROUP_PATH_MAX] = "";
	int n = 0;

	memset(p, 0, 3 * sizeof(*p));
	if (cg_own(home, CTL_MEMORY, own, sizeof(own)) < 0)
		own[0] = '\0';
	for (int i = 0; i < 3; i++)
		memcpy(p[i].own, own, sizeof(own));
	if (geteuid() == 0) {
		cg_path(p[n].above, sizeof(p->above), "%s", home->mount);
		n += cg_path(p[n].base, sizeof(p->base), "%s/cove", home->mount) == 0;
	}
	if (own[0] && strcmp(own, home->mount) != 0) {
		memcpy(p[n].base, own, sizeof(own));
		*strrchr(p[n].base, '/') = '\0';
		n += may_write(p[n].base);
	}
	if (own[0]) {
		memcpy(p[n].base, own, sizeof(own));
		n += may_write(own);
	}
	return n;
}

/* As root everything is mostly there already: two or three system calls and no parsing.
 */
static int make_quick(struct cgroup_dir *d, const char *mount, const char *id,
		      uint32_t bits)
{
	int r = cg_path(d->path, sizeof(d->path), "%s/cove/cove-%s", mount, id);

	if (r == 0 && mkdir(d->path, 0755) < 0)
		r = -errno;
	if (r == 0 && lacking(d->path, bits)) {
		rmdir(d->path);
		r = -EAGAIN;
	}
	return r;
}

int cg_make_v2(struct cgroup_dir *d, const struct cg_home *home, const char *id,
	       uint32_t bits)
{
	struct place p[3];
	int n, r = -EACCES;

	bits &= CG_MEMORY | CG_CPU | CG_PIDS;
	if (geteuid() == 0 && make_quick(d, home->mount, id, bits) == 0)
		return 0;
	n = places(p, home);
	for (int i = 0; i < n; i++) {
		uint32_t lack = 0;

		r = make_in(d, &p[i], id, bits, &lack);
		if (r == -EEXIST || (r == 0 && (lack == 0 || i + 1 == n)))
			return r;
		if (r == 0)
			rmdir(d->path); /* perhaps the next place has all of them */
	}
	return r;
}
