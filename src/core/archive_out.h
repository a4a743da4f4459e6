/* SPDX-License-Identifier: Apache-2.0 */
/* archive_out - writing entries to an archive: buffered, and summed up on the way. */
#ifndef COVE_CORE_ARCHIVE_OUT_H
#define COVE_CORE_ARCHIVE_OUT_H

#include "base/buf.h"
#include "os/twins.h"
#include "spec/tar.h"

#include <sodium/crypto_generichash.h>
#include <sys/stat.h>

struct archive_out {
	int fd;
	struct buf out;
	crypto_generichash_state sum;
	struct twins twins;
	struct tar_entry entry; /* reused */
};

void archive_out_init(struct archive_out *a, int fd);
void archive_out_clear(struct archive_out *a);

/* All -errno. */
int archive_put_text(struct archive_out *a, const char *path, const char *text);
/* One path of a tree, as the walk shows it. dir, name: where it is; fd: of a directory.
 * Sockets are left out. */
int archive_put_path(struct archive_out *a, const char *path, int dir, const char *name,
		     int fd, const struct stat *st);
int archive_put_end(struct archive_out *a); /* checksum, end, and all of it written */

#endif
