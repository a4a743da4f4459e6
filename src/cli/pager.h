/* SPDX-License-Identifier: Apache-2.0 */
/* pager - long output through the user's pager, on a terminal only. */
#ifndef COVE_CLI_PAGER_H
#define COVE_CLI_PAGER_H

#include <stdbool.h>

/* If stdout is a terminal, puts $COVE_PAGER, $PAGER or less behind it; an empty value or
 * "cat" means none. True when a pager reads now. */
bool cli_pager_start(void);
/* Waits until the user leaves the pager; a no-op without one. */
void cli_pager_end(void);

#endif
