/* SPDX-License-Identifier: Apache-2.0 */
/* ports - what is published, for the commands that start a sandbox. */
#ifndef COVE_CLI_PORTS_H
#define COVE_CLI_PORTS_H

#include "cli/cli.h"

/* A line on stderr for each port: which one of the host it is. */
void cli_ports_note(struct cove *box);

#endif
