/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watched - which nodes of FUSE mounts some process watches with inotify, as /proc tells:
 * the description of an inotify descriptor (/proc/PID/fdinfo/FD) has a line for each
 * watch, with the handle of the file, which is FUSE's node number.
 */
#ifndef COVE_GUEST_WATCHED_H
#define COVE_GUEST_WATCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCHED_MAX 4096

struct watched {
	size_t n;
	uint64_t node[WATCHED_MAX]; /* sorted, once */
	bool all;                   /* there are more: whoever asks is told yes */
};

void watched_find(struct watched *w);
bool watched_has(const struct watched *w, uint64_t node);

/* The node of one line of fdinfo; 0: it is none of FUSE. For a test. */
uint64_t watched_line(const char *line);

#endif
