/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_scan - secrets in what would land: in the new content and the names of files, and
 * in other names and symlink targets, which are put into one text of their own.
 *
 * A secret that the host has in the same file already is not brought by the sandbox: what
 * the host's files hold is scanned as well, for files with findings only, and the same
 * findings are dropped. A scan that did not finish is a finding that nothing accepts.
 */
#include "work/gate_impl.h"
#include "work/scan.h"

#include "base/io.h"
#include "base/util.h"

#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>

#define BUDGET_MS 15000
#define BYTES_PER_MS 20000 /* far below what the scanner does: a machine may be busy */
#define NAMES "names.txt"
#define NAMES_MAX (1u << 30)

struct hit { /* a finding of the scanner, copied */
	size_t item;
	uint64_t line;
	char *rule, *what, *inner, *excerpt, *fingerprint;
	bool dropped;
};

struct pass {
	struct gate *g;
	struct scan *scan;
	size_t *items; /* by the scanner's index */
	size_t n, room;
	size_t names;  /* the index of the names' text; NO_ITEM: none */
	size_t *lines; /* its lines' items */
	size_t n_lines, lines_room;
	struct hit *hits;
	size_t n_hits, hits_room;
	int failed; /* in the callback */
};

static int push(size_t **v, size_t *n, size_t *room, size_t x)
{
	size_t more = *room ? *room * 2 : 256;
	size_t *p;

	if (*n == *room) {
		p = reallocarray(*v, more, sizeof(*p));
		if (!p)
			return -ENOMEM;
		*v = p;
		*room = more;
	}
	(*v)[(*n)++] = x;
	return 0;
}

static void hit_clear(struct hit *h)
{
	free(h->rule);
	free(h->what);
	free(h->inner);
	free(h->excerpt);
	free(h->fingerprint);
}

static void pass_clear(struct pass *p)
{
	for (size_t i = 0; i < p->n_hits; i++)
		hit_clear(&p->hits[i]);
	free(p->hits);
	free(p->items);
	free(p->lines);
	scan_free(p->scan);
}

/* ---- one pass of the scanner ---------------------------------------------------- */

static char *copy_text(const char *s)
{
	return strdup(s ? s : "");
}

static int take_hit(struct pass *p, const struct scan_finding *f)
{
	size_t more = p->hits_room ? p->hits_room * 2 : 64;
	size_t item = f->index < p->n ? p->items[f->index] : NO_ITEM;
	struct hit *h;

	if (f->index == p->names)
		item = f->line >= 1 && f->line <= p->n_lines ? p->lines[f->line - 1]
							     : NO_ITEM;
	if (p->n_hits == p->hits_room) {
		h = reallocarray(p->hits, more, sizeof(*h));
		if (!h)
			return -ENOMEM;
		p->hits = h;
		p->hits_room = more;
	}
	h = &p->hits[p->n_hits];
	*h = (struct hit){
		.item = item,
		.line = f->index == p->names ? 0 : f->line,
		.rule = copy_text(f->rule),
		.what = copy_text(f->what),
		.inner = copy_text(f->inner),
		.excerpt = copy_text(f->excerpt),
		.fingerprint = copy_text(f->fingerprint),
	};
	if (!h->rule || !h->what || !h->inner || !h->excerpt || !h->fingerprint) {
		hit_clear(h);
		return -ENOMEM;
	}
	p->n_hits++;
	return 0;
}

/* Beyond what will be shown nothing is kept: the gate says that there is more. */
static void on_finding(void *arg, const struct scan_finding *f)
{
	struct pass *p = arg;

	if (p->n_hits <= GATE_FINDINGS_MAX && take_hit(p, f) < 0)
		p->failed = -ENOMEM;
}

static int64_t budget(const struct gate *g)
{
	uint64_t total = 0;

	if (g->config->budget_ms)
		return g->config->budget_ms;
	for (size_t i = 0; i < g->n; i++)
		total += item_has_content(&g->items[i]) ? g->items[i].size / BYTES_PER_MS
							: 0;
	return BUDGET_MS + (int64_t)(total < INT32_MAX ? total : INT32_MAX);
}

static int pass_start(struct pass *p, struct cove_error *err)
{
	const struct gate_config *c = p->g->config;
	const struct scan_options o = {
		.rules_toml = c->rules_toml,
		.rules_len = c->rules_len,
		.secrets = c->secrets,
		.secret_lens = c->secret_lens,
		.n_secrets = c->n_secrets,
		.max_file = UINT64_MAX, /* what is too large was told apart before */
		.budget_ms = budget(p->g),
	};

	p->names = NO_ITEM;
	return scan_start(&p->scan, &o, err);
}

