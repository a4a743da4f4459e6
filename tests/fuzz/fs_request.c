/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile guest against the file server. The input is a program of requests over a
 * small tree in a temporary directory: each picks an operation, a node (one that it was
 * told of, or a forged number), names (good ones and bad ones) and arbitrary fixed parts;
 * some are raw bytes. Properties: no crash and no leak; every reply is one message with
 * the length it says and the number it was asked with; nothing outside of the tree is
 * ever read or changed; in between the host changes files too.
 */
#include "fuzz.h"

#include "base/fusemsg.h"
#include "base/io.h"
#include "base/util.h"
#include "fs/fs.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "what-must-not-be-seen"
#define KNOWN 32
#define MAX_DATA (64u * 1024)

static char base[64];
static int tree = -1; /* the served directory */
static int here = -1; /* where to go back to: the server walks about */
static uint64_t known[KNOWN];
static size_t n_known;
static uint8_t request[FS_MESSAGE_MAX], reply[FS_MESSAGE_MAX];
static uint8_t window[FUSEMSG_WINDOW];

static const char *const names[] = {
	"a",
	"b",
	"dir",
	"link",
	"fifo",
	"sub",
	"new",
	"..",
	".",
	"",
	"dir/inner",
	"/",
	"x\n",
	"outside",
	"../outside",
	"user.x",
	"security.capability",
};

/* ---- the tree -------------------------------------------------------------------------
 */

static void put(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);

	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		abort();
	closep(&fd);
}

static void remove_base(void)
{
	remove_tree_at(AT_FDCWD, base);
}

