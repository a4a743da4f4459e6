/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml - builds a node tree from libyaml's events.
 *
 * JSON is read as the flow YAML that it is; the one thing libyaml does not know,
 * surrogate pairs in \u escapes, is rewritten first.
 */
#include "spec/node.h"

#include "base/util.h"
#include "spec/arena.h"
#include "spec/spec.h"

#include <stdio.h>
#include <yaml.h>

struct frame {
	struct node *node;
	struct node **tail;
	const char *key; /* in a map: the key whose value comes next */
	unsigned key_line;
};

struct reader {
	struct tree *tree;
	struct problems *p;
	struct frame stack[NODE_DEPTH_MAX];
	size_t depth, count;
	bool done; /* the first document has ended */
};

static bool is_null(const yaml_event_t *e)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};
	const char *text = (const char *)e->data.scalar.value;

	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0)
			return true;
	return false;
}

/* The scalar's text, copied; NULL (and a problem, or no memory) if it may not be. */
static const char *scalar_text(struct reader *r, const yaml_event_t *e, unsigned line,
			       size_t max)
{
	const char *text = (const char *)e->data.scalar.value, *why;
	size_t len = e->data.scalar.length, at;
	char *copy;

	if (len > max) {
		problem_add(r->p, line, "text of %zu bytes; at most %zu are allowed", len,
			    max);
		return NULL;
	}
	why = text_problem(text, len, &at);
	if (why) {
		problem_add(r->p, line, "%s in a string", why);
		return NULL;
	}
	copy = arena_alloc(&r->tree->chunks, len + 1);
	if (!copy) {
		r->p->nomem = true;
		return NULL;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

static bool key_begins(struct reader *r, struct frame *f, const yaml_event_t *e)
{
	unsigned line = (unsigned)e->start_mark.line + 1;
	char show[SHOWN_MAX];

	if (e->type != YAML_SCALAR_EVENT) {
		problem_add(r->p, line, "a key must be plain text");
		return false;
	}
	f->key = scalar_text(r, e, line, NODE_KEY_MAX);
	f->key_line = line;
	if (!f->key)
		return false;
	if (node_get(f->node, f->key))
		problem_add(r->p, line, "key '%s' is given twice", shown(show, f->key));
	return true;
}

/* Adds n below the open container, or makes it the root. */
static bool attach(struct reader *r, struct node *n)
{
	struct frame *f = r->depth ? &r->stack[r->depth - 1] : NULL;
	size_t max;

	n->key_line = n->line;
	if (!f) {
		r->tree->root = n;
		return true;
	}
	max = f->node->type == NODE_MAP ? NODE_KEYS_MAX : SPEC_LONG_MAX;
	if (f->node->n >= max) {
		problem_add(r->p, n->line, "more than %zu %s", max,
			    f->node->type == NODE_MAP ? "keys" : "elements in a list");
		return false;
	}
	if (f->key) {
		n->key = f->key;
		n->key_line = f->key_line;
		f->key = NULL;
	}
	*f->tail = n;
	f->tail = &n->next;
	f->node->n++;
	return true;
}

static bool open_container(struct reader *r, struct node *n)
{
	if (r->depth >= NODE_DEPTH_MAX) {
		problem_add(r->p, n->line, "nested deeper than %d levels",
			    NODE_DEPTH_MAX);
		return false;
	}
	r->stack[r->depth++] = (struct frame){.node = n, .tail = &n->first};
	return true;
}

static void refuse_decoration(struct reader *r, unsigned line, const void *anchor,
			      const void *tag)
{
	if (anchor)
		problem_add(r->p, line, "anchors (&NAME) are not allowed");
	if (tag)
		problem_add(r->p, line, "tags (!NAME) are not allowed");
}

/* A value: scalar, alias, or the start of a container. */
static bool value_begins(struct reader *r, const yaml_event_t *e)
{
	struct node *n = arena_alloc(&r->tree->chunks, sizeof(*n));

	if (!n) {
		r->p->nomem = true;
		return false;
	}
	*n = (struct node){.line = (unsigned)e->start_mark.line + 1};
	switch (e->type) {
	case YAML_MAPPING_START_EVENT:
		n->type = NODE_MAP;
		refuse_decoration(r, n->line, e->data.mapping_start.anchor,
				  e->data.mapping_start.tag);
		return attach(r, n) && open_container(r, n);
	case YAML_SEQUENCE_START_EVENT:
		n->type = NODE_LIST;
		refuse_decoration(r, n->line, e->data.sequence_start.anchor,
				  e->data.sequence_start.tag);
		return attach(r, n) && open_container(r, n);
	case YAML_SCALAR_EVENT:
		refuse_decoration(r, n->line, e->data.scalar.anchor, e->data.scalar.tag);
		if (is_null(e))
			return attach(r, n);
		n->type = NODE_SCALAR;
		n->text = scalar_text(r, e, n->line, SPEC_STR_MAX);
		if (!n->text)
			n->type = NODE_BAD;
		return !r->p->nomem && attach(r, n);
	default: /* an alias */
		problem_add(r->p, n->line, "aliases (*NAME) are not allowed");
		n->type = NODE_BAD;
		return attach(r, n);
	}
}

static bool event_take(struct reader *r, const yaml_event_t *e)
{
	struct frame *f = r->depth ? &r->stack[r->depth - 1] : NULL;
	unsigned line = (unsigned)e->start_mark.line + 1;

	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (r->done)
			problem_add(r->p, line, "a second document; one file holds one");
		return !r->done;
	case YAML_DOCUMENT_END_EVENT:
		r->done = true;
		return true;
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		r->depth--;
		return true;
	case YAML_SCALAR_EVENT:
	case YAML_ALIAS_EVENT:
	case YAML_MAPPING_START_EVENT:
	case YAML_SEQUENCE_START_EVENT:
		if (++r->count > NODE_COUNT_MAX) {
			problem_add(r->p, line, "more than %d values", NODE_COUNT_MAX);
			return false;
		}
		if (f && f->node->type == NODE_MAP && !f->key)
			return key_begins(r, f, e);
		return value_begins(r, e);
	default: /* stream start and end */
		return true;
	}
}

static unsigned line_of(const char *text, size_t at)
{
	unsigned line = 1;

	for (size_t i = 0; i < at; i++)
		line += text[i] == '\n' ||
			(text[i] == '\r' && (i + 1 >= at || text[i + 1] != '\n'));
	return line;
}

static const char *line_start(const char *text, size_t len, size_t line)
{
	const char *end = text + len;

	for (; line > 0 && text; line--) {
		text = memchr(text, '\n', (size_t)(end - text));
		text = text ? text + 1 : NULL;
	}
	return text;
}

static void syntax_problem(struct reader *r, const yaml_parser_t *y, const char *text,
			   size_t len)
{
	unsigned line = (unsigned)y->problem_mark.line + 1;
	const char *what = y->problem ? y->problem : "cannot be read", *at;

	if (y->error == YAML_MEMORY_ERROR) {
		r->p->nomem = true;
		return;
	}
	if (y->error == YAML_READER_ERROR)
		line = line_of(text, min_size(y->problem_offset, len));
	if (line > line_of(text, len)) /* the end of a text without a last newline */
		line = line_of(text, len);
	at = line_start(text, len, line - 1);
	if (at && at < text + len && *at == '\t')
		what = "indent with spaces, not with tabs";
	if (y->context && y->context_mark.line + 1 < line)
		problem_add(r->p, line,
			    "not valid YAML or JSON: %s (%s that began on line %zu)",
			    what, y->context, y->context_mark.line + 1);
	else
		problem_add(r->p, line, "not valid YAML or JSON: %s", what);
}

static bool read_events(struct reader *r, const char *text, size_t len)
{
	yaml_parser_t y;
	bool ok = true, end = false;

	if (!yaml_parser_initialize(&y)) {
		r->p->nomem = true;
		return false;
	}
	yaml_parser_set_encoding(&y, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&y, (const unsigned char *)text, len);
	while (ok && !end) {
		yaml_event_t e;

		if (!yaml_parser_parse(&y, &e)) {
			syntax_problem(r, &y, text, len);
			ok = false;
			break;
		}
		ok = event_take(r, &e) && !r->p->nomem;
		end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&y);
	return ok;
}

static int hex4(const char *s, size_t left)
{
	int v = 0;

	if (left < 6 || s[0] != '\\' || s[1] != 'u')
		return -1;
	for (int i = 2; i < 6; i++) {
		static const char digits[] = "0123456789abcdef";
		const char *d = s[i] ? strchr(digits, s[i] | 0x20) : NULL;

		if (!d)
			return -1;
		v = v * 16 + (int)(d - digits);
	}
	return v;
}

/* Rewrites each "\uD83D\uDE00" as "\U0001F600". Only for text that is JSON: there a
 * backslash can be nothing but an escape. */
static size_t join_surrogates(char *out, const char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		int high = hex4(text + i, len - i);
		int low = high >= 0xd800 && high < 0xdc00
				  ? hex4(text + i + 6, len - i - 6)
				  : -1;

		if (low >= 0xdc00 && low < 0xe000) {
			unsigned c = 0x10000u + (((unsigned)high - 0xd800u) << 10) +
				     ((unsigned)low - 0xdc00u);

			n += (size_t)snprintf(out + n, 11, "\\U%08X", c);
			i += 12;
		} else {
			size_t step = text[i] == '\\' && i + 1 < len ? 2 : 1;

			memcpy(out + n, text + i, step);
			n += step;
			i += step;
		}
	}
	return n;
}

