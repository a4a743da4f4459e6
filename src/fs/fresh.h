/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fresh - whether what the guest keeps in its caches is still so.
 *
 * The guest may keep entries, attributes and pages for an hour, because we tell it when
 * the host changes something. What the guest changes itself looks the same to inotify, so
 * each node remembers what the file was like when the guest last heard of it or changed
 * it (`seen`: size, mtime, ctime). An event on a file that is still like that is no news.
 * Before a change of the guest's the file is compared too, so that a change of the host
 * just before it is not taken for the guest's.
 *
 * What this does not see: two changes, one of each side, within one tick of the file
 * system's clock and without a change of size; writes of the host through a shared
 * mapping, until the file is closed there.
 */
#ifndef COVE_FS_FRESH_H
#define COVE_FS_FRESH_H

#include <stdbool.h>
#include <stdint.h>

struct fs;
struct node;
struct fs_stat;

#define VALID_LONG 3600u /* seconds */
#define VALID_SHORT 1u   /* where nobody tells us of changes */
#define VALID_ABSENT 60u /* a name that is not there, in a watched directory */

/* The guest is told these attributes now. */
void fresh_told(struct fs *fs, struct node *n, const struct fs_stat *st);
/* The guest is going to read its content now. */
void fresh_read(struct node *n, int fd);
enum fresh_news { FRESH_SAME, FRESH_ATTR, FRESH_DATA };
/* Something may have happened to the file, not by the guest: what it was, as far as the
 * guest was not told before. */
enum fresh_news fresh_compare(struct fs *fs, struct node *n, const struct fs_stat *st);
/* The guest changed the file, and this is how it is now. */
void fresh_changed(struct fs *fs, struct node *n, const struct fs_stat *st);
/* Around a change of the guest's to an open file, or in a directory. */
void fresh_before(struct fs *fs, struct node *n, int fd);
void fresh_after(struct fs *fs, struct node *n, int fd);

/* Do we hear of what the host changes in this directory? */
bool fresh_is_watched(const struct node *dir);
/* A directory or a symlink whose attributes are not to outlive this server (struct
 * fs_options). */
bool fresh_is_brief(const struct fs *fs, const struct node *n);
/* For how long the guest may keep it. */
uint32_t fresh_entry(const struct fs *fs, const struct node *n, const struct fs_stat *st);
uint32_t fresh_attr(const struct fs *fs, const struct node *n, const struct fs_stat *st);

#endif
