/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pathargs - the PATH words of diff, apply and discard. The library takes them as below a
 * mount or absolute; what begins with a dot means a place seen from here.
 */
#include "cli/path.h"

#include "cli/cli.h"

#include <limits.h>
#include <stdio.h>

static bool from_here(const char *word)
{
	return strcmp(word, ".") == 0 || strcmp(word, "..") == 0 ||
	       strncmp(word, "./", 2) == 0 || strncmp(word, "../", 3) == 0;
}

/* "." and ".." taken out by their text alone: what is meant may be gone on the host. */
static void squeeze(char *path)
{
	char *out = path, *save = NULL;

	for (char *part = strtok_r(path, "/", &save); part;
	     part = strtok_r(NULL, "/", &save)) {
		size_t n = strlen(part);

		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			while (out > path && *--out != '/')
				;
			continue;
		}
		*out++ = '/';
		memmove(out, part, n);
		out += n;
	}
	*out = '\0';
}

void cli_paths_free(char **paths)
{
	for (size_t i = 0; paths && paths[i]; i++)
		free(paths[i]);
	free(paths);
}

char **cli_paths(const struct args *a)
{
	char **v = calloc(a->n_words + 1, sizeof(*v)), cwd[PATH_MAX];

	if (!v || !getcwd(cwd, sizeof(cwd))) {
		free(v);
		return NULL;
	}
	for (size_t i = 1; i < a->n_words; i++) {
		bool here = from_here(a->words[i]);

		if (asprintf(&v[i - 1], "%s%s%s", here ? cwd : "", here ? "/" : "",
			     a->words[i]) < 0) {
			v[i - 1] = NULL;
			cli_paths_free(v);
			return NULL;
		}
		if (here)
			squeeze(v[i - 1]);
	}
	return v;
}
