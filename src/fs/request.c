/* SPDX-License-Identifier: Apache-2.0 */
/* request - from bytes to a handler and back: sizes, names, the greeting. */
#include "base/fusemsg.h"
#include "base/util.h"
#include "fs/impl.h"
#include "fs/watch.h"

#include <fcntl.h>
#include <sys/stat.h>

static ssize_t do_nothing(struct fs *fs, struct request *q, uint8_t *out)
{
	(void)fs;
	(void)q;
	(void)out;
	return 0;
}

static ssize_t do_no_reply(struct fs *fs, struct request *q, uint8_t *out)
{
	(void)fs;
	(void)q;
	(void)out;
	return NO_REPLY;
}

/* ---- what is asked, and how much of it must be there ------------------------------- */

enum {
	ANY_NODE = 1 << 0, /* the node number may name nothing */
	EARLY = 1 << 1,    /* before INIT */
};

static const struct opcode {
	handler_fn *handle; /* NULL: ENOSYS */
	uint16_t least;     /* bytes after the header */
	uint16_t flags;
} opcodes[] = {
	[FUSE_LOOKUP] = {do_lookup,       2,                                      0               },
	[FUSE_FORGET] = {do_forget,       sizeof(struct fuse_forget_in),          ANY_NODE        },
	[FUSE_GETATTR] = {do_getattr,      0,                                      0               },
	[FUSE_SETATTR] = {do_setattr,      sizeof(struct fuse_setattr_in),         0               },
	[FUSE_READLINK] = {do_readlink,     0,                                      0               },
	[FUSE_SYMLINK] = {do_symlink,      4,                                      0               },
	[FUSE_MKNOD] = {do_mknod,        sizeof(struct fuse_mknod_in) + 2,       0               },
	[FUSE_MKDIR] = {do_mkdir,        sizeof(struct fuse_mkdir_in) + 2,       0               },
	[FUSE_UNLINK] = {do_unlink,       2,                                      0               },
	[FUSE_RMDIR] = {do_rmdir,        2,				      0               },
	[FUSE_RENAME] = {do_rename,       sizeof(struct fuse_rename_in) + 4,      0               },
	[FUSE_LINK] = {do_link,         sizeof(struct fuse_link_in) + 2,        0               },
	[FUSE_READ] = {do_read,         sizeof(struct fuse_read_in),            0               },
	[FUSE_WRITE] = {do_write,        sizeof(struct fuse_write_in),           0               },
	[FUSE_STATFS] = {do_statfs,       0,                                      0               },
	[FUSE_FSYNC] = {do_fsync,        sizeof(struct fuse_fsync_in),           0               },
	[FUSE_SETXATTR] = {do_setxattr,     FUSE_COMPAT_SETXATTR_IN_SIZE + 2,       0               },
	[FUSE_GETXATTR] = {do_getxattr,     sizeof(struct fuse_getxattr_in) + 2,    0               },
	[FUSE_LISTXATTR] = {do_listxattr,    sizeof(struct fuse_getxattr_in),        0               },
	[FUSE_REMOVEXATTR] = {do_removexattr,  2,                                      0               },
	[FUSE_INIT] = {do_init,         16,				     ANY_NODE | EARLY},
	[FUSE_READDIR] = {do_readdir,      sizeof(struct fuse_read_in),            0               },
	[FUSE_RELEASE] = {do_nothing,      0,                                      ANY_NODE        },
	[FUSE_RELEASEDIR] = {do_nothing,      0,                                      ANY_NODE        },
	[FUSE_FSYNCDIR] = {do_fsyncdir,     0,                                      0               },
	[FUSE_CREATE] = {do_create,       sizeof(struct fuse_create_in) + 2,      0               },
	[FUSE_INTERRUPT] = {do_no_reply,     0,                                      ANY_NODE        }, /* nothing takes long */
	[FUSE_DESTROY] = {do_destroy,      0,                                      ANY_NODE        },
	[FUSE_BATCH_FORGET] = {do_batch_forget, sizeof(struct fuse_batch_forget_in),
                         ANY_NODE								 },
	[FUSE_FALLOCATE] = {do_fallocate,    sizeof(struct fuse_fallocate_in),       0               },
	[FUSE_READDIRPLUS] = {do_readdirplus,  sizeof(struct fuse_read_in),            0               },
	[FUSE_RENAME2] = {do_rename2,      sizeof(struct fuse_rename2_in) + 4,     0               },
	[FUSE_LSEEK] = {do_lseek,        sizeof(struct fuse_lseek_in),           0               },
	[FUSE_COPY_FILE_RANGE] = {do_copy,         sizeof(struct fuse_copy_file_range_in), 0               },
	[FUSE_SYNCFS] = {do_syncfs,       0,                                      0               },
	[FUSE_TMPFILE] = {do_tmpfile,      sizeof(struct fuse_create_in),          0               },
 /* Not here, so ENOSYS: OPEN, OPENDIR (fs.h says why), FLUSH (nothing to flush),
  * ACCESS (the guest checks modes itself), GETLK, SETLK, SETLKW (locks stay in the
  * guest's kernel), BMAP, IOCTL, POLL, and what will be invented. */
};

