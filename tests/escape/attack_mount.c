/* SPDX-License-Identifier: Apache-2.0 */
/* attack_mount - mounts and namespaces: changing the view that the sandbox was given. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* From sys/mount.h, which fights with linux/mount.h. */
extern int mount(const char *, const char *, const char *, unsigned long, const void *);
extern int umount2(const char *, int);
#define DETACH 2 /* MNT_DETACH */

static int mount_tmpfs(char **arg)
{
	return judge(mount("tmpfs", arg[0], "tmpfs", 0, NULL), "mount tmpfs");
}

static int mount_proc(char **arg)
{
	return judge(mount("proc", arg[0], "proc", 0, NULL), "mount proc");
}

static int mount_sysfs(char **arg)
{
	return judge(mount("sysfs", arg[0], "sysfs", 0, NULL), "mount sysfs");
}

static int mount_bind(char **arg)
{
	return judge(mount("/", arg[0], NULL, MS_BIND | MS_REC, NULL), "bind mount");
}

/* release-agent DIR: a control group hierarchy, in which the kernel runs a host program.
 */
static int release_agent(char **arg)
{
	char path[4096];

	if (mount("cgroup", arg[0], "cgroup", 0, "none,name=cove-attack") < 0 &&
	    mount("cgroup", arg[0], "cgroup", 0, "memory") < 0)
		return refused("mount cgroup");
	snprintf(path, sizeof(path), "%s/release_agent", arg[0]);
	int rc = write_text(path, "");
	int saved = errno;
	umount2(arg[0], DETACH);
	errno = saved;
	return judge(rc, "write release_agent");
}

static int umount_path(char **arg)
{
	return judge(umount2(arg[0], DETACH), arg[0]);
}

static int remount_rw(char **arg)
{
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};

	if (mount(NULL, arg[0], NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		return worked("remount %s", arg[0]);
	if (mount(NULL, arg[0], NULL, MS_REMOUNT, NULL) == 0)
		return worked("remount %s", arg[0]);
	return judge(syscall(SYS_mount_setattr, AT_FDCWD, arg[0], AT_RECURSIVE, &attr,
			     sizeof(attr)),
		     "mount_setattr");
}

static int new_mount_api(char **arg)
{
	int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), m;

	if (fs < 0)
		return refused("fsopen");
	if (syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return refused("fsconfig");
	m = (int)syscall(SYS_fsmount, fs, 0, 0);
	if (m < 0)
		return refused("fsmount");
	return judge(
		syscall(SYS_move_mount, m, "", AT_FDCWD, arg[0], MOVE_MOUNT_F_EMPTY_PATH),
		"move_mount");
}

static int move_tree(char **arg)
{
	int t = (int)syscall(SYS_open_tree, AT_FDCWD, "/",
			     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (t < 0)
		return refused("open_tree");
	return judge(
		syscall(SYS_move_mount, t, "", AT_FDCWD, arg[0], MOVE_MOUNT_F_EMPTY_PATH),
		"move_mount");
}

static int pivot(char **arg)
{
	return judge(syscall(SYS_pivot_root, arg[0], arg[0]), "pivot_root");
}

static int change_root(char **arg)
{
	return judge(chroot(arg[0]), "chroot");
}

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = {
	{"user",   CLONE_NEWUSER  },
        {"mnt",    CLONE_NEWNS    },
        {"pid",    CLONE_NEWPID   },
	{"net",    CLONE_NEWNET   },
        {"ipc",    CLONE_NEWIPC   },
        {"uts",    CLONE_NEWUTS   },
	{"cgroup", CLONE_NEWCGROUP},
        {"time",   CLONE_NEWTIME  },
};

static unsigned long flag_of(const char *name)
{
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if (strcmp(spaces[i].name, name) == 0)
			return spaces[i].flag;
	return 0;
}

static int unshare_one(char **arg)
{
	return judge(unshare((int)flag_of(arg[0])), "unshare");
}

static int reap_ok(long pid, const char *what)
{
	if (pid < 0)
		return refused("%s", what);
	if (pid == 0)
		_exit(0);
	waitpid((pid_t)pid, NULL, 0);
	return worked("%s", what);
}

static int clone_one(char **arg)
{
	return reap_ok(syscall(SYS_clone, flag_of(arg[0]) | SIGCHLD, 0, 0, 0, 0),
		       "clone");
}

static int clone3_one(char **arg)
{
	struct clone_args a = {.flags = flag_of(arg[0]), .exit_signal = SIGCHLD};

	return reap_ok(syscall(SYS_clone3, &a, sizeof(a)), "clone3");
}

const struct attack mount_attacks[] = {
	{"mount-tmpfs",   1, mount_tmpfs  },
	{"mount-proc",    1, mount_proc   },
	{"mount-sysfs",   1, mount_sysfs  },
	{"mount-bind",    1, mount_bind   },
	{"release-agent", 1, release_agent},
	{"umount",        1, umount_path  },
	{"remount-rw",    1, remount_rw   },
	{"new-mount-api", 1, new_mount_api},
	{"move-tree",     1, move_tree    },
	{"pivot-root",    1, pivot        },
	{"chroot",        1, change_root  },
	{"unshare",       1, unshare_one  },
	{"clone",         1, clone_one    },
	{"clone3",        1, clone3_one   },
	{NULL,            0, NULL         },
};
