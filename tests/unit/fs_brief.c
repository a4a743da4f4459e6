/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that is saved as a template keeps nothing of directories in memory, which are
 * others at every start, and has to be told of nothing; of symlinks there it keeps where
 * they lead, and is told when that is somewhere else. */
#include "fs/fs.h"
#include "fs/tables.h"
#include "fs_message.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TMPFS_MAGIC 0x01021994

static char base[] = "/dev/shm/fs_brief.XXXXXX";

static const char *at(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return path;
}

static void make_tree(const char *to)
{
	mkdir(at("d"), 0755);
	(void)!symlink("d", at("same"));
	(void)!symlink(to, at("moved"));
	close(open(at("file"), O_WRONLY | O_CREAT, 0644));
}

static void remove_tree(void)
{
	rmdir(at("d"));
	unlink(at("same"));
	unlink(at("moved"));
	unlink(at("file"));
}

static struct fs *serve(bool template)
{
	struct fs_options o = {.nodes = 4096,
			       .descs = 64,
			       .max_data = 1 << 20,
			       .watches = 16,
			       .for_template = template};
	struct fs *fs = NULL;

	o.root = open(base, O_PATH | O_DIRECTORY);
	fs_new(&fs, &o);
	close(o.root);
	return fs;
}

/* The attributes that came with the last answer are good for a while. */
static bool kept(void)
{
	struct fuse_entry_out e;

	memcpy(&e, body(), sizeof(e));
	return e.attr_valid > 0;
}

struct known {
	uint64_t d, same, moved, file;
};

static struct known look_at_all(struct fs *fs, bool template)
{
	struct known k = {0};
	int err = 0;

	greet(fs);
	k.d = look_up(fs, FUSE_ROOT_ID, "d", &err);
	OK(k.d && kept() == !template, "a directory in memory is %skept",
	   template ? "not " : "");
	k.same = look_up(fs, FUSE_ROOT_ID, "same", &err);
	OK(k.same && kept() == !template, "a symlink neither");
	k.moved = look_up(fs, FUSE_ROOT_ID, "moved", &err);
	k.file = look_up(fs, FUSE_ROOT_ID, "file", &err);
	OK(k.file && kept(), "a file is");
	return k;
}

struct told {
	unsigned n;
	bool d, same, moved, file;
};

static struct told told_of(struct fs *fs, const struct known *k)
{
	uint8_t notice[512];
	struct told t = {0};

	for (size_t n; (n = fs_notice(fs, notice)) > 0; t.n++) {
		struct fuse_notify_inval_inode_out in;

		memcpy(&in, notice + sizeof(struct fuse_out_header), sizeof(in));
		t.d |= in.ino == k->d;
		t.same |= in.ino == k->same;
		t.moved |= in.ino == k->moved;
		t.file |= in.ino == k->file;
	}
	return t;
}

/* Saved over one tree, loaded over another of the same names. */
static struct told go_on(bool template, const char *to)
{
	int fd = memfd_create("tables", 0);
	struct fs *fs;
	struct known k;
	struct told t;
	int r;

	make_tree("d");
	fs = serve(template);
	k = look_at_all(fs, template);
	OK(fs_tables_save(fs, fd) == 0, "saved");
	fs_free(fs);
	remove_tree();
	usleep(20000); /* the kernel's clock for inodes has moved */
	make_tree(to);
	fs = serve(false);
	lseek(fd, 0, SEEK_SET);
	r = fs_tables_load(fs, fd);
	OK(r == 0, "loaded: %d", r);
	t = told_of(fs, &k);
	fs_free(fs);
	close(fd);
	remove_tree();
	return t;
}

int main(void)
{
	struct statfs s;
	struct told t;

	if (!mkdtemp(base) || statfs(base, &s) < 0 || s.f_type != TMPFS_MAGIC) {
		rmdir(base);
		SKIP("/dev/shm is not in memory here");
		return tap_done();
	}
	t = go_on(true, "d");
	OK(t.file && t.n == 1, "a template is told of the file only: %u notices", t.n);
	t = go_on(true, "elsewhere");
	OK(t.moved && !t.same && !t.d, "and of a symlink that leads elsewhere");
	t = go_on(true, "e");
	OK(t.moved && !t.same && !t.d, "also when that is as long");
	t = go_on(false, "d");
	OK(t.d && t.same && t.file, "any other guest is told of everything that differs");
	rmdir(base);
	return tap_done();
}
