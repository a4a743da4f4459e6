/* SPDX-License-Identifier: Apache-2.0 */
/* scalars - kinds of single values: words, strings, sizes, times, counts. */
#include "spec/bind.h"
#include "spec/units.h"

#include "base/util.h"

#define AT(type, s, f) ((type *)(void *)((char *)(s) + (f)->offset))
#define AT_CONST(type, s, f) \
	((type const *)(const void *)((const char *)(s) + (f)->offset))

/* ---- objects: every operation, on each key -------------------------------------- */

static void object_bind(struct bind *b, const struct field *f, void *base,
			const struct node *n)
{
	bind_object(b, f->arg, base, n);
}

static void object_clear(const struct field *f, struct spec *s)
{
	const struct object *o = f->arg;

	for (size_t i = 0; i < o->n; i++)
		if (o->fields[i].kind->clear)
			o->fields[i].kind->clear(&o->fields[i], s);
}

/* On failure the rest is left as it is: dst holds no half copies, only fewer. */
static int object_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	const struct object *o = f->arg;
	int r = 0;

	for (size_t i = 0; i < o->n && r == 0; i++)
		r = o->fields[i].kind->copy(&o->fields[i], dst, src);
	return r;
}

static int object_merge(const struct field *f, struct spec *dst, const struct spec *src)
{
	const struct object *o = f->arg;
	struct spec defaults;
	int r = 0;

	spec_init(&defaults);
	for (size_t i = 0; i < o->n && r == 0; i++) {
		const struct field *g = &o->fields[i];
		const struct kind *k = g->kind;
		bool take = g->limit ? (src->resources.set & g->limit) != 0
				     : k == &kind_object || (src->given & g->given) ||
					       !k->same(g, src, &defaults);

		if (!take)
			continue;
		if (!k->merge && k->clear)
			k->clear(g, dst);
		r = k->merge ? k->merge(g, dst, src) : k->copy(g, dst, src);
		dst->resources.set |= g->limit;
		dst->given |= g->given;
	}
	return r;
}

static bool object_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	const struct object *o = f->arg;

	for (size_t i = 0; i < o->n; i++)
		if (!o->fields[i].kind->same(&o->fields[i], a, b))
			return false;
	return true;
}

static json_t *object_dump(const struct field *f, const struct spec *s,
			   bool explicit_only)
{
	const struct object *o = f->arg;
	json_t *out = json_object();

	for (size_t i = 0; i < o->n && out; i++) {
		const struct field *g = &o->fields[i];
		json_t *v;

		if (explicit_only && g->limit && !(s->resources.set & g->limit))
			continue;
		v = g->kind->dump(g, s, explicit_only);
		if (!v || (!json_is_null(v) && json_object_set(out, g->key, v) < 0)) {
			json_decref(out);
			out = NULL;
		}
		json_decref(v);
	}
	return out;
}

const struct kind kind_object = {
	object_bind, object_clear, object_copy, object_same, object_dump, object_merge,
};

/* ---- enum ----------------------------------------------------------------------- */

static void enum_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	int v = bind_enum(b, n, f->arg);

	if (v >= 0)
		*AT(int, base, f) = v;
}

static int enum_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	*AT(int, dst, f) = *AT_CONST(int, src, f);
	return 0;
}

static bool enum_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	return *AT_CONST(int, a, f) == *AT_CONST(int, b, f);
}

static json_t *enum_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	const char *const *names = f->arg;

	(void)explicit_only;
	return json_string(names[*AT_CONST(int, s, f)]);
}

const struct kind kind_enum = {
	.bind = enum_bind, .copy = enum_copy, .same = enum_same, .dump = enum_dump};

/* ---- true or false --------------------------------------------------------------- */

static void flag_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	static const char *const names[] = {"false", "true", NULL};
	int v;

	if (n->type == NODE_NULL) {
		*AT(bool, base, f) = false;
		return;
	}
	v = bind_enum(b, n, names);
	if (v >= 0)
		*AT(bool, base, f) = v;
}

static int flag_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	*AT(bool, dst, f) = *AT_CONST(bool, src, f);
	return 0;
}

static bool flag_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	return *AT_CONST(bool, a, f) == *AT_CONST(bool, b, f);
}

static json_t *flag_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	(void)explicit_only;
	return *AT_CONST(bool, s, f) ? json_true() : json_null();
}

const struct kind kind_flag = {
	.bind = flag_bind, .copy = flag_copy, .same = flag_same, .dump = flag_dump};

/* ---- string --------------------------------------------------------------------- */

/* In static memory, so that a spec of defaults cannot fail for want of it. */
char spec_default_user[] = "agent";
char spec_default_workdir[] = ".";

static bool is_static(const char *text)
{
	return text == spec_default_user || text == spec_default_workdir;
}

static void string_clear(const struct field *f, struct spec *s)
{
	char **at = AT(char *, s, f);

	if (!is_static(*at))
		free(*at);
	*at = NULL;
}

static void string_bind(struct bind *b, const struct field *f, void *base,
			const struct node *n)
{
	char *text = bind_string(b, n, f->arg);

	if (!text)
		return;
	string_clear(f, base);
	*AT(char *, base, f) = text;
}

static int string_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	char *from = *AT_CONST(char *, src, f);

	*AT(char *, dst, f) = from && !is_static(from) ? strdup(from) : from;
	return from && !*AT(char *, dst, f) ? -ENOMEM : 0;
}

static bool string_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	const char *x = *AT_CONST(char *, a, f), *y = *AT_CONST(char *, b, f);

	return x && y ? strcmp(x, y) == 0 : x == y;
}

static json_t *string_dump(const struct field *f, const struct spec *s,
			   bool explicit_only)
{
	const char *text = *AT_CONST(char *, s, f);

	(void)explicit_only;
	return text ? json_string(text) : json_null();
}

