/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http1_path - what path a target means, as a rule's globs see it.
 *
 * Servers do not agree about %2F, '\', "//" and ";x". So there are two readings, and a
 * request must be allowed in both: a rule that refuses /admin cannot be passed by
 * /admin%2Fx, //admin or /admin;x, and one that allows a path is not widened by them.
 */
#include "egress/http1_priv.h"

#include "base/util.h"

struct writer {
	char *out;
	size_t n, size;
};

static int put(struct writer *w, const char *p, size_t n)
{
	if (w->size - w->n <= n)
		return -EMSGSIZE;
	memcpy(w->out + w->n, p, n);
	w->n += n;
	w->out[w->n] = '\0';
	return 0;
}

/* One byte, decoded; *ret_n: how many it took. Negative: not decodable. */
static int decode(const char *p, size_t *ret_n)
{
	int high, low, c = (unsigned char)*p;

	*ret_n = 1;
	if (c == '%') {
		high = http_hex(p[1]);
		low = high < 0 ? -1 : http_hex(p[2]);
		if (low < 0)
			return -EBADMSG;
		c = high << 4 | low;
		*ret_n = 3;
	}
	return c < 0x20 || c == 0x7f ? -EBADMSG : c;
}

/* The segment that ends here: not "." or "..". */
static bool is_dots(const struct writer *w)
{
	const char *slash = w->n ? memrchr(w->out, '/', w->n) : NULL;

	return slash && (strcmp(slash, "/.") == 0 || strcmp(slash, "/..") == 0);
}

static int put_slash(struct writer *w)
{
	if (is_dots(w))
		return -EBADMSG;
	return w->n && w->out[w->n - 1] == '/' ? 0 : put(w, "/", 1);
}

static int lenient(const char *target, const char *end, struct writer *w)
{
	bool parameter = false; /* between ';' and the next slash */

	while (target < end) {
		size_t n;
		int c = decode(target, &n), r = 0;
		char byte = (char)c;

		if (c < 0)
			return c;
		target += n;
		if (c == '/' || c == '\\') {
			parameter = false;
			r = put_slash(w);
		} else if (parameter || c == ';') {
			parameter = true;
		} else {
			r = put(w, &byte, 1);
		}
		if (r < 0)
			return r;
	}
	return is_dots(w) ? -EBADMSG : 0;
}

static int strict(const char *target, const char *end, struct writer *w)
{
	while (target < end) {
		size_t n;
		int c = decode(target, &n), r;
		char byte = (char)c;

		if (c < 0)
			return c;
		r = c == '/' && n > 1 ? put(w, "%2F", 3) : put(w, &byte, 1);
		if (r < 0)
			return r;
		target += n;
	}
	return 0;
}

int http_path(const char *target, enum http_path_reading how, char *out, size_t size)
{
	const char *end = target + strcspn(target, "?");
	struct writer w = {.out = out, .size = size};

	if (!size)
		return -EMSGSIZE;
	out[0] = '\0';
	return how == PATH_LENIENT ? lenient(target, end, &w) : strict(target, end, &w);
}
