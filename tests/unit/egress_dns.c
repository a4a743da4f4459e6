/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers as bytes: what is understood, what is refused, what is written.
 */
#include "egress/dns.h"

#include "base/util.h"
#include "tap.h"

struct packet {
	uint8_t b[2048];
	size_t n;
};

static void put(struct packet *p, const void *data, size_t n)
{
	memcpy(p->b + p->n, data, n);
	p->n += n;
}

static void put16(struct packet *p, unsigned v)
{
	put(p, (uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static void begin(struct packet *p, unsigned flags, unsigned questions, unsigned extras)
{
	p->n = 0;
	put16(p, 0x1234);
	put16(p, flags);
	put16(p, questions);
	put16(p, 0);
	put16(p, 0);
	put16(p, extras);
}

static void put_name(struct packet *p, const char *name)
{
	while (*name) {
		size_t n = strcspn(name, ".");
		uint8_t len = (uint8_t)n;

		put(p, &len, 1);
		put(p, name, n);
		name += n + (name[n] == '.');
	}
	put(p, "", 1);
}

static void put_opt(struct packet *p, unsigned size, unsigned version, unsigned flags)
{
	put(p, "", 1);
	put16(p, DNS_OPT);
	put16(p, size);
	put16(p, version);
	put16(p, flags);
	put16(p, 0);
}

static void ask(struct packet *p, const char *name, unsigned type)
{
	begin(p, 0x0100, 1, 0);
	put_name(p, name);
	put16(p, type);
	put16(p, DNS_IN);
}

/* The bytes in memory of exactly their size, so that ASan sees a read beyond. */
static int parse(const struct packet *p, struct dns_question *q)
{
	static uint8_t *copy;

	free(copy); /* the question points into it until the next call */
	copy = malloc(p->n ? p->n : 1);
	if (!copy)
		abort();
	memcpy(copy, p->b, p->n);
	return dns_parse(copy, p->n, q);
}

static int parse_name(const void *labels, size_t n, struct dns_question *q)
{
	struct packet p;

	begin(&p, 0x0100, 1, 0);
	put(&p, labels, n);
	put16(&p, DNS_A);
	put16(&p, DNS_IN);
	return parse(&p, q);
}

static void a_question(void)
{
	struct dns_question q;
	struct packet p;

	ask(&p, "wWw.ExAmple.COM", DNS_A);
	OK(parse(&p, &q) == 0 && q.id == 0x1234 && q.type == DNS_A && q.class == DNS_IN &&
		   q.recursion && !q.has_edns && !q.bad_name,
	   "a question for A");
	OK(strcmp(q.name, "www.example.com") == 0, "normalised: %s", q.name);
	OK(q.question_len == p.n - 12 &&
		   memcmp(q.question, p.b + 12, q.question_len) == 0,
	   "and its bytes as they were");
	p.b[11] = 1;
	put_opt(&p, 4096, 0, 0x8000);
	OK(parse(&p, &q) == 0 && q.has_edns && q.udp_size == 4096 && q.dnssec, "EDNS");
	p.b[11] = 2;
	put_opt(&p, 4096, 0, 0);
	OK(parse(&p, &q) == -EBADMSG, "two OPT records");
}

static void shapes(void)
{
	struct dns_question q;
	struct packet p;
	int bad = 0;

	ask(&p, "a.example", DNS_A);
	for (size_t n = 0; n < p.n; n++) {
		struct packet cut = p;
		int r;

		cut.n = n;
		r = parse(&cut, &q);
		bad += r != (n < 12 ? -EPROTO : -EBADMSG);
	}
	OK(bad == 0, "cut anywhere, it is refused");
	put(&p, "x", 1);
	OK(parse(&p, &q) == -EBADMSG, "bytes behind the end");
	ask(&p, "a.example", DNS_A);
	p.b[2] |= 0x80;
	OK(parse(&p, &q) == -EPROTO, "an answer is no question");
	ask(&p, "a.example", DNS_A);
	p.b[2] |= 5 << 3;
	OK(parse(&p, &q) == -ENOTSUP && q.id == 0x1234 && q.opcode == 5, "UPDATE");
	ask(&p, "a.example", DNS_A);
	p.b[5] = 2;
	OK(parse(&p, &q) == -EBADMSG && q.question_len == 0, "two questions");
	p.b[5] = 0;
	OK(parse(&p, &q) == -EBADMSG, "none, but bytes");
	ask(&p, "a.example", DNS_A);
	p.b[7] = 1;
	OK(parse(&p, &q) == -EBADMSG, "a question with answers");
	ask(&p, "a.example", DNS_A);
	p.b[11] = 255;
	OK(parse(&p, &q) == -EBADMSG, "records that are not there");
}

static void hostile_names(void)
{
	struct dns_question q;
	uint8_t longname[300];
	size_t n = 0;

#define NAME(bytes) parse_name(bytes, sizeof(bytes) - 1, &q)
	OK(NAME("\xc0\x0c") == -EBADMSG, "a pointer to itself");
	OK(NAME("\x01"
		"a\xc0\x0c") == -EBADMSG,
	   "a loop through a label");
	OK(NAME("\xc0\x20") == -EBADMSG, "a pointer forward");
	OK(NAME("\x41"
		"a") == -EBADMSG,
	   "an unknown kind of label");
	OK(NAME("\x04"
		"a\0bc\x07"
		"example\0") == 0 &&
		   q.bad_name && !q.name[0],
	   "NUL in a label is no host name");
	OK(NAME("\x09"
		"a.example\0") == 0 &&
		   q.bad_name,
	   "nor is a dot inside one");
	OK(NAME("\x02"
		"\xc3\xa4\x07"
		"example\0") == 0 &&
		   q.bad_name,
	   "nor UTF-8");
	OK(NAME("\x03"
		"a b\x07"
		"example\0") == 0 &&
		   q.bad_name,
	   "nor a space");
	OK(NAME("\0") == 0 && q.bad_name, "nor the root");
	OK(NAME("\x01"
		"1\x01"
		"2\x01"
		"3\x01"
		"4\0") == 0 &&
		   q.bad_name,
	   "nor an address");
	OK(NAME("\x05"
		"_http\x04"
		"_tcp\x07"
		"example\0") == 0 &&
		   strcmp(q.name, "_http._tcp.example") == 0,
	   "a service is one");
#undef NAME
	for (int i = 0; i < 4; i++) { /* 4 * 62 + 5 + 1 = 254 bytes */
		longname[n++] = i < 3 ? 63 : 57;
		memset(longname + n, 'x', 63);
		n += i < 3 ? 63 : 57;
	}
	longname[n] = 0;
	OK(n + 1 == 251 && parse_name(longname, n + 1, &q) == 0 && !q.bad_name,
	   "249 characters are a name");
	longname[n++] = 3;
	memset(longname + n, 'y', 3);
	n += 3;
	longname[n] = 0;
	OK(n + 1 == 255 && parse_name(longname, n + 1, &q) == 0 && !q.bad_name &&
		   strlen(q.name) == 253,
	   "253 are");
	longname[n++] = 1;
	longname[n++] = 'z';
	longname[n] = 0;
	OK(parse_name(longname, n + 1, &q) == -EBADMSG, "255 are not");
}

static void exfiltration_is_only_a_name(void)
{
	struct dns_question q;
	struct packet p;

	ask(&p, "c2VjcmV0.0123456789abcdef.evil.example", DNS_TXT);
	OK(parse(&p, &q) == 0 && q.type == DNS_TXT && !q.bad_name,
	   "data in labels parses");
}

static void answers(void)
{
	struct addr a4, a6;
	struct dns_question q;
	struct dns_answer a = {.addrs = &a4, .n = 1, .ttl = 60};
	struct packet p;
	uint8_t out[DNS_MAX];
	size_t n;

	addr_parse("198.18.1.0", &a4);
	addr_parse("fd63:6f76:65::100", &a6);
	ask(&p, "MiXed.Example", DNS_A);
	parse(&p, &q);
	n = dns_write(&q, &a, out, sizeof(out));
	OK(n == p.n + 16 && out[0] == 0x12 && out[1] == 0x34, "one address");
	OK(out[2] == 0x81 && out[3] == 0x80 && out[5] == 1 && out[7] == 1 && out[11] == 0,
	   "flags and counts");
	OK(memcmp(out + 12, p.b + 12, p.n - 12) == 0, "the question's letter case stays");
	OK(memcmp(out + p.n, "\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc6\x12\x01\0", 16) ==
		   0,
	   "the record");
	q.type = DNS_AAAA;
	n = dns_write(&q, &a, out, sizeof(out));
	OK(n == p.n && out[7] == 0, "an address of the other family is left out");
	a.addrs = &a6;
	n = dns_write(&q, &a, out, sizeof(out));
	OK(n == p.n + 28 && out[n - 1] == 0 && out[n - 2] == 1, "AAAA");
	n = dns_write(&q, &a, out, p.n + 20);
	OK(n == p.n && (out[2] & 2) && out[7] == 0, "too large: TC and no answer");
	OK(dns_write(&q, &a, out, 10) == 0 && dns_write(&q, &a, out, 14) == 0,
	   "not even the question fits");
}

static void refusals(void)
{
	struct dns_question q;
	struct dns_answer a = {.rcode = DNS_NXDOMAIN, .ede = 15, .ede_text = "no rule"};
	struct packet p;
	uint8_t out[DNS_MAX];
	char longtext[400];
	size_t n;

	ask(&p, "denied.example", DNS_A);
	parse(&p, &q);
	OK(dns_write(&q, &a, out, 512) == p.n && out[3] == 0x83, "NXDOMAIN, no EDNS");
	p.b[11] = 1;
	put_opt(&p, 1232, 0, 0);
	parse(&p, &q);
	n = dns_write(&q, &a, out, 512);
	OK(n == p.n + 13 && out[11] == 1 &&
		   memcmp(out + n - 15, "\0\x0d\0\x0f\0\x09\0\x0fno rule", 15) == 0,
	   "with EDNS: the extended error and its text");
	memset(longtext, 'x', sizeof(longtext) - 1);
	longtext[sizeof(longtext) - 1] = '\0';
	a.ede_text = longtext;
	OK(dns_write(&q, &a, out, 512) == p.n + 6 + DNS_EDE_TEXT, "a long reason is cut");
	a = (struct dns_answer){.rcode = DNS_BADVERS};
	n = dns_write(&q, &a, out, 512);
	OK(n == p.n && (out[3] & 15) == 0 && out[n - 6] == 1,
	   "BADVERS has its high bits");
	p.b[5] = 2;
	OK(parse(&p, &q) == -EBADMSG, "a malformed question");
	a = (struct dns_answer){.rcode = DNS_FORMERR};
	OK(dns_write(&q, &a, out, 512) == 12 && (out[3] & 15) == 1, "FORMERR: a header");
}

static void reverse(void)
{
	struct dns_question q;
	struct dns_answer a = {.ptr = "api.example.com", .ttl = 60};
	struct addr addr;
	struct packet p;
	uint8_t out[DNS_MAX];
	char text[ADDR_TEXT];
	size_t n;

	OK(dns_reverse("0.1.18.198.in-addr.arpa", &addr) == 0 &&
		   strcmp(addr_text(&addr, text), "198.18.1.0") == 0,
	   "the address of an IPv4 reverse name");
	OK(dns_reverse("0.0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.5.6.0.0.6.7.f.6.3.6.d.f."
		       "ip6.arpa",
		       &addr) == 0 &&
		   strcmp(addr_text(&addr, text), "fd63:6f76:65::100") == 0,
	   "and of an IPv6 one: %s", addr_text(&addr, text));
	OK(dns_reverse("1.18.198.in-addr.arpa", &addr) < 0 &&
		   dns_reverse("256.1.18.198.in-addr.arpa", &addr) < 0 &&
		   dns_reverse("5.0.1.18.198.in-addr.arpa", &addr) < 0 &&
		   dns_reverse("1.2.3.4xin-addr.arpa", &addr) < 0 &&
		   dns_reverse("in-addr.arpa", &addr) < 0 &&
		   dns_reverse("a.example", &addr) < 0,
	   "what is none");
	ask(&p, "0.1.18.198.in-addr.arpa", DNS_PTR);
	parse(&p, &q);
	n = dns_write(&q, &a, out, 512);
	OK(n == p.n + 12 + 17 &&
		   memcmp(out + p.n + 10, "\0\x11\3api\7example\3com\0", 19) == 0,
	   "PTR");
}

int main(void)
{
	a_question();
	shapes();
	hostile_names();
	exfiltration_is_only_a_name();
	answers();
	refusals();
	reverse();
	return tap_done();
}