static int pass_add(struct pass *p, size_t item, const char *path, int fd,
		    struct cove_error *err)
{
	if (push(&p->items, &p->n, &p->room, item) < 0)
		return fail_nomem(err);
	return scan_add(p->scan, path, fd, err);
}

static int pass_finish(struct pass *p, struct cove_error *err)
{
	if (scan_finish(p->scan, on_finding, p, err) < 0)
		return err->code;
	return p->failed ? fail_nomem(err) : 0;
}

/* ---- what is scanned ------------------------------------------------------------ */

static bool is_open_giant(const struct gate *g, const struct gate_item *it)
{
	return it->size > g->max_file && !(g->config->accept && g->config->accept[0]);
}

static int add_contents(struct pass *p, struct cove_error *err)
{
	struct gate *g = p->g;

	for (size_t i = 0; i < g->n; i++) {
		const struct gate_item *it = &g->items[i];

		if (g->barred[i] || !item_has_content(it) || is_open_giant(g, it) ||
		    it->change->what & COVE_WHAT_UNREADABLE)
			continue;
		cleanup_fd int fd = gate_item_open(it);
		if (fd < 0 ? gate_found(g, RULE_UNREADABLE, i, NULL, strerror(-fd), err)
			   : pass_add(p, i, it->change->path, fd, err))
			return err->code;
	}
	return 0;
}

/* A line each; a newline in a name is a finding of its own. */
static int put_line(struct pass *p, struct buf *b, size_t item, const char *text)
{
	size_t at = b->len;

	if (buf_puts(b, text) < 0 || buf_puts(b, "\n") < 0)
		return -ENOMEM;
	for (; at + 1 < b->len; at++)
		if (b->data[at] == '\n')
			b->data[at] = '?';
	return push(&p->lines, &p->n_lines, &p->lines_room, item);
}

static bool is_new_name(const struct change *c)
{
	return c->kind == COVE_ADDED || c->kind == COVE_RENAMED;
}

/* Names of what has no content, and symlinks: the scanner looks at a file's own name. */
static int add_names(struct pass *p, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(NAMES_MAX);
	struct gate *g = p->g;
	cleanup_fd int fd = -1;
	int r = 0;

	for (size_t i = 0, k = 0; r == 0 && i < g->n; i++) {
		const struct gate_item *it = &g->items[i];

		if (k < p->n && p->items[k] == i) /* with a file goes its name */
			k++;
		else if (is_new_name(it->change))
			r = put_line(p, &text, i, it->change->path);
		if (r == 0 && S_ISLNK(it->mode) && it->target)
			r = put_line(p, &text, i, it->target);
	}
	if (r == 0 && text.len == 0)
		return 0;
	if (r == 0) {
		fd = memfd_create(NAMES, MFD_CLOEXEC);
		r = fd < 0 ? -errno : write_all(fd, text.data, text.len);
	}
	if (r < 0)
		return fail(err, r == -ENOMEM ? COVE_ENOMEM : COVE_EIO, -r, "scan names");
	p->names = p->n;
	return pass_add(p, NO_ITEM, NAMES, fd, err);
}

/* ---- what the host has already -------------------------------------------------- */

static bool same_secret(const struct hit *a, const struct hit *b)
{
	return a->item == b->item && strcmp(a->fingerprint, b->fingerprint) == 0 &&
	       strcmp(a->rule, b->rule) == 0 && strcmp(a->inner, b->inner) == 0;
}

static int compare_hits(const void *pa, const void *pb)
{
	const struct hit *a = pa, *b = pb;
	int r = (a->item > b->item) - (a->item < b->item);

	if (r == 0)
		r = strcmp(a->rule, b->rule);
	if (r == 0)
		r = strcmp(a->inner, b->inner);
	if (r == 0)
		r = strcmp(a->fingerprint, b->fingerprint);
	return r ? r : (a->line > b->line) - (a->line < b->line);
}

/* Both sorted: each of the host's stands for one of what lands. */
static void drop_known(struct pass *p, const struct pass *host)
{
	size_t k = 0;

	for (size_t i = 0; i < p->n_hits; i++) {
		while (k < host->n_hits &&
		       compare_hits(&host->hits[k], &p->hits[i]) < 0 &&
		       !same_secret(&host->hits[k], &p->hits[i]))
			k++;
		if (k < host->n_hits && same_secret(&host->hits[k], &p->hits[i])) {
			p->hits[i].dropped = true;
			k++;
		}
	}
}

