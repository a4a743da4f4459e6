/* SPDX-License-Identifier: Apache-2.0 */
/* The file server against a guest that lies: names, numbers, sizes, orders, floods. */
#include "base/fusemsg.h"
#include "base/io.h"
#include "fs_message.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void put(const char *name, const char *text)
{
	int d = open(dir, O_RDONLY | O_DIRECTORY);
	int fd = openat(d, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
	close(d);
}

static struct fs *serve(const char *path, uint32_t nodes)
{
	struct fs_options o = {.nodes = nodes, .descs = 64, .watches = 100};
	struct fs *fs = NULL;

	o.root = open(path, O_PATH | O_DIRECTORY);
	if (fs_new(&fs, &o) < 0)
		abort();
	close(o.root);
	return fs;
}

static void greeting(void)
{
	struct fuse_init_in in = {.major = 7, .minor = 30, .flags = FLAGS_OF_LINUX};
	struct fuse_init_out out;
	struct fs *fs = serve(dir, 5000);
	uint64_t n;
	int e;

	begin(FUSE_GETATTR, 1);
	OK(send_to(fs) == -EIO, "nothing before the greeting");
	begin(FUSE_INIT, 0);
	add(&in, sizeof(in));
	OK(send_to(fs) == -EPROTO, "an old kernel is refused");
	in.minor = 37;
	in.flags = 0;
	begin(FUSE_INIT, 0);
	add(&in, sizeof(in));
	OK(send_to(fs) == -EPROTO, "one that must open files is refused");
	in.major = 8;
	begin(FUSE_INIT, 0);
	add(&in, sizeof(in));
	OK(send_to(fs) == 0, "a newer protocol is told which one we speak");
	begin(FUSE_GETATTR, 1);
	OK(send_to(fs) == -EIO, "and has to greet again");
	OK(greet(fs) == 0, "the greeting of Linux is answered");
	memcpy(&out, body(), sizeof(out));
	OK(out.major == 7 && out.max_write == 1 << 20 && out.max_pages == 256,
	   "with requests of 1 MiB");
	OK((out.flags & ~(uint32_t)FLAGS_OF_LINUX) == 0,
	   "and no flag that it did not offer");
	n = look_up(fs, 1, "file", &e);
	OK(n != 0, "a file is found");
	OK(greet(fs) == 0, "a second greeting");
	begin(FUSE_GETATTR, n);
	OK(send_to(fs) == -ESTALE, "begins anew: old numbers are nothing");
	fs_free(fs);
}

static void names(struct fs *fs)
{
	char long_name[300];
	uint64_t link, sub;
	int e;

	OK(!look_up(fs, 1, "..", &e) && e == -EINVAL, "no ..");
	OK(!look_up(fs, 1, ".", &e) && e == -EINVAL, "no .");
	OK(!look_up(fs, 1, "", &e) && e == -EINVAL, "no empty name");
	OK(!look_up(fs, 1, "sub/inner", &e) && e == -EINVAL, "no path");
	OK(!look_up(fs, 1, "/etc", &e) && e == -EINVAL, "no absolute path");
	memset(long_name, 'x', sizeof(long_name));
	long_name[256] = '\0';
	OK(!look_up(fs, 1, long_name, &e) && e == -ENAMETOOLONG, "no name of 256 bytes");
	begin(FUSE_LOOKUP, 1);
	add("file", 4); /* without its end */
	OK(send_to(fs) == -EINVAL, "no name without an end");
	begin(FUSE_LOOKUP, 1);
	OK(send_to(fs) == -EINVAL, "no request without a name");
	link = look_up(fs, 1, "link", &e);
	OK(link != 0, "a symlink is found");
	OK(!look_up(fs, link, "passwd", &e) && e == -ENOTDIR, "and never followed");
	sub = look_up(fs, 1, "sub", &e);
	begin(FUSE_SYMLINK, sub);
	add_name("../up");
	add_name("target");
	OK(send_to(fs) == -EINVAL, "nothing is made outside of a directory");
	begin(FUSE_RENAME, 1);
	add(&sub, sizeof(sub));
	add_name("file");
	add_name("../file");
	OK(send_to(fs) == -EINVAL, "or renamed out of it");
	begin(FUSE_RENAME, 1);
	add(&sub, sizeof(sub));
	add_name("file");
	OK(send_to(fs) == -EINVAL, "a rename needs two names");
}

static void numbers(struct fs *fs)
{
	struct fuse_forget_in forget = {.nlookup = 1};
	uint64_t forged[] = {0, 2, 0xffffffff, UINT64_MAX, 1ull << 32, 0};
	uint64_t n, again;
	int e, bad = 0;

	n = look_up(fs, 1, "file", &e);
	forged[5] = n + (1ull << 32); /* the generation after it */
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		begin(FUSE_GETATTR, forged[i]);
		bad += send_to(fs) != -ESTALE;
	}
	OK(bad == 0, "forged numbers name nothing");
	begin(FUSE_FORGET, n);
	add(&forget, sizeof(forget));
	OK(send_to(fs) == 1, "forgetting has no answer");
	begin(FUSE_GETATTR, n);
	OK(send_to(fs) == -ESTALE, "what was forgotten names nothing");
	again = look_up(fs, 1, "file", &e);
	OK(again && again != n, "and its number does not come back");
	forget.nlookup = UINT64_MAX;
	begin(FUSE_FORGET, again);
	add(&forget, sizeof(forget));
	OK(send_to(fs) == 1 && look_up(fs, 1, "file", &e),
	   "forgetting more than was known");
	begin(FUSE_FORGET, 1);
	add(&forget, sizeof(forget));
	send_to(fs);
	begin(FUSE_GETATTR, 1);
	OK(send_to(fs) == 0, "the root cannot be forgotten");
}

