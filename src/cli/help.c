/* SPDX-License-Identifier: Apache-2.0 */
/* help - usage texts, made from the tables of commands and flags. */
#include "cli/cli.h"

#include <stdio.h>

void cli_help_all(int fd)
{
	const char *group = "";

	dprintf(fd, "cove runs agents and the code they write in sandboxes.\n\n"
		    "usage: cove VERB [FLAGS] ...\n");
	for (size_t i = 0; i < cli_command_count; i++) {
		const struct command *c = &cli_commands[i];

		if (strcmp(group, c->group) != 0)
			dprintf(fd, "\n%s:\n", c->group);
		group = c->group;
		dprintf(fd, "  %-12s%s\n", c->name, c->help);
	}
	dprintf(fd, "\nexample: cove run -- npm test\n"
		    "'cove VERB --help' explains a verb, cove(1) all of them.\n");
}

static void print_flag(const struct flag *f)
{
	char left[60];

	snprintf(left, sizeof(left), "%c%c%s --%s%s%s", f->letter ? '-' : ' ',
		 f->letter ? f->letter : ' ', f->letter ? "," : " ", f->name,
		 f->arg ? " " : "", f->arg ? f->arg : "");
	printf("  %-30s  %s\n", left, f->help);
}

static const char net_help[] =
	"verbs:\n"
	"  allow NAME HOST[:PORT][/PATH]...   let it through from now on\n"
	"  deny NAME HOST[:PORT][/PATH]...    refuse it from now on\n"
	"  rm NAME ID...                      take a rule of allow or deny back\n"
	"  ls NAME                            every rule, in the order in which they "
	"decide\n"
	"  check NAME HOST[:PORT][/PATH]      would it be let through? exit code 0 or 1\n"
	"  explain NAME HOST[:PORT][/PATH]    the same, rule by rule\n"
	"  log NAME                           what was tried, and what became of it\n"
	"  reload NAME                        read the policy file again\n"
	"  status NAME                        generation, last change, refusals\n"
	"  learned NAME                       what was used in mode learn, as a policy\n"
	"\n"
	"examples:\n"
	"  cove net allow api-fix api.example.com:443\n"
	"  cove net allow api-fix api.example.com --method GET --path '/v1/**' --for "
	"10m\n"
	"  cove net deny api-fix '**.example.net'\n"
	"  cove net check api-fix api.example.com/v1/users --method POST\n"
	"  cove net check --spec cove.yaml api.example.com\n"
	"  cove net log api-fix --follow --denied\n"
	"  cove net learned api-fix -o policy.yaml\n";

static const char kernel_help[] =
	"verbs:\n"
	"  install                    fetch the distribution's kernel for machines\n"
	"  ls                         what is installed\n"
	"  add NAME IMAGE [MODULES]   a kernel of your own, with a directory of *.ko\n"
	"  default NAME               use this one from now on\n"
	"  rm NAME...                 remove kernels\n"
	"  build                      compile a tuned one from Debian's source\n"
	"\n"
	"examples:\n"
	"  cove kernel install\n"
	"  cove kernel install --deb linux-image-6.1.0-54-cloud-amd64.deb\n"
	"  cove kernel add host /boot/vmlinuz-$(uname -r) /lib/modules/$(uname -r)\n"
	"  cove kernel default host\n"
	"  cove kernel ls --json\n";

static const char image_help[] =
	"verbs:\n"
	"  ls             images that were unpacked, machines that were booted\n"
	"  rm KEY...      remove some of them, or with --all what no sandbox has\n"
	"  prepare        boot a machine of this size now, unpack this image now\n"
	"\n"
	"examples:\n"
	"  cove image prepare\n"
	"  cove image prepare --memory 512MiB --cpus 1 --image tar:debian.tar.xz\n"
	"  cove image prepare --backend process --image tar:debian.tar.xz\n"
	"  cove image ls --json\n"
	"  cove image rm 3f6c\n";

/* What a row of the table of commands has no room for. */
static const struct {
	int (*run)(const struct args *a);
	const char *text;
} more[] = {
	{cmd_net,    net_help   },
	{cmd_kernel, kernel_help},
	{cmd_image,  image_help },
};

void cli_help_command(const struct command *cmd)
{
	flag_set flags = cmd->flags | FLAG(F_VERBOSE) | FLAG(F_HELP);

	printf("cove %s: %s\n\nusage: cove %s %s\n\nflags:\n", cmd->name, cmd->help,
	       cmd->name, cmd->args);
	for (int id = 0; id < FLAG_COUNT; id++)
		if (flags & FLAG(id))
			print_flag(&cli_flags[id]);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		if (more[i].run == cmd->run)
			printf("\n%s", more[i].text);
	printf("\nexample: %s\n", cmd->example);
}

int cli_list_tables(void)
{
	for (size_t i = 0; i < cli_command_count; i++) {
		const struct command *c = &cli_commands[i];

		printf("verb %s\n", c->name);
		for (int id = 0; id < FLAG_COUNT; id++)
			if ((c->flags | FLAG(F_VERBOSE) | FLAG(F_HELP)) & FLAG(id))
				printf("flag %s --%s\n", c->name, cli_flags[id].name);
	}
	return cli_flush("__verbs", 0);
}

int cmd_help(const struct args *a)
{
	const struct command *cmd;

	if (!a->n_words) {
		cli_help_all(STDOUT_FILENO);
		return 0;
	}
	cmd = cli_command_find(a->words[0]);
	if (!cmd)
		return cli_usage(a->cmd, "%s: no such command", a->words[0]);
	cli_help_command(cmd);
	return cli_flush("help", 0);
}
