/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal - a stream of bytes as a file that nobody can read or change without its key.
 *
 *	"COVESEAL"	8 bytes
 *	version		u32, little-endian
 *	chunk		u32: how much plain text a chunk holds
 *	id		16 random bytes: this file and no other
 *	nonce		24 bytes of the first chunk
 *	chunks		each as long as its text and SEAL_CHUNK_MORE bytes; all but the
 *			last hold `chunk` bytes
 *
 * Encrypted and authenticated chunk by chunk, with libsodium's secretstream (XChaCha20
 *and Poly1305): each chunk depends on all before it, and the last one says that it is.
 *What is in front of the chunks, and the number of each, are authenticated with it. So a
 * reader gets exactly what was written, from the front, up to the first chunk that is not
 * whole, not the next, or not of this file, and then -EBADMSG.
 */
#ifndef COVE_VM_SEAL_H
#define COVE_VM_SEAL_H

#include <sodium/crypto_secretstream_xchacha20poly1305.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEAL_KEY 32
#define SEAL_CHUNK (1u << 20)
#define SEAL_CHUNK_MORE crypto_secretstream_xchacha20poly1305_ABYTES
#define SEAL_ID 16
#define SEAL_HEAD \
	(8 + 4 + 4 + SEAL_ID + crypto_secretstream_xchacha20poly1305_HEADERBYTES)

struct seal {
	int fd; /* borrowed */
	crypto_secretstream_xchacha20poly1305_state state;
	uint8_t head[SEAL_HEAD];
	uint64_t index;         /* of the next chunk */
	uint8_t *plain, *bytes; /* one chunk each */
	size_t used, len;       /* of plain: taken by the caller, and there */
	uint64_t total;         /* bytes of text so far */
	bool last;              /* the last chunk was read, or written */
};

/* Writing. Each 0 or -errno; after an error the file is worth nothing. */
int seal_begin(struct seal *s, int fd, const uint8_t key[SEAL_KEY]);
int seal_write(struct seal *s, const void *data, size_t n);
int seal_end(struct seal *s); /* the last chunk; without it the file is cut */

/* Reading: -EBADMSG: not of this key, or not whole. */
int seal_open(struct seal *s, int fd, const uint8_t key[SEAL_KEY]);
/* Up to n bytes that were authenticated; 0: the end, which was authenticated too. */
ssize_t seal_read(struct seal *s, void *data, size_t n);
/* All of the n bytes, or -EBADMSG. */
int seal_read_all(struct seal *s, void *data, size_t n);

void seal_clear(struct seal *s); /* wipes and frees; fine after a failure, and twice */

#endif
