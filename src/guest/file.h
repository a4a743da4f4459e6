/* SPDX-License-Identifier: Apache-2.0 */
/* file - what the parts of FILE, PORT and INFO share. */
#ifndef COVE_GUEST_FILE_H
#define COVE_GUEST_FILE_H

#include "guest/guest.h"
#include "guest/request.h"

static inline const char *request_path(const struct request *r)
{
	return r->list[WIRE_A_PATH][0];
}

void output_settle(struct guest *g, struct stream *s); /* ends it after its EOF */
void file_write(struct guest *g, struct stream *s, const struct request *r);
extern const struct stream_ops write_ops;

#endif
