/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_torture - what programs expect of a file system, tried in the directory it is
 *started in. TAP; run it on a plain directory first, to know that the test is right.
 *
 *	fs_torture [PART...]
 */
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* <linux/fs.h> has them too, but not under every libc */
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

/* ---- helpers -------------------------------------------------------------------------
 */

static bool put(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text);
}

static bool has(const char *path, const char *text)
{
	char got[4096];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, got, sizeof(got));

	if (fd >= 0)
		close(fd);
	return n == (ssize_t)strlen(text) && memcmp(got, text, (size_t)n) == 0;
}

static bool gone(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 && errno == ENOENT;
}

static int in_child(int (*fn)(void *), void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(fn(arg));
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static long rename2(const char *a, const char *b, unsigned flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags);
}

/* ---- content -------------------------------------------------------------------------
 */

static void content(void)
{
	struct stat st;

	OK(put("f", "hello", O_EXCL) && has("f", "hello"),
	   "a new file holds what was written");
	OK(!put("f", "x", O_EXCL) && errno == EEXIST, "O_EXCL refuses one that is there");
	OK(put("f", " world", O_APPEND) && has("f", "hello world"), "O_APPEND appends");
	OK(put("f", "J", 0) && has("f", "Jello world"),
	   "a write in the middle keeps the rest");
	OK(put("f", "new", O_TRUNC) && has("f", "new"), "O_TRUNC truncates");
	OK(truncate("f", 1) == 0 && has("f", "n"), "truncate to less");
	OK(truncate("f", 3) == 0 && stat("f", &st) == 0 && st.st_size == 3,
	   "truncate to more");
	OK(chmod("f", 0) == 0 && chmod("f", 0600) == 0 && has("f", (char[]){'n', 0}) == 0,
	   "content after chmod 0 and back is compared by size");
	OK(open("none", O_RDONLY) < 0 && errno == ENOENT, "no such file");
	OK(put("none", "now", 0) && has("none", "now"), "it can be made after that");
	OK(unlink("none") == 0 && gone("none"), "and unlinked");
	OK(put("none", "again", 0) && has("none", "again"), "and made again");
}

static void large(void)
{
	static char a[1 << 20], b[1 << 20];
	off_t far = (off_t)5 << 30;
	int fd = open("large", O_RDWR | O_CREAT, 0644);
	bool same = true;
	struct stat st;

	for (size_t i = 0; i < sizeof(a); i++)
		a[i] = (char)(i * 2654435761u >> 13);
	for (int i = 0; i < 32; i++) {
		a[i] ^= 1;
		same = same && write(fd, a, sizeof(a)) == (ssize_t)sizeof(a);
	}
	OK(same, "32 MiB are written");
	memset(b, 0, sizeof(b));
	same = pread(fd, b, sizeof(b), (off_t)31 << 20) == (ssize_t)sizeof(b);
	OK(same && memcmp(a, b, sizeof(a)) == 0, "and read back");
	OK(pwrite(fd, "end", 3, far) == 3 && fstat(fd, &st) == 0 && st.st_size == far + 3,
	   "a write at 5 GiB");
	OK(pread(fd, b, 10, far - 5) == 8 && memcmp(b, "\0\0\0\0\0end", 8) == 0,
	   "reads as a hole and what was written");
	OK(st.st_blocks < 200000, "the hole takes no space");
	OK(lseek(fd, 40 << 20, SEEK_DATA) > 40 << 20, "SEEK_DATA finds the end");
	OK(lseek(fd, 0, SEEK_HOLE) >= 32 << 20, "SEEK_HOLE finds the hole");
	close(fd);
	unlink("large");
}

