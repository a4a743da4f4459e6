/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff - what a sandbox changed, one change at a time, with line counts or text.
 *
 * The workspace is locked while the changes are listed and let go before the first one is
 * handed out: the caller may show them in a pager and leave it open for hours. Files are
 * opened by the descriptors kept from the listing, and a file that is no longer what was
 * listed is reported as such, not shown as something it was not.
 */
#include "api/handle.h"

#include "base/util.h"
#include "core/workspace.h"
#include "text/diff.h"
#include "work/content.h"

#include <fcntl.h>

#define DIFF_FILE_MAX ((size_t)64 << 20) /* larger files are compared by size only */
#define DIFF_TEXT_MAX ((size_t)512 << 20)
#define DIFF_CONTEXT 3

/* The listing, after the workspace was closed: only what opening files needs. */
struct listed {
	struct layers layers;
	struct changes changes;
};

static void listed_clear(struct listed *l)
{
	changes_clear(&l->changes);
	for (size_t i = 0; l->layers.v && i < l->layers.n; i++) {
		closep(&l->layers.v[i].lower);
		closep(&l->layers.v[i].upper);
		free(l->layers.v[i].source);
	}
	free(l->layers.v);
}

static int keep_fd(int fd, int *ret)
{
	*ret = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return fd >= 0 && *ret < 0 ? -errno : 0;
}

static int keep_layer(struct layer *to, const struct layer *from)
{
	cleanup_free char *source = strdup(from->source);
	int r;

	*to = (struct layer){.lower = -1, .upper = -1, .dir = -1};
	if (!source)
		return -ENOMEM;
	r = keep_fd(from->lower, &to->lower);
	if (r == 0)
		r = keep_fd(from->upper, &to->upper);
	if (r == 0)
		to->source = take_ptr(source);
	return r;
}

static int keep_layers(struct listed *l, const struct layers *from)
{
	int r = 0;

	l->layers = (struct layers){.record = -1, .running = from->running};
	l->layers.v = calloc(from->n + 1, sizeof(*l->layers.v));
	if (!l->layers.v)
		return -ENOMEM;
	while (r == 0 && l->layers.n < from->n) {
		r = keep_layer(&l->layers.v[l->layers.n], &from->v[l->layers.n]);
		l->layers.n++;
	}
	return r;
}

static int list_changes(struct listed *l, const char *name, const char *const *paths,
			struct cove_error *err)
{
	struct workspace w;
	struct store st;
	int r = store_open(&st, err);

	if (r < 0)
		return r;
	r = workspace_open(&w, &st, name, 0, err);
	if (r == 0) {
		r = changes_list(&l->changes, &w.layers, w.ledgers, paths, 0, err);
		if (r == 0 && (r = keep_layers(l, &w.layers)) < 0)
			r = fail(err, r == -ENOMEM ? COVE_ENOMEM : COVE_EIO, -r,
				 "keep the mounts open");
		workspace_close(&w);
	}
	store_close(&st);
	return r;
}

/* ---- one change ------------------------------------------------------------------ */

/* One side of a change as text: the content of a file, the target of a symlink. */
struct side {
	struct buf buf;
	struct text text;
	bool opaque; /* binary, or too large to look into */
};

struct shown {
	struct side old, new;
	struct buf text;
	uint32_t added, removed;
	bool binary;
	const char *why; /* it cannot be read */
};

static void shown_clear(struct shown *s)
{
	buf_clear(&s->old.buf);
	buf_clear(&s->new.buf);
	buf_clear(&s->text);
}

static int side_load(struct side *s, int fd)
{
	int r = fd < 0 ? fd : content_read(fd, &s->buf);

	if (fd >= 0)
		close(fd);
	if (r == -ENOBUFS || r == -EFBIG) {
		s->opaque = true;
		return 0;
	}
	s->text = (struct text){s->buf.data, s->buf.len};
	s->opaque = r == 0 && text_is_binary(s->text);
	return r;
}

static int load_side(struct side *s, const struct layers *l, const struct change *c,
		     bool is_new)
{
	const struct ident *id = is_new ? &c->new : &c->old;
	const char *target = is_new ? c->new_target : c->old_target;

	buf_init(&s->buf, DIFF_FILE_MAX);
	if (S_ISLNK(id->mode) && target)
		s->text = (struct text){target, strlen(target)};
	if (!S_ISREG(id->mode))
		return 0;
	if (id->size > DIFF_FILE_MAX) {
		s->opaque = true;
		return 0;
	}
	return side_load(s, is_new ? change_open_new(l, c) : change_open_old(l, c));
}

