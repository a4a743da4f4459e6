/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of trees, and what a manifest lets them share. */
#include "os/copytree.h"
#include "base/io.h"
#include "base/util.h"
#include "os/treewalk.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <time.h>

static int top = -1, from = -1;

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = openat(from, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write_all(fd, text, strlen(text)) < 0 || fchmod(fd, mode) < 0)
		printf("# cannot write %s\n", path);
	close(fd);
}

static bool holds(int dir, const char *path, const char *text)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	return read_file_at(dir, path, &b) == 0 && b.len == strlen(text) &&
	       (b.len == 0 || memcmp(b.data, text, b.len) == 0);
}

static struct stat look(int dir, const char *path)
{
	struct stat st = {0};

	fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW);
	return st;
}

static void make_tree(void)
{
	struct timespec old[2] = {
		{1000000000, 5},
                {1000000001, 7}
        };
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd;

	mkdirat(top, "from", 0755);
	from = openat(top, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdirat(from, "d", 0755);
	put("d/f", "content", 0640);
	put("empty", "", 0444);
	put("exec", "#!", 0755);
	if (linkat(from, "d/f", from, "d/twin", 0) < 0 ||
	    symlinkat("/etc/passwd", from, "link") < 0 ||
	    symlinkat("nowhere", from, "dangling") < 0)
		printf("# no links\n");
	mknodat(from, "white", S_IFCHR, makedev(0, 0));
	mkfifoat(from, "fifo", 0600);
	fd = openat(from, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (ftruncate(fd, 64 << 20) < 0 || pwrite(fd, "end", 3, (64 << 20) - 3) != 3)
		printf("# no hole\n");
	close(fd);
	mkdirat(from, "closed", 0755);
	put("closed/in", "in", 0400);
	setxattr("from/d", "user.overlay.opaque", "y", 1, 0);
	setxattr("from/d/f", "user.note", "n", 1, 0);
	utimensat(from, "d/f", old, 0);
	utimensat(from, "link", old, AT_SYMLINK_NOFOLLOW);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(a.sun_path, sizeof(a.sun_path), "from/sock");
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		printf("# no socket\n");
	close(fd);
	mkdirat(from, "secret", 0755);
	put("secret/f", "hidden", 0);
	if (symlinkat("far", from, "secret/l") < 0 || mkdirat(from, "secret/d", 0) < 0)
		printf("# secret\n");
	setxattr("from/secret/d", "user.overlay.opaque", "y", 1, 0);
	if (fchmodat(from, "secret", 0, 0) < 0 || fchmodat(from, "closed", 0500, 0) < 0)
		printf("# not closed\n");
	utimensat(from, "d", old, 0);
}

static void test_copy(void)
{
	struct copytree c = {.label = "t"};
	struct cove_error err = {0};
	char buf[8] = "";
	int r = copytree(&c, from, top, "to", &err), to;
	struct stat a, b;

	OK(r == 0, "a tree is copied: %s", err.msg);
	to = openat(top, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(holds(to, "d/f", "content") && holds(to, "empty", "") &&
		   holds(to, "closed/in", "in"),
	   "contents");
	a = look(from, "d/f");
	b = look(to, "d/f");
	OK(b.st_mode == a.st_mode && b.st_mtim.tv_sec == 1000000001 &&
		   b.st_mtim.tv_nsec == 7,
	   "mode and time");
	OK(look(to, "closed").st_mode == (S_IFDIR | 0500) &&
		   look(to, "closed/in").st_mode == (S_IFREG | 0400),
	   "modes that lock the copier out");
	OK(look(to, "d").st_mtim.tv_sec == 1000000001, "time of a directory");
	OK(look(to, "d/twin").st_ino == b.st_ino && b.st_nlink == 2, "hard links");
	OK(b.st_ino != a.st_ino, "a copy, not a link");
	OK(readlinkat(to, "dangling", buf, sizeof(buf)) == 7 &&
		   memcmp(buf, "nowhere", 7) == 0,
	   "symlinks as they are");
	OK(look(to, "link").st_mtim.tv_nsec == 7, "time of a symlink");
	a = look(to, "white");
	OK(S_ISCHR(a.st_mode) && a.st_rdev == 0, "a whiteout");
	OK(S_ISFIFO(look(to, "fifo").st_mode) && S_ISSOCK(look(to, "sock").st_mode),
	   "fifo and socket");
	a = look(to, "hole");
	OK(a.st_size == 64 << 20 && a.st_blocks < 2048, "holes stay holes");
	OK(getxattr("to/d", "user.overlay.opaque", buf, 8) == 1 &&
		   getxattr("to/d/f", "user.note", buf, 8) == 1,
	   "attributes");
	OK(look(to, "secret").st_mode == S_IFDIR &&
		   (geteuid() != 0 || look(to, "secret/f").st_size == 6),
	   "what is closed even to its owner");
	OK(c.files == 17, "counts paths: %llu", (unsigned long long)c.files);
	close(to);
	r = copytree(&c, from, top, "to", &err);
	OK(r == COVE_EIO && err.sys == EEXIST, "never over something else");
}

/* Two snapshots of a tree of which one file changes. */
static void test_share(void)
{
	struct manifest first, again;
	cleanup_buf struct buf text = BUF_INIT(1 << 20);
	struct copytree a = {.label = "s1", .note = &first, .note_before_ns = INT64_MAX};
	struct copytree b = {.label = "s2", .known_dir = top};
	struct cove_error err = {0};
	int r;

	manifest_init(&first);
	manifest_init(&again);
	OK(copytree(&a, from, top, "s1", &err) == 0, "first copy: %s", err.msg);
	r = manifest_print(&first, &text);
	if (r == 0)
		r = manifest_parse(&again, text.data, text.len);
	OK(r == 0 && again.n == first.n && first.n == 7, "the manifest can be read back");
	put("exec", "#! other", 0755);
	b.known = &again;
	OK(copytree(&b, from, top, "s2", &err) == 0, "second copy: %s", err.msg);
	OK(look(top, "s1/d/f").st_ino == look(top, "s2/d/f").st_ino,
	   "what did not change is shared");
	OK(look(top, "s1/exec").st_ino != look(top, "s2/exec").st_ino &&
		   holds(top, "s2/exec", "#! other") && holds(top, "s1/exec", "#!"),
	   "what changed is not");
	OK(look(top, "s2/d/f").st_nlink == 4 && b.linked >= 5, "and counted");
	/* a manifest that lies about where a file is */
	manifest_clear(&again);
	text.len = 0;
	manifest_print(&first, &text);
	for (size_t i = 0; i + 6 < text.len; i++)
		if (memcmp(text.data + i, "s1/d/f", 6) == 0)
			memcpy(text.data + i, "s1/exe", 6);
	manifest_parse(&again, text.data, text.len);
	b = (struct copytree){.label = "s3", .known = &again, .known_dir = top};
	OK(copytree(&b, from, top, "s3", &err) == 0 && holds(top, "s3/d/f", "content"),
	   "a wrong manifest costs sharing only");
	OK(manifest_parse(&again, "cove-manifest 1\n1 2 3 4 5 ../x", 32) == -EBADMSG &&
		   manifest_parse(&again, "no", 2) == -EBADMSG && again.n == 0,
	   "a damaged one is refused");
	manifest_clear(&first);
	manifest_clear(&again);
}

static void test_deep(void)
{
	enum { DEPTH = 1500 };
	struct copytree c = {.label = "deep"};
	struct cove_error err = {0};
	int dir, r, levels = 0;

	mkdirat(top, "deep", 0755);
	dir = openat(top, "deep", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < DEPTH && dir >= 0; i++) {
		int next;

		mkdirat(dir, "a-name-of-some-length", 0755);
		next = openat(dir, "a-name-of-some-length",
			      O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	close(dir);
	dir = openat(top, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = copytree(&c, dir, top, "deeper", &err);
	close(dir);
	OK(r == 0 && c.files == DEPTH, "%d levels, deeper than a path can say: %s", DEPTH,
	   err.msg);
	dir = openat(top, "deeper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	while (dir >= 0) {
		int next = openat(dir, "a-name-of-some-length",
				  O_PATH | O_DIRECTORY | O_CLOEXEC);

		close(dir);
		dir = next;
		levels += next >= 0;
	}
	OK(levels == DEPTH, "all of them are there");
	OK(remove_tree_at(top, "deep") == 0 && remove_tree_at(top, "deeper") == 0,
	   "and can be removed");
}

static int stop_now(void *arg)
{
	(void)arg;
	return COVE_ESTATE;
}

static void test_refusals(void)
{
	struct copytree c = {.label = "t", .tick = stop_now, .since_tick = 63};
	struct cove_error err = {0};
	int r = copytree(&c, from, top, "stopped", &err);

	OK(r < 0 && err.sys == ECANCELED, "a tick can end it");
	if (geteuid() != 0 || mknodat(from, "dev", S_IFCHR | 0600, makedev(1, 3)) < 0) {
		SKIP("no device can be made here");
		return;
	}
	c = (struct copytree){.label = "t"};
	r = copytree(&c, from, top, "device", &err);
	OK(r < 0 && strstr(err.msg, "t/dev"), "a device is refused by name: %s", err.msg);
	unlinkat(from, "dev", 0);
}

int main(void)
{
	char dir[] = "/var/tmp/cove-copytree.XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 1;
	top = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_tree();
	test_copy();
	test_share();
	test_deep();
	test_refusals();
	close(from);
	if (chdir("/") == 0)
		remove_tree_at(AT_FDCWD, dir);
	close(top);
	return tap_done();
}
