/* SPDX-License-Identifier: Apache-2.0 */
/* apply - from the list of changes to a host that has them, all or none. */
#include "work/apply_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>

#define MIB ((uint64_t)1 << 20)

static void tell(const struct apply *a, const char *what, uint64_t done, uint64_t all)
{
	if (a->o->progress)
		a->o->progress(a->o->arg, what, done, all);
}

static void apply_clear(struct apply *a)
{
	changes_clear(&a->changes);
	free(a->items);
	if (a->landing.sites)
		landing_close(&a->landing);
	journal_clear(&a->j);
}

/* ---- phases --------------------------------------------------------------------- */

int phase(int record, const char *from, const char *to, struct cove_error *err)
{
	if (renameat(record, from, record, to) < 0 || fsync(record) < 0)
		return fail(err, COVE_EIO, errno, "%s", to);
	return 0;
}

/* Everything that was prepared goes away; the host was not touched. While a stage cannot
 * be removed, the directory that makes the next command try again stays. */
static void drop_prepared(struct apply *a)
{
	int r = 0;

	for (size_t i = 0; i < a->j.n_layers; i++)
		r |= remove_tree_at(a->landing.sites[i].lower, a->j.stage);
	if (r == 0)
		remove_tree_at(a->w->layers->record, DIR_PREP);
}

static int name_layers(struct apply *a, struct cove_error *err)
{
	const struct layers *l = a->w->layers;

	a->j.layers = calloc(l->n + 1, sizeof(*a->j.layers));
	if (!a->j.layers)
		return fail_nomem(err);
	for (size_t i = 0; i < l->n; i++) {
		struct journal_layer *to = &a->j.layers[i];

		snprintf(to->name, sizeof(to->name), "%s", l->v[i].name);
		to->source = strdup(l->v[i].source);
		if (!to->source)
			return fail_nomem(err);
		a->j.n_layers++;
	}
	stage_dir_name(l->record, a->j.stage);
	return 0;
}

/* ---- judging -------------------------------------------------------------------- */

static int stage_all(struct apply *a, struct cove_error *err)
{
	for (size_t i = 0; i < a->changes.n; i++) {
		if (stage_change(a, i, err) < 0)
			return err->code;
		if (i % 256 == 0)
			tell(a, "copy", i, a->changes.n);
	}
	return 0;
}

static void report_conflict(struct apply *a, const struct change *c, const char *why)
{
	struct cove_conflict pub = {sizeof(pub), a->w->layers->v[c->layer].source,
				    c->path, why};

	a->r->conflicts++;
	if (a->o->conflict)
		a->o->conflict(a->o->arg, &pub);
}

static int check_conflict(struct apply *a, size_t i, struct cove_error *err)
{
	const struct change *c = &a->changes.v[i];
	struct item *it = &a->items[i];
	cleanup_buf struct buf merged = BUF_INIT(64 * MIB);
	char why[200] = "";
	int r = ident_at(a->w->layers->v[c->layer].lower, c->path, &it->now);

	if (r < 0)
		return fail(err, COVE_EIO, -r, "%s", c->path);
	/* Its content is only of interest where the host has something, too. */
	cleanup_fd int fd = it->now.mode && it->staged && S_ISREG(c->new.mode)
				    ? stage_open_staged(a, i)
				    : -1;
	if (conflict_check(a->w->layers, a->w->ledgers[c->layer], &a->changes, c, fd,
			   &it->now, &it->verdict, &merged, why, sizeof(why), err) < 0)
		return err->code;
	if (it->verdict == VERDICT_CONFLICT && a->o->flags & COVE_APPLY_OVERWRITE &&
	    !(S_ISDIR(it->now.mode) && !S_ISDIR(c->new.mode)))
		it->verdict = VERDICT_CLEAN;
	if (it->verdict == VERDICT_CONFLICT)
		report_conflict(a, c, why);
	if (it->verdict != VERDICT_MERGE)
		return 0;
	a->r->merged++;
	return stage_content(a, i, merged.data ? merged.data : "", merged.len, err);
}

