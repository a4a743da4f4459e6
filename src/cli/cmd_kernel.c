/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_kernel - the kernels that virtual machines run: installing, listing, choosing. */
#include "cli/json.h"
#include "cli/term.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

/* ---- ls ------------------------------------------------------------------------ */

static int print_table(const json_t *list)
{
	static const char *const heads[] = {"NAME", "DEFAULT", "SIZE", "INSTALLED",
					    "SOURCE"};
	cleanup_table struct table *t = cli_table_new(ARRAY_LEN(heads), heads);
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		time_t at = json_integer_value(json_object_get(v, "installedAt"));
		const char *problem = cli_json_text(v, "problem");
		char size[32], date[32] = "";
		const char *cells[ARRAY_LEN(heads)] = {
			cli_json_text(v, "name"),
			json_is_true(json_object_get(v, "default")) ? "yes" : NULL, size,
			date, problem ? problem : cli_json_text(v, "source")};
		struct tm tm;

		cli_bytes(json_number_value(json_object_get(v, "bytes")), size,
			  sizeof(size));
		if (at && localtime_r(&at, &tm))
			strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
		if (!t || cli_table_row(t, cells, NULL) < 0)
			return cli_failf("kernel", NULL, "out of memory");
	}
	cli_table_print(t);
	return cli_flush("kernel", 0);
}

static int list(const struct args *a)
{
	struct cove_error err = {0};
	char *text = NULL;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "%s: one argument too many", a->words[1]);
	if (cove_kernels_json(&text, &err) < 0)
		return cli_fail("kernel", &err);
	return cli_json_list(a, text, print_table);
}

/* ---- install, build, add --------------------------------------------------------- */

/* ^C ends the program that is at work, which is in our process group; the library then
 * cleans up gigabytes, if it is let. Who does not hear (it was for us alone, or we wait
 * for somebody) goes the ordinary way soon after. */
#define PATIENCE 20 /* calls of show_progress(), some ten a second */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
	interrupted = signo;
}

static void catch_interrupts(void (*handler)(int))
{
	static const int signals[] = {SIGINT, SIGHUP};
	struct sigaction now, sa = {.sa_handler = handler};

	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
}

static void show_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
	static int ignored;
	int percent = total ? (int)((double)done * 100 / (double)total) : -1;

	cli_progress(arg, what, percent > 100 ? 100 : percent);
	if (interrupted && ++ignored > PATIENCE) {
		catch_interrupts(SIG_DFL);
		raise(interrupted);
	}
}

/* What is there now: its element of the list with --json, its name without. */
static int print_new(const struct args *a, const char *name)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *all;
	const json_t *v;
	size_t i;

	if (cli_has(a, F_QUIET))
		return 0;
	if (!cli_has(a, F_JSON)) {
		puts(name);
		return cli_flush("kernel", 0);
	}
	if (cove_kernels_json(&text, &err) < 0)
		return cli_fail("kernel", &err);
	all = cli_json_take(text, &err);
	if (!all)
		return cli_fail("kernel", &err);
	json_array_foreach(all, i, v)
	{
		if (strcmp(cli_json_text(v, "name"), name) == 0)
			json_dumpf(v, stdout, JSON_INDENT(2));
	}
	json_decref(all);
	puts("");
	return cli_flush("kernel", 0);
}

static int make(const struct args *a, int (*fn)(const struct cove_kernel_options *,
						char **, struct cove_error *))
{
	struct cove_kernel_options o = {
		.size = sizeof(o), .deb = cli_value(a, F_DEB), .progress = show_progress};
	cleanup_string char *name = NULL;
	struct cove_error err = {0};
	int r;

	if (a->n_words > 1)
		return cli_usage(a->cmd, "%s: one argument too many", a->words[1]);
	catch_interrupts(on_interrupt);
	r = fn(&o, &name, &err);
	cli_progress_end();
	catch_interrupts(SIG_DFL);
	if (r < 0 && interrupted)
		return EXIT_SIGNALLED + interrupted;
	return r < 0 ? cli_fail("kernel", &err) : print_new(a, name);
}

static int install(const struct args *a)
{
	return make(a, cove_kernel_install);
}

static int build(const struct args *a)
{
	return make(a, cove_kernel_build);
}

static int add(const struct args *a)
{
	struct cove_error err = {0};

	if (a->n_words < 3 || a->n_words > 4)
		return cli_usage(a->cmd, "add: a name, an image and perhaps a directory "
					 "of modules");
	if (cove_kernel_add(a->words[1], a->words[2], a->words[3], &err) < 0)
		return cli_fail("kernel", &err);
	return print_new(a, a->words[1]);
}

/* ---- default, rm --------------------------------------------------------------- */

static int choose(const struct args *a)
{
	struct cove_error err = {0};

	if (a->n_words != 2)
		return cli_usage(a->cmd, "default: one name");
	return cove_kernel_default(a->words[1], &err) < 0 ? cli_fail("kernel", &err) : 0;
}

/* One that fails does not stop the others. Nothing is asked: a kernel holds no work. */
static int remove_all(const struct args *a)
{
	int code = 0;

	if (a->n_words < 2)
		return cli_usage(a->cmd, "rm: no name");
	for (size_t i = 1; i < a->n_words; i++) {
		struct cove_error err = {0};

		if (cove_kernel_remove(a->words[i], &err) < 0)
			code = cli_fail("kernel", &err);
	}
	return code;
}

static const struct {
	const char *name;
	int (*run)(const struct args *a);
} verbs[] = {
	{"install", install   },
        {"ls",      list      },
        {"add",     add       },
	{"default", choose    },
        {"rm",      remove_all},
        {"build",   build     },
};

int cmd_kernel(const struct args *a)
{
	const char *names[ARRAY_LEN(verbs)], *near;

	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (strcmp(a->words[0], verbs[i].name) != 0) {
			names[i] = verbs[i].name;
			continue;
		}
		if (cli_has(a, F_DEB) && verbs[i].run != install)
			return cli_usage(a->cmd, "--deb is for install");
		return verbs[i].run(a);
	}
	near = cli_nearest(a->words[0], names, ARRAY_LEN(names));
	return near ? cli_usage(a->cmd, "%s: did you mean '%s'?", a->words[0], near)
		    : cli_usage(a->cmd,
				"%s: not one of install, ls, add, default, rm, build",
				a->words[0]);
}
