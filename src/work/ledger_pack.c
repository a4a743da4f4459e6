/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_pack - contents that may be the base of a merge, one behind the other in a file.
 *
 * Ten thousand small files one by one would cost more than all the rest of a capture. The
 * ledger says where each begins and what its digest is; a content that does not have that
 * digest (after a crash, or damaged) counts as not kept.
 */
#include "base/io.h"
#include "base/util.h"
#include "text/diff.h"
#include "work/content.h"
#include "work/ledger_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#define FLUSH_AT (8u << 20)
#define COMPACT_FROM (1u << 20)

static void pack_name(char name[32], uint64_t generation)
{
	snprintf(name, 32, "blobs/%llx", (unsigned long long)generation);
}

static int open_file(const struct ledger *g, uint64_t generation, int flags)
{
	char name[32];
	int fd;

	if (g->dir < 0)
		return -ENOENT;
	pack_name(name, generation);
	if ((flags & O_CREAT) && mkdirat(g->dir, "blobs", 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(g->dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int pack_open(struct ledger *g)
{
	cleanup_fd int fd = open_file(g, g->pack.generation, O_RDONLY);
	struct stat st;

	g->pack.size = 0;
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	g->pack.size = (uint64_t)st.st_size;
	return 0;
}

int pack_keep(struct ledger *g, struct node *n, const void *content, size_t len)
{
	struct pack *p = &g->pack;
	char digest[DIGEST_HEX];
	int r = digest_of(content, len, digest);

	if (r < 0)
		return r;
	if (n->e.has_blob && strcmp(n->e.blob, digest) == 0)
		return 0;
	memcpy(n->e.blob, digest, sizeof(digest));
	n->e.has_blob = false;
	if (len > LEDGER_BLOB_MAX || p->size + p->fresh.len + len > LEDGER_BLOBS_TOTAL ||
	    text_is_binary((struct text){content, len}))
		return 0;
	if (p->fresh.len + len > FLUSH_AT && g->dir >= 0) {
		r = pack_write(g, false);
		if (r < 0)
			return r;
	}
	r = buf_append(&p->fresh, content, len);
	if (r < 0)
		return r;
	n->at = p->size + p->fresh.len - len;
	n->len = (uint32_t)len;
	n->e.has_blob = true;
	return 0;
}

static int write_at(int fd, const char *data, size_t n, uint64_t at)
{
	while (n) {
		ssize_t w = pwrite(fd, data, n, (off_t)at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		data += w;
		n -= (size_t)w;
		at += (uint64_t)w;
	}
	return 0;
}

int pack_write(struct ledger *g, bool sync)
{
	struct pack *p = &g->pack;
	cleanup_fd int fd = -1;
	int r;

	if (!p->fresh.len && !(sync && p->size))
		return 0;
	fd = open_file(g, p->generation, O_WRONLY | O_CREAT);
	r = fd < 0 ? fd : write_at(fd, p->fresh.data, p->fresh.len, p->size);
	if (r == 0 && sync && fdatasync(fd) < 0)
		r = -errno;
	if (r < 0)
		return r;
	p->size += p->fresh.len;
	p->fresh.len = 0;
	return 0;
}

static int read_at(int fd, char *to, size_t n, uint64_t at)
{
	while (n) {
		ssize_t r = pread(fd, to, n, (off_t)at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -ENOENT;
		to += r;
		n -= (size_t)r;
		at += (uint64_t)r;
	}
	return 0;
}

/* fd: of the pack, -1 if it is not open yet. */
static int read_one(const struct ledger *g, int fd, const struct node *n, struct buf *out)
{
	const struct pack *p = &g->pack;
	char digest[DIGEST_HEX];
	int r = buf_reserve(out, n->len);
	char *to;

	if (r < 0)
		return r;
	to = out->data + out->len;
	if (n->at >= p->size) {
		uint64_t in = n->at - p->size;

		if (in > p->fresh.len || n->len > p->fresh.len - in)
			return -ENOENT;
		if (n->len)
			memcpy(to, p->fresh.data + in, n->len);
	} else {
		r = fd < 0 ? fd : read_at(fd, to, n->len, n->at);
	}
	if (r == 0)
		r = digest_of(to, n->len, digest);
	if (r == 0 && strcmp(digest, n->e.blob) != 0)
		r = -ENOENT;
	if (r < 0)
		return r;
	out->len += n->len;
	out->data[out->len] = '\0';
	return 0;
}

int pack_read(const struct ledger *g, const struct node *n, struct buf *out)
{
	cleanup_fd int fd = -1;

	if (!n->e.has_blob)
		return -ENOENT;
	if (n->at < g->pack.size)
		fd = open_file(g, g->pack.generation, O_RDONLY);
	return read_one(g, fd, n, out);
}

/* ---- making it anew -------------------------------------------------------------- */

static uint64_t live_bytes(const struct ledger *g)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < g->table->cap; i++)
		if (g->table->slot[i] && g->table->slot[i]->e.has_blob)
			sum += g->table->slot[i]->len;
	return sum;
}

struct move {
	struct node *node;
	uint64_t to;
};

/* Copies what is needed behind each other; nodes are changed when all of it is there. */
static int copy_live(struct ledger *g, int from, int to, struct move *moves,
		     size_t *ret_n, uint64_t *ret_size)
{
	cleanup_buf struct buf piece = BUF_INIT(LEDGER_BLOB_MAX);

	for (size_t i = 0; i < g->table->cap; i++) {
		struct node *n = g->table->slot[i];
		int r;

		if (!n || !n->e.has_blob)
			continue;
		piece.len = 0;
		r = read_one(g, from, n, &piece);
		if (r == -ENOENT) { /* damaged: no base, that is all */
			n->e.has_blob = false;
			continue;
		}
		if (r == 0)
			r = write_at(to, piece.data, n->len, *ret_size);
		if (r < 0)
			return r;
		moves[(*ret_n)++] = (struct move){n, *ret_size};
		*ret_size += n->len;
	}
	return fdatasync(to) < 0 ? -errno : 0;
}

int pack_compact(struct ledger *g, bool always)
{
	struct pack *p = &g->pack;
	cleanup_fd int from = -1, to = -1;
	cleanup_free struct move *moves = NULL;
	uint64_t all = p->size + p->fresh.len, size = 0;
	size_t n = 0;
	int r;

	if (g->dir < 0 || all == 0 ||
	    (!always && (all < COMPACT_FROM || live_bytes(g) * 2 > all)))
		return 0;
	moves = calloc(g->table->n + 1, sizeof(*moves));
	if (!moves)
		return -ENOMEM;
	from = open_file(g, p->generation, O_RDONLY);
	to = open_file(g, p->generation + 1, O_WRONLY | O_CREAT | O_TRUNC);
	r = to < 0 ? to : copy_live(g, from, to, moves, &n, &size);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		moves[i].node->at = moves[i].to;
	p->generation++;
	p->size = size;
	p->fresh.len = 0;
	g->dirty = g->lasting = g->sweep = true;
	return 0;
}

void pack_sweep(struct ledger *g)
{
	char own[32];
	const struct dirent *e;
	int fd = g->dir < 0 ? -1
			    : openat(g->dir, "blobs",
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		closep(&fd);
		return;
	}
	pack_name(own, g->pack.generation);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, own + strlen("blobs/")) != 0)
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	g->sweep = false;
}
