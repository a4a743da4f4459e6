/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest cannot have more of: bytes in a name, and nodes. Each request beyond is a
 * refusal that changes nothing, and what the guest gives back it can have again. */
#include "base/io.h"
#include "fs/fs.h"
#include "fs_message.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODES 1024 /* the fewest that a server has */
#define FILES 1500

static char top[] = "/tmp/fs-bounds.XXXXXX";
static int tree = -1;

static struct fs *serve(void)
{
	struct fs_options o = {
		.root = tree, .nodes = NODES, .descs = 64, .max_data = 1 << 20};
	struct fs *fs = NULL;

	if (fs_new(&fs, &o) < 0 || greet(fs) != 0)
		abort();
	return fs;
}

static void put(const char *name)
{
	int fd = openat(tree, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		abort();
	close(fd);
}

static bool is_there(const char *name)
{
	return faccessat(tree, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- requests that name something ----------------------------------------------- */

static int make(struct fs *fs, uint32_t opcode, const char *name)
{
	struct fuse_create_in create = {.mode = S_IFREG | 0644, .flags = O_RDWR};
	struct fuse_mknod_in node = {.mode = S_IFREG | 0644};
	struct fuse_mkdir_in dir = {.mode = 0755};

	begin(opcode, FUSE_ROOT_ID);
	if (opcode == FUSE_CREATE)
		add(&create, sizeof(create));
	if (opcode == FUSE_MKNOD)
		add(&node, sizeof(node));
	if (opcode == FUSE_MKDIR)
		add(&dir, sizeof(dir));
	add_name(name);
	if (opcode == FUSE_SYMLINK)
		add_name("target");
	return send_to(fs);
}

static int make_link(struct fs *fs, uint64_t old, const char *name)
{
	struct fuse_link_in in = {.oldnodeid = old};

	begin(FUSE_LINK, FUSE_ROOT_ID);
	add(&in, sizeof(in));
	add_name(name);
	return send_to(fs);
}

static int move(struct fs *fs, uint32_t opcode, const char *from, const char *to)
{
	struct fuse_rename2_in in = {.newdir = FUSE_ROOT_ID};

	begin(opcode, FUSE_ROOT_ID);
	add(&in, opcode == FUSE_RENAME ? sizeof(struct fuse_rename_in) : sizeof(in));
	add_name(from);
	add_name(to);
	return send_to(fs);
}

static int take_away(struct fs *fs, const char *name)
{
	begin(FUSE_UNLINK, FUSE_ROOT_ID);
	add_name(name);
	return send_to(fs);
}

static void forget(struct fs *fs, uint64_t node)
{
	struct fuse_forget_in in = {.nlookup = 1};

	begin(FUSE_FORGET, node);
	add(&in, sizeof(in));
	send_to(fs);
}

/* ---- names ---------------------------------------------------------------------- */

static const struct {
	uint32_t opcode;
	const char *what;
} makers[] = {
	{FUSE_CREATE,  "CREATE" },
	{FUSE_MKNOD,   "MKNOD"  },
	{FUSE_MKDIR,   "MKDIR"  },
	{FUSE_SYMLINK, "SYMLINK"},
};
#define MAKERS (sizeof(makers) / sizeof(makers[0]))

static void too_long(struct fs *fs, const char *name)
{
	uint64_t file;
	int e;

	file = look_up(fs, FUSE_ROOT_ID, "file", &e);
	OK(!look_up(fs, FUSE_ROOT_ID, name, &e) && e == -ENAMETOOLONG, "LOOKUP");
	for (size_t i = 0; i < MAKERS; i++)
		OK(make(fs, makers[i].opcode, name) == -ENAMETOOLONG, "%s",
		   makers[i].what);
	OK(make_link(fs, file, name) == -ENAMETOOLONG, "LINK");
	OK(move(fs, FUSE_RENAME, "file", name) == -ENAMETOOLONG, "RENAME to it");
	OK(move(fs, FUSE_RENAME, name, "other") == -ENAMETOOLONG, "RENAME from it");
	OK(move(fs, FUSE_RENAME2, "file", name) == -ENAMETOOLONG, "RENAME2");
	OK(take_away(fs, name) == -ENAMETOOLONG, "UNLINK");
	OK(look_up(fs, FUSE_ROOT_ID, "file", &e) == file, "and the file is where it was");
}

static void long_enough(struct fs *fs, const char *name)
{
	uint64_t file;
	int e, at, flags;

	file = look_up(fs, FUSE_ROOT_ID, "file", &e);
	for (size_t i = 0; i < MAKERS; i++) {
		flags = makers[i].opcode == FUSE_MKDIR ? AT_REMOVEDIR : 0;
		e = make(fs, makers[i].opcode, name);
		at = is_there(name) && unlinkat(tree, name, flags) == 0;
		OK(e == 0 && at, "%s (%d)", makers[i].what, e);
	}
	OK(make_link(fs, file, name) == 0 && is_there(name), "LINK");
	OK(look_up(fs, FUSE_ROOT_ID, name, &e) == file, "LOOKUP");
	OK(take_away(fs, name) == 0 && !is_there(name), "UNLINK");
	OK(move(fs, FUSE_RENAME, "file", name) == 0 && is_there(name), "RENAME");
	OK(move(fs, FUSE_RENAME2, name, "file") == 0 && is_there("file"), "and back");
}

static void names(void)
{
	struct fs *fs = serve();
	char name[5000];

	memset(name, 'x', sizeof(name));
	name[256] = '\0';
	printf("# 256 bytes are too many\n");
	too_long(fs, name);
	name[256] = 'x';
	name[4999] = '\0';
	printf("# and so are 4999\n");
	too_long(fs, name);
	name[255] = '\0';
	printf("# 255 are not\n");
	long_enough(fs, name);
	fs_free(fs);
}

/* ---- nodes ---------------------------------------------------------------------- */

static uint64_t number[FILES];

static int look_up_all(struct fs *fs, int *ret_refused)
{
	char name[20];
	int found = 0, e;

	*ret_refused = 0;
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		number[i] = look_up(fs, FUSE_ROOT_ID, name, &e);
		found += number[i] != 0;
		*ret_refused += e == -ENFILE;
	}
	return found;
}

static void forget_all(struct fs *fs)
{
	for (int i = 0; i < FILES; i++)
		if (number[i])
			forget(fs, number[i]);
}

static void full(struct fs *fs)
{
	bool clean = true;
	int e;

	for (size_t i = 0; i < MAKERS; i++) {
		e = make(fs, makers[i].opcode, "one-more");
		clean = clean && e == -ENFILE && !is_there("one-more");
	}
	OK(clean, "nothing new is made, and nothing is left of the attempt");
	OK(look_up(fs, FUSE_ROOT_ID, "m0", &e) == number[0], "what is known is found");
	forget(fs, number[0]); /* that lookup */
	OK(make_link(fs, number[0], "linked") == 0 && is_there("linked"),
	   "and gets another name");
	forget(fs, number[0]);
	OK(take_away(fs, "linked") == 0, "which can be taken away");
	OK(take_away(fs, "m1499") == 0 && !is_there("m1499"),
	   "so can what the guest has no number of");
	put("m1499");
}

static void room_again(struct fs *fs, int most)
{
	int found = most, refused = 0, e;
	uint64_t one;

	forget(fs, number[1]);
	one = look_up(fs, FUSE_ROOT_ID, "m1400", &e);
	OK(one != 0, "one is forgotten, and there is room for one");
	OK(!look_up(fs, FUSE_ROOT_ID, "m1401", &e) && e == -ENFILE, "and not for two");
	forget(fs, one);
	number[1] = 0;
	forget_all(fs);
	for (int i = 0; i < 20 && found == most; i++) {
		found = look_up_all(fs, &refused);
		forget_all(fs);
	}
	OK(found == most && refused == FILES - most,
	   "all are forgotten: %d each time again, neither more nor fewer", found);
	OK(make(fs, FUSE_CREATE, "one-more") == 0 && is_there("one-more"),
	   "and something new can be made");
}

static void nodes(void)
{
	struct fs *fs;
	char name[20];
	int most, refused;

	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		put(name);
	}
	fs = serve();
	most = look_up_all(fs, &refused);
	OK(most > NODES - 8 && most < NODES && most + refused == FILES,
	   "%d nodes, then ENFILE", most);
	full(fs);
	room_again(fs, most);
	fs_free(fs);
}

int main(void)
{
	if (!mkdtemp(top))
		return 1;
	tree = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put("file");
	names();
	nodes();
	close(tree);
	remove_tree_at(AT_FDCWD, top);
	return tap_done();
}
