/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-untar - unpacks a tar file, compressed or not, into an empty directory; started by
 * libcove, never by hand.
 *
 * Its argument is how many bytes may come of it. Descriptor 0 is the file, 1 takes the
 * report (two numbers: files and devices left out; or what is wrong), 3 is the directory.
 * Exit status: 0 all is there, 1 the archive is no good, 2 the system failed.
 *
 * What comes out belongs to whoever runs it, without set-id bits, extended attributes and
 * devices: those have no meaning in a sandbox, or an unwanted one in an overlay.
 *
 * Stages
 *  1. alone:   drops what it inherited, capabilities too, and bounds itself.
 *  2. confine: may make files below the directory, and no more (Landlock, seccomp).
 *  3. run:     reads hostile bytes until the end of the archive.
 */
#include "roles/untar.h"

#include "base/io.h"
#include "base/util.h"
#include "os/confine.h"
#include "os/landlock.h"

#include <archive.h>
#include <archive_entry.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "seccomp_untar.h"

#define DIR_FD 3
#define MEMORY_MAX (1ull << 30)
#define BLOCK (256u * 1024)
#define RIGHTS \
	(LL_WRITE_FILE | LL_READ_FILE | LL_READ_DIR | LL_MAKE_DIR | LL_MAKE_REG | \
	 LL_MAKE_FIFO | LL_MAKE_SYM | LL_REMOVE_FILE | LL_REMOVE_DIR | LL_REFER | \
	 LL_TRUNCATE)

struct untar {
	struct archive *a;
	struct tree tree;
	struct item item;
	uint64_t bytes_max, entries, devices;
	const char *why; /* what is wrong with the archive; NULL: what errno says */
	char block[BLOCK];
};

/* ---- stages 1 and 2 --------------------------------------------------------------- */

static int go_alone(uint64_t bytes_max)
{
	int r;

	/* Nobody would wait for what comes of it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = confine_alone(DIR_FD, MEMORY_MAX);
	umask(0);
	confine_limit(RLIMIT_NOFILE, 64);
	confine_limit(RLIMIT_FSIZE, bytes_max);
	/* Without Landlock it fails closed, like the sandboxes themselves. */
	if (r == 0)
		r = confine_files(DIR_FD, RIGHTS, false);
	return r < 0 ? r : confine_calls(seccomp_untar, SECCOMP_UNTAR_LEN);
}

/* ---- the archive ------------------------------------------------------------------ */

static la_ssize_t on_read(struct archive *a, void *arg, const void **ret)
{
	struct untar *u = arg;
	ssize_t n;

	do
		n = read(STDIN_FILENO, u->block, sizeof(u->block));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		archive_set_error(a, errno, "read");
	*ret = u->block;
	return n;
}

static int open_archive(struct untar *u)
{
	u->a = archive_read_new();
	if (!u->a)
		return -ENOMEM;
	archive_read_support_filter_gzip(u->a);
	archive_read_support_filter_bzip2(u->a);
	archive_read_support_filter_xz(u->a);
	archive_read_support_filter_zstd(u->a);
	archive_read_support_format_tar(u->a);
	/* Names as the bytes they are: no conversion, no table of characters to load. */
	return archive_read_open(u->a, u, NULL, on_read, NULL) == ARCHIVE_OK ? 0
									     : -EBADMSG;
}

/* ---- stage 3 ---------------------------------------------------------------------- */

static int bad(struct untar *u, const char *why)
{
	u->why = why;
	return -EBADMSG;
}

static int clean_path(struct untar *u, const char *path, char out[PATH_MAX])
{
	int r = path ? untar_clean(path, out) : -EINVAL;

	if (r == 0)
		return 0;
	snprintf(u->item.path, sizeof(u->item.path), "%s", path ? path : "");
	return bad(u, r == -ENAMETOOLONG ? "a path that is too long"
		      : path             ? "a path with '..' in it"
					 : "an entry without a name");
}

static int take_link(struct untar *u, struct archive_entry *e)
{
	struct item *item = &u->item;
	const char *hard = archive_entry_hardlink(e);
	const char *text = archive_entry_symlink(e);

	item->link[0] = '\0';
	if (hard) {
		item->type = 0;
		return clean_path(u, hard, item->link);
	}
	if (item->type != S_IFLNK)
		return 0;
	if (!text || !*text || strlen(text) >= sizeof(item->link))
		return bad(u, "a symlink that leads nowhere");
	memcpy(item->link, text, strlen(text) + 1);
	return 0;
}

