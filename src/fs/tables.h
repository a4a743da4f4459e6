/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tables - what a guest knows by numbers, as bytes: for a guest that is saved and goes on
 * in front of another server, over a copy of the same files.
 *
 * Copied files are other files to the host, with other inode numbers. So a node is found
 * again by its name, from the root down, and must be of the same type. What is not there
 * any more, and what had no name when the table was saved (it was removed while it was
 * open inside), stays as a number behind which there is nothing: ESTALE. Then everything
 * is compared with what the guest saw of it, and the guest told of what differs.
 *
 * The bytes come from a server that has listened to a hostile guest: whatever they say is
 * checked, and does no more than the guest could have asked for by name.
 */
#ifndef COVE_FS_TABLES_H
#define COVE_FS_TABLES_H

struct fs;

/* Both at the descriptor's position. Nothing may be under way. 0 or -errno. */
int fs_tables_save(struct fs *fs, int fd);
/* Into an fs that has served nothing yet; -EBADMSG: these bytes are no table. */
int fs_tables_load(struct fs *fs, int fd);

#endif
