/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor - the least a sandbox like cove's can cost: the same system calls as
 * `cove run --net none -- PROGRAM` on a directory, in a straight line, with every value
 * fixed. No spec, no protocol, no record of what runs. It exists to be timed.
 *
 * floor.c is the parent, floor_child.c what runs between the clone and the exec. The
 * child shares memory with the parent (no page tables are copied) while the parent goes
 * on: nothing but raw system calls there.
 */
#ifndef COVE_BENCH_FLOOR_H
#define COVE_BENCH_FLOOR_H

#include "os/landlock.h"

#include <stddef.h>

#define OUTSIDE_ID \
	0x70000001u /* what the sandbox's user is outside, when this is root \
		     */
#define INSIDE_ID 1000

struct floor {
	const char *etc, *cwd;
	char layer[4096]; /* holds upper/ and work/ */
	char **argv;
	int root;    /* run by root: id-mapped mounts, maps by the parent, cgroups */
	int go[2];   /* root: the parent writes a byte when maps are in place */
	int init_fd; /* -1: PID 1 is the program itself */
	int ruleset;
	struct landlock_attr handled;
	int etc_fd, lower_fd, layer_fd; /* root: prepared mounts */
	int cgroup[4];                  /* files to write 0 to */
	size_t n_cgroups;
	char uid_map[64], gid_map[64]; /* user: the child writes them itself */
};

int floor_child(void *arg); /* a struct floor */

#endif
