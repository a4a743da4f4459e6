/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: placeholders into values.
 *
 * One pass, never over its own output: a value that holds another secret's placeholder
 * is sent as it is. Whether all of a text may go is decided before any of it is changed.
 */
#include "egress/swap_impl.h"
#include "egress/wipe.h"

#include <sodium/utils.h>
#include <strings.h>

#include "policy/host.h"

uint64_t swap_allowed(const struct swap_table *t, const char *host, bool verified)
{
	uint64_t mask = 0;

	for (size_t i = 0; verified && i < t->n; i++)
		for (size_t k = 0; k < t->secret[i].n_hosts; k++)
			if (host_matches(t->secret[i].host[k], host))
				mask |= UINT64_C(1) << i;
	return mask;
}

static bool may_go(const struct swap_secret *s, enum swap_where where)
{
	if (where == SWAP_HEADER)
		return s->line_safe;
	return where != SWAP_TARGET || s->no_breaks;
}

void swap_note_use(struct swap_outcome *o, const char *name)
{
	o->replaced++;
	for (unsigned i = 0; i < o->n_used; i++)
		if (o->used[i] == name)
			return;
	if (o->n_used < ARRAY_LEN(o->used))
		o->used[o->n_used++] = name;
}

/* The first escape among view bytes [at, at + n): '%', '\\', or 0. */
static unsigned char escaped_how(const unsigned char *text, const struct swap_view *v,
				 size_t at, size_t n)
{
	size_t from = swap_place(v, at), end = swap_place(v, at + n);

	if (end - from == n)
		return 0;
	while (text[from] != '%' && text[from] != '\\')
		from++; /* neither is part of a placeholder */
	return text[from];
}

/* How a value is written: as the place needs it, or as the placeholder was. Always in
 * full: a value that is escaped here and there would not be known again when it comes
 * back. */
static enum swap_where writing(const struct swap_request *q, unsigned char how)
{
	if (q->basic)
		return SWAP_HEADER;
	if (how == '%')
		return SWAP_BODY_FORM;
	if (how && q->where != SWAP_TARGET && q->where != SWAP_BODY_FORM)
		return SWAP_BODY_JSON;
	return q->where;
}

static int put_value(const struct swap_secret *s, enum swap_where how, struct buf *out)
{
	char tmp[6];
	int r = 0;

	for (size_t i = 0; i < s->n && r == 0; i++)
		r = wipe_append(out, tmp, swap_escape(how, s->value[i], tmp));
	sodium_memzero(tmp, sizeof(tmp));
	return r;
}

/* May the value go where the placeholder was found, at this place of the text? */
static bool fits(const struct swap_request *q, unsigned id, const unsigned char *p,
		 size_t place, unsigned char how)
{
	struct swap_open open = q->open;

	if (!(q->allowed >> id & 1) || !may_go(&q->t->secret[id], q->where) ||
	    (how && q->keep))
		return false;
	swap_open_step(&open, p, place);
	return !open.percent && !open.slash;
}

/* Scans a view; *ret_used is in bytes of the text. */
static int run(struct swap_request *q, const unsigned char *p, const struct swap_view *v,
	       bool last, struct buf *out, struct swap_outcome *o, size_t *ret_used)
{
	size_t from = 0, done = 0, used;
	struct needle_hit hit;
	enum needle_found f;
	int r;

	while ((f = needles_next(q->t->out, v->p, v->n, from, last, &hit)) ==
	       NEEDLE_HIT) {
		const struct swap_secret *s = &q->t->secret[hit.id];
		unsigned char how = escaped_how(p, v, hit.at, s->n_placeholder);

		if (!fits(q, hit.id, p, swap_place(v, hit.at), how)) {
			o->violation = s->name;
			return 0;
		}
		from = hit.at + s->n_placeholder;
		if (!out)
			continue;
		r = wipe_append(out, p + done, swap_place(v, hit.at) - done);
		if (r == 0)
			r = put_value(s, writing(q, how), out);
		if (r < 0)
			return r;
		done = swap_place(v, from);
		swap_note_use(o, s->name);
	}
	used = f == NEEDLE_BEGINNING ? swap_place(v, hit.at) : v->cut;
	if (out)
		swap_open_step(&q->open, p, used);
	*ret_used = used;
	return out ? wipe_append(out, p + done, used - done) : 0;
}

