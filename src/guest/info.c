/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info - INFO requests: text about the inside. "ps": one line a process, from /proc. The
 * text is made at once and then sent as credit allows; docs/PROTOCOL.md has its format.
 */
#include "guest/file.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define TEXT_MAX (4u << 20)
#define CMDLINE_MAX 1024u

static int pid_of(const char *name)
{
	char *end;
	long pid = strtol(name, &end, 10);

	return *end || pid <= 0 || pid > INT32_MAX ? 0 : (int)pid;
}

/* Control characters could redraw the reader's terminal or break its lines. */
static void clean(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] == '\0')
			s[i] = ' ';
		else if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			s[i] = '?';
}

static ssize_t read_text(int dir, const char *name, char *out, size_t size)
{
	cleanup_fd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
	return n;
}

/* Of the same numbers stat has only an estimate, which is 0 for a small process. */
static long resident_kib(int dir)
{
	char text[128];
	long pages = 0;

	read_text(dir, "statm", text, sizeof(text));
	sscanf(text, "%*d %ld", &pages);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* "PID (COMM) STATE PPID ..."; COMM may hold anything, so its end is the last bracket. */
static void ps_line(int dir, int pid, struct buf *text)
{
	char stat_text[1024], cmd[CMDLINE_MAX + 1], state;
	char *comm, *rest;
	unsigned long utime, stime;
	unsigned long long start;
	int ppid;
	struct stat st;
	ssize_t n;

	if (read_text(dir, "stat", stat_text, sizeof(stat_text)) <= 0 ||
	    fstat(dir, &st) < 0)
		return;
	comm = strchr(stat_text, '(');
	rest = strrchr(stat_text, ')');
	if (!comm || !rest || rest < comm)
		return;
	*rest = '\0';
	comm++;
	if (sscanf(rest + 1,
		   " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d"
		   " %*d %*d %*d %llu",
		   &state, &ppid, &utime, &stime, &start) != 5)
		return;
	n = read_text(dir, "cmdline", cmd, sizeof(cmd));
	while (n > 0 && cmd[n - 1] == '\0')
		n--;
	clean(cmd, n > 0 ? (size_t)n : 0);
	clean(comm, strlen(comm));
	buf_printf(text, "%d %d %c %ld %llu %lu %lu %u %s\t%s\n", pid, ppid, state,
		   resident_kib(dir), start, utime, stime, (unsigned)st.st_uid, comm,
		   n > 0 ? cmd : "");
}

void info_ps(struct buf *text)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;

	while (proc && (e = readdir(proc))) {
		int pid = pid_of(e->d_name);
		cleanup_fd int dir = pid ? openat(dirfd(proc), e->d_name,
						  O_PATH | O_DIRECTORY | O_CLOEXEC)
					 : -1;

		if (dir >= 0)
			ps_line(dir, pid, text);
	}
	if (proc)
		closedir(proc);
}

static ssize_t text_read(struct stream *s, uint8_t *p, size_t n)
{
	n = min_size(n, s->info.text.len - s->info.off);
	if (n)
		memcpy(p, s->info.text.data + s->info.off, n);
	s->info.off += n;
	return (ssize_t)n;
}

static void info_release(struct stream *s)
{
	buf_clear(&s->info.text);
}

static const struct stream_ops info_ops = {
	.read = text_read,
	.settle = output_settle,
	.release = info_release,
};

static const struct {
	const char *name;
	void (*make)(struct buf *text);
} topics[] = {
	{"ps", info_ps},
};

static int make_text(struct stream *s, const char *name)
{
	buf_init(&s->info.text, TEXT_MAX);
	for (size_t i = 0; name && i < ARRAY_LEN(topics); i++) {
		if (strcmp(topics[i].name, name) != 0)
			continue;
		topics[i].make(&s->info.text);
		return 0;
	}
	return -ENOENT;
}

int on_info(struct guest *g, const struct wire_frame *f)
{
	cleanup_request struct request r = {0};
	int err = request_parse(&r, f, TAG(WIRE_A_NAME));
	struct stream *s;

	if (err == -EPROTO)
		return violation(g, "malformed INFO");
	s = stream_new(g, f->stream, &info_ops);
	if (!s)
		return 0;
	if (err == 0)
		err = make_text(s, r.str[WIRE_A_NAME]);
	if (err < 0) {
		stream_failed(g, s, -err, "no such information");
		return 0;
	}
	send_frame(g, WIRE_RESULT, 0, s->id, NULL, 0);
	s->out[0].open = true;
	flow_init(&s->out[0].flow);
	return 0;
}