const char *request_name(const struct request *q, size_t *at, int *err)
{
	const char *name = (const char *)q->arg + *at;
	const char *end = memchr(name, '\0', q->n - *at);
	size_t n = end ? (size_t)(end - name) : 0;

	*err = -EINVAL;
	if (!end || n == 0 || memchr(name, '/', n))
		return NULL;
	if (name[0] == '.' && (n == 1 || (n == 2 && name[1] == '.')))
		return NULL;
	*err = -ENAMETOOLONG;
	if (n > NAME_LENGTH_MAX)
		return NULL;
	*at += n + 1;
	*err = 0;
	return name;
}

/* ---- the greeting --------------------------------------------------------------------
 */

/* What we would like, where the guest's kernel can. */
#define WANTED \
	(FUSE_ASYNC_READ                    /* several READs of one file in flight */ \
	 | FUSE_BIG_WRITES | FUSE_MAX_PAGES /* up to max_data at once */ \
	 | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO /* entries with attributes */ \
	 | FUSE_PARALLEL_DIROPS /* lookups do not wait for each other */ \
	 | FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT /* see fs.h */ \
	 | FUSE_HANDLE_KILLPRIV_V2 /* our host drops set-user-id bits on every write */ \
	 | FUSE_CACHE_SYMLINKS | FUSE_EXPLICIT_INVAL_DATA | FUSE_ASYNC_DIO | \
	 FUSE_INIT_EXT)

/* Without these a guest would send OPEN, get ENOSYS and be stuck. */
#define NEEDED (FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT | FUSE_MAX_PAGES)

#define MAX_BACKGROUND 64

/* A greeting begins anew: whatever the guest knew before, it does not know any more. */
ssize_t do_init(struct fs *fs, struct request *q, uint8_t *out)
{
	struct fuse_init_in in = {0};
	struct fuse_init_out answer = {.major = FUSE_KERNEL_VERSION,
				       .minor = FUSE_KERNEL_MINOR_VERSION};

	memcpy(&in, q->arg, min_size(q->n, sizeof(in)));
	if (in.major > FUSE_KERNEL_VERSION) { /* it will try again with ours */
		memcpy(out, &answer, sizeof(answer));
		return sizeof(answer);
	}
	if (in.major < FUSE_KERNEL_VERSION || in.minor < PROTOCOL_MINOR_MIN ||
	    (in.flags & NEEDED) != NEEDED)
		return -EPROTO;
	fs_reset(fs);
	fs->minor = in.minor < answer.minor ? in.minor : answer.minor;
	answer.max_readahead = in.max_readahead;
	answer.flags = in.flags & WANTED;
	answer.max_background = MAX_BACKGROUND;
	answer.congestion_threshold = MAX_BACKGROUND * 3 / 4;
	answer.max_write = fs->max_data;
	answer.max_pages = (uint16_t)(fs->max_data / 4096);
	answer.time_gran = 1;
	fs->ready = true;
	memcpy(out, &answer, sizeof(answer));
	return sizeof(answer);
}

ssize_t do_destroy(struct fs *fs, struct request *q, uint8_t *out)
{
	(void)q;
	(void)out;
	fs_reset(fs);
	return 0;
}

/* ---- one request ---------------------------------------------------------------------
 */

