/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmfiles - times work on files, step by step; it runs inside a virtual machine.
 *
 *   vmfiles DIR NAME [STEP]   DIR/NAME has what the host prepared (vm_files.py): few/
 * (small files), many/ (a tree, a repository), large
 *
 * As the first process of a machine that has nothing else it loads the modules of
 * /modules, mounts the virtiofs of tag "bench" on /work, and runs itself for every line
 * NAME [TAB STEP] that the port brings.
 *
 * A line a step on stdout: name, failures, nanoseconds.
 */
#include "vm_init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define FILES 500
#define SMALL 1000
#define LARGE_PIECE (256u * 1024)
#define WRITE_BYTES (64u << 20)

static char piece[LARGE_PIECE];
static int failures;

static void failed_if(int bad)
{
	failures += bad != 0;
}

/* ---- steps ------------------------------------------------------------------------ */

static void create(const char *dir)
{
	char path[300];

	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/f%03d", dir, i);
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

		failed_if(write(fd, piece, SMALL) != SMALL);
		failed_if(close(fd) < 0);
	}
}

/* ls -l asks each entry for these, until it hears that there are none on this device. */
static void ask(const char *path, const char *name, int *none)
{
	char value[16];

	if (!*none && lgetxattr(path, name, value, sizeof(value)) < 0)
		*none = errno == ENOTSUP || errno == ENOSYS;
}

/* What ls -l asks of each entry. */
static void list(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0, no_acl = 0, no_label = 0;
	char path[600];
	struct stat st;

	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		failed_if(lstat(path, &st) < 0);
		ask(path, "security.selinux", &no_label);
		ask(path, "system.posix_acl_access", &no_acl);
		n++;
	}
	failed_if(n != FILES);
	if (d)
		closedir(d);
}

static void open_and_read(const char *dir)
{
	char path[300];

	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/f%03d", dir, i);
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		failed_if(read(fd, piece, sizeof(piece)) != SMALL);
		failed_if(close(fd) < 0);
	}
}

static void read_large(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	failed_if(fd < 0);
	do
		n = read(fd, piece, sizeof(piece));
	while (n > 0);
	failed_if(n < 0);
	close(fd);
}

static void write_large(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	for (unsigned done = 0; done < WRITE_BYTES; done += sizeof(piece))
		failed_if(write(fd, piece, sizeof(piece)) != (ssize_t)sizeof(piece));
	failed_if(close(fd) < 0);
}

static int found;

/* find with -size: every entry is looked at. */
static void find_in(const char *dir)
{
	DIR *d = opendir(dir);
	char path[600];
	struct stat st;

	failed_if(!d);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		failed_if(lstat(path, &st) < 0);
		found++;
		if (S_ISDIR(st.st_mode))
			find_in(path);
	}
	if (d)
		closedir(d);
}

static void find(const char *dir)
{
	found = 0;
	find_in(dir);
	failed_if(found < 5000);
}

static void run(char *const argv[])
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 1);
		execv(argv[0], argv);
		_exit(127);
	}
	failed_if(pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0);
}

static void git(const char *dir, const char *locks)
{
	char program[] = "/usr/bin/git", c[] = "-C", at[300], how[40],
	     status[] = "status", conf[] = "-c", safe[] = "safe.directory=*";
	char *const argv[] = {program, how, conf, safe, c, at, status, NULL};

	snprintf(at, sizeof(at), "%s", dir);
	snprintf(how, sizeof(how), "%s", locks);
	run(argv);
}

static void git_status(const char *dir)
{
	git(dir, "--no-optional-locks");
}

/* Whose files are inside may not be what they are outside: then the first status reads
 * each of them, and writes that down. The second asks for the attributes of all that was
 * read. What a user waits for day by day is the third. */
static void git_first(const char *dir)
{
	git(dir, "--no-pager");
}

/* ---- the clock -------------------------------------------------------------------- */

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static const struct step {
	const char *name;
	void (*run)(const char *);
	const char *on; /* below the round's directory */
} steps[] = {
	{"create",              create,        "new"    },
	{"list",                list,          "few"    },
	{"list again",          list,          "few"    },
	{"open and read",       open_and_read, "few"    },
	{"open and read again", open_and_read, "few"    },
	{"find",                find,          "many"   },
	{"git status, first",   git_first,     "many"   },
	{"git status, second",  git_status,    "many"   },
	{"git status",          git_status,    "many"   },
	{"read",                read_large,    "large"  },
	{"write",               write_large,   "written"},
};

static void take(const struct step *s, const char *base)
{
	char path[300];
	long long start;

	snprintf(path, sizeof(path), "%s/%s", base, s->on);
	if (s->run == create)
		mkdir(path, 0755);
	failures = 0;
	start = now();
	s->run(path);
	printf("%s\t%d\t%lld\n", s->name, failures, now() - start);
	fflush(stdout);
	/* the next round finds as much free memory as this one did */
	if (s->run == read_large || s->run == write_large)
		unlink(path);
}

static int measure(const char *work, const char *name, const char *only)
{
	char base[200];

	snprintf(base, sizeof(base), "%s/%s", work, name);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (!only || strcmp(only, steps[i].name) == 0)
			take(&steps[i], base);
	return 0;
}

/* ---- the first process of the peer's machine ----------------------------------------
 */

static void mounts(void)
{
	mkdir("/work", 0755);
	if (mount("devtmpfs", "/dev", "devtmpfs", 0, "") < 0 ||
	    mount("proc", "/proc", "proc", 0, "") < 0 ||
	    mount("bench", "/work", "virtiofs", MS_NOSUID | MS_NODEV, "") < 0)
		fprintf(stderr, "mount: %s\n", strerror(errno));
}

/* Its first number is that of the device, which QEMU chooses. */
static int open_port(void)
{
	char path[] = "/dev/vport0p1";
	struct timespec nap = {0, 10000000};
	int fd = -1;

	for (int i = 0; fd < 0 && i < 1000; i++) {
		path[strlen("/dev/vport")] = (char)('0' + i % 8);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			nanosleep(&nap, NULL);
	}
	return fd;
}

static void serve(int port)
{
	char name[100], *only;
	ssize_t n;

	while ((n = read(port, name, sizeof(name) - 1)) > 0) {
		pid_t pid;

		name[n] = '\0';
		name[strcspn(name, "\n")] = '\0';
		only = strchr(name, '\t');
		if (only)
			*only++ = '\0';
		pid = fork();
		if (pid == 0) {
			dup2(port, 1);
			execl("/init", "/init", "/work", name, only, (char *)NULL);
			_exit(127);
		}
		waitpid(pid, NULL, 0);
		(void)!write(port, "end\t0\t0\n", 8);
	}
}

static void __attribute__((noreturn)) init(void)
{
	int port;

	load_modules();
	mounts();
	port = open_port();
	(void)!write(port, "ready\n", 6);
	serve(port);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	if (getpid() == 1)
		init();
	if (argc < 3)
		return 2;
	return measure(argv[1], argv[2], argv[3]);
}
