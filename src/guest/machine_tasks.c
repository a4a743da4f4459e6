/* SPDX-License-Identifier: Apache-2.0 */
/*
 * We, and so all that we start, live in a group of our own below the root of the guest's
 * cgroup tree, which nobody finds mounted; SETUP sets its limit. The group counts whoever
 * the processes belong to, root too. It is there for what goes wrong: who is root in a
 * machine can do as he likes with its kernel, and the wall around that is the machine.
 */
#include "guest/machine_tasks.h"

#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define TREE "/cgroup"
#define GROUP TREE "/sandbox"

static int limit = -1; /* opened while files are ours to open */

/* Part of the template. A kernel without it is left with the limit of setrlimit(). */
void machine_tasks_enter(void)
{
	mkdir(TREE, 0700);
	if (mount("cgroup2", TREE, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) <
		    0 ||
	    write_knob_at(AT_FDCWD, TREE "/cgroup.subtree_control", "+pids") < 0 ||
	    mkdir(GROUP, 0700) < 0 ||
	    write_knob_at(AT_FDCWD, GROUP "/cgroup.procs", "0") < 0)
		return;
	limit = open(GROUP "/pids.max", O_WRONLY | O_CLOEXEC);
}

static uint32_t own_threads = 1;

void machine_tasks_count(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	uint32_t n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	own_threads = n ? n : 1;
}

/* We are one of the processes that are counted everywhere; only our other threads are
 * not. The second limit, by user, is what programs see and ask for. */
int machine_tasks_limit(uint32_t tasks)
{
	rlim_t most = tasks ? tasks : RLIM_INFINITY;
	struct rlimit by_user = {most, most};
	char text[16] = "max";
	int n = 3;

	if (setrlimit(RLIMIT_NPROC, &by_user) < 0)
		return -1;
	if (tasks)
		n = snprintf(text, sizeof(text), "%u", tasks + own_threads - 1);
	return limit >= 0 && write(limit, text, (size_t)n) != n ? -1 : 0;
}
