/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - a compiled policy, checked and made ready for use.
 *
 * Every offset, index and string is checked once, here; the code that decides trusts
 * them.
 */
#include "policy/image.h"

#include "base/util.h"

const char *const policy_modes[] = {"none", "allowlist", "open", "learn", NULL};

const uint8_t section_size[SECTIONS] = {
	[SECTION_RULES] = sizeof(struct rule),
	[SECTION_PORTS] = sizeof(struct port_range),
	[SECTION_WORDS] = sizeof(uint32_t),
	[SECTION_PREFIXES] = sizeof(struct prefix),
	[SECTION_NAMES] = sizeof(struct name_slot),
	[SECTION_RANGES] = sizeof(struct prefix_slot),
	[SECTION_LENGTHS] = sizeof(uint8_t),
	[SECTION_ANY] = sizeof(uint32_t),
	[SECTION_LISTS] = sizeof(uint32_t),
	[SECTION_TEXT] = sizeof(char),
};

static bool is_table(enum section s)
{
	return s == SECTION_NAMES || s == SECTION_RANGES;
}

static const void *section(const struct image *im, enum section s)
{
	return (const char *)im + im->section[s].at;
}

static bool span_ok(struct span s, uint32_t n)
{
	return s.n <= n && s.at <= n - s.n;
}

static bool header_ok(const struct image *im, size_t n)
{
	if (n < sizeof(*im) || n > POLICY_IMAGE_MAX || im->magic != IMAGE_MAGIC ||
	    im->version != IMAGE_VERSION || im->size != n || im->mode > POLICY_LEARN ||
	    im->section[SECTION_RULES].n > POLICY_RULES_MAX)
		return false;
	for (size_t i = 0; i < SECTIONS; i++) {
		struct span s = im->section[i];

		if (s.at % 8 || s.at < sizeof(*im) || s.at > n ||
		    s.n > (n - s.at) / section_size[i])
			return false;
		if (is_table(i) && (s.n == 0 || (s.n & (s.n - 1))))
			return false;
	}
	/* a NUL at the end makes every offset a string */
	return im->section[SECTION_TEXT].n > 0 &&
	       ((const char *)section(
		       im, SECTION_TEXT))[im->section[SECTION_TEXT].n - 1] == '\0';
}

static bool rule_ok(const struct policy *p, const struct rule *r)
{
	const struct span *s = p->image->section;
	const struct span words[] = {r->methods, r->paths, r->agents, r->tools, r->execs};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (!span_ok(words[i], s[SECTION_WORDS].n))
			return false;
	return r->id < s[SECTION_TEXT].n && r->protocol <= PROTO_HTTP &&
	       span_ok(r->ports, s[SECTION_PORTS].n) &&
	       span_ok(r->prefixes, s[SECTION_PREFIXES].n);
}

static bool numbers_ok(const uint32_t *v, size_t n, uint32_t below)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] >= below)
			return false;
	return true;
}

static bool bits_ok(const struct policy *p)
{
	for (uint32_t i = 0; i < p->image->section[SECTION_PREFIXES].n; i++)
		if (p->prefixes[i].bits > 128)
			return false;
	for (uint32_t i = 0; i < p->n_lengths; i++)
		if (p->lengths[i] > 128)
			return false;
	return true;
}

/* A search ends at an empty slot, so each table must have one. */
static bool tables_ok(const struct policy *p)
{
	const struct span *s = p->image->section;
	uint32_t n = s[SECTION_LISTS].n, empty = 0;

	for (uint32_t i = 0; i <= p->name_mask; i++) {
		const struct name_slot *slot = &p->names[i];
		struct span name = {slot->name, slot->len}, list = {slot->at, 0};

		empty += slot->len == 0;
		if (!span_ok(name, s[SECTION_TEXT].n))
			return false;
		for (size_t k = 0; k < LISTS; k++) {
			if (slot->n[k] > n - list.n)
				return false;
			list.n += slot->n[k];
		}
		if (!span_ok(list, n))
			return false;
	}
	if (empty == 0)
		return false;
	empty = 0;
	for (uint32_t i = 0; i <= p->range_mask; i++) {
		empty += p->ranges[i].used == 0;
		if (!span_ok(p->ranges[i].list, n))
			return false;
	}
	return empty > 0;
}

static bool body_ok(const struct policy *p)
{
	const struct span *s = p->image->section;

	for (uint32_t i = 0; i < p->n_rules; i++)
		if (!rule_ok(p, &p->rules[i]))
			return false;
	return numbers_ok(p->words, s[SECTION_WORDS].n, s[SECTION_TEXT].n) &&
	       numbers_ok(p->any, p->n_any, p->n_rules) &&
	       numbers_ok(p->lists, s[SECTION_LISTS].n, p->n_rules) && bits_ok(p) &&
	       tables_ok(p);
}

int policy_open(struct policy **ret, const void *image, size_t n, struct cove_error *err)
{
	const struct image *im = image;
	struct policy *p;

	if ((uintptr_t)image % 8 || !header_ok(im, n))
		return fail(err, COVE_EINVAL, 0, "policy: not an image of this version");
	p = malloc(sizeof(*p));
	if (!p)
		return fail_nomem(err);
	*p = (struct policy){
		.image = im,
		.rules = section(im, SECTION_RULES),
		.ports = section(im, SECTION_PORTS),
		.words = section(im, SECTION_WORDS),
		.any = section(im, SECTION_ANY),
		.lists = section(im, SECTION_LISTS),
		.prefixes = section(im, SECTION_PREFIXES),
		.names = section(im, SECTION_NAMES),
		.ranges = section(im, SECTION_RANGES),
		.lengths = section(im, SECTION_LENGTHS),
		.text = section(im, SECTION_TEXT),
		.n_rules = im->section[SECTION_RULES].n,
		.n_any = im->section[SECTION_ANY].n,
		.n_lengths = im->section[SECTION_LENGTHS].n,
		.name_mask = im->section[SECTION_NAMES].n - 1,
		.range_mask = im->section[SECTION_RANGES].n - 1,
	};
	if (!body_ok(p)) {
		free(p);
		return fail(err, COVE_EINVAL, 0, "policy: broken image");
	}
	*ret = p;
	return 0;
}

void policy_close(struct policy *p)
{
	free(p);
}

uint64_t policy_generation(const struct policy *p)
{
	return p->image->generation;
}

size_t policy_rules(const struct policy *p)
{
	return p->n_rules;
}

enum policy_mode policy_get_mode(const struct policy *p)
{
	return p->image->mode;
}

bool policy_asks(const struct policy *p)
{
	return p->image->ask;
}

bool policy_scoped(const struct policy *p)
{
	return p->image->scoped;
}

bool policy_opens(const struct policy *p)
{
	for (uint32_t i = 0; i < p->n_rules; i++) {
		const struct rule *r = &p->rules[i];

		if ((r->flags & RULE_SECRET) || r->methods.n || r->paths.n ||
		    r->protocol == PROTO_HTTP)
			return true;
	}
	return false;
}

void prefix_mask(const struct addr *a, unsigned bits, struct prefix *ret)
{
	unsigned whole = bits / 8, rest = bits % 8;

	*ret = (struct prefix){.bits = (uint8_t)bits};
	memcpy(ret->addr.b, a->b, whole);
	if (rest)
		ret->addr.b[whole] = (uint8_t)(a->b[whole] & 0xff00u >> rest);
}
