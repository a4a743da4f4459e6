/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opts - every flag of every command in one table, and the one parser for them.
 *
 * --flag VALUE, --flag=VALUE, -f, -itd, -U3; "--" ends the flags and starts the command
 * to run. A flag that the command does not take is refused with the nearest that it does.
 */
#include "cli/cli.h"

#include <stdio.h>

/* clang-format off */
const struct flag cli_flags[FLAG_COUNT] = {
	[F_BACKEND]   = {"backend", 0, "B", "backend", "auto process vm remote",
		"where it runs: auto, process, vm or remote"},
	[F_IMAGE]     = {"image", 0, "I", "image.source", "host rootfs: tar: raw: qcow2:",
		"root: host, rootfs:DIR, tar:FILE, raw:FILE, qcow2:FILE"},
	[F_MOUNT]     = {"mount", 0, "SRC[:DST]:MODE", "mounts", "@dir",
		"mount a directory: overlay, ro, rw, copy or volume"},
	[F_NO_MOUNTS] = {"no-mounts", 0, NULL, NULL, NULL,
		"mount nothing, not even the current directory"},
	[F_STORAGE]   = {"storage", 0, "TYPE", "storage.type", "ephemeral persistent",
		"home directory and image: ephemeral or persistent"},
	[F_NET]       = {"net", 0, "MODE", "network.mode", "none allowlist open learn",
		"network: none, allowlist, open or learn"},
	[F_ALLOW]     = {"allow", 0, "HOST[:PORT]", "network.allowedHosts", NULL,
		"allow this host; the mode is allowlist then"},
	[F_SECRET]    = {"secret", 0, "NAME[@HOST,...]", "secrets", NULL,
		"a secret, usable towards these hosts only"},
	[F_SECRET_STDIN] = {"secret-stdin", 0, "NAME", NULL, NULL,
		"read the value of this secret from standard input"},
	[F_ENV]       = {"env", 0, "K[=V]", "exec.env", NULL,
		"set a variable; without =V it takes your value"},
	[F_USER]      = {"user", 0, "U", "exec.user", "agent root",
		"user inside the sandbox"},
	[F_WORKDIR]   = {"workdir", 0, "D", "exec.workDir", "@dir",
		"working directory inside the sandbox"},
	[F_CPUS]      = {"cpus", 0, "N", "resources.cpus", NULL,
		"processors, for example 1.5"},
	[F_MEMORY]    = {"memory", 0, "SIZE", "resources.memoryMiB", NULL,
		"memory limit, for example 2GiB"},
	[F_DISK]      = {"disk", 0, "SIZE", "resources.diskGiB", NULL,
		"limit for what is written, for example 10GiB"},
	[F_SWAP]      = {"swap", 0, "SIZE", "resources.swap", NULL,
		"swap limit, for example 512MiB"},
	[F_PIDS]      = {"pids", 0, "N", "resources.pids", NULL,
		"most processes and threads at once"},
	[F_TTL]       = {"ttl", 0, "DUR", "resources.ttlSeconds", NULL,
		"stop it this long after the start, for example 8h"},
	[F_IDLE]      = {"idle", 0, "DUR", "resources.idleSeconds", NULL,
		"stop it when nothing ran for this long"},
	[F_TIMEOUT]   = {"timeout", 0, "DUR", "exec.timeoutSeconds", NULL,
		"end the command after this long (exit code 124)"},
	[F_PUBLISH]   = {"publish", 0, "H:G", "ports", NULL,
		"publish port G of the sandbox as port H of the host"},
	[F_PROFILE]   = {"profile", 0, "P", NULL, NULL,
		"apply this profile of the configuration"},
	[F_SPEC]      = {"spec", 0, "FILE", NULL, "@file",
		"read the spec from FILE (YAML or JSON)"},
	[F_AGENT]     = {"agent", 0, "ID", NULL, NULL,
		"on whose behalf: for network rules with a scope"},
	[F_OFFLINE]   = {"offline", 0, NULL, NULL, NULL,
		"no network for this command, whatever the sandbox has"},
	[F_KEEP]      = {"keep", 0, NULL, NULL, NULL,
		"keep the sandbox afterwards (default with a NAME)"},
	[F_RM]        = {"rm", 0, NULL, NULL, NULL,
		"remove the sandbox and its changes afterwards"},
	[F_APPLY]     = {"apply", 0, NULL, NULL, NULL,
		"apply the changes at the end if the gate passes"},
	[F_DEGRADED]  = {"degraded", 0, NULL, NULL, NULL,
		"run even if a limit cannot be set; ls and attest say so"},
	[F_TTY]       = {"tty", 't', NULL, NULL, NULL,
		"give the command a terminal (default when you are on one)"},
	[F_NO_TTY]    = {"no-tty", 'T', NULL, NULL, NULL,
		"give the command no terminal"},
	[F_INTERACTIVE] = {"interactive", 'i', NULL, NULL, NULL,
		"connect stdin (always so without --detach)"},
	[F_DETACH]    = {"detach", 'd', NULL, NULL, NULL,
		"start the command and leave; cove attach joins it"},
	[F_ALL]       = {"all", 0, NULL, NULL, NULL,
		"every sandbox"},
	[F_GRACE]     = {"grace", 0, "DUR", NULL, NULL,
		"time between SIGTERM and SIGKILL (default 5s)"},
	[F_FORCE]     = {"force", 'f', NULL, NULL, NULL,
		"also if it runs or its files are damaged"},
	[F_FILTER]    = {"filter", 0, "K=V", NULL, "state=running state=stopped name= backend=",
		"only these: state=S, name=GLOB or backend=B"},
	[F_FOLLOW]    = {"follow", 'f', NULL, NULL, NULL,
		"go on as the log grows"},
	[F_TAIL]      = {"tail", 'n', "N", NULL, NULL,
		"only the last N lines"},
	[F_WATCH]     = {"watch", 0, NULL, NULL, NULL,
		"again every second until ^C"},
	[F_RECURSIVE] = {"recursive", 'r', NULL, NULL, NULL,
		"copy directories with what is in them"},
	[F_ADD_MOUNT] = {"add-mount", 0, "SRC[:DST]:MODE", "mounts", "@dir",
		"add a mount to those there are"},
	[F_MASK]      = {"mask", 0, "PATH", "mask", "@dir",
		"a private, empty directory over PATH inside, as for node_modules"},
	[F_STAT]      = {"stat", 0, NULL, NULL, NULL,
		"lines added and removed, file by file"},
	[F_NAME_ONLY] = {"name-only", 0, NULL, NULL, NULL,
		"only the paths"},
	[F_CONTEXT]   = {"unified", 'U', "N", NULL, NULL,
		"lines of context around a change (default 3)"},
	[F_NO_PAGER]  = {"no-pager", 0, NULL, NULL, NULL,
		"print straight to the terminal"},
	[F_DRY_RUN]   = {"dry-run", 'n', NULL, NULL, NULL,
		"show what would happen and change nothing"},
	[F_CHOOSE]    = {"interactive", 'i', NULL, NULL, NULL,
		"choose file by file, hunk by hunk"},
	[F_ACCEPT]    = {"accept", 0, "ID", NULL, NULL,
		"let this one finding pass; can be given several times"},
	[F_OVERWRITE] = {"overwrite", 0, NULL, NULL, NULL,
		"where the host changed the same file: take the sandbox's"},
	[F_MESSAGE]   = {"message", 'm', "TEXT", NULL, NULL,
		"a description"},
	[F_VERIFY]    = {"verify", 0, NULL, NULL, NULL,
		"check the chain and say where it is broken"},
	[F_START]     = {"start", 0, NULL, NULL, NULL,
		"start it at once"},
	[F_WITH_MEMORY] = {"with-memory", 0, NULL, NULL, NULL,
		"keep the memory of a running virtual machine, too, encrypted"},
	[F_FILES_ONLY] = {"files-only", 0, NULL, NULL, NULL,
		"leave the memory of the snapshot out"},
	[F_COUNT]     = {"count", 'n', "N", NULL, NULL,
		"how many (default: 1)"},
	[F_NAME]      = {"name", 0, "PREFIX", NULL, NULL,
		"they are called PREFIX-1 to PREFIX-N"},
	[F_OUTPUT]    = {"output", 'o', "FILE", NULL, "@file",
		"write to FILE instead of standard output"},
	[F_RULES]     = {"rules", 0, "FILE", NULL, "@file",
		"use the rules of this gitleaks.toml"},
	[F_DENY]      = {"deny", 0, "HOST", NULL, NULL,
		"refuse this host, whatever else allows it"},
	[F_ASK]       = {"ask", 0, NULL, NULL, NULL,
		"ask on the terminal instead of refusing a host"},
	[F_POLICY]    = {"policy", 0, "FILE", NULL, "@file",
		"take the network policy from FILE (YAML or JSON), follow changes"},
	[F_PORT]      = {"port", 0, "P", NULL, NULL,
		"only this port, or range A-B"},
	[F_PROTOCOL]  = {"protocol", 0, "P", NULL, "tcp tls http",
		"only this protocol: tcp, tls or http"},
	[F_METHOD]    = {"method", 0, "M", NULL, "GET HEAD POST PUT PATCH DELETE",
		"only this HTTP method; can be given several times"},
	[F_PATH]      = {"path", 0, "GLOB", NULL, NULL,
		"only this path: * within a segment, ** across; repeatable"},
	[F_TOOL]      = {"tool", 0, "T", NULL, NULL,
		"with which tool: for network rules with a scope"},
	[F_ID]        = {"id", 0, "ID", NULL, NULL,
		"call the rule this"},
	[F_FOR]       = {"for", 0, "DUR", NULL, NULL,
		"take the rule back after this long, for example 10m"},
	[F_DENIED]    = {"denied", 0, NULL, NULL, NULL,
		"only what was refused"},
	[F_SINCE]     = {"since", 0, "DUR", NULL, NULL,
		"only the last of it, for example 1h"},
	[F_FILE]      = {"file", 0, "FILE", NULL, "@file",
		"a policy file to use instead of the present one"},
	[F_USE]       = {"apply", 0, NULL, NULL, NULL,
		"make it the policy of the sandbox"},
	[F_HOSTS]     = {"hosts", 0, "H,...", NULL, NULL,
		"the hosts it may be used towards, where a spec names none"},
	[F_FROM_ENV]  = {"from-env", 0, "VAR", NULL, NULL,
		"take the value of this variable"},
	[F_VALUE_FILE] = {"file", 0, "FILE", NULL, "@file",
		"take the content of FILE"},
	[F_COMMAND]   = {"command", 0, NULL, NULL, NULL,
		"take the output of the command after '--'"},
	[F_DEB]       = {"deb", 0, "FILE", NULL, "@file",
		"take the kernel from this package file"},
	[F_YES]       = {"yes", 'y', NULL, NULL, NULL,
		"do not ask"},
	[F_JSON]      = {"json", 0, NULL, NULL, NULL,
		"print JSON"},
	[F_QUIET]     = {"quiet", 'q', NULL, NULL, NULL,
		"say less; ls: names only"},
	[F_VERBOSE]   = {"verbose", 'v', NULL, NULL, NULL,
		"show what the library does"},
	[F_HELP]      = {"help", 'h', NULL, NULL, NULL,
		"show this help"},
};
/* clang-format on */

