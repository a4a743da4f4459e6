/* SPDX-License-Identifier: Apache-2.0 */
#include "work/ledger.h"

#include "base/io.h"
#include "base/util.h"
#include "work/ledger_impl.h"

#include <fcntl.h>

#define FILE_NAME "ledger"

struct ledger *ledger_new(void)
{
	struct ledger *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->dir = -1;
	buf_init(&g->pack.fresh, LEDGER_BLOBS_TOTAL);
	g->table = calloc(1, sizeof(*g->table));
	if (!g->table) {
		free(g);
		return NULL;
	}
	return g;
}

void ledger_close(struct ledger *g)
{
	if (!g)
		return;
	table_clear(g->table);
	free(g->table);
	buf_clear(&g->pack.fresh);
	close_fd(&g->dir);
	free(g);
}
DEFINE_CLEANUP(struct ledger, ledger_close)
#define cleanup_ledger __attribute__((cleanup(ledger_closep)))

/* 0; 1: it is damaged; -errno */
static int load(struct ledger *g)
{
	cleanup_buf struct buf text = BUF_INIT(LEDGER_FILE_MAX);
	int r = read_file_at(g->dir, FILE_NAME, &text);

	if (r == -ENOENT)
		return pack_open(g);
	if (r == 0)
		r = ledger_parse(g, text.data ? text.data : "", text.len);
	if (r == -EINVAL || r == -ENOBUFS) {
		g->dirty = g->sweep = true; /* to be replaced */
		r = pack_open(g);
		return r < 0 ? r : 1;
	}
	return r < 0 ? r : pack_open(g);
}

int ledger_open(struct ledger **ret, const struct layer *l, bool *ret_damaged,
		struct cove_error *err)
{
	cleanup_ledger struct ledger *g = ledger_new();
	int r;

	if (!g)
		return fail_nomem(err);
	if (l->dir >= 0) {
		g->dir = fcntl(l->dir, F_DUPFD_CLOEXEC, 3);
		if (g->dir < 0)
			return fail(err, COVE_EIO, errno, "ledger of %s", l->name);
	}
	r = g->dir < 0 ? 0 : load(g);
	if (r == -ENOMEM)
		return fail_nomem(err);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "read the ledger of %s", l->name);
	if (ret_damaged)
		*ret_damaged = r == 1;
	*ret = take_ptr(g);
	return 0;
}

static int save(struct ledger *g)
{
	cleanup_buf struct buf text = BUF_INIT(LEDGER_FILE_MAX);
	int r = pack_compact(g, false);

	if (r == 0)
		r = pack_write(g, g->lasting);
	if (r == 0)
		r = ledger_print(g, &text);
	if (r == 0)
		r = write_file_atomic(g->dir, FILE_NAME, text.data, text.len, 0600,
				      g->lasting);
	if (r == 0 && g->sweep) /* not before the ledger names the new one */
		pack_sweep(g);
	return r;
}

int ledger_save(struct ledger *g, struct cove_error *err)
{
	int r;

	if (!g->dirty || g->dir < 0)
		return 0;
	r = save(g);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "write the ledger");
	g->dirty = g->lasting = false;
	return 0;
}

/* ---- reading -------------------------------------------------------------------- */

const struct ledger_entry *ledger_find(const struct ledger *g, const char *path)
{
	const struct node *n = table_find(g->table, path);

	return n ? &n->e : NULL;
}

const struct ledger_entry *ledger_base(const struct ledger *g, const char *path)
{
	const struct ledger_entry *e = ledger_find(g, path);
	cleanup_free char *above = e ? NULL : strdup(path);
	char *slash;

	while (!e && above && (slash = strrchr(above, '/'))) {
		*slash = '\0';
		e = ledger_find(g, above);
		if (e && e->host.mode) /* this one was there, and says nothing of it */
			return NULL;
	}
	return e;
}

size_t ledger_count(const struct ledger *g)
{
	return g->table->n;
}

const struct ledger_entry *ledger_at(const struct ledger *g, size_t i)
{
	if (i >= g->table->n || table_sort(g->table) < 0)
		return NULL;
	return &g->table->sorted[i]->e;
}

int ledger_blob(const struct ledger *g, const struct ledger_entry *e, struct buf *out)
{
	const struct node *n = table_find(g->table, e->path);

	return n ? pack_read(g, n, out) : -ENOENT;
}

/* A directory's times and size change with what is in it, which has entries of its own.
 * The device is left out: it is not the same after every boot. */
static bool unchanged(const struct ident *a, const struct ident *b)
{
	if (!a->mode || !b->mode)
		return a->mode == b->mode;
	if (S_ISDIR(a->mode))
		return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
	return ident_same_file(a, b) && a->ctime_ns == b->ctime_ns;
}

bool ledger_is_clean(const struct ledger *g, const char *path, const struct ident *host,
		     const struct ident *upper)
{
	const struct ledger_entry *e = ledger_find(g, path);

	return e && ledger_has_landed(g, path, upper) && unchanged(&e->host, host);
}

bool ledger_has_landed(const struct ledger *g, const char *path,
		       const struct ident *upper)
{
	const struct ledger_entry *e = ledger_find(g, path);

	return e && e->kind == LEDGER_APPLIED && unchanged(&e->upper, upper);
}

/* ---- writing -------------------------------------------------------------------- */

static int set(struct ledger *g, const char *path, const struct ledger_entry *new,
	       const void *content, size_t n, struct cove_error *err)
{
	struct node *node;
	int r;

	if (strlen(path) >= LEDGER_PATH_MAX)
		return fail(err, COVE_EINVAL, ENAMETOOLONG, "ledger");
	node = table_get(g->table, path);
	if (!node)
		return fail_nomem(err);
	node->e.kind = new->kind;
	node->e.sure = new->sure;
	node->e.host = new->host;
	node->e.upper = new->upper;
	g->dirty = g->lasting = true;
	if (!content) {
		node->e.blob[0] = '\0';
		node->e.has_blob = false;
		return 0;
	}
	r = pack_keep(g, node, content, n);
	return r < 0 ? fail(err, COVE_EIO, -r, "keep the content of %.300s", path) : 0;
}

int ledger_set_applied(struct ledger *g, const char *path, const struct ident *host,
		       const struct ident *upper, const void *content, size_t n,
		       struct cove_error *err)
{
	struct ledger_entry e = {
		.kind = LEDGER_APPLIED, .sure = true, .host = *host, .upper = *upper};

	return set(g, path, &e, content, n, err);
}

int ledger_set_seen(struct ledger *g, const char *path, const struct ident *host,
		    const void *content, size_t n, struct cove_error *err)
{
	struct ledger_entry e = {.kind = LEDGER_SEEN, .sure = true, .host = *host};

	return set(g, path, &e, content, n, err);
}

void ledger_forget(struct ledger *g, const char *path)
{
	if (!table_find(g->table, path))
		return;
	table_remove(g->table, path);
	g->dirty = true;
}

void ledger_sweep(struct ledger *g)
{
	struct cove_error err;

	if (pack_compact(g, true) == 0)
		ledger_save(g, &err);
}
