/* SPDX-License-Identifier: Apache-2.0 */
/* gate_impl - what the files of the gate share; nobody else includes it. */
#ifndef COVE_WORK_GATE_IMPL_H
#define COVE_WORK_GATE_IMPL_H

#include "base/buf.h"
#include "work/gate.h"

#define GATE_FINDINGS_MAX 10000
#define GATE_DEPTH_MAX 512
#define GATE_NAME_MAX 255
#define STAGE_PREFIX ".cove-stage-" /* see stage.c */
#define GATE_PATH_MAX (4096 - 128)  /* of the whole path on the host: room to stage in */
#define GATE_DIGEST 32

/* ---- rules ---------------------------------------------------------------------- */

enum rule_flags {
	RULE_HARD = 1 << 0,  /* cannot be accepted */
	RULE_GROUP = 1 << 1, /* one finding for all such files of a repository */
	RULE_MOUNT = 1 << 2, /* protected in `rw` mounts too */
	RULE_TREE = 1 << 3,  /* and everything below it */
};

/* What a path, a name or a content is found guilty of, apart from secrets. */
struct gate_rule {
	const char *id;
	uint32_t flags;
	const char *why;
};

enum gate_rule_id {
#define RULE(name_, id_, flags_, why_) RULE_##name_,
#include "work/gate_rules.def"
#undef RULE
	N_GATE_RULES
};
extern const struct gate_rule gate_rules[N_GATE_RULES];

/* Paths that make the host run code: gate_paths.def. */
struct gate_path {
	const char *id, *pattern, *why;
	uint32_t flags; /* RULE_GROUP, RULE_MOUNT, RULE_TREE */
};
extern const struct gate_path gate_paths[]; /* ends with id NULL */

/* The entry for path, or NULL. partial: path is no directory, so that one which stands
 * where a pattern has a directory (.vscode as a symlink) counts as well. ret_prefix: how
 * many bytes of path, up to the component that the pattern began with. Pure. */
const struct gate_path *gate_path_match(const char *path, bool partial,
					size_t *ret_prefix);

/* ---- names (pure) --------------------------------------------------------------- */

/* Reads one character; -1: not UTF-8, and one byte was consumed. */
int32_t utf8_next(const unsigned char **p, const unsigned char *end);

/* Invisible, or changes the direction of what follows. */
bool utf8_hidden(uint32_t c);

/* What is wrong with one component, or with text that will be shown: -1 if nothing. */
int gate_name_problem(const char *name, size_t n); /* enum gate_rule_id */
/* The same for a path as a whole: clean components, depth, lengths. */
int gate_path_problem(const char *path, size_t source_len);

/* A key that is equal for names that a file system may take for the same: full case
 * folding, canonical decomposition, ignorable characters left out. -ENOMEM, -ENOBUFS. */
int gate_fold(struct buf *out, const char *name, size_t n);

/* The first attribute in the text of a .gitattributes that names a driver which git does
 * not have built in; NULL if there is none. Pure. */
const char *gate_git_driver(const char *text, size_t len, size_t *ret_n);

/* ---- the host as it would be after the apply ------------------------------------ */

#define NO_ITEM ((size_t)-1)

struct node { /* a path that is touched, or a directory above one */
	char *path;
	size_t layer;
	size_t item;   /* NO_ITEM: a directory above, or the old path of a rename */
	uint32_t mode; /* what will be there; 0: nothing */
	bool fresh;    /* not on the host by this name now */
};

struct view {
	const struct layers *layers;
	const struct gate_item *items;
	struct node *nodes;
	size_t n, room;
	uint32_t *slots; /* hash table of node index + 1 */
	size_t n_slots;
	unsigned char key[16];
};

struct gate;

int view_build(struct gate *g, struct cove_error *err);
void view_clear(struct view *v);
const struct node *view_find(const struct view *v, size_t layer, const char *path);
/* What would be at path, whose parent is reached without a symlink: its mode (0: nothing)
 * and for a symlink its target. -errno if that cannot be told. */
int view_lookup(const struct view *v, size_t layer, const char *path, uint32_t *ret_mode,
		struct buf *target);

enum walk { WALK_STAYS, WALK_LEAVES, WALK_LOOPS, WALK_UNKNOWN };
/* Follows the symlink at path; at: where it ends, if it stays. */
enum walk view_walk(const struct view *v, size_t layer, const char *path,
		    const char *target, struct buf *at);

/* ---- the run -------------------------------------------------------------------- */

struct gate {
	const struct layers *layers;
	const struct gate_config *config;
	const struct gate_item *items;
	size_t n;
	struct view view;
	struct finding *found;
	size_t n_found, room;
	bool overflow;
	bool *barred; /* items whose path is refused as a whole: nothing else is asked */
	unsigned char (*digests)[GATE_DIGEST]; /* of the content, once it is known */
	unsigned char *digest_known;
	uint64_t max_file, max_total;
};

/* A finding on item i (NO_ITEM: on the whole). path: NULL for the item's own; detail:
 * NULL for the rule's text. The id covers rule, path and what would land. */
int gate_found(struct gate *g, enum gate_rule_id rule, size_t i, const char *path,
	       const char *detail, struct cove_error *err);
/* The same for any rule; seal: what the id covers besides rule and path. */
struct gate_report {
	const char *rule, *path, *inner, *why, *excerpt; /* inner, excerpt: may be NULL */
	uint32_t flags;
	size_t item;
	uint64_t line;
	const void *seal;
	size_t seal_len;
};
int gate_report(struct gate *g, const struct gate_report *r, struct cove_error *err);
/* Digest of everything about an item that would land. */
int gate_seal(struct gate *g, size_t i, unsigned char ret[GATE_DIGEST],
	      struct cove_error *err);

bool item_lands(const struct gate_item *it);       /* it is no deletion */
bool item_has_content(const struct gate_item *it); /* new content of a regular file */

int gate_check_items(struct gate *g, struct cove_error *err);
int gate_check_names(struct gate *g, struct cove_error *err); /* and twins */
int gate_check_executing(struct gate *g, struct cove_error *err);
int gate_check_content(struct gate *g, size_t i, struct cove_error *err);
int gate_check_symlink(struct gate *g, size_t i, struct cove_error *err);
int gate_check_secrets(struct gate *g, struct cove_error *err);

#endif
