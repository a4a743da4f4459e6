/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_find - which hierarchy has which controller, and where the caller is in it.
 *
 * The usual mount points are tried first, by the magic number of what is mounted there;
 * /proc/self/mountinfo is read only for what was not found so.
 */
#include "os/cgroup_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/vfs.h>

/* Joint mounts come first: their short names are symlinks to the same place. */
static const struct {
	const char *name;
	uint32_t bit;
	const char *usual[2];
} controllers[CTL_N] = {
	[CTL_MEMORY] = {"memory",  CG_MEMORY, {"/sys/fs/cgroup/memory", NULL}                         },
	[CTL_CPU] = {"cpu",     CG_CPU,    {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"}    },
	[CTL_PIDS] = {"pids",    CG_PIDS,   {"/sys/fs/cgroup/pids", NULL}                           },
	[CTL_CPUACCT] = {"cpuacct",
                        CG_ACCOUNT,           {"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpuacct"}},
};

const char *cg_name(enum cg_controller ctl)
{
	return controllers[ctl].name;
}

uint32_t cg_bit(enum cg_controller ctl)
{
	return controllers[ctl].bit;
}

static int has_magic(const char *path, unsigned long magic)
{
	struct statfs s;

	return statfs(path, &s) == 0 && (unsigned long)s.f_type == magic;
}

static void set_home(struct cg_home *h, const char *mount, int v2)
{
	if (cg_path(h->mount, sizeof(h->mount), "%s", mount) < 0)
		h->mount[0] = '\0'; /* a mount point that long: not usable */
	h->v2 = v2;
}

/* Is word in a list separated by sep? */
static int in_list(const char *list, const char *word, const char *sep)
{
	size_t n = strlen(word);

	for (const char *p = list; *p; p += strspn(p, sep)) {
		size_t len = strcspn(p, sep);

		if (len == n && memcmp(p, word, n) == 0)
			return 1;
		p += len;
	}
	return 0;
}

/* One line of mountinfo: "id parent dev root MOUNT opts [tags] - TYPE source OPTIONS". */
static void look_at_mount(struct cg_layout *l, char *line, char *v2, size_t n)
{
	char *dash = strstr(line, " - "), *save, *type, *options = NULL, *mount = NULL;

	if (!dash)
		return;
	*dash = '\0';
	type = strtok_r(dash + 3, " ", &save);
	if (!type || strncmp(type, "cgroup", 6) != 0)
		return;
	for (int i = 0; i < 2; i++)
		options = strtok_r(NULL, " ", &save);
	mount = strtok_r(line, " ", &save);
	for (int i = 0; i < 4 && mount; i++)
		mount = strtok_r(NULL, " ", &save);
	if (!mount || !options)
		return;
	if (strcmp(type, "cgroup2") == 0 && !v2[0])
		snprintf(v2, n, "%s", mount);
	for (int i = 0; strcmp(type, "cgroup") == 0 && i < CTL_N; i++)
		if (!l->home[i].mount[0] && in_list(options, controllers[i].name, ","))
			set_home(&l->home[i], mount, 0);
}

static void read_mountinfo(struct cg_layout *l, char *v2, size_t n)
{
	cleanup_buf struct buf b = BUF_INIT(4 << 20);
	char *save, *line;

	if (read_file_at(AT_FDCWD, "/proc/self/mountinfo", &b) < 0 || !b.data)
		return;
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		look_at_mount(l, line, v2, n);
}

/* Controllers that no v1 hierarchy has taken are in the v2 tree, if the kernel has them.
 */
static void use_v2(struct cg_layout *l, const char *v2)
{
	char have[512];

	if (cg_read(v2, "cgroup.controllers", have, sizeof(have)) < 0)
		return;
	for (int i = 0; i < CTL_N; i++)
		if (!l->home[i].mount[0] &&
		    (i == CTL_CPUACCT || in_list(have, controllers[i].name, " \n")))
			set_home(&l->home[i], v2, 1);
}

static int incomplete(const struct cg_layout *l)
{
	for (int i = 0; i < CTL_N; i++)
		if (!l->home[i].mount[0])
			return 1;
	return 0;
}

static struct cg_layout layout;

static void find_layout(void)
{
	char v2[128] = "";

	if (has_magic("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC)) {
		use_v2(&layout, "/sys/fs/cgroup");
		return;
	}
	for (int i = 0; i < CTL_N; i++) {
		for (int k = 0; k < 2 && !layout.home[i].mount[0]; k++) {
			const char *path = controllers[i].usual[k];

			if (path && has_magic(path, CGROUP_SUPER_MAGIC))
				set_home(&layout.home[i], path, 0);
		}
	}
	if (!incomplete(&layout))
		return;
	read_mountinfo(&layout, v2, sizeof(v2));
	if (v2[0])
		use_v2(&layout, v2);
}

const struct cg_layout *cg_layout(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_layout);
	return &layout;
}

/* A line of /proc/self/cgroup: "N:controllers:/path"; v2 is "0::/path". */
static const char *own_in_line(char *line, const char *ctl, int v2)
{
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return NULL;
	*path++ = '\0';
	if (v2 ? list[1] != '\0' : !in_list(list + 1, ctl, ","))
		return NULL;
	return path;
}

int cg_own(const struct cg_home *home, enum cg_controller ctl, char *out, size_t n)
{
	cleanup_buf struct buf b = BUF_INIT(64 << 10);
	const char *path = NULL;
	char *save, *line;
	int r = read_file_at(AT_FDCWD, "/proc/self/cgroup", &b);

	if (r < 0 || !b.data)
		return r < 0 ? r : -ENOENT;
	line = strtok_r(b.data, "\n", &save);
	for (; line && !path; line = strtok_r(NULL, "\n", &save))
		path = own_in_line(line, controllers[ctl].name, home->v2);
	if (!path || strstr(path, "/..")) /* "/..": outside of our cgroup namespace */
		return -ENOENT;
	r = cg_path(out, n, "%s%s", home->mount, strcmp(path, "/") == 0 ? "" : path);
	/* In a container the tree may be mounted from the container's own group down. */
	if (r == 0 && access(out, F_OK) < 0)
		r = cg_path(out, n, "%s", home->mount);
	return r;
}
