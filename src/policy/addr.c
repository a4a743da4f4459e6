/* SPDX-License-Identifier: Apache-2.0 */
/* addr - see addr.h. The classes are one table of prefixes, the first that holds. */
#include "policy/addr.h"

#include "base/util.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define V4(a, b, c, d) \
	{ \
		{ \
			0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d \
		} \
	}
#define V6(...) \
	{ \
		{ \
			__VA_ARGS__ \
		} \
	}
#define MAPPED 96 /* bits in front of an IPv4 address */

static const char *const class_names[] = {
	[ADDR_PUBLIC] = "public",       [ADDR_UNSPECIFIED] = "unspecified",
	[ADDR_LOOPBACK] = "loopback",   [ADDR_LINK_LOCAL] = "link-local",
	[ADDR_METADATA] = "metadata",   [ADDR_PRIVATE] = "private",
	[ADDR_SHARED] = "shared",       [ADDR_ULA] = "ula",
	[ADDR_MULTICAST] = "multicast", [ADDR_RESERVED] = "reserved",
	[ADDR_SELF] = "self",
};

/* Where a form that carries an IPv4 address has it. */
struct carrier {
	struct prefix form;
	uint8_t at[4];
	uint8_t flip; /* Teredo writes the client's address inverted */
	bool guess;   /* one of several places: 0.x.y.z there is no address */
};

/* One form may be here more than once: all places count, the first that is not public
 * decides. 64:ff9b:1::/48 is cut by each network as it likes (RFC 6052 has four ways). */
static const struct carrier carriers[] = {
	{{V6(0, 0x64, 0xff, 0x9b), 96},                {12, 13, 14, 15}, 0,    false},
	{{V6(0, 0x64, 0xff, 0x9b, 0, 1), 48},          {12, 13, 14, 15}, 0,    true },
	{{V6(0, 0x64, 0xff, 0x9b, 0, 1), 48},          {6, 7, 9, 10},    0,    true },
	{{V6(0, 0x64, 0xff, 0x9b, 0, 1), 48},          {7, 9, 10, 11},   0,    true },
	{{V6(0, 0x64, 0xff, 0x9b, 0, 1), 48},          {9, 10, 11, 12},  0,    true },
	{{V6(0x20, 0x02), 16},                         {2, 3, 4, 5},     0,    false},
	{{V6(0x20, 0x01, 0, 0), 32},                   {12, 13, 14, 15}, 0xff, false},
	{{V6(0x20, 0x01, 0, 0), 32},                   {4, 5, 6, 7},     0,    false},
	{{V6(0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), 96}, {12, 13, 14, 15}, 0,    false},
	{{V6(0), 96},				  {12, 13, 14, 15}, 0,    false},
};

