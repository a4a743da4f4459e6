/* SPDX-License-Identifier: Apache-2.0 */
/* box_impl - what the files of a box share. */
#ifndef COVE_CORE_BOX_IMPL_H
#define COVE_CORE_BOX_IMPL_H

#include "core/box.h"

/* box_dirs.c: everything on disk that its mounts, masks, home and root need; the place's
 * configuration points to it afterwards. */
int box_make_dirs(struct box *b, struct cove_error *err);
void box_clear_dirs(struct box *b);
/* Does it have a record, rather than nothing but memory? */
bool box_needs_record(const struct box *b);
/* Takes away the empty mount points that nested mounts and masks needed in upper layers:
 * they are no work of the sandbox. */
void box_tidy_layers(const struct box *b);

#endif
