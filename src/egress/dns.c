/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns - questions and answers as bytes (RFC 1035, 6891, 8914). Pure.
 *
 * A question is one name without compression: the only thing before it that a pointer
 * could mean is the header. The name is normalised for the judge, and echoed byte by byte
 * as it came, since resolvers put random letter cases there and compare.
 */
#include "egress/dns.h"

#include "base/util.h"

#define HEADER 12
#define FLAG_QR 0x8000
#define FLAG_TC 0x0200
#define FLAG_RD 0x0100
#define FLAG_RA 0x0080
#define FLAG_CD 0x0010
#define LABEL_MAX 63
#define NAME_MAX_WIRE 255
#define RECORDS_MAX 8 /* behind the question; a client sends one (OPT) or two */

struct reader {
	const uint8_t *p;
	size_t n, at;
};

static bool get16(struct reader *r, uint16_t *ret)
{
	if (r->n - r->at < 2)
		return false;
	*ret = (uint16_t)(r->p[r->at] << 8 | r->p[r->at + 1]);
	r->at += 2;
	return true;
}

static bool skip(struct reader *r, size_t n)
{
	if (r->n - r->at < n)
		return false;
	r->at += n;
	return true;
}

/* The name as text with dots, for host_normalise(), which refuses what is no host name.
 * Returns false if the bytes are no name. *ret_plain: no label has a dot or a NUL, so
 * that the text says the same as the labels. */
static bool get_name(struct reader *r, char text[NAME_MAX_WIRE + 1], size_t *ret_len,
		     bool *ret_plain)
{
	size_t start = r->at, len = 0;

	*ret_plain = true;
	for (;;) {
		size_t label;

		if (r->at >= r->n)
			return false;
		label = r->p[r->at++];
		if (label == 0)
			break;
		if (label > LABEL_MAX || r->n - r->at < label ||
		    r->at + label - start >= NAME_MAX_WIRE)
			return false;
		if (memchr(r->p + r->at, '.', label) || memchr(r->p + r->at, 0, label))
			*ret_plain = false;
		if (len)
			text[len++] = '.';
		memcpy(text + len, r->p + r->at, label);
		len += label;
		r->at += label;
	}
	text[len] = '\0';
	*ret_len = len;
	return true;
}

static bool get_question(struct reader *r, struct dns_question *q)
{
	char text[NAME_MAX_WIRE + 1];
	size_t start = r->at, len;
	bool plain;

	if (!get_name(r, text, &len, &plain) || !get16(r, &q->type) ||
	    !get16(r, &q->class))
		return false;
	q->question = r->p + start;
	q->question_len = r->at - start;
	/* UTF-8 on the wire is not IDNA: only A-labels are names here. */
	for (size_t i = 0; i < len; i++)
		plain = plain && (uint8_t)text[i] < 0x80;
	if (!plain || host_normalise(text, len, q->name) < 0) {
		q->bad_name = true;
		q->name[0] = '\0';
	}
	return true;
}

static bool skip_name(struct reader *r)
{
	while (r->at < r->n) {
		uint8_t label = r->p[r->at++];

		if (label == 0)
			return true;
		if (label >= 0xc0)
			return skip(r, 1);
		if (label > LABEL_MAX || !skip(r, label))
			return false;
	}
	return false;
}

/* One record behind the question: OPT is understood, others are passed over. */
static bool get_extra(struct reader *r, struct dns_question *q)
{
	size_t start = r->at;
	uint16_t type, class, ttl_high, ttl_low, len;

	if (!skip_name(r))
		return false;
	bool root = r->at == start + 1;

	if (!get16(r, &type) || !get16(r, &class) || !get16(r, &ttl_high) ||
	    !get16(r, &ttl_low) || !get16(r, &len) || !skip(r, len))
		return false;
	if (type != DNS_OPT)
		return true;
	if (!root || q->has_edns)
		return false;
	q->has_edns = true;
	q->udp_size = class;
	q->edns_version = ttl_high & 0xff;
	q->dnssec = ttl_low & 0x8000;
	return true;
}

int dns_parse(const uint8_t *p, size_t n, struct dns_question *ret)
{
	struct reader r = {p, n, 0};
	struct dns_question q = {.udp_size = DNS_UDP_PLAIN};
	uint16_t flags, questions, answers, authorities, extras;

	if (!get16(&r, &q.id) || !get16(&r, &flags) || !get16(&r, &questions) ||
	    !get16(&r, &answers) || !get16(&r, &authorities) || !get16(&r, &extras) ||
	    (flags & FLAG_QR))
		return -EPROTO;
	q.opcode = flags >> 11 & 15;
	q.recursion = flags & FLAG_RD;
	q.no_check = flags & FLAG_CD;
	*ret = q; /* enough for NOTIMP and FORMERR */
	if (q.opcode != 0)
		return -ENOTSUP;
	if (questions != 1 || answers || authorities || extras > RECORDS_MAX ||
	    (flags & FLAG_TC) || !get_question(&r, &q))
		return -EBADMSG;
	for (unsigned i = 0; i < extras; i++)
		if (!get_extra(&r, &q))
			return -EBADMSG;
	if (r.at != n)
		return -EBADMSG;
	*ret = q;
	return 0;
}

struct writer {
	uint8_t *p;
	size_t max, at;
	bool full;
};

static void put(struct writer *w, const void *p, size_t n)
{
	w->full = w->full || w->max - w->at < n;
	if (w->full || !n)
		return;
	memcpy(w->p + w->at, p, n);
	w->at += n;
}

