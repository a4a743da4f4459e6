/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup - making, changing and filling the group of a sandbox. */
#include "os/cgroup_impl.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>

static const struct {
	uint32_t bit;
	const char *what;
} names[] = {
	{CG_MEMORY,  "memory limit"       },
	{CG_SWAP,    "swap limit"         },
	{CG_CPU,     "cpu limit"          },
	{CG_PIDS,    "process limit"      },
	{CG_ACCOUNT, "cpu time accounting"},
};

static uint32_t wanted(const struct cgroup_limits *l)
{
	return (l->memory_bytes ? CG_MEMORY | CG_SWAP : 0u) |
	       (l->cpus_milli ? CG_CPU : 0u) | (l->pids ? CG_PIDS : 0u) |
	       (l->account ? CG_ACCOUNT : 0u);
}

/* The reader's way out, for the kind of host and user at hand. */
static void hint_for(struct cove_error *why, int v2, int sys)
{
	unsigned uid = (unsigned)geteuid();

	if (sys == ENOENT)
		hint(why,
		     "the kernel or its configuration has no such control group file");
	else if (uid == 0 ||
		 (sys != EACCES && sys != EPERM && sys != EROFS && sys != EBUSY))
		hint(why, "see cgroups(7); `cove doctor` shows what works here");
	else if (v2)
		hint(why,
		     "start it with: systemd-run --user --scope -p Delegate=yes cove ... "
		     "(after `loginctl enable-linger` if there is no user manager)");
	else
		hint(why,
		     "as root: for c in memory cpu pids; do "
		     "d=/sys/fs/cgroup/$c/cove/user-%u; "
		     "mkdir -p $d && chown %u $d; done",
		     uid, uid);
}

/* Notes that bits could not be had; the first time with the reason. */
static void note(uint32_t *missing, struct cove_error *why, uint32_t bits, int v2,
		 int sys, const char *where)
{
	if (*missing == 0) {
		const char *what = "limit";

		for (size_t i = ARRAY_LEN(names); i-- > 0;)
			if (bits & names[i].bit)
				what = names[i].what;
		fail(why,
		     sys == EACCES || sys == EPERM ? COVE_EDENIED : COVE_EUNSUPPORTED,
		     sys, "%s: %s", what, where);
		hint_for(why, v2, sys);
	}
	*missing |= bits;
}

/* The directory in the hierarchy of ctl: there already, or made now. */
static struct cgroup_dir *dir_for(struct cgroup *c, enum cg_controller ctl, uint32_t want,
				  int *ret_sys)
{
	const struct cg_layout *l = cg_layout();
	const struct cg_home *home = &l->home[ctl];
	struct cgroup_dir *d = &c->dir[c->n];
	size_t len = strlen(home->mount);
	int r;

	for (uint32_t i = 0; i < c->n; i++)
		if (strncmp(c->dir[i].path, home->mount, len) == 0 &&
		    c->dir[i].path[len] == '/')
			return &c->dir[i];
	if (c->n == CGROUP_DIRS_MAX) {
		*ret_sys = ENOSPC;
		return NULL;
	}
	*d = (struct cgroup_dir){.v2 = (uint32_t)home->v2};
	r = home->v2 ? cg_make_v2(d, home, c->id, want) : cg_make_v1(d, home, ctl, c->id);
	if (r < 0) {
		*ret_sys = -r;
		return NULL;
	}
	c->n++;
	return d;
}

/* Makes the directories for what is wanted; returns the index of the first new one. */
static uint32_t make_dirs(struct cgroup *c, uint32_t want, uint32_t *missing,
			  struct cove_error *why)
{
	uint32_t first_new = c->n;

	for (int i = 0; i < CTL_N; i++) {
		const struct cg_home *home = &cg_layout()->home[i];
		uint32_t bit = cg_bit(i), lost = bit | (i == CTL_MEMORY ? CG_SWAP : 0u);
		struct cgroup_dir *d;
		int sys = 0;

		if (!(want & bit))
			continue;
		if (!home->mount[0]) {
			char text[64];

			snprintf(text, sizeof(text), "this host has no %s controller",
				 cg_name(i));
			note(missing, why, lost, 0, 0, text);
			continue;
		}
		d = dir_for(c, i, want, &sys);
		if (d)
			d->bits |= bit;
		else
			note(missing, why, lost, home->v2, sys, home->mount);
	}
	return first_new;
}

static void write_limits(const struct cgroup *c, const struct cgroup_limits *l, int all,
			 uint32_t *missing, struct cove_error *why)
{
	for (uint32_t i = 0; i < c->n; i++) {
		int sys = 0;
		uint32_t failed = cg_write_limits(&c->dir[i], l, all, &sys);

		if (failed)
			note(missing, why, failed, (int)c->dir[i].v2, sys,
			     c->dir[i].path);
	}
}

int cgroup_create(struct cgroup *c, const char *id, const struct cgroup_limits *l,
		  uint32_t *ret_missing, struct cove_error *why)
{
	struct cgroup made = {0};
	uint32_t missing = 0;

	if (!cg_id_ok(id))
		return fail(why, COVE_EINVAL, 0, "control group: '%.80s' is not an id",
			    id);
	memcpy(made.id, id, strlen(id) + 1);
	make_dirs(&made, wanted(l), &missing, why);
	write_limits(&made, l, 0, &missing, why);
	*c = made;
	*ret_missing = missing;
	return 0;
}

/* Moves the processes of one directory into another; those that fork meanwhile are met
 * again in the next round. */
static int move_all(const char *from, const char *to)
{
	char file[CGROUP_PATH_MAX + 64];
	int r = cg_path(file, sizeof(file), "%s/cgroup.procs", from);

	for (int round = 0; r == 0 && round < 8; round++) {
		cleanup_buf struct buf b = BUF_INIT(1 << 20);
		char *save, *line;

		r = read_file_at(AT_FDCWD, file, &b);
		if (r < 0 || !b.data)
			return r;
		line = strtok_r(b.data, "\n", &save);
		for (; line; line = strtok_r(NULL, "\n", &save)) {
			int w = cg_write(to, "cgroup.procs", line);

			if (w < 0 && w != -ESRCH)
				return w;
		}
	}
	return r;
}

int cgroup_update(struct cgroup *c, const struct cgroup_limits *l, uint32_t *ret_missing,
		  struct cove_error *why)
{
	uint32_t missing = 0, first_new;

	if (!c->id[0])
		return fail(why, COVE_EINVAL, 0, "control group: not created");
	first_new = make_dirs(c, wanted(l), &missing, why);
	write_limits(c, l, 1, &missing, why);
	for (uint32_t i = first_new; i < c->n; i++) {
		int r = first_new ? move_all(c->dir[0].path, c->dir[i].path) : -ESRCH;

		/* Without any directory so far we do not know which processes are meant.
		 */
		if (r < 0)
			note(&missing, why, c->dir[i].bits, (int)c->dir[i].v2, -r,
			     "needs a restart");
	}
	*ret_missing = missing;
	return 0;
}

int cgroup_attach(struct cgroup *c, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	for (uint32_t i = 0; i < c->n; i++) {
		int r;

		if (c->dir[i].v2 && c->cloned)
			continue;
		r = cg_write(c->dir[i].path, "cgroup.procs", text);
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroup_clone_fd(struct cgroup *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		int fd;

		if (!c->dir[i].v2)
			continue;
		fd = open(c->dir[i].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		c->cloned = 1;
		return fd;
	}
	return -ENOENT;
}