static int compare(struct shown *s, struct text old, struct text new, uint32_t flags,
		   uint32_t context)
{
	cleanup_text_diff struct text_diff d = {0};
	int r = text_diff(&d, old, new);

	if (r == 0 && (flags & COVE_DIFF_TEXT))
		r = text_unified(&s->text, old, new, &d, context);
	if (r == 0) {
		s->added += d.added;
		s->removed += d.removed;
	}
	return r;
}

/* What became something else is one text that went and another that came. */
static int compare_sides(struct shown *s, const struct change *c, uint32_t flags,
			 uint32_t context)
{
	static const struct text none = {NULL, 0};
	int r;

	if (c->kind != COVE_RETYPED)
		return compare(s, s->old.text, s->new.text, flags, context);
	r = compare(s, s->old.text, none, flags, context);
	return r < 0 ? r : compare(s, none, s->new.text, flags, context);
}

static const char *why_not(int r)
{
	return r == -ESTALE ? "it changed meanwhile" : strerror(-r);
}

/* 0, or -ENOMEM: everything else is a property of the file and said with it. */
static int look_inside(struct shown *s, const struct layers *l, const struct change *c,
		       uint32_t flags, uint32_t context)
{
	int r = load_side(&s->old, l, c, false);

	if (r == 0)
		r = load_side(&s->new, l, c, true);
	if (r == 0 && (s->old.opaque || s->new.opaque)) {
		s->binary = true;
		return 0;
	}
	if (r == 0) {
		buf_init(&s->text, DIFF_TEXT_MAX);
		r = compare_sides(s, c, flags, context);
	}
	if (r == -EFBIG || r == -ENOBUFS) {
		buf_clear(&s->text);
		s->added = s->removed = 0;
		s->binary = true;
		return 0;
	}
	if (r < 0 && r != -ENOMEM)
		s->why = why_not(r);
	return r == -ENOMEM ? r : 0;
}

static void fill(struct cove_change *ret, const struct listed *l, const struct change *c,
		 const struct shown *s)
{
	const char *why = c->what & COVE_WHAT_UNREADABLE ? c->why : s->why;

	change_export(&l->layers, c, ret);
	ret->what |= (s->binary ? COVE_WHAT_BINARY : 0u) |
		     (s->why ? COVE_WHAT_UNREADABLE : 0u);
	ret->added = s->added;
	ret->removed = s->removed;
	ret->text = s->text.len ? s->text.data : NULL;
	ret->text_len = s->text.len;
	ret->why = why;
}

static int hand_out(const struct listed *l, const struct change *c,
		    const struct cove_diff_options *o, struct cove_error *err)
{
	uint32_t context = o->flags & COVE_DIFF_NO_CONTEXT ? 0
			   : o->context                    ? o->context
							   : DIFF_CONTEXT;
	bool inside =
		(o->flags & (COVE_DIFF_STAT | COVE_DIFF_TEXT)) &&
		(c->what & (COVE_WHAT_CONTENT | COVE_WHAT_TARGET | COVE_WHAT_TYPE)) &&
		!(c->what & COVE_WHAT_UNREADABLE);
	struct shown s = {0};
	struct cove_change pub;
	int r = inside ? look_inside(&s, &l->layers, c, o->flags, context) : 0;

	if (r == 0) {
		fill(&pub, l, c, &s);
		r = o->change(o->arg, &pub) ? 1 : 0;
	} else {
		r = fail_nomem(err);
	}
	shown_clear(&s);
	return r;
}

static int check_options(struct cove_diff_options *ret, const struct cove_diff_options *o,
			 struct cove_error *err)
{
	const uint32_t known = COVE_DIFF_STAT | COVE_DIFF_TEXT | COVE_DIFF_NO_CONTEXT;
	int r;

	*ret = (struct cove_diff_options){0};
	if (!o)
		return 0;
	r = options_import(ret, sizeof(*ret), sizeof(*ret), o, "diff", err);
	if (r == 0 && (ret->flags & ~known))
		r = fail(err, COVE_EUNSUPPORTED, 0, "diff: unknown flags 0x%x",
			 ret->flags & ~known);
	return r;
}

COVE_API int64_t cove_diff(const char *name, const struct cove_diff_options *options,
			   struct cove_error *error)
{
	struct cove_error *err = ERR(error);
	struct cove_diff_options o;
	struct listed l = {0};
	int64_t n;
	int r = check_options(&o, options, err);

	if (r < 0)
		return r;
	if (!name)
		return fail(err, COVE_EINVAL, 0, "diff: no name");
	r = list_changes(&l, name, o.paths, err);
	n = (int64_t)l.changes.n;
	for (size_t i = 0; r == 0 && o.change && i < l.changes.n; i++)
		r = hand_out(&l, &l.changes.v[i], &o, err);
	listed_clear(&l);
	return r < 0 ? r : n;
}