static void forgotten_directory(struct fs *fs)
{
	struct fuse_batch_forget_in head = {.count = 1000000};
	struct fuse_forget_one one[2];
	uint64_t sub, inner;
	int e;

	sub = look_up(fs, 1, "sub", &e);
	inner = look_up(fs, sub, "inner", &e);
	one[0] = (struct fuse_forget_one){sub, 99};
	one[1] = (struct fuse_forget_one){12345, 1};
	begin(FUSE_BATCH_FORGET, 0);
	add(&head, sizeof(head));
	add(one, sizeof(one));
	OK(send_to(fs) == 1, "a count that lies about what follows");
	begin(FUSE_GETATTR, inner);
	OK(send_to(fs) == 0, "a file outlives its forgotten directory");
	begin(FUSE_UNLINK, sub);
	add_name("inner2");
	OK(send_to(fs) == -ENOENT || send_to(fs) == -ESTALE, "which can still be asked");
}

static void sizes(struct fs *fs)
{
	struct fuse_write_in w = {.size = 1000};
	struct fuse_read_in r = {.size = UINT32_MAX};
	struct fuse_setxattr_in x = {.size = 4000};
	uint64_t n;
	int e, bad;

	n = look_up(fs, 1, "file", &e);
	begin(FUSE_WRITE, n);
	add(&w, sizeof(w));
	add("short", 5);
	OK(send_to(fs) == -EINVAL, "a write of more than was sent");
	w = (struct fuse_write_in){.size = 5, .offset = UINT64_MAX - 2};
	begin(FUSE_WRITE, n);
	add(&w, sizeof(w));
	add("short", 5);
	OK(send_to(fs) == -EINVAL, "a write before the beginning of all");
	begin(FUSE_READ, n);
	add(&r, sizeof(r));
	OK(send_to(fs) == 0 && body_length() == 7, "a read of 4 GiB gets what there is");
	r.offset = UINT64_MAX;
	begin(FUSE_READ, n);
	add(&r, sizeof(r));
	OK(send_to(fs) == -EINVAL, "a read from nowhere");
	r.offset = 0;
	begin(FUSE_READDIRPLUS, 1);
	add(&r, sizeof(r));
	OK(send_to(fs) == 0 && body_length() <= FS_WRITE_MAX, "a listing of 4 GiB");
	r.offset = UINT64_MAX / 2;
	begin(FUSE_READDIR, 1);
	add(&r, sizeof(r));
	OK(send_to(fs) <= 0, "a listing from an invented place");
	begin(FUSE_SETXATTR, n);
	add(&x, FUSE_COMPAT_SETXATTR_IN_SIZE);
	add_name("user.x");
	add("short", 5);
	OK(send_to(fs) == -EINVAL, "an attribute longer than was sent");
	begin(FUSE_SETATTR, n);
	add(&x, sizeof(x));
	OK(send_to(fs) == -EINVAL, "half a request");
	begin(FUSE_READ, look_up(fs, 1, "fifo", &e));
	request_.data[4] = FUSE_READ;
	add(&r, sizeof(r));
	OK(send_to(fs) == -EINVAL, "a fifo is not opened, so nobody waits");
	bad = 0;
	for (uint32_t op = 0; op < 5000; op += op < 60 ? 1 : 97) {
		begin(op, n);
		bad += send_to(fs) > 1;
	}
	OK(bad == 0 && greet(fs) == 0,
	   "operations without a body, unknown ones, DESTROY");
}

