/* SPDX-License-Identifier: Apache-2.0 */
/*
 * change_look - one path, in the sandbox and on the host: what differs?
 *
 * What differs only because the host changed it after the sandbox took its copy is not
 * the sandbox's change; the ledger tells.
 */
#include "base/util.h"
#include "work/change_impl.h"
#include "work/content.h"

#include <stdio.h>

#define ATTR_BITS (COVE_WHAT_MODE | COVE_WHAT_OWNER | COVE_WHAT_XATTR)
#define HASH_MAX ((uint64_t)LEDGER_BLOB_MAX)

static void unreadable(struct change *c, const char *side, int r)
{
	c->what |= COVE_WHAT_UNREADABLE;
	if (!*c->why)
		snprintf(c->why, sizeof(c->why), "%s: %s", side,
			 r == -EINVAL ? "not a regular file any more" : strerror(-r));
}

/* Failures that concern this path only. */
static bool is_local(int r)
{
	return r == -EACCES || r == -EPERM || r == -EINVAL || r == -ELOOP || r == -EIO ||
	       r == -EAGAIN || r == -EOVERFLOW || r == -ENAMETOOLONG || r == -ENOTSUP ||
	       r == -ENODATA || r == -ENXIO || r == -EBUSY || r == -ETXTBSY;
}

/* ---- single aspects -------------------------------------------------------------- */

static int read_targets(struct change *c, const struct walk_entry *e)
{
	int r = 0;

	if (S_ISLNK(e->up.st_mode))
		r = link_read(e->up_dir, e->name, &c->new_target);
	if (r == 0 && S_ISLNK(e->low.st_mode))
		r = link_read(e->low_dir, e->name, &c->old_target);
	return r;
}

/* What will have to be read later is tried now, unless its mode says that it works. */
static int try_upper(struct change *c, const struct walk_entry *e)
{
	int fd;

	if (!S_ISREG(e->up.st_mode) ||
	    ((e->up.st_mode & 0400) && e->up.st_uid == geteuid()) || geteuid() == 0)
		return 0;
	fd = content_open(e->up_dir, e->name, NULL);
	if (fd < 0 && !is_local(fd))
		return fd;
	if (fd < 0)
		unreadable(c, "in the sandbox", fd);
	else
		close(fd);
	return 0;
}

static int compare_content(struct change *c, const struct walk_entry *e)
{
	cleanup_fd int up = -1, low = -1;
	int r;

	if (e->up.st_size != e->low.st_size) {
		c->what |= COVE_WHAT_CONTENT;
		return try_upper(c, e);
	}
	if (e->up.st_size == 0)
		return try_upper(c, e);
	up = content_open(e->up_dir, e->name, NULL);
	low = content_open(e->low_dir, e->name, NULL);
	if (up < 0 || low < 0) {
		r = up < 0 ? up : low;
		if (!is_local(r))
			return r;
		unreadable(c, up < 0 ? "in the sandbox" : "on the host", r);
		return 0;
	}
	r = content_same(up, low);
	if (r < 0 && !is_local(r))
		return r;
	if (r < 0)
		unreadable(c, "its content", r);
	else if (r == 0)
		c->what |= COVE_WHAT_CONTENT;
	return 0;
}

static int compare_attrs(struct change *c, const struct walk_entry *e)
{
	struct attrs low = {0};
	int r = 0;

	if (!S_ISREG(e->up.st_mode) && !S_ISDIR(e->up.st_mode))
		return 0;
	if (e->low.st_mode)
		r = attrs_look(e->low_dir, e->name, S_ISDIR(e->low.st_mode), &low);
	if (r == 0 && !e->up_attrs.matter && !low.matter)
		return 0;
	if (r == 0 && e->low.st_mode)
		r = attrs_same(e->up_dir, e->name, e->low_dir, e->name);
	if (r < 0 && !is_local(r))
		return r;
	if (r < 0)
		unreadable(c, "its attributes", r);
	if (r <= 0)
		c->what |= COVE_WHAT_XATTR;
	return 0;
}

/* The layer's own directory is made by us, so its owner says nothing. */
static void compare_inode(struct change *c, const struct walk_entry *e)
{
	/* the layer's own directory was made by us, with the permission bits only */
	if (!S_ISLNK(e->up.st_mode) && ((e->up.st_mode ^ e->low.st_mode) &
					(strcmp(e->path, ".") == 0 ? 0777 : 07777)))
		c->what |= COVE_WHAT_MODE;
	if ((e->up.st_uid != e->low.st_uid || e->up.st_gid != e->low.st_gid) &&
	    strcmp(e->path, ".") != 0)
		c->what |= COVE_WHAT_OWNER;
}

/* ---- by kind --------------------------------------------------------------------- */

