/* SPDX-License-Identifier: Apache-2.0 */
/* log - the library's one global: where log lines go. */
#include "base/log.h"

void cove_set_log(void (*fn)(void *arg, int level, const char *line), void *arg)
{
	log_set(fn, arg);
}
