/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error - building struct cove_error, the one error object of the whole tree.
 *
 * Where a failure is found, fail() says what was tried; on the way up, wrap() adds
 * context in front ("image demo: open layer ab: No such file or directory"). The text
 * is printed once, at the top. `err` is never NULL below src/api.
 */
#ifndef COVE_BASE_ERROR_H
#define COVE_BASE_ERROR_H

#include "cove.h"

#include <stddef.h>

/* Sets err and returns code (a negative COVE_E*), so that `return fail(...)` reads well.
 * sys is an errno value (0: none); its text is appended to the message. */
int fail(struct cove_error *err, int code, int sys, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Puts "context: " in front of the message and returns err->code. */
int wrap(struct cove_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Sets the hint (what the reader can do about it) and returns err->code. */
int hint(struct cove_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* What every text passes; NULL while no secret is known (base/redact.h sets it). */
extern void (*error_redact)(char *text, size_t size);

/* Out of memory, in one word. */
int fail_nomem(struct cove_error *err);

#endif
