/* SPDX-License-Identifier: Apache-2.0 */
/* box_impl - what the files of a box share. */
#ifndef COVE_CORE_BOX_IMPL_H
#define COVE_CORE_BOX_IMPL_H

#include "core/box.h"

/* box_dirs.c: everything on disk that its mounts, masks, home and root need; the place's
 * configuration points to it afterwards. */
int box_make_dirs(struct box *b, struct cove_error *err);
void box_clear_dirs(struct box *b);
/* Does it have a record, rather than nothing but memory? */
bool box_needs_record(const struct box *b);
/* box_setup.c: is a SETUP frame needed, which it is (SETUP or RESUME), its payload
 * (WIRE_PAYLOAD_MAX bytes), and where the file of a secret is inside. */
struct secret;
int box_setup_payload(const struct box *b, uint8_t *payload, size_t *ret_n,
		      struct cove_error *err);
bool box_setup_needed(const struct box *b);
uint8_t box_setup_frame(const struct box *b);
void box_secret_path(const struct secret *s, char *out, size_t size);
/* Takes away the empty mount points that nested mounts and masks needed in upper layers:
 * they are no work of the sandbox. */
void box_tidy_layers(const struct box *b);

/* box_net.c: before the place starts, after it, and at the end. */
int box_net_start(struct box *b, struct cove_error *err);
int box_net_listen(struct box *b, struct cove_error *err);
void box_net_stop(struct box *b);

#endif
