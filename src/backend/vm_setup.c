/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_setup - what only a machine must be told: its time, its randomness, its names, and
 * which directories of its root live in its own memory.
 *
 * The mount plan of a sandbox has directories that are its own and last as long as it
 * does (/tmp, /run, masks). In the process backend they lie in a tmpfs on the host; here
 * they belong into the machine, so that they are as fast as its memory and part of a
 * snapshot of it. What the plan mounts inside of them is put on top again.
 *
 * What every sandbox on the host's own system begins with is set up in the template
 * already (vm_warm.c): then only the rest is said, by RESUME.
 */
#include "backend/vm_impl.h"

#include "base/util.h"
#include "ipc/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define SEED_BYTES 64
#define COVERED_MAX (PLACE_MOUNTS_MAX + 8)

struct covered {
	const char *v[COVERED_MAX];
	size_t n;
};

static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/';
}

static bool is_covered(const struct covered *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++)
		if (below(path, c->v[i]))
			return true;
	return false;
}

static void put_mount(struct wire_out *o, const char *kind, const char *options,
		      const char *path)
{
	char text[2 * SPEC_STR_MAX + 200];

	if (!o)
		return;
	snprintf(text, sizeof(text), "%s %s %s", kind, options, path);
	wire_put_str(o, WIRE_A_MOUNT, text);
}

static void cover(struct wire_out *o, struct covered *cov, const struct place_config *c,
		  const char *path)
{
	char options[100];

	snprintf(options, sizeof(options), "mode=0755,uid=%u,gid=%u", c->uid, c->gid);
	put_mount(o, "tmpfs", options, path);
	if (cov->n < COVERED_MAX)
		cov->v[cov->n++] = path;
}

static void put_again(struct wire_out *o, const struct covered *cov, const char *source,
		      const char *target, const char *options)
{
	struct stat st;

	if (is_covered(cov, target))
		put_mount(o,
			  stat(source, &st) == 0 && !S_ISDIR(st.st_mode) ? "file"
									 : "bind",
			  options, target);
}

/* An image that is a disk covers everything that the host serves. Of its own it has to
 * have a place for what goes away with the machine, and one to write to for all. */
static void put_disk(struct wire_out *o, struct covered *cov,
		     const struct place_config *c)
{
	char options[100];

	cov->v[cov->n++] = "";
	cover(o, cov, c, "/run");
	put_mount(o, "dir", "mode=01777,uid=0,gid=0", "/tmp");
	snprintf(options, sizeof(options), "mode=0755,uid=%u,gid=%u", c->uid, c->gid);
	if (!c->home_dir)
		put_mount(o, "dir", options, c->home);
}

/* Certificates only where the image has some; a resolver in any case. */
static const char *file_options(const struct place_config *c, const struct place_file *f)
{
	bool ours = strcmp(f->target, "/etc/resolv.conf") == 0;

	return c->image_disk && f->optional && !ours ? "optional" : "-";
}

static void put_guards(struct wire_out *o, const struct place_mount *m)
{
	for (size_t i = 0; i < m->n_guards; i++) {
		char path[2 * SPEC_STR_MAX];

		if (m->guards[i].pin)
			continue;
		snprintf(path, sizeof(path), "%s/%s", m->target, m->guards[i].path);
		put_mount(o, "ro", "-", path);
	}
}

/* ---- the host's own system ------------------------------------------------------ */

static const char *const system_dirs[] = {"/usr",   "/bin",   "/sbin",   "/lib",
					  "/lib32", "/lib64", "/libx32", "/etc"};

