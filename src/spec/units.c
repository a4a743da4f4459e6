/* SPDX-License-Identifier: Apache-2.0 */
/* units - numbers with units: sizes, durations, CPUs. Decimal only, exact, no locale. */
#include "spec/units.h"

#include "base/util.h"
#include "spec/spec.h"

#include <ctype.h>
#include <strings.h>

#define FRACTION_DIGITS 9
#define FRACTION_ONE 1000000000u

struct decimal {
	uint64_t whole;
	uint32_t fraction; /* in 1/FRACTION_ONE */
	bool nonzero;
};

/* Reads DIGITS[.DIGITS] and moves *text behind it. */
static int decimal_read(const char **text, struct decimal *d)
{
	const char *s = *text;
	uint32_t scale = FRACTION_ONE;

	*d = (struct decimal){0};
	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	for (; isdigit((unsigned char)*s); s++) {
		if (d->whole > (UINT64_MAX - 9) / 10)
			return -ERANGE;
		d->whole = d->whole * 10 + (uint64_t)(*s - '0');
		d->nonzero |= *s != '0';
	}
	if (*s == '.') {
		if (!isdigit((unsigned char)*++s))
			return -EINVAL;
		for (; isdigit((unsigned char)*s); s++) {
			scale /= 10;
			d->fraction += (uint32_t)(*s - '0') * scale;
			d->nonzero |= *s != '0';
		}
	}
	*text = s;
	return 0;
}

/* d times unit, rounded. What is not nothing may not become 0, which means "no limit". */
static int decimal_times(const struct decimal *d, uint64_t unit, uint64_t *ret)
{
	unsigned __int128 v = (unsigned __int128)d->whole * unit;

	v += ((unsigned __int128)d->fraction * unit + FRACTION_ONE / 2) / FRACTION_ONE;
	if (v > UINT64_MAX || (v == 0 && d->nonzero))
		return -ERANGE;
	*ret = (uint64_t)v;
	return 0;
}

struct suffix {
	const char *text;
	uint64_t factor;
};

static const struct suffix *suffix_find(const struct suffix *list, const char *text,
					size_t len)
{
	for (; list->text; list++)
		if (strlen(list->text) == len && strncasecmp(list->text, text, len) == 0)
			return list;
	return NULL;
}

static size_t word_len(const char *s)
{
	size_t n = 0;

	while (isalpha((unsigned char)s[n]))
		n++;
	return n;
}

int spec_parse_size(const char *text, uint64_t unit, uint64_t *ret_bytes)
{
	static const struct suffix sizes[] = {
		{"b",   1            },
		{"k",   1ull << 10   },
		{"kib", 1ull << 10   },
		{"kb",  1000         },
		{"m",   1ull << 20   },
		{"mib", 1ull << 20   },
		{"mb",  1000000      },
		{"g",   1ull << 30   },
		{"gib", 1ull << 30   },
		{"gb",  1000000000   },
		{"t",   1ull << 40   },
		{"tib", 1ull << 40   },
		{"tb",  1000000000000},
		{NULL,  0            },
	};
	struct decimal d;
	int r = decimal_read(&text, &d);

	if (r < 0)
		return r;
	if (*text) {
		const struct suffix *s;

		text += *text == ' ';
		s = suffix_find(sizes, text, strlen(text));
		if (!s)
			return -EINVAL;
		unit = s->factor;
	}
	return decimal_times(&d, unit, ret_bytes);
}

int spec_parse_duration(const char *text, uint64_t unit_ms, uint64_t *ret_ms)
{
	static const struct suffix times[] = {
		{"ms", 1       },
                {"s",  1000    },
                {"m",  60000   },
		{"h",  3600000 },
                {"d",  86400000},
                {NULL, 0       },
	};
	uint64_t total = 0, part;
	bool first = true;

	do { /* "1h30m" is a sum */
		const struct suffix *s = NULL;
		struct decimal d;
		int r = decimal_read(&text, &d);
		size_t n;

		if (r < 0)
			return r;
		text += first && *text == ' ';
		n = word_len(text);
		s = suffix_find(times, text, n);
		if (!s && (n || *text || !first || text[-1] == ' '))
			return -EINVAL;
		r = decimal_times(&d, s ? s->factor : unit_ms, &part);
		if (r < 0)
			return r;
		if (part > UINT64_MAX - total)
			return -ERANGE;
		total += part;
		text += n;
		first = false;
	} while (*text);
	*ret_ms = total;
	return 0;
}

int units_thousandths(const char *text, uint64_t *ret)
{
	struct decimal d;
	int r = decimal_read(&text, &d);

	if (r < 0)
		return r;
	return *text ? -EINVAL : decimal_times(&d, 1000, ret);
}

int units_count(const char *text, uint64_t *ret)
{
	struct decimal d;
	int r = decimal_read(&text, &d);

	if (r < 0)
		return r;
	if (*text || d.fraction)
		return -EINVAL;
	*ret = d.whole;
	return 0;
}
