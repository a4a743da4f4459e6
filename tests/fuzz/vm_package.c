/* SPDX-License-Identifier: Apache-2.0 */
/* What is around a kernel: archives, images, modules. The first byte chooses a parser. */
#include "base/util.h"
#include "fuzz.h"
#include "vm/kernel_package.h"

static bool inside(const uint8_t *data, size_t size, const void *p, size_t n)
{
	const uint8_t *at = p;

	return at >= data && at <= data + size && n <= (size_t)(data + size - at);
}

static void fuzz_tree(const uint8_t *data, size_t size)
{
	struct cove_error err = {0};
	struct package p;

	if (package_look(&p, data, size, &err) < 0)
		return;
	if (!inside(data, size, p.image, p.image_size))
		abort();
	for (size_t i = 0; i < p.n_modules; i++)
		if (!inside(data, size, p.modules[i].data, p.modules[i].size))
			abort();
	if (p.builtin && !inside(data, size, p.builtin, p.builtin_size))
		abort();
	package_source(&p).built_in(&p, "ext4");
	package_clear(&p);
}

static void fuzz_deb(const uint8_t *data, size_t size)
{
	enum module_packing packing;
	size_t at, n;

	if (deb_find_tree(data, size, &at, &n, &packing) == 0 &&
	    (at > size || n > size - at))
		abort();
}

static void fuzz_image(const uint8_t *data, size_t size)
{
	char version[KERNEL_VERSION_MAX + 1] = "";

	if (image_version(data, size, version) &&
	    (!image_is_one(data, size) || !version[0]))
		abort();
}

/* Every name is this module: whatever it depends on leads back to it. */
struct bytes {
	const uint8_t *data;
	size_t size;
};

static int read_module(void *arg, const char *name, struct buf *out,
		       struct cove_error *err)
{
	const struct bytes *b = arg;

	(void)name;
	(void)err;
	return buf_append(out, b->data, b->size) == 0 ? 1 : COVE_ENOMEM;
}

static bool never(void *arg, const char *name)
{
	(void)arg;
	(void)name;
	return false;
}

static void fuzz_module(const uint8_t *data, size_t size)
{
	struct bytes b = {.data = data, .size = size};
	struct module_source source = {.read = read_module, .built_in = never, .arg = &b};
	struct cove_error err = {0};
	struct module_set set = {0};
	const char *info, *value;
	size_t len, pos = 0;

	if (module_unsigned_size(data, size) > size)
		abort();
	if (modinfo_find(data, size, &info, &len) == 0) {
		if (!inside(data, size, info, len))
			abort();
		while ((value = modinfo_next(info, len, &pos, "depends")))
			if (!inside(data, size, value, strlen(value) + 1))
				abort();
	}
	if (modules_collect(&set, &source, &err) == 0 && set.n == 0)
		abort();
	module_set_clear(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const parsers[])(const uint8_t *, size_t) = {
		fuzz_tree, fuzz_deb, fuzz_image, fuzz_module};

	if (size > 0)
		parsers[data[0] % ARRAY_LEN(parsers)](data + 1, size - 1);
	return 0;
}
