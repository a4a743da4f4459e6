/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies in pieces. What cannot be decided yet is held.
 *
 * Requests: the possible beginning of a placeholder at the end of a piece, which is no
 * secret to who sends it.
 *
 * Responses: whether something is held must not depend on a value: a server that pauses
 * after a guess would tell the client, who sees when bytes come, whether it is the
 * beginning of one. So whatever a value could be written with is held at the end of a
 * piece, until the caller lets it go. A line break or a brace, with which events end, is
 * not among it (unless a value has one).
 *
 * Values may overlap (one ends as another begins, or holds it). Everything that belongs
 * to any of them is covered: a later one that begins inside an earlier one and goes
 * further replaces the part beyond it. `skip` counts the held bytes that were answered
 * for already.
 */
#include "egress/swap_impl.h"
#include "egress/wipe.h"

#define HELD_LONG 512
/* A value as long as it may be, and every byte of it as a reference of HTML. */
#define ESCAPED_MAX 12
#define HELD_MAX ((size_t)SWAP_VALUE_MAX * ESCAPED_MAX + 16)

struct swap_stream {
	const struct swap_table *t;
	bool response;
	struct swap_request q; /* of a response: those that are looked for */
	const char *violation; /* nothing goes out after one */
	struct buf held;
	size_t skip;
	size_t fresh;   /* bytes of held that were not looked at yet */
	size_t longest; /* bytes that a value can take */
	bool in_value[256];
};

enum piece { PIECE_MORE, PIECE_RELEASE, PIECE_LAST };

static int stream_new(const struct swap_table *t, struct swap_stream **ret)
{
	struct swap_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->t = t;
	buf_init(&s->held, SIZE_MAX / 2); /* bounded by what is held and the piece fed */
	*ret = s;
	return 0;
}

static bool keeps_length(const struct swap_secret *s, enum swap_where where)
{
	char tmp[6];

	if (s->n != s->n_placeholder)
		return false;
	for (size_t i = 0; i < s->n; i++)
		if (s->value[i] >= 0x80 || swap_escape(where, s->value[i], tmp) != 1)
			return false;
	return true;
}

int swap_request_stream(const struct swap_table *t, const char *host, bool verified,
			enum swap_where where, struct swap_stream **ret,
			enum swap_size *ret_size)
{
	enum swap_size size = SWAP_SIZE_STAYS;
	struct swap_stream *s;
	int r = stream_new(t, &s);

	if (r < 0)
		return r;
	s->q = (struct swap_request){
		.t = t, .where = where, .allowed = swap_allowed(t, host, verified)};
	if (s->q.allowed)
		size = SWAP_SIZE_MAY_STAY;
	for (size_t i = 0; i < t->n; i++)
		if (s->q.allowed >> i & 1 && !keeps_length(&t->secret[i], where))
			size = SWAP_SIZE_CHANGES;
	*ret_size = size;
	*ret = s;
	return 0;
}

void swap_stream_keep_size(struct swap_stream *s)
{
	s->q.keep = true;
}

/* What values, and escapes of them, are written with. */
static void note_bytes(struct swap_stream *s, const struct swap_secret *v)
{
	static const char common[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789+/-_=%\\&#;";

	for (size_t i = 0; i < sizeof(common) - 1; i++)
		s->in_value[(unsigned char)common[i]] = true;
	for (size_t i = 0; i < v->core; i++)
		s->in_value[v->value[v->lead + i]] = true;
	if (v->core * ESCAPED_MAX > s->longest)
		s->longest = v->core * ESCAPED_MAX;
}

/* Would a search for it everywhere do harm? A short one could be guessed in full by who
 * has a server send all that it might be; one with line breaks would hold events back. */
static bool harmless(const struct swap_secret *v)
{
	if (v->core < SWAP_MIN)
		return false;
	for (size_t i = 0; i < v->core; i++)
		if (v->value[v->lead + i] <= ' ' || v->value[v->lead + i] == 0x7f)
			return false;
	return true;
}

int swap_response_stream(const struct swap_table *t, const char *host,
			 struct swap_stream **ret)
{
	struct swap_stream *s;
	int r = stream_new(t, &s);

	if (r < 0)
		return r;
	s->response = true;
	s->q.allowed = swap_allowed(t, host, true);
	for (size_t i = 0; i < t->n; i++) {
		const struct swap_secret *v = &t->secret[i];

		if (harmless(v))
			s->q.allowed |= UINT64_C(1) << i;
		if (s->q.allowed >> i & 1 && v->core >= NEEDLE_MIN)
			note_bytes(s, v);
	}
	*ret = s;
	return 0;
}

void swap_stream_free(struct swap_stream *s)
{
	if (!s)
		return;
	wipe_clear(&s->held);
	free(s);
}

/* ---- responses --------------------------------------------------------------------- */
/* Base64: the character after the decided ones belongs to the value in part. 1: it does
 * and *ret is what it becomes; 0: it does not. */
static int tail(const struct swap_form *f, unsigned char c, unsigned char *ret)
{
	int v = swap_base64_value(c, f->url);

	if (v < 0 || (v & f->tail_mask) != f->tail_from)
		return 0;
	*ret = (unsigned char)swap_base64_char(
		((unsigned)v & ~(unsigned)f->tail_mask) | f->tail_to, f->url);
	return 1;
}

/* The placeholder in the writing of an escaped value: %41 and \u0041 for the like, and
 * for any other escape a character and '_' until it is as long. */
static int write_escaped(const struct swap_secret *s, const struct swap_span *f,
			 const unsigned char *p, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < s->core && r == 0; i++) {
		size_t at = swap_place(f->view, f->view_at + i);
		size_t n = swap_place(f->view, f->view_at + i + 1) - at;
		unsigned char c = swap_stand_in(s, i);
		char tmp[6];

		if (n == 3 && p[at] == '%')
			r = buf_append(out, tmp, swap_percent(c, true, tmp));
		else if (n == 6 && memcmp(p + at, "\\u00", 4) == 0)
			r = buf_append(out, tmp, swap_json(c, true, tmp));
		else if (n)
			r = buf_append(out, &c, 1);
		while (r == 0 && out->len < at + n - f->at)
			r = buf_append(out, "_", 1);
	}
	return r;
}