static void allocated(void)
{
	int fd = open("alloc", O_RDWR | O_CREAT, 0644);
	char b[4096] = {0};
	struct stat st;

	OK(fallocate(fd, 0, 0, 1 << 20) == 0 && fstat(fd, &st) == 0 &&
		   st.st_size == 1 << 20,
	   "fallocate extends");
	memset(b, 'x', sizeof(b));
	OK(pwrite(fd, b, 4096, 4096) == 4096, "a page is written");
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096) < 0 &&
	    errno == EOPNOTSUPP)
		SKIP("no holes can be punched here");
	else
		OK(pread(fd, b, 4096, 4096) == 4096 && b[0] == 0 && b[4095] == 0,
		   "a punched hole reads as zeros");
	close(fd);
}

static void copied(void)
{
	loff_t in = 6, out = 0;
	int a, b;

	put("from", "hello world", 0);
	a = open("from", O_RDONLY);
	b = open("to", O_RDWR | O_CREAT, 0644);
	OK(syscall(SYS_copy_file_range, a, &in, b, &out, 5L, 0L) == 5 &&
		   has("to", "world"),
	   "copy_file_range");
	OK(in == 11 && out == 5, "its offsets move");
	close(a);
	close(b);
}

static void mapped(void)
{
	int fd = open("map", O_RDWR | O_CREAT, 0644);
	char b[8] = {0};
	char *p;

	OK(ftruncate(fd, 8192) == 0, "a file to map");
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	OK(p != MAP_FAILED, "is mapped shared");
	if (p == MAP_FAILED)
		return;
	memcpy(p + 4094, "mapped", 6);
	OK(pread(fd, b, 6, 4094) == 6 && memcmp(b, "mapped", 6) == 0,
	   "what is stored there is read at once");
	OK(pwrite(fd, "WRITE", 5, 4094) == 5 && memcmp(p + 4094, "WRITEd", 6) == 0,
	   "what is written is mapped at once");
	OK(msync(p, 8192, MS_SYNC) == 0, "msync");
	close(fd);
	p[0] = '!';
	OK(munmap(p, 8192) == 0 && (fd = open("map", O_RDONLY)) >= 0 &&
		   read(fd, b, 1) == 1 && b[0] == '!',
	   "a store after close reaches the file");
	close(fd);
}

/* ---- names ---------------------------------------------------------------------------
 */

static void names(void)
{
	struct stat a, b;
	char to[20] = "", name[300];

	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	OK(put(name, "x", 0) && has(name, "x"), "a name of 255 bytes");
	name[255] = 'n';
	name[256] = '\0';
	OK(!put(name, "x", 0) && errno == ENAMETOOLONG, "one of 256 is too long");
	OK(put("\xff\xfe bad\n\t", "odd", 0) && has("\xff\xfe bad\n\t", "odd"),
	   "a name of any bytes");
	OK(symlink("/no/where", "s") == 0 && readlink("s", to, sizeof(to)) == 9 &&
		   memcmp(to, "/no/where", 9) == 0,
	   "a symlink");
	OK(lstat("s", &a) == 0 && S_ISLNK(a.st_mode) && a.st_size == 9, "is one");
	OK(open("s", O_RDONLY) < 0 && errno == ENOENT, "and leads where it says");
	put("one", "same", 0);
	OK(link("one", "two") == 0 && stat("one", &a) == 0 && stat("two", &b) == 0 &&
		   a.st_ino == b.st_ino && b.st_nlink == 2 && a.st_nlink == 2,
	   "a hard link");
	OK(put("two", "SAME and more", 0) && has("one", "SAME and more"),
	   "is the same file");
	OK(unlink("one") == 0 && has("two", "SAME and more") && stat("two", &b) == 0 &&
		   b.st_nlink == 1,
	   "and stays when the other goes");
	OK(link("none", "three") < 0 && errno == ENOENT, "nothing cannot be linked");
}

