/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network log as a sandbox may have filled it: whatever its lines say, what is learned
 * from them is a policy, and saying it again learns nothing else.
 */
#include "core/netlearn.h"
#include "core/netrules.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *line = (const char *)data, *end = line + size, *nl;
	struct cove_error err = {0};
	struct netlearn *l = NULL;
	json_t *policy, *again, *rules;

	if (netlearn_new(&l) < 0)
		return 0;
	for (; line < end; line = nl + 1) {
		nl = memchr(line, '\n', (size_t)(end - line));
		nl = nl ? nl : end;
		netlearn_line(l, line, (size_t)(nl - line));
	}
	policy = netlearn_policy(l);
	again = netlearn_policy(l);
	rules = json_object_get(policy, "rules");
	for (size_t i = 0; i < json_array_size(rules); i++)
		if (netrule_check(json_array_get(rules, i), "rule", &err) < 0)
			abort();
	if (policy && again && !json_equal(policy, again))
		abort();
	json_decref(policy);
	json_decref(again);
	netlearn_free(l);
	return 0;
}
