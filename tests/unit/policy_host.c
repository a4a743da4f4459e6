/* SPDX-License-Identifier: Apache-2.0 */
/* Names are normalised or refused; addresses have the class of what they really reach. */
#include "tap.h"

#include "base/util.h"
#include "policy/addr.h"
#include "policy/glob.h"
#include "policy/host.h"

#include <netinet/in.h>

static void normal_forms(void)
{
	static const struct {
		const char *in, *out;
	} good[] = {
		{"example.com",						       "example.com"          },
		{"EXAMPLE.Com",						       "example.com"          },
		{"example.com.",						      "example.com"          },
		{"a",								 "a"                    },
		{"localhost",							 "localhost"            },
		{"_dmarc.a_b.com",						    "_dmarc.a_b.com"       },
		{"r3---sn.x.com",						     "r3---sn.x.com"        },
		{"1and1.com",							 "1and1.com"            },
		{"1.2.3.4.in-addr",						   "1.2.3.4.in-addr"      },
		{"XN--BCHER-KVA.x",						   "xn--bcher-kva.x"      },
		{"b\xc3\xbc"
		 "cher.example",				     "xn--bcher-kva.example"},
		{"M\xc3\xbcnchen.de",						 "xn--mnchen-3ya.de"    },
		{"stra\xc3\x9f"
		 "e.de",					     "xn--strae-oqa.de"     },
		{"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e.jp",                           "xn--wgv71a119e.jp"    },
		{"\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbc\xd0\xb5\xd1\x80.\xd1\x80\xd1\x84",
		 "xn--e1afmkfd.xn--p1ai"								     },
		{"\xce\xb5\xce\xbb.gr",					       "xn--qxam.gr"          },
	};
	char out[HOST_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		int r = host_normalise(good[i].in, strlen(good[i].in), out);

		OK(r == 0 && strcmp(out, good[i].out) == 0, "%s -> %s", good[i].in,
		   good[i].out);
		OK(r == 0 && host_normalise(out, strlen(out), out) == 0 &&
			   strcmp(out, good[i].out) == 0,
		   "and once more changes nothing");
	}
}

static void refused_names(void)
{
#define TEXT(s) \
	{ \
		s, sizeof(s) - 1 \
	}
	static const struct {
		const char *in;
		size_t n;
	} bad[] = {
		TEXT(""),
		TEXT("."),
		TEXT(".."),
		TEXT("a..b"),
		TEXT(".a"),
		TEXT("a.."),
		TEXT("-a.b"),
		TEXT("a-.b"),
		TEXT("a b.c"),
		TEXT("a\0.com"),
		TEXT("example.com\0.evil.org"),
		TEXT("a\n.com"),
		TEXT("a\x7f.com"),
		TEXT("a/b"),
		TEXT("a:80"),
		TEXT("user@host"),
		TEXT("a%2ecom"),
		TEXT("*.a"),
		TEXT("1.2.3.4"),
		TEXT("1.2.3"),
		TEXT("127.1"),
		TEXT("2130706433"),
		TEXT("0x7f000001"),
		TEXT("0x7f.1"),
		TEXT("a.0x7f"),
		TEXT("a.0x"),
		TEXT("a.123."),
		TEXT("::1"),
		TEXT("[::1]"),
		TEXT("p\xd0\xb0ypal.com"),    /* a Cyrillic letter among Latin ones */
		TEXT("\xd0\xb0\xce\xb1.com"), /* Cyrillic and Greek */
		TEXT("b\xc3\x9c"
		     "cher.example"),          /* a capital that would need mapping */
		TEXT("a\xcc\x88.example"),     /* a combining mark: not composed */
		TEXT("a\xe2\x80\x8d.example"), /* zero width joiner */
		TEXT("a\xe2\x80\xae.example"), /* right-to-left override */
		TEXT("a\xe3\x80\x82"
		     "com"),               /* an ideographic full stop */
		TEXT("\xef\xbd\x81.com"),  /* a full-width letter */
		TEXT("a\xc2\xad.com"),     /* a soft hyphen */
		TEXT("a\xff.com"),         /* not UTF-8 */
		TEXT("a\xc0\xae.com"),     /* an overlong dot */
		TEXT("a\xed\xa0\x80.com"), /* a surrogate */
		TEXT("a\xc3"),             /* half a character */
		TEXT("-\xc3\xbc.com"),
		TEXT("_\xc3\xbc.com"),
	};
#undef TEXT
	char out[HOST_MAX + 1] = "untouched";

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		OK(host_normalise(bad[i].in, bad[i].n, out) < 0 &&
			   strcmp(out, "untouched") == 0,
		   "bad name %zu is refused", i);
}

