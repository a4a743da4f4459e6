/* SPDX-License-Identifier: Apache-2.0 */
#include "os/netcapture.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define LO_INDEX 1 /* of every new namespace */
#define PRIORITY_MANGLE (-150)
#define TABLE "cove"
#define CHAIN "capture"

static const uint8_t loopback6[16] = {[15] = 1};

/* ---- bytes ---------------------------------------------------------------------- */

struct nl {
	struct netcapture_batch *b;
	uint32_t message; /* where the last one begins */
	uint32_t seq;
	bool full;
};

static uint32_t put(struct nl *m, const void *data, size_t n)
{
	uint32_t at = m->b->size;
	size_t padded = NLMSG_ALIGN(n);

	if (padded > sizeof(m->b->data) - at) {
		m->full = true;
		return 0;
	}
	memset(m->b->data + at, 0, padded);
	if (n)
		memcpy(m->b->data + at, data, n);
	m->b->size += (uint32_t)padded;
	return at;
}

static void message(struct nl *m, uint16_t type, uint16_t flags, const void *header,
		    size_t n)
{
	struct nlmsghdr h = {.nlmsg_type = type,
			     .nlmsg_flags = NLM_F_REQUEST | flags,
			     .nlmsg_seq = ++m->seq};

	m->message = put(m, &h, sizeof(h));
	put(m, header, n);
	m->b->acks += (flags & NLM_F_ACK) != 0;
}

static void message_end(struct nl *m)
{
	uint32_t len = m->b->size - m->message;

	memcpy(m->b->data + m->message + offsetof(struct nlmsghdr, nlmsg_len), &len,
	       sizeof(len));
}

static void attr(struct nl *m, uint16_t type, const void *data, size_t n)
{
	struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type};

	put(m, &a, sizeof(a));
	put(m, data, n);
}

static void attr_text(struct nl *m, uint16_t type, const char *text)
{
	attr(m, type, text, strlen(text) + 1);
}

/* nf_tables has its numbers in network order. */
static void attr_number(struct nl *m, uint16_t type, uint32_t value)
{
	value = htonl(value);
	attr(m, type, &value, sizeof(value));
}

static uint32_t nest(struct nl *m, uint16_t type)
{
	struct nlattr a = {.nla_type = (uint16_t)(type | NLA_F_NESTED)};

	return put(m, &a, sizeof(a));
}

