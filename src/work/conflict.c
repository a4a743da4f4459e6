/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conflict - in this order: has the host it already, is the host's path what the sandbox
 * worked on, can both be merged. What is not known is a conflict.
 */
#include "work/conflict.h"

#include "base/util.h"
#include "text/merge.h"
#include "work/change_impl.h"
#include "work/content.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

struct question {
	const struct layer *layer;
	const struct ledger *ledger;
	const struct changes *all;
	const struct change *c;
	int fd;
	const struct ident *now;
	const struct ledger_entry *base;
	struct buf *merged;
	char *why;
	size_t why_size;
};

static int conflict(struct question *q, const char *why)
{
	snprintf(q->why, q->why_size, "%s", why);
	return VERDICT_CONFLICT;
}

static bool same_perm(const struct ident *a, const struct ident *b)
{
	return ((a->mode ^ b->mode) & 07777) == 0;
}

static bool same_type(const struct ident *a, const struct ident *b)
{
	return ((a->mode ^ b->mode) & S_IFMT) == 0;
}

static bool same_owner(const struct ident *a, const struct ident *b)
{
	return a->uid == b->uid && a->gid == b->gid;
}

static int open_host(const struct question *q)
{
	return open_beneath(q->layer->lower, q->c->path, O_RDONLY | O_NONBLOCK);
}

/* Of a regular file or a symlink; "" if there is none. */
static int host_digest(const struct question *q, char digest[DIGEST_HEX])
{
	cleanup_free char *target = NULL;
	cleanup_fd int fd = -1;
	const char *name;
	int r;

	*digest = '\0';
	if (S_ISREG(q->now->mode)) {
		fd = open_host(q);
		r = fd < 0 ? fd : content_digest(fd, LEDGER_BLOB_MAX, digest);
		return r == -EFBIG ? 0 : r;
	}
	if (!S_ISLNK(q->now->mode))
		return 0;
	fd = open_parent(q->layer->lower, q->c->path, &name);
	r = fd < 0 ? fd : link_read(fd, name, &target);
	return r < 0 ? r : digest_of(target, strlen(target), digest);
}

/* ---- has the host it already? ---------------------------------------------------- */

/* 1, 0 or -errno */
static int same_content(const struct question *q)
{
	const struct change *c = q->c;
	cleanup_free char *target = NULL;
	cleanup_fd int host = -1;
	const char *name;
	struct stat st;
	int r;

	if (S_ISREG(c->new.mode)) {
		if (q->fd < 0 || fstat(q->fd, &st) < 0 ||
		    (uint64_t)st.st_size != q->now->size)
			return 0;
		host = open_host(q);
		return host < 0 ? host : content_same(host, q->fd);
	}
	if (!S_ISLNK(c->new.mode))
		return 1;
	host = open_parent(q->layer->lower, c->path, &name);
	r = host < 0 ? host : link_read(host, name, &target);
	return r < 0 ? r : c->new_target && strcmp(target, c->new_target) == 0;
}

static int host_has_it(const struct question *q)
{
	const struct change *c = q->c;

	if (c->kind == COVE_DELETED)
		return !q->now->mode;
	if (!same_type(q->now, &c->new) ||
	    (!S_ISLNK(c->new.mode) && !same_perm(q->now, &c->new)) ||
	    c->what & COVE_WHAT_XATTR ||
	    (c->what & COVE_WHAT_OWNER && !same_owner(q->now, &c->new)))
		return 0;
	return same_content(q);
}

/* ---- is it what the sandbox worked on? ------------------------------------------- */

/* After a merge the host's file is as we left it, and still not what the sandbox sees:
 * then the digest, which is that of the sandbox's file, differs. */
static int digest_decides(const struct question *q, bool if_unknown)
{
	char digest[DIGEST_HEX];
	int r;

	if (!*q->base->blob)
		return if_unknown;
	r = host_digest(q, digest);
	if (r < 0)
		return r;
	return *digest ? strcmp(digest, q->base->blob) == 0 : if_unknown;
}

/* 1, 0 or -errno */
static int is_base(const struct question *q)
{
	const struct ident *was = &q->base->host, *now = q->now;

	if (!was->mode || !now->mode)
		return was->mode == now->mode;
	if (!same_type(was, now) || !same_owner(was, now) ||
	    (!S_ISLNK(was->mode) && !same_perm(was, now)))
		return 0;
	if (S_ISDIR(was->mode)) /* what is in it is asked for by itself */
		return 1;
	if (ident_same_file(was, now) && was->ctime_ns == now->ctime_ns)
		return q->base->kind == LEDGER_APPLIED ? digest_decides(q, true) : 1;
	return digest_decides(q, false);
}

