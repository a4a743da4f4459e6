/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redact - no text that leaves us holds a value that this process knows to be secret.
 *
 * One set for the process, in locked memory, at most REDACT_MAX values (the oldest goes,
 * wiped). Errors, log lines, audit records and JSON pass through it; a value becomes
 * "[NAME]", as it is and as JSON writes it. Values of fewer than REDACT_MIN bytes are not
 * looked for: they occur everywhere. Threads may use it at the same time.
 */
#ifndef COVE_BASE_REDACT_H
#define COVE_BASE_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#define REDACT_MAX 256
#define REDACT_MIN 4

void redact_add(const char *name, const char *value, size_t n); /* best effort */
void redact_clear(void);                                        /* wipes */
bool redact_empty(void);

/* In place; a text that would become longer than fits is cut. */
void redact_text(char *text, size_t size);
/* A malloc'd text; *text may become another one. -ENOMEM: and *text is emptied. */
int redact_string(char **text);

/* Appends the n bytes to out, without values. 0 or -errno. */
struct buf;
int redact_bytes(const char *p, size_t n, struct buf *out);
/* Bytes that come in pieces: how many of p may be passed on now, because what follows
 * them is not the beginning of a value. */
size_t redact_safe(const char *p, size_t n);

#endif
