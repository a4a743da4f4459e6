/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_read - the files of a log as they were at one moment, line by line.
 *
 * They are opened under the lock and read without it: whole lines never change, so a
 * reader of 64 MiB holds no writer up.
 */
#include "core/audit_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

/* Opens and locks the current file. 0 with *ret -1: there is none. */
static int lock_current(int dir, int *ret)
{
	for (int tries = 0; tries < 100; tries++) {
		cleanup_fd int fd =
			openat(dir, AUDIT_LOG, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		int r;

		if (fd < 0) {
			*ret = -1;
			return errno == ENOENT ? 0 : -errno;
		}
		r = audit_lock(fd, LOCK_SH);
		if (r < 0)
			return r;
		if (audit_is_current(dir, fd)) {
			*ret = take_fd(&fd);
			return 0;
		}
	}
	return -EAGAIN;
}

static int add_file(struct audit_files *f, int index, int *fd)
{
	struct stat st;

	if (fstat(*fd, &st) < 0)
		return -errno;
	f->index[f->n] = index;
	f->size[f->n] = st.st_size;
	f->fd[f->n++] = take_fd(fd);
	return 0;
}

int audit_files_open(struct audit_files *f, int dir, const struct audit_key *key)
{
	cleanup_fd int current = -1;
	int r;

	*f = (struct audit_files){.n = 0};
	r = lock_current(dir, &current);
	for (int i = AUDIT_FILES - 1; r == 0 && i > 0; i--) {
		char name[32];

		audit_file_name(i, name, sizeof(name));
		cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			r = add_file(f, i, &fd);
		else if (errno != ENOENT)
			r = -errno;
	}
	if (r == 0 && key) {
		cleanup_fd int fd =
			openat(dir, AUDIT_HEAD, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		audit_head_read(fd, key, &f->head);
	}
	if (r == 0 && current >= 0) {
		r = add_file(f, 0, &current);
		flock(f->fd[f->n - 1], LOCK_UN);
	}
	if (r < 0)
		audit_files_close(f);
	return r;
}

void audit_files_close(struct audit_files *f)
{
	for (int i = 0; i < f->n; i++)
		close_fd(&f->fd[i]);
	f->n = 0;
}

/* ---- lines ----------------------------------------------------------------------- */

#define CHUNK (1u << 20)

struct reader {
	const struct audit_files *files;
	int (*fn)(void *arg, const struct audit_line *l);
	void *arg;
	char *buf; /* CHUNK + the longest line */
};

/* Passes on the whole lines in buf; *ret_used: how many bytes they have. */
static int pass_lines(struct reader *r, struct audit_line *l, size_t len, bool last,
		      size_t *ret_used)
{
	size_t at = 0;
	int ret = 0;

	while (ret == 0 && at < len) {
		const char *nl = memchr(r->buf + at, '\n', len - at);

		if (!nl && !last && len - at <= AUDIT_LINE_MAX)
			break; /* the rest of it comes with the next chunk */
		l->text = r->buf + at;
		l->n = nl ? (size_t)(nl - l->text) : len - at;
		l->whole = nl != NULL;
		l->number++;
		at += l->n + (nl ? 1 : 0);
		ret = r->fn(r->arg, l);
	}
	*ret_used = at;
	return ret;
}

static int read_file(struct reader *r, int file, off_t offset)
{
	struct audit_line l = {.file = file};
	off_t end = r->files->size[file];
	size_t have = 0;
	int ret = 0;

	while (ret == 0 && (offset < end || have)) {
		size_t want = CHUNK, used;
		ssize_t n = 0;

		if ((off_t)want > end - offset)
			want = (size_t)(end - offset);
		if (want)
			n = pread(r->files->fd[file], r->buf + have, want, offset);
		if (n < 0)
			return -errno;
		if (n == 0)
			end = offset; /* a torn tail was cut off meanwhile */
		offset += n;
		have += (size_t)n;
		ret = pass_lines(r, &l, have, offset >= end, &used);
		memmove(r->buf, r->buf + used, have - used);
		have -= used;
	}
	return ret;
}

int audit_files_each(const struct audit_files *f, int first, off_t offset,
		     int (*fn)(void *arg, const struct audit_line *l), void *arg)
{
	struct reader r = {.files = f, .fn = fn, .arg = arg};
	int ret = 0;

	r.buf = malloc(CHUNK + AUDIT_LINE_MAX + 1);
	if (!r.buf)
		return -ENOMEM;
	for (int i = first; ret == 0 && i < f->n; i++, offset = 0)
		ret = read_file(&r, i, offset);
	free(r.buf);
	return ret;
}

/* ---- from a number on ------------------------------------------------------------ */

/* The first line that begins at or behind an offset: its number, 0 if there is none. */
static uint64_t seq_behind(const struct audit_files *f, int file, off_t at, off_t *ret)
{
	char buf[4096];
	bool found = at == 0;
	off_t pos = at ? at - 1 : 0;

	while (pos < f->size[file]) {
		ssize_t n = pread(f->fd[file], buf, sizeof(buf) - 1, pos);
		const char *nl;
		uint64_t seq;

		if (n <= 0)
			return 0;
		buf[n] = '\0';
		if (found) {
			*ret = pos;
			return strncmp(buf, "{\"seq\":", 7) == 0 &&
					       (seq = strtoull(buf + 7, NULL, 10))
				       ? seq
				       : 0;
		}
		nl = memchr(buf, '\n', (size_t)n);
		pos += nl ? nl - buf + 1 : n;
		found = nl != NULL;
	}
	return 0;
}

/* Where to begin so that no record from from_seq on is left out. In a damaged log that is
 * the beginning. */
static void find_start(const struct audit_files *f, uint64_t from_seq, int *ret_file,
		       off_t *ret_offset)
{
	off_t low = 0, high, at;

	*ret_file = 0;
	*ret_offset = 0;
	for (int i = f->n - 1; i > 0 && *ret_file == 0; i--) {
		uint64_t seq = seq_behind(f, i, 0, &at);

		if (seq && seq <= from_seq)
			*ret_file = i;
	}
	if (f->n == 0)
		return;
	high = f->size[*ret_file];
	while (high - low > 4096) {
		off_t middle = low + (high - low) / 2;
		uint64_t seq = seq_behind(f, *ret_file, middle, &at);

		if (seq && seq <= from_seq)
			low = at;
		else
			high = middle;
	}
	*ret_offset = low;
}

struct wanted {
	uint64_t from, next;
	int (*fn)(void *arg, const char *line, size_t n);
	void *arg;
};

static int pass_on(void *arg, const struct audit_line *l)
{
	struct wanted *w = arg;
	struct audit_record r;

	if (!l->whole)
		return 0;
	if (audit_parse(l->text, l->n, &r) == 0) {
		if (r.seq >= w->next)
			w->next = r.seq + 1;
		if (r.seq < w->from)
			return 0;
	} else if (w->from) {
		return 0; /* who asks for a part has seen it, or will with --verify */
	}
	return w->fn && w->fn(w->arg, l->text, l->n) ? 1 : 0;
}

int64_t audit_read(struct store *st, const char *name, uint64_t from_seq,
		   int (*fn)(void *arg, const char *line, size_t n), void *arg,
		   struct cove_error *err)
{
	struct wanted w = {.from = from_seq, .next = 1, .fn = fn, .arg = arg};
	struct audit_files f;
	cleanup_fd int dir = -1;
	off_t offset;
	int r, first;

	if (audit_find(st, name, &dir, err) < 0)
		return err->code;
	r = audit_files_open(&f, dir, NULL);
	if (r == 0) {
		find_start(&f, from_seq, &first, &offset);
		r = audit_files_each(&f, first, offset, pass_on, &w);
		audit_files_close(&f);
	}
	if (r < 0)
		return fail(err, COVE_EIO, -r, "audit log of %s", name);
	return (int64_t)w.next;
}
