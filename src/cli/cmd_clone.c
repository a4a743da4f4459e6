/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_clone - a new sandbox from another, or from its snapshot. */
#include "cli/spec.h"
#include "cli/term.h"

#include <stdio.h>

static int start(const char *name)
{
	struct cove_start_options o = {.size = sizeof(o), .progress = cli_progress};
	struct cove_error err = {0};
	struct cove *box = NULL;
	int r = cove_start(&box, name, NULL, &o, &err);

	cove_free(box);
	cli_progress_end();
	if (r == 0)
		return 0;
	cli_note("cove clone: %s was made, but did not start", name);
	return cli_fail("clone", &err);
}

int cmd_clone(const struct args *a)
{
	cleanup_spec struct cove_spec *changes = NULL;
	cleanup_free char *from = strdup(a->words[0]);
	struct cove_error err = {0};
	char *tag = from ? strchr(from, '@') : NULL;
	int code, r;

	if (!from)
		return cli_failf("clone", NULL, "out of memory");
	if (tag)
		*tag++ = '\0';
	if (a->set & (SPEC_FLAGS | EXEC_FLAGS | FLAG(F_ADD_MOUNT))) {
		if (cove_spec_new(&changes, &err) < 0)
			return cli_fail("clone", &err);
		code = cli_spec_flags(a, changes);
		if (code)
			return code;
	}
	cli_progress_slow("cloning");
	r = cove_clone(from, tag, a->words[1], changes, &err);
	cli_progress_end();
	if (r < 0)
		return cli_fail("clone", &err);
	return cli_has(a, F_START) ? start(a->words[1]) : 0;
}
