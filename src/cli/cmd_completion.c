/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completion - scripts for bash, zsh and fish, made from the tables. */
#include "cli/cli.h"

#include <stdio.h>

#define EVERYWHERE (FLAG(F_VERBOSE) | FLAG(F_HELP))

static void print_verbs(void)
{
	for (size_t i = 0; i < cli_command_count; i++)
		printf("%s%s", i ? " " : "", cli_commands[i].name);
}

static void print_flags(const struct command *c)
{
	const char *space = "";

	for (int id = 0; id < FLAG_COUNT; id++)
		if ((c->flags | EVERYWHERE) & FLAG(id)) {
			printf("%s--%s", space, cli_flags[id].name);
			space = " ";
		}
}

/* The flags that take a value, by what completes it. NULL: those with no rule. */
static void print_flags_by_value(const char *values)
{
	const char *bar = "";

	for (int id = 0; id < FLAG_COUNT; id++) {
		const struct flag *f = &cli_flags[id];

		if (!f->arg || !f->values != !values ||
		    (values && strcmp(f->values, values) != 0))
			continue;
		printf("%s--%s", bar, f->name);
		bar = "|";
	}
}

/* `case` branches that turn the flag before the word into words, files or directories. */
static void print_value_cases(void)
{
	for (int id = 0; id < FLAG_COUNT; id++) {
		const struct flag *f = &cli_flags[id];

		if (f->arg && f->values && *f->values != '@')
			printf("\t--%s) values='%s' ;;\n", f->name, f->values);
	}
	fputs("\t", stdout);
	print_flags_by_value("@file");
	fputs(") kind=file ;;\n\t", stdout);
	print_flags_by_value("@dir");
	fputs(") kind=dir ;;\n\t", stdout);
	print_flags_by_value(NULL);
	fputs(") kind=none ;;\n", stdout);
}

/* `case` branches by verb: its flags, and what its words are. */
static void print_verb_cases(void)
{
	for (size_t i = 0; i < cli_command_count; i++) {
		const struct command *c = &cli_commands[i];

		printf("\t%s) flags='", c->name);
		print_flags(c);
		printf("' list='%s' ;;\n", c->words ? c->words : "");
	}
}

/* bash and zsh share the part that decides; it sets flags, words, values and kind. */
static void print_decide(void)
{
	puts("_cove_decide() { # VERB PREVIOUS\n"
	     "\tflags='' list='' values='' kind=''\n"
	     "\tcase $1 in");
	print_verb_cases();
	puts("\tesac\n"
	     "\tcase $2 in");
	print_value_cases();
	puts("\tesac\n"
	     "\tcase $list in\n"
	     "\t*@name*) list=\"${list/@name/} $(cove ls -q 2>/dev/null)\" ;;");
	fputs("\t*@verb*) list='", stdout);
	print_verbs();
	puts("' ;;\n"
	     "\t*@file*) list=${list/@file/}; kind=${kind:-file} ;;\n"
	     "\tesac\n"
	     "}");
}