/* Most special first. What no row has is public if it is IPv4 or of 2000::/3. */
static const struct {
	struct prefix prefix;
	enum addr_class class;
} classes[] = {
  /* where clouds answer about the machine, with its credentials */
	{{V4(169, 254, 169, 0), 120},                               ADDR_METADATA   },
	{{V4(169, 254, 170, 0), 120},                               ADDR_METADATA   },
	{{V4(169, 254, 0, 23), 128},                                ADDR_METADATA   },
	{{V4(169, 254, 42, 42), 128},                               ADDR_METADATA   },
	{{V4(100, 100, 100, 200), 128},                             ADDR_METADATA   },
	{{V4(192, 0, 0, 192), 128},                                 ADDR_METADATA   },
	{{V4(168, 63, 129, 16), 128},                               ADDR_METADATA   },
	{{V6(0xfd, 0, 0x0e, 0xc2), 32},                             ADDR_METADATA   },
	{{V6(0xfd, 0x20, 0, 0xce), 32},                             ADDR_METADATA   },
	{{V6(0xfd, 0, 0, 0x42), 32},                                ADDR_METADATA   },

	{{V4(0, 0, 0, 0), 104},				     ADDR_UNSPECIFIED},
	{{V4(127, 0, 0, 0), 104},				   ADDR_LOOPBACK   },
	{{V4(169, 254, 0, 0), 112},                                 ADDR_LINK_LOCAL },
	{{V4(10, 0, 0, 0), 104},				    ADDR_PRIVATE    },
	{{V4(172, 16, 0, 0), 108},                                  ADDR_PRIVATE    },
	{{V4(192, 168, 0, 0), 112},                                 ADDR_PRIVATE    },
	{{V4(100, 64, 0, 0), 106},                                  ADDR_SHARED     },
	{{V4(224, 0, 0, 0), 100},				   ADDR_MULTICAST  },
	{{V4(240, 0, 0, 0), 100},				   ADDR_RESERVED   },
	{{V4(192, 0, 0, 0), 120},				   ADDR_RESERVED   },
	{{V4(192, 0, 2, 0), 120},				   ADDR_RESERVED   },
	{{V4(192, 88, 99, 0), 120},                                 ADDR_RESERVED   },
	{{V4(198, 18, 0, 0), 111},                                  ADDR_RESERVED   },
	{{V4(198, 51, 100, 0), 120},                                ADDR_RESERVED   },
	{{V4(203, 0, 113, 0), 120},                                 ADDR_RESERVED   },

	{{V6(0), 128},					      ADDR_UNSPECIFIED},
	{{V6(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), 128}, ADDR_LOOPBACK   },
	{{V6(0xfe, 0x80), 10},				      ADDR_LINK_LOCAL },
	{{V6(0xfc), 7},					     ADDR_ULA        },
	{{V6(0xff), 8},					     ADDR_MULTICAST  },
	{{V6(0x20, 0x01, 0x0d, 0xb8), 32},                          ADDR_RESERVED   },
	{{V6(0x3f, 0xff), 20},				      ADDR_RESERVED   },
	{{V6(0x20, 0x01, 0, 0), 32},                                ADDR_PUBLIC     }, /* Teredo */
	{{V6(0x20, 0x01, 0, 0), 23},                                ADDR_RESERVED   },
	{{V6(0, 0x64, 0xff, 0x9b), 96},                             ADDR_PUBLIC     }, /* NAT64 */
	{{V6(0, 0x64, 0xff, 0x9b, 0, 1), 48},                       ADDR_PUBLIC     },
	{{V6(0x20), 3},					     ADDR_PUBLIC     },
	{{V6(0), 0},						ADDR_RESERVED   },
};

const char *addr_class_name(enum addr_class c)
{
	return (size_t)c < ARRAY_LEN(class_names) ? class_names[c] : "unknown";
}

bool addr_is_v4(const struct addr *a)
{
	static const struct addr v4 = V4(0, 0, 0, 0);

	return memcmp(a->b, v4.b, MAPPED / 8) == 0;
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

bool prefix_has(const struct prefix *p, const struct addr *a)
{
	unsigned whole = p->bits / 8, rest = p->bits % 8;

	if (p->bits > 128)
		return false;
	/* "::/0" speaks of IPv6: that IPv4 is inside is our notation only. */
	if (p->bits < MAPPED && addr_is_v4(a))
		return false;
	if (memcmp(p->addr.b, a->b, whole) != 0)
		return false;
	return !rest || !((p->addr.b[whole] ^ a->b[whole]) >> (8 - rest));
}

static enum addr_class in_table(const struct addr *a)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if (prefix_has(&classes[i].prefix, a))
			return classes[i].class;
	return ADDR_PUBLIC; /* IPv4 that no row has */
}

static struct addr carried(const struct addr *a, const uint8_t at[4], uint8_t flip)
{
	return (struct addr)V4(a->b[at[0]] ^ flip, a->b[at[1]] ^ flip, a->b[at[2]] ^ flip,
			       a->b[at[3]] ^ flip);
}

size_t addr_inner(const struct addr *a, struct addr ret[ADDR_INNER_MAX])
{
	static const uint8_t isatap[3] = {0, 0x5e, 0xfe}, last[4] = {12, 13, 14, 15};
	size_t n = 0;

	_Static_assert(ARRAY_LEN(carriers) < ADDR_INNER_MAX, "and one for ISATAP");
	if (addr_is_v4(a))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(carriers); i++) {
		const struct carrier *k = &carriers[i];

		if (!prefix_has(&k->form, a))
			continue;
		ret[n] = carried(a, k->at, k->flip);
		n += !k->guess || ret[n].b[MAPPED / 8] != 0;
	}
	if ((a->b[8] & 0xfd) == 0 && memcmp(a->b + 9, isatap, sizeof(isatap)) == 0)
		ret[n++] = carried(a, last, 0);
	return n;
}

