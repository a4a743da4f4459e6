/* SPDX-License-Identifier: Apache-2.0 */
/* The table: secrets, and the matchers made of them. */
#include "egress/swap.h"

#include "egress/swap_impl.h"
#include "egress/wipe.h"
#include "policy/host.h"

#include <sodium/core.h>
#include <sodium/utils.h>
#include <strings.h>

#define TOTAL_MAX (256u << 10) /* bytes of all values: their forms are locked memory */

int swap_new(struct swap_table **ret)
{
	struct swap_table *t;

	if (sodium_init() < 0)
		return -ENOSYS;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	*ret = t;
	return 0;
}

static void secret_clear(struct swap_secret *s)
{
	for (size_t i = 0; i < s->n_hosts; i++)
		free(s->host[i]);
	free(s->host);
	free(s->name);
	free(s->placeholder);
	sodium_free(s->value); /* wipes; NULL is fine */
	*s = (struct swap_secret){0};
}

void swap_free(struct swap_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		secret_clear(&t->secret[i]);
	sodium_free(t->out);
	sodium_free(t->find);
	sodium_free(t->back);
	sodium_free(t->plain);
	sodium_free(t->bytes);
	free(t->find_of);
	free(t->plain_of);
	free(t->marks);
	free(t->form);
	free(t);
}

static int add_hosts(struct swap_secret *s, const char *hosts)
{
	s->host = calloc(SWAP_HOSTS_MAX, sizeof(*s->host));
	if (!s->host)
		return -ENOMEM;
	while (*hosts) {
		size_t n = strcspn(hosts, ",");
		char norm[HOST_MAX + 1];
		enum host_kind kind;
		char *one;

		if (s->n_hosts == SWAP_HOSTS_MAX)
			return -E2BIG;
		one = strndup(hosts, n);
		if (!one)
			return -ENOMEM;
		s->host[s->n_hosts++] = one;
		if (host_pattern(one, &kind, norm) < 0)
			return -EINVAL;
		hosts += n + (hosts[n] == ',');
	}
	return s->n_hosts ? 0 : -EINVAL;
}

