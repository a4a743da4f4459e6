/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_create - create and set: a sandbox from flags, and a change of one by flags. */
#include "cli/notice.h"
#include "cli/spec.h"
#include "cli/term.h"

#include <stdio.h>

static int print_created(const struct args *a, const char *name)
{
	cleanup_string char *json = NULL;
	struct cove_error err = {0};

	if (!cli_has(a, F_JSON))
		return 0;
	if (cove_inspect_json(name, &json, &err) < 0)
		return cli_fail(a->cmd->name, &err);
	puts(json);
	return cli_flush(a->cmd->name, 0);
}

int cmd_create(const struct args *a)
{
	cleanup_spec struct cove_spec *spec = NULL;
	cleanup_free char *spec_name = NULL;
	cleanup_free char *dir = NULL;
	struct workplace place = {0};
	struct cove_start_options options = {.size = sizeof(options)};
	struct cove_error err = {0};
	int code = cli_workplace(a, &place);

	dir = place.dir;
	if (code == 0)
		code = cli_spec_build(a, &place, &spec, &spec_name);
	if (code)
		return code;
	if (!place.name)
		place.name = spec_name;
	if (!place.name)
		return cli_usage(a->cmd, "no name: give one, or set it in the spec file");
	cli_report_start(a, &options);
	code = cove_create_with(place.name, spec, &options, &err);
	cli_progress_end();
	if (code < 0)
		return cli_fail(a->cmd->name, &err);
	return print_created(a, place.name);
}

int cmd_set(const struct args *a)
{
	cleanup_spec struct cove_spec *spec = NULL;
	struct cove_error err = {0};
	int code;

	if (!(a->set & (SPEC_FLAGS | EXEC_FLAGS | FLAG(F_ADD_MOUNT))))
		return cli_usage(
			a->cmd, "nothing to set: name a flag, for example --memory 4GiB");
	if (cove_spec_new(&spec, &err) < 0)
		return cli_fail("set", &err);
	code = cli_spec_flags(a, spec);
	if (code)
		return code;
	return cove_update(a->words[0], spec, 0, &err) < 0 ? cli_fail("set", &err) : 0;
}