ssize_t fs_message_length(const uint8_t *p)
{
	uint32_t n;

	memcpy(&n, p, sizeof(n));
	if (n < sizeof(struct fuse_in_header) || n > FS_MESSAGE_MAX)
		return -EPROTO;
	return (ssize_t)n;
}

static int choose_slot(const struct fs *fs, struct request *q)
{
	uint32_t slot = q->head.padding;

	if (slot == 0)
		return 0;
	if (!fs->window || slot > FUSEMSG_SLOTS || q->head.opcode != FUSE_READ)
		return -EINVAL;
	q->slot = fs->window + (size_t)(slot - 1) * FUSEMSG_SLOT;
	return 0;
}

static ssize_t dispatch(struct fs *fs, struct request *q, uint8_t *out)
{
	const struct opcode *o;
	ssize_t r;

	if (q->head.opcode == FUSEMSG_TOLD) {
		fs->notices.in_flight -= fs->notices.in_flight > 0;
		return NO_REPLY;
	}
	if (q->head.opcode >= ARRAY_LEN(opcodes))
		return -ENOSYS;
	o = &opcodes[q->head.opcode];
	if (!o->handle)
		return -ENOSYS;
	if (q->n < o->least || q->head.total_extlen || choose_slot(fs, q) < 0)
		return -EINVAL;
	if (!fs->ready && !(o->flags & EARLY))
		return -EIO;
	q->node = node_find(fs, q->head.nodeid);
	if (!q->node)
		return o->flags & ANY_NODE ? o->handle(fs, q, out) : -ESTALE;
	if (o->flags & ANY_NODE)
		return o->handle(fs, q, out);
	node_hold(q->node);
	r = o->handle(fs, q, out);
	node_drop(fs, q->node);
	return r;
}

static bool is_silent(uint32_t opcode)
{
	return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET ||
	       opcode == FUSE_INTERRUPT;
}

ssize_t fs_request(struct fs *fs, const uint8_t *msg, size_t n, uint8_t *out)
{
	struct fuse_out_header head;
	struct request q = {0};
	ssize_t r;

	if (n < sizeof(q.head) || fs_message_length(msg) != (ssize_t)n)
		return -EPROTO;
	memcpy(&q.head, msg, sizeof(q.head));
	q.arg = msg + sizeof(q.head);
	q.n = n - sizeof(q.head);
	fs->n_requests++;
	r = dispatch(fs, &q, out + sizeof(head));
	if (r == NO_REPLY || is_silent(q.head.opcode))
		return 0;
	head = (struct fuse_out_header){.unique = q.head.unique,
					.len = sizeof(head) + (r > 0 ? (uint32_t)r : 0),
					.error = r < 0 ? (int32_t)r : 0};
	memcpy(out, &head, sizeof(head));
	return head.len;
}

/* ---- life ----------------------------------------------------------------------------
 */

void fs_reset(struct fs *fs)
{
	struct node *root = fs->nodes.root;

	streams_clear(fs);
	nodes_forget_all(fs);
	notices_clear(fs);
	root->noticed = root->missed = 0;
	root->told_absent = root->seen.known = false;
	fs->watch.sweep = 0;
	fs->ready = false;
}

int fs_new(struct fs **ret, const struct fs_options *o)
{
	struct fs *fs = calloc(1, sizeof(*fs));
	int r;

	if (!fs)
		return -ENOMEM;
	fs->max_data = o->max_data < 4096 || o->max_data > FS_WRITE_MAX
			       ? FS_WRITE_MAX
			       : o->max_data & ~4095u;
	fs->window = o->window;
	fs->for_template = o->for_template;
	fs->descs.max = o->descs < 64 ? 64 : o->descs;
	for (size_t i = 0; i < STREAMS_MAX; i++)
		fs->stream[i].fd = -1;
	fs->proc_fds = openat(o->root, "proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = watch_init(fs, o->watches);
	if (r == 0)
		r = nodes_init(fs, o->nodes, o->root);
	if (r < 0) {
		fs_free(fs);
		return r;
	}
	*ret = fs;
	return 0;
}

void fs_free(struct fs *fs)
{
	if (!fs)
		return;
	streams_clear(fs);
	nodes_clear(fs);
	notices_clear(fs);
	watch_clear(fs);
	close_fd(&fs->proc_fds);
	free(fs);
}
