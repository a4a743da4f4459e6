/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void (*error_redact)(char *text, size_t size);

static void clean(char *text, size_t size)
{
	if (error_redact)
		error_redact(text, size);
}

int fail(struct cove_error *err, int code, int sys, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	err->code = code;
	err->sys = sys;
	err->hint[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	if (sys)
		snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", strerror(sys));
	clean(err->msg, sizeof(err->msg));
	return code;
}

int wrap(struct cove_error *err, const char *fmt, ...)
{
	char inner[sizeof(err->msg)];
	va_list ap;
	size_t n;

	memcpy(inner, err->msg, sizeof(inner));
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof(err->msg) - n, ": %s", inner);
	clean(err->msg, sizeof(err->msg));
	return err->code;
}

int hint(struct cove_error *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	clean(err->hint, sizeof(err->hint));
	return err->code;
}

int fail_nomem(struct cove_error *err)
{
	return fail(err, COVE_ENOMEM, ENOMEM, "out of memory");
}