bool cli_has(const struct args *a, enum flag_id id)
{
	return a->set & FLAG(id);
}

const char *cli_value(const struct args *a, enum flag_id id)
{
	for (size_t i = a->n_given; i-- > 0;)
		if (a->given[i].id == id)
			return a->given[i].value;
	return NULL;
}

void cli_args_clear(struct args *a)
{
	free(a->given);
	free(a->words);
	*a = (struct args){0};
}

static bool takes(const struct command *cmd, int id)
{
	return (cmd->flags | FLAG(F_HELP) | FLAG(F_VERBOSE)) & FLAG(id);
}

static int find_long(const struct command *cmd, const char *name, size_t len)
{
	for (int id = 0; id < FLAG_COUNT; id++)
		if (takes(cmd, id) && strlen(cli_flags[id].name) == len &&
		    memcmp(cli_flags[id].name, name, len) == 0)
			return id;
	return -1;
}

static int find_letter(const struct command *cmd, char letter)
{
	for (int id = 0; id < FLAG_COUNT; id++)
		if (takes(cmd, id) && cli_flags[id].letter == letter)
			return id;
	return -1;
}

/* The likely mistake with verbs that run a command. */
static const char *aside(const struct command *cmd)
{
	return strstr(cmd->args, "CMD") ? "; a command and its flags go after '--'" : "";
}