static void long_names(void)
{
	char name[600], out[HOST_MAX + 1];

	memset(name, 'a', sizeof(name));
	OK(host_normalise(name, 63, out) == 0, "a label of 63");
	OK(host_normalise(name, 64, out) == -ENAMETOOLONG, "none of 64");
	for (size_t i = 1; i < sizeof(name); i += 2)
		name[i] = '.';
	OK(host_normalise(name, 253, out) == 0 && strlen(out) == 253, "a name of 253");
	OK(host_normalise(name, 254, out) == 0, "its trailing dot does not count");
	OK(host_normalise(name, 255, out) == -ENAMETOOLONG, "none of 255");
	OK(host_normalise(name, 599, out) == -ENAMETOOLONG, "none of 599");
	/* 60 letters of two bytes become a label that is too long */
	for (size_t i = 0; i < 120; i += 2) {
		name[i] = '\xc3';
		name[i + 1] = (char)(0xa0 + i / 2 % 20);
	}
	OK(host_normalise(name, 120, out) < 0, "a U-label whose A-label is too long");
}

static void patterns(void)
{
	static const struct {
		const char *in;
		enum host_kind kind;
		const char *out;
	} good[] = {
		{"Example.com",                   HOST_EXACT,    "example.com"          },
		{"*.Example.com",                 HOST_STAR,     "example.com"          },
		{"**.example.com.",               HOST_STARSTAR, "example.com"          },
		{"*",			     HOST_ANY,      ""                     },
		{"10.0.0.1",                      HOST_IP,       "10.0.0.1"             },
		{"10.0.0.1/32",                   HOST_IP,       "10.0.0.1"             },
		{"10.0.0.0/8",                    HOST_CIDR,     "10.0.0.0/8"           },
		{"0.0.0.0/0",                     HOST_CIDR,     "0.0.0.0/0"            },
		{"::/0",			  HOST_CIDR,     "::/0"                 },
		{"::1",			   HOST_IP,       "::1"                  },
		{"2001:DB8::/32",                 HOST_CIDR,     "2001:db8::/32"        },
		{"::ffff:10.0.0.1",               HOST_IP,       "10.0.0.1"             },
		{"::ffff:10.0.0.0/104",           HOST_CIDR,     "10.0.0.0/8"           },
		{"cafe.babe",                     HOST_EXACT,    "cafe.babe"            },
		{"*.b\xc3\xbc"
		 "cher.example", HOST_STAR,     "xn--bcher-kva.example"},
	};
	static const char *const bad[] = {
		"",           "**",          "*.",          "*.*.com",     "a.*.com",
		"***.com",    "*com",        "10.0.0.1/8",  "10.0.0.0/33", "10.0.0.0/",
		"10.0.0/8",   "010.0.0.1",   "::1%lo",      "fe80::/10 ",  "1::/129",
		"*.10.0.0.1", "10.0.0.0/08", "10.0.0.0/+8", "::/-1",       "[::1]"};
	char out[HOST_MAX + 1];
	enum host_kind kind;

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		OK(host_pattern(good[i].in, &kind, out) == 0 && kind == good[i].kind &&
			   strcmp(out, good[i].out) == 0,
		   "pattern %s", good[i].in);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		OK(host_pattern(bad[i], &kind, out) == -EINVAL, "no pattern: '%s'",
		   bad[i]);
}

