/* SPDX-License-Identifier: Apache-2.0 */
/* machine_tasks - how many processes there may be in a machine. */
#ifndef COVE_GUEST_MACHINE_TASKS_H
#define COVE_GUEST_MACHINE_TASKS_H

#include <stdint.h>

void machine_tasks_enter(void);
/* Our own threads are those of now. */
void machine_tasks_count(void);
/* 0: no limit. Our own threads come on top of it. -1 with errno. */
int machine_tasks_limit(uint32_t tasks);

#endif
