/* SPDX-License-Identifier: Apache-2.0 */
/* apply - landing, taking back and dropping changes, by the name of a sandbox. */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/netfile.h"
#include "core/secret.h"
#include "core/trust.h"
#include "core/workspace.h"
#include "work/apply.h"

#include <fcntl.h>
#include <stdio.h>

#define RULES_MAX (4u << 20)
#define LOGGED_PATHS 200
#define PATH_MAX_LOGGED 8192

/* ---- what the audit log gets ---------------------------------------------------- */

struct watched {
	struct cove_apply_options given; /* the caller's */
	json_t *paths, *findings;
	uint64_t n; /* changes that were told */
	bool more;  /* than there are paths */
};

static json_t *path_json(const char *path)
{
	return audit_text(path, strlen(path), PATH_MAX_LOGGED);
}

static void note_path(struct watched *w, const char *source, const char *path)
{
	char full[PATH_MAX_LOGGED];

	w->n++;
	if (json_array_size(w->paths) >= LOGGED_PATHS) {
		w->more = true;
		return;
	}
	snprintf(full, sizeof(full), "%s/%s", source, path);
	if (json_array_append_new(w->paths, path_json(full)) < 0)
		w->more = true;
}

static void on_change(void *arg, const struct cove_change *c)
{
	struct watched *w = arg;

	note_path(w, c->source, c->path);
	if (w->given.change)
		w->given.change(w->given.arg, c);
}

static void on_finding(void *arg, const struct cove_finding *f)
{
	struct watched *w = arg;

	if (json_array_size(w->findings) < LOGGED_PATHS)
		json_array_append_new(w->findings,
				      json_pack("{s:s, s:s, s:o, s:I, s:b}", "id", f->id,
						"rule", f->rule, "path",
						path_json(f->path), "line",
						(json_int_t)f->line, "accepted",
						(f->flags & COVE_FINDING_ACCEPTED) != 0));
	if (w->given.finding)
		w->given.finding(w->given.arg, f);
}

static void on_conflict(void *arg, const struct cove_conflict *c)
{
	struct watched *w = arg;

	if (w->given.conflict)
		w->given.conflict(w->given.arg, c);
}

static void on_progress(void *arg, const char *what, uint64_t done, uint64_t all)
{
	struct watched *w = arg;

	if (w->given.progress)
		w->given.progress(w->given.arg, what, done, all);
}

static int on_choose(void *arg, const struct cove_change *c, int32_t hunk,
		     const char *text, size_t n)
{
	struct watched *w = arg;

	return w->given.choose(w->given.arg, c, hunk, text, n);
}

/* The caller's options, with ours in between. */
static struct cove_apply_options watch(struct watched *w)
{
	struct cove_apply_options mine = w->given;

	mine.change = on_change;
	mine.finding = on_finding;
	mine.conflict = on_conflict;
	mine.progress = on_progress;
	mine.choose = w->given.choose ? on_choose : NULL;
	mine.arg = w;
	return mine;
}

static void watched_init(struct watched *w)
{
	*w = (struct watched){.paths = json_array(), .findings = json_array()};
}

static void watched_clear(struct watched *w)
{
	json_decref(w->paths);
	json_decref(w->findings);
}

static const char *outcome(int r)
{
	return r == 0                ? "done"
	       : r == COVE_EFINDINGS ? "findings"
	       : r == COVE_ECONFLICT ? "conflict"
				     : "failed";
}

/* What cannot be recorded does not happen. */
static int log_begun(struct store *st, const char *name, const char *event,
		     struct cove_error *err)
{
	return audit_log(st, name, event, json_pack("{s:s}", "result", "begun"), err);
}

/* fields: stolen. */
static void log_end(struct store *st, const char *name, const char *event,
		    const struct watched *w, json_t *fields, int r)
{
	struct cove_error ignored = {0};
	json_t *o = json_pack("{s:s}", "result", outcome(r));

	json_object_update(o, fields);
	json_decref(fields);
	json_object_set(o, "paths", w->paths);
	json_object_set_new(o, "more", json_boolean(w->more));
	audit_log(st, name, event, o, &ignored);
}

