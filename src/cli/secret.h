/* SPDX-License-Identifier: Apache-2.0 */
/* secret - values of secrets that come by standard input, and only so: never on argv. */
#ifndef COVE_CLI_SECRET_H
#define COVE_CLI_SECRET_H

#include "cli/cli.h"

#define CLI_SECRET_MAX 16384 /* bytes of a value */

/* Reads a value: on a terminal one line, without echo; else everything, without its last
 * line break. *ret is in locked memory, valid until cli_secret_forget(). 0, or the exit
 * code after a message. */
int cli_secret_read(const char *verb, const char *name, const char **ret, size_t *ret_n);
void cli_secret_forget(void); /* wipes */

/* --secret-stdin: reads it (0, or the exit code), and passes it on with every start until
 * it is forgotten. */
int cli_secret_take(const struct args *a);
void cli_secret_give(struct cove_start_options *o);

#endif