static int unknown_long(const struct command *cmd, const char *name, size_t len)
{
	const char *known[FLAG_COUNT], *near;
	char word[64];
	size_t n = 0;

	for (int id = 0; id < FLAG_COUNT; id++)
		if (takes(cmd, id))
			known[n++] = cli_flags[id].name;
	snprintf(word, sizeof(word), "%.*s", (int)(len < 63 ? len : 63), name);
	near = cli_nearest(word, known, n);
	if (near)
		return cli_usage(cmd, "--%s: no such flag; did you mean --%s?", word,
				 near);
	return cli_usage(cmd, "--%s: no such flag%s", word, aside(cmd));
}

static void give(struct args *a, int id, const char *value)
{
	a->set |= FLAG(id);
	a->given[a->n_given++] = (struct given){.id = (enum flag_id)id, .value = value};
}

/* One "--..." word; *i moves on when the value is the next word. */
static int parse_long(struct args *a, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	int id = find_long(a->cmd, name, len);

	if (id < 0)
		return unknown_long(a->cmd, name, len);
	if (!cli_flags[id].arg) {
		if (equals)
			return cli_usage(a->cmd, "--%s: takes no value",
					 cli_flags[id].name);
		give(a, id, NULL);
		return 0;
	}
	if (!equals && *i + 1 >= argc)
		return cli_usage(a->cmd, "--%s: needs a value: %s", cli_flags[id].name,
				 cli_flags[id].arg);
	give(a, id, equals ? equals + 1 : argv[++*i]);
	return 0;
}

