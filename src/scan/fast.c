/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fast - Hyperscan: the built-in rules as a database made at build time, the user's
 * compiled at start. Without Hyperscan nothing is taken and PCRE2 does it all.
 */
#include "scan/engine_impl.h"

#include "base/util.h"

#ifdef SCAN_HYPERSCAN
#include "scan_db.h"

#include <hs/hs.h>
#include <limits.h>

enum { BUILT_IN, USERS };

static int no_engine(struct cove_error *err, hs_error_t r)
{
	return fail(err, COVE_EUNSUPPORTED, 0, "Hyperscan: error %d", r);
}

/* The best database that this processor can run. Its patterns are numbered as in the
 * built-in file. */
static int open_built_in(struct engine *e, bool *taken, struct cove_error *err)
{
	hs_database_t *db = NULL;
	bool any = false;

	for (size_t i = 0; i < e->rules.n; i++) {
		int32_t id = e->rules.rule[i].built_in;

		if (id < 0 || id >= SCAN_DB_RULES || !scan_db_has[id])
			continue;
		taken[i] = any = true;
		e->by_built_in[id] = i;
	}
	if (!any)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(scan_dbs) && !db; i++)
		if (hs_deserialize_database(scan_dbs[i].start,
					    (size_t)(scan_dbs[i].end - scan_dbs[i].start),
					    &db) != HS_SUCCESS)
			db = NULL;
	if (!db)
		return no_engine(err, HS_DB_PLATFORM_ERROR);
	e->fast[BUILT_IN] = db;
	return 0;
}

/* One pattern that it refuses must not cost the others: then that one goes to PCRE2. */
static bool drop_refused(const char **text, unsigned *id, unsigned *n, bool *taken,
			 const hs_compile_error_t *why)
{
	unsigned at = why && why->expression >= 0 ? (unsigned)why->expression : UINT_MAX;

	if (at >= *n)
		return false;
	taken[id[at]] = false;
	memmove(text + at, text + at + 1, (*n - at - 1) * sizeof(*text));
	memmove(id + at, id + at + 1, (*n - at - 1) * sizeof(*id));
	(*n)--;
	return *n > 0;
}

static int open_users(struct engine *e, bool *taken, struct cove_error *err)
{
	cleanup_free const char **text = calloc(e->rules.n + 1, sizeof(*text));
	cleanup_free unsigned *id = calloc(e->rules.n + 1, sizeof(*id));
	cleanup_free unsigned *flags = calloc(e->rules.n + 1, sizeof(*flags));
	hs_compile_error_t *why = NULL;
	hs_database_t *db = NULL;
	bool again = true;
	unsigned n = 0;

	if (!text || !id || !flags)
		return fail_nomem(err);
	for (size_t i = 0; i < e->rules.n; i++) {
		struct rule *r = &e->rules.rule[i];

		if (taken[i] || r->off || !r->regex.source)
			continue;
		if (pattern_check(&r->regex, err) < 0)
			return wrap(err, "rule %s", r->id);
		if (!r->regex.re.hs)
			continue;
		taken[i] = true;
		text[n] = r->regex.re.hs;
		id[n++] = (unsigned)i;
	}
	while (n && again &&
	       hs_compile_multi(text, flags, id, n, HS_MODE_BLOCK, NULL, &db, &why) !=
		       HS_SUCCESS) {
		again = drop_refused(text, id, &n, taken, why);
		hs_free_compile_error(why);
		why = NULL;
	}
	for (unsigned i = 0; !db && i < n; i++)
		taken[id[i]] = false;
	e->fast[USERS] = db;
	return 0;
}

int fast_open(struct engine *e, bool *taken, struct cove_error *err)
{
	e->by_built_in = calloc(SCAN_DB_RULES + 1, sizeof(*e->by_built_in));
	if (!e->by_built_in)
		return fail_nomem(err);
	for (size_t i = 0; i < SCAN_DB_RULES; i++)
		e->by_built_in[i] = SIZE_MAX;
	if (hs_valid_platform() != HS_SUCCESS)
		return 0;
	if (open_built_in(e, taken, err) < 0 || open_users(e, taken, err) < 0)
		return err->code;
	for (size_t i = 0; i < ARRAY_LEN(e->fast); i++) {
		hs_scratch_t *s = e->scratch;
		hs_error_t r = e->fast[i] ? hs_alloc_scratch(e->fast[i], &s) : HS_SUCCESS;

		if (r != HS_SUCCESS)
			return no_engine(err, r);
		e->scratch = s;
	}
	return 0;
}

static int on_built_in(unsigned id, unsigned long long from, unsigned long long to,
		       unsigned flags, void *arg)
{
	struct engine *e = arg;

	(void)from;
	(void)flags;
	if (id < SCAN_DB_RULES && e->by_built_in[id] != SIZE_MAX)
		engine_confirm(e, e->by_built_in[id], to);
	return 0;
}

static int on_users(unsigned id, unsigned long long from, unsigned long long to,
		    unsigned flags, void *arg)
{
	(void)from;
	(void)flags;
	engine_confirm(arg, id, to);
	return 0;
}

void fast_scan(struct engine *e, const char *text, size_t len)
{
	static const match_event_handler handler[] = {on_built_in, on_users};

	for (size_t i = 0; i < ARRAY_LEN(e->fast); i++)
		if (e->fast[i] && hs_scan(e->fast[i], text, (unsigned)len, 0, e->scratch,
					  handler[i], e) != HS_SUCCESS)
			engine_give_up(e, "Hyperscan", 0);
}

void fast_close(struct engine *e)
{
	hs_free_scratch(e->scratch);
	for (size_t i = 0; i < ARRAY_LEN(e->fast); i++)
		hs_free_database(e->fast[i]);
	free(e->by_built_in);
}

#else

int fast_open(struct engine *e, bool *taken, struct cove_error *err)
{
	(void)e;
	(void)taken;
	(void)err;
	return 0;
}

void fast_scan(struct engine *e, const char *text, size_t len)
{
	(void)e;
	(void)text;
	(void)len;
}

void fast_close(struct engine *e)
{
	(void)e;
}

#endif