static void make_tree(void)
{
	int top;

	remove_base();
	mkdir(base, 0755);
	top = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put(top, "outside", SECRET);
	mkdirat(top, "tree", 0755);
	close_fd(&tree);
	tree = openat(top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(top);
	put(tree, "a", "content of a");
	put(tree, "b", "");
	mkdirat(tree, "dir", 0755);
	put(tree, "dir/inner", "inner");
	if (symlinkat("../outside", tree, "link") < 0 || mkfifoat(tree, "fifo", 0644) < 0)
		abort();
}

static void check_outside(void)
{
	char text[100];
	int fd = openat(tree, "../outside", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n != (ssize_t)strlen(SECRET) || memcmp(text, SECRET, (size_t)n) != 0)
		abort();
	close(fd);
}

static void set_up(void)
{
	struct rlimit small = {1 << 20, 1 << 20};

	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(base, sizeof(base), "/dev/shm/fs-fuzz.%d", (int)getpid());
	atexit(remove_base);
}

/* The host at work while the guest is. */
static void host(uint8_t what)
{
	const char *name = names[what % 7];

	if (what & 0x80)
		put(tree, name, "by the host");
	else if (what & 0x40)
		unlinkat(tree, name, 0);
	else
		renameat(tree, name, tree, names[what / 8 % 7]);
}

/* ---- requests -------------------------------------------------------------------------
 */

struct input {
	const uint8_t *p;
	size_t n;
};

static uint8_t byte(struct input *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

static size_t fixed_part(struct input *in, uint8_t *to, size_t n)
{
	size_t given = min_size(n, in->n);

	memset(to, 0, n);
	memcpy(to, in->p, given);
	in->p += given;
	in->n -= given;
	return n;
}

static size_t name_part(uint8_t pick, uint8_t *to)
{
	const char *name = names[pick % ARRAY_LEN(names)];

	memcpy(to, name, strlen(name) + 1);
	return strlen(name) + 1;
}

static const struct shape {
	uint8_t opcode, fixed, names;
} shapes[] = {
	{FUSE_LOOKUP,          0,  1},
	{FUSE_FORGET,          8,  0},
	{FUSE_GETATTR,         16, 0},
	{FUSE_SETATTR,         88, 0},
	{FUSE_READLINK,        0,  0},
	{FUSE_SYMLINK,         0,  2},
	{FUSE_MKNOD,           16, 1},
	{FUSE_MKDIR,           8,  1},
	{FUSE_UNLINK,          0,  1},
	{FUSE_RMDIR,           0,  1},
	{FUSE_RENAME,          8,  2},
	{FUSE_LINK,            8,  1},
	{FUSE_READ,            40, 0},
	{FUSE_WRITE,           40, 1},
	{FUSE_STATFS,          0,  0},
	{FUSE_FSYNC,           16, 0},
	{FUSE_SETXATTR,        8,  2},
	{FUSE_GETXATTR,        8,  1},
	{FUSE_LISTXATTR,       8,  0},
	{FUSE_REMOVEXATTR,     0,  1},
	{FUSE_READDIR,         40, 0},
	{FUSE_FSYNCDIR,        16, 0},
	{FUSE_CREATE,          16, 1},
	{FUSE_BATCH_FORGET,    40, 0},
	{FUSE_FALLOCATE,       32, 0},
	{FUSE_READDIRPLUS,     40, 0},
	{FUSE_RENAME2,         16, 2},
	{FUSE_LSEEK,           24, 0},
	{FUSE_COPY_FILE_RANGE, 56, 0},
	{FUSE_TMPFILE,         16, 1},
};

static uint64_t pick_node(uint8_t pick)
{
	if (pick % 16 == 15)
		return (uint64_t)pick << 28 | pick;
	return n_known && pick % 4 ? known[pick / 4 % n_known] : FUSE_ROOT_ID;
}

/* Node numbers stand at the front of some fixed parts, where random bytes never hit one.
 */
static void aim(const struct shape *s, uint8_t pick, uint8_t *fixed)
{
	uint64_t node = pick_node(pick);
	size_t at = s->opcode == FUSE_COPY_FILE_RANGE ? 16 : 0;

	if (s->opcode == FUSE_RENAME || s->opcode == FUSE_RENAME2 ||
	    s->opcode == FUSE_LINK || s->opcode == FUSE_COPY_FILE_RANGE)
		memcpy(fixed + at, &node, sizeof(node));
	if (s->opcode == FUSE_READ || s->opcode == FUSE_READDIR ||
	    s->opcode == FUSE_READDIRPLUS)
		fixed[13] |= 0x10; /* a page at least, most of the time */
	if (s->opcode == FUSE_READDIR || s->opcode == FUSE_READDIRPLUS)
		memset(fixed + 8 + pick % 8, 0, (size_t)(8 - pick % 8));
}

static size_t build(struct input *in)
{
	const struct shape *s = &shapes[byte(in) % ARRAY_LEN(shapes)];
	struct fuse_in_header h = {.opcode = s->opcode, .unique = 77};
	uint8_t pick = byte(in);
	size_t n = sizeof(h);

	h.nodeid = pick_node(byte(in));
	/* most of the time the bytes are in the message; slots that there are, and others
	 */
	if (pick % 8 == 5)
		h.padding = pick / 8 % (FUSEMSG_SLOTS + 2);
	n += fixed_part(in, request + n, s->fixed);
	aim(s, pick, request + sizeof(h));
	for (int i = 0; i < s->names; i++)
		n += name_part(byte(in), request + n);
	h.len = (uint32_t)n;
	memcpy(request, &h, sizeof(h));
	return n;
}

static size_t build_raw(struct input *in)
{
	size_t n = sizeof(struct fuse_in_header) + byte(in);
	uint32_t len = (uint32_t)n;

	fixed_part(in, request, n);
	memcpy(request, &len, sizeof(len));
	return n;
}

static void learn(const struct fuse_in_header *q, const uint8_t *body, size_t n)
{
	uint64_t id;

	if (q->opcode != FUSE_LOOKUP && q->opcode != FUSE_CREATE &&
	    q->opcode != FUSE_MKDIR && q->opcode != FUSE_MKNOD &&
	    q->opcode != FUSE_LINK && q->opcode != FUSE_SYMLINK &&
	    q->opcode != FUSE_TMPFILE)
		return;
	if (n < sizeof(struct fuse_entry_out))
		return;
	memcpy(&id, body, sizeof(id));
	if (id)
		known[n_known++ % KNOWN] = id;
	n_known = min_size(n_known, KNOWN);
}

static void check_reply(ssize_t n)
{
	struct fuse_in_header q;
	struct fuse_out_header h;

	memcpy(&q, request, sizeof(q));
	memcpy(&h, reply, sizeof(h));
	if (n < (ssize_t)sizeof(h) || h.len != (uint32_t)n || h.unique != q.unique ||
	    h.error > 0 || (h.error && h.len != sizeof(h)))
		abort();
	if (memmem(reply, (size_t)n, SECRET, strlen(SECRET)) ||
	    (q.padding && q.padding <= FUSEMSG_SLOTS &&
	     memmem(window + (size_t)(q.padding - 1) * FUSEMSG_SLOT, MAX_DATA, SECRET,
		    strlen(SECRET))))
		abort();
	if (!h.error)
		learn(&q, reply + sizeof(h), (size_t)n - sizeof(h));
}

static void step(struct fs *fs, struct input *in)
{
	uint8_t what = byte(in);
	uint8_t notice[FS_NOTICE_MAX];
	ssize_t n;

	if (what % 16 == 0)
		host(byte(in));
	if (what % 16 == 1)
		fs_host_changes(fs);
	n = fs_request(fs, request, what % 8 == 7 ? build_raw(in) : build(in), reply);
	if (n > 0)
		check_reply(n);
	while (fs_notice(fs, notice) > 0)
		;
}

static void greet(struct fs *fs)
{
	struct {
		struct fuse_in_header h;
		struct fuse_init_in in;
	} m = {
		{.len = sizeof(m), .opcode = FUSE_INIT},
		{ .major = 7,     .minor = 37, .flags = UINT32_MAX}
        };

	if (fs_request(fs, (const void *)&m, sizeof(m), reply) <= 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned runs;
	struct input in = {data, size};
	struct fs_options o = {.nodes = 1024, .descs = 64};
	struct fs *fs = NULL;

	if (runs == 0)
		set_up();
	if (runs++ % 64 == 0)
		make_tree();
	n_known = 0;
	o.root = tree;
	o.window = size % 5 ? window : NULL;
	o.max_data = MAX_DATA;
	o.watches = size % 16 ? 0 : 20; /* ending an inotify instance takes 20 ms */
	if (fs_new(&fs, &o) < 0)
		abort();
	greet(fs);
	for (int i = 0; in.n > 0 && i < 200; i++)
		step(fs, &in);
	fs_free(fs);
	check_outside();
	if (fchdir(here) < 0)
		abort();
	return 0;
}
