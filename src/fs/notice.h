/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice - what the guest has to be told without having asked: that something it keeps in
 * its caches is not so any more.
 *
 * Notices wait in a ring until the transport takes them (fs_notice). The guest says when
 * it has dealt with one (FUSEMSG_TOLD), and no more than FUSEMSG_TOLD_MAX are on their
 * way. When the ring is full, what could not be queued is found again by a sweep over all
 * nodes once there is room (watch.c).
 */
#ifndef COVE_FS_NOTICE_H
#define COVE_FS_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fs;
struct node;

#define NOTICES_MAX 4096

struct notice {
	uint64_t node; /* the file, or the directory of the name */
	char *name;    /* NULL: the file itself */
	bool data;     /* its pages too, not just its attributes */
};

struct notices {
	struct notice ring[NOTICES_MAX];
	uint32_t first, n;
	uint32_t in_flight;
	bool lost; /* something did not fit */
};

/* The guest may keep the file's attributes, or its content, from before. */
void notice_inode(struct fs *fs, struct node *n, bool data);
/* The guest may know this name as something that it is not, or not know it. */
void notice_entry(struct fs *fs, const struct node *dir, const char *name);
void notices_clear(struct fs *fs);

#endif