static void log_outcome(struct store *st, const char *name, const char *event,
			const struct watched *w, const struct cove_apply_result *res,
			int r)
{
	struct cove_error ignored = {0};

	if (json_array_size(w->findings))
		audit_log(st, name, "gate", json_pack("{s:O}", "findings", w->findings),
			  &ignored);
	log_end(st, name, event, w,
		json_pack("{s:I, s:I, s:I, s:i}", "applied", (json_int_t)res->applied,
			  "merged", (json_int_t)res->merged, "bytes",
			  (json_int_t)res->bytes, "conflicts", (int)res->conflicts),
		r);
}

/* ---- the gate's configuration --------------------------------------------------- */

/* The user's own rules: the project's .gitleaks.toml if he trusted that exact content,
 * else the one in his configuration. A file that is there and cannot be read is an error:
 * fewer rules than asked for would pass more. */
static int read_rules(const char *dir, const char *file, bool trusted_only,
		      struct buf *out, struct cove_error *err)
{
	char path[4096];
	int r, n = snprintf(path, sizeof(path), "%s/%s", dir, file);

	if (n < 0 || (size_t)n >= sizeof(path))
		return 0;
	r = read_file_at(AT_FDCWD, path, out);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0) {
		if (trusted_only)
			return 0;
		return fail(err, COVE_EIO, -r, "%s", path);
	}
	if (trusted_only && !trust_has(path, out->data ? out->data : "", out->len))
		buf_clear(out);
	return 0;
}

static int find_rules(const struct workspace *w, struct buf *out, struct cove_error *err)
{
	char dir[4096];

	for (size_t i = 0; i < w->layers.n && !out->len; i++)
		if (read_rules(w->layers.v[i].source, ".gitleaks.toml", true, out, err) <
		    0)
			return err->code;
	if (!out->len && config_dir(dir, sizeof(dir)) == 0)
		return read_rules(dir, "gitleaks.toml", false, out, err);
	return 0;
}

/* ---- the calls ------------------------------------------------------------------ */

struct call {
	struct store store;
	struct workspace ws;
	struct work work;
};

static int begin(struct call *c, const char *name, uint32_t flags, struct cove_error *err)
{
	if (handle_store(&c->store, err) < 0)
		return err->code;
	if (workspace_open(&c->ws, &c->store, name, flags, err) < 0) {
		store_close(&c->store);
		return err->code;
	}
	c->work = (struct work){&c->ws.layers, c->ws.ledgers};
	return 0;
}

static void end(struct call *c)
{
	workspace_close(&c->ws);
	store_close(&c->store);
}

static int import(struct cove_apply_options *dst, const struct cove_apply_options *src,
		  struct cove_error *err)
{
	const uint32_t known = COVE_APPLY_DRY_RUN | COVE_APPLY_OVERWRITE;

	*dst = (struct cove_apply_options){.size = sizeof(*dst)};
	if (!src)
		return 0;
	if (options_import(dst, sizeof(*dst), sizeof(uint32_t) * 2, src, "apply options",
			   err) < 0)
		return err->code;
	return dst->flags & ~known ? fail(err, COVE_EINVAL, 0, "apply: unknown flag") : 0;
}

static void give(struct cove_apply_result *to, const struct cove_apply_result *from)
{
	uint32_t size = to ? to->size : 0;

	if (!to)
		return;
	if (size == 0 || size > sizeof(*to))
		size = sizeof(*to);
	memcpy(to, from, size);
	to->size = size;
}

/* What must not land, in any usual writing: the values of the sandbox's own secrets. */
struct exact {
	struct secrets *secrets;
	const char *value[SECRETS_MAX];
	size_t len[SECRETS_MAX];
};