enum addr_class addr_classify(const struct addr *a)
{
	struct addr inner[ADDR_INNER_MAX];
	enum addr_class c = in_table(a);
	size_t n;

	/* ::1 and :: are of the form that carries 0.0.0.1 and 0.0.0.0 */
	if (addr_is_v4(a) || c == ADDR_LOOPBACK || c == ADDR_UNSPECIFIED)
		return c;
	n = addr_inner(a, inner);
	for (size_t i = 0; i < n; i++) {
		enum addr_class in = in_table(&inner[i]);

		if (in != ADDR_PUBLIC)
			return in;
	}
	return c;
}

int addr_parse(const char *text, struct addr *ret)
{
	struct addr v4 = V4(0, 0, 0, 0), v6;

	if (inet_pton(AF_INET, text, v4.b + MAPPED / 8) == 1) {
		*ret = v4;
		return 0;
	}
	if (inet_pton(AF_INET6, text, v6.b) != 1)
		return -EINVAL;
	*ret = v6;
	return 0;
}

const char *addr_text(const struct addr *a, char out[ADDR_TEXT])
{
	bool v4 = addr_is_v4(a);

	if (!inet_ntop(v4 ? AF_INET : AF_INET6, a->b + (v4 ? MAPPED / 8 : 0), out,
		       ADDR_TEXT))
		out[0] = '\0';
	return out;
}

/* Digits only, at most three, no zero in front. */
static int parse_bits(const char *s, unsigned max, unsigned *ret)
{
	unsigned v = 0;
	size_t n = strspn(s, "0123456789");

	if (n == 0 || n > 3 || s[n] || (n > 1 && s[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		v = v * 10 + (unsigned)(s[i] - '0');
	if (v > max)
		return -EINVAL;
	*ret = v;
	return 0;
}

static bool bits_beyond(const struct addr *a, unsigned bits)
{
	for (unsigned i = bits; i < 128; i++)
		if (a->b[i / 8] & (0x80u >> (i % 8)))
			return true;
	return false;
}

int prefix_parse(const char *text, struct prefix *ret)
{
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);
	char base[ADDR_TEXT];
	struct addr a;
	unsigned bits = 128, before;

	if (n >= sizeof(base))
		return -EINVAL;
	memcpy(base, text, n);
	base[n] = '\0';
	if (addr_parse(base, &a) < 0)
		return -EINVAL;
	/* 10.0.0.0/8, and ::ffff:10.0.0.0/104 for whoever writes it so */
	before = strchr(base, ':') ? 0 : MAPPED;
	if (slash) {
		if (parse_bits(slash + 1, 128 - before, &bits) < 0)
			return -EINVAL;
		bits += before;
	}
	if (bits_beyond(&a, bits))
		return -EINVAL;
	*ret = (struct prefix){a, (uint8_t)bits};
	return 0;
}

int addr_from_sockaddr(const struct sockaddr *sa, struct addr *ret, uint16_t *ret_port)
{
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (sa->sa_family == AF_INET) {
		struct addr a = V4(0, 0, 0, 0);

		memcpy(&in, sa, sizeof(in));
		memcpy(a.b + MAPPED / 8, &in.sin_addr, 4);
		*ret = a;
		if (ret_port)
			*ret_port = ntohs(in.sin_port);
		return 0;
	}
	if (sa->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(&in6, sa, sizeof(in6));
	memcpy(ret->b, &in6.sin6_addr, 16);
	if (ret_port)
		*ret_port = ntohs(in6.sin6_port);
	return 0;
}

socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port,
			   struct sockaddr_storage *ret)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	memset(ret, 0, sizeof(*ret));
	if (addr_is_v4(a)) {
		memcpy(&in.sin_addr, a->b + MAPPED / 8, 4);
		memcpy(ret, &in, sizeof(in));
		return sizeof(in);
	}
	memcpy(&in6.sin6_addr, a->b, 16);
	memcpy(ret, &in6, sizeof(in6));
	return sizeof(in6);
}
