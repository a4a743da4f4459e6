/* SPDX-License-Identifier: Apache-2.0 */
/* host - see host.h. */
#include "policy/host.h"

#include "base/util.h"
#include "policy/addr.h"
#include "policy/idn.h"

/* What a byte of a label becomes; 0: may not be there. */
static char fold(char c)
{
	if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_')
		return c;
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : 0;
}

/* One label to out; its length there, or -EINVAL, -ENAMETOOLONG. */
static int label(const char *in, size_t n, char out[IDN_LABEL_MAX])
{
	if (n == 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)in[i] >= 0x80)
			return idn_label(in, n, out);
	if (n > IDN_LABEL_MAX)
		return -ENAMETOOLONG;
	for (size_t i = 0; i < n; i++) {
		out[i] = fold(in[i]);
		if (!out[i])
			return -EINVAL;
	}
	return out[0] == '-' || out[n - 1] == '-' ? -EINVAL : (int)n;
}

/* "7", "0x7f", "0X": what inet_aton() and its kin take for (the end of) an address. */
static bool numeric(const char *s, size_t n)
{
	const char *digits = "0123456789";

	if (n >= 2 && s[0] == '0' && s[1] == 'x') {
		digits = "0123456789abcdef";
		s += 2;
		n -= 2;
	}
	for (size_t i = 0; i < n; i++)
		if (!strchr(digits, s[i]))
			return false;
	return true;
}

int host_normalise(const char *in, size_t n, char out[HOST_MAX + 1])
{
	char name[HOST_MAX + 2 + IDN_LABEL_MAX]; /* one label more than there may be */
	size_t len = 0, last = 0;

	if (n > 0 && in[n - 1] == '.')
		n--;
	if (n > 4 * HOST_MAX) /* of UTF-8; others are caught below */
		return -ENAMETOOLONG;
	for (size_t at = 0; at <= n; at++) {
		const char *dot = n > at ? memchr(in + at, '.', n - at) : NULL;
		size_t end = dot ? (size_t)(dot - in) : n;
		int m;

		if (len > 0)
			name[len++] = '.';
		last = len;
		m = label(in + at, end - at, name + len);
		if (m < 0)
			return m;
		len += (size_t)m;
		if (len > HOST_MAX)
			return -ENAMETOOLONG;
		at = end;
	}
	if (numeric(name + last, len - last))
		return -EINVAL;
	name[len] = '\0';
	memcpy(out, name, len + 1);
	return 0;
}

/* Could it be an address? Most names have other letters early on. */
static bool like_address(const char *s)
{
	for (; *s; s++) {
		char c = *s | 0x20;

		if (!(*s >= '.' && *s <= ':') && !(c >= 'a' && c <= 'f'))
			return false;
	}
	return true;
}

int host_pattern(const char *in, enum host_kind *ret, char out[HOST_MAX + 1])
{
	enum host_kind kind = HOST_EXACT;
	struct prefix p;
	int r;

	if (strcmp(in, "*") == 0) {
		*ret = HOST_ANY;
		out[0] = '\0';
		return 0;
	}
	if (like_address(in) && prefix_parse(in, &p) == 0) {
		size_t n = strlen(addr_text(&p.addr, out));
		unsigned bits = p.bits - (addr_is_v4(&p.addr) && p.bits >= 96 ? 96u : 0u);

		if (p.bits < 128)
			snprintf(out + n, HOST_MAX + 1 - n, "/%u", bits);
		*ret = p.bits < 128 ? HOST_CIDR : HOST_IP;
		return 0;
	}
	if (strncmp(in, "*.", 2) == 0) {
		kind = HOST_STAR;
		in += 2;
	} else if (strncmp(in, "**.", 3) == 0) {
		kind = HOST_STARSTAR;
		in += 3;
	}
	r = host_normalise(in, strlen(in), out);
	if (r < 0)
		return -EINVAL;
	*ret = kind;
	return 0;
}

/* Does name end in "." and suffix? Where the suffix begins then, else 0. */
static size_t below(const char *name, const char *suffix)
{
	size_t n = strlen(name), m = strlen(suffix);

	return n > m + 1 && name[n - m - 1] == '.' && strcmp(name + n - m, suffix) == 0
		       ? n - m
		       : 0;
}

static bool in_range(const char *range, const char *text)
{
	struct prefix p;
	struct addr a;

	return prefix_parse(range, &p) == 0 && addr_parse(text, &a) == 0 &&
	       prefix_has(&p, &a);
}

bool host_matches(const char *pattern, const char *name)
{
	char norm[HOST_MAX + 1];
	enum host_kind kind;
	size_t at;

	if (host_pattern(pattern, &kind, norm) < 0)
		return false;
	if (kind == HOST_EXACT)
		return strcmp(norm, name) == 0;
	if (kind == HOST_IP || kind == HOST_CIDR)
		return in_range(norm, name);
	if (strcmp(name, HOST_INTERNAL) == 0) /* only whoever names it */
		return false;
	if (kind == HOST_ANY)
		return true;
	at = below(name, norm);
	return at > 0 && (kind == HOST_STARSTAR || memchr(name, '.', at - 1) == NULL);
}
