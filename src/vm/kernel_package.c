/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/kernel_package.h"

#include "base/io.h"
#include "base/util.h"
#include "vm/kernel_tool.h"
#include "vm/kernel_unpack.h"

#include <stdio.h>

#define IMAGE_PREFIX "boot/vmlinuz-"
#define PACKAGE_MODULES_MAX 20000

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);

	return n >= k && strcmp(s + n - k, suffix) == 0;
}

static int note_module(struct package *p, const struct tar_file *f)
{
	struct package_module m = {.data = f->data, .size = f->size}, *v;

	if (!module_name(f->path, strlen(f->path), m.name, &m.packing))
		return 0;
	if (p->n_modules == PACKAGE_MODULES_MAX)
		return -EBADMSG;
	if (p->n_modules % 256 == 0) {
		v = reallocarray(p->modules, p->n_modules + 256, sizeof(*v));
		if (!v)
			return -ENOMEM;
		p->modules = v;
	}
	p->modules[p->n_modules++] = m;
	return 0;
}

/* Trees have their modules in lib/modules/, newer ones in usr/lib/modules/. */
static int note_file(struct package *p, const struct tar_file *f)
{
	const char *path = starts_with(f->path, "usr/") ? f->path + 4 : f->path;

	if (starts_with(path, IMAGE_PREFIX) && f->size) {
		const char *version = path + strlen(IMAGE_PREFIX);

		if (p->image || strlen(version) > KERNEL_VERSION_MAX)
			return -EBADMSG;
		p->image = f->data;
		p->image_size = f->size;
		snprintf(p->version, sizeof(p->version), "%s", version);
		return 0;
	}
	if (!starts_with(path, "lib/modules/"))
		return 0;
	if (ends_with(path, "/modules.builtin")) {
		p->builtin = (const char *)f->data;
		p->builtin_size = f->size;
		return 0;
	}
	return note_module(p, f);
}

int package_look(struct package *ret, const uint8_t *tar, size_t n,
		 struct cove_error *err)
{
	struct tar_walk walk = {.data = tar, .size = n};
	struct package p = {0};
	struct tar_file f;
	int r;

	while ((r = tar_walk_next(&walk, &f)) == 1) {
		r = note_file(&p, &f);
		if (r < 0)
			break;
	}
	if (r == 0 && p.image && image_is_one(p.image, p.image_size)) {
		*ret = p;
		return 0;
	}
	package_clear(&p);
	if (r == -ENOMEM)
		return fail_nomem(err);
	if (r < 0)
		return fail(err, COVE_EDAMAGED, 0, "the package is damaged");
	fail(err, COVE_EINVAL, 0, "the package has no kernel (boot/vmlinuz-*)");
	return hint(err, "a package with a version in its name is meant, like "
			 "linux-image-6.1.0-54-cloud-amd64");
}

void package_clear(struct package *p)
{
	free(p->modules);
	*p = (struct package){0};
}

/* ---- as a source --------------------------------------------------------------- */

static int read_module(void *arg, const char *name, struct buf *out,
		       struct cove_error *err)
{
	const struct package *p = arg;

	for (size_t i = 0; i < p->n_modules; i++) {
		const struct package_module *m = &p->modules[i];
		int r;

		if (strcmp(m->name, name) != 0)
			continue;
		r = unpack_bytes(m->packing, m->data, m->size, out, err);
		return r < 0 ? r : 1;
	}
	return 0;
}

static bool is_built_in(void *arg, const char *name)
{
	const struct package *p = arg;

	return p->builtin && module_listed(p->builtin, p->builtin_size, name);
}

struct module_source package_source(struct package *p)
{
	return (struct module_source){
		.read = read_module, .built_in = is_built_in, .arg = p};
}