static void lengths(struct fs *fs)
{
	uint32_t len;

	begin(FUSE_GETATTR, 1);
	len = 39;
	memcpy(request_.data, &len, 4);
	OK(fs_request(fs, request_.data, request_.n, reply_) == -EPROTO,
	   "a message shorter than its header ends it");
	OK(fs_message_length(request_.data) == -EPROTO,
	   "its length is known to be wrong");
	len = UINT32_MAX;
	memcpy(request_.data, &len, 4);
	OK(fs_message_length(request_.data) == -EPROTO, "so is one of 4 GiB");
}

static int create(struct fs *fs, uint32_t opcode, uint32_t mode, const char *name)
{
	struct fuse_create_in c = {.mode = mode, .flags = O_RDWR | O_CREAT};
	struct fuse_mknod_in m = {.mode = mode, .rdev = 0x103};

	begin(opcode, 1);
	if (opcode == FUSE_MKNOD)
		add(&m, sizeof(m));
	else
		add(&c, sizeof(c));
	add_name(name);
	return send_to(fs);
}

static void modes(struct fs *fs)
{
	struct fuse_setattr_in s = {.valid = FATTR_MODE, .mode = 04755};
	uint64_t n;
	int e;

	OK(create(fs, FUSE_CREATE, S_IFREG | 04755, "suid") == -EPERM,
	   "no set-user-id file");
	OK(create(fs, FUSE_MKNOD, S_IFREG | 02755, "sgid") == -EPERM,
	   "no set-group-id file");
	OK(create(fs, FUSE_MKNOD, S_IFCHR | 0600, "chr") == -EPERM,
	   "no character device");
	OK(create(fs, FUSE_MKNOD, S_IFBLK | 0600, "blk") == -EPERM, "no block device");
	OK(create(fs, FUSE_MKNOD, S_IFDIR | 0700, "dir") == -EPERM,
	   "no directory by mknod");
	n = look_up(fs, 1, "file", &e);
	begin(FUSE_SETATTR, n);
	add(&s, sizeof(s));
	OK(send_to(fs) == -EPERM, "no set-user-id by chmod");
	s = (struct fuse_setattr_in){.valid = FATTR_UID, .uid = 12345};
	begin(FUSE_SETATTR, n);
	add(&s, sizeof(s));
	OK(send_to(fs) == -EPERM || geteuid() == 0, "no other owner");
}

/* What the host does between two requests. */
static void replaced(struct fs *fs)
{
	struct fuse_read_in r = {.size = 100};
	char path[100], other[100];
	uint64_t n;
	int e;

	put("swap", "before");
	n = look_up(fs, 1, "swap", &e);
	snprintf(path, sizeof(path), "%s/swap", dir);
	snprintf(other, sizeof(other), "%s/swap2", dir);
	put("swap2", "after");
	rename(other, path);
	begin(FUSE_READ, n);
	add(&r, sizeof(r));
	OK(send_to(fs) == -ESTALE, "a number never becomes another file");
	unlink(path);
	if (symlink("/etc/passwd", path) < 0)
		abort();
	begin(FUSE_READ, n);
	add(&r, sizeof(r));
	OK(send_to(fs) == -ESTALE, "nor what a symlink points to");
	unlink(path);
}

static void kernel_faces(void)
{
	struct fuse_read_in r = {.size = 4096};
	struct fs *fs = serve("/", 5000);
	uint64_t proc;
	int e;

	greet(fs);
	proc = look_up(fs, 1, "proc", &e);
	OK(proc != 0, "the directory of /proc is there");
	OK(!look_up(fs, proc, "self", &e) && e == -ENOENT, "but nothing in it");
	OK(!look_up(fs, proc, "1", &e) && e == -ENOENT, "of any process");
	begin(FUSE_READDIRPLUS, proc);
	add(&r, sizeof(r));
	OK(send_to(fs) == 0 && body_length() == 0, "it lists nothing");
	OK(create(fs, FUSE_MKNOD, S_IFREG | 0600, "proc/x") == -EINVAL,
	   "and takes nothing");
	fs_free(fs);
}

