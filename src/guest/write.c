/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write - FILE WRITE: the bytes go to a temporary file in the same directory, which takes
 * the name when the client's EOF came. Any other end removes it: a reader sees the old
 * content or the new one. A file takes what it is given, so nothing is buffered here.
 */
#include "guest/file.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define TRIES 16

/* "DIR/.cove-<random>.tmp", whatever the length of the last component. */
static char *temp_name(const char *path)
{
	static uint64_t count;
	const char *slash = strrchr(path, '/');
	size_t n = (size_t)(slash - path) + 1;
	struct timespec t;
	char *name = malloc(n + 48);

	if (!name)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, &t);
	memcpy(name, path, n);
	snprintf(name + n, 48, ".cove-%llx-%llx.tmp", (unsigned long long)t.tv_nsec,
		 (unsigned long long)++count);
	return name;
}

static int open_temp(struct stream *s)
{
	for (int i = 0; i < TRIES; i++) {
		int fd;

		s->write.temp = temp_name(s->write.path);
		if (!s->write.temp)
			return -ENOMEM;
		fd = open(s->write.temp,
			  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
		free(take_ptr(s->write.temp));
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

void file_write(struct guest *g, struct stream *s, const struct request *r)
{
	int fd;

	s->write.mode = request_has(r, WIRE_A_MODE) ? r->num[WIRE_A_MODE] & 07777 : 0644;
	s->write.uid = request_has(r, WIRE_A_UID) ? r->num[WIRE_A_UID] : (uint32_t)-1;
	s->write.gid = request_has(r, WIRE_A_GID) ? r->num[WIRE_A_GID] : (uint32_t)-1;
	s->write.chown_it = request_has(r, WIRE_A_UID) || request_has(r, WIRE_A_GID);
	s->write.path = strdup(request_path(r));
	fd = s->write.path ? open_temp(s) : -ENOMEM;
	if (fd < 0) {
		stream_failed(g, s, -fd, request_path(r));
		return;
	}
	s->in.fd = fd;
	s->in.open = true;
	flow_init(&s->in.flow);
	send_frame(g, WIRE_RESULT, 0, s->id, NULL, 0);
}

static int take_bytes(struct guest *g, struct stream *s, const uint8_t *p, size_t n)
{
	int err = write_all(s->in.fd, p, n);

	if (err < 0)
		stream_failed(g, s, -err, s->write.path);
	else
		sink_credit(g, s, n);
	return 0;
}

static int put_in_place(struct stream *s)
{
	if (s->write.chown_it && fchown(s->in.fd, s->write.uid, s->write.gid) < 0)
		return -errno;
	if (fchmod(s->in.fd, s->write.mode) < 0)
		return -errno;
	if (rename(s->write.temp, s->write.path) < 0)
		return -errno;
	free(take_ptr(s->write.temp)); /* it has the name now */
	return 0;
}

static void finish_file(struct guest *g, struct stream *s)
{
	int err = put_in_place(s);

	if (err < 0) {
		stream_failed(g, s, -err, s->write.path);
		return;
	}
	send_frame(g, WIRE_RESULT, 0, s->id, NULL, 0);
	stream_finish(g, s);
}

static void discard(struct stream *s)
{
	if (s->write.temp)
		unlink(s->write.temp);
	free(take_ptr(s->write.temp));
	free(take_ptr(s->write.path));
}

const struct stream_ops write_ops = {
	.write = take_bytes,
	.end_of_input = finish_file,
	.release = discard,
};
