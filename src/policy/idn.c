/* SPDX-License-Identifier: Apache-2.0 */
/* idn - see idn.h. A table of scripts, and punycode as in RFC 3492. */
#include "policy/idn.h"

#include "base/util.h"
#include "policy/utf8.h"

#include <stdbool.h>

enum script {
	NO_SCRIPT,
	COMMON, /* digits and '-', in every label */
	LATIN,
	GREEK,
	CYRILLIC,
	ARMENIAN,
	HEBREW,
	ARABIC,
	DEVANAGARI,
	THAI,
	GEORGIAN,
	EAST_ASIAN,
};

/* step 2: capital and small letters take turns, and from is a small one */
static const struct {
	uint32_t from, to;
	uint8_t step;
	enum script script;
} scripts[] = {
	{'-',    '-',    1, COMMON    },
	{'0',    '9',    1, COMMON    },
	{'a',    'z',    1, LATIN     },
	{0x00df, 0x00f6, 1, LATIN     },
	{0x00f8, 0x00ff, 1, LATIN     },
	{0x0101, 0x0131, 2, LATIN     },
	{0x0135, 0x0137, 2, LATIN     },
	{0x013a, 0x013e, 2, LATIN     },
	{0x0142, 0x0148, 2, LATIN     },
	{0x014b, 0x0177, 2, LATIN     },
	{0x017a, 0x017e, 2, LATIN     },
	{0x01a1, 0x01a1, 1, LATIN     },
	{0x01b0, 0x01b0, 1, LATIN     },
	{0x0219, 0x021b, 2, LATIN     },
	{0x0259, 0x0259, 1, LATIN     },
	{0x0390, 0x0390, 1, GREEK     },
	{0x03ac, 0x03ce, 1, GREEK     },
	{0x0430, 0x045f, 1, CYRILLIC  },
	{0x0491, 0x0491, 1, CYRILLIC  },
	{0x0561, 0x0586, 1, ARMENIAN  },
	{0x05d0, 0x05ea, 1, HEBREW    },
	{0x0620, 0x063f, 1, ARABIC    },
	{0x0641, 0x064a, 1, ARABIC    },
	{0x0671, 0x0674, 1, ARABIC    },
	{0x0679, 0x06d3, 1, ARABIC    },
	{0x0901, 0x0957, 1, DEVANAGARI},
	{0x0e01, 0x0e32, 1, THAI      },
	{0x0e34, 0x0e3a, 1, THAI      },
	{0x0e40, 0x0e4e, 1, THAI      },
	{0x10d0, 0x10fa, 1, GEORGIAN  },
	{0x1ea1, 0x1ef9, 2, LATIN     },
	{0x3005, 0x3007, 1, EAST_ASIAN},
	{0x3041, 0x3096, 1, EAST_ASIAN},
	{0x30a1, 0x30fa, 1, EAST_ASIAN},
	{0x30fc, 0x30fc, 1, EAST_ASIAN},
	{0x3400, 0x4dbf, 1, EAST_ASIAN},
	{0x4e00, 0x9fff, 1, EAST_ASIAN},
	{0xac00, 0xd7a3, 1, EAST_ASIAN},
};

static enum script script_of(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
		if (c >= scripts[i].from && c <= scripts[i].to &&
		    (c - scripts[i].from) % scripts[i].step == 0)
			return scripts[i].script;
	return NO_SCRIPT;
}

/* The code points, if they may stand together. */
static int decode(const char *in, size_t n, uint32_t out[IDN_LABEL_MAX])
{
	enum script script = COMMON;
	size_t len = 0;

	for (size_t at = 0; at < n; len++) {
		uint32_t c;
		enum script s;
		int step = utf8_get(in + at, n - at, &c);

		if (step < 0 || len == IDN_LABEL_MAX)
			return -EINVAL;
		at += (size_t)step;
		if (c >= 'A' && c <= 'Z')
			c |= 0x20;
		s = script_of(c);
		if (s == NO_SCRIPT || (s != COMMON && script != COMMON && s != script))
			return -EINVAL;
		if (s != COMMON)
			script = s;
		out[len] = c;
	}
	return len == 0 || out[0] == '-' || out[len - 1] == '-' ? -EINVAL : (int)len;
}

/* ---- punycode ------------------------------------------------------------------- */

enum { BASE = 36, TMIN = 1, TMAX = 26, SKEW = 38, DAMP = 700, BIAS = 72, FIRST_N = 128 };

struct out {
	char *at;
	size_t n;
	bool full;
};

static void put(struct out *o, char c)
{
	if (o->n == IDN_LABEL_MAX)
		o->full = true;
	else
		o->at[o->n++] = c;
}

static uint32_t adapt(uint32_t delta, uint32_t points, bool first)
{
	uint32_t k = 0;

	delta = first ? delta / DAMP : delta / 2;
	delta += delta / points;
	for (; delta > (BASE - TMIN) * TMAX / 2; k += BASE)
		delta /= BASE - TMIN;
	return k + (BASE - TMIN + 1) * delta / (delta + SKEW);
}

static void put_number(struct out *o, uint32_t q, uint32_t bias)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	for (uint32_t k = BASE;; k += BASE) {
		uint32_t t = k <= bias ? TMIN : k >= bias + TMAX ? TMAX : k - bias;

		if (q < t) {
			put(o, digits[q]);
			return;
		}
		put(o, digits[t + (q - t) % (BASE - t)]);
		q = (q - t) / (BASE - t);
	}
}

static uint32_t next_point(const uint32_t *in, size_t n, uint32_t from)
{
	uint32_t m = UINT32_MAX;

	for (size_t i = 0; i < n; i++)
		if (in[i] >= from && in[i] < m)
			m = in[i];
	return m;
}

/* At most 63 code points below 2^17: nothing here can overflow 32 bits. */
static void punycode(const uint32_t *in, size_t n, struct out *o)
{
	uint32_t point = FIRST_N, delta = 0, bias = BIAS;
	size_t basic = 0, done;

	for (size_t i = 0; i < n; i++)
		if (in[i] < FIRST_N) {
			put(o, (char)in[i]);
			basic++;
		}
	if (basic > 0)
		put(o, '-');
	for (done = basic; done < n; delta++, point++) {
		uint32_t m = next_point(in, n, point);

		delta += (m - point) * (uint32_t)(done + 1);
		point = m;
		for (size_t i = 0; i < n; i++) {
			delta += in[i] < point;
			if (in[i] != point)
				continue;
			put_number(o, delta, bias);
			bias = adapt(delta, (uint32_t)(done + 1), done == basic);
			delta = 0;
			done++;
		}
	}
}

int idn_label(const char *in, size_t n, char out[IDN_LABEL_MAX])
{
	uint32_t points[IDN_LABEL_MAX];
	int len = decode(in, n, points);
	struct out o = {.at = out};

	if (len < 0)
		return len;
	for (const char *s = "xn--"; *s; s++)
		put(&o, *s);
	punycode(points, (size_t)len, &o);
	return o.full ? -EINVAL : (int)o.n;
}
