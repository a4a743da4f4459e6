/* SPDX-License-Identifier: Apache-2.0 */
#include "base/redact.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/needles.h"
#include "base/util.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#define NAME_BYTES 64

/* One way to write one value. */
struct known {
	char name[NAME_BYTES];
	unsigned char *p; /* locked, a mapping of its own */
	size_t n, mapped;
};

static struct {
	pthread_mutex_t lock;
	struct known v[REDACT_MAX];
	size_t n;
	struct needles *set; /* of those of NEEDLE_MIN bytes or more; NULL: none */
	size_t set_size;
	unsigned char of[REDACT_MAX]; /* index into v of each needle */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *locked_map(size_t n)
{
	void *p =
		mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	mlock(p, n); /* beyond the limit it works all the same */
	madvise(p, n, MADV_DONTDUMP);
	return p;
}

static void locked_unmap(void *p, size_t n)
{
	if (!p)
		return;
	explicit_bzero(p, n);
	munmap(p, n);
}

static void forget(size_t i)
{
	locked_unmap(all.v[i].p, all.v[i].mapped);
	memmove(&all.v[i], &all.v[i + 1], (--all.n - i) * sizeof(all.v[0]));
}

static void rebuild(void)
{
	struct needle v[REDACT_MAX];
	size_t n = 0;

	locked_unmap(all.set, all.set_size);
	all.set = NULL;
	for (size_t i = 0; i < all.n; i++)
		if (all.v[i].n >= NEEDLE_MIN) {
			all.of[n] = (unsigned char)i;
			v[n++] = (struct needle){all.v[i].p, all.v[i].n};
		}
	if (n == 0)
		return;
	all.set_size = needles_size(n);
	all.set = locked_map(all.set_size);
	if (all.set)
		needles_init(all.set, v, n);
}

static void add(const char *name, const char *value, size_t n)
{
	struct known *k;

	for (size_t i = 0; i < all.n; i++)
		if (all.v[i].n == n && memcmp(all.v[i].p, value, n) == 0)
			return;
	if (all.n == REDACT_MAX)
		forget(0);
	k = &all.v[all.n];
	k->p = locked_map(n);
	if (!k->p)
		return;
	memcpy(k->p, value, n);
	k->n = k->mapped = n;
	snprintf(k->name, sizeof(k->name), "%s", name);
	all.n++;
}

/* As a JSON writer escapes it; 0: as it is. */
static size_t json_form(const char *value, size_t n, char *out)
{
	static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)value[i];
		const char *s = c ? strchr(special, c) : NULL;

		if (s) {
			out[k++] = '\\';
			out[k++] = letter[s - special];
		} else if (c < 0x20) {
			k += (size_t)snprintf(out + k, 7, "\\u%04x", c);
		} else {
			out[k++] = (char)c;
		}
	}
	return k == n ? 0 : k;
}

void redact_add(const char *name, const char *value, size_t n)
{
	size_t room = n * 6 + 1, k;
	char *escaped;

	if (n < REDACT_MIN)
		return;
	escaped = locked_map(room);
	pthread_mutex_lock(&all.lock);
	add(name, value, n);
	k = escaped ? json_form(value, n, escaped) : 0;
	if (k)
		add(name, escaped, k);
	rebuild();
	error_redact = redact_text;
	pthread_mutex_unlock(&all.lock);
	locked_unmap(escaped, room);
}

void redact_clear(void)
{
	pthread_mutex_lock(&all.lock);
	while (all.n)
		forget(all.n - 1);
	rebuild();
	error_redact = NULL;
	pthread_mutex_unlock(&all.lock);
}

bool redact_empty(void)
{
	return error_redact == NULL;
}

/* ---- looking
 * ---------------------------------------------------------------------------- */

struct place {
	size_t at, n;
	const char *name;
};

static void nearer(struct place *best, size_t at, const struct known *k)
{
	if (best->name && (best->at < at || (best->at == at && best->n >= k->n)))
		return;
	*best = (struct place){at, k->n, k->name};
}

/* A search; where the values that are too short for the set come next, so that a text
 * full of one is not searched for another again and again. */
struct search {
	const char *text;
	size_t n, from;
	size_t next[REDACT_MAX]; /* n: nowhere */
	bool known[REDACT_MAX];
};