static bool is_space(unsigned char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* White space around a value is lost in a header, and with it that way to know it. */
static void find_core(struct swap_secret *s)
{
	size_t end = s->n;

	while (s->lead < end && is_space(s->value[s->lead]))
		s->lead++;
	while (end > s->lead && is_space(s->value[end - 1]))
		end--;
	s->core = end - s->lead;
}

static void classify(struct swap_secret *s)
{
	find_core(s);
	s->line_safe = s->no_breaks = true;
	for (size_t i = 0; i < s->n; i++) {
		unsigned char c = s->value[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			s->line_safe = false;
		if (c == '\r' || c == '\n' || c == '\0')
			s->no_breaks = false;
	}
}

static int fill(struct swap_secret *s, const char *name, const char *placeholder,
		const char *value, size_t n, const char *hosts)
{
	s->name = strdup(name);
	s->placeholder = (unsigned char *)strdup(placeholder);
	s->value = sodium_malloc(n);
	if (!s->name || !s->placeholder || !s->value)
		return -ENOMEM;
	s->n_placeholder = strlen(placeholder);
	memcpy(s->value, value, n);
	s->n = n;
	classify(s);
	return add_hosts(s, hosts);
}

static bool placeholder_ok(const struct swap_table *t, const char *p)
{
	size_t n = strlen(p);

	if (n < SWAP_MIN || n > SWAP_VALUE_MAX ||
	    strspn(p,
		   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") !=
		    n)
		return false;
	for (size_t i = 0; i < t->n; i++) { /* which of two would it be? */
		const char *other = (const char *)t->secret[i].placeholder;

		if (strstr(other, p) || strstr(p, other))
			return false;
	}
	return true;
}

int swap_add(struct swap_table *t, const char *name, const char *placeholder,
	     const char *value, size_t n, const char *hosts)
{
	struct swap_secret s = {0};
	size_t total = n;
	int r;

	if (n == 0 || n > SWAP_VALUE_MAX || !placeholder_ok(t, placeholder) || t->out)
		return -EINVAL;
	for (size_t i = 0; i < t->n; i++)
		total += t->secret[i].n;
	if (t->n == SWAP_MAX || total > TOTAL_MAX)
		return -E2BIG;
	r = fill(&s, name, placeholder, value, n, hosts);
	if (r < 0) {
		secret_clear(&s);
		return r;
	}
	t->secret[t->n++] = s;
	return 0;
}

static int set_new(struct needles **ret, const struct needle *v, size_t n)
{
	struct needles *set = sodium_malloc(needles_size(n));
	int r;

	if (!set)
		return -ENOMEM;
	r = needles_init(set, v, n);
	if (r < 0) {
		sodium_free(set);
		return r;
	}
	*ret = set;
	return 0;
}

/* Placeholders as they are, and (to be found only) inside base64. */
static int ready_out(struct swap_table *t)
{
	size_t per = 1 + SWAP_BASE64_SETS, n = 0;
	cleanup_free struct needle *v = calloc(t->n * per, sizeof(*v));
	cleanup_free unsigned char *text = NULL;
	struct swap_arena a = {0};
	size_t room = 0;
	int r;

	for (size_t i = 0; i < t->n; i++)
		room += SWAP_BASE64_SETS * (t->secret[i].n_placeholder * 4 / 3 + 4);
	a.mem = text = malloc(room);
	t->find_of = calloc(t->n * per, sizeof(*t->find_of));
	if (!v || !text || !t->find_of)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		v[n] = (struct needle){t->secret[i].placeholder,
				       t->secret[i].n_placeholder};
		t->find_of[n++] = (unsigned)i;
	}
	for (size_t i = 0; i < t->n; i++)
		for (unsigned k = 0; k < SWAP_BASE64_SETS; k++) {
			const struct swap_secret *s = &t->secret[i];
			unsigned bits;
			uint8_t tail;

			v[n].p = text + a.used;
			v[n].n = swap_base64(s->placeholder, s->n_placeholder, k % 3,
					     k >= 3, &a, &bits, &tail);
			t->find_of[n++] = (unsigned)i;
		}
	r = set_new(&t->out, v, t->n);
	if (r == 0)
		r = set_new(&t->find, v, n);
	if (r == 0)
		t->marks = take_ptr(text);
	return r;
}

static int ready_plain(struct swap_table *t)
{
	struct needle v[SWAP_MAX];
	size_t n = 0;

	t->plain_of = calloc(t->n, sizeof(*t->plain_of));
	if (!t->plain_of)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		const struct swap_secret *s = &t->secret[i];

		if (s->core < NEEDLE_MIN)
			continue;
		t->plain_of[n] = (unsigned)i;
		v[n++] = (struct needle){s->value + s->lead, s->core};
		t->spaces |= memchr(s->value + s->lead, ' ', s->core) != NULL;
	}
	return set_new(&t->plain, v, n);
}

static int ready_back(struct swap_table *t)
{
	cleanup_free struct needle *v = NULL;
	struct swap_arena a = {0};
	size_t n = 0;
	int r;

	for (size_t i = 0; i < t->n; i++)
		n += swap_forms(&t->secret[i], (unsigned)i, &a, NULL);
	if (n == 0)
		return 0;
	t->form = calloc(n, sizeof(*t->form));
	t->bytes = sodium_malloc(a.used);
	v = calloc(n, sizeof(*v));
	if (!t->form || !t->bytes || !v)
		return -ENOMEM;
	a = (struct swap_arena){.mem = t->bytes};
	for (size_t i = 0; i < t->n; i++)
		t->n_forms +=
			swap_forms(&t->secret[i], (unsigned)i, &a, t->form + t->n_forms);
	for (size_t i = 0; i < n; i++)
		v[i] = (struct needle){t->form[i].from, t->form[i].n};
	r = set_new(&t->back, v, n);
	return r < 0 ? r : ready_plain(t);
}

int swap_ready(struct swap_table *t)
{
	int r;

	if (t->n == 0 || t->out)
		return 0;
	r = ready_out(t);
	return r < 0 ? r : ready_back(t);
}

const char *swap_find(const struct swap_table *t, const void *p, size_t n)
{
	struct needle_hit hit;
	struct swap_view v;
	const char *name = NULL;

	if (!t->find || swap_view(&v, SWAP_CODE_MARKS, NULL, p, n, true) < 0)
		return NULL;
	if (needles_next(t->find, v.p, v.n, 0, true, &hit) == NEEDLE_HIT)
		name = t->secret[t->find_of[hit.id]].name;
	swap_view_clear(&v);
	return name;
}

bool swap_in_name(const struct swap_table *t, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < t->n; i++) {
		const struct swap_secret *s = &t->secret[i];
		const char *core = (const char *)s->value + s->lead;

		for (size_t at = 0; s->core >= NEEDLE_MIN && at + s->core <= n; at++)
			if (strncasecmp(name + at, core, s->core) == 0)
				return true;
	}
	return false;
}

int swap_redact(const struct swap_table *t, struct buf *text)
{
	const unsigned char *p = (const unsigned char *)text->data;
	struct buf out = BUF_INIT(text->max);
	struct swap_scan scan;
	struct swap_span f;
	size_t done = 0;
	int r, found = 0;

	if (!t->back || text->len == 0)
		return 0;
	r = swap_scan_begin(&scan, t, UINT64_MAX, p, text->len);
	while (r == 0 && swap_scan_next(&scan, &f)) {
		found = 1;
		if (f.at >= done) {
			r = buf_append(&out, p + done, f.at - done);
			if (r == 0)
				r = buf_printf(&out, "[%s]", t->secret[f.secret].name);
		}
		done = f.end > done ? f.end : done;
	}
	swap_scan_end(&scan);
	if (r == 0 && found)
		r = buf_append(&out, p + done, text->len - done);
	if (r < 0 || !found) {
		buf_clear(&out);
		return r;
	}
	wipe_clear(text);
	*text = out;
	return 0;
}
