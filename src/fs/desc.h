/* SPDX-License-Identifier: Apache-2.0 */
/*
 * desc - the descriptors behind nodes, a cache of bounded size.
 *
 * A descriptor is in use order; when there are `max`, the one unused for longest is
 * closed and its owner opens it again by name when it needs it. One that is pinned is all
 * that is left of a file (it was unlinked): it stays until its node is forgotten. At most
 * half of `max` can be pinned; an unlink beyond that goes through, but the file's content
 * is gone for whoever still has it open inside (ESTALE).
 */
#ifndef COVE_FS_DESC_H
#define COVE_FS_DESC_H

#include <stdbool.h>
#include <stdint.h>

struct desc {
	struct desc *newer, *older;
	int fd; /* -1: none */
	bool pinned;
};

struct descs {
	struct desc *newest, *oldest;
	uint32_t n, n_pinned, max;
};

#define DESC_NONE \
	{ \
		.fd = -1 \
	}

/* Takes fd as d's descriptor (closing the one it had), at the price of the oldest. */
void desc_set(struct descs *all, struct desc *d, int fd);
void desc_close(struct descs *all, struct desc *d);
bool desc_pin(struct descs *all, struct desc *d); /* false: too many are */
/* Pins it whatever the bound says, until the request is done: a guest that has half of
 * them pinned can still rename. */
void desc_keep(struct descs *all, struct desc *d);
void desc_unpin(struct descs *all, struct desc *d);
void desc_used(struct descs *all, struct desc *d);
/* Makes a descriptor number free, for an open() that failed with EMFILE. false: none. */
bool desc_spare(struct descs *all);

#endif