static void bash(void)
{
	puts("# bash completion for cove: source <(cove completion bash)");
	print_decide();
	fputs("_cove() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal flags list values kind i\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	      "\t\tCOMPREPLY=($(compgen -W '",
	      stdout);
	print_verbs();
	puts(" --help --version' -- \"$cur\"))\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	     "\t\tif [ \"${COMP_WORDS[i]}\" = -- ]; then\n"
	     "\t\t\tCOMPREPLY=($(compgen -c -f -- \"$cur\"))\n"
	     "\t\t\treturn\n"
	     "\t\tfi\n"
	     "\tdone\n"
	     "\t_cove_decide \"${COMP_WORDS[1]}\" \"$prev\"\n"
	     "\tif [ -n \"$values\" ]; then\n"
	     "\t\tCOMPREPLY=($(compgen -W \"$values\" -- \"$cur\"))\n"
	     "\telif [ \"$kind\" = none ]; then\n"
	     "\t\treturn\n"
	     "\telif [[ $cur == -* ]]; then\n"
	     "\t\tCOMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
	     "\telif [ \"$kind\" = dir ]; then\n"
	     "\t\tCOMPREPLY=($(compgen -d -- \"$cur\"))\n"
	     "\telse\n"
	     "\t\tCOMPREPLY=($(compgen -W \"$list\" -- \"$cur\"))\n"
	     "\t\t[ \"$kind\" = file ] && COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
	     "\tfi\n"
	     "}\n"
	     "complete -o filenames -F _cove cove");
}

static void zsh(void)
{
	puts("#compdef cove");
	print_decide();
	fputs("_cove() {\n"
	      "\tlocal flags list values kind\n"
	      "\tif (( CURRENT == 2 )); then\n"
	      "\t\tlocal -a verbs\n"
	      "\t\tverbs=(",
	      stdout);
	for (size_t i = 0; i < cli_command_count; i++)
		printf("'%s:%s' ", cli_commands[i].name, cli_commands[i].help);
	puts(")\n"
	     "\t\t_describe verb verbs\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tlocal -a line\n"
	     "\tline=(\"${words[@]}\")\n"
	     "\tif (( ${line[(I)--]} > 0 && ${line[(I)--]} < CURRENT )); then\n"
	     "\t\t_command_names || _files\n"
	     "\t\treturn\n"
	     "\tfi\n"
	     "\tlocal cur=${line[CURRENT]}\n"
	     "\t_cove_decide \"${line[2]}\" \"${line[CURRENT-1]}\"\n"
	     "\tif [[ -n $values ]]; then compadd -- ${=values}\n"
	     "\telif [[ $kind == none ]]; then return\n"
	     "\telif [[ $cur == -* ]]; then compadd -- ${=flags}\n"
	     "\telif [[ $kind == dir ]]; then _files -/\n"
	     "\telse\n"
	     "\t\tcompadd -- ${=list}\n"
	     "\t\t[[ $kind == file ]] && _files\n"
	     "\tfi\n"
	     "}\n"
	     "if [ \"$funcstack[1]\" = _cove ]; then _cove; else compdef _cove cove; fi");
}

static void fish_flag(const struct command *c, const struct flag *f)
{
	printf("complete -c cove -n '__fish_seen_subcommand_from %s' -l %s", c->name,
	       f->name);
	if (f->letter)
		printf(" -s %c", f->letter);
	if (f->arg && f->values && *f->values == '@')
		printf(" -r -F");
	else if (f->arg)
		printf(" -x -a '%s'", f->values ? f->values : "");
	printf(" -d '%s'\n", f->help);
}

static void fish(void)
{
	puts("# fish completion for cove: cove completion fish | source\n"
	     "complete -c cove -f");
	for (size_t i = 0; i < cli_command_count; i++) {
		const struct command *c = &cli_commands[i];
		const char *words = c->words ? c->words : "";

		printf("complete -c cove -n __fish_use_subcommand -a %s -d '%s'\n",
		       c->name, c->help);
		for (int id = 0; id < FLAG_COUNT; id++)
			if ((c->flags | EVERYWHERE) & FLAG(id))
				fish_flag(c, &cli_flags[id]);
		if (strstr(words, "@name"))
			printf("complete -c cove -n '__fish_seen_subcommand_from %s' -a "
			       "'%.*s (cove ls -q 2>/dev/null)'\n",
			       c->name, (int)strcspn(words, "@"), words);
		else if (strstr(words, "@file"))
			printf("complete -c cove -n '__fish_seen_subcommand_from %s' -F "
			       "-a "
			       "'%.*s'\n",
			       c->name, (int)strcspn(words, "@"), words);
		else if (*words && *words != '@')
			printf("complete -c cove -n '__fish_seen_subcommand_from %s' -a "
			       "'%s'\n",
			       c->name, words);
	}
}

int cmd_completion(const struct args *a)
{
	static const struct {
		const char *name;
		void (*print)(void);
	} shells[] = {
		{"bash", bash},
		{"zsh",  zsh },
		{"fish", fish},
	};

	for (size_t i = 0; i < ARRAY_LEN(shells); i++)
		if (strcmp(a->words[0], shells[i].name) == 0) {
			shells[i].print();
			return cli_flush("completion", 0);
		}
	return cli_usage(a->cmd, "%s: not bash, zsh or fish", a->words[0]);
}
