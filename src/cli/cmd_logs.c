/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_logs - the output of the main session, from the start or the last lines, and on. */
#include "cli/json.h"

#include <poll.h>
#include <stdio.h>

#define CHUNK 65536
#define POLL_MS 200

/* Where the last `lines` lines of the file begin. */
static off_t tail_start(int fd, long lines)
{
	off_t end = lseek(fd, 0, SEEK_END), at = end;
	char *chunk = malloc(CHUNK);
	long seen = 0;

	while (chunk && at > 0) {
		size_t want = at < CHUNK ? (size_t)at : CHUNK;
		ssize_t n = pread(fd, chunk, want, at - (off_t)want);

		if (n <= 0)
			break;
		for (ssize_t i = n; i-- > 0;) {
			off_t pos = at - (off_t)want + i;

			/* the newline that ends the last line begins no other */
			if (chunk[i] == '\n' && pos + 1 < end && ++seen == lines) {
				free(chunk);
				return pos + 1;
			}
		}
		at -= (off_t)want;
	}
	free(chunk);
	return 0;
}

/* Copies up to the end of the file: 0, or -errno. */
static int copy_rest(int fd)
{
	static char chunk[CHUNK];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		for (ssize_t done = 0, w; done < n; done += w)
			if ((w = write(STDOUT_FILENO, chunk + done, (size_t)(n - done))) <
			    0)
				return -errno;
	return n < 0 ? -errno : 0;
}

static bool runs(const char *name)
{
	char *text = NULL;
	struct cove_error err = {0};
	const char *state;
	json_t *json;
	bool yes;

	if (cove_inspect_json(name, &text, &err) < 0)
		return false;
	json = cli_json_take(text, &err);
	state = cli_json_text(json, "state");
	yes = state && strcmp(state, "stopped") != 0;
	json_decref(json);
	return yes;
}

/* Until the sandbox stops or the reader goes away. */
static int follow(int fd, const char *name)
{
	struct pollfd out = {.fd = STDOUT_FILENO};
	bool alive = true;
	int r = 0;

	for (int turn = 1; alive && r == 0; turn++) {
		if (poll(&out, 1, POLL_MS) > 0 && (out.revents & (POLLERR | POLLHUP)))
			return 0;
		if (turn % 5 == 0)
			alive = runs(name);
		r = copy_rest(fd);
	}
	return r;
}

static int parse_lines(const char *text, long *ret)
{
	char *end;

	errno = 0;
	*ret = strtol(text, &end, 10);
	return errno || *text < '0' || *text > '9' || *end ? -1 : 0;
}

int cmd_logs(const struct args *a)
{
	const char *tail = cli_value(a, F_TAIL);
	struct cove_error err = {0};
	cleanup_fd int fd = -1;
	long lines = 0;
	int r;

	if (tail && parse_lines(tail, &lines) < 0)
		return cli_usage(a->cmd, "--tail %s: not a number of lines", tail);
	if (cove_logs_open(a->words[0], &fd, &err) < 0)
		return cli_fail("logs", &err);
	if (tail)
		lseek(fd, lines ? tail_start(fd, lines) : lseek(fd, 0, SEEK_END),
		      SEEK_SET);
	r = copy_rest(fd);
	if (r == 0 && cli_has(a, F_FOLLOW))
		r = follow(fd, a->words[0]);
	if (r < 0 && r != -EPIPE)
		return cli_failf("logs", NULL, "%s: %s", a->words[0], strerror(-r));
	return 0;
}
