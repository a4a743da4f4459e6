/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and addresses as anybody may send them. Properties: a normal form is one, and
 * normalising it changes nothing; a pattern's text is its own pattern; an address and its
 * text are the same; a name is never an address.
 */
#include "policy/host.h"
#include "base/util.h"
#include "fuzz.h"
#include "policy/addr.h"
#include "policy/glob.h"

static void check_normal(const char *name)
{
	size_t label = 0, n = strlen(name);
	struct addr a;

	if (n == 0 || n > HOST_MAX || addr_parse(name, &a) == 0)
		abort();
	for (size_t i = 0; i <= n; i++) {
		char c = name[i];

		if (c == '.' || c == '\0') {
			if (label == 0 || label > 63 || name[i - 1] == '-' ||
			    name[i - label] == '-')
				abort();
			label = 0;
			continue;
		}
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' &&
		    c != '_')
			abort();
		label++;
	}
}

static void as_name(const char *in, size_t n)
{
	char once[HOST_MAX + 1], twice[HOST_MAX + 1];

	if (host_normalise(in, n, once) < 0)
		return;
	check_normal(once);
	if (host_normalise(once, strlen(once), twice) < 0 || strcmp(once, twice) != 0)
		abort();
	if (!host_matches(once, once))
		abort();
}

static void as_pattern(const char *text)
{
	char out[HOST_MAX + 1], again[HOST_MAX + 1];
	enum host_kind kind, same;

	if (host_pattern(text, &kind, out) < 0)
		return;
	if (kind == HOST_ANY)
		return;
	if (host_pattern(out, &same, again) < 0 || strcmp(out, again) != 0)
		abort();
	if ((kind == HOST_IP || kind == HOST_CIDR) && same != kind)
		abort();
	if ((kind == HOST_STAR || kind == HOST_STARSTAR) && host_matches(text, out))
		abort(); /* the apex */
	host_matches(text, "www.example.com");
}

static void as_address(const char *text)
{
	char out[ADDR_TEXT];
	struct prefix p;
	struct addr a, b;

	if (prefix_parse(text, &p) == 0 && p.bits <= 128 && !prefix_has(&p, &p.addr) &&
	    !(addr_is_v4(&p.addr) && p.bits < 96))
		abort();
	if (addr_parse(text, &a) < 0)
		return;
	if (addr_parse(addr_text(&a, out), &b) < 0 || !addr_equal(&a, &b))
		abort();
	if (addr_classify(&a) > ADDR_RESERVED)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = min_size(size, 2048);
	cleanup_free char *text = malloc(n + 1);
	struct addr a = {0};

	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	as_name(text, n);
	as_pattern(text);
	as_address(text);
	memcpy(a.b, data, min_size(size, sizeof(a.b)));
	if (addr_classify(&a) > ADDR_RESERVED)
		abort();
	glob_matches(text, "/v1/models/a");
	glob_matches("/v1/**x*y", text);
	return 0;
}
