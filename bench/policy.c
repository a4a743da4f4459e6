/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - what a decision costs with many rules, and what a reload of them costs.
 *
 *   policy [RULES]      (default 10000) prints "key value" lines
 *
 * Decisions are asked for names in random order, so that the tables are not in the
 * nearest cache; times are the best of several rounds for a reload, the mean for
 * decisions.
 */
#include "bench.h"

#include "base/buf.h"
#include "policy/policy.h"
#include "spec/spec.h"

#define ASKED 200000
#define ROUNDS 7

static uint32_t seed = 1;

static uint32_t random32(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void one_rule(struct buf *b, unsigned i)
{
	static const char *const fronts[] = {"api.", "*.", "**.", "www."};
	char host[64];

	if (i % 10 == 9)
		snprintf(host, sizeof(host), "10.%u.%u.0/24", i >> 8 & 255, i & 255);
	else
		snprintf(host, sizeof(host), "%shost%u.example", fronts[i % 4], i);
	buf_printf(b, "%s{\"id\": \"r%u\", \"host\": \"%s\", \"port\": 443%s}",
		   i ? ",\n" : "", i, host,
		   i % 7 == 0 ? ", \"methods\": [\"GET\"], \"paths\": [\"/v1/**\"]" : "");
}

static void make_text(struct buf *b, unsigned n)
{
	buf_puts(b, "{\"network\": {\"mode\": \"allowlist\", \"rules\": [\n");
	for (unsigned i = 0; i < n; i++)
		one_rule(b, i);
	if (buf_puts(b, "]}}\n") < 0)
		die("text");
}

struct times {
	double parse, compile, reload; /* ms */
};

/* A spec as it is read when a sandbox is made: any YAML. */
static void from_spec(const struct buf *text, struct times *t)
{
	cleanup_buf struct buf problems = BUF_INIT(1 << 16),
			       image = BUF_INIT(POLICY_IMAGE_MAX);
	struct cove_error err;
	struct spec s;
	json_t *json;
	uint64_t t0 = cpu_ns(), t1;

	spec_init(&s);
	if (spec_parse(&s, text->data, text->len, "bench", &problems, &err) < 0)
		die(err.msg);
	t1 = cpu_ns();
	json = json_pack("{s:s, s:O}", "mode", "allowlist", "rules", s.network.rules);
	if (policy_compile(&(struct policy_source){.network = json}, &image, &err) < 0)
		die(err.msg);
	t->parse = (double)(t1 - t0) / 1e6;
	t->compile = (double)(cpu_ns() - t1) / 1e6;
	json_decref(json);
	spec_clear(&s);
}

/* A policy file as it is read again: from its text to a policy that decides. */
static void from_file(const struct buf *text, struct buf *image, struct times *t)
{
	struct policy_source src = {.file = text->data, .file_len = text->len};
	struct cove_error err;
	struct policy *p;
	uint64_t t0 = cpu_ns();

	buf_clear(image);
	if (policy_compile(&src, image, &err) < 0 ||
	    policy_open(&p, image->data, image->len, &err) < 0)
		die(err.msg);
	t->reload = (double)(cpu_ns() - t0) / 1e6;
	policy_close(p);
}

static char names[ASKED][40];

/* hit: of 100 names, so many have a rule. */
static double decide(const struct policy *p, unsigned n, unsigned hit)
{
	struct policy_decision d;
	unsigned sum = 0;
	uint64_t t0;

	for (unsigned i = 0; i < ASKED; i++)
		snprintf(names[i], sizeof(names[i]), "api.host%u.%s", random32() % n,
			 random32() % 100 < hit ? "example" : "invalid");
	t0 = cpu_ns();
	for (unsigned i = 0; i < ASKED; i++) {
		policy_connect(p, NULL, names[i], NULL, 443, &d);
		sum += d.verdict;
	}
	if (sum > 3u * ASKED)
		die("verdicts");
	return (double)(cpu_ns() - t0) / ASKED;
}

static double decide_address(const struct policy *p)
{
	static struct addr a[ASKED];
	struct policy_decision d;
	uint64_t t0;

	for (unsigned i = 0; i < ASKED; i++) {
		char text[ADDR_TEXT];
		uint32_t v = random32();

		snprintf(text, sizeof(text), "10.%u.%u.%u", v & 63, v >> 8 & 255,
			 v >> 16 & 255);
		addr_parse(text, &a[i]);
	}
	t0 = cpu_ns();
	for (unsigned i = 0; i < ASKED; i++)
		policy_connect(p, NULL, NULL, &a[i], 443, &d);
	return (double)(cpu_ns() - t0) / ASKED;
}

static double decide_request(const struct policy *p)
{
	struct policy_decision d;
	uint64_t t0 = cpu_ns();

	for (unsigned i = 0; i < ASKED; i++)
		policy_request(p, NULL, names[i], NULL, 443, "GET", "/v1/models/one/two",
			       &d);
	return (double)(cpu_ns() - t0) / ASKED;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000;
	struct buf text = BUF_INIT(16u << 20), image = BUF_INIT(POLICY_IMAGE_MAX);
	struct times t, best = {1e9, 1e9, 1e9};
	struct cove_error err;
	struct policy *p;

	make_text(&text, n);
	for (unsigned i = 0; i < ROUNDS; i++) {
		from_spec(&text, &t);
		from_file(&text, &image, &t);
		best.parse = t.parse < best.parse ? t.parse : best.parse;
		best.compile = t.compile < best.compile ? t.compile : best.compile;
		best.reload = t.reload < best.reload ? t.reload : best.reload;
	}
	if (policy_open(&p, image.data, image.len, &err) < 0)
		die(err.msg);
	printf("rules %zu\nimage_bytes %zu\n", policy_rules(p), image.len);
	printf("spec_ms %.2f\ncompile_ms %.2f\nreload_ms %.2f\n", best.parse,
	       best.compile, best.reload);
	decide(p, n, 100); /* warm */
	printf("name_miss_ns %.0f\n", decide(p, n, 0));
	printf("name_hit_ns %.0f\n", decide(p, n, 100));
	printf("request_ns %.0f\n", decide_request(p));
	printf("address_ns %.0f\n", decide_address(p));
	policy_close(p);
	buf_clear(&text);
	buf_clear(&image);
	return 0;
}