/* As plan.c: on a merged-/usr host most of them are symlinks. */
static bool is_dir(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* home: it is in memory, too. */
static void put_host(struct wire_out *o, struct covered *cov,
		     const struct place_config *c, bool home)
{
	static const char *const own[] = {"/tmp", "/run", "/var/tmp"};

	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		if (is_dir(system_dirs[i]))
			put_mount(o, "ro", "-", system_dirs[i]);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		cover(o, cov, c, own[i]);
	if (home)
		cover(o, cov, c, c->home);
}

void vm_begun(char *out, size_t size, const struct place_config *c)
{
	size_t n;

	*out = '\0';
	if (!c->spec || c->spec->image.kind != IMAGE_HOST)
		return;
	n = (size_t)snprintf(out, size, "%u:%u", c->uid, c->gid);
	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		if (is_dir(system_dirs[i]))
			n += (size_t)snprintf(out + n, size - n, ":%s", system_dirs[i]);
	if (!c->home_dir)
		snprintf(out + n, size - n, ":%s", c->home);
}

void vm_setup_part(const struct place_config *c, bool home, struct wire_out *o)
{
	struct covered cov = {.n = 0};

	wire_put_u32(o, WIRE_A_FLAGS, WIRE_SETUP_MACHINE | WIRE_SETUP_PART);
	wire_put_u32(o, WIRE_A_UID, c->uid);
	wire_put_u32(o, WIRE_A_GID, c->gid);
	put_host(o, &cov, c, home);
}

/* ---- all of it, or the rest ----------------------------------------------------- */

static int by_target(const void *a, const void *b)
{
	const struct place_mount *const *x = a, *const *y = b;

	return strcmp((*x)->target, (*y)->target);
}

/* In the order of the plan: a parent before what lies in it. rest: the beginning is there
 * already. */
static void put_mounts(struct wire_out *o, const struct place_config *c, bool rest)
{
	const struct place_mount *sorted[PLACE_MOUNTS_MAX] = {NULL};
	struct covered cov = {.n = 0};

	if (c->spec->image.kind == IMAGE_HOST)
		put_host(rest ? NULL : o, &cov, c, !c->home_dir);
	if (c->image_disk)
		put_disk(o, &cov, c);
	if (c->home_dir)
		put_again(o, &cov, c->home_dir, c->home, "-");
	for (size_t i = 0; i < c->n_files; i++)
		put_again(o, &cov, c->files[i].source, c->files[i].target,
			  file_options(c, &c->files[i]));
	for (size_t i = 0; i < c->n_mounts; i++)
		sorted[i] = &c->mounts[i];
	qsort(sorted, c->n_mounts, sizeof(sorted[0]), by_target);
	for (size_t i = 0; i < c->n_mounts; i++) {
		if (!sorted[i]->source) {
			cover(o, &cov, c, sorted[i]->target);
			continue;
		}
		put_again(o, &cov, sorted[i]->source, sorted[i]->target, "-");
		if (sorted[i]->mode == MOUNT_RO)
			put_mount(o, "ro", "-", sorted[i]->target);
		put_guards(o, sorted[i]);
	}
}

static void put_all(const struct place *p, const struct place_config *c,
		    struct wire_out *o)
{
	wire_put_u32(o, WIRE_A_FLAGS,
		     WIRE_SETUP_MACHINE | WIRE_SETUP_SET_CLOCK |
			     (c->capture ? WIRE_SETUP_CAPTURE : 0) |
			     (p->vm->host.swap ? WIRE_SETUP_SWAP : 0) |
			     (p->vm->host.disks ? WIRE_SETUP_DISK : 0));
	wire_put_u32(o, WIRE_A_UID, c->uid);
	wire_put_u32(o, WIRE_A_GID, c->gid);
	put_mounts(o, c, false);
}

static void put_rest(const struct place *p, const struct place_config *c,
		     struct wire_out *o)
{
	wire_put_u32(o, WIRE_A_FLAGS,
		     WIRE_RESUME_RESTORED | WIRE_RESUME_BEGIN |
			     (c->capture ? WIRE_RESUME_CAPTURE : 0) |
			     (p->vm->host.swap ? WIRE_RESUME_SWAP : 0));
	put_mounts(o, c, true);
}

int vm_setup(const struct place *p, const struct place_config *c, struct wire_out *o,
	     struct cove_error *err)
{
	uint8_t seed[SEED_BYTES];
	struct timespec now;

	if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return fail(err, COVE_EIO, errno, "randomness for the machine");
	(p->resumes ? put_rest : put_all)(p, c, o);
	wire_put_str(o, WIRE_A_HOSTNAME, c->hostname);
	wire_put_attr(o, WIRE_A_SEED, seed, sizeof(seed));
	wire_put_u32(o, WIRE_A_PIDS, c->spec->resources.pids);
	clock_gettime(CLOCK_REALTIME, &now);
	wire_put_u64(o, WIRE_A_TIME_NS,
		     (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	return 0;
}
