/* SPDX-License-Identifier: Apache-2.0 */
/* build - see build.h. */
#include "policy/build.h"

#include "base/util.h"

/* Room for n more records of this size, as they come; NULL: no memory. */
static void *grow(struct vec *v, size_t size, size_t n)
{
	char *at;

	if (!v->data || v->cap - v->n < n) { /* never NULL, also for none */
		size_t cap = v->cap * 4 > v->n + n ? v->cap * 4 : v->n + n + 256;
		void *data = reallocarray(v->data, cap, size);

		if (!data)
			return NULL;
		v->data = data;
		v->cap = cap;
	}
	at = (char *)v->data + v->n * size;
	v->n += n;
	return at;
}

static void *grow_zero(struct vec *v, size_t size, size_t n)
{
	void *at = grow(v, size, n);

	return at ? memset(at, 0, n * size) : NULL;
}

/* A macro, so that a record is stored, not copied by a function that looks at its size.
 */
#define push(v, type, record) \
	__extension__({ \
		type *at_ = grow(v, sizeof(type), 1); \
		if (at_) \
			*at_ = (record); \
		at_ ? 0 : -ENOMEM; \
	})

void builder_clear(struct builder *b)
{
	for (size_t i = 0; i < SECTIONS; i++)
		free(b->section[i].data);
	free(b->names.data);
	free(b->ranges.data);
	*b = (struct builder){0};
}

int build_rule(struct builder *b, const struct rule *r)
{
	return push(&b->section[SECTION_RULES], struct rule, *r);
}

int build_port(struct builder *b, uint16_t low, uint16_t high)
{
	struct port_range r = {low, high};

	return push(&b->section[SECTION_PORTS], struct port_range, r);
}

int build_prefix(struct builder *b, const struct prefix *p)
{
	return push(&b->section[SECTION_PREFIXES], struct prefix, *p);
}

int build_text(struct builder *b, const char *s, uint32_t *ret)
{
	struct vec *text = &b->section[SECTION_TEXT];
	size_t n = strlen(s) + 1;
	char *at;

	if (text->n + n > POLICY_IMAGE_MAX)
		return -ENOMEM;
	at = grow(text, 1, n);
	if (!at)
		return -ENOMEM;
	memcpy(at, s, n);
	*ret = (uint32_t)(text->n - n);
	return 0;
}

int build_word(struct builder *b, const char *s)
{
	uint32_t at;

	if (build_text(b, s, &at) < 0)
		return -ENOMEM;
	return push(&b->section[SECTION_WORDS], uint32_t, at);
}

int build_name(struct builder *b, uint32_t rule, enum host_kind kind, const char *name,
	       bool secret)
{
	static const uint8_t lists[] = {[HOST_EXACT] = LIST_EXACT,
					[HOST_STAR] = LIST_STAR,
					[HOST_STARSTAR] = LIST_STARSTAR};
	struct name_entry e = {.rule = rule, .list = lists[kind], .secret = secret};
	uint8_t labels = 1;
	uint32_t h = HASH_START;

	e.len = (uint32_t)strlen(name);
	for (uint32_t i = e.len; i > 0; i--) {
		h = hash_byte(h, name[i - 1]);
		labels += name[i - 1] == '.';
	}
	e.hash = hash_end(h);
	if (labels > b->head.deepest)
		b->head.deepest = labels;
	if (build_text(b, name, &e.name) < 0)
		return -ENOMEM;
	return push(&b->names, struct name_entry, e);
}

int build_range(struct builder *b, uint32_t rule, const struct prefix *p, bool secret)
{
	struct range_entry e = {*p, rule, secret};

	return push(&b->ranges, struct range_entry, e);
}

int build_any(struct builder *b, uint32_t rule)
{
	return push(&b->section[SECTION_ANY], uint32_t, rule);
}

/* ---- tables --------------------------------------------------------------------- */

/* At most two thirds full, so never without an empty slot. */
static size_t table_size(size_t n)
{
	size_t size = 8;

	while (size < n + n / 2)
		size *= 2;
	return size;
}

static struct name_slot *name_slot(struct name_slot *table, size_t size, const char *text,
				   const struct name_entry *e)
{
	for (size_t i = e->hash & (size - 1);; i = (i + 1) & (size - 1)) {
		struct name_slot *s = &table[i];

		if (s->len == 0) {
			s->hash = e->hash;
			s->name = e->name;
			s->len = (uint16_t)e->len;
			return s;
		}
		if (s->hash == e->hash && s->len == e->len &&
		    memcmp(text + s->name, text + e->name, e->len) == 0)
			return s;
	}
}

