/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli - what the commands of `cove` share. The command line uses the public header and
 * nothing else of the library.
 *
 * A command is a row of cli_commands[] (main.c), a flag a row of cli_flags[] (opts.c).
 * Help, completion and the man page check are made from these two tables.
 */
#ifndef COVE_CLI_CLI_H
#define COVE_CLI_CLI_H

#include "cove.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* ---- exit codes ----------------------------------------------------------------- */

enum {
	EXIT_SHORT = 1,      /* attest, doctor: something falls short */
	EXIT_FINDINGS = 1,   /* apply, scan: the gate found something */
	EXIT_CONFLICT = 2,   /* apply, undo: the host changed the same files */
	EXIT_USAGE = 2,      /* the command line itself is wrong */
	EXIT_COVE = 125,     /* cove failed */
	EXIT_SIGNALLED = 128 /* plus the signal's number */
};

/* ---- flags ---------------------------------------------------------------------- */

enum flag_id {
	F_BACKEND,
	F_IMAGE,
	F_MOUNT,
	F_NO_MOUNTS,
	F_STORAGE,
	F_NET,
	F_ALLOW,
	F_SECRET,
	F_SECRET_STDIN,
	F_ENV,
	F_USER,
	F_WORKDIR,
	F_CPUS,
	F_MEMORY,
	F_DISK,
	F_SWAP,
	F_PIDS,
	F_TTL,
	F_IDLE,
	F_TIMEOUT,
	F_PUBLISH,
	F_PROFILE,
	F_SPEC,
	F_AGENT,
	F_OFFLINE,
	F_KEEP,
	F_RM,
	F_APPLY,
	F_DEGRADED,
	F_TTY,
	F_NO_TTY,
	F_INTERACTIVE,
	F_DETACH,
	F_ALL,
	F_GRACE,
	F_FORCE,
	F_FILTER,
	F_FOLLOW,
	F_TAIL,
	F_WATCH,
	F_RECURSIVE,
	F_ADD_MOUNT,
	F_MASK,
	F_STAT,
	F_NAME_ONLY,
	F_CONTEXT,
	F_NO_PAGER,
	F_DRY_RUN,
	F_CHOOSE,
	F_ACCEPT,
	F_OVERWRITE,
	F_MESSAGE,
	F_VERIFY,
	F_START,
	F_WITH_MEMORY,
	F_FILES_ONLY,
	F_COUNT,
	F_NAME,
	F_OUTPUT,
	F_RULES,
	F_DENY,
	F_ASK,
	F_POLICY,
	F_PORT,
	F_PROTOCOL,
	F_METHOD,
	F_PATH,
	F_TOOL,
	F_ID,
	F_FOR,
	F_DENIED,
	F_SINCE,
	F_FILE,
	F_USE,
	F_HOSTS,
	F_FROM_ENV,
	F_VALUE_FILE,
	F_COMMAND,
	F_DEB,
	F_YES,
	F_JSON,
	F_QUIET,
	F_VERBOSE,
	F_HELP,
	FLAG_COUNT
};
/* A set of flags; more of them than a word has bits. */
__extension__ typedef unsigned __int128 flag_set;
#define FLAG(id) ((flag_set)1 << (id))
_Static_assert(FLAG_COUNT <= 128, "flag_set is too small");

struct flag {
	const char *name;   /* without the dashes */
	char letter;        /* 0: none */
	const char *arg;    /* what the value is called; NULL: the flag takes none */
	const char *key;    /* the spec key it sets, or NULL */
	const char *values; /* for completion: "a b c", "@file", "@dir"; or NULL */
	const char *help;
};
extern const struct flag cli_flags[FLAG_COUNT];

struct given {
	enum flag_id id;
	const char *value; /* NULL for a flag without one */
};

struct args {
	const struct command *cmd;
	flag_set set;        /* FLAG() bits of what was given */
	struct given *given; /* in the order of the command line */
	size_t n_given;
	char **words; /* what is not a flag; NULL-terminated */
	size_t n_words;
	char **rest; /* the command to run; NULL-terminated; NULL: none given */
};

struct command {
	const char *name;
	const char *group; /* heading in `cove --help` */
	const char *args;  /* usage after the flags */
	const char *help;  /* one line */
	const char *example;
	const char *words; /* for completion: "@name", "@file", "a b c", or NULL */
	flag_set flags;
	uint8_t min_words, max_words; /* max 255: any number */
	uint8_t command_after; /* words before a command without "--"; 0: needs "--" */
	int (*run)(const struct args *a);
};
extern const struct command cli_commands[];
extern const size_t cli_command_count;

/* Parses argv behind the verb. 0, or the exit code after a message was printed. The
 * result is released with cli_args_clear(). */
int cli_parse(struct args *ret, const struct command *cmd, int argc, char **argv);
void cli_args_clear(struct args *a);
bool cli_has(const struct args *a, enum flag_id id);
const char *cli_value(const struct args *a, enum flag_id id); /* the last one, or NULL */

const struct command *cli_command_find(const char *name);

