/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger_capture - notices what is new in an upper layer.
 *
 * A path gets its entry once, when it is first seen in the upper layer: from then on the
 * entry tells what the sandbox worked on, whatever the host does. What is in a directory
 * that the host does not have gets none (see ledger_base()), so a tree that an agent
 * unpacked costs one entry. What lies below a deleted directory gets one each, without
 * content: it is how an edit of the host below it is noticed.
 */
#include "base/util.h"
#include "work/content.h"
#include "work/ledger_impl.h"
#include "work/walk.h"

#include <fcntl.h>
#include <stdio.h>

struct capture {
	struct ledger *ledger;
	int64_t since;
};

/* Overlayfs copied it from the host, and nobody touched the host's since: the sandbox saw
 * what is there now. */
static bool copied_since(const struct walk_entry *e, int64_t host_ctime_ns)
{
	struct attrs a;

	if (e->up_dir < 0 || e->low_dir < 0 ||
	    host_ctime_ns >= birth_ns(e->up_dir, e->name) ||
	    attrs_look(e->up_dir, e->name, S_ISDIR(e->up.st_mode), &a) < 0 || !a.origin)
		return false;
	return attrs_origin_fits(e->up_dir, e->name, e->low_dir, e->name);
}

static bool is_sure(const struct capture *c, const struct walk_entry *e,
		    const struct ident *host)
{
	return !host->mode || host->ctime_ns <= c->since ||
	       copied_since(e, host->ctime_ns);
}

/* Without digest or content if it cannot be read: that makes a conflict at worst. */
static int keep_content(struct ledger *g, struct node *n, const struct walk_entry *e)
{
	cleanup_buf struct buf text = BUF_INIT(LEDGER_BLOB_MAX);
	cleanup_free char *target = NULL;
	cleanup_fd int fd = -1;
	struct stat st;
	struct ident now;

	if (S_ISLNK(e->low.st_mode)) {
		if (link_read(e->low_dir, e->name, &target) == 0)
			digest_of(target, strlen(target), n->e.blob);
		return 0;
	}
	if (!S_ISREG(e->low.st_mode) || e->low.st_size > LEDGER_BLOB_MAX)
		return 0;
	fd = content_open(e->low_dir, e->name, &st);
	if (fd < 0 || content_read(fd, &text) < 0 || fstat(fd, &st) < 0)
		return 0;
	ident_from(&now, &st);
	if (!ident_same(&now, &n->e.host)) /* it changes right now: no base */
		return 0;
	return pack_keep(g, n, text.data ? text.data : "", text.len);
}

static int note(struct capture *c, const struct walk_entry *e, struct node **ret)
{
	struct node *n = table_get(c->ledger->table, e->path);

	if (!n)
		return -ENOMEM;
	n->e.kind = LEDGER_SEEN;
	if (e->low.st_mode)
		ident_from(&n->e.host, &e->low);
	n->e.sure = is_sure(c, e, &n->e.host);
	c->ledger->dirty = true;
	*ret = n;
	/* below a deleted directory, identity has to be enough */
	return e->up_dir < 0 ? 0 : keep_content(c->ledger, n, e);
}

static int on_path(void *arg, const struct walk_entry *e)
{
	struct capture *c = arg;
	struct node *n = table_find(c->ledger->table, e->path);
	bool is_dir = S_ISDIR(e->up.st_mode), was_dir = S_ISDIR(e->low.st_mode);
	bool known = n != NULL;
	int r = n ? 0 : note(c, e, &n);

	if (r < 0)
		return r;
	n->alive = true;
	n->covers = *e->why || (is_dir ? e->hidden || !was_dir : was_dir);
	if (is_dir)
		return was_dir ? WALK_ON : WALK_SKIP;
	return known ? WALK_SKIP : WALK_ON;
}

/* ---- forgetting ----------------------------------------------------------------- */

static bool is_covered(const struct table *t, const char *path)
{
	cleanup_free char *above = strdup(path);
	char *slash;

	if (!above)
		return true;
	while ((slash = strrchr(above, '/'))) {
		const struct node *n;

		*slash = '\0';
		n = table_find(t, above);
		if (n && n->alive && n->covers)
			return true;
	}
	return false;
}

const struct ident ledger_only_base = {.mode = S_IFREG, .mtime_ns = -1};

bool ledger_is_gone(const struct ledger_entry *e, const struct layer *l,
		    struct ident *ret_host)
{
	struct ident upper;

	return e->kind == LEDGER_APPLIED && e->upper.mode &&
	       e->upper.mtime_ns != ledger_only_base.mtime_ns && l->upper >= 0 &&
	       ident_at(l->upper, e->path, &upper) == 0 && !upper.mode &&
	       ident_at(l->lower, e->path, ret_host) == 0 && ret_host->mode;
}

static int forget_the_rest(struct ledger *g, const struct layer *l)
{
	struct ident host;

	struct table *t = g->table;
	cleanup_free char **gone = calloc(t->n + 1, sizeof(*gone));
	size_t n = 0;

	if (!gone)
		return -ENOMEM;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slot[i] && !t->slot[i]->alive &&
		    !is_covered(t, t->slot[i]->path) &&
		    !ledger_is_gone(&t->slot[i]->e, l, &host))
			gone[n++] = t->slot[i]->path;
	for (size_t i = 0; i < n; i++)
		ledger_forget(g, gone[i]);
	return 0;
}

int ledger_capture(struct ledger *g, const struct layer *l, struct cove_error *err)
{
	struct capture c = {.ledger = g, .since = layer_since(l)};
	int r;

	for (size_t i = 0; i < g->table->cap; i++)
		if (g->table->slot[i])
			g->table->slot[i]->alive = g->table->slot[i]->covers = false;
	r = walk_layer(l, on_path, &c, 0);
	if (r == 0)
		r = forget_the_rest(g, l);
	if (r == -ENOMEM)
		return fail_nomem(err);
	return r < 0 ? fail(err, COVE_EIO, -r, "note the changes of %s", l->source) : 0;
}