static void nest_end(struct nl *m, uint32_t at)
{
	uint16_t len = (uint16_t)(m->b->size - at);

	memcpy(m->b->data + at + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

static struct nl begin(struct netcapture_batch *b, int protocol)
{
	b->protocol = protocol;
	b->acks = b->size = 0;
	return (struct nl){.b = b};
}

static void end(struct nl *m)
{
	if (m->full)
		m->b->size = 0;
}

/* ---- addresses and routes ------------------------------------------------------- */

#define NEW (NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)

static void own_address(struct nl *m)
{
	const struct ifaddrmsg a = {.ifa_family = AF_INET,
				    .ifa_prefixlen = 32,
				    .ifa_scope = RT_SCOPE_UNIVERSE,
				    .ifa_index = LO_INDEX};

	message(m, RTM_NEWADDR, NEW, &a, sizeof(a));
	attr_number(m, IFA_LOCAL, NETCAPTURE_OWN4);
	attr_number(m, IFA_ADDRESS, NETCAPTURE_OWN4);
	message_end(m);
}

/* What never leaves this machine needs no pacing: the host's default may be an algorithm
 * that sets a timer for every packet. Reno is in every kernel. */
static void without_pacing(struct nl *m)
{
	uint32_t metrics = nest(m, RTA_METRICS);

	attr_text(m, RTAX_CC_ALGO, "reno");
	nest_end(m, metrics);
}

static void local_route(struct nl *m, uint8_t family, const void *source, size_t n)
{
	const struct rtmsg r = {.rtm_family = family,
				.rtm_table = RT_TABLE_LOCAL,
				.rtm_protocol = RTPROT_BOOT,
				.rtm_scope = RT_SCOPE_HOST,
				.rtm_type = RTN_LOCAL};
	const uint32_t lo = LO_INDEX;

	message(m, RTM_NEWROUTE, NEW, &r, sizeof(r));
	attr(m, RTA_OIF, &lo, sizeof(lo));
	attr(m, RTA_PREFSRC, source, n);
	without_pacing(m);
	message_end(m);
}

/* Nobody answers there: an error at once instead of silence. */
static void no_route(struct nl *m, uint8_t family, const void *to, uint8_t bits)
{
	const struct rtmsg r = {.rtm_family = family,
				.rtm_dst_len = bits,
				.rtm_table = RT_TABLE_LOCAL,
				.rtm_protocol = RTPROT_BOOT,
				.rtm_scope = RT_SCOPE_UNIVERSE,
				.rtm_type = RTN_UNREACHABLE};

	message(m, RTM_NEWROUTE, NEW, &r, sizeof(r));
	attr(m, RTA_DST, to, family == AF_INET ? 4 : 16);
	message_end(m);
}

static void build_routes(struct netcapture_batch *b, bool six)
{
	const uint32_t loopback4 = htonl(INADDR_LOOPBACK);
	const uint32_t multicast4 = htonl(0xe0000000u), broadcast4 = 0xffffffffu;
	const uint8_t multicast6[16] = {0xff};
	struct nl m = begin(b, NETLINK_ROUTE);

	own_address(&m);
	local_route(&m, AF_INET, &loopback4, sizeof(loopback4));
	no_route(&m, AF_INET, &multicast4, 4);
	no_route(&m, AF_INET, &broadcast4, 32);
	if (six) {
		local_route(&m, AF_INET6, loopback6, sizeof(loopback6));
		no_route(&m, AF_INET6, multicast6, 8);
	}
	end(&m);
}

/* ---- the rules ------------------------------------------------------------------ */

struct expr {
	uint32_t elem, data;
};

static struct expr expr(struct nl *m, const char *name)
{
	struct expr e = {.elem = nest(m, NFTA_LIST_ELEM)};

	attr_text(m, NFTA_EXPR_NAME, name);
	e.data = nest(m, NFTA_EXPR_DATA);
	return e;
}

static void expr_end(struct nl *m, struct expr e)
{
	nest_end(m, e.data);
	nest_end(m, e.elem);
}

static void value(struct nl *m, uint16_t type, const void *data, size_t n)
{
	uint32_t v = nest(m, type);

	attr(m, NFTA_DATA_VALUE, data, n);
	nest_end(m, v);
}

/* Goes on only if register 1 compares so. */
static void compare(struct nl *m, uint32_t op, const void *data, size_t n)
{
	struct expr e = expr(m, "cmp");

	attr_number(m, NFTA_CMP_SREG, NFT_REG_1);
	attr_number(m, NFTA_CMP_OP, op);
	value(m, NFTA_CMP_DATA, data, n);
	expr_end(m, e);
}

static void meta_is(struct nl *m, uint32_t key, uint8_t want)
{
	struct expr e = expr(m, "meta");

	attr_number(m, NFTA_META_KEY, key);
	attr_number(m, NFTA_META_DREG, NFT_REG_1);
	expr_end(m, e);
	compare(m, NFT_CMP_EQ, &want, sizeof(want));
}

/* The bytes of the packet's network header at `offset` are not these. */
static void header_is_not(struct nl *m, uint32_t offset, const void *data, size_t n)
{
	struct expr e = expr(m, "payload");

	attr_number(m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	attr_number(m, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
	attr_number(m, NFTA_PAYLOAD_OFFSET, offset);
	attr_number(m, NFTA_PAYLOAD_LEN, (uint32_t)n);
	expr_end(m, e);
	compare(m, NFT_CMP_NEQ, data, n);
}

static void load(struct nl *m, uint32_t reg, const void *data, size_t n)
{
	struct expr e = expr(m, "immediate");

	attr_number(m, NFTA_IMMEDIATE_DREG, reg);
	value(m, NFTA_IMMEDIATE_DATA, data, n);
	expr_end(m, e);
}

static void redirect(struct nl *m, uint8_t family, const void *addr, size_t n)
{
	const uint16_t port = htons(NETCAPTURE_PORT);
	struct expr e;

	load(m, NFT_REG_1, addr, n);
	load(m, NFT_REG_2, &port, sizeof(port));
	e = expr(m, "tproxy");
	attr_number(m, NFTA_TPROXY_FAMILY, family);
	attr_number(m, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
	attr_number(m, NFTA_TPROXY_REG_PORT, NFT_REG_2);
	expr_end(m, e);
}

static void nft_message(struct nl *m, uint16_t type)
{
	const struct nfgenmsg g = {.nfgen_family = NFPROTO_INET};

	message(m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
		NLM_F_ACK | NLM_F_CREATE | (type == NFT_MSG_NEWRULE ? NLM_F_APPEND : 0),
		&g, sizeof(g));
}

static void batch_mark(struct nl *m, uint16_t type)
{
	const struct nfgenmsg g = {.res_id = htons(NFNL_SUBSYS_NFTABLES)};

	message(m, type, 0, &g, sizeof(g));
	message_end(m);
}

static void table_and_chain(struct nl *m)
{
	uint32_t hook;

	nft_message(m, NFT_MSG_NEWTABLE);
	attr_text(m, NFTA_TABLE_NAME, TABLE);
	message_end(m);
	nft_message(m, NFT_MSG_NEWCHAIN);
	attr_text(m, NFTA_CHAIN_TABLE, TABLE);
	attr_text(m, NFTA_CHAIN_NAME, CHAIN);
	attr_text(m, NFTA_CHAIN_TYPE, "filter");
	hook = nest(m, NFTA_CHAIN_HOOK);
	attr_number(m, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
	attr_number(m, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_MANGLE);
	nest_end(m, hook);
	message_end(m);
}

static uint32_t rule(struct nl *m)
{
	nft_message(m, NFT_MSG_NEWRULE);
	attr_text(m, NFTA_RULE_TABLE, TABLE);
	attr_text(m, NFTA_RULE_CHAIN, CHAIN);
	return nest(m, NFTA_RULE_EXPRESSIONS);
}

static void rule_end(struct nl *m, uint32_t expressions)
{
	nest_end(m, expressions);
	message_end(m);
}

static void build_rules(struct netcapture_batch *b, bool six)
{
	const uint8_t loopback_net = 127;
	const uint32_t to4 = htonl(NETCAPTURE_ADDR4), own4 = htonl(NETCAPTURE_OWN4);
	struct nl m = begin(b, NETLINK_NETFILTER);
	uint32_t r;

	batch_mark(&m, NFNL_MSG_BATCH_BEGIN);
	table_and_chain(&m);
	r = rule(&m);
	meta_is(&m, NFT_META_NFPROTO, NFPROTO_IPV4);
	meta_is(&m, NFT_META_L4PROTO, IPPROTO_TCP);
	header_is_not(&m, 16, &loopback_net, sizeof(loopback_net)); /* destination */
	header_is_not(&m, 16, &own4, sizeof(own4));
	redirect(&m, NFPROTO_IPV4, &to4, sizeof(to4));
	rule_end(&m, r);
	if (six) {
		r = rule(&m);
		meta_is(&m, NFT_META_NFPROTO, NFPROTO_IPV6);
		meta_is(&m, NFT_META_L4PROTO, IPPROTO_TCP);
		header_is_not(&m, 24, loopback6, sizeof(loopback6));
		redirect(&m, NFPROTO_IPV6, loopback6, sizeof(loopback6));
		rule_end(&m, r);
	}
	batch_mark(&m, NFNL_MSG_BATCH_END);
	end(&m);
}

void netcapture_build(struct netcapture *n, bool six)
{
	n->six = six;
	build_routes(&n->routes, six);
	build_rules(&n->rules, six);
}

bool netcapture_has_ipv6(void)
{
	cleanup_fd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 || errno != EAFNOSUPPORT;
}
