/* SPDX-License-Identifier: Apache-2.0 */
#include "ipc/netmux.h"

#include "base/util.h"
#include "ipc/wire.h"

#include <netinet/in.h>

/* The rules that hold for a frame of each type whatever the state; a type that is not
 * listed does not exist. */
static const struct rule {
	uint16_t min, max; /* payload */
	bool id;           /* has one; otherwise it is 0 */
	bool known;
} rules[NETMUX_TYPES] = {
	[NETMUX_OPEN] = {NETMUX_ENDS,     NETMUX_ENDS,                       true,  true},
	[NETMUX_DATA] = {1,               NETMUX_DATA_MAX,                   true,  true},
	[NETMUX_WINDOW_ADD] = {4,               4,                                 true,  true},
	[NETMUX_EOF] = {0,               0,				 true,  true},
	[NETMUX_CLOSE] = {0,               0,				 true,  true},
	[NETMUX_RESET] = {0,               0,				 true,  true},
	[NETMUX_DGRAM] = {NETMUX_ENDS,     NETMUX_ENDS + NETMUX_DATAGRAM + 1, false, true},
	[NETMUX_WHO] = {NETMUX_ENDS,     NETMUX_ENDS,                       true,  true},
	[NETMUX_WHO_IS] = {NETMUX_WHO_SIZE, NETMUX_WHO_SIZE,                   true,  true},
};

void netmux_put_header(uint8_t out[NETMUX_HEADER], uint8_t type, uint32_t id, size_t len)
{
	out[0] = type;
	out[1] = 0;
	wire_set16(out + 2, (uint16_t)len);
	wire_set32(out + 4, id);
}

int netmux_parse(const uint8_t *p, size_t n, struct netmux_frame *ret)
{
	struct netmux_frame f;
	const struct rule *r;

	if (n < NETMUX_HEADER)
		return 0;
	f = (struct netmux_frame){.type = p[0],
				  .id = wire_get32(p + 4),
				  .len = wire_get16(p + 2),
				  .payload = p + NETMUX_HEADER};
	if (f.type >= NETMUX_TYPES || p[1] != 0)
		return -EPROTO;
	r = &rules[f.type];
	if (!r->known || f.len < r->min || f.len > r->max || r->id != (f.id != 0))
		return -EPROTO;
	if (n - NETMUX_HEADER < f.len)
		return 0;
	*ret = f;
	return (int)(NETMUX_HEADER + f.len);
}

/* ---- the beginning -------------------------------------------------------------- */

void netmux_put_hello(uint8_t out[NETMUX_HELLO], const uint8_t nonce[NETMUX_NONCE])
{
	memcpy(out, NETMUX_MAGIC, 8);
	memcpy(out + 8, nonce, NETMUX_NONCE);
}

size_t netmux_skip(const uint8_t *p, size_t n, const uint8_t nonce[NETMUX_NONCE],
		   bool *ret_found)
{
	uint8_t hello[NETMUX_HELLO];
	const uint8_t *at;

	netmux_put_hello(hello, nonce);
	at = memmem(p, n, hello, sizeof(hello));
	*ret_found = at != NULL;
	if (at)
		return (size_t)(at - p) + sizeof(hello);
	return n < sizeof(hello) ? 0 : n - (sizeof(hello) - 1);
}

/* ---- payloads ------------------------------------------------------------------- */

_Static_assert(offsetof(struct sockaddr_in, sin_port) ==
		       offsetof(struct sockaddr_in6, sin6_port),
	       "the port is at one place");

static void put_end(uint8_t *port, uint8_t *addr, const struct sockaddr_storage *sa)
{
	const uint8_t *p = (const void *)sa;
	const uint8_t *in = p + offsetof(struct sockaddr_in, sin_port);

	wire_set16(port, (uint16_t)(in[0] << 8 | in[1]));
	if (sa->ss_family == AF_INET)
		memcpy(addr, p + offsetof(struct sockaddr_in, sin_addr), 4);
	else
		memcpy(addr, p + offsetof(struct sockaddr_in6, sin6_addr), 16);
}

int netmux_put_ends(uint8_t out[NETMUX_ENDS], const struct netmux_ends *e)
{
	bool four = e->from.ss_family == AF_INET;

	if (e->from.ss_family != e->to.ss_family ||
	    (!four && e->from.ss_family != AF_INET6))
		return -EINVAL;
	memset(out, 0, NETMUX_ENDS);
	out[0] = four ? 4 : 6;
	out[1] = e->udp ? IPPROTO_UDP : IPPROTO_TCP;
	put_end(out + 2, out + 8, &e->from);
	put_end(out + 4, out + 24, &e->to);
	return 0;
}

static void get_end(const uint8_t *addr, uint16_t port, bool four,
		    struct sockaddr_storage *ret)
{
	struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(ret, 0, sizeof(*ret));
	memcpy(&a4.sin_addr, addr, 4);
	memcpy(&a6.sin6_addr, addr, 16);
	if (four)
		memcpy(ret, &a4, sizeof(a4));
	else
		memcpy(ret, &a6, sizeof(a6));
}

int netmux_get_ends(const uint8_t in[NETMUX_ENDS], struct netmux_ends *ret)
{
	static const uint8_t zero[12];
	bool four = in[0] == 4;

	if ((!four && in[0] != 6) || (in[1] != IPPROTO_TCP && in[1] != IPPROTO_UDP) ||
	    wire_get16(in + 6) != 0)
		return -EPROTO;
	if (four && (memcmp(in + 12, zero, 12) != 0 || memcmp(in + 28, zero, 12) != 0))
		return -EPROTO;
	ret->udp = in[1] == IPPROTO_UDP;
	get_end(in + 8, wire_get16(in + 2), four, &ret->from);
	get_end(in + 24, wire_get16(in + 4), four, &ret->to);
	return 0;
}

void netmux_put_who(uint8_t out[NETMUX_WHO_SIZE], const struct netmux_who *w)
{
	wire_set32(out, w->pid);
	wire_set32(out + 4, w->root);
	wire_set64(out + 8, w->started);
	memset(out + 16, 0, NETMUX_PROGRAM);
	memcpy(out + 16, w->program, strnlen(w->program, NETMUX_PROGRAM - 1));
}

int netmux_get_who(const uint8_t in[NETMUX_WHO_SIZE], struct netmux_who *ret)
{
	if (in[NETMUX_WHO_SIZE - 1] != 0)
		return -EPROTO;
	ret->pid = wire_get32(in);
	ret->root = wire_get32(in + 4);
	ret->started = wire_get64(in + 8);
	memcpy(ret->program, in + 16, NETMUX_PROGRAM);
	return 0;
}
