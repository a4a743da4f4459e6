/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two walks over the attributes: the first checks and measures, the second copies into
 * one allocation (pointer lists in front, text behind), so that a request is freed in one
 * go and nothing points into the link's buffer.
 */
#include "guest/request.h"

enum kind { K_NONE, K_U32, K_U64, K_STR, K_LIST, K_BYTES };
#define LISTS 4 /* of the kind K_LIST below */

static const uint8_t kinds[WIRE_A_LAST + 1] = {
	[WIRE_A_ARG] = K_LIST,    [WIRE_A_ENV] = K_LIST,       [WIRE_A_CWD] = K_STR,
	[WIRE_A_FLAGS] = K_U32,   [WIRE_A_ROWS] = K_U32,       [WIRE_A_COLS] = K_U32,
	[WIRE_A_UID] = K_U32,     [WIRE_A_GID] = K_U32,        [WIRE_A_PATH] = K_LIST,
	[WIRE_A_PATH2] = K_STR,   [WIRE_A_MODE] = K_U32,       [WIRE_A_PORT] = K_U32,
	[WIRE_A_NAME] = K_STR,    [WIRE_A_HOSTNAME] = K_STR,   [WIRE_A_TIME_NS] = K_U64,
	[WIRE_A_SEED] = K_BYTES,  [WIRE_A_TIMEOUT_MS] = K_U32, [WIRE_A_TEXT] = K_STR,
	[WIRE_A_AGENT] = K_STR,   [WIRE_A_TOOL] = K_STR,       [WIRE_A_MOUNT] = K_LIST,
	[WIRE_A_NONCE] = K_BYTES, [WIRE_A_STREAM] = K_U32,     [WIRE_A_PIDS] = K_U32,
};

struct sizes {
	size_t attrs, pointers, text;
};

static int check_attr(struct request *r, const struct wire_attr *a, uint64_t allowed,
		      struct sizes *z)
{
	uint8_t kind;

	if (a->tag > WIRE_A_LAST || !(allowed & TAG(a->tag)))
		return -EOPNOTSUPP;
	kind = kinds[a->tag];
	if (kind != K_LIST && request_has(r, a->tag))
		return -EPROTO;
	r->seen |= TAG(a->tag);
	if (++z->attrs > WIRE_ATTRS_MAX)
		return -EPROTO;
	switch (kind) {
	case K_U32:
		return wire_attr_u32(a, &r->num[a->tag]);
	case K_U64:
		return wire_attr_u64(a, &r->time_ns);
	case K_LIST:
		z->pointers++;
		r->count[a->tag]++;
		break;
	case K_BYTES:
		r->count[a->tag] = a->len;
		z->text += a->len;
		return a->len > 256 ? -EPROTO : 0;
	case K_STR:
		break;
	default:
		return -EOPNOTSUPP;
	}
	z->text += (size_t)a->len + 1;
	return a->len && memchr(a->data, '\0', a->len) ? -EPROTO : 0;
}

static void place_lists(struct request *r, char **p)
{
	for (unsigned tag = 0; tag <= WIRE_A_LAST; tag++) {
		if (kinds[tag] != K_LIST)
			continue;
		r->list[tag] = p;
		p += r->count[tag];
		*p++ = NULL;
		r->count[tag] = 0; /* counts up again in the second walk */
	}
}

static void copy_attr(struct request *r, const struct wire_attr *a, char **text)
{
	uint8_t kind = kinds[a->tag];
	char *s = *text;

	if (kind != K_STR && kind != K_LIST && kind != K_BYTES)
		return;
	if (a->len)
		memcpy(s, a->data, a->len);
	*text += a->len;
	if (kind != K_BYTES)
		*(*text)++ = '\0';
	if (kind == K_LIST)
		r->list[a->tag][r->count[a->tag]++] = s;
	else
		r->str[a->tag] = s;
}

int request_parse(struct request *ret, const struct wire_frame *f, uint64_t allowed)
{
	struct request r = {0};
	struct sizes z = {0};
	struct wire_attr a;
	char **lists, *text;
	size_t pos = 0;
	int e;

	while ((e = wire_next_attr(f->payload, f->len, &pos, &a)) > 0) {
		e = check_attr(&r, &a, allowed, &z);
		if (e < 0)
			return e;
	}
	if (e < 0)
		return e;
	z.pointers += LISTS; /* their terminators */
	lists = malloc(z.pointers * sizeof(*lists) + z.text);
	if (!lists)
		return -ENOMEM;
	r.arena = lists;
	text = (char *)(lists + z.pointers);
	place_lists(&r, lists);
	for (pos = 0; wire_next_attr(f->payload, f->len, &pos, &a) > 0;)
		copy_attr(&r, &a, &text);
	*ret = r;
	return 0;
}

void request_clear(struct request *r)
{
	free(r->arena);
	r->arena = NULL;
}
