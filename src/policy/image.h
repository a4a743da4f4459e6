/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image - the layout of a compiled policy, private to src/policy.
 *
 * One block of memory: a header, then sections of fixed-size records that refer to each
 * other by index and to text by offset. Native byte order: an image never leaves the
 * machine that made it.
 *
 * Names are found by hash: one slot for each name or suffix that a pattern has, with
 * three lists of rules (for the name itself, for one label in front, for any number of
 * them). A decision hashes the name once from its end and looks at one slot for each
 * label. Addresses likewise, one slot for each prefix, one look for each prefix length in
 * use. Lists are ascending, so the first rule that matches is found by merging them.
 */
#ifndef COVE_POLICY_IMAGE_H
#define COVE_POLICY_IMAGE_H

#include "policy/policy.h"

#define IMAGE_MAGIC 0x31796c6f70766f63ull /* "covpoly1" */
#define IMAGE_VERSION 1
#define POLICY_HOSTS_MAX (1u << 20) /* patterns of all rules together */
#define LABELS_MAX 127              /* of a name of 253 bytes */

struct span {
	uint32_t at, n; /* records of a section, or bytes of the image */
};

enum rule_flag {
	RULE_DENY = 1 << 0,
	RULE_SECRET = 1 << 1,   /* stands for the hosts of a secret */
	RULE_INTERNAL = 1 << 2, /* names HOST_INTERNAL itself */
};

struct rule {
	uint32_t id;                      /* in text */
	uint8_t flags, protocol;          /* enum rule_flag, enum policy_protocol */
	uint16_t classes;                 /* 1 << enum addr_class: may be dialled */
	struct span ports;                /* of image ports; none: any */
	struct span methods, paths;       /* of words; none: any */
	struct span agents, tools, execs; /* of words; none: any */
	struct span prefixes;             /* may be dialled although not public */
};

struct port_range {
	uint16_t low, high;
};

enum { LIST_EXACT, LIST_STAR, LIST_STARSTAR, LISTS };

/* Its lists are one behind the other. */
struct name_slot {
	uint32_t hash, name;   /* name in text, len bytes */
	uint32_t at, n[LISTS]; /* rule numbers in lists */
	uint16_t len;          /* 0: an empty slot */
	uint16_t secret;       /* 1 << LIST_*: a secret's pattern is among them */
};

enum { SLOT_USED = 1, SLOT_SECRET = 2 };

struct prefix_slot {
	uint32_t hash, used; /* SLOT_*; 0: an empty slot */
	struct prefix prefix;
	struct span list;
};

enum section {
	SECTION_RULES,    /* struct rule */
	SECTION_PORTS,    /* struct port_range */
	SECTION_WORDS,    /* uint32_t: offsets in text */
	SECTION_PREFIXES, /* struct prefix */
	SECTION_NAMES,    /* struct name_slot, a power of two */
	SECTION_RANGES,   /* struct prefix_slot, a power of two */
	SECTION_LENGTHS,  /* uint8_t: prefix lengths in use */
	SECTION_ANY,      /* uint32_t: rules for every host */
	SECTION_LISTS,    /* uint32_t: rule numbers */
	SECTION_TEXT,     /* char: NUL-terminated strings */
	SECTIONS
};

extern const uint8_t section_size[SECTIONS]; /* of a record */

struct image {
	uint64_t magic, generation;
	uint32_t version, size;
	uint8_t mode, ask, scoped, deepest; /* deepest: labels of the longest pattern */
	uint32_t pad;
	struct span section[SECTIONS]; /* at: bytes from the start, aligned to 8 */
};

struct policy {
	const struct image *image;
	const struct rule *rules;
	const struct port_range *ports;
	const uint32_t *words, *any, *lists;
	const struct prefix *prefixes;
	const struct name_slot *names;
	const struct prefix_slot *ranges;
	const uint8_t *lengths;
	const char *text;
	uint32_t n_rules, n_any, n_lengths, name_mask, range_mask;
};

/* Hash of a name, from its last byte to its first, so that each suffix is on the way. */
#define HASH_START 2166136261u
static inline uint32_t hash_byte(uint32_t h, char c)
{
	return (h ^ (unsigned char)c) * 16777619u;
}
static inline uint32_t hash_end(uint32_t h)
{
	h ^= h >> 16;
	h *= 0x7feb352du;
	return h ^ h >> 15;
}
static inline uint32_t hash_prefix(const struct prefix *p)
{
	uint32_t h = hash_byte(HASH_START, (char)p->bits);

	for (size_t i = 0; i < sizeof(p->addr.b); i++)
		h = hash_byte(h, (char)p->addr.b[i]);
	return hash_end(h);
}
/* The first `bits` of a. */
void prefix_mask(const struct addr *a, unsigned bits, struct prefix *ret);

extern const char *const policy_modes[]; /* by enum policy_mode, NULL at the end */

#endif
