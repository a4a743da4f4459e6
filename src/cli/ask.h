/* SPDX-License-Identifier: Apache-2.0 */
/* ask - questions of a sandbox's network, on the terminal; and what was refused. */
#ifndef COVE_CLI_ASK_H
#define COVE_CLI_ASK_H

#include "cli/cli.h"

#define ASK_DENIED 32 /* hosts that were refused here, and are not asked for again */

struct ask {
	struct cove *box;
	int signals; /* readable when a signal came: no answer is waited for then; -1 */
	char *denied[ASK_DENIED];
	size_t n;
};

/* Asks on /dev/tty and answers; without a terminal: no. For cove_net_on_ask(); arg is a
 * struct ask. */
void cli_net_ask(void *arg, uint64_t id, const char *question);
void cli_net_ask_clear(struct ask *a);

int64_t cli_wall_ms(void);
/* Says which hosts were refused since then, and what allows each. name NULL: a one-shot.
 */
void cli_net_denied(struct cove *box, const char *name, int64_t since_ms);

#endif
