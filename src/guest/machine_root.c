/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_root - "/" of a machine is a FUSE mount whose server is the host, or a disk;
 * /proc, /dev and whatever is to live in memory lie on top of it, and on a disk whatever
 * the host serves.
 *
 * Nothing of ours is in the sandbox's tree, and the threads that carry FUSE requests
 * never open a file: a mount that waits for them cannot wait for itself.
 */
#include "guest/machine_root.h"

#include "guest/fusepump.h"
#include "guest/machine_disk.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define ROOT "/root"
#define VIEW "/view"
#define MEMORY "/memory"
#define READ_AHEAD_KB "1024"
#define MOUNT_FIELD_MAX 256
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static const struct {
	const char *path;
	unsigned major, minor;
} nodes[] = {
	{"/dev/null",    1, 3},
        {"/dev/zero",    1, 5},
        {"/dev/full",    1, 7},
	{"/dev/random",  1, 8},
        {"/dev/urandom", 1, 9},
        {"/dev/tty",     5, 0},
};

static const char *const links[][2] = {
	{"/proc/self/fd",   "/dev/fd"    },
        {"/proc/self/fd/0", "/dev/stdin" },
	{"/proc/self/fd/1", "/dev/stdout"},
        {"/proc/self/fd/2", "/dev/stderr"},
	{"pts/ptmx",        "/dev/ptmx"  },
};

/* Where what is mounted comes from. */
struct trees {
	int root, memory;
	bool disk; /* what they are mounted on is our own */
};

/* ---- the host's part ------------------------------------------------------------ */

static int mount_host(int port, const char *at)
{
	char options[200];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), r;

	if (fuse < 0)
		return -1;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,"
		 "default_permissions",
		 fuse);
	if (mount("cove", at, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		close(fuse);
		return -1;
	}
	/* Only now is there something to read; the mount itself waits for nothing. */
	r = fusepump_start(fuse, port, "/", true); /* "/" by then */
	errno = -r;
	return r < 0 ? -1 : 0;
}

/* The same tree once more, where nothing will ever be mounted on it: what is to be shown
 * again is taken from there. It stays mounted below what covers it. */
