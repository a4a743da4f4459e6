/* SPDX-License-Identifier: Apache-2.0 */
/* merge - three-way merge of texts by lines (diff3). Pure and bounded like diff.h. */
#ifndef COVE_TEXT_MERGE_H
#define COVE_TEXT_MERGE_H

#include "text/diff.h"

/*
 * Appends to out what base becomes with the edits of both sides. Edits that overlap or
 *touch conflict unless both sides made the very same one; a conflict is written as
 *
 *	<<<<<<< ours
 *	||||||| base
 *	=======
 *	>>>>>>> theirs
 *
 * with each side's lines below its marker, and counted in *ret_conflicts (0: the merge is
 * clean). 0, -ENOMEM, -ENOBUFS or -EFBIG; on failure *ret_conflicts is untouched and out
 * may hold a part.
 */
int text_merge3(struct buf *out, struct text base, struct text ours, struct text theirs,
		size_t *ret_conflicts);

#endif
