/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/wipe.h"

#include <errno.h>
#include <string.h>

/* Never realloc(): it gives the old block back as it is. */
int wipe_reserve(struct buf *b, size_t more)
{
	struct buf larger = BUF_INIT(b->max);
	int r;

	if (more > b->max || b->len > b->max - more)
		return -ENOBUFS;
	if (!b->data || more < b->cap - b->len)
		return buf_reserve(b, more);
	r = buf_reserve(&larger, b->len + more);
	if (r == 0)
		r = buf_append(&larger, b->data, b->len);
	if (r < 0) {
		wipe_clear(&larger);
		return r;
	}
	wipe_clear(b);
	*b = larger;
	return 0;
}

int wipe_append(struct buf *b, const void *p, size_t n)
{
	int r = wipe_reserve(b, n);

	return r < 0 ? r : buf_append(b, p, n);
}

int wipe_puts(struct buf *b, const char *s)
{
	return wipe_append(b, s, strlen(s));
}

void wipe_consume(struct buf *b, size_t n)
{
	size_t before = b->len;

	buf_consume(b, n);
	if (b->data)
		explicit_bzero(b->data + b->len, before - b->len);
}

void wipe_empty(struct buf *b)
{
	wipe_consume(b, b->len);
}

void wipe_clear(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_clear(b);
}