static bool was_file(const struct gate_item *it)
{
	return S_ISREG(it->mode) && S_ISREG(it->change->old.mode) &&
	       it->change->kind != COVE_RENAMED;
}

static int drop_old_secrets(struct pass *p, struct cove_error *err)
{
	struct pass host = {.g = p->g};
	size_t last = NO_ITEM;
	int r = pass_start(&host, err);

	for (size_t i = 0; r == 0 && i < p->n_hits; i++) {
		size_t item = p->hits[i].item;

		if (item == last || item == NO_ITEM || !was_file(&p->g->items[item]))
			continue;
		last = item;
		cleanup_fd int fd =
			change_open_old(p->g->layers, p->g->items[item].change);
		if (fd >= 0) /* else it stays a finding */
			r = pass_add(&host, item, p->g->items[item].change->path, fd,
				     err);
	}
	if (r == 0 && host.n)
		r = pass_finish(&host, err);
	if (r == 0 && host.n_hits) {
		qsort(host.hits, host.n_hits, sizeof(*host.hits), compare_hits);
		drop_known(p, &host);
	}
	pass_clear(&host);
	return r;
}

/* ---- findings ------------------------------------------------------------------- */

/* What the scanner could not do: nothing accepts that. */
static const char *const failures[] = {"scan-failed", "scan-timeout"};
/* What it could not look into: the id holds for this very content. */
static const char *const opaque[] = {"archive-limit", "unreadable"};

static bool is_in(const char *rule, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(rule, list[i]) == 0)
			return true;
	return false;
}

/* The id holds while the same secret stays in the same file: nth tells equal ones apart.
 */
static int seal_hit(struct gate *g, const struct hit *h, size_t nth, struct buf *seal,
		    struct cove_error *err)
{
	unsigned char content[GATE_DIGEST] = {0};
	int r = buf_printf(seal, "%s %zu", h->fingerprint, nth);

	if (r == 0 && h->item < g->n &&
	    (!*h->fingerprint || is_in(h->rule, opaque, ARRAY_LEN(opaque)))) {
		if (gate_seal(g, h->item, content, err) < 0)
			return err->code;
		r = buf_append(seal, content, sizeof(content));
	}
	return r < 0 ? fail_nomem(err) : 0;
}

static int report_hit(struct gate *g, const struct hit *h, size_t nth,
		      struct cove_error *err)
{
	cleanup_buf struct buf seal = BUF_INIT(4096);
	struct gate_report r = {
		.rule = h->rule,
		.path = h->item < g->n ? g->items[h->item].change->path : "",
		.inner = h->inner,
		.why = h->what,
		.excerpt = h->excerpt,
		.item = h->item,
		.line = h->line,
	};

	if (seal_hit(g, h, nth, &seal, err) < 0)
		return err->code;
	if (is_in(h->rule, failures, ARRAY_LEN(failures)))
		r.flags = RULE_HARD;
	r.seal = seal.data;
	r.seal_len = seal.len;
	return gate_report(g, &r, err);
}

static int report_hits(struct pass *p, struct cove_error *err)
{
	size_t nth = 0;

	if (p->n_hits)
		qsort(p->hits, p->n_hits, sizeof(*p->hits), compare_hits);
	for (size_t i = 0; i < p->n_hits; i++) {
		nth = i && same_secret(&p->hits[i], &p->hits[i - 1]) ? nth + 1 : 0;
		if (!p->hits[i].dropped && report_hit(p->g, &p->hits[i], nth, err) < 0)
			return err->code;
	}
	return 0;
}

static int scan_all(struct pass *p, struct cove_error *err)
{
	if (pass_start(p, err) < 0 || add_contents(p, err) < 0 || add_names(p, err) < 0)
		return err->code;
	if (p->n == 0)
		return 0;
	if (pass_finish(p, err) < 0)
		return err->code;
	if (p->n_hits == 0)
		return 0;
	qsort(p->hits, p->n_hits, sizeof(*p->hits), compare_hits);
	return drop_old_secrets(p, err);
}

static bool is_anything_to_scan(const struct gate *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (item_lands(&g->items[i]))
			return true;
	return false;
}

int gate_check_secrets(struct gate *g, struct cove_error *err)
{
	struct pass p = {.g = g};
	struct cove_error why = {0};
	int r = 0;

	if (is_anything_to_scan(g)) {
		r = scan_all(&p, &why);
		/* What was found before it failed is told as well. */
		if (report_hits(&p, err) < 0)
			r = err->code;
		else if (r < 0)
			r = gate_found(g, RULE_SCAN_FAILED, NO_ITEM, "", why.msg, err);
	}
	pass_clear(&p);
	return r;
}