static void renames(void)
{
	int fd;
	char b[10];

	mkdir("d", 0755);
	mkdir("e", 0755);
	put("a", "A", 0);
	put("b", "B", 0);
	fd = open("b", O_RDWR);
	OK(rename("a", "b") == 0 && has("b", "A") && gone("a"), "rename replaces");
	OK(read(fd, b, 10) == 1 && b[0] == 'B',
	   "who had the old file open still reads it");
	OK(pwrite(fd, "more", 4, 1) == 4 && pread(fd, b, 10, 0) == 5 &&
		   memcmp(b, "Bmore", 5) == 0,
	   "and writes it");
	close(fd);
	put("a", "a2", 0);
	OK(rename2("a", "b", RENAME_NOREPLACE) < 0 && errno == EEXIST,
	   "RENAME_NOREPLACE does not");
	OK(rename2("a", "b", RENAME_EXCHANGE) == 0 && has("a", "A") && has("b", "a2"),
	   "RENAME_EXCHANGE exchanges");
	OK(rename("a", "d/a") == 0 && has("d/a", "A") && gone("a"), "into a directory");
	OK(rename("d", "e/d") == 0 && has("e/d/a", "A") && gone("d"),
	   "a directory into another, with what is in it");
	OK(rename("e", "e/d/e") < 0 && errno == EINVAL, "but not into itself");
	OK(rmdir("e") < 0 && (errno == ENOTEMPTY || errno == EEXIST), "it is not empty");
	OK(unlink("e/d/a") == 0 && rmdir("e/d") == 0 && rmdir("e") == 0 && gone("e"),
	   "and goes piece by piece");
}

static void unlinked(void)
{
	int fd = open("u", O_RDWR | O_CREAT, 0644), dir;
	char b[20] = "";
	struct stat st;

	OK(write(fd, "one ", 4) == 4 && unlink("u") == 0 && gone("u"),
	   "an open file is unlinked");
	OK(write(fd, "two", 3) == 3 && pread(fd, b, 20, 0) == 7 &&
		   memcmp(b, "one two", 7) == 0,
	   "and works as before");
	OK(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 7, "without a link");
	OK(ftruncate(fd, 3) == 0 && fchmod(fd, 0600) == 0 && fstat(fd, &st) == 0 &&
		   st.st_size == 3 && (st.st_mode & 0777) == 0600,
	   "its size and mode change");
	OK(put("u", "other", O_EXCL) && pread(fd, b, 20, 0) == 3,
	   "another may have its name");
	close(fd);
	mkdir("dir", 0755);
	dir = open("dir", O_RDONLY | O_DIRECTORY);
	OK(rmdir("dir") == 0 && fstat(dir, &st) == 0, "an open directory is removed");
	OK(openat(dir, "x", O_CREAT | O_WRONLY, 0644) < 0 && errno == ENOENT,
	   "nothing can be made in it");
	close(dir);
	put("ro", "read only", 0);
	fd = open("ro", O_RDONLY);
	OK(unlink("ro") == 0 && read(fd, b, 20) == 9,
	   "a file open for reading, unlinked");
	close(fd);
}

static void temporary(void)
{
	int fd = open(".", O_TMPFILE | O_RDWR, 0640);
	char path[64], b[10];
	struct stat st;

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
		SKIP("no O_TMPFILE here");
		return;
	}
	OK(fd >= 0 && write(fd, "tmp", 3) == 3 && pread(fd, b, 10, 0) == 3, "O_TMPFILE");
	OK(fstat(fd, &st) == 0 && st.st_nlink == 0, "has no name");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	OK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0 &&
		   has("named", "tmp"),
	   "until it is given one");
	close(fd);
}

static void special(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "sock"};
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), r,
	    w;
	char b[5];

	OK(mkfifo("fifo", 0600) == 0, "a fifo");
	r = open("fifo", O_RDONLY | O_NONBLOCK);
	w = open("fifo", O_WRONLY);
	OK(r >= 0 && w >= 0 && write(w, "thru", 4) == 4 && read(r, b, 5) == 4,
	   "carries bytes");
	OK(bind(s, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(s, 1) == 0 &&
		   connect(c, (struct sockaddr *)&a, sizeof(a)) == 0,
	   "a socket is bound and connected to");
	OK(mknod("dev", S_IFCHR | 0600, 0x103) < 0 || geteuid() == 0, "no device node");
	close(r);
	close(w);
	close(s);
	close(c);
}

