/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/state.h"
#include "tap.h"

#include <stdlib.h>
#include <string.h>

static int parse(const char *text, struct state *s, struct cove_error *err)
{
	return state_parse(s, text, strlen(text), err);
}

static void good_round_trip(void)
{
	struct state a = {.reason = "its time (ttl) is up",
			  .started_at = 7,
			  .ended_at = 9},
		     b;
	struct cove_error err = {0};
	char *text = state_print(&a);

	OK(text && parse(text, &b, &err) == 0, "what is printed is read");
	OK(strcmp(a.reason, b.reason) == 0 && b.started_at == 7 && b.ended_at == 9,
	   "equal");
	free(text);
}

static void bad_is_refused_and_nothing_changes(void)
{
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{\"reason\":\"x\"}",
		"{\"reason\":1,\"startedAt\":1,\"endedAt\":1}",
		"{\"reason\":\"x\",\"startedAt\":-1,\"endedAt\":1}",
		"{\"reason\":\"x\",\"startedAt\":1,\"endedAt\":1,\"more\":1}",
		"{\"reason\":\"x\",\"reason\":\"y\",\"startedAt\":1,\"endedAt\":1}",
	};
	struct state s = {.started_at = 42};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct cove_error err = {0};

		OK(parse(bad[i], &s, &err) == COVE_EDAMAGED, "refused: %s", bad[i]);
		OK(strstr(err.msg, "state.json") && s.started_at == 42,
		   "said, untouched");
	}
}

int main(void)
{
	good_round_trip();
	bad_is_refused_and_nothing_changes();
	return tap_done();
}
