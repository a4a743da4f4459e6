/* SPDX-License-Identifier: Apache-2.0 */
#include "work/journal.h"

#include "base/io.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

#define MAGIC "cove-journal 1\n"
#define LAYERS_MAX 256
#define STEPS_MAX 4000000

void journal_clear(struct journal *j)
{
	for (size_t i = 0; i < j->n_layers; i++)
		free(j->layers[i].source);
	for (size_t i = 0; i < j->n; i++)
		free(j->v[i].path);
	free(j->layers);
	free(j->v);
	*j = (struct journal){0};
}

/* ---- printing ------------------------------------------------------------------- */

static int put_escaped(struct buf *b, const char *s)
{
	int r = 0;

	for (; r == 0 && *s; s++) {
		unsigned char c = (unsigned char)*s;

		r = c > ' ' && c != '%' && c != 0x7f ? buf_append(b, s, 1)
						     : buf_printf(b, "%%%02x", c);
	}
	return r;
}

static int put_ident(struct buf *b, const struct ident *i)
{
	return buf_printf(b, " %o %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64,
			  i->mode, i->uid, i->gid, i->dev, i->ino, i->size, i->mtime_ns);
}

static int put_step(struct buf *b, const struct step *s)
{
	int r = buf_printf(b, "%c %u %u %d", (char)s->kind, s->layer, s->stage, s->whole);

	if (r == 0)
		r = put_ident(b, &s->old);
	if (r == 0)
		r = put_ident(b, &s->new);
	if (r == 0)
		r = put_ident(b, &s->upper);
	if (r == 0)
		r = buf_puts(b, " ");
	if (r == 0)
		r = put_escaped(b, s->path);
	return r < 0 ? r : buf_puts(b, "\n");
}

int journal_print(const struct journal *j, struct buf *out)
{
	int r = buf_puts(out, MAGIC);

	if (r == 0)
		r = buf_printf(out, "stage %s\n", j->stage);
	for (size_t i = 0; r == 0 && i < j->n_layers; i++) {
		r = buf_printf(out, "layer %s ", j->layers[i].name);
		if (r == 0)
			r = put_escaped(out, j->layers[i].source);
		if (r == 0)
			r = buf_puts(out, "\n");
	}
	for (size_t i = 0; r == 0 && i < j->n; i++)
		r = put_step(out, &j->v[i]);
	return r < 0 ? r : buf_printf(out, "end %zu\n", j->n);
}

/* ---- parsing -------------------------------------------------------------------- */

/* What is left of one line. */
struct line {
	const char *at, *end;
	bool bad;
};

static uint64_t number(struct line *l, unsigned base)
{
	const char *start = l->at;
	uint64_t n = 0;

	for (; l->at < l->end && *l->at >= '0' && *l->at < (char)('0' + base); l->at++) {
		unsigned digit = (unsigned)(*l->at - '0');

		if (n > (UINT64_MAX - digit) / base)
			l->bad = true;
		n = n * base + digit;
	}
	if (l->at == start)
		l->bad = true;
	if (l->at < l->end && *l->at++ != ' ')
		l->bad = true;
	return l->bad ? 0 : n;
}

static uint32_t number32(struct line *l, unsigned base)
{
	uint64_t n = number(l, base);

	if (n > UINT32_MAX)
		l->bad = true;
	return (uint32_t)n;
}