static void matches(void)
{
	static const struct {
		const char *pattern, *name;
		bool yes;
	} cases[] = {
		{"example.com",     "example.com",       true },
		{"EXAMPLE.com",     "example.com",       true },
		{"example.com",     "www.example.com",   false},
		{"*.example.com",   "www.example.com",   true },
		{"*.example.com",   "a.b.example.com",   false},
		{"*.example.com",   "example.com",       false},
		{"*.example.com",   "wwwexample.com",    false},
		{"*.example.com",   "www.example.com.x", false},
		{"**.example.com",  "www.example.com",   true },
		{"**.example.com",  "a.b.c.example.com", true },
		{"**.example.com",  "example.com",       false},
		{"**.example.com",  "xexample.com",      false},
		{"*",               "anything.at.all",   true },
		{"*",               HOST_INTERNAL,       false},
		{"*.cove.internal", HOST_INTERNAL,       false},
		{"**.internal",     HOST_INTERNAL,       false},
		{HOST_INTERNAL,     HOST_INTERNAL,       true },
		{"10.0.0.0/8",      "10.1.2.3",          true },
		{"10.0.0.0/8",      "11.1.2.3",          false},
		{"10.0.0.0/8",      "example.com",       false},
		{"not a host",      "not a host",        false},
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		OK(host_matches(cases[i].pattern, cases[i].name) == cases[i].yes,
		   "%s %s %s", cases[i].pattern,
		   cases[i].yes ? "matches" : "does not match", cases[i].name);
}

static void classes(void)
{
	static const struct {
		const char *text;
		enum addr_class class;
	} cases[] = {
		{"8.8.8.8",                   ADDR_PUBLIC     },
		{"1.1.1.1",                   ADDR_PUBLIC     },
		{"172.15.255.255",            ADDR_PUBLIC     },
		{"172.32.0.0",                ADDR_PUBLIC     },
		{"100.63.255.255",            ADDR_PUBLIC     },
		{"100.128.0.0",               ADDR_PUBLIC     },
		{"223.255.255.255",           ADDR_PUBLIC     },
		{"2606:4700::1111",           ADDR_PUBLIC     },
		{"0.0.0.0",                   ADDR_UNSPECIFIED},
		{"0.1.2.3",                   ADDR_UNSPECIFIED},
		{"::",			ADDR_UNSPECIFIED},
		{"127.0.0.1",                 ADDR_LOOPBACK   },
		{"127.255.255.254",           ADDR_LOOPBACK   },
		{"::1",                       ADDR_LOOPBACK   },
		{"169.254.0.1",               ADDR_LINK_LOCAL },
		{"fe80::1",                   ADDR_LINK_LOCAL },
		{"febf::1",                   ADDR_LINK_LOCAL },
		{"169.254.169.254",           ADDR_METADATA   },
		{"169.254.170.2",             ADDR_METADATA   },
		{"100.100.100.200",           ADDR_METADATA   },
		{"168.63.129.16",             ADDR_METADATA   },
		{"fd00:ec2::254",             ADDR_METADATA   },
		{"fd20:ce::254",              ADDR_METADATA   },
		{"10.0.0.0",                  ADDR_PRIVATE    },
		{"172.16.0.1",                ADDR_PRIVATE    },
		{"172.31.255.255",            ADDR_PRIVATE    },
		{"192.168.255.255",           ADDR_PRIVATE    },
		{"100.64.0.1",                ADDR_SHARED     },
		{"fc00::1",                   ADDR_ULA        },
		{"fdff::1",                   ADDR_ULA        },
		{"224.0.0.1",                 ADDR_MULTICAST  },
		{"ff02::1",                   ADDR_MULTICAST  },
		{"255.255.255.255",           ADDR_RESERVED   },
		{"240.0.0.1",                 ADDR_RESERVED   },
		{"192.0.2.1",                 ADDR_RESERVED   },
		{"198.18.0.1",                ADDR_RESERVED   },
		{"198.51.100.1",              ADDR_RESERVED   },
		{"203.0.113.1",               ADDR_RESERVED   },
		{"2001:db8::1",               ADDR_RESERVED   },
		{"100::1",                    ADDR_RESERVED   },
		{"fec0::1",                   ADDR_RESERVED   },
		{"4000::1",                   ADDR_RESERVED   },
 /* mapped, compatible, translated */
		{"::ffff:127.0.0.1",          ADDR_LOOPBACK   },
		{"::ffff:169.254.169.254",    ADDR_METADATA   },
		{"::ffff:8.8.8.8",            ADDR_PUBLIC     },
		{"::127.0.0.1",               ADDR_LOOPBACK   },
		{"::10.0.0.1",                ADDR_PRIVATE    },
		{"::8.8.8.8",                 ADDR_RESERVED   },
		{"::ffff:0:10.0.0.1",         ADDR_PRIVATE    },
 /* NAT64 */
		{"64:ff9b::10.0.0.1",         ADDR_PRIVATE    },
		{"64:ff9b::169.254.169.254",  ADDR_METADATA   },
		{"64:ff9b::0.0.0.0",          ADDR_UNSPECIFIED},
		{"64:ff9b::8.8.8.8",          ADDR_PUBLIC     },
		{"64:ff9b:1::127.0.0.1",      ADDR_LOOPBACK   },
		{"64:ff9b:1::8.8.8.8",        ADDR_PUBLIC     },
		{"64:ff9b:1:a00:0:100::",     ADDR_PRIVATE    }, /* 10.0.0.1 in a /48 */
  /* 6to4, Teredo, ISATAP */
		{"2002:7f00:1::",             ADDR_LOOPBACK   },
		{"2002:a00:1::1",             ADDR_PRIVATE    },
		{"2002:808:808::1",           ADDR_PUBLIC     },
		{"2001:0:808:808::80ff:fffe", ADDR_LOOPBACK   }, /* 127.0.0.1 inverted */
		{"2001:0:a00:1::f7f7:f7f7",   ADDR_PRIVATE    }, /* its server */
		{"2001:0:808:808::f7f7:f7f7", ADDR_PUBLIC     },
		{"2600::5efe:10.0.0.1",       ADDR_PRIVATE    },
		{"2600::200:5efe:127.0.0.1",  ADDR_LOOPBACK   },
	};
	struct addr a;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		OK(addr_parse(cases[i].text, &a) == 0 &&
			   addr_classify(&a) == cases[i].class,
		   "%s is %s", cases[i].text, addr_class_name(cases[i].class));
}

static void addresses(void)
{
	struct sockaddr_storage ss;
	struct prefix p;
	struct addr a, b;
	char text[ADDR_TEXT];
	uint16_t port;

	OK(addr_parse("::ffff:1.2.3.4", &a) == 0 && addr_parse("1.2.3.4", &b) == 0 &&
		   addr_equal(&a, &b) && addr_is_v4(&a),
	   "a mapped address is the IPv4 address");
	OK(strcmp(addr_text(&a, text), "1.2.3.4") == 0, "and is written as one");
	OK(addr_to_sockaddr(&a, 80, &ss) == sizeof(struct sockaddr_in) &&
		   ss.ss_family == AF_INET,
	   "and is dialled as one");
	OK(addr_from_sockaddr((struct sockaddr *)&ss, &b, &port) == 0 && port == 80 &&
		   addr_equal(&a, &b),
	   "and back");
	addr_parse("2001:db8::5", &a);
	OK(addr_to_sockaddr(&a, 443, &ss) == sizeof(struct sockaddr_in6) &&
		   addr_from_sockaddr((struct sockaddr *)&ss, &b, &port) == 0 &&
		   addr_equal(&a, &b) && port == 443,
	   "IPv6 there and back");
	ss.ss_family = AF_UNIX;
	OK(addr_from_sockaddr((struct sockaddr *)&ss, &b, &port) < 0, "no others");
	OK(addr_parse("1.2.3", &a) < 0 && addr_parse("fe80::1%eth0", &a) < 0 &&
		   addr_parse("", &a) < 0 && addr_parse("1.2.3.4 ", &a) < 0,
	   "what is no address");
	prefix_parse("::/0", &p);
	addr_parse("1.2.3.4", &a);
	OK(!prefix_has(&p, &a), "::/0 has no IPv4 addresses");
	prefix_parse("0.0.0.0/0", &p);
	addr_parse("::1", &b);
	OK(prefix_has(&p, &a) && !prefix_has(&p, &b), "0.0.0.0/0 has nothing else");
	prefix_parse("10.128.0.0/9", &p);
	addr_parse("10.127.255.255", &a);
	addr_parse("10.255.0.0", &b);
	OK(!prefix_has(&p, &a) && prefix_has(&p, &b), "a prefix within a byte");
}

static void globs(void)
{
	static const struct {
		const char *pattern, *path;
		bool yes;
	} cases[] = {
		{"/",                 "/",                   true },
		{"/",                 "/a",                  false},
		{"/a",                "/a",                  true },
		{"/a*",               "/abc",                true },
		{"/a*",               "/a",                  true },
		{"/a*",               "/a/b",                false},
		{"/a/**",             "/a/b/c",              true },
		{"/a/**",             "/a/",                 true },
		{"/a/**",             "/a",                  false},
		{"/**",               "/",                   true },
		{"/**",               "/x/y",                true },
		{"/*/c",              "/a/c",                true },
		{"/*/c",              "/a/b/c",              false},
		{"/**/c",             "/a/b/c",              true },
		{"/**.git",           "/a/b.git",            true },
		{"/**.git",           "/a/b.gi",             false},
		{"/**x*y",            "/a/xb/xcy",           true },
		{"/**x*y",            "/a/xb/cy",            false},
		{"/***a",             "/b/a",                true },
		{"/repos/*/*/issues", "/repos/me/it/issues", true },
		{"/repos/*/*/issues", "/repos/me/issues",    false},
		{"/v1/*/x**z",        "/v1/a/x/y/z",         true },
		{"/A",                "/a",                  false},
	};
	char path[16384], pattern[GLOB_MAX + 1] = "/";

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		OK(glob_matches(cases[i].pattern, cases[i].path) == cases[i].yes,
		   "%s %s %s", cases[i].pattern, cases[i].yes ? "takes" : "leaves",
		   cases[i].path);
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = '\0';
	for (size_t i = 1; i + 5 < 200; i += 5)
		memcpy(pattern + i, "**a*a", 6);
	memcpy(pattern + strlen(pattern), "b", 2);
	OK(!glob_matches(pattern, path), "a pattern that invites backtracking ends");
}

int main(void)
{
	normal_forms();
	refused_names();
	long_names();
	patterns();
	matches();
	classes();
	addresses();
	globs();
	return tap_done();
}
