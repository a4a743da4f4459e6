/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_memory - the memory of a running machine as part of a snapshot:
 *
 *	snapshots/TAG/memory		sealed (vm/state.h) with a key of its own
 *	snapshots/TAG/memory.key	that key, sealed with the user's
 *(core/secret_impl.h): "COVEKEY1", id of the user's key (8), nonce (24),
 *					XChaCha20-Poly1305 of 32
 *
 * Whoever destroys the second makes the first unreadable for good. The second is bound to
 * the snapshot's meta.json, which has its tag, its time and its spec: it opens nothing in
 * another snapshot. It is written last: what was cut off has no key.
 */
#ifndef COVE_CORE_SNAPSHOT_MEMORY_H
#define COVE_CORE_SNAPSHOT_MEMORY_H

#include "core/cut.h"
#include "vm/seal.h"

#define MEMORY_FILE "memory"
#define MEMORY_KEY "memory.key"
#define SAVE_PIPE "save.memory" /* in RUN/NAME, see keeper_save.c */
#define SAVE_TABLES "save.tables"

/* Into the snapshot that is being made at dir. c: held, for memory. *ret: bytes. key:
 * made here, the caller's to wipe. */
int memory_save(struct cut *c, int dir, uint8_t key[SEAL_KEY], uint64_t *ret,
		struct cove_error *err);
/* Writes the key, once meta.json is there. */
int memory_write_key(struct store *st, int dir, const uint8_t key[SEAL_KEY],
		     struct cove_error *err);
/* Its size in a snapshot (open directory); -1: it is not there. */
int64_t memory_size(int dir);
/* Opens file and key. */
int memory_open(struct store *st, const char *name, const char *tag, int *ret_file,
		uint8_t key[SEAL_KEY], struct cove_error *err);
/* Could it go on here, with this spec? Reads and authenticates all of it. */
int memory_check(struct store *st, const char *name, const char *tag,
		 const struct spec *spec, struct cove_error *err);
/* Is there a key? */
bool memory_has_key(int dir);
/* Destroys the key. Nothing to destroy is fine. -errno. */
int memory_shred(int dir);

#endif
