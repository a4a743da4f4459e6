/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/state.h"

#include <jansson.h>
#include <stdio.h>

int state_parse(struct state *ret, const char *text, size_t len, struct cove_error *err)
{
	struct state s = {.reason = ""};
	json_int_t started = -1, ended = -1;
	const char *reason = NULL, *hint_text = "";
	json_error_t je;
	json_t *j = len > STATE_TEXT_MAX
			    ? NULL
			    : json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);

	if (!j)
		return fail(err, COVE_EDAMAGED, 0, "state.json:%d: %s",
			    len > STATE_TEXT_MAX ? 1 : je.line,
			    len > STATE_TEXT_MAX ? "too large" : je.text);
	if (json_unpack_ex(j, &je, JSON_STRICT, "{s:s, s?:s, s:I, s:I}", "reason",
			   &reason, "hint", &hint_text, "startedAt", &started, "endedAt",
			   &ended) < 0 ||
	    started < 0 || ended < 0) {
		json_decref(j);
		return fail(err, COVE_EDAMAGED, 0, "state.json: not a state");
	}
	snprintf(s.reason, sizeof(s.reason), "%s", reason);
	snprintf(s.hint, sizeof(s.hint), "%s", hint_text);
	s.started_at = started;
	s.ended_at = ended;
	json_decref(j);
	*ret = s;
	return 0;
}

char *state_print(const struct state *s)
{
	json_t *j =
		json_pack("{s:s, s:s*, s:I, s:I}", "reason", s->reason, "hint",
			  s->hint[0] ? s->hint : NULL, "startedAt",
			  (json_int_t)s->started_at, "endedAt", (json_int_t)s->ended_at);
	char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;

	json_decref(j);
	return text;
}