static int second_view(void)
{
	if (mount(ROOT, VIEW, NULL, MS_BIND, NULL) < 0)
		return -1;
	return open(VIEW, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* What the host serves, mounted as the root or beside it. */
static const char *mount_root(int port, bool disk, int *ret_view)
{
	if (mkdir(VIEW, 0755) < 0 || mount_host(port, disk ? VIEW : ROOT) < 0)
		return "root file system";
	if (!disk) {
		*ret_view = second_view();
		return *ret_view < 0 ? "root file system" : NULL;
	}
	*ret_view = open(VIEW, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_view < 0)
		return "mounts";
	return machine_disk_root(ROOT);
}

/* All that lives in memory is in one file system, so that together it leaves the other
 * half to processes: files are nothing that a lack of memory could end. */
static int memory_files(void)
{
	if (mkdir(MEMORY, 0755) < 0 ||
	    mount("tmpfs", MEMORY, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=50%") <
		    0)
		return -1;
	return open(MEMORY, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A request costs far more than its bytes: read far ahead. Not vital. */
static void read_ahead(int root)
{
	char path[100];
	struct stat st;

	if (fstat(root, &st) < 0)
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb",
		 major(st.st_dev), minor(st.st_dev));
	cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, READ_AHEAD_KB, strlen(READ_AHEAD_KB));
}

/* An initramfs cannot be pivoted away from: what we mounted covers it. */
static int enter(void)
{
	return chdir(ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 ||
			       chroot(".") < 0
		       ? -1
		       : chdir("/");
}

/* ---- the guest's own ------------------------------------------------------------ */

/* The place to mount on: made if the file system that it lies in is our own. */
static int make_point(const char *path, bool file, const struct machine_user *user)
{
	char dir[4096];
	char *slash;
	int fd;

	if (strlen(path) >= sizeof(dir)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (access(path, F_OK) == 0)
		return 0;
	memcpy(dir, path, strlen(path) + 1);
	slash = strrchr(dir, '/');
	if (file && slash)
		*slash = '\0';
	if (mkdir_p(dir, 0755) < 0)
		return -1;
	(void)!chown(dir, user->uid, user->gid);
	if (!file)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	return fd < 0 ? -1 : close(fd);
}

/* The tree at `from` below dir, mounted at path; symlinks are not followed there. */
static int mount_tree(int dir, const char *from, const char *path, uint64_t attr)
{
	struct mount_attr a = {.attr_set = attr | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	int tree = (int)syscall(SYS_open_tree, dir, from,
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
					AT_SYMLINK_NOFOLLOW);
	int r;

	if (tree < 0)
		return -1;
	r = (int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a,
			 sizeof(a));
	if (r == 0)
		r = (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path,
				 MOVE_MOUNT_F_EMPTY_PATH);
	close(tree);
	return r;
}

/* A directory of the one file system in memory. */
static int mount_memory(int memory, const char *options, const char *path)
{
	static unsigned count;
	unsigned mode, uid, gid;
	char name[16];

	snprintf(name, sizeof(name), "%u", count++);
	if (sscanf(options, "mode=%o,uid=%u,gid=%u", &mode, &uid, &gid) != 3 ||
	    mkdirat(memory, name, 0700) < 0 ||
	    fchownat(memory, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(memory, name, mode & 07777, 0) < 0)
		return -1;
	return mount_tree(memory, name, path, 0);
}

/* A directory of the disk, the user's if it is new: home, or one that everybody needs. */
static int make_dir(const char *options, const char *path)
{
	unsigned mode, uid, gid;

	if (access(path, F_OK) == 0)
		return 0;
	if (sscanf(options, "mode=%o,uid=%u,gid=%u", &mode, &uid, &gid) != 3 ||
	    mkdir_p(path, 0755) < 0 || chown(path, uid, gid) < 0)
		return -1;
	return chmod(path, mode & 07777);
}

/* Where ours is to be, an image may have a link to what it does not have. */
static void unlink_symlink(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
		unlink(path);
}

/* "KIND OPTIONS PATH"; the path may hold blanks. */
static int mount_one(const struct trees *t, const char *line,
		     const struct machine_user *user)
{
	char kind[MOUNT_FIELD_MAX], options[MOUNT_FIELD_MAX];
	int at = 0;

	if (sscanf(line, "%255s %255s %n", kind, options, &at) < 2 || !at ||
	    line[at] != '/') {
		errno = EPROTO;
		return -1;
	}
	line += at;
	if (strcmp(kind, "ro") == 0)
		return mount_tree(AT_FDCWD, line, line, MOUNT_ATTR_RDONLY);
	if (strcmp(kind, "dir") == 0)
		return make_dir(options, line);
	if (strcmp(options, "optional") == 0 && access(line, F_OK) < 0)
		return 0;
	if (t->disk && strcmp(kind, "file") == 0)
		unlink_symlink(line);
	if (make_point(line, strcmp(kind, "file") == 0, user) < 0)
		return -1;
	if (strcmp(kind, "tmpfs") == 0)
		return mount_memory(t->memory, options, line);
	return mount_tree(t->root, line + 1, line, 0); /* whatever covers it by now */
}

static int make_dev(const struct trees *t, const struct machine_user *user)
{
	char pts[] = "newinstance,ptmxmode=0666,mode=0620", shm[100];

	snprintf(shm, sizeof(shm), "tmpfs mode=0755,uid=%u,gid=%u /dev/shm", user->uid,
		 user->gid);
	if (mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC,
		  "mode=0755,size=1048576") < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		if (mknod(nodes[i].path, S_IFCHR | 0666,
			  makedev(nodes[i].major, nodes[i].minor)) < 0 ||
		    chmod(nodes[i].path, 0666) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlink(links[i][0], links[i][1]) < 0)
			return -1;
	if (mkdir("/dev/pts", 0755) < 0 || mount_one(t, shm, user) < 0)
		return -1;
	return mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, pts);
}

/* File operations of the link are the user's: root's rights are for mounting only. */
static void files_as(const struct machine_user *user)
{
	setfsgid(user->gid);
	setfsuid(user->uid);
}

const char *machine_root(int port, bool disk, const struct machine_user *user,
			 char **mounts)
{
	cleanup_fd int root = -1, memory = memory_files();
	const char *what;
	struct trees t;

	if (memory < 0)
		return "file system in memory";
	what = mount_root(port, disk, &root);
	if (what)
		return what;
	t = (struct trees){root, memory, disk};
	read_ahead(root);
	if (enter() < 0)
		return "enter the root file system";
	if (disk && (mkdir_p("/proc", 0755) < 0 || mkdir_p("/dev", 0755) < 0))
		return "/proc";
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return "/proc";
	if (make_dev(&t, user) < 0)
		return "/dev";
	for (; *mounts; mounts++)
		if (mount_one(&t, *mounts, user) < 0)
			return *mounts;
	files_as(user);
	return NULL;
}

int machine_loopback(void)
{
	struct ifreq req = {.ifr_name = "lo"};
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	req.ifr_flags = IFF_UP | IFF_RUNNING;
	return s < 0 ? -1 : ioctl(s, SIOCSIFFLAGS, &req);
}
