/* SPDX-License-Identifier: Apache-2.0 */
/* unpack - what the files of cove-unpack share. */
#ifndef COVE_ROLES_UNPACK_H
#define COVE_ROLES_UNPACK_H

#include "spec/tar.h"

#include <sodium/crypto_generichash.h>

#define IN_SIZE (256u * 1024)

/* The archive, as a stream that is summed up as it is read. */
struct input {
	unsigned char data[IN_SIZE];
	size_t at, end;
	crypto_generichash_state sum; /* of what was handed out */
	uint64_t offset;              /* likewise */
};

/* All -errno; -EBADMSG: the archive ends too early. */
int input_read(struct input *in, void *out, size_t n);
/* At most n bytes, at least one, borrowed until the next call. Returns how many. */
int64_t input_some(struct input *in, uint64_t n, const void **ret);
int input_skip_padding(struct input *in, uint64_t size);
bool input_at_end(struct input *in); /* nothing more to come */

/* Where files are made, with the directory that was used last. */
struct output {
	int root;
	int parent;             /* open directory; -1: none */
	struct buf parent_path; /* its path */
	struct buf dirs;        /* those made: their times and modes come last */
};

int output_init(struct output *o, int root);
/* Makes what the entry says; a file's data comes from in. -errno. */
int output_make(struct output *o, struct input *in, const struct tar_entry *e);
int output_finish(struct output *o);

#endif
