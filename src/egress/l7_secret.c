/* SPDX-License-Identifier: Apache-2.0 */
/*
 * l7_secret - secrets in what passes: values into requests, placeholders into responses.
 *
 * Only verified TLS carries values. A placeholder towards a host that its secret does not
 * name, or in the clear, is a violation: the request is refused and the connection ends.
 * A request's body with a Content-Encoding or in a character set that is not bytes is
 * passed as it is: a placeholder in it stays one. A response to a request with a value in
 * it must not be encoded, as the value could come back inside; once a value was in a body
 * or a target, which servers store, no part of anything (Range) is asked for. Whoever a
 * secret names is trusted with it: a server that transforms what it reflects can still
 * show a value.
 */
#include "egress/l7.h"

#include "base/util.h"
#include "egress/wipe.h"

#include <stdlib.h>
#include <strings.h>

#define RANGE_MIN 1024         /* bytes of a part that may be asked for */
#define FIELD_MAX (256u << 10) /* of one field or target with values in it */

static const struct swap_table *table(const struct exchange *x)
{
	return x->l7->c->egress->secrets;
}

/* "" if an address was dialled: no secret names one that way. */
static const char *host_of(const struct exchange *x, char text[ADDR_TEXT])
{
	return conn_host(x->l7->c, text);
}

static void record_uses(struct exchange *x, const struct swap_outcome *o)
{
	struct conn *c = x->l7->c;

	for (unsigned i = 0; i < o->n_used; i++) {
		struct record r = {.kind = "secret",
				   .conn = c,
				   .verdict = "allow",
				   .rule = x->rule,
				   .method = x->req.method,
				   .path = x->log_path,
				   .secret = o->used[i]};

		egress_record(c->egress, &r);
	}
	if (o->replaced)
		x->secret_used = true;
}

/* Was it all right? If not, it is answered. */
static bool settle(struct exchange *x, int r, const struct swap_outcome *o)
{
	if (r < 0) {
		l7_answer(x->l7, 431, "secret", "too much for a request with secrets",
			  true);
		return false;
	}
	if (o->violation) {
		l7_violation(x, o->violation);
		return false;
	}
	return true;
}

/* One text of the head; *ret_changed: b holds it with values. */
static bool swap_piece(struct exchange *x, enum swap_where where, const char *field,
		       const char *text, struct buf *b, struct swap_outcome *all,
		       bool *ret_changed)
{
	struct swap_outcome o = {0};
	char host[ADDR_TEXT];
	int r;

	*ret_changed = false;
	wipe_empty(b);
	r = wipe_puts(b, text);
	if (r == 0 && *text)
		r = swap_text(table(x), host_of(x, host), x->l7->tls, where, field, b,
			      &o);
	if (!settle(x, r, &o))
		return false;
	*ret_changed = o.replaced > 0;
	all->replaced += o.replaced;
	for (unsigned i = 0; i < o.n_used; i++) {
		unsigned k = 0;

		while (k < all->n_used && all->used[k] != o.used[i])
			k++;
		if (k == all->n_used && k < ARRAY_LEN(all->used))
			all->used[all->n_used++] = o.used[i];
	}
	return true;
}

/* A value is never put into a method or a name. */
static bool check_names(struct exchange *x)
{
	const struct http_head *h = &x->req;
	const char *found = swap_find(table(x), h->method, strlen(h->method));

	for (size_t i = 0; !found && i < h->n_fields; i++)
		found = swap_find(table(x), h->field[i].name, strlen(h->field[i].name));
	if (found)
		l7_violation(x, found);
	return !found;
}

static bool swap_head(struct exchange *x, struct swap_outcome *all)
{
	struct http_head *h = &x->req;
	struct buf b = BUF_INIT(FIELD_MAX);
	bool ok, changed;
	int r = 0;

	if (!check_names(x))
		return false;
	ok = swap_piece(x, SWAP_TARGET, NULL, h->target, &b, all, &changed);
	if (ok && changed) {
		r = http_target_set(h, b.data);
		x->l7->c->egress->values_stored = true;
	}
	for (size_t i = 0; ok && r == 0 && i < h->n_fields; i++) {
		ok = swap_piece(x, SWAP_HEADER, h->field[i].name, h->field[i].value, &b,
				all, &changed);
		if (ok && changed)
			r = http_field_replace(h, i, b.data);
	}
	wipe_clear(&b);
	return ok && (r == 0 || settle(x, r, all));
}

static enum swap_where body_kind(const struct http_head *h)
{
	const char *type = http_field_get(h, "Content-Type");

	if (type && strcasestr(type, "json"))
		return SWAP_BODY_JSON;
	if (type && strcasestr(type, "x-www-form-urlencoded"))
		return SWAP_BODY_FORM;
	return SWAP_BODY_RAW;
}

static bool is_encoded(const struct http_head *h)
{
	const char *coding = http_field_get(h, "Content-Encoding");

	return coding && *coding && strcasecmp(coding, "identity") != 0;
}

/* Characters that are not bytes could swallow a value's first ones, and come back as
 * others. */
static bool is_foreign(const struct http_head *h)
{
	static const char *const known[] = {"utf-8", "utf8", "us-ascii", "ascii",
					    "iso-8859-1"};

	for (size_t i = 0; i < h->n_fields; i++) {
		const char *set = strcasecmp(h->field[i].name, "Content-Type") == 0
					  ? strcasestr(h->field[i].value, "charset")
					  : NULL;
		size_t n, k = 0;

		if (!set)
			continue;
		set += 7 + strspn(set + 7, " \t=\"'");
		n = strcspn(set, " \t;\"'");
		while (k < ARRAY_LEN(known) &&
		       (strlen(known[k]) != n || strncasecmp(set, known[k], n) != 0))
			k++;
		if (k == ARRAY_LEN(known))
			return true;
	}
	return false;
}