/* ---- attributes ----------------------------------------------------------------------
 */

static void attributes(void)
{
	struct timespec t[2] = {
		{1000000001, 123456789},
                {-5,         987654321}
        };
	struct statvfs v;
	struct stat st;
	char b[100];

	put("f", "x", 0);
	OK(utimensat(AT_FDCWD, "f", t, 0) == 0 && stat("f", &st) == 0 &&
		   st.st_mtim.tv_sec == -5 && st.st_mtim.tv_nsec == 987654321 &&
		   st.st_atim.tv_nsec == 123456789,
	   "times to the nanosecond, before 1970 too");
	OK(chmod("f", 0741) == 0 && stat("f", &st) == 0 && (st.st_mode & 07777) == 0741,
	   "a mode");
	OK(chown("f", geteuid(), getegid()) == 0, "the owner it has may be set");
	OK(mkdir("d", 0700) == 0 && chmod("d", 01777) == 0 && stat("d", &st) == 0 &&
		   (st.st_mode & 07777) == 01777,
	   "a sticky directory");
	OK(chmod("d", 0) == 0 && chmod("d", 0755) == 0, "a mode of 0 can be undone");
	umask(027);
	mkdir("m", 0777);
	OK(stat("m", &st) == 0 && (st.st_mode & 0777) == 0750, "the umask counts");
	umask(022);
	OK(statvfs(".", &v) == 0 && v.f_bsize && v.f_namemax == 255, "statvfs");
	if (setxattr("f", "user.x", "value", 5, 0) < 0 && errno == EOPNOTSUPP) {
		SKIP("no user attributes here");
		return;
	}
	OK(getxattr("f", "user.x", b, sizeof(b)) == 5 && memcmp(b, "value", 5) == 0,
	   "an extended attribute");
	OK(getxattr("f", "user.x", NULL, 0) == 5 && getxattr("f", "user.x", b, 2) < 0 &&
		   errno == ERANGE,
	   "its size is asked for");
	OK(listxattr("f", b, sizeof(b)) >= 7 && setxattr("d", "user.d", "", 0, 0) == 0,
	   "they are listed, and a directory has some");
	OK(setxattr("f", "user.x", "v", 1, XATTR_CREATE) < 0 && errno == EEXIST,
	   "XATTR_CREATE");
	OK(removexattr("f", "user.x") == 0 && getxattr("f", "user.x", b, 9) < 0 &&
		   errno == ENODATA,
	   "and removed");
}

/* ---- several processes ---------------------------------------------------------------
 */

static int try_lock(void *arg)
{
	struct flock l = {.l_type = F_WRLCK, .l_start = 10, .l_len = 10};
	int fd = open("lock", O_RDWR);

	(void)arg;
	return fcntl(fd, F_SETLK, &l) < 0 && (errno == EAGAIN || errno == EACCES);
}

