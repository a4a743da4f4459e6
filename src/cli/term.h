/* SPDX-License-Identifier: Apache-2.0 */
/* term - the user's terminal: raw mode that is always given back, its size, progress. */
#ifndef COVE_CLI_TERM_H
#define COVE_CLI_TERM_H

#include <stdbool.h>
#include <stdint.h>

/* Puts the terminal on fd into raw mode until cli_term_restore(). 0 or -errno. */
int cli_term_raw(int fd);
void cli_term_restore(void); /* async-signal-safe; no-op when not raw */
void cli_term_size(uint16_t *rows, uint16_t *cols); /* 24x80 when there is none */

/* One line on stderr, on a terminal only, for what takes longer than a second. */
void cli_progress(void *arg, const char *what, int percent); /* a cove_start() callback */
void cli_progress_slow(const char *what); /* shows `what` if not ended within a second */
void cli_progress_end(void);              /* erases the line */

#endif
