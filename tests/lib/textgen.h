/* SPDX-License-Identifier: Apache-2.0 */
/* textgen.h - random texts and random edits of them, for the tests of src/text; the same
 * every time. Also files and programs to compare with. */
#ifndef COVE_TEXTGEN_H
#define COVE_TEXTGEN_H

#include "base/buf.h"
#include "base/util.h"
#include "text/diff.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

#define GEN_LINES 400

struct gen {
	int line[GEN_LINES]; /* a number is a line; many repeat */
	int n;
	bool no_newline;
};

static uint64_t gen_state = 88172645463325252ull;

static inline uint32_t gen_rand(uint32_t below)
{
	gen_state ^= gen_state << 13;
	gen_state ^= gen_state >> 7;
	gen_state ^= gen_state << 17;
	return (uint32_t)(gen_state >> 33) % below;
}

static inline void gen_make(struct gen *g, int most, uint32_t kinds)
{
	g->n = (int)gen_rand((uint32_t)most + 1);
	g->no_newline = gen_rand(8) == 0;
	for (int i = 0; i < g->n; i++)
		g->line[i] = (int)gen_rand(kinds);
}

static inline void gen_insert(struct gen *g, int at, int value)
{
	if (g->n == GEN_LINES)
		return;
	memmove(g->line + at + 1, g->line + at, sizeof(int) * (size_t)(g->n - at));
	g->line[at] = value;
	g->n++;
}

static inline void gen_edit(struct gen *g, int edits, uint32_t kinds)
{
	for (int i = 0; i < edits; i++) {
		int at = (int)gen_rand((uint32_t)g->n + 1), many = (int)gen_rand(4) + 1;

		switch (gen_rand(4)) {
		case 0:
			while (many--)
				gen_insert(g, at, (int)gen_rand(kinds));
			break;
		case 1:
			many = at + many > g->n ? g->n - at : many;
			memmove(g->line + at, g->line + at + many,
				sizeof(int) * (size_t)(g->n - at - many));
			g->n -= many;
			break;
		case 2: /* a copy of what is elsewhere */
			for (int from = (int)gen_rand((uint32_t)g->n + 1);
			     many-- && from < g->n; from++)
				gen_insert(g, at, g->line[from]);
			break;
		default:
			if (at < g->n)
				g->line[at] = (int)gen_rand(kinds);
		}
	}
	if (gen_rand(12) == 0)
		g->no_newline = !g->no_newline;
}

/* Lines of all kinds: blank, indented, braces, CRLF, long. */
static inline struct text gen_text(const struct gen *g, struct buf *out)
{
	buf_clear(out);
	for (int i = 0; i < g->n; i++) {
		int v = g->line[i];

		if (v % 7 == 1)
			buf_puts(out, v % 2 ? "\n" : "}\n");
		else if (v % 7 == 2)
			buf_printf(out, "\tindented %d\r\n", v);
		else
			buf_printf(out, "%*sword %d\n", v % 5 * 2, "", v);
	}
	if (g->no_newline && out->len && g->n && g->line[g->n - 1] % 7 != 1)
		out->len--;
	return (struct text){out->data, out->len};
}

static inline bool gen_write(const char *path, struct text t)
{
	cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return fd >= 0 && write(fd, t.data ? t.data : "", t.len) == (ssize_t)t.len;
}

static inline struct text gen_read(const char *path, struct buf *out)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	char piece[4096];
	ssize_t n;

	buf_clear(out);
	while (fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0)
		buf_append(out, piece, (size_t)n);
	return (struct text){out->data, out->len};
}

/* Runs a program with its output to a file; its exit code, -1 if it cannot be run. */
static inline int gen_run(char *const argv[], const char *in, const char *out)
{
	posix_spawn_file_actions_t fa;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 0, in, O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&fa, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ) == 0)
		waitpid(pid, &status, 0);
	posix_spawn_file_actions_destroy(&fa);
	return status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
