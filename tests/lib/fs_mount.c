/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_mount - runs a command with a directory of this host mounted through cove-fs,
 *without a virtual machine: the guest's own pump between this kernel's /dev/fuse and the
 *server.
 *
 *	fs_mount COVE-FS DIR MOUNTPOINT COMMAND...
 *
 * Needs root (mount). The server runs chrooted into DIR as the user of $FS_UID (0 if it
 *is not set); the mount is private to this process and its children. Long reads
 *go through a window (guest/fusewindow.h), unless $FS_NO_WINDOW is set.
 */
#include "base/fusemsg.h"
#include "base/util.h"
#include "guest/fusehear.h"
#include "guest/fusepump.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int die(const char *what)
{
	perror(what);
	exit(125);
}

static unsigned long env_number(const char *name)
{
	const char *s = getenv(name);

	return s ? strtoul(s, NULL, 10) : 0;
}

/* As a machine's: a disk for the pump, memory for the server. -1: not wanted. */
static int open_window(void)
{
	int fd;

	if (getenv("FS_NO_WINDOW"))
		return -1;
	fd = memfd_create("window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, FUSEMSG_WINDOW) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		die("window");
	return fd;
}

static void serve(const char *program, const char *dir, int stream, int window)
{
	const char *wrap = getenv("FS_WRAP"); /* a profiler, say */
	unsigned uid = (unsigned)env_number("FS_UID");
	int bin = open(program, O_RDONLY | O_CLOEXEC);
	/* the root is an overlay over this directory */
	const char *lower = getenv("FS_LOWER");
	char *argv[] = {strdup("cove-fs"), lower ? strdup("/") : NULL, NULL};
	char *envp[] = {NULL};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bin = fcntl(bin, F_DUPFD_CLOEXEC, 10);
	window = window < 0 ? -1 : fcntl(window, F_DUPFD_CLOEXEC, 10);
	if (dup2(stream, 3) < 0 || bin < 0 || (window >= 0 && dup2(window, 6) < 0))
		die("descriptors");
	if (lower && dup2(open(lower, O_PATH | O_DIRECTORY), 7) < 0)
		die(lower);
	if (wrap) {
		execl(wrap, wrap, program, NULL);
		die(wrap);
	}
	if (chroot(dir) < 0 || chdir("/") < 0)
		die("chroot");
	if (uid && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
		die("setuid");
	fexecve(bin, argv, envp);
	die("cove-fs");
}

static void mount_fuse(const char *at, int fuse)
{
	char options[200];

	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_"
		 "permissions",
		 fuse);
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", "", MS_REC | MS_PRIVATE, "") < 0 ||
	    mount("cove", at, "fuse.cove", MS_NOSUID | MS_NODEV, options) < 0)
		die("mount");
}

int main(int argc, char **argv)
{
	int pair[2], fuse, status, window;
	pid_t server, command;

	if (argc < 5) {
		fprintf(stderr, "usage: fs_mount COVE-FS DIR MOUNTPOINT COMMAND...\n");
		return 2;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		die("socketpair");
	window = open_window();
	server = fork();
	if (server == 0)
		serve(argv[1], argv[2], pair[1], window);
	close(pair[1]);
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (server < 0 || fuse < 0)
		die("/dev/fuse");
	mount_fuse(argv[3], fuse);
	if (fusepump_start(fuse, pair[0], window, false) < 0)
		die("pump");
	hear_mount(open(argv[3], O_PATH | O_DIRECTORY | O_CLOEXEC));
	command = fork();
	if (command == 0) {
		unsigned uid = (unsigned)env_number("RUN_UID");

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (uid && (setgroups(0, NULL) < 0 || setgid(uid) < 0 || setuid(uid) < 0))
			die("setuid");
		execvp(argv[4], argv + 4);
		die(argv[4]);
	}
	if (command < 0 || waitpid(command, &status, 0) < 0)
		die("command");
	umount2(argv[3], MNT_DETACH);
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
