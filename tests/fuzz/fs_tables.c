/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of a hostile guest's file server, which another one is to go on with. The input
 * is a table as it is, or (first byte odd) what to change in one that a server saved.
 * Properties: no crash and no leak; a table that is refused leaves a server that serves;
 * one that is taken can be saved, and what was saved is taken again; every reply is one
 * message, and nothing outside of the tree is ever shown or changed.
 */
#include "fuzz.h"

#include "base/io.h"
#include "base/util.h"
#include "fs/fs.h"
#include "fs/tables.h"
#include "fs_message.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "what-must-not-be-seen"
#define TABLE_MAX 16384
#define SLOTS 12 /* that a table of such a size speaks of, and some */

static char base[64];
static int tree = -1; /* the served directory */
static int here = -1; /* where to go back to: the server walks about */
static uint8_t saved[TABLE_MAX];
static size_t n_saved;

/* ---- the tree ------------------------------------------------------------------- */

static void put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

static void remove_base(void)
{
	remove_tree_at(AT_FDCWD, base);
}

static void make_tree(void)
{
	int top;

	if (mkdir(base, 0755) < 0)
		abort();
	top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(top, "outside", SECRET);
	mkdirat(top, "tree", 0755);
	tree = openat(top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(top);
	put(tree, "a", "content of a");
	mkdirat(tree, "dir", 0755);
	mkdirat(tree, "dir/sub", 0755);
	put(tree, "dir/inner", "inner");
	put(tree, "dir/sub/deep", "deep");
	if (symlinkat("../outside", tree, "link") < 0 ||
	    mkfifoat(tree, "fifo", 0644) < 0 || linkat(tree, "a", tree, "hard", 0) < 0)
		abort();
}

static void check_outside(void)
{
	char text[100];
	int fd = openat(tree, "../outside", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n != (ssize_t)strlen(SECRET) || memcmp(text, SECRET, (size_t)n) != 0)
		abort();
	close(fd);
}

/* ---- a server ------------------------------------------------------------------- */

static struct fs *serve(bool watches)
{
	struct fs_options o = {.root = tree,
			       .nodes = 1024,
			       .descs = 64,
			       .max_data = 64 * 1024,
			       .watches = watches ? 8 : 0};
	struct fs *fs = NULL;

	if (fs_new(&fs, &o) < 0)
		abort();
	return fs;
}

static int file_of(const uint8_t *data, size_t n)
{
	int fd = memfd_create("tables", MFD_CLOEXEC);

	if (fd < 0 || write_all(fd, data, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	return fd;
}

static void save_one(void)
{
	struct fs *fs = serve(false);
	cleanup_fd int fd = memfd_create("tables", MFD_CLOEXEC);
	uint64_t dir, sub;
	ssize_t n;
	int err;

	if (greet(fs) != 0)
		abort();
	dir = look_up(fs, FUSE_ROOT_ID, "dir", &err);
	sub = look_up(fs, dir, "sub", &err);
	if (!look_up(fs, sub, "deep", &err) || !look_up(fs, dir, "inner", &err) ||
	    !look_up(fs, FUSE_ROOT_ID, "link", &err) ||
	    !look_up(fs, FUSE_ROOT_ID, "a", &err) || fs_tables_save(fs, fd) < 0)
		abort();
	n = pread(fd, saved, sizeof(saved), 0);
	if (n <= 0)
		abort();
	n_saved = (size_t)n;
	fs_free(fs);
}

/* ---- asking it ------------------------------------------------------------------ */

static void ask(struct fs *fs)
{
	struct fuse_out_header h;
	int r = send_to(fs);

	if (r == 1)
		return;
	memcpy(&h, reply_, sizeof(h));
	if (reply_n_ < (ssize_t)sizeof(h) || h.len != (uint32_t)reply_n_ ||
	    h.unique != 7 || h.error > 0 || (h.error && h.len != sizeof(h)))
		abort();
	if (memmem(reply_, (size_t)reply_n_, SECRET, strlen(SECRET)))
		abort();
}

static void ask_all_of(struct fs *fs, uint64_t node)
{
	struct fuse_read_in in = {.size = 4096};
	struct fuse_forget_in once = {.nlookup = 1};
	static const uint32_t ops[] = {FUSE_READ, FUSE_READDIRPLUS, FUSE_READDIR};

	begin(FUSE_GETATTR, node);
	add(&(struct fuse_getattr_in){0}, sizeof(struct fuse_getattr_in));
	ask(fs);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		begin(ops[i], node);
		add(&in, sizeof(in));
		ask(fs);
	}
	begin(FUSE_READLINK, node);
	ask(fs);
	begin(FUSE_LOOKUP, node);
	add_name("sub");
	ask(fs);
	begin(FUSE_FORGET, node);
	add(&once, sizeof(once));
	ask(fs);
}

static void ask_everything(struct fs *fs)
{
	uint8_t notice[FS_NOTICE_MAX];

	for (uint64_t slot = 0; slot < SLOTS; slot++)
		for (uint64_t generation = 0; generation < 3; generation++)
			ask_all_of(fs, generation << 32 | slot);
	ask_all_of(fs, FUSE_ROOT_ID);
	fs_host_changes(fs);
	while (fs_notice(fs, notice) > 0)
		;
}

/* What one server has taken and writes down is taken by the next. */
static void hand_on(struct fs *fs)
{
	cleanup_fd int fd = memfd_create("tables", MFD_CLOEXEC);
	struct fs *next;

	if (fs_tables_save(fs, fd) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		abort();
	next = serve(false);
	if (fs_tables_load(next, fd) < 0)
		abort();
	ask_everything(next);
	fs_free(next);
}

/* ---- one input ------------------------------------------------------------------ */

static void set_up(void)
{
	signal(SIGPIPE, SIG_IGN);
	here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(base, sizeof(base), "/dev/shm/fs-tables.%d", (int)getpid());
	atexit(remove_base);
	make_tree();
	save_one();
}

/* Changes of three bytes each: where (odd: from the end, where the nodes are), and what.
 */
static size_t change(uint8_t *table, const uint8_t *data, size_t n)
{
	memcpy(table, saved, n_saved);
	for (; n >= 3; data += 3, n -= 3) {
		size_t at = (size_t)(data[0] | (data[1] & 0x0f) << 8) % n_saved;

		if (data[1] & 0x80)
			at = n_saved - 1 - at;
		table[at] = data[1] & 0x40 ? data[2] : table[at] ^ data[2];
	}
	return n ? n_saved - data[0] % n_saved : n_saved;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t table[TABLE_MAX];
	struct fs *fs;
	int fd, r;

	if (here < 0)
		set_up();
	if (size > 0 && data[0] % 2)
		fd = file_of(table, change(table, data + 1, size - 1));
	else
		fd = file_of(data + (size > 0), size - (size > 0));
	fs = serve(size % 64 == 0); /* ending an inotify instance takes 20 ms */
	r = fs_tables_load(fs, fd);
	close(fd);
	if (r < 0 && (r != -EBADMSG || greet(fs) != 0))
		abort();
	if (r == 0)
		hand_on(fs);
	ask_everything(fs);
	fs_free(fs);
	check_outside();
	if (fchdir(here) < 0)
		abort();
	return 0;
}
