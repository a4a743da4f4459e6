/* SPDX-License-Identifier: Apache-2.0 */
/* secret_impl - what the files of the secret store share. */
#ifndef COVE_CORE_SECRET_IMPL_H
#define COVE_CORE_SECRET_IMPL_H

#include "core/secret.h"

#include <stdint.h>

#define SECRET_KEY_BYTES 32
#define SECRET_KEY_ID 8
#define SECRET_KEY_FILE ".key"

enum secret_key_place { KEY_ANY, KEY_IN_FILE, KEY_IN_KEYRING };

/* A key of the store, in locked memory. */
struct secret_key {
	unsigned char *bytes; /* SECRET_KEY_BYTES */
	unsigned char id[SECRET_KEY_ID];
	enum secret_key_place place;
};

/* The key to write with, made if there is none. COVE_SECRET_KEY=keyring|file says where
 * it is to be; else: the keyring's if there is one, else the file's. */
int secret_key_write(int dir, const char *home, struct secret_key *ret,
		     struct cove_error *err);
/* The key with this id; COVE_ENOENT: it is nowhere. */
int secret_key_read(int dir, const char *home, const unsigned char id[SECRET_KEY_ID],
		    struct secret_key *ret, struct cove_error *err);
void secret_key_clear(struct secret_key *k);

/* HOME/secrets, made if `make`; it must be this user's alone. */
struct store;
int secret_open_dir(struct store *st, bool make, int *ret, struct cove_error *err);

#endif
