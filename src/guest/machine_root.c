/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine_root - "/" of a machine is a FUSE mount whose server is the host, or a disk;
 * /proc, /dev and whatever is to live in memory lie on top of it, and on a disk whatever
 * the host serves.
 *
 * Nothing of ours is in the sandbox's tree, and the threads that carry FUSE requests
 * never open a file: a mount that waits for them cannot wait for itself.
 *
 * What is the same for every sandbox is made before the host is there
 * (machine_root_prepare); what is the same for many, before the machine is saved as a
 * template (machine_root); a start has only to add what is this one's
 * (machine_root_finish).
 */
#include "guest/machine_root.h"

#include "guest/fusehear.h"
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
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define ROOT "/root"
#define VIEW "/view"
#define MEMORY "/memory"
#define DEV "/own-dev"
#define MACHINE_ID "/etc/machine-id"
#define READ_AHEAD_KB "1024"
#define MOUNT_FIELD_MAX 256
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = {
	{"null",    1, 3},
        {"zero",    1, 5},
        {"full",    1, 7},
	{"random",  1, 8},
        {"urandom", 1, 9},
        {"tty",     5, 0},
};

static const char *const links[][2] = {
	{"/proc/self/fd",   "fd"    },
        {"/proc/self/fd/0", "stdin" },
	{"/proc/self/fd/1", "stdout"},
        {"/proc/self/fd/2", "stderr"},
	{"pts/ptmx",        "ptmx"  },
};

/* Where what is mounted comes from. */
struct trees {
	int root, memory, dev, proc;
	int fuse, window;
	bool disk; /* what they are mounted on is our own */
};

static struct trees ready = {-1, -1, -1, -1, -1, -1, false};

/* ---- the host's part ------------------------------------------------------------ */

/* The kernel's first request waits in the descriptor until somebody reads it. */
static int mount_host(void)
{
	char options[200];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fuse < 0)
		return -1;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,"
		 "default_permissions",
		 fuse);
	if (mount("cove", ROOT, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		close(fuse);
		return -1;
	}
	return fuse;
}

/* The same tree once more, where nothing will ever be mounted on it: what is to be shown
 * again is taken from there. It stays mounted below what covers it. */
static int second_view(void)
{
	if (mkdir(VIEW, 0755) < 0 || mount(ROOT, VIEW, NULL, MS_BIND, NULL) < 0)
		return -1;
	return open(VIEW, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The root is a disk: what the host serves is only to be seen from the side. */
static const char *use_disk(void)
{
	return umount2(ROOT, MNT_DETACH) < 0 ? "mounts" : machine_disk_root(ROOT);
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
	/* What was there keeps its owner. This is root, and what lies there may be of an
	 * earlier run: a symlink in the place of what is made leads nowhere. */
	if (access(dir, F_OK) < 0) {
		if (mkdir_p(dir, 0755) < 0)
			return -1;
		(void)!fchownat(AT_FDCWD, dir, user->uid, user->gid, AT_SYMLINK_NOFOLLOW);
	}
	if (!file)
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
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

/* A tree that is mounted already, to be mounted once more where it belongs. */
static int take_tree(const char *path, uint64_t attr)
{
	struct mount_attr a = {.attr_set = attr};
	int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path,
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);

	if (tree >= 0 &&
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		close_fd(&tree);
	return tree;
}

static int put_tree(int *tree, const char *path)
{
	int r = (int)syscall(SYS_move_mount, *tree, "", AT_FDCWD, path,
			     MOVE_MOUNT_F_EMPTY_PATH);

	close_fd(tree);
	return r;
}

static int fill_dev(int dev)
{
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
		if (mknodat(dev, nodes[i].name, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)) < 0 ||
		    fchmodat(dev, nodes[i].name, 0666, 0) < 0)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i][0], dev, links[i][1]) < 0)
			return -1;
	return mkdirat(dev, "pts", 0755) < 0 ? -1 : mkdirat(dev, "shm", 0755);
}

static int make_dev(void)
{
	char pts[] = "newinstance,ptmxmode=0666,mode=0620";
	cleanup_fd int dev = -1;

	if (mkdir(DEV, 0755) < 0 || mount("tmpfs", DEV, "tmpfs", MS_NOSUID | MS_NOEXEC,
					  "mode=0755,size=1048576") < 0)
		return -1;
	dev = open(DEV, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dev < 0 || fill_dev(dev) < 0 ||
	    mount("devpts", DEV "/pts", "devpts", MS_NOSUID | MS_NOEXEC, pts) < 0)
		return -1;
	return take_tree(DEV, 0);
}

static int mount_shm(const struct trees *t, const struct machine_user *user)
{
	char line[100];

	snprintf(line, sizeof(line), "tmpfs mode=0755,uid=%u,gid=%u /dev/shm", user->uid,
		 user->gid);
	return mount_one(t, line, user);
}

