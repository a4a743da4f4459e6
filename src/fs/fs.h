/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs - a FUSE server over a directory tree of the host; the transport is somebody else's.
 *
 * Theory of operation. One request goes in as bytes, at most one reply comes out as bytes
 * (fs_request). There is no state but a table of nodes, what the guest knows by a number;
 * nothing is ever "open": OPEN and OPENDIR are answered ENOSYS, after which a Linux guest
 * does not ask again and names only nodes. So opening a file inside costs no message, a
 * guest that was saved and restored needs no handles back, and there is no handle to
 * forge. Descriptors of the host are a cache behind the nodes (desc.h).
 *
 * Everything in a request is hostile. Names are single components (no '/', no "..") and
 * are resolved against the descriptor of the directory with O_NOFOLLOW, so a request can
 * reach an entry of a directory that it reached before, and nothing else; symlinks are
 * read, never followed; only regular files and directories are ever opened. What the host
 * forbids (read-only mounts, Landlock, modes) it forbids by the error of the system call.
 *
 * Invariants
 * 1. A node number is slot and generation: one that was never given out, or was
 * forgotten, finds nothing (ESTALE), never another node's memory.
 * 2. A node is opened again by the name of its directory and its own; what is found there
 *    must have the same identity (device, inode, birth), or it is ESTALE.
 * 3. Tables, buffers and descriptors have a bound; what happens there is said beside it.
 * 4. File systems that show the kernel (proc, sysfs, ...) are never served: their
 *    directories look empty. This process's own memory is a file there.
 */
#ifndef COVE_FS_FS_H
#define COVE_FS_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fs;

#define FS_WRITE_MAX (1u << 20) /* bytes of one READ or WRITE, at most */
/* The longest message in either direction: data, its headers, a few names. */
#define FS_MESSAGE_MAX (FS_WRITE_MAX + 16384u)

struct fs_options {
	int root;          /* O_PATH descriptor of the directory to serve; borrowed */
	uint32_t nodes;    /* at most so many */
	uint32_t descs;    /* descriptors for them */
	uint32_t watches;  /* directories that are watched; 0: none */
	uint32_t max_data; /* of one READ or WRITE: a multiple of 4096 */
	/* FUSEMSG_WINDOW bytes that the guest reads, too (base/fusemsg.h); it stays the
	 * caller's. NULL: there is none. */
	uint8_t *window;
	/* The guest will be saved, and go on over other files. So it is not to keep that
	 * a name is not there; nor the attributes of directories and symlinks that are in
	 * memory, which are others every time: it would have to be told of each. */
	bool for_template;
};

int fs_new(struct fs **ret, const struct fs_options *o); /* 0 or -errno */
void fs_free(struct fs *fs);

/*
 * Carries out the request of n bytes (as its header says) at msg and writes the reply to
 * out, which has room for FS_MESSAGE_MAX bytes. Returns the reply's length, 0 if there is
 * none, or -EPROTO: these bytes are no FUSE request and the peer cannot be served
 * further.
 */
ssize_t fs_request(struct fs *fs, const uint8_t *msg, size_t n, uint8_t *out);

/*
 * What the guest must be told, as bytes like a reply's (FS_NOTICE_MAX at most); 0:
 * nothing now. To
 * be asked after every request and after fs_host_changes().
 */
#define FS_NOTICE_MAX 512u
size_t fs_notice(struct fs *fs, uint8_t *out);

/* Has the guest said of every notice that it was delivered? */
bool fs_told_all(const struct fs *fs);
/* ... and there is nothing more to tell it. */
bool fs_settled(const struct fs *fs);

/* A descriptor that is readable when the host changed something; -1: there is none now.
 * Then fs_host_changes() looks what it was; true: it has more to do, call it soon again.
 * The same where fs_changes_wait() says so after notices were told. */
int fs_watch_fd(const struct fs *fs);
bool fs_changes_wait(const struct fs *fs);
bool fs_host_changes(struct fs *fs);

/* The tree at path (below the served root) is an overlay; *fd, which is taken, is the
 * lower directory that the host changes. 0 or -errno. */
int fs_source(struct fs *fs, const char *path, int *fd);

/* The length of the message that begins at p, once 4 bytes of it are there; -EPROTO if no
 * message can have it. */
ssize_t fs_message_length(const uint8_t *p);

#endif
