/* SPDX-License-Identifier: Apache-2.0 */
/* mounts - the mount list: {source, target, mode ...} or "SRC[:DST]:MODE[,shared]". */
#include "spec/bind.h"
#include "spec/check.h"

#include "base/util.h"

const char *const mount_modes[] = {"overlay", "ro", "rw", "copy", "volume", NULL};

static const struct text_rule source_rule = {check_path, "a path", false};
static const struct text_rule target_rule = {check_target, "an absolute path", false};
static const struct text_rule inner_rule = {check_inner, "a path below the mount", false};
static const struct number_rule layer_rule = {1, 0, 99999, true,
					      "a whole number of 0 to 99999"};

/* Bound as JSON first, so that keys are handled like those of every other element. */
static const struct field mount_fields[] = {
	REQUIRED("source", item_text, &source_rule),
	ITEM("target", item_text, &target_rule),
	ITEM("mode", item_enum, mount_modes),
	ITEM("shared", item_flag, NULL),
	ITEM("unprotect", item_texts, &inner_rule),
	ITEM("layer", item_number, &layer_rule),
};

/* "MODE" or "MODE,shared": true if it is one, and then in object. */
static bool mode_word(struct bind *b, json_t *object, const char *word)
{
	size_t n = strcspn(word, ",");

	if (word[n] && strcmp(word + n, ",shared") != 0)
		return false;
	for (size_t i = 0; mount_modes[i]; i++) {
		if (strlen(mount_modes[i]) != n || memcmp(word, mount_modes[i], n) != 0)
			continue;
		json_put(b, object, "mode", json_string(mount_modes[i]));
		if (word[n])
			json_put(b, object, "shared", json_true());
		return true;
	}
	return false;
}

/* Splits "SRC[:DST]:MODE". The last part is the mode if it is a mode word; DST begins
 * with
 * '/', so a path may hold a colon as long as no slash follows it. */
static void mount_word(struct bind *b, json_t *object, const struct node *n)
{
	cleanup_free char *text = strdup(n->text);
	char *colon = text ? strrchr(text, ':') : NULL, *dst = NULL;
	struct node part = *n;

	if (!text) {
		b->p->nomem = true;
		return;
	}
	if (colon && mode_word(b, object, colon + 1))
		*colon = '\0';
	for (char *at = strstr(text, ":/"); at; at = strstr(at + 1, ":/"))
		dst = at;
	if (dst) {
		*dst = '\0';
		part.text = dst + 1;
		item_text.bind(b, &mount_fields[1], object, &part);
	}
	part.text = text;
	item_text.bind(b, &mount_fields[0], object, &part);
}

static void mount_finish(struct bind *b, json_t *object, const struct node *n)
{
	const char *source = json_string_value(json_object_get(object, "source"));
	const char *mode = json_string_value(json_object_get(object, "mode")), *why;
	bool target = json_object_get(object, "target") != NULL;
	char show[SHOWN_MAX];

	if (!source)
		return;
	if (json_object_get(object, "shared") && !(mode && strcmp(mode, "volume") == 0))
		complain(b, n, "shared is for mode: volume");
	if (json_object_get(object, "unprotect") && !(mode && strcmp(mode, "rw") == 0))
		complain(b, n, "unprotect is for mode: rw");
	if (mode && strcmp(mode, "volume") == 0) {
		why = check_name(source);
		if (why)
			complain(b, n, "volume '%s' %s", shown(show, source), why);
		if (!target && !(n->type == NODE_MAP && node_get(n, "target")))
			complain(b, n, "a volume needs a target, an absolute path");
	} else if (!target && source[0] == '/' && (why = check_target(source))) {
		complain(b, n, "'%s' %s; give another target", shown(show, source), why);
	}
}

const struct object mount_object = {
	.fields = mount_fields,
	.n = ARRAY_LEN(mount_fields),
	.example = "{source: ., mode: overlay}",
	.shorthand = mount_word,
	.finish = mount_finish,
};