/* ---- who this is ---------------------------------------------------------------- */

static int machine_id = -1; /* the file, once it is mounted */

static int write_machine_id(int fd)
{
	uint8_t id[16];
	char text[2 * sizeof(id) + 2];

	if (fd < 0 || getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return -1;
	id[6] = (uint8_t)((id[6] & 0x0f) | 0x40); /* a random UUID, as its users expect */
	id[8] = (uint8_t)((id[8] & 0x3f) | 0x80);
	hex_text(text, id, sizeof(id));
	text[sizeof(text) - 2] = '\n';
	return pwrite(fd, text, sizeof(text) - 1, 0) == (ssize_t)sizeof(text) - 1 ? 0
										  : -1;
}

/* Its own, over whatever the image has there, which may be the host's. An image that has
 * none and cannot be written to stays without. */
static int mount_machine_id(int memory)
{
	cleanup_fd int point = open(MACHINE_ID, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (point < 0 && errno == ENOENT) {
		point = open(MACHINE_ID, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (point < 0)
			return 0;
	}
	if (point < 0 || fstat(point, &st) < 0)
		return -1;
	if (!S_ISREG(st.st_mode))
		return 0; /* the image has arrangements of its own */
	close_fd(&machine_id);
	unlinkat(memory, "machine-id", 0);
	machine_id = openat(memory, "machine-id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			    0444);
	if (write_machine_id(machine_id) < 0)
		return -1;
	return mount_tree(memory, "machine-id", MACHINE_ID, MOUNT_ATTR_RDONLY);
}

/* Nothing was mounted over it since. */
static bool machine_id_shows(void)
{
	struct stat ours, shown;

	return machine_id >= 0 && fstat(machine_id, &ours) == 0 &&
	       lstat(MACHINE_ID, &shown) == 0 && ours.st_dev == shown.st_dev &&
	       ours.st_ino == shown.st_ino;
}

int machine_root_rename(void)
{
	return machine_id < 0 ? 0 : write_machine_id(machine_id);
}

/* File operations of the link are the user's: root's rights are for mounting only. */
static void files_as(const struct machine_user *user)
{
	setfsgid(user->gid);
	setfsuid(user->uid);
}

const char *machine_root_prepare(void)
{
	ready.memory = memory_files();
	if (ready.memory < 0)
		return "file system in memory";
	ready.window = machine_window();
	ready.fuse = mount_host();
	ready.root = ready.fuse < 0 ? -1 : second_view();
	if (ready.root < 0)
		return "root file system";
	ready.proc = take_tree("/proc", MOUNT_ATTR_NODEV);
	if (ready.proc < 0)
		return "/proc";
	ready.dev = make_dev();
	return ready.dev < 0 ? "/dev" : NULL;
}

static const char *mount_all(const struct machine_user *user, char **mounts)
{
	for (; *mounts; mounts++)
		if (mount_one(&ready, *mounts, user) < 0)
			return *mounts;
	return NULL;
}

const char *machine_root(int port, bool disk, const struct machine_user *user,
			 char **mounts)
{
	int r = fusepump_start(ready.fuse, port, ready.window, true);
	const char *what;

	errno = -r;
	if (r < 0)
		return "root file system";
	read_ahead(ready.root);
	ready.disk = disk;
	what = disk ? use_disk() : NULL;
	if (what)
		return what;
	hear_mount(fcntl(ready.root, F_DUPFD_CLOEXEC, 3));
	if (enter() < 0)
		return "enter the root file system";
	if (disk && (mkdir_p("/proc", 0755) < 0 || mkdir_p("/dev", 0755) < 0))
		return "/proc";
	if (put_tree(&ready.proc, "/proc") < 0)
		return "/proc";
	if (put_tree(&ready.dev, "/dev") < 0 || mount_shm(&ready, user) < 0)
		return "/dev";
	what = mount_all(user, mounts);
	/* a template has the file in its place; what is in it comes later */
	return !what && mount_machine_id(ready.memory) < 0 ? MACHINE_ID : what;
}

const char *machine_root_finish(const struct machine_user *user, char **mounts)
{
	const char *what = mount_all(user, mounts);

	if (!what && (machine_id_shows() ? machine_root_rename()
					 : mount_machine_id(ready.memory)) < 0)
		what = MACHINE_ID;
	close_fd(&ready.root);
	close_fd(&ready.memory);
	files_as(user);
	return what;
}

int machine_loopback(void)
{
	struct ifreq req = {.ifr_name = "lo"};
	cleanup_fd int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	req.ifr_flags = IFF_UP | IFF_RUNNING;
	return s < 0 ? -1 : ioctl(s, SIOCSIFFLAGS, &req);
}
