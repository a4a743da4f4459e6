/* SPDX-License-Identifier: Apache-2.0 */
/* What the file server says without being asked: that nothing of it is lost, what is for
 * watchers inside, and what the host may do to the table of nodes meanwhile. */
#include "base/fusemsg.h"
#include "base/io.h"
#include "base/util.h"
#include "fs_message.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANY 3000

static char dir[64];
static int top = -1;

static void put(const char *name, const char *text)
{
	int fd = openat(top, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

static struct fs *serve(uint32_t watches)
{
	struct fs_options o = {
		.nodes = 2 * MANY, .descs = 64, .watches = watches, .root = top};
	struct fs *fs = NULL;

	if (fs_new(&fs, &o) < 0)
		abort();
	greet(fs);
	return fs;
}

static void forget(struct fs *fs, uint64_t node)
{
	struct fuse_forget_in in = {.nlookup = 1};

	begin(FUSE_FORGET, node);
	add(&in, sizeof(in));
	send_to(fs);
}

/* One notice, whose delivery is acknowledged at once. 0: there is none. */
struct told {
	struct fuse_out_header head;
	uint8_t body[FS_NOTICE_MAX];
};

static size_t next(struct fs *fs, struct told *t)
{
	uint8_t bytes[FS_NOTICE_MAX];
	size_t n = fs_notice(fs, bytes);

	memset(t, 0, sizeof(*t));
	if (!n)
		return 0;
	memcpy(&t->head, bytes, sizeof(t->head));
	memcpy(t->body, bytes + sizeof(t->head), n - sizeof(t->head));
	begin(FUSEMSG_TOLD, 0);
	send_to(fs);
	return n;
}

static void look_at_host(struct fs *fs)
{
	usleep(2000);
	while (fs_host_changes(fs))
		;
}

/* What watchers inside would hear: "came x, gone y". */
static const char *heard(struct fs *fs)
{
	static const char *const what[] = {"?", "came", "gone", "data", "attr"};
	static char all[1000];
	struct fusemsg_heard h;
	struct told t;
	size_t n = 0;

	look_at_host(fs);
	all[0] = '\0';
	while (next(fs, &t)) {
		if (t.head.error != FUSEMSG_HEARD)
			continue;
		memcpy(&h, t.body, sizeof(h));
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s %s", n ? ", " : "",
				      what[h.what < ARRAY_LEN(what) ? h.what : 0],
				      h.name);
	}
	return all;
}

static bool hears(struct fs *fs, const char *want)
{
	const char *got = heard(fs);

	if (strcmp(got, want) == 0)
		return true;
	printf("# heard: %s\n", got);
	return false;
}

static void watchers(void)
{
	struct fs *fs = serve(10);
	struct fuse_rename_in to_root = {.newdir = 1};
	struct fuse_mkdir_in mkdir_in = {.mode = 0755};
	uint64_t n;
	int e;

	put("old", "text");
	look_up(fs, 1, "nothing", &e); /* now the directory is watched */
	hears(fs, "");
	put("old", "other");
	OK(hears(fs, "data old"), "a file changes that the guest never looked at");
	put("new", "");
	OK(strncmp(heard(fs), "came new", 8) == 0, "one appears");
	unlinkat(top, "old", 0);
	OK(hears(fs, "gone old"), "one goes");
	n = look_up(fs, 1, "new", &e);
	OK(n && hears(fs, ""), "looking is no event");
	if (fchmodat(top, "new", 0600, 0) < 0)
		abort();
	OK(hears(fs, "attr new"), "a mode changes");
	renameat(top, "new", top, "newer");
	OK(hears(fs, "gone new, came newer"), "a name changes");
	put("other", "x");
	hears(fs, "");
	look_up(fs, 1, "newer", &e);
	renameat(top, "other", top, "newer");
	OK(hears(fs, "gone other, gone newer, came newer"), "a file is replaced");
	look_up(fs, 1, "newer", &e);
	begin(FUSE_RENAME, 1);
	add(&to_root, sizeof(to_root));
	add_name("newer");
	add_name("mine");
	OK(send_to(fs) == 0 && hears(fs, ""), "the guest renames: no news");
	begin(FUSE_UNLINK, 1);
	add_name("mine");
	OK(send_to(fs) == 0 && hears(fs, ""), "it removes: no news");
	begin(FUSE_MKDIR, 1);
	add(&mkdir_in, sizeof(mkdir_in));
	add_name("dir");
	OK(send_to(fs) == 0 && hears(fs, ""), "it makes a directory: no news");
	unlinkat(top, "dir", AT_REMOVEDIR);
	OK(hears(fs, "gone dir"), "which the host removes");
	fs_free(fs);
}

/* Which of the files was the guest told to look at again? */
static size_t count_told(struct fs *fs, const uint64_t *node, bool *shrunk)
{
	static bool seen[MANY];
	struct fuse_notify_inval_inode_out body;
	struct told t;
	size_t n = 0;

	memset(seen, 0, sizeof(seen));
	do {
		while (next(fs, &t)) {
			*shrunk = *shrunk || t.head.error == FUSEMSG_SHRINK;
			memcpy(&body, t.body, sizeof(body));
			for (size_t i = 0;
			     t.head.error == FUSE_NOTIFY_INVAL_INODE && i < MANY; i++) {
				n += node[i] == body.ino && !seen[i];
				seen[i] = seen[i] || node[i] == body.ino;
			}
		}
	} while (fs_host_changes(fs) || fs_changes_wait(fs));
	return n;
}

/* Appended to: a file system may sync what is truncated and written again. */
static void all_changed(const char *text)
{
	char name[20];

	for (int i = 0; i < MANY; i++) {
		int fd;

		snprintf(name, sizeof(name), "m%d", i);
		fd = openat(top, name, O_WRONLY | O_CREAT | O_APPEND, 0644);
		if (fd < 0 || write(fd, text, strlen(text)) < 0)
			abort();
		close(fd);
	}
}

/* So many events the kernel queues. */
static long queued_events(void)
{
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "r");
	long n = -1;

	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static void nothing_is_lost(void)
{
	static uint64_t node[MANY];
	struct fs *fs = serve(10);
	bool shrunk = false;
	char name[20];
	size_t n;
	int e;

	all_changed("");
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		node[i] = look_up(fs, 1, name, &e);
	}
	look_at_host(fs);
	n = count_told(fs, node, &shrunk);
	all_changed("longer");
	look_at_host(fs); /* until the ring is half full */
	n = count_told(fs, node, &shrunk);
	OK(n == MANY && !shrunk, "%zu changes, more than fit, are told", n);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		look_up(fs, 1, name, &e);
	}
	for (long i = queued_events(); i >= 0; i -= MANY) /* two events a file */
		all_changed("more");
	look_at_host(fs);
	n = count_told(fs, node, &shrunk);
	OK(n == MANY, "%zu changes are found after the kernel has lost some", n);
	OK(shrunk, "and the guest forgets which names are not there");
	fs_free(fs);
}