static int take_entry(struct untar *u, struct archive_entry *e)
{
	struct item *item = &u->item;
	la_int64_t size = archive_entry_size(e);

	item->type = archive_entry_filetype(e);
	item->mode = archive_entry_mode(e);
	item->seconds = archive_entry_mtime(e);
	item->nanoseconds = archive_entry_mtime_nsec(e);
	item->size = size > 0 ? (uint64_t)size : 0;
	if (clean_path(u, archive_entry_pathname(e), item->path) < 0 ||
	    take_link(u, e) < 0)
		return -EBADMSG;
	return 0;
}

static bool is_device(const struct item *item)
{
	return item->type == S_IFCHR || item->type == S_IFBLK || item->type == S_IFSOCK;
}

/* 0, 1: the end of the archive, or -errno. */
static int one_entry(struct untar *u)
{
	struct archive_entry *e;
	int r = archive_read_next_header(u->a, &e);

	if (r == ARCHIVE_EOF)
		return 1;
	/* a warning is about names that are no UTF-8, times out of range and the like */
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
		return -EBADMSG;
	r = take_entry(u, e);
	if (r < 0)
		return r;
	/* What an archive says of itself costs time and memory as well. */
	if ((uint64_t)archive_filter_bytes(u->a, 0) > u->bytes_max ||
	    u->item.size > u->bytes_max)
		return -EFBIG;
	if (is_device(&u->item)) {
		u->devices++;
		return 0;
	}
	u->entries += u->item.path[0] != '\0';
	return tree_make(&u->tree, &u->item, u->a);
}

static int run(struct untar *u)
{
	int r = open_archive(u);

	while (r == 0)
		r = one_entry(u);
	if (r < 0)
		return r;
	u->item.path[0] = '\0';
	if (!u->entries)
		return bad(u, "there is nothing in it");
	return tree_finish(&u->tree);
}

/* ---- the report ------------------------------------------------------------------- */

/* The archive's fault, rather than the system's? */
static bool archive_is_bad(int error)
{
	static const int errors[] = {EBADMSG, EEXIST, ELOOP,        ENOTDIR,   ENOENT,
				     EXDEV,   EFBIG,  ENAMETOOLONG, ENOTEMPTY, EINVAL};

	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i] == error)
			return true;
	return false;
}

static const char *describe(const struct untar *u, int error)
{
	const char *said = u->a && error == EBADMSG ? archive_error_string(u->a) : NULL;

	if (u->why || said)
		return u->why ? u->why : said;
	switch (error) {
	case EBADMSG:
		return "damaged";
	case EFBIG:
		return "larger than allowed";
	case ENOENT:
		return "a link to what is not there";
	case EEXIST:
	case ELOOP:
		return "the way there leads nowhere";
	case ENOTEMPTY:
		return "a file in place of a directory with files";
	default:
		return strerror(error);
	}
}

static int report(const struct untar *u, int error)
{
	char text[512];
	const char *path = u->item.path;
	int n = snprintf(text, sizeof(text), "%.200s%s%.200s", path, *path ? ": " : "",
			 describe(u, error));

	write_all(STDOUT_FILENO, text, min_size((size_t)n, sizeof(text) - 1));
	return archive_is_bad(error) ? 1 : 2;
}

static int report_done(const struct untar *u)
{
	char text[100];
	int n = snprintf(text, sizeof(text), "%llu %llu\n",
			 (unsigned long long)u->entries, (unsigned long long)u->devices);

	return write_all(STDOUT_FILENO, text, (size_t)n) < 0 ? 2 : 0;
}

int main(int argc, char **argv)
{
	static struct untar u;
	struct stat st;
	int r;

	u.bytes_max = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	if (!u.bytes_max || fstat(DIR_FD, &st) < 0 || !S_ISDIR(st.st_mode)) {
		fprintf(stderr, "cove-untar: this is a part of cove; use 'cove run "
				"--image tar:FILE'\n");
		return 2;
	}
	tree_init(&u.tree, DIR_FD, u.bytes_max);
	r = go_alone(u.bytes_max);
	if (r == 0)
		r = run(&u);
	_exit(r < 0 ? report(&u, -r) : report_done(&u));
}
