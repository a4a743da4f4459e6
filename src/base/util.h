/* SPDX-License-Identifier: Apache-2.0 */
/* util - cleanup attributes, ownership moves, and the few macros used everywhere. */
#ifndef COVE_BASE_UTIL_H
#define COVE_BASE_UTIL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) \
	((type *)(void *)((char *)(p)-offsetof(type, member)))

static inline void freep(void *pp)
{
	void *p;

	memcpy(&p, pp, sizeof(p));
	free(p);
}

static inline void closep(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

#define cleanup_free __attribute__((cleanup(freep)))
#define cleanup_fd __attribute__((cleanup(closep)))
#define DEFINE_CLEANUP(T, fn) \
	static inline void fn##p(T **p) \
	{ \
		fn(*p); \
	}
#define take_ptr(v) \
	__extension__({ \
		__auto_type t_ = (v); \
		(v) = NULL; \
		t_; \
	})

static inline int take_fd(int *fd)
{
	int t = *fd;

	*fd = -1;
	return t;
}

static inline void close_fd(int *fd)
{
	closep(fd);
	*fd = -1;
}

/* 2 n characters and no end. */
static inline void hex_text(char *out, const void *bytes, size_t n)
{
	const unsigned char *p = (const unsigned char *)bytes;

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = "0123456789abcdef"[p[i] >> 4];
		out[2 * i + 1] = "0123456789abcdef"[p[i] & 15];
	}
}

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

#endif
