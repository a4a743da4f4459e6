/* SPDX-License-Identifier: Apache-2.0 */
/* Property: a state that is accepted survives print and parse. */
#include "spec/state.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cove_error err = {0};
	struct state a, b;
	char *text;

	if (state_parse(&a, (const char *)data, size, &err) < 0)
		return 0;
	text = state_print(&a);
	/* A reason that was cut in the middle of a character cannot be printed as JSON.
	 */
	if (text && (state_parse(&b, text, strlen(text), &err) < 0 ||
		     strcmp(a.reason, b.reason) != 0 || a.started_at != b.started_at))
		abort();
	free(text);
	return 0;
}
