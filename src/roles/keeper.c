/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove-keeper NAME [--degraded] [--secrets] [--state=NAME@TAG | --image] - started by
 * libcove for a named sandbox, never by hand.
 *
 * Descriptor 3 gets the result of the start, with --secrets 4 holds the values of its
 * secrets, with --image those from 5 on are what it goes on from, 0 to 2 are /dev/null;
 * the environment holds only where the files are.
 */
#include "core/keeper.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool has_flag(int argc, char **argv, const char *flag)
{
	for (int i = 2; i < argc; i++)
		if (strcmp(argv[i], flag) == 0)
			return true;
	return false;
}

static const char *value_of(int argc, char **argv, const char *prefix)
{
	size_t n = strlen(prefix);

	for (int i = 2; i < argc; i++)
		if (strncmp(argv[i], prefix, n) == 0)
			return argv[i] + n;
	return NULL;
}

int main(int argc, char **argv)
{
	bool secrets = has_flag(argc, argv, "--secrets");
	bool image = has_flag(argc, argv, "--image");
	unsigned last = image ? KEEPER_IMAGE + IMAGE_FDS - 1 : secrets ? 4 : 3;
	struct rlimit nofile;

	if (argc < 2 || fcntl(3, F_GETFD) < 0) {
		fprintf(stderr,
			"cove-keeper: this is a part of cove; use 'cove start NAME'\n");
		return 125;
	}
	/* The program that uses libcove may have inheritable descriptors; they must not
	 * live on in here (see spawn() in api/connect.c), nor ever reach a sandbox. */
	if (syscall(SYS_close_range, last + 1, ~0u, 0) < 0)
		return 125;
	if (!secrets)
		close(4);
	/* Away from the starter: nobody's child, no terminal, no directory kept busy. */
	switch (fork()) {
	case -1:
		return 125;
	case 0:
		break;
	default:
		_exit(0);
	}
	fcntl(3, F_SETFD, FD_CLOEXEC);
	for (unsigned fd = secrets ? 4 : 5; fd <= last; fd++)
		if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
			return 125;
	umask(077);
	if (chdir("/") < 0)
		return 125;
	if (getrlimit(RLIMIT_NOFILE, &nofile) == 0) {
		nofile.rlim_cur = nofile.rlim_max;
		setrlimit(RLIMIT_NOFILE, &nofile);
	}
	return keeper_run(&(struct keeper_options){
		.name = argv[1],
		.degraded = has_flag(argc, argv, "--degraded"),
		.secrets = secrets ? 4 : -1,
		.report = 3,
		.state = value_of(argc, argv, "--state="),
		.image = image,
	});
}