/* First how long each list is, then where it begins, then what is in it. */
static int make_names(struct builder *b)
{
	size_t size = table_size(b->names.n);
	struct name_slot *table =
		grow_zero(&b->section[SECTION_NAMES], sizeof(*table), size);
	struct name_entry *e = b->names.data;
	const char *text = b->section[SECTION_TEXT].data;
	uint32_t at = build_at(b, SECTION_LISTS), *lists;

	if (!table || !grow(&b->section[SECTION_LISTS], sizeof(*lists), b->names.n))
		return -ENOMEM;
	lists = b->section[SECTION_LISTS].data;
	for (size_t i = 0; i < b->names.n; i++) {
		struct name_slot *s = name_slot(table, size, text, &e[i]);

		e[i].slot = (uint32_t)(s - table);
		e[i].nth = s->n[e[i].list]++;
		if (e[i].secret)
			s->secret |= (uint16_t)(1u << e[i].list);
	}
	for (size_t i = 0; i < size; i++) {
		table[i].at = at;
		for (size_t k = 0; k < LISTS; k++)
			at += table[i].n[k];
	}
	for (size_t i = 0; i < b->names.n; i++) {
		const struct name_slot *s = &table[e[i].slot];
		uint32_t place = s->at + e[i].nth;

		for (size_t k = 0; k < e[i].list; k++)
			place += s->n[k];
		lists[place] = e[i].rule;
	}
	return 0;
}

static struct prefix_slot *range_slot(struct prefix_slot *table, size_t size,
				      const struct prefix *p)
{
	uint32_t h = hash_prefix(p);

	for (size_t i = h & (size - 1);; i = (i + 1) & (size - 1)) {
		struct prefix_slot *s = &table[i];

		if (!s->used) {
			s->hash = h;
			s->used = SLOT_USED;
			s->prefix = *p;
			return s;
		}
		if (s->hash == h && s->prefix.bits == p->bits &&
		    addr_equal(&s->prefix.addr, &p->addr))
			return s;
	}
}

static int make_lengths(struct builder *b)
{
	const struct range_entry *e = b->ranges.data;
	bool used[129] = {0};

	for (size_t i = 0; i < b->ranges.n; i++)
		used[e[i].prefix.bits] = true;
	for (size_t bits = 0; bits < sizeof(used); bits++) {
		uint8_t v = (uint8_t)bits;

		if (used[bits] && push(&b->section[SECTION_LENGTHS], uint8_t, v) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int make_ranges(struct builder *b)
{
	size_t size = table_size(b->ranges.n);
	struct prefix_slot *table =
		grow_zero(&b->section[SECTION_RANGES], sizeof(*table), size);
	const struct range_entry *e = b->ranges.data;
	uint32_t at = build_at(b, SECTION_LISTS), *lists;

	if (!table || !grow(&b->section[SECTION_LISTS], sizeof(*lists), b->ranges.n))
		return -ENOMEM;
	lists = b->section[SECTION_LISTS].data;
	for (size_t i = 0; i < b->ranges.n; i++) {
		struct prefix_slot *s = range_slot(table, size, &e[i].prefix);

		s->list.n++;
		if (e[i].secret)
			s->used |= SLOT_SECRET;
	}
	for (size_t i = 0; i < size; i++) {
		table[i].list.at = at;
		at += table[i].list.n;
		table[i].list.n = 0;
	}
	for (size_t i = 0; i < b->ranges.n; i++) {
		struct span *l = &range_slot(table, size, &e[i].prefix)->list;

		lists[l->at + l->n++] = e[i].rule;
	}
	return make_lengths(b);
}

/* ---- the whole ------------------------------------------------------------------ */

static size_t align8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

int build_image(struct builder *b, struct buf *out, struct cove_error *err)
{
	static const char zeros[8];
	size_t size = align8(sizeof(b->head));
	uint32_t nul;
	int r;

	/* An empty string at the end, so that there is text at all. */
	if (build_text(b, "", &nul) < 0 || make_names(b) < 0 || make_ranges(b) < 0)
		return fail_nomem(err);
	for (size_t i = 0; i < SECTIONS; i++) {
		b->head.section[i] = (struct span){(uint32_t)size, build_at(b, i)};
		size += align8(b->section[i].n * section_size[i]);
		if (size > POLICY_IMAGE_MAX)
			return fail(err, COVE_EINVAL, 0,
				    "the rules are too large: more than %u MiB compiled",
				    POLICY_IMAGE_MAX >> 20);
	}
	b->head.size = (uint32_t)size;
	r = buf_reserve(out, size);
	if (r == 0)
		r = buf_append(out, &b->head, sizeof(b->head));
	for (size_t i = 0; i < SECTIONS && r == 0; i++) {
		size_t n = b->section[i].n * section_size[i];

		if (n > 0)
			r = buf_append(out, b->section[i].data, n);
		if (r == 0)
			r = buf_append(out, zeros, align8(n) - n);
	}
	if (r == -ENOMEM)
		return fail_nomem(err);
	return r < 0 ? fail(err, COVE_EINVAL, -r, "policy of %zu bytes", size) : 0;
}
