/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal - the steps of one apply, as data: enough to do each, to take it back, and to
 * tell which of the two states a path is in.
 *
 * Written and synced before the first step; never changed afterwards. How far an apply or
 * undo has come is said by the name of the directory that holds the journal, which
 * changes by one rename (see land.h).
 *
 * The text form is parsed like foreign input: pure, bounded, fuzzed.
 */
#ifndef COVE_WORK_JOURNAL_H
#define COVE_WORK_JOURNAL_H

#include "base/buf.h"
#include "work/layer.h"

enum step_kind {
	STEP_REMOVE = 'R', /* file or symlink: moved into the stage */
	STEP_RMDIR = 'D',  /* empty by then */
	STEP_MKDIR = 'M',
	STEP_NEW = 'N',      /* file or symlink: moved out of the stage */
	STEP_EXCHANGE = 'X', /* changes places with the one in the stage */
	STEP_ATTRS = 'A',    /* mode and owner of a directory */
	STEP_SAME = 'S',     /* the host has it already: only the upper layer lets go */
};

struct step {
	enum step_kind kind;
	uint32_t layer;
	uint32_t stage; /* its number in the stage */
	bool whole;     /* all of the sandbox's change lands: it leaves the upper layer */
	struct ident old, new, upper;
	char *path;
};

struct journal_layer {
	char *source;
	char name[24]; /* m0 */
};

struct journal {
	struct journal_layer *layers;
	size_t n_layers;
	struct step *v; /* in the order in which they are done */
	size_t n;
	char stage[32]; /* name of the stage directory in each source */
};

#define JOURNAL_MAX (1u << 30)

void journal_clear(struct journal *j);
int journal_print(const struct journal *j, struct buf *out); /* 0 or -errno */
/* -EBADMSG: damaged; *ret untouched. */
int journal_parse(struct journal *ret, const char *text, size_t n);

#endif
