/* SPDX-License-Identifier: Apache-2.0 */
/* guestfile - where the programs that belong to libcove are: cove-guest, cove-keeper. */
#ifndef COVE_CORE_GUESTFILE_H
#define COVE_CORE_GUESTFILE_H

#include "base/error.h"

/* Looked for in: $COVE_GUEST / $COVE_KEEPER, beside the running program (a build tree),
 * beside the library, the installation's libexec directory. Storage of the thread, found
 * once.
 */
const char *guest_file(struct cove_error *err);
const char *keeper_file(struct cove_error *err);

#endif