/* Nothing was noted: then time has to tell. */
static int by_time(struct question *q)
{
	if (!q->now->mode)
		return q->c->old.mode ? conflict(q, "deleted on the host")
				      : VERDICT_CLEAN;
	if (!q->c->old.mode)
		return conflict(q, "the host has it now, too");
	if (q->now->ctime_ns > layer_since(q->layer))
		return conflict(q, "changed on the host since the sandbox was started");
	return VERDICT_CLEAN;
}

/* ---- can both be merged? --------------------------------------------------------- */

/* -errno; 1: read; 0: it is not text, or too large */
static int read_text(int fd, struct buf *out)
{
	int r = fd < 0 ? fd : content_read(fd, out);

	if (r < 0)
		return r == -ENOBUFS ? 0 : r;
	return !text_is_binary((struct text){out->data, out->len});
}

static bool equal(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static struct text text_of(const struct buf *b)
{
	return (struct text){b->data, b->len};
}

static int merge_texts(struct question *q, const struct buf *base, const struct buf *ours,
		       const struct buf *theirs)
{
	size_t conflicts = 0;
	int r = text_merge3(q->merged, text_of(base), text_of(ours), text_of(theirs),
			    &conflicts);

	if (r == -EFBIG || r == -ENOBUFS)
		return conflict(q, "changed on the host, and too large to merge");
	if (r < 0)
		return r;
	if (conflicts) {
		snprintf(q->why, q->why_size,
			 "changed on the host in the same lines (%zu place%s)", conflicts,
			 conflicts == 1 ? "" : "s");
		return VERDICT_CONFLICT;
	}
	if (equal(q->merged, theirs))
		return VERDICT_CLEAN;
	if (equal(q->merged, ours) && same_perm(q->now, &q->c->new))
		return VERDICT_SAME;
	snprintf(q->why, q->why_size, "merged with what changed on the host");
	return VERDICT_MERGE;
}

/* The result lands with the mode and owner of the sandbox's file, so those of the host
 * must not have become something else. */
static bool attrs_can_merge(const struct question *q)
{
	const struct ident *was = &q->base->host, *now = q->now, *new = &q->c->new;

	return (same_perm(now, was) || same_perm(now, new)) &&
	       (same_owner(now, was) || same_owner(now, new));
}

static int try_merge(struct question *q)
{
	size_t max = q->merged->max;
	cleanup_buf struct buf base = BUF_INIT(LEDGER_BLOB_MAX), ours = BUF_INIT(max),
			       theirs = BUF_INIT(max);
	cleanup_fd int host = -1;
	int r;

	if (!attrs_can_merge(q))
		return conflict(q, "its mode or owner was changed on the host");
	r = q->base->has_blob ? ledger_blob(q->ledger, q->base, &base) : -ENOENT;
	if (r == -ENOENT)
		return conflict(q, "changed on the host, and cannot be merged");
	if (r < 0)
		return r;
	host = open_host(q);
	r = read_text(host, &ours);
	if (r == 1)
		r = read_text(q->fd, &theirs);
	if (r == 0)
		return conflict(q, "changed on the host, and not a text to merge");
	return r < 0 ? r : merge_texts(q, &base, &ours, &theirs);
}

static int changed(struct question *q)
{
	const struct change *c = q->c;

	if (!q->now->mode)
		return conflict(q, "deleted on the host");
	if (!q->base->host.mode)
		return conflict(q, "the host has it now, too");
	if (c->kind == COVE_DELETED)
		return conflict(q, "changed on the host");
	if (!same_type(q->now, &q->base->host))
		return conflict(q, "became something else on the host");
	if (q->fd < 0 || !S_ISREG(q->now->mode) || !S_ISREG(c->new.mode))
		return conflict(q, "changed on the host");
	return try_merge(q);
}

/* ---- what is in a directory that goes -------------------------------------------- */

static bool goes_too(const struct question *q, const char *path)
{
	char *copy = strdup(path);
	struct change key = {.layer = q->c->layer, .path = copy};
	const struct change *found = NULL;
	bool goes;

	if (copy && q->all->n)
		found = bsearch(&key, q->all->v, q->all->n, sizeof(key), changes_by_path);
	goes = found && found->kind == COVE_DELETED;
	for (size_t i = 0; !goes && i < q->all->n; i++)
		goes = q->all->v[i].from && q->all->v[i].layer == q->c->layer &&
		       strcmp(q->all->v[i].from, path) == 0;
	free(copy);
	return goes;
}

static int names_go_too(struct question *q, DIR *d)
{
	cleanup_buf struct buf path = BUF_INIT(1 << 20);
	const struct dirent *e;

	while ((errno = 0, e = readdir(d))) {
		int r;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		path.len = 0;
		r = buf_printf(&path, "%s/%s", q->c->path, e->d_name);
		if (r < 0)
			return r;
		if (goes_too(q, path.data))
			continue;
		snprintf(q->why, q->why_size,
			 "on the host it holds %.100s, which the "
			 "sandbox did not delete",
			 e->d_name);
		return VERDICT_CONFLICT;
	}
	return errno ? -errno : VERDICT_CLEAN;
}

/* Only what is directly in it: its directories are changes of their own. */
static int content_goes_too(struct question *q)
{
	int fd = open_beneath(q->layer->lower, q->c->path, O_RDONLY | O_DIRECTORY), r;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d) {
		r = fd < 0 ? fd : -errno;
		closep(&fd);
		return r == -EXDEV ? conflict(q, "a file system is mounted there") : r;
	}
	r = names_go_too(q, d);
	closedir(d);
	return r;
}