/* One "-abc" word. A letter whose flag takes a value ends it: "-U3", or "-U" and the next
 * word. */
static int parse_letters(struct args *a, int argc, char **argv, int *i)
{
	for (const char *letters = argv[*i] + 1; *letters; letters++) {
		int id = find_letter(a->cmd, *letters);

		if (id < 0)
			return cli_usage(a->cmd, "-%c: no such flag%s", *letters,
					 aside(a->cmd));
		if (!cli_flags[id].arg) {
			give(a, id, NULL);
			continue;
		}
		if (!letters[1] && *i + 1 >= argc)
			return cli_usage(a->cmd, "-%c: needs a value: %s", *letters,
					 cli_flags[id].arg);
		give(a, id, letters[1] ? letters + 1 : argv[++*i]);
		break;
	}
	return 0;
}

static int check_words(const struct args *a)
{
	const struct command *cmd = a->cmd;

	if (cli_has(a, F_HELP))
		return 0;
	if (a->n_words < cmd->min_words)
		return cli_usage(cmd, "too few arguments: %s", cmd->args);
	if (a->n_words <= cmd->max_words || cmd->max_words == 255)
		return 0;
	if (strstr(cmd->args, "--"))
		return cli_usage(cmd,
				 "%s: what is this? a command to run goes after '--'",
				 a->words[cmd->max_words]);
	return cli_usage(cmd, "%s: one argument too many", a->words[cmd->max_words]);
}

/* Letters may come several to a word, so the room needed is bounded by all bytes. */
static size_t room_for(int argc, char **argv)
{
	size_t n = 1;

	for (int i = 0; i < argc; i++)
		n += argv[i][0] == '-' && argv[i][1] != '-' ? strlen(argv[i]) : 1;
	return n;
}

int cli_parse(struct args *ret, const struct command *cmd, int argc, char **argv)
{
	int r = 0;

	*ret = (struct args){.cmd = cmd};
	ret->given = calloc(room_for(argc, argv), sizeof(*ret->given));
	ret->words = calloc((size_t)argc + 1, sizeof(*ret->words));
	if (!ret->given || !ret->words)
		return cli_failf(cmd->name, NULL, "out of memory");
	for (int i = 0; i < argc && r == 0; i++) {
		char *word = argv[i];

		if (strcmp(word, "--") == 0) {
			ret->rest = argv + i + 1;
			break;
		}
		if (word[0] == '-' && word[1] == '-')
			r = parse_long(ret, argc, argv, &i);
		else if (word[0] == '-' && word[1] != '\0')
			r = parse_letters(ret, argc, argv, &i);
		else if (cmd->command_after && ret->n_words == cmd->command_after) {
			ret->rest = argv + i;
			break;
		} else
			ret->words[ret->n_words++] = word;
	}
	if (r == 0 && ret->rest &&
	    !strstr(cmd->args, "CMD")) /* "--" before plain words */
		while (*ret->rest && ret->n_words < (size_t)argc)
			ret->words[ret->n_words++] = *ret->rest++;
	return r ? r : check_words(ret);
}
