/* SPDX-License-Identifier: Apache-2.0 */
/* apply - landing, taking back and dropping changes, by the name of a sandbox. */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"
#include "core/audit.h"
#include "core/trust.h"
#include "core/workspace.h"
#include "work/apply.h"

#include <fcntl.h>
#include <stdio.h>

#define RULES_MAX (4u << 20)
#define LOGGED_PATHS 200

/* ---- what the audit log gets ---------------------------------------------------- */

struct watched {
	const struct cove_apply_options *o; /* the caller's */
	json_t *paths, *findings;
	bool more;
};

/* A name may be any bytes; JSON takes UTF-8 only. */
static json_t *text_json(const char *s)
{
	cleanup_buf struct buf ascii = BUF_INIT(4 * 8192 + 16);
	json_t *j = json_string(s);

	for (; !j && *s; s++)
		if (*s > ' ' && *s < 0x7f
			    ? buf_append(&ascii, s, 1)
			    : buf_printf(&ascii, "\\x%02x", (unsigned char)*s))
			break;
	return j ? j : json_string(ascii.data ? ascii.data : "?");
}

static void note_path(struct watched *w, const char *source, const char *path)
{
	char full[8192];

	if (json_array_size(w->paths) >= LOGGED_PATHS) {
		w->more = true;
		return;
	}
	snprintf(full, sizeof(full), "%s/%s", source, path);
	if (json_array_append_new(w->paths, text_json(full)) < 0)
		w->more = true;
}

static void on_change(void *arg, const struct cove_change *c)
{
	struct watched *w = arg;

	note_path(w, c->source, c->path);
	if (w->o->change)
		w->o->change(w->o->arg, c);
}

static void on_finding(void *arg, const struct cove_finding *f)
{
	struct watched *w = arg;

	if (json_array_size(w->findings) < LOGGED_PATHS)
		json_array_append_new(w->findings,
				      json_pack("{s:s, s:s, s:o, s:I, s:b}", "id", f->id,
						"rule", f->rule, "path",
						text_json(f->path), "line",
						(json_int_t)f->line, "accepted",
						(f->flags & COVE_FINDING_ACCEPTED) != 0));
	if (w->o->finding)
		w->o->finding(w->o->arg, f);
}

static void on_conflict(void *arg, const struct cove_conflict *c)
{
	struct watched *w = arg;

	if (w->o->conflict)
		w->o->conflict(w->o->arg, c);
}

static void on_progress(void *arg, const char *what, uint64_t done, uint64_t all)
{
	struct watched *w = arg;

	if (w->o->progress)
		w->o->progress(w->o->arg, what, done, all);
}

static int on_choose(void *arg, const struct cove_change *c, int32_t hunk,
		     const char *text, size_t n)
{
	struct watched *w = arg;

	return w->o->choose(w->o->arg, c, hunk, text, n);
}

/* The caller's options, with ours in between. */
static struct cove_apply_options watch(struct watched *w,
				       const struct cove_apply_options *o)
{
	struct cove_apply_options mine = *o;

	*w = (struct watched){.o = o, .paths = json_array(), .findings = json_array()};
	mine.change = on_change;
	mine.finding = on_finding;
	mine.conflict = on_conflict;
	mine.progress = on_progress;
	mine.choose = o->choose ? on_choose : NULL;
	mine.arg = w;
	return mine;
}

static const char *outcome(int r)
{
	return r == 0                ? "done"
	       : r == COVE_EFINDINGS ? "findings"
	       : r == COVE_ECONFLICT ? "conflict"
				     : "failed";
}

static void log_outcome(struct store *st, const char *name, const char *event,
			struct watched *w, const struct cove_apply_result *res, int r)
{
	struct cove_error ignored = {0};

	if (json_array_size(w->findings))
		audit_log(st, name, "gate", json_pack("{s:O}", "findings", w->findings),
			  &ignored);
	audit_log(st, name, event,
		  json_pack("{s:s, s:I, s:I, s:I, s:i, s:O, s:b}", "result", outcome(r),
			    "applied", (json_int_t)res->applied, "merged",
			    (json_int_t)res->merged, "bytes", (json_int_t)res->bytes,
			    "conflicts", (int)res->conflicts, "paths", w->paths, "more",
			    w->more),
		  &ignored);
	json_decref(w->paths);
	json_decref(w->findings);
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

int cove_apply(const char *name, const struct cove_apply_options *o,
	       struct cove_apply_result *r, struct cove_error *err)
{
	struct cove_apply_result res = {.size = sizeof(res)};
	struct cove_apply_options mine, given;
	cleanup_buf struct buf rules = BUF_INIT(RULES_MAX);
	struct gate_config gate = {0};
	struct watched w;
	struct call c;
	int e;

	err = ERR(err);
	if (import(&given, o, err) < 0 || begin(&c, name, WORKSPACE_WRITE, err) < 0)
		return err->code;
	e = find_rules(&c.ws, &rules, err);
	gate.spec = c.ws.spec.gate;
	gate.accept = given.accept;
	gate.rules_toml = rules.data;
	gate.rules_len = rules.len;
	/* An apply that cannot be recorded does not happen. */
	if (e == 0 && !(given.flags & COVE_APPLY_DRY_RUN))
		e = audit_log(&c.store, name, "apply",
			      json_pack("{s:s}", "result", "begun"), err);
	if (e == 0) {
		mine = watch(&w, &given);
		e = work_apply(&c.work, &gate, &mine, &res, err);
		if (given.flags & COVE_APPLY_DRY_RUN) {
			json_decref(w.paths);
			json_decref(w.findings);
		} else {
			log_outcome(&c.store, name, "apply", &w, &res, e);
		}
	}
	end(&c);
	give(r, &res);
	return e;
}

int cove_undo(const char *name, const struct cove_apply_options *o,
	      struct cove_apply_result *r, struct cove_error *err)
{
	struct cove_apply_result res = {.size = sizeof(res)};
	struct cove_apply_options mine, given;
	struct watched w;
	struct call c;
	int e;

	err = ERR(err);
	if (import(&given, o, err) < 0 || begin(&c, name, WORKSPACE_WRITE, err) < 0)
		return err->code;
	mine = watch(&w, &given);
	e = work_undo(&c.work, &mine, &res, err);
	if (given.flags & COVE_APPLY_DRY_RUN) {
		json_decref(w.paths);
		json_decref(w.findings);
	} else {
		log_outcome(&c.store, name, "undo", &w, &res, e);
	}
	end(&c);
	give(r, &res);
	return e;
}

int64_t cove_discard(const char *name, const char *const *paths, struct cove_error *err)
{
	struct call c;
	int64_t n;

	err = ERR(err);
	if (begin(&c, name, WORKSPACE_STOPPED, err) < 0)
		return err->code;
	n = audit_log(&c.store, name, "discard",
		      json_pack("{s:b}", "all", !paths || !paths[0]), err);
	if (n == 0)
		n = work_discard(&c.work, paths && paths[0] ? paths : NULL, err);
	end(&c);
	return n;
}
