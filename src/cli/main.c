/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cove - the command line. This file holds the table of commands and finds the one to
 * run; each command is a cmd_*.c of its own.
 */
#include "cli/cli.h"
#include "cli/notice.h"
#include "cli/spec.h"

#include <fcntl.h>
#include <stdio.h>

#define RUN "Run"
#define MANAGE "Manage sandboxes"
#define WORK "Review and land changes"
#define KEEP "Snapshots, clones, volumes"
#define LOOK "Look"
#define NET "Network"
#define HOST "This host"

#define MAKE_FLAGS \
	(SPEC_FLAGS | EXEC_FLAGS | FLAG(F_APPLY) | FLAG(F_YES) | FLAG(F_JSON) | \
	 FLAG(F_QUIET))
/* Whose connections a command's are. */
#define SCOPE_FLAGS (FLAG(F_AGENT) | FLAG(F_TOOL) | FLAG(F_OFFLINE))
/* What can be said about a sandbox that exists. */
#define SET_FLAGS \
	(((SPEC_FLAGS | EXEC_FLAGS) & ~(FLAG(F_PROFILE) | FLAG(F_SPEC))) | \
	 FLAG(F_ADD_MOUNT))

/* clang-format off */
const struct command cli_commands[] = {
	{"run", RUN, "[NAME] [DIR] [FLAGS] -- CMD [ARG...]",
		"run a command in a sandbox",
		"cove run -- npm test", "@name",
		MAKE_FLAGS | TTY_FLAGS | FLAG(F_KEEP) | FLAG(F_RM) | FLAG(F_DETACH) | FLAG(F_DEGRADED) |
			FLAG(F_SECRET_STDIN) | SCOPE_FLAGS,
		0, 2, 0, cmd_run},
	{"exec", RUN, "NAME [FLAGS] -- CMD [ARG...]",
		"run a command in a running sandbox",
		"cove exec api-fix -- git status", "@name",
		EXEC_FLAGS | TTY_FLAGS | FLAG(F_ASK) | SCOPE_FLAGS | FLAG(F_DETACH) | FLAG(F_QUIET),
		1, 1, 1, cmd_exec},
	{"shell", RUN, "NAME [FLAGS]",
		"open a shell in a running sandbox",
		"cove shell api-fix", "@name",
		EXEC_FLAGS | TTY_FLAGS | FLAG(F_ASK) | SCOPE_FLAGS | FLAG(F_QUIET), 1, 1, 0, cmd_shell},
	{"attach", RUN, "NAME",
		"join the main session of a sandbox again",
		"cove attach api-fix", "@name",
		TTY_FLAGS | FLAG(F_ASK), 1, 1, 0, cmd_attach},
	{"cp", RUN, "[-r] SRC DST",
		"copy files into or out of a running sandbox",
		"cove cp -r api-fix:/tmp/report ./report", "@file",
		FLAG(F_RECURSIVE) | FLAG(F_QUIET), 2, 2, 0, cmd_cp},

	{"diff", WORK, "NAME [PATH...]",
		"show what was changed in a sandbox",
		"cove diff --stat api-fix", "@name",
		FLAG(F_STAT) | FLAG(F_NAME_ONLY) | FLAG(F_CONTEXT) | FLAG(F_NO_PAGER) | FLAG(F_JSON),
		1, 255, 0, cmd_diff},
	{"apply", WORK, "NAME [PATH...]",
		"land changes on the host, through the gate",
		"cove apply api-fix src/", "@name",
		FLAG(F_DRY_RUN) | FLAG(F_CHOOSE) | FLAG(F_ACCEPT) | FLAG(F_OVERWRITE) | FLAG(F_YES) |
			FLAG(F_JSON) | FLAG(F_QUIET),
		1, 255, 0, cmd_apply},
	{"undo", WORK, "NAME",
		"take the last apply back",
		"cove undo api-fix", "@name",
		FLAG(F_DRY_RUN) | FLAG(F_YES) | FLAG(F_JSON) | FLAG(F_QUIET), 1, 1, 0, cmd_undo},
	{"discard", WORK, "NAME [PATH...]",
		"drop changes for good",
		"cove discard api-fix build/", "@name",
		FLAG(F_YES) | FLAG(F_JSON) | FLAG(F_QUIET), 1, 255, 0, cmd_discard},
	{"scan", WORK, "PATH...",
		"look for secrets in files of the host, with the gate's rules",
		"cove scan --rules gitleaks.toml src/", "@file",
		FLAG(F_RULES) | FLAG(F_JSON) | FLAG(F_QUIET), 1, 255, 0, cmd_scan},

	{"snapshot", KEEP, "NAME TAG | rm NAME TAG | shred NAME TAG",
		"keep the state of a sandbox under a tag",
		"cove snapshot -m 'tests pass' api-fix green", "@name",
		FLAG(F_MESSAGE) | FLAG(F_WITH_MEMORY) | FLAG(F_YES) | FLAG(F_JSON) | FLAG(F_QUIET),
		2, 3, 0, cmd_snapshot},
	{"snapshots", KEEP, "NAME",
		"list the snapshots of a sandbox",
		"cove snapshots api-fix", "@name",
		FLAG(F_JSON) | FLAG(F_QUIET), 1, 1, 0, cmd_snapshots},
	{"restore", KEEP, "NAME TAG",
		"take a sandbox back to a snapshot",
		"cove restore api-fix green", "@name",
		FLAG(F_FILES_ONLY) | FLAG(F_YES) | FLAG(F_QUIET), 2, 2, 0, cmd_restore},
	{"clone", KEEP, "NAME[@TAG] NEW [FLAGS]",
		"make a new sandbox from another or from its snapshot",
		"cove clone golden@ready job-7 --cpus 1 --start", "@name",
		SET_FLAGS | FLAG(F_START) | FLAG(F_QUIET), 2, 2, 0, cmd_clone},
	{"fork", KEEP, "NAME[@TAG] [FLAGS]",
		"make running copies of a virtual machine",
		"cove fork -n 4 --name try golden@warm", "@name",
		FLAG(F_COUNT) | FLAG(F_NAME) | FLAG(F_JSON) | FLAG(F_QUIET), 1, 1, 0, cmd_fork},
	{"export", KEEP, "NAME",
		"write a sandbox with its snapshots to one archive",
		"cove export -o api-fix.tar api-fix", "@name",
		FLAG(F_OUTPUT) | FLAG(F_QUIET), 1, 1, 0, cmd_export},
	{"import", KEEP, "FILE [NAME] [FLAGS]",
		"make a sandbox from an archive that export wrote",
		"cove import api-fix.tar copy --mount ~/src/api:overlay", "@file",
		(SET_FLAGS & ~FLAG(F_ADD_MOUNT)) | FLAG(F_QUIET), 1, 2, 0, cmd_import},
	{"volume", KEEP, "ls | rm NAME...",
		"list and remove volumes",
		"cove volume ls", "ls rm",
		FLAG(F_YES) | FLAG(F_JSON) | FLAG(F_QUIET), 1, 255, 0, cmd_volume},
	{"secret", KEEP, "set NAME [FLAGS] [-- CMD [ARG...]] | ls | rm NAME...",
		"keep secrets, encrypted, for sandboxes to use",
		"cove secret set API_KEY --hosts api.example.com", "set ls rm",
		FLAG(F_HOSTS) | FLAG(F_FROM_ENV) | FLAG(F_VALUE_FILE) | FLAG(F_COMMAND) |
			FLAG(F_JSON) | FLAG(F_QUIET),
		1, 255, 0, cmd_secret},

	{"create", MANAGE, "[NAME] [DIR] [FLAGS]",
		"create a sandbox without starting it",
		"cove create api-fix . --memory 4GiB --ttl 8h", NULL,
		MAKE_FLAGS & ~FLAG(F_APPLY), 0, 2, 0, cmd_create},
	{"start", MANAGE, "NAME...",
		"start sandboxes",
		"cove start api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_DEGRADED) | FLAG(F_SECRET_STDIN) | FLAG(F_QUIET),
		0, 255, 0, cmd_start},
	{"stop", MANAGE, "NAME...",
		"stop sandboxes in good order",
		"cove stop --grace 10s api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_GRACE) | FLAG(F_QUIET), 0, 255, 0, cmd_stop},
	{"restart", MANAGE, "NAME...",
		"stop sandboxes and start them again",
		"cove restart api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_GRACE) | FLAG(F_DEGRADED) | FLAG(F_SECRET_STDIN) | FLAG(F_QUIET),
		0, 255, 0, cmd_restart},
	{"kill", MANAGE, "NAME...",
		"end sandboxes at once",
		"cove kill api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_QUIET), 0, 255, 0, cmd_kill},
	{"pause", MANAGE, "NAME...",
		"hold everything in sandboxes still",
		"cove pause api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_QUIET), 0, 255, 0, cmd_pause},
	{"resume", MANAGE, "NAME...",
		"let paused sandboxes go on",
		"cove resume api-fix", "@name",
		FLAG(F_ALL) | FLAG(F_QUIET), 0, 255, 0, cmd_resume},
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
	{"publish", MANAGE, "NAME HOST:GUEST...",
		"publish ports or sockets of a sandbox on the host",
		"cove publish api-fix 8080:3000", "@name",
		FLAG(F_JSON) | FLAG(F_QUIET), 2, 255, 0, cmd_publish},
	{"unpublish", MANAGE, "NAME PORT...",
		"take published ports back",
		"cove unpublish api-fix 8080", "@name",
		FLAG(F_QUIET), 2, 255, 0, cmd_unpublish},
	{"ports", MANAGE, "NAME",
		"list the published ports of a sandbox",
		"cove ports api-fix", "@name",
		FLAG(F_JSON) | FLAG(F_QUIET), 1, 1, 0, cmd_ports},
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

	{"audit", LOOK, "NAME",
		"print the audit log of a sandbox",
		"cove audit --verify api-fix", "@name",
		FLAG(F_FOLLOW) | FLAG(F_VERIFY) | FLAG(F_TAIL) | FLAG(F_JSON), 1, 1, 0, cmd_audit},

	{"net", NET, "VERB NAME [ARG...]",
		"show and change what a sandbox may reach",
		"cove net allow api-fix api.example.com:443",
		"allow deny rm ls check explain log reload status learned @name",
		FLAG(F_PORT) | FLAG(F_PROTOCOL) | FLAG(F_METHOD) | FLAG(F_PATH) | FLAG(F_AGENT) |
			FLAG(F_TOOL) | FLAG(F_ID) | FLAG(F_FOR) | FLAG(F_SPEC) | FLAG(F_FOLLOW) |
			FLAG(F_DENIED) | FLAG(F_SINCE) | FLAG(F_TAIL) | FLAG(F_FILE) | FLAG(F_OUTPUT) |
			FLAG(F_USE) | FLAG(F_JSON) | FLAG(F_QUIET),
		1, 255, 0, cmd_net},

	{"doctor", HOST, "",
		"check what this host can enforce",
		"cove doctor", NULL,
		FLAG(F_JSON), 0, 0, 0, cmd_doctor},
	{"kernel", HOST, "install | ls | add NAME IMAGE [MODULES] | default NAME | rm NAME... | build",
		"install and choose the kernels of virtual machines",
		"cove kernel install", "install ls add default rm build @file",
		FLAG(F_DEB) | FLAG(F_JSON) | FLAG(F_QUIET), 1, 255, 0, cmd_kernel},
	{"image", HOST, "ls | rm KEY... | prepare",
		"list, remove and make what later starts need not make again",
		"cove image prepare --memory 512MiB --cpus 1", "ls rm prepare",
		FLAG(F_BACKEND) | FLAG(F_IMAGE) | FLAG(F_MEMORY) | FLAG(F_CPUS) | FLAG(F_ALL) |
			FLAG(F_JSON) | FLAG(F_QUIET),
		1, 255, 0, cmd_image},
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
		cli_log_enable(cli_has(&args, F_VERBOSE) ? 3
			       : cli_has(&args, F_QUIET) ? 0
							 : 1);
		code = cmd->run(&args);
		if (cmd->words && strcmp(cmd->words, "@name") == 0 && args.n_words)
			cli_notices(args.words[0]);
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