/* A guest that looks up everything and forgets nothing. */
static void flood(void)
{
	struct fuse_read_in r = {.size = FS_WRITE_MAX};
	struct fs *fs;
	char name[20], path[128];
	int found = 0, refused = 0, e;
	uint8_t notice[FS_NOTICE_MAX];
	size_t notices = 0;

	snprintf(path, sizeof(path), "%s/many", dir);
	mkdir(path, 0755);
	for (int i = 0; i < 1500; i++) {
		snprintf(name, sizeof(name), "many/m%d", i);
		put(name, "");
	}
	fs = serve(path, 1024);
	greet(fs);
	for (int i = 0; i < 1500; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		found += look_up(fs, 1, name, &e) != 0;
		refused += e == -ENFILE;
		notices += fs_notice(fs, notice) > 0;
	}
	OK(found > 900 && found < 1024 && found + refused == 1500,
	   "%d nodes, then ENFILE (%d times)", found, refused);
	OK(notices > 5 && notices < 30, "the guest was asked %zu times to forget",
	   notices);
	begin(FUSE_READDIRPLUS, 1);
	add(&r, sizeof(r));
	OK(send_to(fs) == 0 && body_length() > 1500 * 150, "listing goes on, by name");
	fs_free(fs);
}

static size_t next_notice(struct fs *fs, int *code, uint64_t *node)
{
	uint8_t notice[FS_NOTICE_MAX] = {0};
	struct fuse_out_header h;
	size_t n;

	usleep(2000);
	fs_host_changes(fs);
	do { /* watchers are another matter: fs_notice.c */
		n = fs_notice(fs, notice);
		memcpy(&h, notice, sizeof(h));
	} while (n && h.error == FUSEMSG_HEARD);
	if (n) {
		*code = h.error;
		memcpy(node, notice + sizeof(h), sizeof(*node));
	}
	return n;
}

static void host_changes(struct fs *fs)
{
	struct fuse_write_in w = {.size = 5};
	char path[128];
	uint64_t n, node;
	int e, code;

	while (next_notice(fs, &code, &node))
		;
	put("news", "old");
	n = look_up(fs, 1, "news", &e);
	while (next_notice(fs, &code, &node))
		;
	begin(FUSE_WRITE, n);
	add(&w, sizeof(w));
	add("guest", 5);
	e = send_to(fs);
	OK(e == 0 && !next_notice(fs, &code, &node),
	   "what the guest writes is no news to it (%d)", e);
	usleep(20000); /* beyond the tick of the clock of file times */
	put("news", "host's");
	OK(next_notice(fs, &code, &node) && code == FUSE_NOTIFY_INVAL_INODE && node == n,
	   "what the host writes is");
	OK(!next_notice(fs, &code, &node), "once");
	put("news", "host's second");
	OK(!next_notice(fs, &code, &node), "until the guest looks again");
	look_up(fs, 1, "news", &e);
	snprintf(path, sizeof(path), "%s/news", dir);
	unlink(path);
	OK(next_notice(fs, &code, &node) && code == FUSE_NOTIFY_INVAL_ENTRY && node == 1,
	   "a name that the host removes");
	while (next_notice(fs, &code, &node))
		;
	OK(!look_up(fs, 1, "news", &e) && e == -ENOENT, "is not there");
	put("news", "again");
	OK(next_notice(fs, &code, &node) && code == FUSE_NOTIFY_INVAL_ENTRY,
	   "until the host makes it, and says so");
}

int main(void)
{
	struct fs *fs;
	char path[100];

	snprintf(dir, sizeof(dir), "/tmp/fs-unit.XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	put("file", "content");
	snprintf(path, sizeof(path), "%s/sub", dir);
	mkdir(path, 0755);
	put("sub/inner", "x");
	snprintf(path, sizeof(path), "%s/fifo", dir);
	mkfifo(path, 0600);
	snprintf(path, sizeof(path), "%s/link", dir);
	if (symlink("/etc", path) < 0)
		return 1;
	greeting();
	fs = serve(dir, 5000);
	greet(fs);
	names(fs);
	numbers(fs);
	forgotten_directory(fs);
	sizes(fs);
	lengths(fs);
	modes(fs);
	replaced(fs);
	host_changes(fs);
	fs_free(fs);
	kernel_faces();
	flood();
	remove_tree_at(AT_FDCWD, dir);
	return tap_done();
}
