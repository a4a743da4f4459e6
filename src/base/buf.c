/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_clear(struct buf *b)
{
	free(b->data);
	*b = (struct buf){.max = b->max};
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t need, cap = b->cap ? b->cap : 256;
	char *p;

	if (more > b->max || b->len > b->max - more)
		return -ENOBUFS;
	need = b->len + more + 1; /* the NUL */
	if (need <= b->cap)
		return 0;
	while (cap < need)
		cap *= 2;
	p = realloc(b->data, cap);
	if (!p)
		return -ENOMEM;
	b->data = p;
	b->cap = cap;
	return 0;
}

int buf_append(struct buf *b, const void *data, size_t n)
{
	int r = buf_reserve(b, n);

	if (r < 0)
		return r;
	if (n)
		memcpy(b->data + b->len, data, n);
	b->len += n;
	b->data[b->len] = '\0';
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	size_t room = b->data ? b->cap - b->len : 0;
	va_list ap;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
	va_end(ap);
	r = n < 0 ? -EINVAL : buf_reserve(b, (size_t)n);
	if (r < 0) {
		if (room) /* as it was */
			b->data[b->len] = '\0';
		return r;
	}
	if ((size_t)n >= room) { /* seldom: the rest did not fit at first */
		va_start(ap, fmt);
		vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)n;
	return 0;
}

void buf_consume(struct buf *b, size_t n)
{
	if (n >= b->len) {
		b->len = 0;
	} else {
		memmove(b->data, b->data + n, b->len - n);
		b->len -= n;
	}
	if (b->data)
		b->data[b->len] = '\0';
}

char *buf_steal(struct buf *b)
{
	char *s = b->data;

	*b = (struct buf){.max = b->max};
	return s;
}
