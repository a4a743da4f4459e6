/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove - the command line. This file holds the table of commands and finds the one to
 * run; each command is a cmd_*.c of its own.
 */
#include "cli/cli.h"
#include "cli/spec.h"

#include <fcntl.h>
#include <stdio.h>

#define RUN "Run"
#define MANAGE "Manage sandboxes"
#define LOOK "Look"
#define HOST "This host"

#define MAKE_FLAGS \
	(SPEC_FLAGS | EXEC_FLAGS | FLAG(F_AGENT) | FLAG(F_APPLY) | FLAG(F_YES) | \
	 FLAG(F_JSON) | FLAG(F_QUIET))
/* What can be said about a sandbox that exists. */
#define SET_FLAGS \
	((SPEC_FLAGS | EXEC_FLAGS) & \
	 ~(FLAG(F_NO_MOUNTS) | FLAG(F_PROFILE) | FLAG(F_SPEC)))

/* clang-format off */
const struct command cli_commands[] = {
	{"run", RUN, "[NAME] [DIR] [FLAGS] -- CMD [ARG...]",
		"run a command in a sandbox",
		"cove run -- npm test", "@name",
		MAKE_FLAGS | TTY_FLAGS | FLAG(F_KEEP) | FLAG(F_RM) | FLAG(F_DETACH) | FLAG(F_DEGRADED),
		0, 2, 0, cmd_run},
	{"exec", RUN, "NAME [FLAGS] -- CMD [ARG...]",
		"run a command in a running sandbox",
		"cove exec api-fix -- git status", "@name",
		EXEC_FLAGS | TTY_FLAGS | FLAG(F_DETACH) | FLAG(F_AGENT) | FLAG(F_QUIET),
		1, 1, 1, cmd_exec},
	{"shell", RUN, "NAME [FLAGS]",
		"open a shell in a running sandbox",
		"cove shell api-fix", "@name",
		EXEC_FLAGS | TTY_FLAGS | FLAG(F_QUIET), 1, 1, 0, cmd_shell},
	{"attach", RUN, "NAME",
		"join the main session of a sandbox again",
		"cove attach api-fix", "@name",
		TTY_FLAGS, 1, 1, 0, cmd_attach},
	{"cp", RUN, "[-r] SRC DST",
		"copy files into or out of a running sandbox",
		"cove cp -r api-fix:/tmp/report ./report", "@file",
		FLAG(F_RECURSIVE) | FLAG(F_QUIET), 2, 2, 0, cmd_cp},

	{"create", MANAGE, "[NAME] [DIR] [FLAGS]",
		"create a sandbox without starting it",
		"cove create api-fix . --memory 4GiB --ttl 8h", NULL,
		MAKE_FLAGS, 0, 2, 0, cmd_create},
	{"start", MANAGE, "NAME...",
		"start sandboxes",
		"cove start api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_DEGRADED) | FLAG(F_QUIET), 0, 255, 0, cmd_start},
	{"stop", MANAGE, "NAME...",
		"stop sandboxes in good order",
		"cove stop --grace 10s api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_GRACE) | FLAG(F_QUIET), 0, 255, 0, cmd_stop},
	{"restart", MANAGE, "NAME...",
		"stop sandboxes and start them again",
		"cove restart api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_GRACE) | FLAG(F_DEGRADED) | FLAG(F_QUIET), 0, 255, 0, cmd_restart},
	{"kill", MANAGE, "NAME...",
		"end sandboxes at once",
		"cove kill api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_QUIET), 0, 255, 0, cmd_kill},
	{"rm", MANAGE, "NAME...",
		"remove sandboxes with everything in them",
		"cove rm -f api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_FORCE) | FLAG(F_YES) | FLAG(F_QUIET), 0, 255, 0, cmd_rm},
	{"reset", MANAGE, "NAME...",
		"take sandboxes back to how they were created",
		"cove reset --yes api-fix", "@name",
		FLAG(F_YES) | FLAG(F_QUIET), 1, 255, 0, cmd_reset},
	{"set", MANAGE, "NAME FLAGS",
		"change limits and other settings of a sandbox",
		"cove set api-fix --memory 8GiB --cpus 4", "@name",
		SET_FLAGS | FLAG(F_QUIET), 1, 1, 0, cmd_set},
	{"edit", MANAGE, "NAME",
		"edit the spec of a sandbox in your editor",
		"EDITOR=vi cove edit api-fix", "@name",
		FLAG(F_QUIET), 1, 1, 0, cmd_edit},

	{"ls", LOOK, "[FLAGS]",
		"list sandboxes",
		"cove ls --filter state=running", NULL,
		FLAG(F_FILTER) | FLAG(F_JSON) | FLAG(F_QUIET), 0, 0, 0, cmd_ls},
	{"inspect", LOOK, "NAME...",
		"show spec, state, paths and limits as JSON",
		"cove inspect api-fix", "@name",
		FLAG(F_JSON), 1, 255, 0, cmd_inspect},
	{"ps", LOOK, "NAME",
		"list the processes of a sandbox",
		"cove ps api-fix", "@name",
		FLAG(F_JSON), 1, 1, 0, cmd_ps},
	{"stats", LOOK, "[NAME...]",
		"show memory, processor and process use",
		"cove stats --watch api-fix", "@name",
		FLAG(F_JSON) | FLAG(F_WATCH), 0, 255, 0, cmd_stats},
	{"logs", LOOK, "NAME",
		"print the output of the main session",
		"cove logs --follow --tail 50 api-fix", "@name",
		FLAG(F_FOLLOW) | FLAG(F_TAIL), 1, 1, 0, cmd_logs},
	{"attest", LOOK, "NAME",
		"prove what is enforced on a running sandbox",
		"cove attest api-fix", "@name",
		FLAG(F_JSON), 1, 1, 0, cmd_attest},

	{"doctor", HOST, "",
		"check what this host can enforce",
		"cove doctor", NULL,
		FLAG(F_JSON), 0, 0, 0, cmd_doctor},
	{"config", HOST, "check FILE | init | trust [FILE] | untrust [FILE]",
		"check, write and trust configuration files",
		"cove config trust ./cove.yaml", "check init trust untrust @file",
		FLAG(F_QUIET), 1, 2, 0, cmd_config},
	{"completion", HOST, "bash|zsh|fish",
		"print a completion script for your shell",
		"source <(cove completion bash)", "bash zsh fish",
		0, 1, 1, 0, cmd_completion},
	{"version", HOST, "",
		"print the version",
		"cove version --json", NULL,
		FLAG(F_JSON), 0, 0, 0, cmd_version},
	{"help", HOST, "[VERB]",
		"show help",
		"cove help run", "@verb",
		0, 0, 1, 0, cmd_help},
};
/* clang-format on */
const size_t cli_command_count = ARRAY_LEN(cli_commands);

const struct command *cli_command_find(const char *name)
{
	for (size_t i = 0; i < cli_command_count; i++)
		if (strcmp(cli_commands[i].name, name) == 0)
			return &cli_commands[i];
	return NULL;
}

static int unknown_verb(const char *verb)
{
	const char *names[ARRAY_LEN(cli_commands)], *near;

	for (size_t i = 0; i < cli_command_count; i++)
		names[i] = cli_commands[i].name;
	near = cli_nearest(verb, names, cli_command_count);
	if (near)
		cli_note("cove: %s: no such command; did you mean 'cove %s'?", verb,
			 near);
	else
		cli_note("cove: %s: no such command", verb);
	cli_note("hint: see 'cove --help'");
	return EXIT_USAGE;
}

static int run_command(const struct command *cmd, int argc, char **argv)
{
	struct args args = {0};
	int code = cli_parse(&args, cmd, argc, argv);

	if (code == 0 && cli_has(&args, F_HELP)) {
		cli_help_command(cmd);
		code = cli_flush(cmd->name, 0);
	} else if (code == 0) {
		if (cli_has(&args, F_VERBOSE))
			cli_log_enable();
		code = cmd->run(&args);
	}
	cli_args_clear(&args);
	return code;
}

/* A descriptor of ours must never land on a number that means stdin, stdout or stderr. */
static int open_standard(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return -1;
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;
	const struct command *cmd;

	if (open_standard() < 0)
		return EXIT_COVE;
	if (!verb) {
		cli_help_all(STDERR_FILENO);
		return EXIT_USAGE;
	}
	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
		cli_help_all(STDOUT_FILENO);
		return 0;
	}
	if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0)
		verb = "version";
	if (strcmp(verb, "__verbs") == 0)
		return cli_list_tables();
	cmd = cli_command_find(verb);
	return cmd ? run_command(cmd, argc - 2, argv + 2) : unknown_verb(verb);
}