static int try_flock(void *arg)
{
	(void)arg;
	return flock(open("lock", O_RDWR), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static void locks(void)
{
	struct flock l = {.l_type = F_WRLCK, .l_start = 15, .l_len = 1};
	int fd;

	put("lock", "0123456789", 0);
	fd = open("lock", O_RDWR);
	OK(fcntl(fd, F_SETLK, &l) == 0 && in_child(try_lock, NULL) == 1,
	   "a record lock holds another process off");
	l.l_type = F_UNLCK;
	OK(fcntl(fd, F_SETLK, &l) == 0 && in_child(try_lock, NULL) == 0,
	   "until it is let go");
	OK(flock(fd, LOCK_EX) == 0 && in_child(try_flock, NULL) == 1, "flock too");
	close(fd);
	OK(in_child(try_flock, NULL) == 0, "and goes with the descriptor");
}

#define APPENDERS 4
#define LINES 200

static int append_lines(void *arg)
{
	int fd = open("log", O_WRONLY | O_APPEND);
	char line[16];

	for (int i = 0; i < LINES; i++) {
		int n = snprintf(line, sizeof(line), "%c%05d\n", 'a' + *(int *)arg, i);

		if (write(fd, line, (size_t)n) != n)
			return 1;
	}
	return 0;
}

static void appenders(void)
{
	int count[APPENDERS] = {0}, status;
	bool good = true;
	char line[8] = "";
	FILE *f;

	put("log", "", 0);
	for (int i = 0; i < APPENDERS; i++)
		if (fork() == 0)
			_exit(append_lines(&i));
	while (wait(&status) > 0)
		good = good && status == 0;
	f = fopen("log", "r");
	for (char b[16]; fgets(b, sizeof(b), f);) {
		memcpy(line, b, 7);
		good = good && strlen(b) == 7 && b[0] >= 'a' && b[0] < 'a' + APPENDERS &&
		       count[b[0] - 'a'] == (b[1] - '0') * 10000 + (b[2] - '0') * 1000 +
						    (b[3] - '0') * 100 +
						    (b[4] - '0') * 10 + b[5] - '0';
		if (good)
			count[b[0] - 'a']++;
	}
	fclose(f);
	for (int i = 0; i < APPENDERS; i++)
		good = good && count[i] == LINES;
	OK(good, "%d processes append %d lines each, whole and in order (last: %.6s)",
	   APPENDERS, LINES, line);
}

#define RACE_TURNS 2000

/* One process exchanges two files by name; who opens a name reads one of them whole. */
static void races(void)
{
	int bad = 0, status;
	pid_t pid;

	put("r1", "first.", 0);
	put("r2", "second", 0);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < RACE_TURNS; i++)
			if (i % 2 ? rename2("r1", "r2", RENAME_EXCHANGE)
				  : rename("r1", "r3") || rename("r3", "r1"))
				_exit(1);
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int fd = open("r2", O_RDONLY);
		char b[10];
		ssize_t n = fd < 0 ? -1 : read(fd, b, sizeof(b));

		/* r2 is always there, but may lose its identity while it is looked at */
		if (n != 6 || (memcmp(b, "first.", 6) && memcmp(b, "second", 6)))
			bad += errno != ESTALE;
		if (fd >= 0)
			close(fd);
	}
	OK(status == 0 && bad == 0, "%d renames, every reader saw a whole file (%d bad)",
	   RACE_TURNS, bad);
}

/* ---- many ----------------------------------------------------------------------------
 */

#define MANY 5000

static int mark_entries(DIR *d, char *seen)
{
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d))) {
		unsigned i;

		if (sscanf(e->d_name, "f%u", &i) == 1 && i < MANY) {
			n += !seen[i];
			seen[i]++;
		}
	}
	return n;
}

static void many(void)
{
	static char seen[MANY];
	char name[20];
	bool good = true;
	long at = 0;
	DIR *d;

	mkdir("many", 0755);
	if (chdir("many") < 0)
		return;
	for (int i = 0; good && i < MANY; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		good = put(name, name, O_EXCL);
	}
	OK(good, "%d files are made", MANY);
	d = opendir(".");
	OK(mark_entries(d, seen) == MANY, "and all are listed");
	for (int i = 0; i < MANY; i++)
		good = good && seen[i] == 1;
	OK(good, "each once");
	rewinddir(d);
	for (int i = 0; i < 1000; i++)
		readdir(d);
	at = telldir(d);
	memset(seen, 0, sizeof(seen));
	good = mark_entries(d, seen) > 0;
	for (int i = 0; i < 2000; i++) { /* behind and before where we go back to */
		snprintf(name, sizeof(name), "f%d", i * 2);
		good = unlink(name) == 0 && good;
	}
	seekdir(d, at);
	mark_entries(d, seen);
	for (int i = 1; i < MANY; i += 2)
		good = good && (seen[i] == 0 || seen[i] == 2);
	OK(good, "a place in the listing is found again after 2000 unlinks");
	closedir(d);
	d = opendir(".");
	memset(seen, 0, sizeof(seen));
	OK(mark_entries(d, seen) == MANY - 2000, "the rest is listed");
	rewinddir(d);
	good = true;
	for (struct dirent *e; (e = readdir(d));) /* remove while reading */
		if (e->d_name[0] == 'f')
			good = unlink(e->d_name) == 0 && good;
	closedir(d);
	OK(good && chdir("..") == 0 && rmdir("many") == 0, "removed while it is read");
}

