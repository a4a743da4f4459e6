/* SPDX-License-Identifier: Apache-2.0 */
/* impl - what the files of src/fs share. */
#ifndef COVE_FS_IMPL_H
#define COVE_FS_IMPL_H

#include "fs/fs.h"
#include "fs/node.h"
#include "fs/notice.h"

#include <linux/fuse.h>

#define PROTOCOL_MINOR_MIN 31 /* Linux 5.4 */
#define NAME_LENGTH_MAX 255
#define DEPTH_MAX 2048 /* directories above a node: as deep as a path can name */
#define STREAMS_MAX 128
#define STREAM_BUFFER 8192u

/* A directory in the middle of being read: see readdir.c. */
struct dirstream {
	uint64_t node, next; /* node number; the offset it stands at */
	uint64_t used;       /* when, in requests */
	int fd;
	uint8_t *buf; /* entries that were read and not asked for yet: from at to len */
	size_t at, len;
};

#define SOURCES_MAX 256
#define OWN_MAX 512 /* more than there are requests between two looks at events */

/* The lower directory of an overlay. */
struct source {
	uint64_t dev; /* of the overlay */
	int fd;
};

struct watch {
	int fd;             /* inotify, or -1 */
	struct table by_wd; /* of nodes */
	uint32_t max;
	bool full;             /* no further watch can be had */
	uint32_t sweep;        /* next slot to look at; 0: there is no sweep */
	uint64_t own[OWN_MAX]; /* names that the guest took away; by hash */
	uint32_t n_own;
	uint32_t n_sources;
	struct source source[SOURCES_MAX];
};

struct fs {
	struct nodes nodes;
	struct descs descs;
	struct watch watch;
	struct notices notices;
	struct dirstream stream[STREAMS_MAX];
	uint64_t n_requests;
	int proc_fds; /* /proc/self/fd, or -1: to open again what has no name */
	uint32_t minor;
	uint32_t max_data;
	uint8_t *window;   /* see struct fs_options */
	bool ready;        /* INIT was answered */
	bool for_template; /* see struct fs_options */
	struct node *chain[DEPTH_MAX];
};

/* ---- a request ------------------------------------------------------------------- */

struct request {
	struct fuse_in_header head;
	struct node *node;  /* of head.nodeid */
	const uint8_t *arg; /* after the header; at least what the table says */
	size_t n;
	uint8_t *slot; /* of the window, for a file's bytes; NULL: they are in the answer
			*/
};

#define NO_REPLY (-100000)

/* The fixed part of a request; the table made sure that it is there. Copied, as nothing
 * in a stream of messages is aligned. */
#define request_take(q_, ret_) memcpy((ret_), (q_)->arg, sizeof(*(ret_)))
/* The name at *at, which is moved behind it: one component, or NULL and *err. */
const char *request_name(const struct request *q, size_t *at, int *err);

/* A handler returns the length of the answer that it put at out (FS_MESSAGE_MAX less a
 * header), -errno, or NO_REPLY. */
typedef ssize_t handler_fn(struct fs *fs, struct request *q, uint8_t *out);

/* ---- files behind nodes (open.c) ------------------------------------------------- */

/* The O_PATH descriptor of a directory, good until the next call of any of these. */
int open_dir(struct fs *fs, struct node *n);
/* Two at once. */
int open_two(struct fs *fs, struct node *a, struct node *b, int *ret_a, int *ret_b);
/* A descriptor that a directory can be read from, or synced; good as long. */
int open_dir_stream(struct fs *fs, struct node *n);
/* openat(2); when there is no descriptor left, the cache gives one back. -errno. */
int open_entry(struct fs *fs, int dir, const char *name, int flags, mode_t mode);
/* A descriptor of a regular file that reads, or reads and writes. */
int open_file(struct fs *fs, struct node *n, bool write);
/* Directory descriptor and name by which a call names the node: *name is "" with the
 * node's own descriptor where it has no other. */
int open_at(struct fs *fs, struct node *n, const char **name);
int node_stat(struct fs *fs, struct node *n, struct fs_stat *ret);
/* After an own change of the node: what it is like now. An overlay may have copied it. */
int node_stat_changed(struct fs *fs, struct node *n, struct fs_stat *ret);
/* Before its name goes: keeps it usable for whoever has it open inside. */
void node_keep_open(struct fs *fs, struct node *n);
/* A new descriptor from one that is there, with other flags. */
int open_again(struct fs *fs, int fd, int flags);

/* Around a change in a directory of the guest's: its descriptor, and what comes after. */
int dir_changing(struct fs *fs, struct node *dir);
void dir_changed(struct fs *fs, struct node *dir);

/* ---- answers (attr.c) ------------------------------------------------------------ */

void attr_fill(const struct fs *fs, const struct node *n, const struct fs_stat *st,
	       struct fuse_attr *ret);
uint64_t attr_ino(const struct device *d, uint64_t ino);
/* The entry that the guest gets for a node; counts the lookup. */
void entry_fill(struct fs *fs, struct node *n, const struct fs_stat *st,
		struct fuse_entry_out *ret);
ssize_t attr_answer(struct fs *fs, struct node *n, const struct fs_stat *st,
		    uint8_t *out);
/* May a file have this mode? -EPERM. */
int mode_check(uint32_t mode);
/* Looks name up in dir and answers with its entry. */
ssize_t entry_answer(struct fs *fs, struct node *dir, const char *name, uint8_t *out);
const struct device *device_of(struct fs *fs, int dir, const char *name, uint64_t dev);

/* ---- handlers, by file ----------------------------------------------------------- */

handler_fn do_lookup, do_forget, do_batch_forget, do_getattr, do_setattr, do_readlink,
	do_statfs;
handler_fn do_symlink, do_mknod, do_mkdir, do_unlink, do_rmdir, do_rename, do_rename2,
	do_link, do_create, do_tmpfile;
handler_fn do_read, do_write, do_fsync, do_fallocate, do_lseek, do_copy, do_syncfs;
handler_fn do_readdir, do_readdirplus, do_fsyncdir;
handler_fn do_setxattr, do_getxattr, do_listxattr, do_removexattr;
handler_fn do_init, do_destroy;

void fs_reset(struct fs *fs); /* as if nothing had ever been asked */

int stream_at(struct fs *fs, struct node *n, uint64_t off, struct dirstream **ret);
void streams_clear(struct fs *fs);
void streams_forget(struct fs *fs, uint64_t node);

#endif
