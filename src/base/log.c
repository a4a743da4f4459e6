/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/redact.h"

#include <stdarg.h>
#include <stdio.h>

static void (*log_fn)(void *arg, int level, const char *line);
static void *log_arg;

void log_set(void (*fn)(void *arg, int level, const char *line), void *arg)
{
	log_fn = fn;
	log_arg = arg;
}

bool log_heard(void)
{
	return log_fn != NULL;
}

void log_line(int level, const char *fmt, ...)
{
	char line[512];
	va_list ap;

	if (!log_fn)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	redact_text(line, sizeof(line));
	log_fn(log_arg, level, line);
}