const struct kind kind_string = {.bind = string_bind,
				 .clear = string_clear,
				 .copy = string_copy,
				 .same = string_same,
				 .dump = string_dump};

/* ---- numbers -------------------------------------------------------------------- */

typedef int number_fn(const char *text, uint64_t unit, uint64_t *ret);

static int parse_count(const char *text, uint64_t unit, uint64_t *ret)
{
	(void)unit;
	return units_count(text, ret);
}

static int parse_cpus(const char *text, uint64_t unit, uint64_t *ret)
{
	(void)unit;
	return units_thousandths(text, ret);
}

static bool number_read(struct bind *b, const struct node *n,
			const struct number_rule *rule, number_fn *parse, uint64_t *ret)
{
	const char *text = bind_text(b, n, rule->allowed);
	char show[SHOWN_MAX];
	uint64_t v = 0;

	if (!text)
		return false;
	if (parse(text, rule->unit, &v) < 0 ||
	    (!(v == 0 && rule->zero) && v < rule->min) || v > rule->max) {
		complain(b, n, "'%s' is not allowed; write %s", shown(show, text),
			 rule->allowed);
		return false;
	}
	*ret = v;
	return true;
}

static void size_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	number_read(b, n, f->arg, spec_parse_size, AT(uint64_t, base, f));
}

static void time_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	number_read(b, n, f->arg, spec_parse_duration, AT(uint64_t, base, f));
}

static void small_bind(struct bind *b, const struct field *f, struct spec *s,
		       const struct node *n, number_fn *parse)
{
	uint64_t v; /* the rule's max keeps it within 32 bits */

	if (number_read(b, n, f->arg, parse, &v))
		*AT(uint32_t, s, f) = (uint32_t)v;
}

static void cpus_bind(struct bind *b, const struct field *f, void *base,
		      const struct node *n)
{
	small_bind(b, f, base, n, parse_cpus);
}

static void count_bind(struct bind *b, const struct field *f, void *base,
		       const struct node *n)
{
	small_bind(b, f, base, n, parse_count);
}

static int u64_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	*AT(uint64_t, dst, f) = *AT_CONST(uint64_t, src, f);
	return 0;
}

static bool u64_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	return *AT_CONST(uint64_t, a, f) == *AT_CONST(uint64_t, b, f);
}

static int u32_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	*AT(uint32_t, dst, f) = *AT_CONST(uint32_t, src, f);
	return 0;
}

static bool u32_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	return *AT_CONST(uint32_t, a, f) == *AT_CONST(uint32_t, b, f);
}

/* In the key's own unit when that is exact, else as text in the smallest unit. */
static json_t *unit_dump(uint64_t v, uint64_t unit, const char *smallest)
{
	char text[40];

	if (v % unit == 0)
		return json_integer((json_int_t)(v / unit));
	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, smallest);
	return json_string(text);
}

static json_t *size_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	const struct number_rule *rule = f->arg;

	(void)explicit_only;
	return unit_dump(*AT_CONST(uint64_t, s, f), rule->unit, "B");
}

static json_t *time_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	const struct number_rule *rule = f->arg;

	(void)explicit_only;
	return unit_dump(*AT_CONST(uint64_t, s, f), rule->unit, "ms");
}

static json_t *cpus_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	uint32_t milli = *AT_CONST(uint32_t, s, f);

	(void)explicit_only;
	return milli % 1000 ? json_real(milli / 1000.0) : json_integer(milli / 1000);
}

static json_t *count_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	(void)explicit_only;
	return json_integer(*AT_CONST(uint32_t, s, f));
}

const struct kind kind_size = {
	.bind = size_bind, .copy = u64_copy, .same = u64_same, .dump = size_dump};
const struct kind kind_time = {
	.bind = time_bind, .copy = u64_copy, .same = u64_same, .dump = time_dump};
const struct kind kind_cpus = {
	.bind = cpus_bind, .copy = u32_copy, .same = u32_same, .dump = cpus_dump};
const struct kind kind_count = {
	.bind = count_bind, .copy = u32_copy, .same = u32_same, .dump = count_dump};

/* ---- numbers inside list elements ----------------------------------------------- */

static void item_seconds_bind(struct bind *b, const struct field *f, void *base,
			      const struct node *n)
{
	const struct number_rule *rule = f->arg;
	uint64_t v;

	if (number_read(b, n, rule, spec_parse_duration, &v))
		json_put(b, base, f->key, unit_dump(v, rule->unit, "ms"));
}

static void item_mib_bind(struct bind *b, const struct field *f, void *base,
			  const struct node *n)
{
	const struct number_rule *rule = f->arg;
	uint64_t v;

	if (!number_read(b, n, rule, spec_parse_size, &v))
		return;
	if (v % rule->unit)
		complain(b, n, "'%s' is not a whole number of MiB", n->text);
	else
		json_put(b, base, f->key, json_integer((json_int_t)(v / rule->unit)));
}

static void item_number_bind(struct bind *b, const struct field *f, void *base,
			     const struct node *n)
{
	uint64_t v;

	if (number_read(b, n, f->arg, parse_count, &v))
		json_put(b, base, f->key, json_integer((json_int_t)v));
}

static void item_flag_bind(struct bind *b, const struct field *f, void *base,
			   const struct node *n)
{
	static const char *const words[] = {"false", "true", NULL};
	int v = bind_enum(b, n, words);

	if (v >= 0)
		json_put(b, base, f->key, json_boolean(v));
}

const struct kind item_flag = {.bind = item_flag_bind};
const struct kind item_number = {.bind = item_number_bind};
const struct kind item_seconds = {.bind = item_seconds_bind};
const struct kind item_mib = {.bind = item_mib_bind};
