/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_diff - what was changed in a sandbox: as text, as a table, as names or as JSON. */
#include "cli/diff.h"
#include "cli/json.h"
#include "cli/pager.h"
#include "cli/path.h"

#include <signal.h>

struct output {
	struct diff_style style;
	char *source; /* the mount of the last change */
	struct diff_stat *stat;
	size_t n;
	bool failed; /* out of memory */
	uint64_t added, removed;
};

/* The reader had enough: no reason to look further. */
static int go_on(const struct output *out)
{
	return ferror(stdout) || out->failed;
}

/* Paths are shown below their mount; where a second one begins, that is said. */
static void note_mount(struct output *out, const struct cove_change *c)
{
	cleanup_free char *name = NULL;

	if (out->source && strcmp(out->source, c->source) == 0)
		return;
	if (out->source && (name = diff_quote("", c->source)))
		printf("# in %s:\n", name);
	free(out->source);
	out->source = strdup(c->source);
}

/* ---- the four forms ---------------------------------------------------------------- */

static int show_text(void *arg, const struct cove_change *c)
{
	struct output *out = arg;

	note_mount(out, c);
	diff_put_change(stdout, c, &out->style);
	return go_on(out);
}

static int show_name(void *arg, const struct cove_change *c)
{
	struct output *out = arg;
	/* Below its mount; of a further mount in full: one name a line, nothing else. */
	bool first = !out->source || strcmp(out->source, c->source) == 0;
	cleanup_free char *full = NULL;
	cleanup_free char *name = NULL;

	if (!out->source)
		out->source = strdup(c->source);
	if (!first && asprintf(&full, "%s/%s", c->source, c->path) < 0)
		full = NULL;
	name = diff_quote("", full ? full : c->path);
	if (name)
		puts(name);
	return go_on(out);
}

static int show_stat(void *arg, const struct cove_change *c)
{
	struct output *out = arg;

	out->failed = diff_stat_add(out->stat, c) < 0;
	return go_on(out);
}

static int show_json(void *arg, const struct cove_change *c)
{
	struct output *out = arg;
	json_t *o = diff_json(c);
	cleanup_free char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	json_decref(o);
	if (!text) {
		out->failed = true;
		return 1;
	}
	printf("%s%s", out->n++ ? ",\n" : "{\"changes\":[\n", text);
	out->added += c->added;
	out->removed += c->removed;
	return go_on(out);
}

/* ---- the command ------------------------------------------------------------------- */

static int parse_context(const struct args *a, struct cove_diff_options *o)
{
	const char *text = cli_value(a, F_CONTEXT);
	unsigned long value;
	char *end;

	if (!text)
		return 0;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value > 1000000)
		return cli_usage(a->cmd, "-U %s: not a number of lines", text);
	o->context = (uint32_t)value;
	o->flags |= value == 0 ? COVE_DIFF_NO_CONTEXT : 0;
	return 0;
}

/* Which form, and what of it has to be computed. */
static void choose_form(const struct args *a, struct cove_diff_options *o)
{
	if (cli_has(a, F_JSON)) {
		o->change = show_json;
		if (!cli_has(a, F_NAME_ONLY))
			o->flags |= COVE_DIFF_STAT;
		if (cli_has(a, F_CONTEXT))
			o->flags |= COVE_DIFF_TEXT;
	} else if (cli_has(a, F_NAME_ONLY)) {
		o->change = show_name;
	} else if (cli_has(a, F_STAT)) {
		o->change = show_stat;
		o->flags |= COVE_DIFF_STAT;
	} else {
		o->change = show_text;
		o->flags |= COVE_DIFF_TEXT;
	}
}

static void finish(const struct args *a, const struct output *out)
{
	if (cli_has(a, F_JSON))
		printf("%s\n],\"files\":%zu,\"added\":%llu,\"removed\":%llu}\n",
		       out->n ? "" : "{\"changes\":[", out->n,
		       (unsigned long long)out->added, (unsigned long long)out->removed);
	else if (cli_has(a, F_STAT) && !cli_has(a, F_NAME_ONLY))
		diff_stat_print(stdout, out->stat, &out->style);
}

/* The pager starts with the first change, so an error or nothing at all opens none. */
struct paged {
	struct output out; /* first, so that the forms find it */
	int (*show)(void *arg, const struct cove_change *c);
	bool wanted;
};

static int show_paged(void *arg, const struct cove_change *c)
{
	struct paged *p = arg;

	if (p->wanted) {
		p->wanted = false;
		cli_pager_start();
	}
	return p->show(&p->out, c);
}

int cmd_diff(const struct args *a)
{
	struct cove_diff_options o = {.size = sizeof(o)};
	struct paged p = {.wanted = !cli_has(a, F_NO_PAGER) && !cli_has(a, F_JSON)};
	struct cove_error err = {0};
	cleanup_paths char **paths = cli_paths(a);
	int code = parse_context(a, &o);
	int64_t n;

	if (code)
		return code;
	if (!paths)
		return cli_failf("diff", NULL, "the paths: %s", strerror(errno));
	choose_form(a, &o);
	p.show = o.change;
	p.out.style.terminal = isatty(STDOUT_FILENO);
	p.out.style.colour = cli_colour(STDOUT_FILENO) && !cli_has(a, F_JSON);
	p.out.stat = diff_stat_new();
	signal(SIGPIPE, SIG_IGN);
	o.paths = a->n_words > 1 ? (const char *const *)paths : NULL;
	o.change = show_paged;
	o.arg = &p;
	n = p.out.stat ? cove_diff(a->words[0], &o, &err) : 0;
	if (n >= 0 && !p.out.failed && p.out.stat)
		finish(a, &p.out);
	code = cli_flush("diff", 0);
	cli_pager_end();
	if (n < 0)
		code = cli_fail("diff", &err);
	else if (p.out.failed || !p.out.stat)
		code = cli_failf("diff", NULL, "out of memory");
	diff_stat_free(p.out.stat);
	free(p.out.source);
	return code;
}
