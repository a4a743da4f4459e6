/* SPDX-License-Identifier: Apache-2.0 */
/* log - lines for whoever set a callback; silent otherwise. Log or return, never both. */
#ifndef COVE_BASE_LOG_H
#define COVE_BASE_LOG_H

#include "cove.h"

#include <stdbool.h>

enum { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

void log_set(void (*fn)(void *arg, int level, const char *line), void *arg);
bool log_heard(void); /* somebody listens */
void log_line(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