static void deep(void)
{
	int top = open(".", O_RDONLY | O_DIRECTORY), depth = 0;
	struct stat a, b;

	while (depth < 400 && mkdir("deeper", 0755) == 0 && chdir("deeper") == 0)
		depth++;
	OK(depth == 400 && put("bottom", "deep", 0) && has("bottom", "deep"),
	   "400 directories deep");
	OK(stat("../../deeper/bottom", &a) < 0 || stat("bottom", &b) == 0, "up and down");
	while (depth-- > 0) {
		unlink("bottom");
		if (chdir("..") < 0 || rmdir("deeper") < 0)
			break;
	}
	OK(depth == -1 && fstat(top, &a) == 0 && stat(".", &b) == 0 &&
		   a.st_ino == b.st_ino,
	   "and all the way back");
	close(top);
}

#define OPEN_MANY 600

static void many_open(void)
{
	int fd[OPEN_MANY];
	bool good = true;
	char b[20], name[20];

	for (int i = 0; i < OPEN_MANY; i++) {
		snprintf(name, sizeof(name), "open%d", i);
		fd[i] = open(name, O_RDWR | O_CREAT, 0600);
		good = good && fd[i] >= 0 && write(fd[i], name, strlen(name)) > 0 &&
		       unlink(name) == 0;
	}
	OK(good, "%d files are open and unlinked", OPEN_MANY);
	for (int i = 0; i < OPEN_MANY; i++) {
		snprintf(name, sizeof(name), "open%d", i);
		good = good && pread(fd[i], b, sizeof(b), 0) == (ssize_t)strlen(name) &&
		       memcmp(b, name, strlen(name)) == 0;
		close(fd[i]);
	}
	OK(good, "each with its own content");
}

static void synced(void)
{
	int fd = open("sync", O_WRONLY | O_CREAT | O_SYNC, 0644);
	int dir = open(".", O_RDONLY | O_DIRECTORY);

	OK(write(fd, "x", 1) == 1 && fsync(fd) == 0 && fdatasync(fd) == 0,
	   "O_SYNC, fsync");
	OK(fsync(dir) == 0, "fsync of a directory");
	close(fd);
	close(dir);
}

/* ---- all -----------------------------------------------------------------------------
 */

static void in_own_dir(const char *name, void (*fn)(void))
{
	printf("# %s\n", name);
	if (mkdir(name, 0755) < 0 || chdir(name) < 0) {
		OK(false, "%s: a directory: %s", name, strerror(errno));
		return;
	}
	fn();
	fflush(stdout);
	if (chdir("..") < 0)
		exit(1);
}

static bool wanted(int argc, char **argv, const char *name)
{
	bool any = argc < 2;

	for (int i = 1; i < argc; i++)
		any = any || strcmp(argv[i], name) == 0;
	return any;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} all[] = {
		{"content",    content   },
		{"large",      large     },
		{"allocated",  allocated },
		{"copied",     copied    },
		{"mapped",     mapped    },
		{"names",      names     },
		{"renames",    renames   },
		{"unlinked",   unlinked  },
		{"temporary",  temporary },
		{"special",    special   },
		{"attributes", attributes},
		{"locks",      locks     },
		{"appenders",  appenders },
		{"races",      races     },
		{"many",       many      },
		{"deep",       deep      },
		{"many_open",  many_open },
		{"synced",     synced    },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	umask(022);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (wanted(argc, argv, all[i].name))
			in_own_dir(all[i].name, all[i].fn);
	return tap_done();
}
