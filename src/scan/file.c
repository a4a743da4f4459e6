/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/file.h"

#include "base/util.h"

#include <sys/stat.h>

int file_scanner_init(struct file_scanner *s, struct engine *e)
{
	*s = (struct file_scanner){.engine = e, .max_file = UINT64_MAX, .inner = ""};
	s->buf = malloc(FILE_CHUNK + FILE_OVERLAP);
	return s->buf ? 0 : -ENOMEM;
}

void file_scanner_clear(struct file_scanner *s)
{
	free(s->buf);
	s->buf = NULL;
}

void file_on_found(void *arg, const struct found *f)
{
	struct file_scanner *s = arg;
	struct file_finding out = {f, s->inner};

	s->report(s->arg, &out);
}

void file_report(struct file_scanner *s, const char *rule, const char *what)
{
	struct found f = {.rule = rule, .what = what, .secret = "", .exact = true};

	file_on_found(s, &f);
}

static uint64_t count_lines(const char *text, size_t len)
{
	const char *p = text, *end = text + len;
	uint64_t n = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		n++;
		p++;
	}
	return n;
}

/* A chunk, and the UTF-16 text in it. */
static void scan_chunk(struct file_scanner *s, const struct view *v, int *kind)
{
	struct line_cache cache = {0};
	struct view wide = {.line = v->line, .cache = &cache};
	bool zeros = memchr(v->text, 0, v->len) != NULL;
	char *text = NULL;
	int r;

	s->zeros = s->zeros || zeros;
	engine_text(s->engine, v, file_on_found, s);
	r = utf16_view(&text, &wide.len, v->text, v->len, zeros, kind);
	if (r < 0)
		file_report(s, "scan-failed", "not enough memory for its UTF-16 text");
	if (r <= 0)
		return;
	wide.text = text;
	engine_text(s->engine, &wide, file_on_found, s);
	free(text);
}

int file_stream(struct file_scanner *s, source_fn *read, void *arg)
{
	size_t have = 0; /* kept from the chunk before */
	uint64_t line = 1;
	int kind = UTF16_UNKNOWN;

	for (;;) {
		size_t n = have, room = FILE_CHUNK + (have ? have : 0);
		struct line_cache cache = {0};
		struct view v = {
			.text = s->buf, .seen = have, .line = line, .cache = &cache};
		ssize_t r = 0;

		while (n < room && (r = read(arg, s->buf + n, room - n)) > 0)
			n += (size_t)r;
		if (n > have) {
			v.len = n;
			s->bytes += n - have;
			scan_chunk(s, &v, &kind);
		}
		if (r <= 0)
			return (int)r;
		line += count_lines(s->buf, n - FILE_OVERLAP);
		have = FILE_OVERLAP;
		memmove(s->buf, s->buf + n - have, have);
	}
}

/* ---- a descriptor ----------------------------------------------------------------- */

struct fd_source {
	int fd;
	uint64_t at, size;
};

static ssize_t read_fd_source(void *arg, char *buf, size_t n)
{
	struct fd_source *f = arg;
	ssize_t r;

	if (f->at && f->at == f->size) /* spares the call that only says "end" */
		return 0;
	do
		r = pread(f->fd, buf, n, (off_t)f->at);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	f->at += (uint64_t)r;
	return r;
}

/* The chunk buffer is used again for what is inside. */
static void look_inside(struct file_scanner *s, int fd, struct archive_source *src)
{
	src->fd = fd;
	src->data = NULL;
	archive_look(s, src);
}

void file_scan(struct file_scanner *s, const char *path, int fd)
{
	struct fd_source f = {.fd = fd};
	struct archive_source src = {.fd = -1};
	struct stat st;
	char why[160];
	int r;

	s->path = path;
	s->inner = "";
	s->zeros = false;
	engine_file(s->engine, path, file_on_found, s);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		file_report(s, "unreadable", "it is no regular file");
		return;
	}
	if ((uint64_t)st.st_size > s->max_file) {
		snprintf(why, sizeof(why), "%lld bytes: more than is scanned",
			 (long long)st.st_size);
		file_report(s, "unreadable", why);
		return;
	}
	f.size = src.size = (uint64_t)st.st_size;
	r = file_stream(s, read_fd_source, &f);
	if (r < 0) {
		snprintf(why, sizeof(why), "cannot be read: %s", strerror(-r));
		file_report(s, "unreadable", why);
		return;
	}
	/* What fits into one chunk is still there, and every archive has a zero in it. */
	if (s->zeros && f.at <= FILE_CHUNK) {
		src.data = s->buf;
		src.size = f.at;
	} else {
		src.fd = fd;
	}
	if (s->zeros && archive_like(&src))
		look_inside(s, fd, &src);
}
