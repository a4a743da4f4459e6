/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands for a value inside: as long as it, of [A-Za-z0-9_-], and with the part of
 * it that tells nothing but its kind ("ghp_", "sk-ant-api03-"), because some tools look
 * at that. The rest is random, and differs for every sandbox.
 */
#include "core/secret.h"

#include "base/io.h"
#include "base/util.h"

#include <ctype.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>

#define PREFIX_MAX 16
#define RANDOM_MIN 16 /* characters: 96 bits */
#define NOT_WORDS 12  /* of these characters after a prefix, one is a digit */

/* Well-known kinds; the longest that fits. Others are found by the rule below. */
static const char *const known[] = {
	"AIza",     "AKIA",  "ASIA",    "eyJ",           "ghp_",     "gho_",
	"ghs_",     "ghu_",  "glpat-",  "gsk_",          "hf_",      "npm_",
	"pypi-",    "sk-",   "sk-ant-", "sk-ant-api03-", "sk-proj-", "sk_live_",
	"sk_test_", "xoxb-", "xoxp-",   "github_pat_"};

static const char alphabet[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";

/* A word of a public prefix: letters, and perhaps a version of up to two digits. */
static bool is_word(const char *p, size_t n)
{
	size_t letters = 0;

	while (letters < n && isalpha((unsigned char)p[letters]))
		letters++;
	if (letters == 0 || letters > 8 || n - letters > 2)
		return false;
	for (size_t i = letters; i < n; i++)
		if (!isdigit((unsigned char)p[i]))
			return false;
	return true;
}

static size_t known_prefix(const char *value, size_t n)
{
	size_t best = 0;

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t k = strlen(known[i]);

		if (k > best && n >= k + RANDOM_MIN && memcmp(value, known[i], k) == 0)
			best = k;
	}
	return best;
}

/* Up to the last '-' or '_' in the first third, as long as everything before is words and
 * what follows is not: neither a random value with a dash in it nor a phrase of words
 * gives its beginning away. */
static size_t prefix_len(const char *value, size_t n)
{
	size_t max = min_size(n / 3, PREFIX_MAX), keep = known_prefix(value, n), from = 0;

	if (keep)
		return keep;
	for (size_t i = 0; i < max; i++) {
		if (value[i] != '-' && value[i] != '_')
			continue;
		if (!is_word(value + from, i - from))
			break;
		keep = from = i + 1;
	}
	for (size_t i = keep; n - keep >= RANDOM_MIN && i < keep + NOT_WORDS; i++)
		if (isdigit((unsigned char)value[i]))
			return keep;
	return 0;
}

/* The first character has the upper half of its byte in common with the value's, so that
 * base64 of either begins alike wherever it begins (egress/swap_form.c). */
static char first_char(char like)
{
	char same[64];
	uint32_t n = 0;

	for (const char *a = alphabet; *a; a++)
		if (*a != '-' && *a != '_' && (*a & 0xf0) == (like & 0xf0))
			same[n++] = *a;
	return n ? same[randombytes_uniform(n)] : alphabet[randombytes_uniform(62)];
}

static char *make(const char *value, size_t n)
{
	size_t len = n < SECRET_PLACEHOLDER_MIN ? SECRET_PLACEHOLDER_MIN : n;
	size_t keep = prefix_len(value, n);
	char *p = malloc(len + 1);

	if (!p)
		return NULL;
	memcpy(p, value, keep);
	do {
		for (size_t i = keep; i < len; i++)
			p[i] = alphabet[randombytes_uniform(64)];
		if (keep == 0)
			p[0] = n > RANDOM_MIN ? first_char(value[0])
					      : alphabet[randombytes_uniform(62)];
	} while (len == n && memcmp(p, value, n) == 0);
	p[len] = '\0';
	return p;
}

/* For the secret at i; none of the others' is part of it, nor it of theirs. */
static bool usable(const char *p, const struct secrets *all, size_t i)
{
	const struct secret *s = &all->v[i];
	size_t n = strlen(p);

	for (size_t k = 0; k < all->n; k++) {
		const char *other = k == i ? NULL : all->v[k].placeholder;

		if (other && (strstr(other, p) || strstr(p, other)))
			return false;
	}

	return n >= SECRET_PLACEHOLDER_MIN && n <= SECRET_VALUE_MAX &&
	       strspn(p, alphabet) == n && (n != s->n || memcmp(p, s->value, n) != 0);
}

static json_t *load(int record)
{
	cleanup_buf struct buf b = BUF_INIT(4u << 20);
	json_t *o = NULL;

	if (record >= 0 && read_file_at(record, SECRET_PLACEHOLDERS, &b) == 0)
		o = json_loadb(b.data ? b.data : "", b.len, 0, NULL);
	if (json_is_object(o))
		return o;
	json_decref(o); /* damaged: what was in it is made anew */
	return json_object();
}

int secrets_placeholders(struct secrets *s, int record, struct cove_error *err)
{
	json_t *known_ones = load(record);
	bool changed = false;
	char *text = NULL;
	int r = known_ones ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < s->n; i++) {
		struct secret *v = &s->v[i];
		const char *old = json_string_value(json_object_get(known_ones, v->name));

		if (v->inject != INJECT_PLACEHOLDER || v->placeholder)
			continue;
		if (old && usable(old, s, i)) {
			v->placeholder = strdup(old);
			r = v->placeholder ? 0 : -ENOMEM;
			continue;
		}
		changed = true;
		v->placeholder = make(v->value, v->n);
		if (!v->placeholder ||
		    json_object_set_new(known_ones, v->name,
					json_string(v->placeholder)) < 0)
			r = -ENOMEM;
	}
	if (r == 0 && changed && record >= 0) {
		text = json_dumps(known_ones, JSON_INDENT(2) | JSON_SORT_KEYS);
		r = text ? write_file_atomic(record, SECRET_PLACEHOLDERS, text,
					     strlen(text), 0600, 0)
			 : -ENOMEM;
		free(text);
	}
	json_decref(known_ones);
	return r < 0 ? fail(err, COVE_EIO, -r, "placeholders") : 0;
}
