/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diskwatch - holds a sandbox to its diskGiB.
 *
 * The layers lie on the host's own file system, where an ordinary user has no quota to
 * set. So the keeper measures: cheaply (free space of the file system) while little was
 * written, by adding up the record when much was. A sandbox over its limit is ended, with
 * its work kept. A single file is held at once by RLIMIT_FSIZE; together they may exceed
 * the limit by what can be written in the second or two between two looks. The disk of
 * a machine is none of this: it is as large as the limit, and full inside.
 */
#ifndef COVE_CORE_DISKWATCH_H
#define COVE_CORE_DISKWATCH_H

#include <stdbool.h>
#include <stdint.h>

#define DISK_REASON "the disk limit (resources.diskGiB) is used up; its changes are kept"

struct diskwatch {
	int boxes;        /* borrowed: the directory that holds the record */
	const char *name; /* borrowed */
	uint64_t limit;   /* bytes; 0: no watch */
	uint64_t used;    /* at the last measurement */
	uint64_t free_then;
	int64_t next_ms; /* when to look again; 0: never */
};

void diskwatch_init(struct diskwatch *w, int boxes, const char *name, uint64_t limit,
		    int64_t now_ms);
/* Looks if it is time to. True: over the limit. */
bool diskwatch_over(struct diskwatch *w, int64_t now_ms);

/* Bytes on disk of the directory name and what is in it; 0 if there is none. */
uint64_t disk_usage(int dir, const char *name);

#endif
