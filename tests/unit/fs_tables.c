/* SPDX-License-Identifier: Apache-2.0 */
/* A guest that goes on in front of another server, over a copy of its files, finds them
 * under the numbers it knew; and what is no table does no harm. */
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
#include <unistd.h>

static char base[] = "/tmp/fs_tables.XXXXXX";

static struct fs *serve(const char *name)
{
	char path[64];
	struct fs_options o = {.nodes = 4096, .descs = 64, .max_data = 1 << 20};
	struct fs *fs = NULL;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	o.root = open(path, O_PATH | O_DIRECTORY);
	return fs_new(&fs, &o) < 0 ? NULL : fs;
}

static void put(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	f = fopen(path, "w");
	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

static void make_tree(const char *name, bool with_gone)
{
	static const char *const dirs[] = {"", "/d", "/d/e"};
	char path[128];

	for (size_t i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s%s", base, name, dirs[i]);
		mkdir(path, 0755);
	}
	snprintf(path, sizeof(path), "%s/d/e/file", name);
	put(path, "text");
	if (!with_gone)
		return;
	snprintf(path, sizeof(path), "%s/gone", name);
	put(path, "x");
}

static int read_node(struct fs *fs, uint64_t node)
{
	struct fuse_read_in in = {.size = 100};

	begin(FUSE_READ, node);
	add(&in, sizeof(in));
	return send_to(fs);
}

struct known {
	uint64_t d, e, file, gone;
};

static int saved(struct known *k)
{
	struct fs *fs = serve("a");
	int fd = memfd_create("tables", 0), err = 0, r;

	OK(fs && fs_tables_save(fs, fd) == -EAGAIN, "nothing to save before INIT");
	OK(greet(fs) == 0, "INIT");
	k->d = look_up(fs, FUSE_ROOT_ID, "d", &err);
	k->e = look_up(fs, k->d, "e", &err);
	k->file = look_up(fs, k->e, "file", &err);
	k->gone = look_up(fs, FUSE_ROOT_ID, "gone", &err);
	r = fs_tables_save(fs, fd);
	OK(k->d && k->e && k->file && k->gone && r == 0, "saved");
	fs_free(fs);
	return fd;
}

static void numbers_find_the_same_files(int fd, const struct known *k)
{
	struct fs *fs = serve("b");
	uint8_t notice[512];
	int err = 0, r;

	lseek(fd, 0, SEEK_SET);
	r = fs_tables_load(fs, fd);
	OK(r == 0, "loaded: %d", r);
	OK(read_node(fs, k->file) == 0 && body_length() == 4 &&
		   memcmp(body(), "text", 4) == 0,
	   "a file is read by the number it had");
	OK(look_up(fs, k->e, "file", &err) == k->file, "looked up, it has that number");
	OK(look_up(fs, FUSE_ROOT_ID, "d", &err) == k->d, "a directory too");
	OK(read_node(fs, k->gone) == -ESTALE, "what is not there any more is stale");
	OK(fs_notice(fs, notice) > 0, "and the guest is told of it");
	OK(read_node(fs, k->file + 1) == -ESTALE && read_node(fs, 999999) == -ESTALE,
	   "numbers that were never given out find nothing");
	put("b/new", "n");
	uint64_t fresh = look_up(fs, FUSE_ROOT_ID, "new", &err);
	OK(fresh && fresh != k->d && fresh != k->e && fresh != k->file &&
		   fresh != k->gone,
	   "a new file gets a number of its own");
	fs_free(fs);
}

static bool is_told(struct fs *fs, uint64_t node)
{
	uint8_t notice[512];
	bool told = false;

	for (size_t n; (n = fs_notice(fs, notice)) > 0;) {
		struct fuse_out_header h;
		struct fuse_notify_inval_inode_out in = {0};

		memcpy(&h, notice, sizeof(h));
		if (h.error == FUSE_NOTIFY_INVAL_INODE)
			memcpy(&in, notice + sizeof(h), sizeof(in));
		told = told || (in.ino == node && in.off == 0);
	}
	return told;
}

static void compares_by_inode_times(void)
{
	struct fs *fs = serve("c"), *late;
	int fd = memfd_create("tables", 0), err = 0;
	char old[128], new[128];
	struct timespec t[2];
	uint64_t same, file;
	struct stat st;

	greet(fs);
	same = look_up(fs, FUSE_ROOT_ID, "same", &err);
	file = look_up(fs, FUSE_ROOT_ID, "file", &err);
	OK(same && file && fs_tables_save(fs, fd) == 0, "saved");
	fs_free(fs);
	/* another file in its place, of the same size and the same time */
	put("c/new", "tixt");
	snprintf(old, sizeof(old), "%s/c/file", base);
	snprintf(new, sizeof(new), "%s/c/new", base);
	stat(old, &st);
	t[0] = t[1] = st.st_mtim;
	utimensat(AT_FDCWD, new, t, 0);
	rename(new, old);
	late = serve("c");
	lseek(fd, 0, SEEK_SET);
	OK(fs_tables_load(late, fd) == 0 && !fs_settled(late),
	   "there is something to tell");
	OK(is_told(late, file), "what was put there later is told of");
	fs_free(late);
	late = serve("c");
	lseek(fd, 0, SEEK_SET);
	fs_tables_load(late, fd);
	OK(!is_told(late, same), "what is as it was is not");
	while (fs_host_changes(late))
		;
	fs_free(late);
	close(fd);
}

static void absence_can_be_left_out(void)
{
	char path[64];
	struct fs_options o = {.nodes = 4096,
			       .descs = 64,
			       .max_data = 1 << 20,
			       .watches = 16,
			       .for_template = true};
	struct fs *fs = NULL;
	int err = 0;

	snprintf(path, sizeof(path), "%s/c", base);
	o.root = open(path, O_PATH | O_DIRECTORY);
	fs_new(&fs, &o);
	greet(fs);
	OK(look_up(fs, FUSE_ROOT_ID, "none", &err) == 0 && body_length() == 0,
	   "that a name is not there is no answer to keep: %d", err);
	fs_free(fs);
	close(o.root);
}

/* Whatever the bytes say, the server answers or refuses, and serves its own tree only. */
static void damaged_tables_do_no_harm(int fd, const struct known *k)
{
	struct stat st;
	uint8_t *all;
	unsigned refused = 0, tried = 0;

	fstat(fd, &st);
	all = malloc((size_t)st.st_size);
	if (!all || pread(fd, all, (size_t)st.st_size, 0) != st.st_size)
		return;
	for (off_t cut = 0; cut < st.st_size; cut += cut < 64 ? 1 : 37) {
		int part = memfd_create("cut", 0);
		struct fs *fs = serve("b");

		(void)!write(part, all, (size_t)cut);
		lseek(part, 0, SEEK_SET);
		tried++;
		refused += fs_tables_load(fs, part) == -EBADMSG;
		refused -= greet(fs) != 0; /* it serves all the same */
		fs_free(fs);
		close(part);
	}
	OK(refused == tried, "%u of %u cut tables are refused", refused, tried);
	for (off_t at = 0; at < st.st_size;
	     at += at < 64 || at > st.st_size - 700 ? 1 : 61) {
		int bad = memfd_create("bad", 0);
		struct fs *fs = serve("b");
		uint8_t was = all[at];

		all[at] ^= (uint8_t)(0x80 >> at % 8);
		(void)!write(bad, all, (size_t)st.st_size);
		all[at] = was;
		lseek(bad, 0, SEEK_SET);
		(void)fs_tables_load(fs, bad);
		read_node(fs, k->file);
		read_node(fs, k->gone);
		greet(fs);
		fs_free(fs);
		close(bad);
	}
	OK(true, "changed ones are refused or harmless");
	free(all);
}

int main(void)
{
	static const char *const paths[] = {
		"a/d/e/file", "a/gone", "b/d/e/file", "b/new", "a/d/e",  "b/d/e",
		"a/d",        "b/d",    "a",          "b",     "c/same", "c/file",
		"c/d/e/file", "c/d/e",  "c/d",        "c",     ""};
	struct known k;
	int fd;

	if (!mkdtemp(base))
		return 1;
	make_tree("a", true);
	make_tree("b", false);
	make_tree("c", false);
	put("c/same", "text");
	put("c/file", "text");
	fd = saved(&k);
	numbers_find_the_same_files(fd, &k);
	damaged_tables_do_no_harm(fd, &k);
	compares_by_inode_times();
	absence_can_be_left_out();
	close(fd);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s/%s", base, paths[i]);
		remove(path);
	}
	return tap_done();
}
