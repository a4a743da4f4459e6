/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-fs - serves files to a virtual machine; started by libcove, never by hand.
 *
 * It finds itself where a process sandbox would run its commands: in namespaces of its
 * own, with the sandbox's mounts as its root, under Landlock, as the sandbox's user and
 * without capabilities. It serves that root over descriptor 3 and ends when the other end
 * closes. What is left to give up it gives up here: all system calls but those of
 * fs.seccomp.
 */
#include "fs/fs.h"
#include "base/util.h"
#include "fs/serve.h"
#include "os/confine.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "seccomp_fs.h"

#define STREAM_FD 3
#define MEMORY_MAX (1ull << 30)
#define NODES_MAX (1u << 18)
#define WATCHES_MAX 32768u
#define DESCS_MAX 8192u
#define DESCS_KEPT 256u /* for everything but nodes: streams of directories, the stream \
			 */

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

int main(int argc, char **argv)
{
	struct fs_options o = {
		.nodes = NODES_MAX, .max_data = FS_WRITE_MAX, .watches = WATCHES_MAX};
	struct stat st;
	struct fs *fs;

	(void)argv;
	if (argc != 1 || fstat(STREAM_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fprintf(stderr, "cove-fs: this is a part of cove; use 'cove run "
				"--backend vm'\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file too large is an error of one request */
	umask(0);                 /* the guest applied its own */
	o.descs = raise_descriptors();
	if (confine_alone(STREAM_FD, MEMORY_MAX) < 0 ||
	    confine_calls(seccomp_fs, SECCOMP_FS_LEN) < 0)
		return 3;
	o.root = openat(AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (o.root < 0 || fs_new(&fs, &o) < 0)
		return 4;
	_exit(fs_serve(fs, STREAM_FD) < 0 ? 5 : 0); /* the kernel frees faster */
}
