/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secret - values that the sandbox may use and never sees: where they come from, how they
 * are kept, and what stands for them inside.
 *
 * Values live in locked memory (sodium_malloc) and are wiped. On disk they are only in
 * HOME/secrets (XChaCha20-Poly1305; the key in a 0600 file or in the kernel's user
 * keyring); in a record there are only names and placeholders.
 */
#ifndef COVE_CORE_SECRET_H
#define COVE_CORE_SECRET_H

#include "base/buf.h"
#include "base/error.h"
#include "core/store.h"
#include "spec/spec.h"

#define SECRETS_MAX 64                 /* of one sandbox; SWAP_MAX of the egress role */
#define SECRET_VALUE_MAX 16384         /* bytes of a value; SWAP_VALUE_MAX */
#define SECRET_PLACEHOLDER_MIN 16      /* bytes of a placeholder at least; SWAP_MIN */
#define SECRET_DIR "/run/cove/secrets" /* inside, of inject: file */

enum secret_inject { INJECT_PLACEHOLDER, INJECT_ENV, INJECT_FILE };

struct secret {
	char *name;
	char *value; /* locked; n bytes and a terminator */
	size_t n;
	char *placeholder; /* NULL: not made yet, or injected */
	char *hosts;       /* patterns, comma-separated; "" with inject only */
	enum secret_inject inject;
	const char *source; /* "environment", "file", ...: for people; static */
};
struct secrets {
	struct secret *v;
	size_t n;
};

/* A value that the caller has in hand (--secret-stdin). */
struct secret_given {
	const char *name;
	const void *value;
	size_t n;
};

/* The values of a spec's secrets, from where it says, in the caller's environment; a
 * missing one is an error that names every place that was looked at. *ret NULL: the spec
 * has none. Known values are redacted from then on (base/redact.h). */
int secrets_resolve(struct secrets **ret, struct store *st, const struct spec *s,
		    const struct secret_given *given, size_t n_given,
		    struct cove_error *err);
void secrets_free(struct secrets *s);
/* Those of them that can be had without a caller and without running anything (variable,
 * store, file), to look for and to redact; NULL: none. */
struct secrets *secrets_known(struct store *st, const struct spec *s);
/* Placeholders: those the record has already, new ones for the rest (and they are
 * written there; record -1: only in memory). */
int secrets_placeholders(struct secrets *s, int record, struct cove_error *err);
/* Hosts that only the store knew, into the spec that the policy is made of. */
int secrets_fill_spec(const struct secrets *s, struct spec *spec, struct cove_error *err);

/* Across the start of a keeper: a sealed memfd. */
int secrets_send(const struct secrets *s, int *ret_fd, struct cove_error *err);
int secrets_receive(struct secrets **ret, int fd, struct cove_error *err);

/* HOME/secrets */
int secret_store_set(struct store *st, const char *name, const char *value, size_t n,
		     const char *hosts, struct cove_error *err);
/* COVE_ENOENT: there is none. */
int secret_store_get(struct store *st, const char *name, struct secret *ret,
		     struct cove_error *err);
int secret_store_remove(struct store *st, const char *name, struct cove_error *err);
/* [{"name":..,"hosts":[..],"changed":seconds,"key":"file|keyring"}], with "problem"
 * where one cannot be read. */
json_t *secret_store_list(struct store *st, struct cove_error *err);

/* One value read from a source, without its last line break (LF or CRLF). A path
 * "DIR/./P" is P below DIR, and no link leads out of it. */
int secret_from_env(const char *name, struct secret *ret, struct cove_error *err);
int secret_from_file(const char *name, const char *path, struct secret *ret,
		     struct cove_error *err);
int secret_from_command(const char *name, char *const *argv, struct secret *ret,
			struct cove_error *err);

/* Locked memory for a value of n bytes and its terminator; NULL: none. */
char *secret_alloc(size_t n);
void secret_clear(struct secret *s);

#define SECRET_PLACEHOLDERS "placeholders.json" /* in the record */

#endif
