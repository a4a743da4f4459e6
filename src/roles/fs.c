/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-fs - serves files to a virtual machine; started by libcove, never by hand.
 *
 * It finds itself where a process sandbox would run its commands: in namespaces of its
 * own, with the sandbox's mounts as its root, under Landlock, as the sandbox's user and
 * without capabilities. It serves that root over descriptor 3 and ends when the other end
 * closes. What is left to give up it gives up here: all system calls but those of
 * fs.seccomp.
 *
 *	cove-fs [restored | template] [PATH...]
 *
 * Descriptors 4 and 5 are for a guest that is saved (fs/serve.h): the control socket, and
 * a file for the tables; with `restored` the tables that are in it come first, with
 * `template` the guest is saved to go on much later, over other files. Descriptor 6, if
 * there is one, is the window (base/fusemsg.h), memory that nobody can cut. Each PATH
 * is where an overlay is mounted below the root; descriptor 7 for the first, 8 for the
 * second and so on are the lower directories of these, which the host may change
 * (fs/watch.h). They are there to be watched; no file is read through them.
 */
#include "fs/fs.h"
#include "base/fusemsg.h"
#include "base/util.h"
#include "fs/serve.h"
#include "fs/tables.h"
#include "os/confine.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "seccomp_fs.h"

enum { STREAM_FD = 3, CONTROL_FD, TABLES_FD, WINDOW_FD, FIRST_SOURCE_FD };
#define OVERLAYS_MAX 200
#define MEMORY_MAX (1ull << 30)
#define NODES_MAX (1u << 18)
#define WATCHES_MAX 32768u
#define DESCS_MAX 8192u
/* Descriptors for everything but nodes: the stream, directories being read, sources. */
#define DESCS_KEPT 512u

/* As many descriptors as we may have, up to what we need. */
static uint32_t raise_descriptors(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 256;
	if (l.rlim_max > DESCS_MAX + DESCS_KEPT)
		l.rlim_max = DESCS_MAX + DESCS_KEPT;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	return l.rlim_cur > 2 * DESCS_KEPT ? (uint32_t)l.rlim_cur - DESCS_KEPT
					   : (uint32_t)l.rlim_cur / 2;
}

/* Mapped as long as it may still be. 0: it is, or there is none. */
static int map_window(struct fs_options *o)
{
	struct stat st;
	void *p;

	if (fstat(WINDOW_FD, &st) < 0)
		return 0;
	if (st.st_size != FUSEMSG_WINDOW ||
	    !(fcntl(WINDOW_FD, F_GET_SEALS) & F_SEAL_SHRINK))
		return -1;
	p = mmap(NULL, FUSEMSG_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, WINDOW_FD, 0);
	if (p == MAP_FAILED)
		return -1;
	o->window = p;
	return 0;
}

/* A source that cannot be used costs speed, nothing else. */
static void add_sources(struct fs *fs, int n, char **paths)
{
	for (int i = 0; i < n; i++) {
		int fd = FIRST_SOURCE_FD + i;

		if (fs_source(fs, paths[i], &fd) < 0)
			close_fd(&fd);
	}
}

int main(int argc, char **argv)
{
	struct fs_options o = {
		.nodes = NODES_MAX, .max_data = FS_WRITE_MAX, .watches = WATCHES_MAX};
	bool restored = argc > 1 && strcmp(argv[1], "restored") == 0;
	bool template = argc > 1 && strcmp(argv[1], "template") == 0;
	int sources = argc - 1 - (restored || template);
	bool saved = fcntl(CONTROL_FD, F_GETFD) >= 0 && fcntl(TABLES_FD, F_GETFD) >= 0;
	struct stat st;
	struct fs *fs;

	if (sources < 0 || sources > OVERLAYS_MAX || ((restored || template) && !saved) ||
	    fstat(STREAM_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr, "cove-fs: this is a part of cove; use 'cove run "
				"--backend vm'\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of one request */
	umask(0);                 /* the guest applied its own */
	o.descs = raise_descriptors();
	o.for_template = template;
	if (map_window(&o) < 0 ||
	    confine_alone(sources    ? WINDOW_FD + sources
			  : o.window ? WINDOW_FD
			  : saved    ? TABLES_FD
				     : STREAM_FD,
			  MEMORY_MAX) < 0 ||
	    confine_calls(seccomp_fs, SECCOMP_FS_LEN) < 0)
		return 3;
	o.root = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o.root < 0 || fs_new(&fs, &o) < 0)
		return 4;
	add_sources(fs, sources, argv + argc - sources);
	if (restored && fs_tables_load(fs, TABLES_FD) < 0)
		return 6;
	_exit((saved ? fs_serve_saved(fs, STREAM_FD, CONTROL_FD, TABLES_FD)
		     : fs_serve(fs, STREAM_FD)) < 0
		      ? 5
		      : 0); /* the kernel frees faster */
}
