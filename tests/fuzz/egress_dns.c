/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a DNS message. Properties: what is understood has a normal name or none;
 * its answer, at any size, stays within that size, has its id, and repeats its question;
 * and the answer is no question. A reverse name, if it is one, leads to one address.
 */
#include "fuzz.h"

#include "base/util.h"
#include "egress/dns.h"
#include "egress/hosts.h"

static void check(int good)
{
	if (!good)
		abort();
}

static void check_message(const struct dns_question *q, const uint8_t *out, size_t n)
{
	struct dns_question again;

	check(n >= 12 && out[0] == q->id >> 8 && out[1] == (q->id & 0xff));
	check(out[2] & 0x80);
	if (q->question_len)
		check(n >= 12 + q->question_len &&
		      memcmp(out + 12, q->question, q->question_len) == 0);
	check(dns_parse(out, n, &again) == -EPROTO);
}

static void write_all_sizes(const struct dns_question *q)
{
	struct addr a[2] = {{{[10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18}},
			    {{[0] = 0xfd, [15] = 1}}};
	const struct dns_answer answers[] = {
		{.addrs = a,             .n = 2, .ttl = 60},
		{.rcode = DNS_NXDOMAIN,             .ede = DNS_EDE_BLOCKED, .ede_text = "no rule"},
		{.ptr = q->name[0] ? q->name : "a.example",  .ttl = 1},
		{.rcode = DNS_BADVERS},
	};

	for (size_t i = 0; i < ARRAY_LEN(answers); i++)
		for (size_t max = 0; max <= 1232; max = max * 2 + 1) {
			uint8_t *out = malloc(max + 1); /* ASan sees a write beyond */
			size_t n;

			check(out != NULL);
			n = dns_write(q, &answers[i], out, max);
			check(n <= max);
			if (n)
				check_message(q, out, n);
			free(out);
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char again[HOST_MAX + 1];
	struct dns_question q;
	struct hosts *h = NULL;
	struct addr a;
	int r = dns_parse(data, size, &q);

	if (r != -EPROTO)
		write_all_sizes(&q);
	if (r == 0) {
		check(q.bad_name == !q.name[0] && strlen(q.name) <= HOST_MAX);
		if (!q.bad_name)
			check(host_normalise(q.name, strlen(q.name), again) == 0 &&
			      strcmp(again, q.name) == 0);
		dns_reverse(q.name, &a);
	}
	check(hosts_parse((const char *)data, size, &h) == 0);
	hosts_find(h, "a.example", &a, 1);
	hosts_free(h);
	return 0;
}