static void mount_free(struct spec_mount *m)
{
	for (size_t i = 0; i < m->unprotect.n; i++)
		free(m->unprotect.v[i]);
	free(m->unprotect.v);
	free(m->source);
	free(m->target);
	*m = (struct spec_mount){0};
}

static void mounts_clear(const struct field *f, struct spec *s)
{
	(void)f;
	for (size_t i = 0; i < s->n_mounts; i++)
		mount_free(&s->mounts[i]);
	free(s->mounts);
	s->mounts = NULL;
	s->n_mounts = 0;
}

/* A copy of m; -ENOMEM, and then nothing is left of it. */
static int mount_dup(struct spec_mount *ret, const struct spec_mount *m)
{
	struct spec_mount new = *m;
	bool ok;

	new.source = strdup(m->source);
	new.target = m->target ? strdup(m->target) : NULL;
	new.unprotect = (struct spec_strings){
		.v = calloc(m->unprotect.n + 1, sizeof(*new.unprotect.v))};
	ok = new.source && (!m->target || new.target) && new.unprotect.v;
	for (size_t i = 0; ok && i < m->unprotect.n; i++) {
		char *text = strdup(m->unprotect.v[i]);

		ok = text != NULL;
		if (ok)
			new.unprotect.v[new.unprotect.n++] = text;
	}
	if (!ok) {
		mount_free(&new);
		return -ENOMEM;
	}
	*ret = new;
	return 0;
}

static int mounts_add(struct spec *s, const struct spec_mount *m)
{
	struct spec_mount *v = reallocarray(s->mounts, s->n_mounts + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	s->mounts = v;
	if (mount_dup(&v[s->n_mounts], m) < 0)
		return -ENOMEM;
	s->n_mounts++;
	return 0;
}

/* The same place, with a trailing slash or without. */
static bool place_same(const char *x, const char *y)
{
	size_t nx = strlen(x), ny = strlen(y);

	while (nx > 1 && x[nx - 1] == '/')
		nx--;
	while (ny > 1 && y[ny - 1] == '/')
		ny--;
	return nx == ny && memcmp(x, y, nx) == 0;
}

static size_t mounts_find(const struct spec *s, const char *place)
{
	size_t i = 0;

	while (i < s->n_mounts && !place_same(s->mounts[i].target ? s->mounts[i].target
								  : s->mounts[i].source,
					      place))
		i++;
	return i;
}

/* One more flag for the same place: the later wins. */
static void mounts_drop(struct spec *s, size_t i)
{
	mount_free(&s->mounts[i]);
	s->n_mounts--;
	memmove(&s->mounts[i], &s->mounts[i + 1],
		(s->n_mounts - i) * sizeof(s->mounts[0]));
}

/* Borrowed: it is copied before anything could write to it. */
static char *text_of(const json_t *object, const char *key)
{
	return (char *)(uintptr_t)json_string_value(json_object_get(object, key));
}

/* The checked element as a struct of borrowed strings. */
static void mount_view(struct spec_mount *m, const json_t *object, char **unprotect)
{
	const char *word = text_of(object, "mode");
	const json_t *names = json_object_get(object, "unprotect"), *name;
	const json_t *layer = json_object_get(object, "layer");

	*m = (struct spec_mount){.source = text_of(object, "source"),
				 .target = text_of(object, "target"),
				 .layer = -1};
	while (word && strcmp(word, mount_modes[m->mode]) != 0)
		m->mode++;
	m->shared = json_is_true(json_object_get(object, "shared"));
	if (layer)
		m->layer = (int)json_integer_value(layer);
	m->unprotect = (struct spec_strings){unprotect, json_array_size(names)};
	for (size_t i = 0; i < m->unprotect.n; i++) {
		name = json_array_get(names, i);
		unprotect[i] = (char *)(uintptr_t)json_string_value(name);
	}
}

static void mount_take(struct bind *b, struct spec *s, const struct node *n,
		       json_t *object)
{
	char *unprotect[SPEC_LIST_MAX];
	struct spec_mount m;
	char show[SHOWN_MAX];
	size_t i;

	mount_view(&m, object, unprotect);
	i = mounts_find(s, m.target ? m.target : m.source);
	if (i < s->n_mounts && !b->append) {
		complain(b, n, "'%s' is mounted on twice; give each mount its own target",
			 shown(show, m.target ? m.target : m.source));
		return;
	}
	if (i < s->n_mounts)
		mounts_drop(s, i);
	if (s->n_mounts >= SPEC_LIST_MAX)
		complain(b, n, "more than %d mounts", SPEC_LIST_MAX);
	else if (mounts_add(s, &m) < 0)
		b->p->nomem = true;
}

static void mounts_bind(struct bind *b, const struct field *f, void *base,
			const struct node *n)
{
	struct spec *s = base;
	size_t i = 0;

	if (!b->append)
		mounts_clear(f, s);
	if (n->type != NODE_LIST && !(b->append && n->type == NODE_SCALAR)) {
		if (n->type != NODE_NULL)
			complain(b, n,
				 "expected a list, such as [{source: ., mode: overlay}]");
		return;
	}
	for (const struct node *e = n->type == NODE_LIST ? n->first : n; e;
	     e = e->next, i++) {
		size_t before = troubles(b), saved = path_push_index(b, i);
		json_t *object = bind_element(b, &mount_object, e);

		if (object && went_well(b, before))
			mount_take(b, s, e, object);
		json_decref(object);
		path_pop(b, saved);
	}
}

static int mounts_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	dst->mounts = NULL;
	dst->n_mounts = 0;
	for (size_t i = 0; i < src->n_mounts; i++)
		if (mounts_add(dst, &src->mounts[i]) < 0) {
			mounts_clear(f, dst);
			return -ENOMEM;
		}
	return 0;
}