static void add_exact(struct exact *x, struct call *c, struct gate_config *gate)
{
	x->secrets = secrets_known(&c->store, &c->ws.spec);
	for (size_t i = 0; x->secrets && i < x->secrets->n; i++) {
		x->value[i] = x->secrets->v[i].value;
		x->len[i] = x->secrets->v[i].n;
	}
	gate->secrets = x->value;
	gate->secret_lens = x->len;
	gate->n_secrets = x->secrets ? x->secrets->n : 0;
}

/* ---- apply and undo ------------------------------------------------------------- */

typedef int deed_fn(struct call *c, const struct cove_apply_options *o,
		    struct cove_apply_result *r, struct cove_error *err);

/* Recorded before and after, unless it is a dry run. */
static int recorded(struct call *c, const char *event, deed_fn *fn, struct watched *w,
		    struct cove_apply_result *res, struct cove_error *err)
{
	bool dry = w->given.flags & COVE_APPLY_DRY_RUN;
	struct cove_apply_options mine = watch(w);
	int e;

	if (!dry && log_begun(&c->store, c->ws.name, event, err) < 0)
		return err->code;
	e = fn(c, &mine, res, err);
	if (!dry)
		log_outcome(&c->store, c->ws.name, event, w, res, e);
	return e;
}

static int carry_out(const char *name, const char *event, deed_fn *fn,
		     const struct cove_apply_options *o, struct cove_apply_result *r,
		     struct cove_error *err)
{
	struct cove_apply_result res = {.size = sizeof(res)};
	struct watched w;
	struct call c;
	int e;

	watched_init(&w);
	e = import(&w.given, o, err);
	if (e == 0)
		e = begin(&c, name, WORKSPACE_WRITE, err);
	if (e == 0) {
		e = recorded(&c, event, fn, &w, &res, err);
		end(&c);
		give(r, &res);
	}
	watched_clear(&w);
	return e;
}

static int apply(struct call *c, const struct cove_apply_options *o,
		 struct cove_apply_result *r, struct cove_error *err)
{
	cleanup_buf struct buf rules = BUF_INIT(RULES_MAX);
	json_t *spec = netfile_gate(&c->ws.spec);
	struct gate_config gate = {.spec = spec, .accept = o->accept};
	struct exact exact;
	int e = find_rules(&c->ws, &rules, err);

	if (e < 0) {
		json_decref(spec);
		return e;
	}
	add_exact(&exact, c, &gate);
	gate.rules_toml = rules.data;
	gate.rules_len = rules.len;
	e = work_apply(&c->work, &gate, o, r, err);
	secrets_free(exact.secrets);
	json_decref(spec);
	return e;
}

static int undo(struct call *c, const struct cove_apply_options *o,
		struct cove_apply_result *r, struct cove_error *err)
{
	return work_undo(&c->work, o, r, err);
}

int cove_apply(const char *name, const struct cove_apply_options *o,
	       struct cove_apply_result *r, struct cove_error *err)
{
	return carry_out(name, "apply", apply, o, r, ERR(err));
}

int cove_undo(const char *name, const struct cove_apply_options *o,
	      struct cove_apply_result *r, struct cove_error *err)
{
	return carry_out(name, "undo", undo, o, r, ERR(err));
}

/* ---- discard -------------------------------------------------------------------- */

static int64_t discard(struct call *c, const char *const *paths, struct cove_error *err)
{
	struct watched w;
	int64_t n;

	watched_init(&w);
	n = work_discard(&c->work, paths, on_change, &w, err);
	log_end(&c->store, c->ws.name, "discard", &w,
		json_pack("{s:I, s:b}", "discarded", (json_int_t)w.n, "all", !paths),
		n < 0 ? (int)n : 0);
	watched_clear(&w);
	return n;
}

int64_t cove_discard(const char *name, const char *const *paths, struct cove_error *err)
{
	struct call c;
	int64_t n;

	err = ERR(err);
	if (begin(&c, name, WORKSPACE_STOPPED, err) < 0)
		return err->code;
	n = log_begun(&c.store, name, "discard", err);
	if (n == 0)
		n = discard(&c, paths && paths[0] ? paths : NULL, err);
	end(&c);
	return n;
}