static int64_t number_signed(struct line *l)
{
	bool minus = l->at < l->end && *l->at == '-';
	uint64_t n;

	l->at += minus;
	n = number(l, 10);
	if (n > INT64_MAX)
		l->bad = true;
	return minus ? -(int64_t)n : (int64_t)n;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The rest of the line; NULL and bad when it is damaged. */
static char *text_of(struct line *l)
{
	char *out = malloc((size_t)(l->end - l->at) + 1), *to = out;

	for (; out && l->at < l->end; l->at++) {
		int c = (unsigned char)*l->at;

		if (c == '%') {
			int hi = l->end - l->at > 2 ? hex(l->at[1]) : -1;
			int lo = hi < 0 ? -1 : hex(l->at[2]);

			c = lo < 0 ? 0 : hi * 16 + lo;
			l->at += 2;
		}
		if (c == 0) {
			free(out);
			l->bad = true;
			return NULL;
		}
		*to++ = (char)c;
	}
	if (to)
		*to = '\0';
	l->bad |= !out;
	return out;
}

static void ident_of(struct line *l, struct ident *i)
{
	i->mode = number32(l, 8);
	i->uid = number32(l, 10);
	i->gid = number32(l, 10);
	i->dev = number(l, 10);
	i->ino = number(l, 10);
	i->size = number(l, 10);
	i->mtime_ns = number_signed(l);
}

static int parse_step(struct journal *j, struct line *l, size_t *room)
{
	struct step s = {.kind = (enum step_kind) * l->at};

	if (j->n == *room) {
		size_t more = *room ? *room * 2 : 64;
		struct step *v = reallocarray(j->v, more, sizeof(*v));

		if (!v)
			return -ENOMEM;
		j->v = v;
		*room = more;
	}
	l->at += 2;
	s.layer = number32(l, 10);
	s.stage = number32(l, 10);
	s.whole = number32(l, 10) == 1;
	ident_of(l, &s.old);
	ident_of(l, &s.new);
	ident_of(l, &s.upper);
	s.path = l->bad ? NULL : text_of(l);
	if (!s.path || !(strcmp(s.path, ".") == 0 || path_stays_below(s.path)) ||
	    s.layer >= j->n_layers || j->n >= STEPS_MAX) {
		free(s.path);
		return -EBADMSG;
	}
	j->v[j->n++] = s;
	return 0;
}

static int parse_layer(struct journal *j, struct line *l)
{
	const char *space;
	struct journal_layer *v, new = {0};
	size_t n;

	l->at += strlen("layer ");
	space = memchr(l->at, ' ', (size_t)(l->end - l->at));
	n = space ? (size_t)(space - l->at) : 0;
	if (n < 2 || n >= sizeof(new.name) || l->at[0] != 'm' ||
	    j->n_layers >= LAYERS_MAX)
		return -EBADMSG;
	for (size_t i = 1; i < n; i++)
		if (l->at[i] < '0' || l->at[i] > '9')
			return -EBADMSG;
	memcpy(new.name, l->at, n);
	l->at = space + 1;
	new.source = text_of(l);
	if (!new.source || new.source[0] != '/') {
		free(new.source);
		return -EBADMSG;
	}
	v = reallocarray(j->layers, j->n_layers + 1, sizeof(*v));
	if (!v) {
		free(new.source);
		return -ENOMEM;
	}
	j->layers = v;
	v[j->n_layers++] = new;
	return 0;
}

static int parse_stage(struct journal *j, struct line *l)
{
	size_t n;

	l->at += strlen("stage ");
	n = (size_t)(l->end - l->at);
	if (j->stage[0] || n < 8 || n >= sizeof(j->stage) || l->at[0] != '.' ||
	    memchr(l->at, '/', n) || memchr(l->at, '\0', n))
		return -EBADMSG;
	memcpy(j->stage, l->at, n);
	return 0;
}

static bool starts(const struct line *l, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(l->end - l->at) >= n && memcmp(l->at, word, n) == 0;
}

/* 1: that was the last line. */
static int parse_line(struct journal *j, struct line *l, size_t *room)
{
	if (starts(l, "stage "))
		return parse_stage(j, l);
	if (starts(l, "layer "))
		return parse_layer(j, l);
	if (starts(l, "end ")) {
		l->at += strlen("end ");
		return number(l, 10) == j->n && !l->bad && j->stage[0] ? 1 : -EBADMSG;
	}
	if (l->end - l->at > 2 && l->at[1] == ' ' && strchr("RDMNXAS", l->at[0]))
		return parse_step(j, l, room);
	return -EBADMSG;
}

int journal_parse(struct journal *ret, const char *text, size_t n)
{
	const char *end = text + n;
	struct journal j = {0};
	size_t room = 0;
	int r = 0;

	if (n < strlen(MAGIC) || memcmp(text, MAGIC, strlen(MAGIC)) != 0)
		return -EBADMSG;
	text += strlen(MAGIC);
	while (r == 0) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		struct line l = {text, nl, false};

		r = nl ? parse_line(&j, &l, &room) : -EBADMSG;
		text = nl ? nl + 1 : end;
	}
	if (r == 1 && text == end) {
		*ret = j;
		return 0;
	}
	journal_clear(&j);
	return r < 0 ? r : -EBADMSG;
}
