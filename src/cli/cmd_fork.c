/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_fork - running copies of a virtual machine, from its snapshot or as it is now. */
#include "cli/cli.h"
#include "cli/term.h"

#include <stdio.h>

#define COUNT_MAX 256

static void free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* PREFIX-1 to PREFIX-N */
static char **make_names(const char *prefix, size_t n)
{
	char **names = calloc(n, sizeof(*names));

	for (size_t i = 0; names && i < n; i++) {
		if (asprintf(&names[i], "%s-%zu", prefix, i + 1) < 0) {
			names[i] = NULL;
			free_names(names, n);
			return NULL;
		}
	}
	return names;
}

static void print_names(const struct args *a, char **names, size_t n)
{
	bool json = cli_has(a, F_JSON);

	for (size_t i = 0; i < n; i++)
		printf(json ? "%s\"%s\"%s" : "%s%s%s",
		       json ? i ? "," : "{\"names\":[" : "", names[i], json ? "" : "\n");
	if (json)
		puts("]}");
}

int cmd_fork(const struct args *a)
{
	cleanup_free char *from = strdup(a->words[0]);
	const char *count = cli_value(a, F_COUNT), *prefix = cli_value(a, F_NAME);
	char *tag = from ? strchr(from, '@') : NULL, *end = NULL;
	long n = count ? strtol(count, &end, 10) : 1;
	struct cove_error err = {0};
	char **names;
	int r;

	if (count && (end == count || *end || n < 1 || n > COUNT_MAX))
		return cli_usage(a->cmd, "--count %s: not a number from 1 to %d", count,
				 COUNT_MAX);
	if (tag)
		*tag++ = '\0';
	names = from ? make_names(prefix ? prefix : from, (size_t)n) : NULL;
	if (!names)
		return cli_failf("fork", NULL, "out of memory");
	cli_progress_slow("forking");
	r = cove_fork(from, tag, (const char *const *)names, (size_t)n, &err);
	cli_progress_end();
	if (r == 0 && !cli_has(a, F_QUIET))
		print_names(a, names, (size_t)n);
	free_names(names, (size_t)n);
	return r < 0 ? cli_fail("fork", &err) : cli_flush("fork", 0);
}
