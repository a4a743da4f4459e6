/* SPDX-License-Identifier: Apache-2.0 */
/* places - kinds that say where a sandbox runs and from what: backend and image. */
#include "spec/bind.h"
#include "spec/check.h"

#include "base/util.h"

const char *const backend_names[] = {"auto", "process", "vm", "remote", NULL};

const char *spec_backend_name(enum spec_backend b)
{
	return backend_names[b];
}
static const char *const engines[] = {"auto", "kvm", "qemu", NULL};

/* ---- backend: a word, or one key with options ----------------------------------- */

static const struct text_rule provider_rule = {check_name, "the name of a provider",
					       false};
static const struct text_rule reach_rule = {check_words, "a host or container", false};

static const struct field vm_fields[] = {
	ITEM("engine", item_enum, engines),
};
static const struct field remote_fields[] = {
	ITEM("provider", item_text, &provider_rule),
	ITEM("target", item_text, &reach_rule),
};
static const struct object vm_object = {
	.fields = vm_fields, .n = ARRAY_LEN(vm_fields), .example = "{engine: qemu}"};
static const struct object remote_object = {.fields = remote_fields,
					    .n = ARRAY_LEN(remote_fields),
					    .example = "{provider: ssh, target: HOST}"};
static const struct object no_options = {.example = "{}"};
static const struct field backend_fields[] = {
	ITEM("auto", item_map, &no_options),
	ITEM("process", item_map, &no_options),
	ITEM("vm", item_map, &vm_object),
	ITEM("remote", item_map, &remote_object),
};
const struct object backend_object = {
	.fields = backend_fields,
	.n = ARRAY_LEN(backend_fields),
	.example = "process, or {vm: {engine: qemu}}",
};

static void backend_clear(const struct field *f, struct spec *s)
{
	(void)f;
	free(s->backend_options.engine);
	free(s->backend_options.provider);
	free(s->backend_options.target);
	s->backend_options.engine = NULL;
	s->backend_options.provider = NULL;
	s->backend_options.target = NULL;
}

static void option_take(struct bind *b, char **at, const json_t *options, const char *key)
{
	const char *text = json_string_value(json_object_get(options, key));
	char *copy = text ? strdup(text) : NULL;

	if (!text)
		return;
	if (!copy)
		b->p->nomem = true;
	free(*at);
	*at = copy;
}

static void backend_bind(struct bind *b, const struct field *f, void *base,
			 const struct node *n)
{
	struct spec *s = base;
	enum spec_backend before = s->backend;
	json_t *object;
	int v;

	if (n->type == NODE_SCALAR || n->type == NODE_NULL) {
		v = bind_enum(b, n, backend_names);
		if (v >= 0) {
			backend_clear(f, s);
			s->backend = (enum spec_backend)v;
		}
		return;
	}
	object = json_object();
	if (!object) {
		b->p->nomem = true;
		return;
	}
	bind_object(b, &backend_object, object, n);
	if (n->type == NODE_MAP && n->n != 1)
		complain(b, n, "name one backend, such as {vm: {engine: qemu}}");
	for (v = 0; backend_names[v]; v++)
		if (n->type == NODE_MAP && n->n == 1 &&
		    strcmp(n->first->key, backend_names[v]) == 0) {
			const json_t *o = json_object_get(object, backend_names[v]);

			s->backend = (enum spec_backend)v;
			if (!b->append || s->backend != before)
				backend_clear(f, s);
			option_take(b, &s->backend_options.engine, o, "engine");
			option_take(b, &s->backend_options.provider, o, "provider");
			option_take(b, &s->backend_options.target, o, "target");
		}
	json_decref(object);
}

static int backend_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	const char *from[] = {src->backend_options.engine, src->backend_options.provider,
			      src->backend_options.target};
	char *to[ARRAY_LEN(from)];
	bool ok = true;

	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		to[i] = from[i] ? strdup(from[i]) : NULL;
		ok = ok && !from[i] == !to[i];
	}
	dst->backend = src->backend;
	dst->backend_options.engine = to[0];
	dst->backend_options.provider = to[1];
	dst->backend_options.target = to[2];
	if (!ok)
		backend_clear(f, dst);
	return ok ? 0 : -ENOMEM;
}