int swap_out(struct swap_request *q, const unsigned char *p, size_t n, bool last,
	     struct buf *out, struct swap_outcome *o, size_t *ret_used)
{
	struct swap_view v;
	int r = swap_view(&v, SWAP_CODE_MARKS, NULL, p, n, last);

	if (r < 0)
		return r;
	r = run(q, p, &v, last, out, o, ret_used);
	swap_view_clear(&v);
	return r;
}

/* Replaces a whole text, or leaves it as it is (none there, or a violation). */
static int whole(struct swap_request *q, struct buf *text, struct swap_outcome *o)
{
	const unsigned char *p = (const unsigned char *)text->data;
	struct buf out = BUF_INIT(text->max);
	unsigned before = o->replaced;
	size_t used;
	int r;

	r = swap_out(q, p, text->len, true, NULL, o, &used);
	if (r < 0 || o->violation)
		return r;
	r = swap_out(q, p, text->len, true, &out, o, &used);
	if (r < 0 || o->replaced == before) {
		wipe_clear(&out);
		return r;
	}
	wipe_clear(text);
	*text = out;
	return 0;
}

/* Decodes the credentials of "Basic ..." into a buffer; -EINVAL: not base64. */
static int basic_decode(const char *p, size_t n, struct buf *plain)
{
	static const int variants[] = {
		sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING,
		sodium_base64_VARIANT_URLSAFE, sodium_base64_VARIANT_URLSAFE_NO_PADDING};
	int r = buf_reserve(plain, n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(variants); i++)
		if (sodium_base642bin((unsigned char *)plain->data, n, p, n, NULL,
				      &plain->len, NULL, variants[i]) == 0) {
			plain->data[plain->len] = '\0';
			return 0;
		}
	plain->len = 0;
	return -EINVAL;
}

static int basic_encode(const struct buf *plain, struct buf *text)
{
	const int variant = sodium_base64_VARIANT_ORIGINAL;
	size_t n = sodium_base64_encoded_len(plain->len, variant);
	struct buf out = BUF_INIT(text->max);
	int r = buf_puts(&out, "Basic ");

	if (r == 0)
		r = buf_reserve(&out, n);
	if (r < 0) {
		buf_clear(&out);
		return r;
	}
	sodium_bin2base64(out.data + out.len, n, (const unsigned char *)plain->data,
			  plain->len, variant);
	out.len += n - 1;
	wipe_clear(text);
	*text = out;
	return 0;
}

static int basic(struct swap_request *q, struct buf *text, struct swap_outcome *o)
{
	struct buf plain = BUF_INIT(text->max + SWAP_VALUE_MAX);
	size_t at = 5, end = text->len;
	unsigned before = o->replaced;
	int r;

	while (at < end && (text->data[at] == ' ' || text->data[at] == '\t'))
		at++;
	while (end > at && (text->data[end - 1] == ' ' || text->data[end - 1] == '\t'))
		end--;
	r = basic_decode(text->data + at, end - at, &plain);
	if (r == 0)
		r = whole(q, &plain, o);
	if (r == 0 && o->replaced > before)
		r = basic_encode(&plain, text);
	wipe_clear(&plain);
	return r == -EINVAL ? 0 : r;
}

static bool is_basic(const char *field, const struct buf *text)
{
	return field && text->len >= 6 && strncasecmp(text->data, "Basic", 5) == 0 &&
	       (text->data[5] == ' ' || text->data[5] == '\t') &&
	       (strcasecmp(field, "Authorization") == 0 ||
		strcasecmp(field, "Proxy-Authorization") == 0);
}

int swap_text(const struct swap_table *t, const char *host, bool verified,
	      enum swap_where where, const char *field, struct buf *text,
	      struct swap_outcome *o)
{
	struct swap_request q = {.t = t, .where = where};
	unsigned before = o->replaced;
	int r;

	if (!t->out || text->len == 0)
		return 0;
	if (where != SWAP_HEADER || !field ||
	    strcasecmp(field, "Proxy-Authorization") != 0)
		q.allowed = swap_allowed(t, host, verified);
	r = whole(&q, text, o);
	if (r < 0 || o->violation || where != SWAP_HEADER || !is_basic(field, text))
		return r;
	if (o->replaced > before) /* a value is not taken for base64 and written anew */
		return 0;
	q.basic = true;
	q.open = (struct swap_open){0};
	return basic(&q, text, o);
}