static bool mount_same(const struct spec_mount *x, const struct spec_mount *y)
{
	if (x->mode != y->mode || x->shared != y->shared || x->layer != y->layer ||
	    strcmp(x->source, y->source) != 0 || !x->target != !y->target ||
	    (x->target && strcmp(x->target, y->target) != 0) ||
	    x->unprotect.n != y->unprotect.n)
		return false;
	for (size_t i = 0; i < x->unprotect.n; i++)
		if (strcmp(x->unprotect.v[i], y->unprotect.v[i]) != 0)
			return false;
	return true;
}

static bool mounts_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	(void)f;
	for (size_t i = 0; i < a->n_mounts && a->n_mounts == b->n_mounts; i++)
		if (!mount_same(&a->mounts[i], &b->mounts[i]))
			return false;
	return a->n_mounts == b->n_mounts;
}

/* Keys that say nothing are left out. */
static json_t *mount_dump(const struct spec_mount *m)
{
	json_t *o = json_pack("{s:s, s:s*, s:s}", "source", m->source, "target",
			      m->target, "mode", mount_modes[m->mode]);
	json_t *names = o && m->unprotect.n ? json_array() : NULL;
	int r = o && (names || !m->unprotect.n) ? 0 : -1;

	for (size_t i = 0; r == 0 && i < m->unprotect.n; i++)
		r = json_array_append_new(names, json_string(m->unprotect.v[i]));
	if (r == 0 && names)
		r = json_object_set(o, "unprotect", names);
	if (r == 0 && m->shared)
		r = json_object_set_new(o, "shared", json_true());
	if (r == 0 && m->layer >= 0)
		r = json_object_set_new(o, "layer", json_integer(m->layer));
	json_decref(names);
	if (r < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static json_t *mounts_dump(const struct field *f, const struct spec *s,
			   bool explicit_only)
{
	json_t *out = json_array();

	(void)f;
	(void)explicit_only;
	for (size_t i = 0; i < s->n_mounts && out; i++) {
		json_t *e = mount_dump(&s->mounts[i]);

		if (!e || json_array_append_new(out, e) < 0) {
			json_decref(out);
			out = NULL;
		}
	}
	return out;
}

const struct kind kind_mounts = {
	mounts_bind, mounts_clear, mounts_copy, mounts_same, mounts_dump, NULL,
};
