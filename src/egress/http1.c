/* SPDX-License-Identifier: Apache-2.0 */
/* http1 - the head as a thing: its memory, its fields, and the classes of bytes in it. */
#include "egress/http1_priv.h"

#include "base/util.h"

#include <strings.h>

#define T CH_TOKEN
#define V CH_VALUE
#define G CH_TARGET
#define H CH_HOST
#define D CH_DIGIT
#define X CH_HEX
/* Later lines win: the wide ranges come first. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
const uint8_t http_chars[256] = {
	['\t'] = V,
	[' '] = V,
	[0x21 ... 0x7e] = V | G,
	[0x80 ... 0xff] = V,
	['#'] = T | V, /* no fragment is ever sent */
	['!'] = T | V | G,
	['$'] = T | V | G,
	['%'] = T | V | G,
	['&'] = T | V | G,
	['\''] = T | V | G,
	['*'] = T | V | G,
	['+'] = T | V | G,
	['-'] = T | V | G | H,
	['.'] = T | V | G | H,
	['^'] = T | V | G,
	['_'] = T | V | G | H,
	['`'] = T | V | G,
	['|'] = T | V | G,
	['~'] = T | V | G,
	['0' ... '9'] = T | V | G | H | D | X,
	['A' ... 'Z'] = T | V | G | H,
	['a' ... 'z'] = T | V | G | H,
	['A' ... 'F'] = T | V | G | H | X,
	['a' ... 'f'] = T | V | G | H | X,
};
#pragma GCC diagnostic pop
#undef T
#undef V
#undef G
#undef H
#undef D
#undef X

bool http_all(const char *p, size_t n, unsigned class)
{
	for (size_t i = 0; i < n; i++)
		if (!(http_chars[(unsigned char)p[i]] & class))
			return false;
	return n > 0;
}

int http_hex(char c)
{
	if (!(http_chars[(unsigned char)c] & CH_HEX))
		return -1;
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

struct block {
	struct block *next;
	size_t n;
	char text[];
};

char *http_keep(struct http_head *h, const char *p, size_t n)
{
	struct block *b = malloc(sizeof(*b) + n + 1);

	if (!b)
		return NULL;
	b->next = h->store;
	b->n = n;
	h->store = b;
	memcpy(b->text, p, n);
	b->text[n] = '\0';
	return b->text;
}

void http_head_forget(struct http_head *h)
{
	for (struct block *b = h->store; b; b = b->next) {
		char *from = b->text;

		/* The method is what the first block begins with. */
		if (h->method == from)
			from += strlen(from) + 1;
		explicit_bzero(from, b->n - (size_t)(from - b->text));
	}
	h->target = h->authority = h->scheme = h->phrase = NULL;
	h->n_fields = 0;
}

void http_head_clear(struct http_head *h)
{
	struct block *b = h->store;

	while (b) {
		struct block *next = b->next;

		explicit_bzero(b->text, b->n); /* secrets may be in it */
		free(b);
		b = next;
	}
	*h = (struct http_head){0};
}

const char *http_field_get(const struct http_head *h, const char *name)
{
	for (size_t i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->field[i].name, name) == 0)
			return h->field[i].value;
	return NULL;
}

static void field_remove(struct http_head *h, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n_fields; i++)
		if (strcasecmp(h->field[i].name, name) != 0)
			h->field[kept++] = h->field[i];
	h->n_fields = kept;
}

static bool fits_field(const char *value)
{
	return !*value || http_all(value, strlen(value), CH_VALUE);
}

int http_field_set(struct http_head *h, const char *name, const char *value)
{
	char *kept_name, *kept_value;

	if (!http_all(name, strlen(name), CH_TOKEN) || (value && !fits_field(value)))
		return -EINVAL;
	if (value && h->n_fields == HTTP_FIELDS_MAX && !http_field_get(h, name))
		return -ENOBUFS;
	if (!value) {
		field_remove(h, name);
		return 0;
	}
	kept_name = http_keep(h, name, strlen(name));
	kept_value = http_keep(h, value, strlen(value));
	if (!kept_name || !kept_value)
		return -ENOMEM;
	field_remove(h, name);
	h->field[h->n_fields++] =
		(struct http_field){.name = kept_name, .value = kept_value};
	return 0;
}

static int replace(struct http_head *h, char **at, const char *text)
{
	char *kept = http_keep(h, text, strlen(text));

	if (!kept)
		return -ENOMEM;
	*at = kept;
	return 0;
}

int http_field_replace(struct http_head *h, size_t i, const char *value)
{
	if (i >= h->n_fields || !fits_field(value))
		return -EINVAL;
	return replace(h, &h->field[i].value, value);
}

int http_target_set(struct http_head *h, const char *target)
{
	if (!http_all(target, strlen(target), CH_TARGET))
		return -EINVAL;
	return replace(h, &h->target, target);
}

int http_authority_set(struct http_head *h, const char *authority)
{
	char *before = h->authority;
	int r = replace(h, &h->authority, authority);

	if (r < 0)
		return r;
	if (!http_check_authority(h->authority))
		return 0;
	h->authority = before;
	return -EINVAL;
}
