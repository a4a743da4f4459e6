/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger - what is remembered about the paths of one upper layer, in mN/ledger.
 *
 * Two kinds of memory, one entry a path:
 *
 *  - SEEN: what lay on the host below a changed path when the change was first noticed:
 *    its identity, a digest, and for files up to LEDGER_BLOB_MAX that are text a copy of
 *    the content (in mN/blobs), the base of a three-way merge. ledger_capture() notices
 *    new paths; it is called at the end of an exec, at the end of a sandbox, before the
 *    overlay is mounted again, and whenever a workspace is opened. `sure` says that the
 *    host's file had not changed between the mount of the overlay (or the moment at which
 *    it was copied up) and the capture: the sandbox can have seen nothing else.
 *  - APPLIED: the path was applied while it could not be taken out of the upper layer
 *    (the sandbox ran, or a directory above hides what is below): the identities of the
 *    upper file and of the host's file as they were then. While the upper file stays that
 *    the path is no change; an entry of a changed one serves as base, like SEEN.
 *
 * The file is our own, but may be damaged: it is parsed like foreign input (pure,
 * bounded, fuzzed), and a damaged ledger counts as "nothing is known", which makes
 * conflicts, not losses. It is replaced by write-temp, fsync, rename; what was only SEEN
 * goes without the fsync, since it is seen again after a crash of the host.
 */
#ifndef COVE_WORK_LEDGER_H
#define COVE_WORK_LEDGER_H

#include "base/buf.h"
#include "work/layer.h"

#define LEDGER_BLOB_MAX (1u << 20)
#define LEDGER_BLOBS_TOTAL (256u << 20)

struct ledger;

enum ledger_kind { LEDGER_SEEN, LEDGER_APPLIED };

struct ledger_entry {
	const char *path;
	enum ledger_kind kind;
	bool sure;
	struct ident host;  /* of the host's path; mode 0: it was not there */
	struct ident upper; /* APPLIED: of the upper's path; mode 0: whiteout */
	char blob[65];      /* digest of the host's content, hex; "": none known */
	bool has_blob;      /* its content is kept */
};

/* Reads it; a missing or damaged one is empty (*ret_damaged may be NULL). */
int ledger_open(struct ledger **ret, const struct layer *l, bool *ret_damaged,
		struct cove_error *err);
void ledger_close(struct ledger *g); /* without saving; NULL is fine */
int ledger_save(struct ledger *g, struct cove_error *err); /* if anything changed */

const struct ledger_entry *ledger_find(const struct ledger *g, const char *path);
/* The same, or if there is none the entry of the nearest directory above that was not on
 * the host: what is in a new directory has no entries of its own. */
const struct ledger_entry *ledger_base(const struct ledger *g, const char *path);
size_t ledger_count(const struct ledger *g);
const struct ledger_entry *ledger_at(const struct ledger *g,
				     size_t i); /* sorted by path */

/* Notices paths of the upper layer that have no entry yet, and forgets entries whose path
 * is not in the upper layer any more. */
int ledger_capture(struct ledger *g, const struct layer *l, struct cove_error *err);

/* content: what the sandbox's file holds, the base of later merges; NULL: none. (After a
 * merge the host's file holds more than that, which is why it is not the base.) */
int ledger_set_applied(struct ledger *g, const char *path, const struct ident *host,
		       const struct ident *upper, const void *content, size_t n,
		       struct cove_error *err);
/* The host's path is (again, after an undo) what the sandbox worked on. content: what it
 * holds; NULL: none. */
int ledger_set_seen(struct ledger *g, const char *path, const struct ident *host,
		    const void *content, size_t n, struct cove_error *err);
/* For paths that were taken out of the upper layer. */
void ledger_forget(struct ledger *g, const char *path);
/* The kept content of an entry's base. -ENOENT: none. */
int ledger_blob(const struct ledger *g, const struct ledger_entry *e, struct buf *out);
/* Removes blobs that no entry names. */
void ledger_sweep(struct ledger *g);

/* Is path applied and unchanged on both sides since? */
bool ledger_is_clean(const struct ledger *g, const char *path, const struct ident *host,
		     const struct ident *upper);

/* The same for the sandbox's side only: what was applied and then changed on the host is
 * no change of the sandbox. */
bool ledger_has_landed(const struct ledger *g, const char *path,
		       const struct ident *upper);

/* Was it applied while the sandbox ran, and deleted inside since? In a directory that the
 * kernel takes for the upper layer's alone a deletion leaves no whiteout: only the ledger
 * knows that the host has the file by now. *ret_host: the host's file. */
bool ledger_is_gone(const struct ledger_entry *e, const struct layer *l,
		    struct ident *ret_host);
/* As `upper` of an applied path: it is a change all the same, and this its base. */
extern const struct ident ledger_only_base;

/* Pure: for the fuzz target and the tests. */
int ledger_parse(struct ledger *g, const char *text, size_t n);
int ledger_print(const struct ledger *g, struct buf *out);
struct ledger *ledger_new(void);

#endif