static bool prepare_body(struct exchange *x)
{
	struct http_head *h = &x->req;
	enum swap_size size;
	char host[ADDR_TEXT];

	if (h->body == BODY_NONE || is_encoded(h) || is_foreign(h))
		return true;
	if (swap_request_stream(table(x), host_of(x, host), x->l7->tls, body_kind(h),
				&x->out, &size) < 0) {
		l7_answer(x->l7, 502, "secret", "out of memory", true);
		return false;
	}
	if (size == SWAP_SIZE_STAYS || h->body != BODY_LENGTH)
		return true;
	if (h->length <= L7_COLLECT) {
		x->request = REQ_COLLECT;
	} else if (size == SWAP_SIZE_CHANGES) {
		h->body = BODY_CHUNKED;
		h->has_length = false;
	} else {
		swap_stream_keep_size(x->out);
	}
	return true;
}

/* Values are looked for in what comes back from TLS, and from hosts that secrets name. */
static bool looks_back(const struct exchange *x)
{
	return table(x) && (x->l7->tls || x->l7->c->decision.secrets);
}

bool l7_swap_request(struct exchange *x)
{
	struct swap_outcome all = {0};
	int r = 0;

	if (!table(x))
		return true;
	if (!swap_head(x, &all) || !prepare_body(x))
		return false;
	if (looks_back(x)) {
		r = http_field_set(&x->req, "Accept-Encoding", "identity");
		if (r == 0 && x->req.upgrade) /* frames are looked into */
			r = http_field_set(&x->req, "Sec-WebSocket-Extensions", NULL);
		/* A part of what was stored could be a part of a value; a server may
		 * answer with the whole. */
		if (r == 0 && x->l7->c->egress->values_stored)
			r = http_field_set(&x->req, "Range", NULL);
	}
	if (r < 0)
		return settle(x, r, &all);
	record_uses(x, &all);
	return true;
}

bool l7_swap_body(struct exchange *x, const char *p, size_t n, bool last)
{
	struct swap_outcome o = {0};
	int r = swap_feed(x->out, p, n, &x->piece, &o);

	if (r == 0 && last && !o.violation)
		r = swap_finish(x->out, &x->piece, &o);
	if (!settle(x, r, &o))
		return false;
	if (o.replaced) {
		record_uses(x, &o);
		x->l7->c->egress->values_stored = true;
	}
	return true;
}

bool l7_swap_collected(struct exchange *x)
{
	struct buf whole = x->piece;

	x->piece = (struct buf)BUF_INIT(x->piece.max);
	if (!l7_swap_body(x, whole.data ? whole.data : "", whole.len, true)) {
		buf_clear(&whole); /* and x is gone */
		return false;
	}
	buf_clear(&whole);
	x->req.length = x->piece.len;
	return true;
}

/* ---- back -------------------------------------------------------------------------- */

/* Into a text of the head; false: no memory. */
static bool back_text(struct exchange *x, const char *text, struct buf *b,
		      bool *ret_changed)
{
	struct swap_outcome o = {0};

	b->len = 0;
	if (swap_feed(x->back, text, strlen(text), b, &o) < 0 ||
	    swap_finish(x->back, b, &o) < 0)
		return false;
	*ret_changed = o.replaced > 0;
	return true;
}

static bool back_head(struct exchange *x)
{
	cleanup_buf struct buf b = BUF_INIT(HTTP_HEAD_MAX * 2);
	struct http_head *h = &x->res;
	bool changed = false;
	size_t kept = 0;

	for (size_t i = 0; i < h->n_fields; i++)
		if (!swap_in_name(table(x), h->field[i].name))
			h->field[kept++] = h->field[i];
	h->n_fields = kept;
	for (size_t i = 0; i < h->n_fields; i++)
		if (!back_text(x, h->field[i].value, &b, &changed) ||
		    (changed && http_field_replace(h, i, b.data) < 0))
			return false;
	if (!back_text(x, h->phrase, &b, &changed))
		return false;
	if (changed)
		h->phrase = h->phrase + strlen(h->phrase); /* words nobody needs */
	return true;
}

bool l7_swap_response(struct exchange *x)
{
	char host[ADDR_TEXT];

	if (!looks_back(x))
		return true;
	if (x->secret_used && x->res.body != BODY_NONE && is_encoded(&x->res)) {
		l7_answer_upstream(x->l7, 502,
				   "the server encoded its answer to a request with a "
				   "secret, although it was told not to");
		return false;
	}
	if ((!x->back &&
	     swap_response_stream(table(x), host_of(x, host), &x->back) < 0) ||
	    !back_head(x)) {
		l7_answer_upstream(x->l7, 502, "out of memory");
		return false;
	}
	return true;
}

bool l7_swap_back(struct exchange *x, const char *p, size_t n, bool last)
{
	struct swap_outcome o = {0};
	int r = swap_feed(x->back, p, n, &x->piece, &o);

	if (r == 0 && last)
		r = swap_finish(x->back, &x->piece, &o);
	if (r < 0)
		l7_over(x->l7, true, "error", "out of memory");
	return r == 0;
}

bool l7_swap_release(struct exchange *x)
{
	struct swap_outcome o = {0};

	x->piece.len = 0;
	if (swap_release(x->back, &x->piece, &o) == 0)
		return x->piece.len > 0;
	l7_over(x->l7, true, "error", "out of memory");
	return false;
}