/* A directory that the guest has forgotten lives for the file in it alone, and that file
 * takes its name. */
static void file_takes_the_name_of_its_directory(void)
{
	struct fs *fs = serve(0);
	uint64_t d, n, again;
	int e;

	mkdirat(top, "d", 0755);
	put("d/n", "text");
	d = look_up(fs, 1, "d", &e);
	n = look_up(fs, d, "n", &e);
	forget(fs, d);
	renameat(top, "d/n", top, "tmp");
	unlinkat(top, "d", AT_REMOVEDIR);
	renameat(top, "tmp", top, "d");
	again = look_up(fs, 1, "d", &e);
	OK(n && again == n, "a file that takes the name of its directory is the same");
	begin(FUSE_GETATTR, d);
	OK(send_to(fs) == -ESTALE, "and the directory is gone");
	fs_free(fs);
	unlinkat(top, "d", 0);
}

static int create(struct fs *fs, const char *name)
{
	struct fuse_create_in in = {.mode = S_IFREG | 0644, .flags = O_RDWR | O_CREAT};

	begin(FUSE_CREATE, 1);
	add(&in, sizeof(in));
	add_name(name);
	return send_to(fs);
}

/* Half of all descriptors belong to files that are open inside and removed. */
static void rename_without_descriptors(void)
{
	struct fs *fs = serve(0);
	struct fuse_rename_in to;
	char name[20];
	int e;

	mkdirat(top, "from", 0755);
	mkdirat(top, "to", 0755);
	put("from/file", "x");
	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		create(fs, name);
		begin(FUSE_UNLINK, 1);
		add_name(name);
		send_to(fs);
	}
	to.newdir = look_up(fs, 1, "to", &e);
	begin(FUSE_RENAME, look_up(fs, 1, "from", &e));
	request_.data[4] = FUSE_RENAME;
	add(&to, sizeof(to));
	add_name("file");
	add_name("moved");
	OK(send_to(fs) == 0 && faccessat(top, "to/moved", F_OK, 0) == 0,
	   "a rename with as many removed files open as can be");
	fs_free(fs);
}

int main(void)
{
	snprintf(dir, sizeof(dir), "/tmp/fs-notice.XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	top = open(dir, O_RDONLY | O_DIRECTORY);
	watchers();
	if (queued_events() < 0 || queued_events() > 100000)
		SKIP("the kernel queues too many events here to lose some");
	else
		nothing_is_lost();
	file_takes_the_name_of_its_directory();
	rename_without_descriptors();
	close(top);
	remove_tree_at(AT_FDCWD, dir);
	return tap_done();
}