static uint32_t content_bit(mode_t mode)
{
	return S_ISREG(mode) ? COVE_WHAT_CONTENT : S_ISLNK(mode) ? COVE_WHAT_TARGET : 0;
}

static int look_deleted(struct change *c)
{
	c->kind = COVE_DELETED;
	c->what |= content_bit(c->old.mode);
	return 0;
}

static int look_new(struct change *c, const struct walk_entry *e, uint32_t kind)
{
	int r = try_upper(c, e);

	c->kind = kind;
	c->what |= content_bit(c->new.mode);
	if (e->up_attrs.matter)
		c->what |= COVE_WHAT_XATTR;
	if (kind == COVE_RETYPED) {
		c->what |= COVE_WHAT_TYPE;
		compare_inode(c, e);
	}
	return r;
}

static int look_same_type(struct change *c, const struct walk_entry *e)
{
	int r = 0;

	compare_inode(c, e);
	if (S_ISREG(e->up.st_mode))
		r = compare_content(c, e);
	else if (S_ISLNK(e->up.st_mode) && strcmp(c->old_target, c->new_target) != 0)
		c->what |= COVE_WHAT_TARGET;
	if (r == 0)
		r = compare_attrs(c, e);
	c->kind = c->what & (COVE_WHAT_CONTENT | COVE_WHAT_TARGET) ? COVE_EDITED
								   : COVE_ATTRS;
	return r;
}

static bool is_retyped(const struct walk_entry *e)
{
	mode_t type = e->up.st_mode & S_IFMT;

	return type != (e->low.st_mode & S_IFMT) ||
	       ((type == S_IFCHR || type == S_IFBLK) && e->up.st_rdev != e->low.st_rdev);
}

/* ---- not the sandbox's doing ----------------------------------------------------- */

static bool content_is(const struct walk_entry *e, const char *digest)
{
	char own[DIGEST_HEX];
	cleanup_fd int fd = -1;

	if (!*digest)
		return false;
	fd = content_open(e->up_dir, e->name, NULL);
	return fd >= 0 && content_digest(fd, HASH_MAX, own) == 0 &&
	       strcmp(own, digest) == 0;
}

/* Takes out what is in the sandbox still as it was on the host when it was first seen. */
static void drop_what_the_host_did(struct change *c, const struct walk_entry *e,
				   const struct ledger_entry *seen)
{
	const struct ident *was = &seen->host;
	char target[DIGEST_HEX];

	if (seen->kind != LEDGER_SEEN || (was->mode & S_IFMT) != (c->new.mode &S_IFMT) ||
	    ident_same(was, &c->old))
		return;
	if (((was->mode ^ c->new.mode) & 07777) == 0)
		c->what &= ~(uint32_t)COVE_WHAT_MODE;
	if (was->uid == c->new.uid && was->gid == c->new.gid)
		c->what &= ~(uint32_t)COVE_WHAT_OWNER;
	if ((c->what & COVE_WHAT_CONTENT) && content_is(e, seen->blob))
		c->what &= ~(uint32_t)COVE_WHAT_CONTENT;
	if ((c->what & COVE_WHAT_TARGET) &&
	    digest_of(c->new_target, strlen(c->new_target), target) == 0 &&
	    strcmp(target, seen->blob) == 0)
		c->what &= ~(uint32_t)COVE_WHAT_TARGET;
	if (!(c->what & (COVE_WHAT_CONTENT | COVE_WHAT_TARGET)))
		c->kind = COVE_ATTRS;
}

static int look(struct change *c, const struct walk_entry *e, const struct ledger *g)
{
	const struct ledger_entry *seen;
	int r;

	if (!e->up.st_mode)
		return look_deleted(c);
	if (!e->low.st_mode)
		return look_new(c, e, COVE_ADDED);
	if (is_retyped(e))
		return look_new(c, e, COVE_RETYPED);
	r = look_same_type(c, e);
	seen = g && c->what ? ledger_find(g, e->path) : NULL;
	if (r == 0 && seen)
		drop_what_the_host_did(c, e, seen);
	return r;
}

int change_look(struct change *ret, const struct walk_entry *e, const struct ledger *g)
{
	struct change c = {0};
	int r;

	if (e->up.st_mode)
		ident_from(&c.new, &e->up);
	if (e->low.st_mode)
		ident_from(&c.old, &e->low);
	if (*e->why) {
		c.what |= COVE_WHAT_UNREADABLE;
		memcpy(c.why, e->why, sizeof(c.why));
	} else if (g && ledger_has_landed(g, e->path, &c.new)) {
		return 0;
	}
	r = read_targets(&c, e);
	if (r == 0)
		r = look(&c, e, g);
	if (r == 0 && (c.what || c.kind != COVE_ATTRS)) {
		*ret = c;
		return 1;
	}
	change_clear(&c);
	/* gone between the listing and now: the sandbox runs */
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}
