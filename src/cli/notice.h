/* SPDX-License-Identifier: Apache-2.0 */
/* notice - what a sandbox has to tell besides the command's own output. */
#ifndef COVE_CLI_NOTICE_H
#define COVE_CLI_NOTICE_H

#include "cli/cli.h"

/* What happened to sandbox `name` and was not told yet; nothing if there is none. */
void cli_notices(const char *name);
/* cove_remove(), and a word about what it left. */
int cli_remove(const char *name, uint32_t flags, struct cove_error *err);

/* Shows the progress of a start and, unless -q, what its provision commands print. */
void cli_report_start(const struct args *a, struct cove_start_options *o);

#endif
