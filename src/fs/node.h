/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node - what the guest knows by a number: a file, the name it was last seen under, and
 * how often the guest was told of it.
 *
 * A node lives while the guest may name it (lookups > 0), while it is the directory of
 * one that lives, or while a request holds it. It is found by number, by identity (so
 * that two hard links are one node) and by directory and name.
 *
 * There are at most nodes.max. From seven eighths on, the guest is asked now and then to
 * forget what nobody uses there (it is not told what: to invalidate a name that is
 * mounted on, or stood in, would take the mount and the ground away); when there are none
 * left, looking up something new fails (ENFILE), and listings say no more than names.
 *
 * An overlay breaks hard links when it copies a file up: there, files with several links
 * are one node a name, so that a write through one name lands under that name. Such
 * aliases share no pages inside; whoever changes one tells the others (fresh.h). What the
 * guest made or linked itself lies in the upper layer and is whole.
 */
#ifndef COVE_FS_NODE_H
#define COVE_FS_NODE_H

#include "fs/desc.h"
#include "fs/stat.h"
#include "fs/table.h"

struct fs;

/* A file system that part of the tree lies on. */
struct device {
	uint64_t dev;
	uint32_t index; /* mixed into inode numbers: the guest sees one file system */
	bool overlay;
	bool hidden; /* shows the kernel; nothing of it is served */
	bool brief;  /* is in memory: a guest that is saved finds another one there */
};

/* What a file was like when the guest last heard of it, or changed it. */
struct seen {
	uint64_t size;
	struct fs_time mtime, ctime;
	bool known;
};

struct node {
	struct entry by_ident, by_name, by_watch;
	uint64_t id;
	struct fs_ident ident;
	struct node *parent; /* NULL: the root, or the file has no name any more */
	char *name;
	uint64_t lookups;
	uint32_t children; /* nodes whose parent this is */
	uint32_t holds;    /* by the request being served */
	uint32_t type;     /* S_IFMT of it: a node never changes its type */
	const struct device *device;
	struct desc desc; /* directory: O_PATH. File: for reading, maybe for writing */
	bool writes;      /* desc can write */
	bool reads;       /* desc can read */
	uint8_t noticed;  /* NOTICED_*: a notice about it waits to be sent */
	uint8_t missed;   /* NOTICED_*: one could not be queued */
	bool whole;       /* on an overlay: all its names are one file, for sure */
	bool told_absent; /* directory: the guest may know that some names are not there
			   */
	int watch;        /* its inotify descriptor, or WATCH_* */
	struct seen seen;
};

enum { NOTICED_ATTR = 1, NOTICED_DATA = 2 };

#define DEVICES_MAX 1024

struct slot {
	struct node *node;
	uint32_t generation, next_free;
};

struct nodes {
	struct slot *slot; /* slot 0 is the root's */
	uint32_t n_slots, n, max;
	uint32_t free;  /* head of the list of free slots; 0: there is none */
	uint32_t fresh; /* made since the guest was asked to forget */
	struct table by_ident, by_name;
	struct node *root;
	struct device device[DEVICES_MAX];
	uint32_t n_devices;
};

int nodes_init(struct fs *fs, uint32_t max, int root);
void nodes_clear(struct fs *fs);
void nodes_forget_all(struct fs *fs); /* but the root */

struct node *node_find(struct fs *fs, uint64_t id); /* NULL: nobody has that number */
uint64_t node_name_hash(const struct node *dir, const char *name);
struct node *node_child(struct fs *fs, const struct node *dir, const char *name);

/* Another node of the same file, after `after` (NULL: the first); NULL: no more. */
struct node *node_alias(struct fs *fs, const struct node *n, const struct node *after);
/* What the guest calls it. */
uint64_t node_number(const struct fs *fs, const struct node *n);

/* The node of what lies at dir/name and is described by st; made if there is none. Does
 * not count as a lookup. -ENFILE: there are too many. */
int node_get(struct fs *fs, struct node *dir, const char *name, const struct fs_stat *st,
	     struct node **ret);
/* For a file that never had a name; takes fd. */
int node_get_nameless(struct fs *fs, const struct fs_stat *st, int *fd,
		      struct node **ret);

/* For tables.c: how often each slot was used, before anything but the root is there; and
 * a node with a number that was given out before. NULL: that number cannot be. */
int nodes_set_generations(struct fs *fs, const uint32_t *generation, uint32_t n);
struct node *node_place(struct fs *fs, uint64_t id, const struct fs_stat *st,
			const struct device *d);
void nodes_list_free(struct fs *fs); /* after the last node_place() */

void node_forget(struct fs *fs, struct node *n, uint64_t lookups);
/* Frees it if nobody needs it. After making one that no reply tells of. */
void node_release(struct fs *fs, struct node *n);
void node_move(struct fs *fs, struct node *n, struct node *dir, const char *name);
void node_detach(struct fs *fs, struct node *n); /* its name is gone */
/* An overlay copied it up: it is the same file with another identity. */
void node_identify(struct fs *fs, struct node *n, const struct fs_ident *id);
/* A directory of an overlay may change its inode number and birth when it is copied up or
 * drops out of the host's cache. It is the directory of that name, and that is good
 * enough: nobody else writes there. If it became another node, whoever stands in it
 * inside would be nowhere (getcwd: ENOENT) and mounts on it would be gone. */
bool node_same_dir(const struct node *n, const struct fs_stat *st);

static inline struct node *node_hold(struct node *n)
{
	n->holds++;
	return n;
}
void node_drop(struct fs *fs, struct node *n);

static inline bool node_is_dir(const struct node *n)
{
	return n->type == 0040000; /* S_IFDIR, without libc's <sys/stat.h> */
}

static inline bool node_is_link(const struct node *n)
{
	return n->type == 0120000;
}

#endif
