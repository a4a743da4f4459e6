/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cp - copy files between the host and a running sandbox: NAME:PATH is inside. */
#include "cli/cli.h"
#include "cli/term.h"

#include <stdio.h>
#include <sys/stat.h>

/* The path of "NAME:PATH" with the length of NAME, or NULL for a path of the host. */
static const char *inside(const char *word, size_t *ret_len)
{
	const char *colon = strchr(word, ':');
	size_t len = colon ? (size_t)(colon - word) : 0;

	if (!len || memchr(word, '/', len))
		return NULL;
	*ret_len = len;
	return colon + 1;
}

static void copied(void *arg, const char *path, uint64_t bytes)
{
	char what[120];

	(void)arg;
	(void)bytes;
	snprintf(what, sizeof(what), "copying %.100s", path);
	cli_progress(NULL, what, -1);
}

/* As cp(1): into a directory goes the file under its own name. */
static char *into_directory(const char *src, const char *dst, bool dst_on_host)
{
	size_t n = strlen(dst), end = strlen(src), start;
	struct stat st;
	char *path;

	if (!(n && dst[n - 1] == '/') &&
	    !(dst_on_host && stat(dst, &st) == 0 && S_ISDIR(st.st_mode)))
		return strdup(dst);
	while (end > 1 && src[end - 1] == '/')
		end--;
	for (start = end; start > 0 && src[start - 1] != '/'; start--)
		;
	if (asprintf(&path, "%s%s%.*s", dst, n && dst[n - 1] == '/' ? "" : "/",
		     (int)(end - start), src + start) < 0)
		return NULL;
	return path;
}

static int copy(const struct args *a, const char *name, const char *src, const char *dst,
		bool in)
{
	cleanup_free char *target = into_directory(src, dst, !in);
	uint32_t flags = (in ? COVE_COPY_IN : 0) |
			 (cli_has(a, F_RECURSIVE) ? COVE_COPY_RECURSIVE : 0);
	struct cove_error err = {0};
	struct cove *box = NULL;
	int r;

	if (!target)
		return cli_failf("cp", NULL, "out of memory");
	r = cove_connect(&box, name, &err);
	if (r == 0) {
		copied(NULL, src, 0); /* the second counts from here */
		r = cove_copy(box, src, target, flags, copied, NULL, &err);
	}
	cli_progress_end();
	cove_free(box);
	return r < 0 ? cli_fail("cp", &err) : 0;
}

int cmd_cp(const struct args *a)
{
	const char *src = a->words[0], *dst = a->words[1];
	size_t from_len = 0, to_len = 0;
	const char *from = inside(src, &from_len), *to = inside(dst, &to_len);
	const char *path = from ? from : to;
	char name[256];

	if (!path || (from && to))
		return cli_usage(a->cmd,
				 from ? "both sides are in a sandbox: copy via the host"
				      : "no side is in a sandbox: write NAME:PATH");
	if (!*path)
		return cli_usage(a->cmd, "%s: no path after the ':'", from ? src : dst);
	snprintf(name, sizeof(name), "%.*s", (int)(from ? from_len : to_len),
		 from ? src : dst);
	return copy(a, name, from ? from : src, to ? to : dst, to != NULL);
}