static bool has_surrogates(const char *text, size_t len)
{
	for (const char *s = text; (s = memmem(s, len - (size_t)(s - text), "\\u", 2));
	     s += 2) {
		int v = hex4(s, len - (size_t)(s - text));

		if (v >= 0xd800 && v < 0xe000)
			return true;
	}
	return false;
}

/* A copy of text with its surrogates joined, or NULL if there is nothing to do. */
static char *json_fix(const char *text, size_t len, size_t *ret_len, struct problems *p)
{
	json_t *json;
	char *out;

	if (!has_surrogates(text, len))
		return NULL;
	json = json_loadb(text, len, 0, NULL);
	if (!json) /* YAML then, where libyaml's own rules hold */
		return NULL;
	json_decref(json);
	out = malloc(len + 1);
	if (out)
		*ret_len = join_surrogates(out, text, len);
	else
		p->nomem = true;
	return out;
}

/* libyaml takes quadratic time over %TAG lines, and tags are of no use here. */
static const char *tag_directive(const char *text, size_t len)
{
	const char *s = text;

	while ((s = memmem(s, len - (size_t)(s - text), "%TAG", 4))) {
		if (s == text || s[-1] == '\n' || s[-1] == '\r')
			return s;
		s += 4;
	}
	return NULL;
}

bool tree_read(struct tree *t, const char *text, size_t len, struct problems *p)
{
	struct reader r = {.tree = t, .p = p};
	cleanup_free char *fixed = NULL;
	const char *why, *directive;
	size_t at;

	*t = (struct tree){0};
	if (len > SPEC_TEXT_MAX) {
		problem_add(p, 1, "%zu bytes; a file may have %u", len, SPEC_TEXT_MAX);
		return false;
	}
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
		text += 3;
		len -= 3;
	}
	why = text_problem(text, len, &at);
	if (why) {
		problem_add(p, line_of(text, at), "%s", why);
		return false;
	}
	directive = tag_directive(text, len);
	if (directive) {
		problem_add(p, line_of(text, (size_t)(directive - text)),
			    "%%TAG directives are not allowed");
		return false;
	}
	fixed = json_fix(text, len, &len, p);
	return !p->nomem && read_events(&r, fixed ? fixed : text, len);
}

void tree_clear(struct tree *t)
{
	arena_clear(&t->chunks);
	t->root = NULL;
}

const struct node *node_get(const struct node *map, const char *key)
{
	for (const struct node *n = map->first; n; n = n->next)
		if (n->key && strcmp(n->key, key) == 0)
			return n;
	return NULL;
}
