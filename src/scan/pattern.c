/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/pattern.h"

#include "base/util.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Steps of one search: a fraction of a second of backtracking; honest text needs far
 * less. */
#define MATCH_STEPS 5000000u
#define MATCH_HEAP_KIB (64u << 10)

static pcre2_match_data *match_data;
static pcre2_match_context *match_context;

int pattern_check(struct pattern *p, struct cove_error *err)
{
	if (p->checked == 0)
		p->checked = re_translate(&p->re, p->source, p->len, err) < 0 ? -1 : 1;
	else if (p->checked < 0)
		fail(err, COVE_EINVAL, 0, "regular expression: refused before");
	return p->checked < 0 ? err->code : 0;
}

static int prepare(struct cove_error *err)
{
	if (!match_data)
		match_data = pcre2_match_data_create(PATTERN_GROUPS, NULL);
	if (!match_context) {
		match_context = pcre2_match_context_create(NULL);
		if (match_context) {
			pcre2_set_match_limit(match_context, MATCH_STEPS);
			pcre2_set_heap_limit(match_context, MATCH_HEAP_KIB);
		}
	}
	return match_data && match_context ? 0 : fail_nomem(err);
}

int pattern_compile(struct pattern *p, struct cove_error *err)
{
	char why[120] = "";
	PCRE2_SIZE at;
	int code;

	if (p->code)
		return 0;
	if (pattern_check(p, err) < 0 || prepare(err) < 0)
		return err->code;
	p->code =
		pcre2_compile((PCRE2_SPTR)p->re.pcre, strlen(p->re.pcre),
			      PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_USE_OFFSET_LIMIT,
			      &code, &at, NULL);
	if (!p->code) {
		pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof(why));
		return fail(err, COVE_EINVAL, 0, "regular expression: %s", why);
	}
	if (p->fast) /* without it the interpreter does the same, only slower */
		pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
	return 0;
}

int pattern_find(struct pattern *p, const char *text, size_t len, size_t from,
		 size_t last, struct match *ret)
{
	struct cove_error err;
	const PCRE2_SIZE *v;
	int n;

	if (pattern_compile(p, &err) < 0)
		return PATTERN_LIMIT; /* checked when it was loaded, so: no memory */
	pcre2_set_offset_limit(match_context, last == SIZE_MAX ? PCRE2_UNSET : last);
	n = pcre2_match(p->code, (PCRE2_SPTR)text, len, from, 0, match_data,
			match_context);
	if (n == PCRE2_ERROR_NOMATCH)
		return 0;
	if (n < 0)
		return PATTERN_LIMIT;
	v = pcre2_get_ovector_pointer(match_data);
	ret->n = p->re.groups + 1 < PATTERN_GROUPS ? p->re.groups + 1 : PATTERN_GROUPS;
	for (uint32_t i = 0; i < ret->n; i++) {
		bool set = n == 0 || i < (uint32_t)n;

		ret->start[i] = set ? v[2 * i] : SIZE_MAX;
		ret->end[i] = set ? v[2 * i + 1] : SIZE_MAX;
	}
	return 1;
}

bool pattern_is_in(struct pattern *p, const char *text, size_t len)
{
	struct match m;

	return pattern_find(p, text, len, 0, SIZE_MAX, &m) == 1;
}

void pattern_clear(struct pattern *p)
{
	pcre2_code_free(p->code);
	re_clear(&p->re);
	p->code = NULL;
	p->checked = 0;
}
