/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate_item - what each change is by itself: its type, mode, size, the spec's allow and
 * deny lists, and for a file what it begins with.
 */
#include "work/gate_impl.h"

#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>

#define KIB 1024.0

static const struct {
	uint32_t type;
	const char *name;
} specials[] = {
	{S_IFCHR,  "a character device"},
	{S_IFBLK,  "a block device"    },
	{S_IFIFO,  "a fifo"            },
	{S_IFSOCK, "a socket"          },
};

static int check_type(struct gate *g, size_t i, struct cove_error *err)
{
	uint32_t type = g->items[i].mode & S_IFMT;
	const char *name = "of an unknown type";

	if (type == S_IFREG || type == S_IFDIR || type == S_IFLNK)
		return 0;
	for (size_t k = 0; k < ARRAY_LEN(specials); k++)
		if (specials[k].type == type)
			name = specials[k].name;
	return gate_found(g, RULE_SPECIAL_FILE, i, NULL, name, err);
}

/* A directory made in a set-group-id one inherits that: it is the host's doing. */
static bool inherits_group(const struct gate *g, const struct change *c)
{
	const char *slash = strrchr(c->path, '/');
	cleanup_free char *above =
		slash ? strndup(c->path, (size_t)(slash - c->path)) : NULL;
	const struct node *d = above ? view_find(&g->view, c->layer, above) : NULL;
	struct stat st;

	if (S_ISDIR(c->old.mode) && (c->old.mode & S_ISGID))
		return true;
	if (slash)
		return d && S_ISDIR(d->mode) && (d->mode & S_ISGID);
	return fstat(g->layers->v[c->layer].lower, &st) == 0 && (st.st_mode & S_ISGID);
}

static int check_mode(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	bool dir = S_ISDIR(it->mode);

	if (S_ISLNK(it->mode))
		return 0;
	if ((it->mode & S_ISUID) ||
	    ((it->mode & S_ISGID) && !(dir && inherits_group(g, it->change)))) {
		if (gate_found(g, RULE_SETUID, i, NULL, NULL, err) < 0)
			return err->code;
	}
	if ((it->mode & S_ISVTX) && !dir)
		return gate_found(g, RULE_STICKY, i, NULL, NULL, err);
	return 0;
}

/* ---- sizes ---------------------------------------------------------------------- */

/* The length counts, not the blocks: a sparse giant is as large as it says. */
static int check_size(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	char text[64];

	if (!item_has_content(it) || it->size <= g->max_file)
		return 0;
	snprintf(text, sizeof(text), "%.1f MiB", (double)it->size / KIB / KIB);
	return gate_found(g, RULE_TOO_LARGE, i, NULL, text, err);
}

/* The id covers which files, how large, and what they are. */
static int check_total(struct gate *g, struct cove_error *err)
{
	cleanup_buf struct buf all = BUF_INIT((size_t)-1 / 2);
	uint64_t total = 0;
	char text[64];
	int r = 0;

	for (size_t i = 0; i < g->n; i++) {
		uint64_t n = item_has_content(&g->items[i]) ? g->items[i].size : 0;

		total = total > UINT64_MAX - n ? UINT64_MAX : total + n;
	}
	if (total <= g->max_total)
		return 0;
	for (size_t i = 0; r == 0 && i < g->n; i++) {
		unsigned char seal[GATE_DIGEST];

		if (!item_has_content(&g->items[i]))
			continue;
		if (gate_seal(g, i, seal, err) < 0)
			return err->code;
		r = buf_append(&all, seal, sizeof(seal));
	}
	if (r < 0)
		return fail_nomem(err);
	snprintf(text, sizeof(text), "%s: %.1f MiB", gate_rules[RULE_TOO_LARGE_TOTAL].why,
		 (double)total / KIB / KIB);
	return gate_report(g,
			   &(struct gate_report){
				   .rule = gate_rules[RULE_TOO_LARGE_TOTAL].id,
				   .path = "",
				   .why = text,
				   .item = NO_ITEM,
				   .seal = all.data,
				   .seal_len = all.len,
			   },
			   err);
}

/* ---- the spec's lists ----------------------------------------------------------- */

static const char *matching(const json_t *list, const char *path)
{
	size_t k;
	json_t *v;

	json_array_foreach(list, k, v)
	{
		const char *pattern = json_string_value(v);

		if (pattern && path_match(pattern, path))
			return pattern;
	}
	return NULL;
}

static int check_lists(struct gate *g, size_t i, const char *path, struct cove_error *err)
{
	const json_t *spec = g->config->spec;
	const json_t *allow = spec ? json_object_get(spec, "allow") : NULL;
	const json_t *deny = spec ? json_object_get(spec, "deny") : NULL;
	const char *by = matching(deny, path);
	/* A new directory is only the way to what is allowed in it. */
	bool way = g->items[i].change->kind == COVE_ADDED && S_ISDIR(g->items[i].mode);

	if (by && gate_found(g, RULE_DENIED, i, path, by, err) < 0)
		return err->code;
	if (allow && !way && !matching(allow, path))
		return gate_found(g, RULE_NOT_ALLOWED, i, path, NULL, err);
	return 0;
}

/* ---- all of it ------------------------------------------------------------------ */

static int check_one(struct gate *g, size_t i, struct cove_error *err)
{
	const struct gate_item *it = &g->items[i];
	const struct change *c = it->change;

	if (check_lists(g, i, c->path, err) < 0 ||
	    (c->from && check_lists(g, i, c->from, err) < 0))
		return err->code;
	if (c->what & COVE_WHAT_UNREADABLE)
		return gate_found(g, RULE_UNREADABLE, i, NULL, *c->why ? c->why : NULL,
				  err);
	if (!item_lands(it))
		return 0;
	if (check_type(g, i, err) < 0 || check_mode(g, i, err) < 0 ||
	    check_size(g, i, err) < 0)
		return err->code;
	if (S_ISLNK(it->mode))
		return gate_check_symlink(g, i, err);
	return S_ISREG(it->mode) ? gate_check_content(g, i, err) : 0;
}

int gate_check_items(struct gate *g, struct cove_error *err)
{
	for (size_t i = 0; i < g->n; i++)
		if (!g->barred[i] && check_one(g, i, err) < 0)
			return err->code;
	return check_total(g, err);
}
