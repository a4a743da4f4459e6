/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as TOML, as a rule file and as a regular expression. Properties: a refusal has
 * a message, and an expression that is taken compiles for PCRE2 or is refused there.
 */
#include "fuzz.h"

#include "base/util.h"
#include "scan/rules.h"
#include "scan/toml.h"

static void check_tree(const struct toml *t, int depth)
{
	uint32_t n = 0;

	if (depth > 3 * TOML_MAX_DEPTH)
		abort();
	for (const struct toml *c = t->first; c; c = c->next, n++) {
		if (t->type == TOML_TABLE && (!c->key || toml_get(t, c->key) != c))
			abort(); /* every key is there once */
		check_tree(c, depth + 1);
	}
	if (n != t->n)
		abort();
	if (t->type == TOML_STRING && strlen(t->text) != t->len)
		abort();
}

static void check_toml(const char *text, size_t len)
{
	cleanup_pool struct pool pool = POOL_INIT(16u << 20);
	struct cove_error err = {0};
	struct toml *root;

	if (toml_parse(&root, &pool, text, len, &err) == 0)
		check_tree(root, 0);
	else if (!err.msg[0])
		abort();
}

static void check_rules(const char *text, size_t len)
{
	struct cove_error err = {0};
	struct rules r;

	if (rules_load(&r, text, len, "", 0, &err) == 0)
		rules_clear(&r);
	else if (!err.msg[0])
		abort();
}

static void check_expression(const char *text, size_t len)
{
	struct pattern p = {.source = text, .len = len};
	struct cove_error err = {0};
	struct match m;

	if (pattern_compile(&p, &err) == 0) {
		if (p.re.min > p.re.max || !p.re.pcre)
			abort();
		if (len < 200)
			pattern_find(&p, "a1B \xc3\xa9\xff\n", 7, 0, SIZE_MAX, &m);
	} else if (!err.msg[0]) {
		abort();
	}
	pattern_clear(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_toml((const char *)data, size);
	check_rules((const char *)data, size);
	check_expression((const char *)data, min_size(size, 4096));
	return 0;
}
