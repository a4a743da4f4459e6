/* SPDX-License-Identifier: Apache-2.0 */
/* netlog_read - the lines of a network log, from where the reader was before. */
#include "core/netlog.h"

#include "base/util.h"

#include <fcntl.h>
#include <sys/stat.h>

#define LINE_MAX_ (64u << 10)

/* A cursor names a file by the low bits of its inode number, and a place in it. */
#define OFFSET_BITS 40
#define TAG_MASK ((UINT64_C(1) << 23) - 1)

struct reader {
	int (*fn)(void *arg, const char *line, size_t n);
	void *arg;
	bool stopped;
};

static uint64_t tag_of(const struct stat *st)
{
	uint64_t tag = (uint64_t)st->st_ino & TAG_MASK;

	return tag ? tag : 1;
}

/* Whole lines from offset on; tells where it ended. A line that is longer than any of
 * ours is skipped. */
static int read_lines(struct reader *r, int fd, uint64_t offset, uint64_t *ret_end)
{
	cleanup_free char *chunk = malloc(LINE_MAX_);
	size_t have = 0;
	bool skipping = false;
	ssize_t got = 0;

	if (!chunk)
		return -ENOMEM;
	*ret_end = offset;
	while (!r->stopped && (got = pread(fd, chunk + have, LINE_MAX_ - have,
					   (off_t)(*ret_end + have))) > 0) {
		char *line = chunk, *end = chunk + have + got, *nl;

		while (!r->stopped && (nl = memchr(line, '\n', (size_t)(end - line)))) {
			if (!skipping && nl > line)
				r->stopped = r->fn(r->arg, line, (size_t)(nl - line));
			skipping = false;
			line = nl + 1;
		}
		*ret_end += (uint64_t)(line - chunk);
		have = (size_t)(end - line);
		memmove(chunk, line, have);
		if (have == LINE_MAX_) {
			skipping = true;
			*ret_end += have;
			have = 0;
		}
	}
	return got < 0 ? -errno : 0;
}

static int open_log(int dir, const char *name, uint64_t *ret_tag)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	*ret_tag = 0;
	if (fd >= 0 && fstat(fd, &st) == 0)
		*ret_tag = tag_of(&st);
	return fd;
}

int netlog_read(int dir, uint64_t *cursor,
		int (*fn)(void *arg, const char *line, size_t n), void *arg,
		struct cove_error *err)
{
	struct reader r = {fn, arg, false};
	uint64_t tag = *cursor >> OFFSET_BITS, old_tag, new_tag, end = 0;
	uint64_t at = *cursor & ((UINT64_C(1) << OFFSET_BITS) - 1);
	cleanup_fd int old = open_log(dir, NETLOG_OLD, &old_tag);
	cleanup_fd int new = open_log(dir, NETLOG_FILE, &new_tag);
	int e = 0;

	if (new < 0)
		return errno == ENOENT ? 0 : fail(err, COVE_EIO, errno, NETLOG_FILE);
	if (old >= 0 && tag != new_tag && (!tag || tag == old_tag)) {
		e = read_lines(&r, old, tag ? at : 0, &end);
		*cursor = (old_tag << OFFSET_BITS) | end;
	}
	if (e == 0 && !r.stopped) {
		e = read_lines(&r, new, tag == new_tag ? at : 0, &end);
		*cursor = (new_tag << OFFSET_BITS) | end;
	}
	return e < 0 ? fail(err, COVE_EIO, -e, NETLOG_FILE) : 0;
}
