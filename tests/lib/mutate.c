/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutate - makes, changes and compares trees, the same way every time.
 *
 *	mutate tree SEED FILES DIR	fills DIR with directories, files and symlinks
 *	mutate edit SEED OPS DIR	changes the tree below DIR at random: creates,
 *edits, appends, truncates, renames, deletes, changes modes, makes symlinks and hard
 *links, replaces files by directories and the reverse
 *	mutate edit-nolinks ...		the same without hard links
 *	mutate manifest DIR		one line a path: type, mode, size, digest of the
 *					content or the symlink's target, path; sorted. No
 *					times, no owners, no hard-link identity
 *
 * What happens depends on the seed and on the tree alone, not on the file system below
 * it: the same seed on two equal trees gives two equal trees. Static, and needs nothing
 * of where it runs.
 */
#include "mutate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void die(const char *what, const char *path)
{
	fprintf(stderr, "mutate: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	unsigned long n = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

	umask(022);
	if (strcmp(verb, "manifest") == 0 && argc == 3)
		return manifest(argv[2]);
	if (argc != 5) {
		fprintf(stderr, "usage: mutate tree|edit|edit-nolinks SEED N DIR\n"
				"       mutate manifest DIR\n");
		return 125;
	}
	if (chdir(argv[4]) < 0)
		die("chdir", argv[4]);
	if (strcmp(verb, "tree") == 0)
		return make_tree(seed, n);
	return edit(seed, n, strcmp(verb, "edit") == 0);
}
