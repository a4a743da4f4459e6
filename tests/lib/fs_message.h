/* SPDX-License-Identifier: Apache-2.0 */
/* fs_message - FUSE requests for tests: built piece by piece, sent to a server in memory.
 */
#ifndef COVE_FS_MESSAGE_H
#define COVE_FS_MESSAGE_H

#include "fs/fs.h"

#include <linux/fuse.h>
#include <string.h>

struct message {
	uint8_t data[FS_MESSAGE_MAX];
	size_t n;
};

static struct message request_;
static uint8_t reply_[FS_MESSAGE_MAX];
static ssize_t reply_n_;

static inline void begin(uint32_t opcode, uint64_t node)
{
	struct fuse_in_header h = {.opcode = opcode, .nodeid = node, .unique = 7};

	memcpy(request_.data, &h, sizeof(h));
	request_.n = sizeof(h);
}

static inline void add(const void *p, size_t n)
{
	memcpy(request_.data + request_.n, p, n);
	request_.n += n;
}

static inline void add_name(const char *name)
{
	add(name, strlen(name) + 1);
}

/* The answer's error (0: success, negative errno), or 1 if there was none. */
static inline int send_to(struct fs *fs)
{
	uint32_t len = (uint32_t)request_.n;
	struct fuse_out_header h;

	memcpy(request_.data, &len, sizeof(len));
	reply_n_ = fs_request(fs, request_.data, request_.n, reply_);
	if (reply_n_ <= 0)
		return reply_n_ == 0 ? 1 : (int)reply_n_;
	memcpy(&h, reply_, sizeof(h));
	return h.error;
}

static inline const uint8_t *body(void)
{
	return reply_ + sizeof(struct fuse_out_header);
}

static inline size_t body_length(void)
{
	return (size_t)reply_n_ - sizeof(struct fuse_out_header);
}

#define FLAGS_OF_LINUX \
	(FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT | FUSE_MAX_PAGES | \
	 FUSE_DO_READDIRPLUS | FUSE_INIT_EXT | FUSE_EXPLICIT_INVAL_DATA)

static inline int greet(struct fs *fs)
{
	struct fuse_init_in in = {.major = 7, .minor = 37, .flags = FLAGS_OF_LINUX};

	begin(FUSE_INIT, 0);
	add(&in, sizeof(in));
	return send_to(fs);
}

/* The node number at dir/name; 0 if there is none (and *err says why). */
static inline uint64_t look_up(struct fs *fs, uint64_t dir, const char *name, int *err)
{
	struct fuse_entry_out e;

	begin(FUSE_LOOKUP, dir);
	add_name(name);
	*err = send_to(fs);
	if (*err || body_length() < sizeof(e))
		return 0;
	memcpy(&e, body(), sizeof(e));
	*err = e.nodeid ? 0 : -2; /* ENOENT */
	return e.nodeid;
}

#endif
