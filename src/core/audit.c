/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit - appending to the log.
 *
 * Theory of operation: a writer holds the flock of the file that is called audit.jsonl
 * now, for one append. It knows the last record from its own last append; if the file has
 * another size, somebody else wrote, and it looks. The record goes out in one write(2),
 * then the head in one pwrite(2).
 *
 * Invariants
 *  1. Under the lock the log ends with a whole record; what a killed writer left half
 *     written is cut off first, and a record "recovered" says so.
 *  2. An append that fails changes nothing: the file is cut back to where it was.
 *  3. Bytes that are whole lines are never removed, whatever is in them.
 */
#include "core/audit_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define ROOM_AHEAD (64 << 10) /* taken from the file system in advance */
#define ROOM_LEAST (32 << 10) /* and so much must be left of it for an exec */

struct audit {
	char name[SPEC_NAME_MAX + 1];
	struct audit_key key;
	int dir, log, head;
	bool loaded;
	struct audit_record last; /* seq 0: none */
	off_t size;               /* of the log, as we left it */
	off_t room;               /* up to here blocks are ours */
};

/* ---- files and locks ------------------------------------------------------------- */

void audit_file_name(int index, char *out, size_t size)
{
	if (index == 0)
		snprintf(out, size, "%s", AUDIT_LOG);
	else
		snprintf(out, size, "audit.%d.jsonl", index);
}

