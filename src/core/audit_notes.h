/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_notes - what a one-shot would write to its audit log, kept in memory.
 *
 * Most one-shots leave nothing behind, and then neither a log: only when the sandbox is
 * kept because it holds changes are its events written, with the times at which they
 * happened. What a one-shot whose process was killed had run is not known afterwards.
 */
#ifndef COVE_CORE_AUDIT_NOTES_H
#define COVE_CORE_AUDIT_NOTES_H

#include "core/box.h"

struct audit_notes;

/* A command began; the id for notes_end(), 0: not noted (there is a bound, and the log
 * will say how many are missing). */
uint32_t notes_exec(struct box *b, const void *payload, size_t n);
/* It ended: an exit code, or a signal, or failed to start with an errno. */
void notes_end(struct box *b, uint32_t id, int code, int signal, int sys);
/* Something happened to its network (netlog_audit_fn; box is a struct box). */
void notes_net(void *box, const char *event, json_t *fields);
/* The sandbox is kept: writes the log. What fails is a line for whoever listens to the
 * library: the work is kept all the same. */
void notes_write(struct box *b);
void notes_free(struct audit_notes *n); /* NULL is fine */

#endif
