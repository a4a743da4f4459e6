/* SPDX-License-Identifier: Apache-2.0 */
/* mounts - the mount list: {source, target, mode} or "SRC[:DST]:MODE". */
#include "spec/bind.h"
#include "spec/check.h"

#include "base/util.h"

const char *const mount_modes[] = {"overlay", "ro", "rw", "copy", "volume", NULL};

static const struct text_rule source_rule = {check_path, "a path", false};
static const struct text_rule target_rule = {check_target, "an absolute path", false};

/* Bound as JSON first, so that keys are handled like those of every other element. */
static const struct field mount_fields[] = {
	REQUIRED("source", item_text, &source_rule),
	ITEM("target", item_text, &target_rule),
	ITEM("mode", item_enum, mount_modes),
};

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
	for (size_t i = 0; colon && mount_modes[i]; i++)
		if (strcmp(colon + 1, mount_modes[i]) == 0) {
			*colon = '\0';
			json_put(b, object, "mode", json_string(mount_modes[i]));
			break;
		}
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

static int mounts_add(struct spec *s, const char *source, const char *target,
		      enum spec_mount_mode mode)
{
	struct spec_mount *v = reallocarray(s->mounts, s->n_mounts + 1, sizeof(*v));
	struct spec_mount new = {.mode = mode};

	if (!v)
		return -ENOMEM;
	s->mounts = v;
	new.source = strdup(source);
	new.target = target ? strdup(target) : NULL;
	if (!new.source || (target && !new.target)) {
		mount_free(&new);
		return -ENOMEM;
	}
	v[s->n_mounts++] = new;
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

static void mount_take(struct bind *b, struct spec *s, const struct node *n,
		       json_t *object)
{
	const char *source = json_string_value(json_object_get(object, "source"));
	const char *target = json_string_value(json_object_get(object, "target"));
	const char *word = json_string_value(json_object_get(object, "mode"));
	const char *place = target ? target : source;
	size_t i = mounts_find(s, place);
	enum spec_mount_mode mode = MOUNT_OVERLAY;
	char show[SHOWN_MAX];

	while (word && strcmp(word, mount_modes[mode]) != 0)
		mode++;
	if (i < s->n_mounts && !b->append) {
		complain(b, n, "'%s' is mounted on twice; give each mount its own target",
			 shown(show, place));
		return;
	}
	if (i < s->n_mounts) { /* one more flag for the same place: the later wins */
		mount_free(&s->mounts[i]);
		s->n_mounts--;
		memmove(&s->mounts[i], &s->mounts[i + 1],
			(s->n_mounts - i) * sizeof(s->mounts[0]));
	}
	if (s->n_mounts >= SPEC_LIST_MAX)
		complain(b, n, "more than %d mounts", SPEC_LIST_MAX);
	else if (mounts_add(s, source, target, mode) < 0)
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
		if (mounts_add(dst, src->mounts[i].source, src->mounts[i].target,
			       src->mounts[i].mode) < 0) {
			mounts_clear(f, dst);
			return -ENOMEM;
		}
	return 0;
}

static bool mounts_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	(void)f;
	for (size_t i = 0; i < a->n_mounts && a->n_mounts == b->n_mounts; i++) {
		const struct spec_mount *x = &a->mounts[i], *y = &b->mounts[i];

		if (x->mode != y->mode || strcmp(x->source, y->source) != 0 ||
		    !x->target != !y->target ||
		    (x->target && strcmp(x->target, y->target) != 0))
			return false;
	}
	return a->n_mounts == b->n_mounts;
}

static json_t *mounts_dump(const struct field *f, const struct spec *s,
			   bool explicit_only)
{
	json_t *out = json_array();

	(void)f;
	(void)explicit_only;
	for (size_t i = 0; i < s->n_mounts && out; i++) {
		const struct spec_mount *m = &s->mounts[i];
		json_t *e = json_pack("{s:s, s:s*, s:s}", "source", m->source, "target",
				      m->target, "mode", mount_modes[m->mode]);

		if (json_array_append_new(out, e) < 0) {
			json_decref(out);
			out = NULL;
		}
	}
	return out;
}

const struct kind kind_mounts = {
	mounts_bind, mounts_clear, mounts_copy, mounts_same, mounts_dump, NULL,
};
