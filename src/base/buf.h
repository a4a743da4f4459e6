/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buf - a growing byte buffer with a hard cap.
 *
 * A buffer cannot be made without saying how large it may ever get; an append past the
 * cap fails with -ENOBUFS and changes nothing. data is always NUL-terminated once
 * anything was appended, so text can be used as a string.
 */
#ifndef COVE_BASE_BUF_H
#define COVE_BASE_BUF_H

#include <stddef.h>

struct buf {
	char *data;
	size_t len, cap, max;
};

#define BUF_INIT(max_) \
	{ \
		.max = (max_) \
	}

void buf_init(struct buf *b, size_t max);
void buf_clear(struct buf *b); /* releases; the cap stays, so it can be used again */
int buf_reserve(struct buf *b, size_t more);               /* 0, -ENOMEM, -ENOBUFS */
int buf_append(struct buf *b, const void *data, size_t n); /* same */
int buf_puts(struct buf *b, const char *s);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n); /* drops n bytes from the front */
char *buf_steal(struct buf *b); /* the string, now the caller's; NULL if empty */

static inline void buf_clearp(struct buf *b)
{
	buf_clear(b);
}
#define cleanup_buf __attribute__((cleanup(buf_clearp)))

#endif
