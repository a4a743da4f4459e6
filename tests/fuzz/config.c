/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as a config file; what is accepted can be applied, with each of its profiles.
 */
#include "fuzz.h"

#include "base/util.h"
#include "spec/spec.h"

static void one(const uint8_t *data, size_t size, bool project)
{
	struct buf problems = BUF_INIT(1 << 16);
	const struct config *list[2];
	struct config *c = NULL;
	struct cove_error err;
	struct spec s;

	spec_init(&s);
	if (config_parse(&c, (const char *)data, size, "fuzz", project, &problems,
			 &err) == 0) {
		list[0] = list[1] = c;
		if (problems.len || config_apply(list, 2, NULL, &s, &err) < 0)
			abort();
		config_apply(list, 2, "p", &s, &err);
		if (project && config_agents(c)) {
			char *text = json_dumps(config_agents(c), 0);

			if (text && strstr(text, "\"target\": \"host\""))
				abort(); /* the one thing it may never say */
			free(text);
		}
	} else if (c || !problems.len) {
		abort();
	}
	config_free(c);
	spec_clear(&s);
	buf_clear(&problems);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cove_error err;

	one(data, size, false);
	one(data, size, true);
	config_check((const char *)data, size, "fuzz", true, NULL, &err);
	return 0;
}