/* ---- messages: all on stderr ---------------------------------------------------- */

/* "cove VERB: MSG" and the hint; returns EXIT_COVE. */
int cli_fail(const char *verb, const struct cove_error *err);
int cli_failf(const char *verb, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The command line is wrong: message, "see --help", EXIT_USAGE. */
int cli_usage(const struct command *cmd, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cli_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Every line of text as "cove VERB: LINE". */
void cli_lines(const char *verb, const char *text);
/* Ends output on stdout: code, or EXIT_COVE if it could not be written. */
int cli_flush(const char *verb, int code);
/* The log of the library, with -v. */
void cli_log_enable(int level); /* 0 errors .. 3 debug */

/* Asks on the terminal. 1 yes, 0 no, -1 there is no terminal to ask on. */
int cli_confirm(const char *question);
/* Work that would be lost is asked about, never assumed. 0: go on; else the exit code:
 * EXIT_NO after a "no", 125 if there is nobody to ask (what: of what). */
#define EXIT_NO 1
int cli_ask(const struct args *a, const char *question, const char *what);

/* ---- text ----------------------------------------------------------------------- */

/* A copy in which nothing can drive a terminal: control characters, broken UTF-8 and
 * direction marks become \xNN. NULL when out of memory. */
char *cli_escape(const char *s);
size_t cli_width(const char *s); /* characters, not bytes */
/* The entry of names[] (n of them) nearest to word, or NULL if none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);
int cli_duration(const char *text,
		 int64_t *ret_ms); /* "90", "90s", "5m", "500ms": 0 or -1 */
bool cli_colour(int fd);

struct table; /* rows of text, printed aligned */
struct table *cli_table_new(size_t columns, const char *const *heads);
/* Values are copied and escaped; NULL shows as "-". paint: SGR codes for a column, or
 * NULL. */
int cli_table_row(struct table *t, const char *const *cells, const char *const *paint);
void cli_table_print(const struct table *t);
void cli_table_free(struct table *t);

/* ---- cleanup -------------------------------------------------------------------- */

static inline void cli_freep(void *pp)
{
	void *p;

	memcpy(&p, pp, sizeof(p));
	free(p);
}

static inline void cli_closep(const int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void cli_stringp(char **s)
{
	cove_string_free(*s);
}

static inline void cli_specp(struct cove_spec **s)
{
	cove_spec_free(*s);
}

static inline void cli_tablep(struct table **t)
{
	cli_table_free(*t);
}

#define cleanup_free __attribute__((cleanup(cli_freep)))
#define cleanup_fd __attribute__((cleanup(cli_closep)))
#define cleanup_string __attribute__((cleanup(cli_stringp)))
#define cleanup_spec __attribute__((cleanup(cli_specp)))
#define cleanup_table __attribute__((cleanup(cli_tablep)))

/* ---- the commands --------------------------------------------------------------- */

int cmd_run(const struct args *a);
int cmd_create(const struct args *a);
int cmd_start(const struct args *a);
int cmd_stop(const struct args *a);
int cmd_restart(const struct args *a);
int cmd_kill(const struct args *a);
int cmd_pause(const struct args *a);
int cmd_resume(const struct args *a);
int cmd_rm(const struct args *a);
int cmd_reset(const struct args *a);
int cmd_ls(const struct args *a);
int cmd_inspect(const struct args *a);
int cmd_set(const struct args *a);
int cmd_edit(const struct args *a);
int cmd_exec(const struct args *a);
int cmd_shell(const struct args *a);
int cmd_attach(const struct args *a);
int cmd_ps(const struct args *a);
int cmd_cp(const struct args *a);
int cmd_logs(const struct args *a);
int cmd_stats(const struct args *a);
int cmd_diff(const struct args *a);
int cmd_apply(const struct args *a);
int cmd_undo(const struct args *a);
int cmd_discard(const struct args *a);
int cmd_scan(const struct args *a);
int cmd_snapshot(const struct args *a);
int cmd_snapshots(const struct args *a);
int cmd_restore(const struct args *a);
int cmd_clone(const struct args *a);
int cmd_fork(const struct args *a);
int cmd_export(const struct args *a);
int cmd_import(const struct args *a);
int cmd_volume(const struct args *a);
int cmd_secret(const struct args *a);
int cmd_kernel(const struct args *a);
int cmd_image(const struct args *a);
int cmd_audit(const struct args *a);
int cmd_net(const struct args *a);
int cmd_publish(const struct args *a);
int cmd_unpublish(const struct args *a);
int cmd_ports(const struct args *a);
int cmd_doctor(const struct args *a);
int cmd_attest(const struct args *a);
int cmd_version(const struct args *a);
int cmd_completion(const struct args *a);
int cmd_config(const struct args *a);
int cmd_help(const struct args *a);

/* ---- help (help.c) -------------------------------------------------------------- */

void cli_help_all(int fd);
void cli_help_command(const struct command *cmd);
int cli_list_tables(void); /* `cove __verbs`: the tables, for the tests */

#endif