static bool text_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool backend_same(const struct field *f, const struct spec *a,
			 const struct spec *b)
{
	(void)f;
	return a->backend == b->backend &&
	       text_same(a->backend_options.engine, b->backend_options.engine) &&
	       text_same(a->backend_options.provider, b->backend_options.provider) &&
	       text_same(a->backend_options.target, b->backend_options.target);
}

static json_t *backend_dump(const struct field *f, const struct spec *s,
			    bool explicit_only)
{
	const char *name = backend_names[s->backend];

	(void)f;
	(void)explicit_only;
	if (!s->backend_options.engine && !s->backend_options.provider &&
	    !s->backend_options.target)
		return json_string(name);
	return json_pack("{s:{s:s*, s:s*, s:s*}}", name, "engine",
			 s->backend_options.engine, "provider",
			 s->backend_options.provider, "target",
			 s->backend_options.target);
}

const struct kind kind_backend = {
	backend_bind, backend_clear, backend_copy, backend_same, backend_dump, NULL,
};

/* ---- image: host, or KIND:VALUE ------------------------------------------------- */

static const struct {
	const char *prefix;
	check_fn *check;
} images[] = {
	[IMAGE_HOST] = {"host",            NULL           },
	[IMAGE_ROOTFS] = {"rootfs:",         check_path     },
	[IMAGE_OCI] = {"oci:",            check_reference},
	[IMAGE_OCI_ARCHIVE] = {"oci-archive:",    check_path     },
	[IMAGE_DOCKER_ARCHIVE] = {"docker-archive:", check_path     },
	[IMAGE_TAR] = {"tar:",            check_path     },
	[IMAGE_RAW] = {"raw:",            check_path     },
	[IMAGE_QCOW2] = {"qcow2:",          check_path     },
};

const char *spec_image_prefix(enum spec_image kind)
{
	return images[kind].prefix;
}

bool spec_image_is_tree(const struct spec *s)
{
	return s->image.kind == IMAGE_ROOTFS || s->image.kind == IMAGE_TAR;
}

bool spec_image_is_disk(const struct spec *s)
{
	return s->image.kind == IMAGE_RAW || s->image.kind == IMAGE_QCOW2;
}

static void image_clear(const struct field *f, struct spec *s)
{
	(void)f;
	free(s->image.value);
	s->image.value = NULL;
}

static void image_bind(struct bind *b, const struct field *f, void *base,
		       const struct node *n)
{
	static const char allowed[] = "host, rootfs:DIR, oci:REF, oci-archive:FILE, "
				      "docker-archive:FILE, tar:FILE, raw:FILE or "
				      "qcow2:FILE";
	const char *text = bind_text(b, n, allowed), *value;
	struct spec *s = base;
	char show[SHOWN_MAX], *copy = NULL;
	size_t i;

	if (!text)
		return;
	for (i = 0; i < ARRAY_LEN(images); i++) {
		size_t len = strlen(images[i].prefix);

		value = text + len;
		if (strncmp(text, images[i].prefix, len) == 0 &&
		    (images[i].check ? !images[i].check(value) : *value == '\0'))
			break;
	}
	if (i == ARRAY_LEN(images)) {
		complain(b, n, "'%s' is not an image; write %s", shown(show, text),
			 allowed);
		return;
	}
	if (images[i].check && !(copy = strdup(value))) {
		b->p->nomem = true;
		return;
	}
	image_clear(f, s);
	s->image.kind = (enum spec_image)i;
	s->image.value = copy;
}

static int image_copy(const struct field *f, struct spec *dst, const struct spec *src)
{
	(void)f;
	dst->image.kind = src->image.kind;
	dst->image.value = src->image.value ? strdup(src->image.value) : NULL;
	return src->image.value && !dst->image.value ? -ENOMEM : 0;
}

static bool image_same(const struct field *f, const struct spec *a, const struct spec *b)
{
	(void)f;
	return a->image.kind == b->image.kind &&
	       text_same(a->image.value, b->image.value);
}

static json_t *image_dump(const struct field *f, const struct spec *s, bool explicit_only)
{
	(void)f;
	(void)explicit_only;
	return json_sprintf("%s%s", images[s->image.kind].prefix,
			    s->image.value ? s->image.value : "");
}

const struct kind kind_image = {
	image_bind, image_clear, image_copy, image_same, image_dump, NULL,
};
