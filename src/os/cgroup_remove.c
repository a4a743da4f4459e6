/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_remove - the end of a group: kill what is inside, remove, also after a crash. */
#include "os/cgroup_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/vfs.h>
#include <time.h>

/* About 5 s in all. A killed process is gone in microseconds, one that owns a machine's
 * memory on a busy host in seconds; and a group that stays here nobody else removes. */
#define TRIES 110
#define PAUSE_MAX_NS (50 * 1000 * 1000)

static void kill_inside(const char *path)
{
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	char file[CGROUP_PATH_MAX + 64], *save, *line;

	if (cg_write(path, "cgroup.kill", "1") == 0)
		return;
	if (cg_path(file, sizeof(file), "%s/cgroup.procs", path) < 0 ||
	    read_file_at(AT_FDCWD, file, &b) < 0 || !b.data)
		return;
	for (line = strtok_r(b.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		long pid = strtol(line, NULL, 10);

		/* 0 is a process of a namespace that we do not see; we are not meant. */
		if (pid > 1 && pid != (long)getpid())
			kill((pid_t)pid, SIGKILL);
	}
}

int cg_remove_path(const char *path)
{
	struct timespec pause = {0, 100000};

	/* Mostly it is empty already, and the first rmdir is all there is to do. */
	for (int i = 0; i < TRIES; i++) {
		if (rmdir(path) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			return -errno;
		kill_inside(path);
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < PAUSE_MAX_NS)
			pause.tv_nsec *= 2;
	}
	return -EBUSY;
}

int cgroup_remove(struct cgroup *c)
{
	uint32_t left = 0;
	int first = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		int r = cg_remove_path(c->dir[i].path);

		if (r < 0 && first == 0)
			first = r;
	}
	for (uint32_t i = 0; i < c->n; i++)
		if (access(c->dir[i].path, F_OK) == 0)
			c->dir[left++] = c->dir[i];
	c->n = first < 0 ? left : 0;
	return first;
}

int cgroup_save(const struct cgroup *c, char *out, size_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < c->n; i++)
		len += strlen(c->dir[i].path) + 1;
	if (len + 1 > n)
		return -ENOBUFS;
	out[0] = '\0';
	for (uint32_t i = 0, at = 0; i < c->n; i++)
		at += (uint32_t)snprintf(out + at, n - at, "%s\n", c->dir[i].path);
	return 0;
}

/* Is this a directory that cgroup_create() could have made? */
static int is_ours(const char *path)
{
	const char *name = strrchr(path, '/');
	struct statfs s;
	cleanup_fd int fd = -1;

	if (path[0] != '/' || strstr(path, "/../") || strncmp(name, "/cove-", 6) != 0 ||
	    !cg_id_ok(name + 6))
		return 0;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && fstatfs(fd, &s) == 0 &&
	       (s.f_type == CGROUP_SUPER_MAGIC || s.f_type == CGROUP2_SUPER_MAGIC);
}

int cgroup_remove_saved(const char *text)
{
	int first = 0;

	while (*text) {
		char path[CGROUP_PATH_MAX];
		size_t n = strcspn(text, "\n");

		if (n > 0 && n < sizeof(path)) {
			memcpy(path, text, n);
			path[n] = '\0';
			if (is_ours(path)) {
				int r = cg_remove_path(path);

				if (r < 0 && first == 0)
					first = r;
			}
		}
		text += n + (text[n] == '\n');
	}
	return first;
}
