/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve - FUSE messages over one byte stream. Each carries its length in its first four
 * bytes, so nothing is added to them.
 */
#ifndef COVE_FS_SERVE_H
#define COVE_FS_SERVE_H

struct fs;

/*
 * Serves until the peer closes (0) or breaks the protocol (-EPROTO).
 *
 * One thread carries out one request after the other, in the order they came. A call to
 * the host's file system that takes long (an fsync, a dead network mount) makes the other
 * requests of this sandbox wait, and nobody else's: in exchange there is no lock in here.
 * A peer that does not read its answers is not read from either.
 */
int fs_serve(struct fs *fs, int stream);

/* The same for a guest that may be saved. control: a socket of packets, see
 * base/fscontrol.h. tables: a file of its own for fs_tables_save(). */
int fs_serve_saved(struct fs *fs, int stream, int control, int tables);

#endif