static void next_short(struct search *q, size_t i)
{
	const struct known *k = &all.v[i];
	const char *p;

	if (q->known[i] && q->next[i] >= q->from)
		return;
	p = memmem(q->text + q->from, q->n - q->from, k->p, k->n);
	q->next[i] = p ? (size_t)(p - q->text) : q->n;
	q->known[i] = true;
}

/* The first value at or after q->from. */
static bool next_value(struct search *q, struct place *ret)
{
	struct needle_hit hit;

	ret->name = NULL;
	if (all.set && needles_next(all.set, (const unsigned char *)q->text, q->n,
				    q->from, true, &hit) == NEEDLE_HIT)
		nearer(ret, hit.at, &all.v[all.of[hit.id]]);
	for (size_t i = 0; i < all.n; i++) {
		if (all.set && all.v[i].n >= NEEDLE_MIN)
			continue;
		next_short(q, i);
		if (q->next[i] < q->n)
			nearer(ret, q->next[i], &all.v[i]);
	}
	return ret->name != NULL;
}

/* 1: out has the new text; 0: nothing to hide. Overlapping values are hidden whole. */
static int rewrite(const char *text, size_t n, struct buf *out)
{
	struct search q = {.text = text, .n = n};
	struct place p;
	size_t done = 0;
	int r = 0, found = 0;

	while (r == 0 && q.from < n && next_value(&q, &p)) {
		found = 1;
		if (p.at >= done) {
			r = buf_append(out, text + done, p.at - done);
			if (r == 0)
				r = buf_printf(out, "[%s]", p.name);
		}
		if (p.at + p.n > done)
			done = p.at + p.n;
		q.from = p.at + 1;
	}
	if (r == 0 && found)
		r = buf_append(out, text + done, n - done);
	return r < 0 ? r : found;
}

static int look(const char *text, size_t n, struct buf *out)
{
	int r;

	if (redact_empty())
		return 0;
	pthread_mutex_lock(&all.lock);
	r = rewrite(text, n, out);
	pthread_mutex_unlock(&all.lock);
	return r;
}

void redact_text(char *text, size_t size)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	size_t n = strlen(text);
	int r;

	if (n + 1 >= size) /* it was cut: perhaps in the middle of a value */
		text[redact_safe(text, n)] = '\0';
	r = look(text, strlen(text), &out);
	if (r > 0)
		snprintf(text, size, "%s", out.data);
	else if (r < 0)
		snprintf(text, size, "[redacted]");
}

int redact_string(char **text)
{
	struct buf out = BUF_INIT(1u << 30);
	int r = *text ? look(*text, strlen(*text), &out) : 0;

	if (r > 0) {
		explicit_bzero(*text, strlen(*text));
		free(*text);
		*text = buf_steal(&out);
	} else if (r < 0) {
		explicit_bzero(*text, strlen(*text));
		buf_clear(&out);
	}
	return r < 0 ? r : 0;
}

int redact_bytes(const char *p, size_t n, struct buf *out)
{
	int r = look(p, n, out);

	if (r == 0)
		return buf_append(out, p, n);
	return r < 0 ? r : 0;
}

/* The end of a text that a value of few bytes begins with. */
static size_t safe_short(const char *p, size_t n)
{
	size_t safe = n;

	for (size_t i = 0; i < all.n; i++) {
		const struct known *k = &all.v[i];

		if (all.set && k->n >= NEEDLE_MIN)
			continue;
		for (size_t len = min_size(k->n - 1, n); len > n - safe; len--)
			if (memcmp(p + n - len, k->p, len) == 0)
				safe = n - len;
	}
	return safe;
}

size_t redact_safe(const char *p, size_t n)
{
	struct needle_hit hit = {0};
	enum needle_found f = NEEDLE_NONE;
	size_t from = 0, safe = n;

	if (redact_empty())
		return n;
	pthread_mutex_lock(&all.lock);
	do {
		if (all.set)
			f = needles_next(all.set, (const unsigned char *)p, n, from,
					 false, &hit);
		from = hit.at + 1;
	} while (f == NEEDLE_HIT);
	safe = safe_short(p, n);
	pthread_mutex_unlock(&all.lock);
	return f == NEEDLE_BEGINNING ? min_size(hit.at, safe) : safe;
}
