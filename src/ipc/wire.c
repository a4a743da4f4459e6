/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/wire.h"

#include <errno.h>
#include <string.h>

#define ATTR_HEADER 8

uint16_t wire_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t wire_get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

uint64_t wire_get64(const uint8_t *p)
{
	return (uint64_t)wire_get32(p) | (uint64_t)wire_get32(p + 4) << 32;
}

void wire_set16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

void wire_set32(uint8_t *p, uint32_t v)
{
	wire_set16(p, (uint16_t)v);
	wire_set16(p + 2, (uint16_t)(v >> 16));
}

void wire_set64(uint8_t *p, uint64_t v)
{
	wire_set32(p, (uint32_t)v);
	wire_set32(p + 4, (uint32_t)(v >> 32));
}

void wire_put_header(uint8_t out[WIRE_HEADER], uint8_t type, uint8_t sub, uint32_t stream,
		     uint32_t len)
{
	wire_set32(out, len);
	out[4] = type;
	out[5] = sub;
	wire_set16(out + 6, 0);
	wire_set32(out + 8, stream);
}

/*
 * The rules that hold for a frame of each type whatever the state of the connection; a
 * type that is not listed does not exist.
 */
enum sub_rule { SUB_ZERO, SUB_FD, SUB_OP };
enum stream_rule { ON_CONNECTION, ON_STREAM };

static const struct rule {
	uint8_t known, sub, on;
	uint32_t min, max; /* payload */
} rules[] = {
	[WIRE_HELLO] = {1, SUB_ZERO, ON_CONNECTION, 16, 16              },
	[WIRE_PING] = {1, SUB_ZERO, ON_CONNECTION, 0,  64              },
	[WIRE_PONG] = {1, SUB_ZERO, ON_CONNECTION, 0,  64              },
	[WIRE_BYE] = {1, SUB_ZERO, ON_CONNECTION, 0,  4096            },
	[WIRE_SETUP] = {1, SUB_ZERO, ON_CONNECTION, 0,  WIRE_PAYLOAD_MAX},
	[WIRE_SHUTDOWN] = {1, SUB_ZERO, ON_CONNECTION, 0,  WIRE_PAYLOAD_MAX},
	[WIRE_QUIESCE] = {1, SUB_ZERO, ON_CONNECTION, 0,  64              },
	[WIRE_QUIET] = {1, SUB_ZERO, ON_CONNECTION, 0,  64              },
	[WIRE_RESUME] = {1, SUB_ZERO, ON_CONNECTION, 0,  WIRE_PAYLOAD_MAX},
	[WIRE_EXEC] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_STARTED] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_FAILED] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_EXIT] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_SIGNAL] = {1, SUB_ZERO, ON_STREAM,     4,  4               },
	[WIRE_RESIZE] = {1, SUB_ZERO, ON_STREAM,     4,  4               },
	[WIRE_DATA] = {1, SUB_FD,   ON_STREAM,     1,  WIRE_PAYLOAD_MAX},
	[WIRE_EOF] = {1, SUB_FD,   ON_STREAM,     0,  0               },
	[WIRE_WINDOW_ADD] = {1, SUB_FD,   ON_STREAM,     4,  4               },
	[WIRE_CLOSE] = {1, SUB_ZERO, ON_STREAM,     0,  0               },
	[WIRE_FILE] = {1, SUB_OP,   ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_RESULT] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_PORT] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_INFO] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_KEEPER] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
	[WIRE_ATTACH] = {1, SUB_ZERO, ON_STREAM,     0,  WIRE_PAYLOAD_MAX},
};

static int sub_is_valid(enum sub_rule rule, uint8_t sub)
{
	switch (rule) {
	case SUB_FD:
		return sub <= 2;
	case SUB_OP:
		return sub >= WIRE_FILE_STAT && sub <= WIRE_FILE_REMOVE;
	default:
		return sub == 0;
	}
}

int wire_parse(const uint8_t *data, size_t n, struct wire_frame *ret, size_t *ret_used)
{
	const struct rule *r;
	struct wire_frame f;

	if (n < WIRE_HEADER)
		return 0;
	f.len = wire_get32(data);
	f.type = data[4];
	f.sub = data[5];
	f.stream = wire_get32(data + 8);
	f.payload = data + WIRE_HEADER;
	if (f.type >= sizeof(rules) / sizeof(rules[0]) || !rules[f.type].known)
		return -EPROTO;
	r = &rules[f.type];
	if (f.len < r->min || f.len > r->max || wire_get16(data + 6) != 0)
		return -EPROTO;
	if (!sub_is_valid(r->sub, f.sub) || (f.stream != 0) != (r->on == ON_STREAM))
		return -EPROTO;
	if (n - WIRE_HEADER < f.len)
		return 0;
	*ret = f;
	*ret_used = WIRE_HEADER + (size_t)f.len;
	return 1;
}

int wire_next_attr(const uint8_t *payload, size_t n, size_t *pos, struct wire_attr *ret)
{
	struct wire_attr a;
	const uint8_t *p;

	if (*pos == n)
		return 0;
	if (*pos > n || n - *pos < ATTR_HEADER)
		return -EPROTO;
	p = payload + *pos;
	a.tag = wire_get16(p);
	a.len = wire_get32(p + 4);
	a.data = p + ATTR_HEADER;
	if (a.tag == 0 || wire_get16(p + 2) != 0 || a.len > n - *pos - ATTR_HEADER)
		return -EPROTO;
	*pos += ATTR_HEADER + (size_t)a.len;
	*ret = a;
	return 1;
}

int wire_attr_u32(const struct wire_attr *a, uint32_t *ret)
{
	if (a->len != 4)
		return -EPROTO;
	*ret = wire_get32(a->data);
	return 0;
}

int wire_attr_u64(const struct wire_attr *a, uint64_t *ret)
{
	if (a->len != 8)
		return -EPROTO;
	*ret = wire_get64(a->data);
	return 0;
}

int wire_attr_str(const struct wire_attr *a, char *out, size_t size)
{
	if (a->len && memchr(a->data, '\0', a->len))
		return -EPROTO;
	if (a->len >= size)
		return -ENAMETOOLONG;
	if (a->len)
		memcpy(out, a->data, a->len);
	out[a->len] = '\0';
	return 0;
}

void wire_out_init(struct wire_out *o, void *data, size_t size)
{
	*o = (struct wire_out){.data = data, .size = size};
}

void wire_put_attr(struct wire_out *o, uint16_t tag, const void *data, size_t n)
{
	uint8_t *p;

	if (o->overflow || o->size - o->len < ATTR_HEADER ||
	    o->size - o->len - ATTR_HEADER < n) {
		o->overflow = 1;
		return;
	}
	p = o->data + o->len;
	wire_set16(p, tag);
	wire_set16(p + 2, 0);
	wire_set32(p + 4, (uint32_t)n);
	if (n)
		memcpy(p + ATTR_HEADER, data, n);
	o->len += ATTR_HEADER + n;
}

void wire_put_str(struct wire_out *o, uint16_t tag, const char *s)
{
	wire_put_attr(o, tag, s, strlen(s));
}

void wire_put_u32(struct wire_out *o, uint16_t tag, uint32_t v)
{
	uint8_t b[4];

	wire_set32(b, v);
	wire_put_attr(o, tag, b, sizeof(b));
}

void wire_put_u64(struct wire_out *o, uint16_t tag, uint64_t v)
{
	uint8_t b[8];

	wire_set64(b, v);
	wire_put_attr(o, tag, b, sizeof(b));
}