static void put16(struct writer *w, unsigned v)
{
	put(w, (const uint8_t[]){(uint8_t)(v >> 8), (uint8_t)v}, 2);
}

static void put_record(struct writer *w, unsigned type, uint32_t ttl, size_t len)
{
	put16(w, 0xc000 | HEADER); /* the question's name */
	put16(w, type);
	put16(w, DNS_IN);
	put16(w, ttl >> 16);
	put16(w, ttl & 0xffff);
	put16(w, (unsigned)len);
}

static unsigned put_addrs(struct writer *w, const struct dns_question *q,
			  const struct dns_answer *a)
{
	unsigned count = 0;

	for (size_t i = 0; i < a->n; i++) {
		bool v4 = addr_is_v4(&a->addrs[i]);

		if (q->type != (v4 ? DNS_A : DNS_AAAA))
			continue;
		put_record(w, q->type, a->ttl, v4 ? 4 : 16);
		put(w, a->addrs[i].b + (v4 ? 12 : 0), v4 ? 4 : 16);
		count++;
	}
	return count;
}

static unsigned put_ptr(struct writer *w, const struct dns_answer *a)
{
	const char *label = a->ptr;

	put_record(w, DNS_PTR, a->ttl, strlen(a->ptr) + 2);
	while (*label) {
		size_t n = strcspn(label, ".");
		uint8_t len = (uint8_t)min_size(n, LABEL_MAX);

		put(w, &len, 1);
		put(w, label, len);
		label += n;
		label += *label == '.';
	}
	put(w, "", 1);
	return 1;
}

static void put_opt(struct writer *w, const struct dns_question *q,
		    const struct dns_answer *a)
{
	size_t text = a->ede_text ? strnlen(a->ede_text, DNS_EDE_TEXT) : 0;

	put(w, "", 1);
	put16(w, DNS_OPT);
	put16(w, DNS_UDP_EDNS);
	put16(w, a->rcode >> 4 << 8); /* high bits of the rcode, version 0 */
	put16(w, q->dnssec ? 0x8000 : 0);
	if (!a->ede && !text) {
		put16(w, 0);
		return;
	}
	put16(w, (unsigned)(6 + text));
	put16(w, 15); /* the option: extended error */
	put16(w, (unsigned)(2 + text));
	put16(w, a->ede);
	put(w, a->ede_text, text);
}

static void put_header(struct writer *w, const struct dns_question *q, unsigned rcode,
		       bool truncated, unsigned answers)
{
	unsigned flags = FLAG_QR | FLAG_RA | (unsigned)q->opcode << 11 | (rcode & 15);

	flags |= q->recursion ? FLAG_RD : 0;
	flags |= q->no_check ? FLAG_CD : 0;
	flags |= truncated ? FLAG_TC : 0;
	put16(w, q->id);
	put16(w, flags);
	put16(w, q->question_len ? 1 : 0);
	put16(w, answers);
	put16(w, 0);
	put16(w, q->has_edns);
}

/* The whole message, or (truncated) one without answer and reason. */
static size_t write_message(const struct dns_question *q, const struct dns_answer *a,
			    bool truncated, uint8_t *out, size_t max)
{
	struct writer w = {out, max, 0, max < HEADER};
	unsigned answers = 0;

	if (w.full)
		return 0;
	w.at = HEADER;
	put(&w, q->question, q->question_len);
	if (!truncated && a->ptr && q->type == DNS_PTR)
		answers = put_ptr(&w, a);
	else if (!truncated && a->n)
		answers = put_addrs(&w, q, a);
	if (q->has_edns) {
		struct dns_answer bare = {.rcode = a->rcode};

		put_opt(&w, q, truncated ? &bare : a);
	}
	size_t len = w.at;

	w.at = 0;
	put_header(&w, q, a->rcode, truncated, answers);
	return w.full ? 0 : len;
}

size_t dns_write(const struct dns_question *q, const struct dns_answer *a, uint8_t *out,
		 size_t max)
{
	size_t n = write_message(q, a, false, out, max);

	return n ? n : write_message(q, a, true, out, max);
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static int reverse6(const char *name, struct addr *ret)
{
	struct addr a = {{0}};

	for (size_t i = 0; i < 32; i++) {
		int v = hex_digit(name[2 * i]);

		if (v < 0 || name[2 * i + 1] != '.')
			return -EINVAL;
		a.b[15 - i / 2] |= (uint8_t)(i % 2 ? v << 4 : v);
	}
	*ret = a;
	return 0;
}

static int reverse4(const char *name, size_t n, struct addr *ret)
{
	struct addr a = {
		{[10] = 0xff, [11] = 0xff}
        };
	size_t at = 0;

	for (size_t i = 0; i < 4; i++) {
		unsigned v = 0, digits = 0;

		for (; at < n && name[at] >= '0' && name[at] <= '9' && digits < 3;
		     digits++)
			v = v * 10 + (unsigned)(name[at++] - '0');
		if (!digits || v > 255 || at >= n || name[at++] != '.')
			return -EINVAL;
		a.b[15 - i] = (uint8_t)v;
	}
	if (at != n)
		return -EINVAL;
	*ret = a;
	return 0;
}

int dns_reverse(const char *name, struct addr *ret)
{
	static const char v4[] = "in-addr.arpa", v6[] = "ip6.arpa";
	size_t n = strlen(name);

	if (n == 64 + sizeof(v6) - 1 && strcmp(name + 64, v6) == 0)
		return reverse6(name, ret);
	if (n >= sizeof(v4) && strcmp(name + n - (sizeof(v4) - 1), v4) == 0)
		return reverse4(name, n - (sizeof(v4) - 1), ret);
	return -EINVAL;
}
