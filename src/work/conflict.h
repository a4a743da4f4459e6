/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conflict - did the host change what the sandbox changed?
 *
 * The sandbox worked on what the ledger says it saw. If the host's path is still that,
 * the change lands as it is. If the host's path already equals what would land, there is
 * nothing to do. If both changed and both are text with a known base, a three-way merge
 * is tried; a clean one lands. Anything else is a conflict, and nothing is touched.
 */
#ifndef COVE_WORK_CONFLICT_H
#define COVE_WORK_CONFLICT_H

#include "base/buf.h"
#include "work/change.h"

enum verdict {
	VERDICT_CLEAN, /* land it */
	VERDICT_SAME,  /* the host has it already */
	VERDICT_MERGE, /* land `merged` instead */
	VERDICT_CONFLICT
};

/* fd: the content that would land (a staged copy, offset irrelevant), -1 if the change is
 * not a regular file. now: the host's path as it is at this moment, by the same call that
 * the apply will check against later. For COVE_DELETED directories: anything in it on the
 * host that is not in `all` as deleted is a conflict. why: one line, for VERDICT_CONFLICT
 * and VERDICT_MERGE. */
int conflict_check(const struct layers *l, const struct ledger *g,
		   const struct changes *all, const struct change *c, int fd,
		   const struct ident *now, enum verdict *ret, struct buf *merged,
		   char *why, size_t why_size, struct cove_error *err);

#endif