/* What of one value lies beyond *done is replaced. */
static int cover(const struct swap_table *t, const struct swap_span *f,
		 const unsigned char *p, size_t n, size_t *done, struct buf *out)
{
	size_t end = f->end, skip = *done > f->at ? *done - f->at : 0;
	unsigned char last;
	int r = 0;

	if (*done < f->at)
		r = buf_append(out, p + *done, f->at - *done);
	if (r == 0 && end > *done && f->form) {
		r = buf_append(out, f->form->to + skip, f->form->n - skip);
	} else if (r == 0 && end > *done) {
		cleanup_buf struct buf text = BUF_INIT(HELD_MAX);

		r = write_escaped(&t->secret[f->secret], f, p, &text);
		if (r == 0)
			r = buf_append(out, text.data + skip, text.len - skip);
	}
	if (r == 0 && f->form && f->form->tail_mask && end < n && end >= *done &&
	    tail(f->form, p[end], &last)) {
		r = buf_append(out, &last, 1);
		end++;
	}
	if (r == 0 && end > *done)
		*done = end;
	return r;
}

/* The end of a text that may go on as a value. */
static size_t open_end(const struct swap_stream *s, const unsigned char *p, size_t n)
{
	size_t run = 0;

	while (run < n && run < s->longest && s->in_value[p[n - 1 - run]])
		run++;
	return run;
}

static int swap_back(struct swap_stream *s, const unsigned char *p, size_t n,
		     enum piece piece, struct buf *out, struct swap_outcome *o,
		     size_t *ret_used)
{
	size_t run = piece == PIECE_LAST ? 0 : open_end(s, p, n);
	size_t done = s->skip, used = n - run, end = n; /* all of [0, end) goes out */
	struct swap_scan scan;
	struct swap_span f;
	int r = swap_scan_begin(&scan, s->t, s->q.allowed, p, n);

	if (r == 0 && run)
		used = swap_scan_floor(&scan, used);
	if (piece == PIECE_MORE)
		end = used;
	while (r == 0 && swap_scan_next(&scan, &f) && f.at < end) {
		size_t before = done;

		r = cover(s->t, &f, p, n, &done, out);
		if (r == 0 && done > before)
			swap_note_use(o, s->t->secret[f.secret].name);
	}
	swap_scan_end(&scan);
	if (r == 0 && done < end) {
		r = buf_append(out, p + done, end - done);
		done = end;
	}
	*ret_used = used;
	s->skip = done - used;
	return r;
}

/* ---- both ----------------------------------------------------------------------------
 */
static int work(struct swap_stream *s, const unsigned char *p, size_t n, enum piece piece,
		struct buf *out, struct swap_outcome *o, size_t *ret_used)
{
	const struct swap_table *t = s->t;
	int r;

	if (s->response ? !t->back || !s->longest : !t->out) {
		*ret_used = n;
		return buf_append(out, p, n);
	}
	if (s->response)
		return swap_back(s, p, n, piece, out, o, ret_used);
	r = swap_out(&s->q, p, n, piece == PIECE_LAST, out, o, ret_used);
	s->violation = o->violation;
	return r;
}

/* Who sends a long beginning byte by byte must not have all of it looked at each time. */
static bool can_wait(const struct swap_stream *s)
{
	return s->held.len >= HELD_LONG && s->fresh < s->held.len / 4;
}

static int pump(struct swap_stream *s, const void *p, size_t n, enum piece piece,
		struct buf *out, struct swap_outcome *o)
{
	const unsigned char *text = p;
	size_t used = 0;
	int r;

	if (s->violation) {
		o->violation = s->violation;
		return 0;
	}
	if (s->held.len) {
		r = wipe_append(&s->held, p, n);
		if (r < 0)
			return r;
		s->fresh += n;
		if (piece == PIECE_MORE && can_wait(s))
			return 0;
		s->fresh = 0;
		text = (const unsigned char *)s->held.data;
		n = s->held.len;
	}
	if (n == 0)
		return 0;
	r = work(s, text, n, piece, out, o, &used);
	if (r < 0 || s->violation)
		return r;
	if (s->held.len) {
		wipe_consume(&s->held, used);
		return 0;
	}
	if (n - used > HELD_MAX) /* cannot be: longer than any needle */
		return -EOVERFLOW;
	return wipe_append(&s->held, text + used, n - used);
}

int swap_feed(struct swap_stream *s, const void *p, size_t n, struct buf *out,
	      struct swap_outcome *o)
{
	return pump(s, p, n, PIECE_MORE, out, o);
}

int swap_finish(struct swap_stream *s, struct buf *out, struct swap_outcome *o)
{
	return pump(s, NULL, 0, PIECE_LAST, out, o);
}

int swap_release(struct swap_stream *s, struct buf *out, struct swap_outcome *o)
{
	return pump(s, NULL, 0, PIECE_RELEASE, out, o);
}

size_t swap_held(const struct swap_stream *s)
{
	return s->held.len - s->skip;
}
