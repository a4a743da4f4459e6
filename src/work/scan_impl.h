/* SPDX-License-Identifier: Apache-2.0 */
/* scan_impl - the client's state, shared by its two files. */
#ifndef COVE_WORK_SCAN_IMPL_H
#define COVE_WORK_SCAN_IMPL_H

#include "work/scan.h"
#include "work/scan_wire.h"

#include <stdbool.h>
#include <sys/types.h>

struct scan {
	pid_t pid; /* 0: none, or reaped */
	int sock;
	int64_t deadline_ms;
	size_t added, sent; /* files: given to us, given to the role */
	uint64_t done, bytes;
	bool ready, finished;
	char failed[200];          /* not "": what went wrong with the role */
	bool late;                 /* it was the budget */
	struct cove_error refused; /* the role's own word: code 0 if none */

	/* the next FILES */
	struct scan_files head;
	char paths[SCAN_PACKET];
	size_t paths_len;
	int fd[SCAN_BATCH];

	struct scan_finding *found; /* strings: one block each, at .rule */
	size_t n_found, found_cap, found_bytes;
};

/* Starts the role with its end of *ret_sock; the memory file of HELLO is sent by then. */
int scan_role_start(struct scan *s, const struct scan_options *o, struct cove_error *err);
void scan_role_end(struct scan *s); /* kills and reaps it, if it is there */

#endif
