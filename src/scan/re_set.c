/* SPDX-License-Identifier: Apache-2.0 */
/* re_set - sets of code points: building them, and writing them as byte sequences. */
#include "scan/re_impl.h"

#include "base/util.h"

#define RANGES_MAX 4096u

int re_set_add(struct pool *pool, struct re_set *s, uint32_t lo, uint32_t hi)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 2;
		struct re_range *r = NULL;

		if (cap <= RANGES_MAX)
			r = pool_alloc(pool, cap * sizeof(*r));
		if (!r)
			return -ENOMEM;
		if (s->n)
			memcpy(r, s->r, s->n * sizeof(*r));
		s->r = r;
		s->cap = cap;
	}
	s->r[s->n++] = (struct re_range){lo, hi};
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct re_range *x = a, *y = b;

	return x->lo < y->lo ? -1 : x->lo > y->lo;
}

void re_set_tidy(struct re_set *s)
{
	size_t n = 0;

	if (s->n < 2)
		return;
	qsort(s->r, s->n, sizeof(*s->r), by_start);
	for (size_t i = 1; i < s->n; i++) {
		if (s->r[i].lo <= s->r[n].hi || s->r[i].lo == s->r[n].hi + 1) {
			if (s->r[i].hi > s->r[n].hi)
				s->r[n].hi = s->r[i].hi;
		} else {
			s->r[++n] = s->r[i];
		}
	}
	s->n = n + 1;
}

int re_set_invert(struct pool *pool, struct re_set *s)
{
	struct re_set rest = {0};
	uint32_t next = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->r[i].lo > next &&
		    re_set_add(pool, &rest, next, s->r[i].lo - 1) < 0)
			return -ENOMEM;
		next = s->r[i].hi + 1;
	}
	if (next <= RUNE_MAX && re_set_add(pool, &rest, next, RUNE_MAX) < 0)
		return -ENOMEM;
	*s = rest;
	return 0;
}

bool re_set_has(const struct re_set *s, uint32_t c)
{
	for (size_t i = 0; i < s->n; i++)
		if (c >= s->r[i].lo && c <= s->r[i].hi)
			return true;
	return false;
}

bool re_set_wide(const struct re_set *s)
{
	return s->n && s->r[s->n - 1].hi >= 0x80;
}

/* Ranges whose other case lies at a fixed distance. */
static const struct {
	uint32_t lo, hi, up; /* lower case, and what to take away for upper case */
} cases[] = {
	{'a',   'z',   32},
        {0xe0,  0xf6,  32},
        {0xf8,  0xfe,  32},
	{0x3b1, 0x3c9, 32},
        {0x430, 0x44f, 32},
        {0x450, 0x45f, 80},
};

int re_set_fold(struct pool *pool, struct re_set *s)
{
	size_t n = s->n;

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < ARRAY_LEN(cases); j++) {
			for (int upper = 0; upper < 2; upper++) {
				uint32_t off = upper ? cases[j].up : 0;
				uint32_t lo = cases[j].lo - off, hi = cases[j].hi - off;
				struct re_range r = s->r[i];

				if (r.lo < lo)
					r.lo = lo;
				if (r.hi > hi)
					r.hi = hi;
				if (r.lo > r.hi)
					continue;
				off = upper ? cases[j].up : 0 - cases[j].up;
				if (re_set_add(pool, s, r.lo + off, r.hi + off) < 0)
					return -ENOMEM;
			}
		}
	}
	return 0;
}

/* ---- named sets ------------------------------------------------------------------- */

static const struct {
	const char *name, *pairs; /* "09AF": from 0 to 9, from A to F */
} named[] = {
	{"d",      "09"                },
	{"s",      "\t\n\f\r  "        },
	{"w",      "09AZ__az"          },
	{"alnum",  "09AZaz"            },
	{"alpha",  "AZaz"              },
	{"ascii",  "\001\177"          },
	{"blank",  "\t\t  "            },
	{"cntrl",  "\001\037\177\177"  },
	{"digit",  "09"                },
	{"graph",  "!~"                },
	{"lower",  "az"                },
	{"print",  " ~"                },
	{"punct",  "!/:@[`{~"          },
	{"space",  "\t\r  "            },
	{"upper",  "AZ"                },
	{"word",   "09AZ__az"          },
	{"xdigit", "09AFaf"            },
	{"L",      "AZaz"              },
	{"Lu",     "AZ"                },
	{"Ll",     "az"                },
	{"N",      "09"                },
	{"Nd",     "09"                },
	{"P",      "!#%*,/:;?@[]__{{}}"},
	{"S",      "$$++<>^^``||~~"    },
	{"Z",      "  "                },
	{"Zs",     "  "                },
	{"Latin",  "AZaz"              },
};

static int add_named(struct pool *pool, struct re_set *s, const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		const char *p = named[i].pairs;

		if (strlen(named[i].name) != len || memcmp(named[i].name, name, len) != 0)
			continue;
		for (; *p; p += 2)
			if (re_set_add(pool, s, (unsigned char)p[0],
				       (unsigned char)p[1]) < 0)
				return -ENOMEM;
		/* A string cannot hold the NUL that these two have. */
		if (strncmp(name, "ascii", len) == 0 || strncmp(name, "cntrl", len) == 0)
			return re_set_add(pool, s, 0, 0);
		return 0;
	}
	return -EINVAL;
}

int re_set_perl(struct pool *pool, struct re_set *s, char letter)
{
	return strchr("dsw", letter) ? add_named(pool, s, &letter, 1) : -EINVAL;
}

