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
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "seccomp_untar.h"

#define DIR_FD 3
#define MEMORY_MAX (1ull << 30)
#define RIGHTS \
	(LL_WRITE_FILE | LL_READ_FILE | LL_READ_DIR | LL_MAKE_DIR | LL_MAKE_REG | \
	 LL_MAKE_FIFO | LL_MAKE_SYM | LL_REMOVE_FILE | LL_REMOVE_DIR | LL_REFER | \
	 LL_TRUNCATE)

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

	u.fd = STDIN_FILENO;
	u.bytes_max = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	if (!u.bytes_max || fstat(DIR_FD, &st) < 0 || !S_ISDIR(st.st_mode)) {
		fprintf(stderr, "cove-untar: this is a part of cove; use 'cove run "
				"--image tar:FILE'\n");
		return 2;
	}
	tree_init(&u.tree, DIR_FD, u.bytes_max);
	r = go_alone(u.bytes_max);
	if (r == 0)
		r = untar_run(&u);
	_exit(r < 0 ? report(&u, -r) : report_done(&u));
}