static int check_conflicts(struct apply *a, struct cove_error *err)
{
	for (size_t i = 0; i < a->changes.n; i++)
		if (a->items[i].take && check_conflict(a, i, err) < 0)
			return err->code;
	return 0;
}

static void report_findings(struct apply *a, const struct findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *v = &f->v[i];
		struct cove_finding pub = {
			sizeof(pub), v->flags, v->id,
			v->rule,     v->path,  v->inner ? v->inner : "",
			v->line,     v->why,   v->excerpt ? v->excerpt : ""};

		if (a->o->finding)
			a->o->finding(a->o->arg, &pub);
	}
	a->r->findings = (uint32_t)f->open;
}

/* Only files have content that counts. */
static uint64_t content_size(const struct apply *a, size_t i)
{
	const struct ident *new = &a->changes.v[i].new;

	if (!S_ISREG(new->mode))
		return 0;
	return a->items[i].staged ? a->items[i].landed.size : new->size;
}

static int judge(struct apply *a, const struct gate_config *gate, struct cove_error *err)
{
	cleanup_free struct gate_item *items = calloc(a->changes.n + 1, sizeof(*items));
	struct findings found = {0};
	size_t n = 0;
	int r;

	if (!items)
		return fail_nomem(err);
	for (size_t i = 0; i < a->changes.n; i++) {
		const struct change *c = &a->changes.v[i];

		if (!a->items[i].take)
			continue;
		items[n] = (struct gate_item){
			.change = c,
			.dir = -1,
			.mode = c->new.mode,
			.size = content_size(a, i),
			.target = c->new_target,
		};
		if (a->items[i].staged && S_ISREG(c->new.mode)) {
			items[n].dir = a->landing.sites[c->layer].stage;
			stage_name(items[n].name, (uint32_t)i);
		}
		a->r->bytes += items[n].size;
		n++;
	}
	tell(a, "scan", 0, a->r->bytes);
	r = gate_run(a->w->layers, gate, items, n, &found, err);
	if (r == 0)
		report_findings(a, &found);
	findings_clear(&found);
	return r;
}

static int verdict(const struct apply *a, struct cove_error *err)
{
	if (a->r->findings) {
		fail(err, COVE_EFINDINGS, 0,
		     "the gate has %u finding%s; nothing was applied", a->r->findings,
		     a->r->findings == 1 ? "" : "s");
		return hint(err,
			    "--accept ID lets one finding pass; or name the paths that "
			    "are to be applied");
	}
	if (a->r->conflicts) {
		fail(err, COVE_ECONFLICT, 0,
		     "%u path%s changed on the host too; nothing was applied",
		     a->r->conflicts, a->r->conflicts == 1 ? " was" : "s were");
		return hint(err,
			    "--overwrite takes the sandbox's version; or name the paths "
			    "that are to be applied");
	}
	return 0;
}

/* ---- landing -------------------------------------------------------------------- */

