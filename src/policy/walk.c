/* SPDX-License-Identifier: Apache-2.0 */
/* walk - see walk.h. */
#include "policy/walk.h"

#include "base/util.h"

static void add(struct walk *w, const uint32_t *list, uint32_t n)
{
	if (n > 0 && w->n < ARRAY_LEN(w->cursor))
		w->cursor[w->n++] = (struct cursor){list, list + n};
}

static const struct name_slot *name_find(const struct policy *p, uint32_t hash,
					 const char *name, size_t len)
{
	for (uint32_t i = hash & p->name_mask;; i = (i + 1) & p->name_mask) {
		const struct name_slot *s = &p->names[i];

		if (s->len == 0)
			return NULL;
		if (s->hash == hash && s->len == len &&
		    memcmp(p->text + s->name, name, len) == 0)
			return s;
	}
}

/* What a slot says to a name that has `front` labels before it. */
static void take_slot(struct walk *w, const struct policy *p, const struct name_slot *s,
		      unsigned front)
{
	static const uint8_t uses[][LISTS] = {
		{true,  false, false},
		{false, true,  true },
		{false, false, true },
	};
	const uint8_t *use = uses[front < 2 ? front : 2];
	const uint32_t *list = p->lists + s->at;

	for (size_t k = 0; k < LISTS; list += s->n[k++]) {
		if (!use[k])
			continue;
		add(w, list, s->n[k]);
		w->secret |= s->secret >> k & 1;
	}
}

static void start_name(struct walk *w, const struct policy *p, const char *name)
{
	size_t len = strlen(name), at = len;
	unsigned labels = 0, total = 1;
	uint32_t h = HASH_START;
	bool internal = strcmp(name, HOST_INTERNAL) == 0;

	for (size_t i = 0; i < len; i++)
		total += name[i] == '.';
	while (at > 0 && labels < p->image->deepest) {
		const struct name_slot *s;

		for (; at > 0 && name[at - 1] != '.'; at--)
			h = hash_byte(h, name[at - 1]);
		labels++;
		if (labels == total || !internal) {
			s = name_find(p, hash_end(h), name + at, len - at);
			if (s)
				take_slot(w, p, s, total - labels);
		}
		if (at > 0)
			h = hash_byte(h, name[--at]);
	}
	if (!internal)
		add(w, p->any, p->n_any);
}

static void start_addr(struct walk *w, const struct policy *p, const struct addr *ip)
{
	bool v4 = addr_is_v4(ip);

	for (uint32_t i = 0; i < p->n_lengths; i++) {
		struct prefix key;
		uint32_t h;

		if (v4 && p->lengths[i] < 96) /* see prefix_has() */
			continue;
		prefix_mask(ip, p->lengths[i], &key);
		h = hash_prefix(&key);
		for (uint32_t k = h & p->range_mask;; k = (k + 1) & p->range_mask) {
			const struct prefix_slot *s = &p->ranges[k];

			if (!s->used)
				break;
			if (s->hash != h || s->prefix.bits != key.bits ||
			    !addr_equal(&s->prefix.addr, &key.addr))
				continue;
			add(w, p->lists + s->list.at, s->list.n);
			w->secret |= (s->used & SLOT_SECRET) != 0;
			break;
		}
	}
	add(w, p->any, p->n_any);
}

void walk_start(struct walk *w, const struct policy *p, const char *name,
		const struct addr *ip)
{
	w->n = 0;
	w->secret = false;
	if (name)
		start_name(w, p, name);
	else if (ip)
		start_addr(w, p, ip);
}

uint32_t walk_next(struct walk *w)
{
	uint32_t best = POLICY_NO_RULE;
	unsigned kept = 0;

	for (unsigned i = 0; i < w->n; i++)
		if (*w->cursor[i].at < best)
			best = *w->cursor[i].at;
	/* A rule that names the host twice counts once. */
	for (unsigned i = 0; i < w->n; i++) {
		struct cursor c = w->cursor[i];

		while (c.at < c.end && *c.at <= best)
			c.at++;
		if (c.at < c.end)
			w->cursor[kept++] = c;
	}
	w->n = kept;
	return best;
}
