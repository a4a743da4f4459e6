/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A policy file, a spec, and an image that somebody changed. Properties: what a spec
 * accepts as a network compiles (but for the host without a port); what compiles opens;
 * what opens decides without reading where it should not; explaining agrees with
 * deciding.
 */
#include "policy/policy.h"
#include "base/util.h"
#include "fuzz.h"
#include "spec/spec.h"

#define INPUT_MAX 65536

static const char *const names[] = {"example.com", "a.b.example.com", "x",
				    "xn--bcher-kva.de", HOST_INTERNAL};

static void ask(const struct policy *p, const char *name, const struct addr *ip)
{
	static const struct policy_subject who = {.tool = "t", .agent = "a", .exec = "e"};
	struct policy_decision d, r;
	json_t *e;

	policy_connect(p, &who, name, ip, 443, &d);
	policy_request(p, &who, name, ip, 443, "GET", "/v1/x", &r);
	if (!d.id || !r.id || r.verdict == VERDICT_INSPECT)
		abort();
	if (r.verdict == VERDICT_ASK && (!policy_asks(p) || d.verdict == VERDICT_DENY))
		abort();
	/* What no connection may do, no request may, and the other way round. */
	if (d.verdict == VERDICT_DENY && r.verdict == VERDICT_ALLOW)
		abort();
	if (d.verdict == VERDICT_ALLOW && r.verdict != VERDICT_ALLOW)
		abort();
	e = policy_explain(p, &who, name, ip, 443, NULL, NULL);
	json_decref(e);
	if (name && d.verdict != VERDICT_DENY && !policy_may_resolve(p, name))
		abort();
}

static void ask_all(const struct policy *p)
{
	static const char *const texts[] = {"127.0.0.1", "10.1.2.3", "8.8.8.8",
					    "64:ff9b::1.2.3.4", "2001:db8::1"};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		ask(p, names[i], NULL);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct addr a;

		addr_parse(texts[i], &a);
		ask(p, NULL, &a);
		for (uint32_t rule = 0; rule <= policy_rules(p); rule++)
			policy_address(p, rule, names[i % ARRAY_LEN(names)], &a, &a, 1);
	}
}

/* Bytes of the image, changed where and how the input says. */
static void change(struct buf *image, const uint8_t *data, size_t size)
{
	struct policy_decision d;
	struct cove_error err;
	struct policy *p;
	struct addr a = {0};

	for (size_t i = 0; i + 3 <= size && i < 96; i += 3)
		image->data[(data[i] << 8 | data[i + 1]) * 7u % image->len] ^=
			(char)data[i + 2];
	if (policy_open(&p, image->data, image->len, &err) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		policy_connect(p, NULL, names[i], NULL, 443, &d);
		policy_request(p, NULL, names[i], NULL, 443, "GET", "/v1/x", &d);
		policy_may_resolve(p, names[i]);
		json_decref(policy_explain(p, NULL, names[i], NULL, 1, "GET", "/"));
	}
	policy_connect(p, NULL, NULL, &a, 443, &d);
	policy_address(p, d.rule, NULL, &a, &a, 1);
	policy_close(p);
}

static void use(struct buf *image, const uint8_t *data, size_t size)
{
	struct cove_error err;
	struct policy *p;

	if (policy_open(&p, image->data, image->len, &err) < 0)
		abort();
	ask_all(p);
	policy_close(p);
	change(image, data, size);
}

static void as_file(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX);
	struct policy_source src = {.file = (const char *)data, .file_len = size};
	struct cove_error err;

	if (policy_compile(&src, &image, &err) == 0)
		use(&image, data, size);
	else if (image.len)
		abort();
}

static void as_spec(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf image = BUF_INIT(POLICY_IMAGE_MAX),
			       problems = BUF_INIT(1u << 20);
	struct cove_error err;
	struct spec s;
	json_t *all;

	spec_init(&s);
	if (spec_parse(&s, (const char *)data, size, "x", &problems, &err) == 0) {
		all = spec_json(&s, true);
		struct policy_source src = {.network = json_object_get(all, "network"),
					    .secrets = json_object_get(all, "secrets")};

		if (policy_compile(&src, &image, &err) == 0)
			use(&image, data, size);
		else if (!strstr(err.msg, HOST_INTERNAL))
			abort();
		json_decref(all);
	}
	spec_clear(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > INPUT_MAX)
		return 0;
	as_file(data, size);
	as_spec(data, size);
	return 0;
}
