/* SPDX-License-Identifier: Apache-2.0 */
#include "core/writes.h"

#include "base/util.h"
#include "core/audit.h"
#include "work/layer.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#define DEPTH_MAX 100 /* directories open at once */
#define PATH_BYTES 4096

enum kind { CREATED, CHANGED, DELETED, KINDS };
static const char *const kind_names[KINDS] = {"created", "changed", "deleted"};

struct scan {
	int64_t since, until_ns; /* until: CLOCK_MONOTONIC */
	uint64_t left;           /* entries */
	bool truncated;
	uint64_t count[KINDS];
	json_t *paths[KINDS];
	size_t bytes[KINDS];
	int lower;             /* the host's directory below this layer, or -1 */
	char path[PATH_BYTES]; /* inside, absolute */
	size_t len, root;      /* of path; of the mount's own part */
};

/* Only what is asked of a file here; the C libraries differ in the rest. */
struct look {
	uint32_t mode;
	uint64_t rdev;
	int64_t ctime_ns, btime_ns; /* btime 0: not known */
};

static int64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t writes_clock(void)
{
	return clock_ns(CLOCK_REALTIME_COARSE);
}

static int look_at(int dir, const char *name, struct look *ret)
{
	struct statx x;

	if (syscall(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		    STATX_BASIC_STATS | STATX_BTIME, &x) < 0)
		return -errno;
	ret->mode = x.stx_mode;
	ret->rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor);
	ret->ctime_ns = x.stx_ctime.tv_sec * INT64_C(1000000000) + x.stx_ctime.tv_nsec;
	ret->btime_ns =
		x.stx_mask & STATX_BTIME
			? x.stx_btime.tv_sec * INT64_C(1000000000) + x.stx_btime.tv_nsec
			: 0;
	return 0;
}

/* ---- one entry ------------------------------------------------------------------- */

/* The name is the sandbox's choice: no symlink of the host's is followed for it. */
static bool exists_below(const struct scan *s, mode_t *ret_mode)
{
	cleanup_fd int fd = s->lower < 0 ? -1
					 : open_beneath(s->lower, s->path + s->root + 1,
							O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	*ret_mode = st.st_mode;
	return true;
}

static void count(struct scan *s, enum kind k)
{
	s->count[k]++;
	if (json_array_size(s->paths[k]) >= WRITES_PATHS ||
	    s->bytes[k] + s->len > WRITES_PATHS_BYTES)
		return;
	s->bytes[k] += s->len;
	json_array_append_new(s->paths[k], audit_text(s->path, s->len, PATH_BYTES));
}

static void judge(struct scan *s, const struct look *l)
{
	mode_t below = 0;
	bool exists;

	if (l->ctime_ns < s->since)
		return;
	if (S_ISCHR(l->mode) && l->rdev == 0) {
		count(s, DELETED);
		return;
	}
	exists = exists_below(s, &below);
	if (S_ISDIR(l->mode) &&
	    (exists ? S_ISDIR(below) : l->btime_ns && l->btime_ns < s->since))
		return; /* only there for what is in it */
	count(s, exists || (l->btime_ns && l->btime_ns < s->since) ? CHANGED : CREATED);
}

/* ---- the walk -------------------------------------------------------------------- */

static bool spent(struct scan *s)
{
	/* The clock is looked at now and then only. */
	if (s->left == 0 ||
	    (s->left % 64 == 0 && clock_ns(CLOCK_MONOTONIC) > s->until_ns))
		s->truncated = true;
	else
		s->left--;
	return s->truncated;
}

static void walk(struct scan *s, int dir, const char *name, int depth);

static void visit(struct scan *s, int dir, const char *name, int depth)
{
	size_t len = s->len, n = strlen(name);
	struct look l = {0};

	if (len + n + 2 > sizeof(s->path)) {
		s->truncated = true;
		return;
	}
	if (look_at(dir, name, &l) < 0)
		return; /* gone meanwhile */
	s->path[len] = '/';
	memcpy(s->path + len + 1, name, n + 1);
	s->len = len + 1 + n;
	judge(s, &l);
	if (S_ISDIR(l.mode))
		walk(s, dir, name, depth + 1);
	s->len = len;
	s->path[len] = '\0';
}

static void walk(struct scan *s, int dir, const char *name, int depth)
{
	int fd = depth > DEPTH_MAX
			 ? -1
			 : openat(dir, name,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		/* unreadable, or too deep: there may be more */
		s->truncated |= depth > DEPTH_MAX || errno != ENOENT;
		close_fd(&fd);
		return;
	}
	while (!s->truncated && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (!spent(s))
			visit(s, fd, e->d_name, depth);
	}
	closedir(d);
}

static void scan_mount(struct scan *s, const struct place_mount *m)
{
	cleanup_fd int layer = open(m->layer, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int lower = open(m->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	size_t n = strlen(m->target);

	if (layer < 0 || n + 2 > sizeof(s->path))
		return;
	memcpy(s->path, m->target, n + 1);
	s->len = s->root = n;
	s->lower = lower;
	walk(s, layer, "upper", 0);
	s->lower = -1;
}

static json_t *result(struct scan *s)
{
	json_t *j = json_object(), *paths = json_object();

	for (int k = 0; k < KINDS; k++) {
		json_object_set_new(j, kind_names[k],
				    json_integer((json_int_t)s->count[k]));
		if (json_array_size(s->paths[k]))
			json_object_set(paths, kind_names[k], s->paths[k]);
		json_decref(s->paths[k]);
	}
	if (json_object_size(paths))
		json_object_set(j, "paths", paths);
	json_decref(paths);
	if (s->truncated)
		json_object_set_new(j, "truncated", json_true());
	return j;
}

json_t *writes_scan(const struct place_mount *m, size_t n, int64_t since_ns,
		    const struct writes_budget *budget, bool *ret_truncated)
{
	cleanup_free struct scan *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->since = since_ns;
	s->until_ns = clock_ns(CLOCK_MONOTONIC) + budget->ms * 1000000;
	s->left = budget->entries;
	for (int k = 0; k < KINDS; k++)
		s->paths[k] = json_array();
	for (size_t i = 0; i < n && !s->truncated; i++)
		if (m[i].mode == MOUNT_OVERLAY && m[i].layer)
			scan_mount(s, &m[i]);
	if (ret_truncated)
		*ret_truncated = s->truncated;
	return result(s);
}
