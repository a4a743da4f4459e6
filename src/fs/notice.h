/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice - what the guest has to be told without having asked: that something it keeps in
 * its caches is not so any more, or that the host did something a program inside may
 * watch for.
 *
 * Notices wait in a ring until the transport takes them (fs_notice). The guest says when
 * it has dealt with one (FUSEMSG_TOLD), and no more than FUSEMSG_TOLD_MAX are on their
 * way. While the ring is half full nobody asks what the host did: that waits in the
 * kernel. What is lost all the same, there or here, is found again by a sweep over all
 * nodes once there is room (watch.c): a node that a notice was lost of says so, a name
 * stays in the table until the guest was told that it is gone, and the guest drops what
 * it knows of names that are not there (SHRINK). Only what is for watchers inside is
 * lost.
 */
#ifndef COVE_FS_NOTICE_H
#define COVE_FS_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fs;
struct node;

#define NOTICES_MAX 4096

enum notice_kind {
	NOTICE_ATTR, /* the file's attributes */
	NOTICE_DATA, /* its pages too */
	NOTICE_ENTRY,
	NOTICE_HEARD,
};

struct notice {
	uint64_t node;  /* the file, or the directory of the name */
	char *name;     /* NULL: the file itself */
	uint64_t child; /* HEARD: of that name; 0: unknown */
	uint32_t what, type;
	enum notice_kind kind;
};

struct notices {
	struct notice ring[NOTICES_MAX];
	uint32_t first, n;
	uint32_t in_flight;
	bool lost;   /* something did not fit */
	bool shrink; /* the guest should forget */
};

/* The guest may keep the file's attributes, or its content, from before. */
void notice_inode(struct fs *fs, struct node *n, bool data);
/* The guest may know this name as something that it is not, or not know it. false: it
 * could not be queued. */
bool notice_entry(struct fs *fs, const struct node *dir, const char *name);
/* For watchers: enum fusemsg_what happened to dir/name, of that type. n: its node, or
 * NULL. */
void notice_heard(struct fs *fs, const struct node *dir, const char *name,
		  const struct node *n, uint32_t what, uint32_t type);
/* The guest should forget what it does not use. */
void notice_shrink(struct fs *fs);
/* Something happened, and nobody knows what. */
void notices_lost(struct fs *fs);
/* Is there room for what the host's changes lead to? */
bool notices_have_room(const struct fs *fs);
void notices_clear(struct fs *fs);

#endif
