/* SPDX-License-Identifier: Apache-2.0 */
/*
 * l7_frames - what a server says over WebSocket: its frames are not masked, so values in
 * them become placeholders, frame by frame. Nothing is held beyond a frame's end, as
 * nobody knows whether there will be another: a value that a server cuts into two frames
 * is not found. Lengths stay, and with them the framing.
 */
#include "egress/l7.h"

#include "base/util.h"

/* How many bytes a head has, from its first two. */
static size_t head_bytes(const struct frames *f)
{
	size_t length = f->head[1] & 127;

	return 2 +
	       (length == 127   ? 8u
		: length == 126 ? 2u
				: 0u) +
	       (f->head[1] & 128 ? 4u : 0u);
}

static uint64_t payload_bytes(const struct frames *f)
{
	size_t length = f->head[1] & 127, n = length == 127 ? 8 : length == 126 ? 2 : 0;
	uint64_t v = n ? 0 : length;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | f->head[2 + i];
	return v;
}

/* Takes bytes of a head; they are passed on as they are. */
static size_t take_head(struct frames *f, const unsigned char *p, size_t n)
{
	size_t used = 0;

	while (used < n && (f->n_head < 2 || f->n_head < head_bytes(f)))
		f->head[f->n_head++] = p[used++];
	if (f->n_head >= 2 && f->n_head == head_bytes(f)) {
		f->left = payload_bytes(f);
		f->inside = f->left > 0;
		f->n_head = 0;
	}
	return used;
}

int l7_swap_frames(struct exchange *x, const char *p, size_t n)
{
	struct frames *f = &x->frames;
	struct swap_outcome o = {0};
	size_t at = 0;
	int r = 0;

	x->piece.len = 0;
	while (at < n && r == 0) {
		size_t k;

		if (!f->inside) {
			k = take_head(f, (const unsigned char *)p + at, n - at);
			r = buf_append(&x->piece, p + at, k);
			at += k;
			continue;
		}
		k = f->left < n - at ? (size_t)f->left : n - at;
		r = swap_feed(x->back, p + at, k, &x->piece, &o);
		at += k;
		f->left -= k;
		f->inside = f->left > 0;
		if (r == 0 && !f->inside)
			r = swap_finish(x->back, &x->piece, &o);
	}
	return r;
}
