/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - inotify on the directories that the guest looks into.
 *
 * A directory is watched from the first LOOKUP or READDIR in it until its node is
 * forgotten; if no watch can be had (there are too many, or it may not be read) the guest
 * may keep what is in it for VALID_SHORT.
 *
 * A file that is mounted by itself is watched too: the watch of the directory that it is
 * seen in does not tell of it.
 *
 * An overlay: an event goes to whoever watches the directory it happened in, and the host
 * changes the lower one. Of that we have a descriptor if the host gave us one
 * (fs_source), and watch the directory of the same name below it. A directory that exists
 * in the upper layer alone needs no watch: nobody writes there but us. Of what the host
 * changes in a lower directory the overlay itself shows changed content at once, new
 * names that nobody asked for before at once, and replaced or removed files when its own
 * cache of the name goes; that is the same for a process on that mount.
 */
#ifndef COVE_FS_WATCH_H
#define COVE_FS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct fs;
struct node;

enum { /* node.watch, where it is no descriptor of inotify */
       WATCH_NONE = -1,
       WATCH_NOT_NEEDED = -2,
       WATCH_REFUSED = -3,
};

int watch_init(struct fs *fs, uint32_t max);
void watch_clear(struct fs *fs);
void watch_dir(struct fs *fs, struct node *n);
/* Is it a file that is mounted by itself? */
bool watch_is_mount(const struct node *n);
/* True: it is watched from now on, and what is known of it may be older. */
bool watch_file(struct fs *fs, struct node *n);
void watch_stop(struct fs *fs, struct node *n);
/* The guest took this name away. */
void watch_own_removal(struct fs *fs, const struct node *dir, const char *name);

#endif
