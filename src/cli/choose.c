/* SPDX-License-Identifier: Apache-2.0 */
/* choose - `apply -i`: asks for each file, then for each hunk of it. */
#include "cli/review.h"

#include <stdio.h>

static const struct {
	char key;
	int answer;
	const char *help;
} keys[] = {
	{'y', COVE_CHOOSE_YES,       "yes; a file with several hunks: ask for each"},
	{'n', COVE_CHOOSE_NO,        "no"					  },
	{'a', COVE_CHOOSE_ALL_FILE,  "all of this file"                            },
	{'d', COVE_CHOOSE_NONE_FILE, "nothing (more) of this file"                 },
	{'A', COVE_CHOOSE_ALL,       "everything that is left"                     },
	{'q', COVE_CHOOSE_STOP,      "nothing that is left"                        },
	{'x', COVE_CHOOSE_ABORT,     "leave, and apply nothing at all"             },
};

/* The text of a diff is the sandbox's: line by line, escaped, with colour by its sign. */
static void show_text(const char *s, size_t n)
{
	bool colour = cli_colour(STDOUT_FILENO);

	while (n) {
		const char *nl = memchr(s, '\n', n);
		size_t len = nl ? (size_t)(nl - s) : n;
		cleanup_free char *line = strndup(s, len);
		cleanup_free char *safe = line ? cli_escape(line) : NULL;
		const char *paint = !colour     ? ""
				    : *s == '+' ? "\033[32m"
				    : *s == '-' ? "\033[31m"
				    : *s == '@' ? "\033[36m"
						: "";

		printf("%s%s%s\n", paint, safe ? safe : "?", *paint ? "\033[m" : "");
		s += len + (nl != NULL);
		n -= len + (nl != NULL);
	}
}

static void help(void)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		printf("  %c  %s\n", keys[i].key, keys[i].help);
}

int review_choose(void *arg, const struct cove_change *c, int32_t hunk, const char *text,
		  size_t n)
{
	cleanup_free char *path = cli_escape(c->path);
	char answer[64];

	(void)arg;
	if (hunk < 0)
		printf("%c %s (+%u -%u)\n", change_letter(c->kind), path ? path : "?",
		       c->added, c->removed);
	if (text && (hunk >= 0 || n < 20000))
		show_text(text, n);
	for (;;) {
		printf("apply this %s? [y,n,a,d,A,q,x,?] ", hunk < 0 ? "file" : "hunk");
		fflush(stdout);
		if (!fgets(answer, sizeof(answer), stdin))
			return COVE_CHOOSE_ABORT;
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			if (answer[0] == keys[i].key)
				return keys[i].answer;
		help();
	}
}