/* ---- all of it ------------------------------------------------------------------- */

static int judge_base(struct question *q)
{
	int r;

	q->base = q->ledger ? ledger_base(q->ledger, q->c->path) : NULL;
	if (!q->base)
		return by_time(q);
	if (!q->base->sure)
		return conflict(q, "changed on the host while the sandbox ran; which of "
				   "both the sandbox saw is not known");
	r = is_base(q);
	if (r < 0)
		return r;
	return r ? VERDICT_CLEAN : changed(q);
}

static int judge(struct question *q)
{
	bool dir_goes = S_ISDIR(q->now->mode) && !S_ISDIR(q->c->new.mode);
	int r = host_has_it(q);

	if (r)
		return r < 0 ? r : VERDICT_SAME;
	r = judge_base(q);
	if (r == VERDICT_CLEAN && dir_goes)
		r = content_goes_too(q);
	return r;
}

/* The old name of what was renamed goes away, like anything that is deleted. */
static int judge_from(const struct question *q)
{
	struct change gone = {.layer = q->c->layer,
			      .path = q->c->from,
			      .kind = COVE_DELETED,
			      .old = q->c->old};
	struct question old = *q;
	struct ident now;
	int r = ident_at(q->layer->lower, q->c->from, &now);

	if (r < 0)
		return r;
	old.c = &gone;
	old.now = &now;
	old.fd = -1;
	return judge(&old);
}

/* What would land at the new name was not there before. */
static int judge_renamed(const struct question *q)
{
	struct change added = *q->c;
	struct question new = *q;
	int r = judge_from(q);

	if (r < 0 || r == VERDICT_CONFLICT)
		return r;
	added.kind = COVE_ADDED;
	added.old = (struct ident){0};
	new.c = &added;
	return judge(&new);
}

int conflict_check(const struct layers *l, const struct ledger *g,
		   const struct changes *all, const struct change *c, int fd,
		   const struct ident *now, enum verdict *ret, struct buf *merged,
		   char *why, size_t why_size, struct cove_error *err)
{
	struct question q = {.layer = &l->v[c->layer],
			     .ledger = g,
			     .all = all,
			     .c = c,
			     .fd = fd,
			     .now = now,
			     .merged = merged,
			     .why = why,
			     .why_size = why_size};
	int r;

	merged->len = 0;
	if (why_size)
		*why = '\0';
	r = c->kind == COVE_RENAMED ? judge_renamed(&q) : judge(&q);
	/* it went away or was swapped between the look at it and now */
	if (r == -ENOENT || r == -ELOOP || r == -ENOTDIR)
		r = conflict(&q, "changed on the host just now");
	if (r == -ENOMEM)
		return fail_nomem(err);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "compare %.300s with the host", c->path);
	*ret = (enum verdict)r;
	return 0;
}
