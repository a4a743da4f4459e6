/* SPDX-License-Identifier: Apache-2.0 */
/* spec - the operations on a whole spec; each is a walk over the tables of schema.c. */
#include "spec/spec.h"

#include "base/util.h"
#include "spec/bind.h"

static const struct field whole = {
	.key = "spec", .kind = &kind_object, .arg = &spec_object};

void spec_init(struct spec *s)
{
	*s = (struct spec){0};
	s->exec.user = spec_default_user;
	s->exec.workdir = spec_default_workdir;
	s->resources.memory_bytes = 2048ull << 20;
	s->resources.cpus_milli = 2000;
	s->resources.disk_bytes = 20ull << 30;
	s->resources.pids = 512;
}

void spec_clear(struct spec *s)
{
	kind_object.clear(&whole, s);
	spec_init(s);
}

int spec_copy(struct spec *dst, const struct spec *src, struct cove_error *err)
{
	struct spec s = {.given = src->given};

	s.resources.set = src->resources.set;
	if (kind_object.copy(&whole, &s, src) < 0) {
		spec_clear(&s);
		return fail_nomem(err);
	}
	*dst = s;
	return 0;
}

int spec_merge(struct spec *s, const struct spec *changes, struct cove_error *err)
{
	struct spec copy;

	if (spec_copy(&copy, s, err) < 0)
		return err->code;
	if (kind_object.merge(&whole, &copy, changes) < 0) {
		spec_clear(&copy);
		return fail_nomem(err);
	}
	spec_clear(s);
	*s = copy;
	return 0;
}

json_t *spec_json(const struct spec *s, bool explicit_only)
{
	return kind_object.dump(&whole, s, explicit_only);
}

int bind_spec(struct bind *b, struct spec *s, const struct node *root,
	      struct buf *problems, struct cove_error *err)
{
	struct spec copy;
	int r;

	if (spec_copy(&copy, s, err) < 0)
		return err->code;
	if (root)
		bind_object(b, &spec_object, &copy, root);
	r = problems_report(b->p, problems, err);
	if (r < 0) {
		spec_clear(&copy);
		return r;
	}
	spec_clear(s);
	*s = copy;
	return 0;
}

int spec_parse(struct spec *s, const char *text, size_t len, const char *name,
	       struct buf *problems, struct cove_error *err)
{
	cleanup_problems struct problems p = {.file = name};
	cleanup_tree struct tree tree;
	struct bind b = {.p = &p};

	if (!tree_read(&tree, text, len, &p))
		return problems_report(&p, problems, err);
	return bind_spec(&b, s, tree.root, problems, err);
}

/* A dotted name as the nested map that a file would have: every part but the last is a
 * map with one key. */
int spec_set(struct spec *s, const char *key, const char *value, struct cove_error *err)
{
	cleanup_problems struct problems p = {0};
	cleanup_free char *path = strdup(key);
	struct node nodes[6] = {
		{.type = NODE_MAP, .n = 1}
        };
	struct bind b = {.p = &p, .append = true};
	char *part = path;
	size_t depth = 0, at;
	const char *why;

	if (!path)
		return fail_nomem(err);
	why = value ? text_problem(value, strlen(value), &at) : NULL;
	if (why)
		return fail(err, COVE_EINVAL, 0, "%s: %s in the value", key, why);
	if (value && strlen(value) > SPEC_STR_MAX)
		return fail(err, COVE_EINVAL, 0, "%s: longer than %d bytes", key,
			    SPEC_STR_MAX);
	while (part) {
		struct node *up = &nodes[depth++], *n = up + 1;

		if (depth == ARRAY_LEN(nodes))
			return fail(err, COVE_EINVAL, 0, "unknown key '%.80s'", key);
		*n = (struct node){.key = strsep(&part, "."), .type = NODE_MAP, .n = 1};
		up->first = n;
	}
	nodes[depth].type = value ? NODE_SCALAR : NODE_NULL;
	nodes[depth].text = value;
	nodes[depth].n = 0;
	return bind_spec(&b, s, &nodes[0], NULL, err);
}
