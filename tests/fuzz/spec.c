/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as a spec. Property: what is accepted survives print and parse unchanged, and
 * a refused text leaves the spec alone. The text is also tried as a value of spec_set().
 */
#include "fuzz.h"

#include "base/util.h"
#include "spec/spec.h"

static char *print(const struct spec *s)
{
	json_t *j = spec_json(s, true);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (!text)
		abort(); /* every spec can be printed */
	json_decref(j);
	return text;
}

static void check_round_trip(const struct spec *s)
{
	cleanup_free char *first = print(s), *second = NULL, *copied = NULL;
	struct cove_error err;
	struct spec again, copy;

	spec_init(&again);
	if (spec_parse(&again, first, strlen(first), "again", NULL, &err) < 0) {
		fprintf(stderr, "%s\n%s\n", err.msg, first);
		abort();
	}
	second = print(&again);
	if (spec_copy(&copy, s, &err) < 0)
		abort();
	copied = print(&copy);
	if (strcmp(first, second) != 0 || strcmp(first, copied) != 0 ||
	    s->resources.set != again.resources.set) {
		fprintf(stderr, "%s\n%s\n%s\n", first, second, copied);
		abort();
	}
	if (spec_merge(&copy, &again, &err) < 0)
		abort();
	spec_clear(&copy);
	spec_clear(&again);
}

/* The first line is a key, the rest a value. */
static void check_set(struct spec *s, const char *text)
{
	const char *eol = strchr(text, '\n');
	cleanup_free char *key = eol ? strndup(text, (size_t)(eol - text)) : NULL;
	struct cove_error err;

	if (!key)
		return;
	spec_set(s, key, eol + 1, &err);
	spec_set(s, key, eol + 1, &err); /* appending twice */
	check_round_trip(s);
	spec_set(s, key, NULL, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf problems = BUF_INIT(1 << 16);
	cleanup_free char *text = strndup((const char *)data, size);
	struct cove_error err;
	struct spec s;

	spec_init(&s);
	if (spec_parse(&s, (const char *)data, size, "fuzz", &problems, &err) == 0) {
		if (problems.len)
			abort();
		check_round_trip(&s);
	} else if (s.given || s.resources.set || !problems.len || !err.msg[0]) {
		abort();
	}
	check_set(&s, text);
	check_round_trip(&s);
	buf_clear(&problems);
	spec_clear(&s);
	return 0;
}