/* Held for microseconds; who has it for seconds is stopped, and must not stop us. */
int audit_lock(int fd, int how)
{
	static const struct timespec pause = {.tv_nsec = 1000 * 1000};

	for (int tries = 0; tries < 3000; tries++) {
		if (flock(fd, how | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

bool audit_is_current(int dir, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 &&
	       fstatat(dir, AUDIT_LOG, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static int open_own(int dir, const char *name, int flags)
{
	int fd = openat(dir, name, flags | O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			0600);

	return fd < 0 ? -errno : fd;
}

/* Opens what is called audit.jsonl now, and locks it. */
static int lock_log(struct audit *a)
{
	for (int tries = 0; tries < 100; tries++) {
		int r;

		if (a->log < 0) {
			a->log = open_own(a->dir, AUDIT_LOG, O_APPEND);
			a->loaded = false;
			a->room = 0;
		}
		if (a->log < 0)
			return a->log;
		r = audit_lock(a->log, LOCK_EX);
		if (r < 0)
			return r;
		if (audit_is_current(a->dir, a->log))
			return 0;
		close_fd(&a->log); /* it was rotated */
	}
	return -EAGAIN;
}

void audit_head_read(int fd, const struct audit_key *k, struct audit_head *ret)
{
	char text[2 * AUDIT_SLOT];
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text), 0);

	audit_head_parse(k, text, n < 0 ? 0 : (size_t)n, ret);
}

/* ---- where the log ends ---------------------------------------------------------- */

/* Looks at the last `want` bytes: 1: found, 0: more are needed, or -errno. */
static int last_in(int fd, off_t size, size_t want, struct audit_record *ret,
		   off_t *ret_end)
{
	cleanup_free char *text = malloc(want);
	off_t from = size - (off_t)want;
	const char *end, *start;
	size_t len;

	if (!text)
		return -ENOMEM;
	if (pread(fd, text, want, from) != (ssize_t)want)
		return -EIO;
	end = memrchr(text, '\n', want);
	if (!end) {
		*ret_end = 0;
		return from == 0 ? 1 : 0;
	}
	len = (size_t)(end - text);
	start = len ? memrchr(text, '\n', len) : NULL;
	if (!start && from > 0)
		return 0;
	start = start ? start + 1 : text;
	*ret_end = from + (end - text) + 1;
	return audit_parse(start, (size_t)(end - start), ret) < 0 ? -EBADMSG : 1;
}

int audit_last(int fd, off_t size, struct audit_record *ret, off_t *ret_end)
{
	size_t want = 4096, most = 2 * AUDIT_LINE_MAX;
	int r = 0;

	*ret_end = 0;
	*ret = (struct audit_record){.seq = 0};
	while (r == 0 && size > 0) {
		if ((off_t)want > size)
			want = (size_t)size;
		r = last_in(fd, size, want, ret, ret_end);
		if (r == 0 && want >= most) {
			/* a line longer than any of ours: leave it where it is */
			*ret_end = size;
			return -EBADMSG;
		}
		want = min_size(want * 8, most);
	}
	return r < 0 ? r : 0;
}

/* The current file is new: the record before is the last of the file before. */
static int last_of_older(int dir, struct audit_record *ret)
{
	for (int i = 1; i < AUDIT_FILES; i++) {
		char name[32];
		struct stat st;
		off_t end;

		audit_file_name(i, name, sizeof(name));
		cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0 || fstat(fd, &st) < 0)
			return -errno;
		return audit_last(fd, st.st_size, ret, &end);
	}
	return 0;
}

static int write_record(struct audit *a, const char *event, json_t *fields,
			int64_t time_ns);

/* A record for what was found broken, so that the break can be seen for ever. */
static int note_recovery(struct audit *a, off_t torn, uint64_t lost, bool damaged)
{
	json_t *j = json_pack("{s:I, s:I}", "tornBytes", (json_int_t)torn, "lostRecords",
			      (json_int_t)lost);
	int r;

	if (j && damaged)
		json_object_set_new(j, "damaged", json_true());
	r = j ? write_record(a, "recovered", j, 0) : -ENOMEM;
	json_decref(j);
	return r;
}

/* Finds the last record, and mends what a killed writer or a host that lost power left.
 */
static int load(struct audit *a, off_t size)
{
	struct audit_head head;
	uint64_t lost = 0;
	off_t end = 0;
	bool damaged;
	int r = audit_last(a->log, size, &a->last, &end);

	damaged = r == -EBADMSG;
	if (r < 0 && !damaged)
		return r;
	if (end == 0 && last_of_older(a->dir, &a->last) < 0)
		damaged = true;
	audit_head_read(a->head, &a->key, &head);
	if (head.seq > a->last.seq) {
		lost = damaged ? 0 : head.seq - a->last.seq;
		a->last.seq = head.seq;
		memcpy(a->last.hash, head.hash, sizeof(head.hash));
	}
	if (size > end && ftruncate(a->log, end) < 0)
		return -errno;
	a->size = end;
	a->loaded = true;
	if (size > end || lost || damaged)
		r = note_recovery(a, size - end, lost, damaged);
	else
		r = 0;
	if (r < 0)
		a->loaded = false;
	return r;
}

/* ---- rotation -------------------------------------------------------------------- */

/* {"dropped":N,"lastSeq":..,"lastHash":..} of the file that will go. */
static json_t *describe_oldest(int dir, const char *file)
{
	char first[4096];
	struct audit_record a = {.seq = 1}, b = {.seq = 0};
	struct stat st;
	off_t end;
	cleanup_fd int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, first, sizeof(first) - 1, 0);

	if (n < 0 || fstat(fd, &st) < 0 || audit_last(fd, st.st_size, &b, &end) < 0)
		return NULL;
	first[n] = '\0';
	if (sscanf(first, "{\"seq\":%" SCNu64 ",", &a.seq) != 1 || a.seq > b.seq)
		return NULL;
	return json_pack("{s:I, s:I, s:s}", "dropped", (json_int_t)(b.seq - a.seq + 1),
			 "lastSeq", (json_int_t)b.seq, "lastHash", b.hash);
}

/* How many of the older files there are before the first gap. A rotation that was cut off
 * leaves a gap, and the next one closes it. */
static int files_in_row(int dir)
{
	char name[32];
	int i = 1;

	for (; i < AUDIT_FILES; i++) {
		struct stat st;

		audit_file_name(i, name, sizeof(name));
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			break;
	}
	return i - 1;
}

static int rotate(struct audit *a)
{
	char from[32], to[32];
	int n = files_in_row(a->dir), r = 0;

	if (n == AUDIT_FILES - 1) {
		audit_file_name(n, from, sizeof(from));
		json_t *j = describe_oldest(a->dir, from);

		/* A damaged file is dropped without a word that would vouch for it. */
		r = j ? write_record(a, "rotated", j, 0) : 0;
		json_decref(j);
		if (r < 0)
			return r;
		if (unlinkat(a->dir, from, 0) < 0)
			return -errno;
		n--;
	}
	for (; n >= 0; n--) {
		audit_file_name(n, from, sizeof(from));
		audit_file_name(n + 1, to, sizeof(to));
		if (renameat(a->dir, from, a->dir, to) < 0)
			return -errno;
	}
	close_fd(&a->log);
	return 0;
}

/* ---- appending ------------------------------------------------------------------- */

static int64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int write_head(struct audit *a)
{
	struct audit_head h = {.seq = a->last.seq};
	char slot[AUDIT_SLOT];
	ssize_t n;

	memcpy(h.hash, a->last.hash, sizeof(h.hash));
	audit_head_print(&a->key, &h, slot);
	n = pwrite(a->head, slot, sizeof(slot), h.seq % 2 ? AUDIT_SLOT : 0);
	return n < 0 ? -errno : n == sizeof(slot) ? 0 : -ENOSPC;
}

/* Under the lock, with the end known. */
static int write_record(struct audit *a, const char *event, json_t *fields,
			int64_t time_ns)
{
	cleanup_buf struct buf line = BUF_INIT(2 * AUDIT_LINE_MAX);
	struct audit_record before = a->last, r = {.seq = before.seq + 1};
	ssize_t n;
	int ret;

	snprintf(r.event, sizeof(r.event), "%s", event);
	memcpy(r.prev, before.hash, sizeof(r.prev));
	if (r.seq == 1) { /* what log this is, so that it cannot stand for another */
		json_t *first = json_pack("{s:s}", "sandbox", a->name);

		if (fields)
			json_object_update(first, fields);
		ret = first ? audit_print(&line, &a->key, &r,
					  time_ns ? time_ns : real_ns(), first)
			    : -ENOMEM;
		json_decref(first);
	} else {
		ret = audit_print(&line, &a->key, &r, time_ns ? time_ns : real_ns(),
				  fields);
	}
	if (ret < 0)
		return ret;
	n = write(a->log, line.data, line.len);
	ret = n < 0 ? -errno : (size_t)n < line.len ? -ENOSPC : 0;
	if (ret == 0) {
		a->last = r;
		ret = write_head(a);
	}
	if (ret < 0) {
		a->last = before;
		if (ftruncate(a->log, a->size) < 0)
			a->loaded = false; /* the next one mends it */
		return ret;
	}
	a->size += n;
	return 0;
}

/* Blocks in advance: a sandbox that fills the disk must not be able to keep the end of
 * what it did out of the log. */
static int make_room(struct audit *a)
{
	if (a->size + ROOM_LEAST <= a->room)
		return 0;
	if (fallocate(a->log, FALLOC_FL_KEEP_SIZE, a->size, ROOM_AHEAD) == 0)
		a->room = a->size + ROOM_AHEAD;
	else if (errno == EOPNOTSUPP || errno == ENOSYS)
		a->room = INT64_MAX / 2;
	else
		return -errno;
	return 0;
}

static bool must_last(const char *event)
{
	static const char *const events[] = {"apply", "undo", "discard", "restore",
					     "removed"};

	for (size_t i = 0; i < ARRAY_LEN(events); i++)
		if (strcmp(event, events[i]) == 0)
			return true;
	return false;
}

static int sync_all(struct audit *a)
{
	return fdatasync(a->log) < 0 || fdatasync(a->head) < 0 || fsync(a->dir) < 0
		       ? -errno
		       : 0;
}

static int append_locked(struct audit *a, const char *event, json_t *fields,
			 uint32_t flags, int64_t time_ns)
{
	struct stat st;
	int r = 0;

	for (int tries = 0; r == 0 && tries < 2; tries++) {
		if (fstat(a->log, &st) < 0)
			return -errno;
		if (!a->loaded || st.st_size != a->size)
			r = load(a, st.st_size);
		if (r < 0 || a->size < AUDIT_FILE_MAX)
			break;
		r = rotate(a);
		if (r == 0)
			r = lock_log(a);
	}
	if (r == 0 && flags & AUDIT_RESERVE)
		r = make_room(a);
	if (r == 0)
		r = write_record(a, event, fields, time_ns);
	if (r == 0 && must_last(event))
		r = sync_all(a);
	return r;
}

int audit_append(struct audit *a, const char *event, json_t *fields, uint32_t flags,
		 int64_t time_ns, uint64_t *ret_seq, struct cove_error *err)
{
	int r = lock_log(a);

	if (r == 0) {
		r = append_locked(a, event, fields, flags, time_ns);
		if (a->log >= 0)
			flock(a->log, LOCK_UN);
	}
	json_decref(fields);
	if (r < 0) {
		fail(err, COVE_EIO, -r, "%s: audit log: '%s' cannot be recorded", a->name,
		     event);
		return hint(err,
			    "what cannot be recorded is not done; see that %s can "
			    "be written",
			    AUDIT_LOG);
	}
	if (ret_seq)
		*ret_seq = a->last.seq;
	return 0;
}

int audit_open(struct audit **ret, struct store *st, const char *name,
	       struct cove_error *err)
{
	struct audit *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return fail_nomem(err);
	a->dir = a->log = a->head = -1;
	snprintf(a->name, sizeof(a->name), "%s", name);
	r = audit_key_load(st, true, &a->key, err);
	if (r == 0) {
		a->dir = openat(st->boxes, name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		a->head = a->dir < 0 ? -errno : open_own(a->dir, AUDIT_HEAD, 0);
		if (a->head < 0)
			r = fail(err, COVE_EIO, -a->head, "%s: audit log", name);
	}
	if (r < 0) {
		audit_close(a);
		return r;
	}
	*ret = a;
	return 0;
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	close_fd(&a->log);
	close_fd(&a->head);
	close_fd(&a->dir);
	free(a);
}

int audit_log(struct store *st, const char *name, const char *event, json_t *fields,
	      struct cove_error *err)
{
	struct audit *a = NULL;
	int r = audit_open(&a, st, name, err);

	if (r < 0 || !a) {
		json_decref(fields);
		return r;
	}
	r = audit_append(a, event, fields, 0, 0, NULL, err);
	audit_close(a);
	return r;
}