static int write_journal(struct apply *a, struct cove_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(JOURNAL_MAX);
	cleanup_fd int dir = openat(a->w->layers->record, DIR_PREP,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = dir < 0 ? -errno : journal_print(&a->j, &text);

	if (r == 0)
		r = write_file_atomic(dir, JOURNAL_FILE, text.data, text.len, 0600, 1);
	return r < 0 ? fail(err, COVE_EIO, -r, "journal") : 0;
}

/* Forward; if that is not possible, all the way back. */
static int land(struct apply *a, struct cove_error *err)
{
	int record = a->w->layers->record;
	struct cove_error back = {0};

	if (phase(record, DIR_PREP, DIR_GO, err) < 0)
		return err->code;
	tell(a, "land", 0, a->j.n);
	a->landing.fresh = true;
	if (landing_run(&a->landing, true, err) == 0 &&
	    landing_sync(&a->landing, err) == 0)
		return phase(record, DIR_GO, DIR_DONE, err);
	if (landing_run(&a->landing, false, &back) == 0 &&
	    landing_sync(&a->landing, &back) == 0 &&
	    undo_note_back(a->w, &a->j, NULL, NULL, &back) == 0 &&
	    phase(record, DIR_GO, DIR_PREP, &back) == 0) {
		drop_prepared(a);
		return err->code;
	}
	hint(err,
	     "taking it back failed too (%.120s); the next cove command goes on with it",
	     back.msg);
	return err->code;
}

static void report_landed(struct apply *a)
{
	for (size_t i = 0; i < a->changes.n; i++) {
		struct cove_change pub;

		if (!a->items[i].take) {
			a->r->left++;
			continue;
		}
		a->r->applied++;
		a->r->left += !a->items[i].whole;
		change_export(a->w->layers, &a->changes.v[i], &pub);
		if (a->o->change)
			a->o->change(a->o->arg, &pub);
	}
}

/* Up to where nothing on the host is touched; DIR_PREP and stages may be left. */
static int prepare(struct apply *a, const struct gate_config *gate,
		   struct cove_error *err)
{
	if (mkdirat(a->w->layers->record, DIR_PREP, 0700) < 0)
		return fail(err, COVE_EIO, errno, "%s", DIR_PREP);
	for (size_t i = 0; i < a->j.n_layers; i++) /* a power cut may have left one */
		remove_tree_at(a->landing.sites[i].lower, a->j.stage);
	if (stage_all(a, err) < 0 || choose_changes(a, err) < 0)
		return err->code;
	choose_close(a);
	if (check_conflicts(a, err) < 0 || judge(a, gate, err) < 0 || verdict(a, err) < 0)
		return err->code;
	return steps_build(a, err);
}

static int commit(struct apply *a, struct cove_error *err)
{
	if (stage_sync(a, err) < 0 || write_journal(a, err) < 0) {
		drop_prepared(a);
		return err->code;
	}
	if (land(a, err) < 0)
		return err->code;
	return finish_apply(a->w, &a->j, err);
}

static uint64_t largest_file(const struct gate_config *g)
{
	json_t *v = g->spec ? json_object_get(g->spec, "maxFileMiB") : NULL;

	if (g->accept && g->accept[0]) /* the size may be what was accepted */
		return UINT64_MAX;
	return (v ? (uint64_t)json_integer_value(v) : 10) * MIB;
}

/* Changes that the paths do not name stay in the sandbox. */
static int count_unnamed(struct apply *a, struct cove_error *err)
{
	struct changes all = {0};
	int e = changes_list(&all, a->w->layers, a->w->ledgers, NULL, CHANGES_NO_RENAMES,
			     err);

	if (e == 0 && all.n > a->changes.n)
		a->r->left = all.n - a->changes.n;
	changes_clear(&all);
	return e;
}

int work_apply(const struct work *w, const struct gate_config *gate,
	       const struct cove_apply_options *o, struct cove_apply_result *r,
	       struct cove_error *err)
{
	struct apply a = {.w = w, .o = o, .r = r, .landing = {.parent = -1}};
	int e;

	a.max_file = largest_file(gate);
	e = changes_list(&a.changes, w->layers, w->ledgers, o->paths, CHANGES_NO_RENAMES,
			 err);
	if (e == 0 && o->paths)
		e = count_unnamed(&a, err);
	if (e == 0 && a.changes.n) {
		a.items = calloc(a.changes.n, sizeof(*a.items));
		e = a.items ? name_layers(&a, err) : fail_nomem(err);
	}
	if (e == 0 && a.changes.n)
		e = landing_open(&a.landing, &a.j, err);
	if (e == 0 && a.changes.n) {
		e = prepare(&a, gate, err);
		if (e < 0 || o->flags & COVE_APPLY_DRY_RUN || a.j.n == 0)
			drop_prepared(&a);
		else
			e = commit(&a, err);
	}
	if (e == 0)
		report_landed(&a);
	apply_clear(&a);
	return e;
}