int re_set_posix(struct pool *pool, struct re_set *s, const char *name, size_t len)
{
	return len > 2 ? add_named(pool, s, name, len) : -EINVAL;
}

int re_set_unicode(struct pool *pool, struct re_set *s, const char *name, size_t len)
{
	int r = len && name[0] >= 'A' && name[0] <= 'Z' ? add_named(pool, s, name, len)
							: -EINVAL;

	if (r == -EINVAL && len >= 2 && len < 32) /* a script, or a rarer category */
		r = 0;
	return r < 0 ? r : re_set_add(pool, s, 0x80, RUNE_MAX);
}

/* ---- printing --------------------------------------------------------------------- */

static int put_byte(struct buf *out, uint32_t c)
{
	bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
		     (c >= 'a' && c <= 'z') || c == '_';

	return plain ? buf_printf(out, "%c", (int)c) : buf_printf(out, "\\x%02x", c);
}

static int put_bytes(struct buf *out, uint32_t lo, uint32_t hi)
{
	int r = put_byte(out, lo);

	if (r == 0 && hi > lo + 1)
		r = buf_puts(out, "-");
	return r == 0 && hi > lo ? put_byte(out, hi) : r;
}

/* The ASCII part as a class; `more` closes it with all bytes beyond. */
static int print_ascii(struct buf *out, const struct re_set *s, bool more)
{
	int r = 0;
	bool one = s->n == 1 && s->r[0].lo == s->r[0].hi && s->r[0].lo < 0x80 && !more;

	if (one)
		return put_byte(out, s->r[0].lo);
	r = buf_puts(out, "[");
	for (size_t i = 0; r == 0 && i < s->n && s->r[i].lo < 0x80; i++)
		r = put_bytes(out, s->r[i].lo, s->r[i].hi < 0x7f ? s->r[i].hi : 0x7f);
	if (r == 0 && more)
		r = buf_puts(out, "\\x80-\\xff");
	return r == 0 ? buf_puts(out, "]") : r;
}

static size_t encode(uint32_t c, unsigned char u[4])
{
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = n; i-- > 1; c >>= 6)
		u[i] = (unsigned char)(0x80 | (c & 0x3f));
	u[0] = (unsigned char)(lead[n] | c);
	return n;
}

/*
 * lo..hi, of the same length, as byte sequences: split where a continuation byte would
 * wrap around, until each byte has a range of its own.
 */
static int print_sequences(struct buf *out, uint32_t lo, uint32_t hi)
{
	unsigned char a[4], b[4];
	size_t n = encode(lo, a);
	int r = 0;

	encode(hi, b);
	for (size_t i = 1; i < n; i++) {
		uint32_t low = (1u << (6 * i)) - 1; /* the bits of the last i bytes */

		if ((lo & ~low) == (hi & ~low))
			continue;
		if (lo & low) {
			r = print_sequences(out, lo, lo | low);
			return r < 0 ? r : print_sequences(out, (lo | low) + 1, hi);
		}
		if ((hi & low) != low) {
			r = print_sequences(out, lo, (hi & ~low) - 1);
			return r < 0 ? r : print_sequences(out, hi & ~low, hi);
		}
	}
	r = buf_puts(out, "|");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = a[i] == b[i] ? buf_printf(out, "\\x%02x", a[i])
				 : buf_printf(out, "[\\x%02x-\\x%02x]", a[i], b[i]);
	return r;
}

static int print_wide(struct buf *out, const struct re_set *s)
{
	/* Encoded in two, three and four bytes; surrogates are no characters. */
	static const struct re_range spans[] = {
		{0x80,    0x7ff   },
		{0x800,   0xd7ff  },
		{0xe000,  0xffff  },
		{0x10000, RUNE_MAX},
	};
	int r = 0;

	for (size_t i = 0; i < s->n; i++) {
		for (size_t j = 0; r == 0 && j < ARRAY_LEN(spans); j++) {
			uint32_t lo = s->r[i].lo, hi = s->r[i].hi;

			if (lo < spans[j].lo)
				lo = spans[j].lo;
			if (hi > spans[j].hi)
				hi = spans[j].hi;
			if (lo <= hi)
				r = print_sequences(out, lo, hi);
		}
	}
	return r;
}

bool re_set_all_wide(const struct re_set *s)
{
	return s->n && s->r[s->n - 1].lo <= 0x80 && s->r[s->n - 1].hi == RUNE_MAX;
}

int re_set_print(struct buf *out, const struct re_set *s, bool loose)
{
	bool ascii = s->n && s->r[0].lo < 0x80;
	int r;

	if (!s->n)
		return buf_puts(out, loose ? "[\\x00-\\xff]" : "(?!)");
	if (!re_set_wide(s))
		return print_ascii(out, s, false);
	if (loose)
		return print_ascii(out, s, true);
	/* Atomic: once a character is taken whole, its first byte alone is no choice. */
	r = buf_puts(out, "(?>");
	if (r == 0 && re_set_all_wide(s)) { /* short: such a set is often repeated */
		r = print_ascii(out, s, true);
		return r == 0 ? buf_puts(out, "[\\x80-\\xbf]{0,3})") : r;
	}
	if (r == 0)
		r = ascii ? print_ascii(out, s, false) : buf_puts(out, "(?!)");
	if (r == 0)
		r = print_wide(out, s);
	if (r == 0 && re_set_has(s, 0xfffd))
		r = buf_puts(out, "|[\\x80-\\xff]");
	return r == 0 ? buf_puts(out, ")") : r;
}
