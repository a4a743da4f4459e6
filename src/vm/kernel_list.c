/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_list - which kernels there are, removing one, choosing one. */
#include "vm/kernel_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

static bool is_default(int dir, const char *name)
{
	char chosen[KERNEL_NAME_MAX + 1];

	return kernels_default(dir, chosen) && strcmp(chosen, name) == 0;
}

static json_t *describe(int dir, const char *name)
{
	struct cove_error err = {0};
	cleanup_fd int kernel = kernels_open_one(dir, name, &err);
	struct kernel_record r;
	json_t *o;

	if (kernel < 0 || record_read(&r, kernel, &err) < 0)
		return json_pack("{s:s, s:b, s:s}", "name", name, "default",
				 is_default(dir, name), "problem", err.msg);
	o = json_pack("{s:s, s:s, s:I, s:I, s:b, s:s, s:I}", "name", name, "version",
		      r.version, "bytes", (json_int_t)record_bytes(&r), "modules",
		      (json_int_t)(r.n_files - 1), "default", is_default(dir, name),
		      "source", r.source, "installedAt", (json_int_t)r.installed_at);
	if (o && record_check(&r, kernel, false, &err) < 0)
		json_object_set_new(o, "problem", json_string(err.msg));
	record_clear(&r);
	return o;
}

/* The directories of DIR by name, or NULL at the end; names is freed by the caller. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_kernel(const struct dirent *e)
{
	return kernel_name_ok(e->d_name);
}

json_t *kernel_list(const char *dir, struct cove_error *err)
{
	cleanup_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **names = NULL;
	json_t *list = json_array();
	int n = 0;

	if (fd < 0 && errno != ENOENT) {
		fail(err, COVE_EIO, errno, "open %s", dir);
		json_decref(list);
		return NULL;
	}
	if (fd >= 0)
		n = scandir(dir, &names, is_kernel, by_name);
	for (int i = 0; i < n; i++) {
		if (list)
			json_array_append_new(list, describe(fd, names[i]->d_name));
		free(names[i]);
	}
	free(names);
	if (!list)
		fail_nomem(err);
	return list;
}

/* The one that was installed last, for a directory that has lost its default. */
static void choose_again(struct kernels *k)
{
	struct cove_error ignored = {0};
	json_t *list = kernel_list(k->path, &ignored), *o;
	json_int_t newest = -1;
	const char *name = NULL;
	size_t i;

	json_array_foreach(list, i, o)
	{
		json_int_t at = json_integer_value(json_object_get(o, "installedAt"));

		if (!json_object_get(o, "problem") && at > newest) {
			newest = at;
			name = json_string_value(json_object_get(o, "name"));
		}
	}
	if (name)
		kernels_point(k, name, &ignored);
	else
		unlinkat(k->dir, DEFAULT_NAME, 0);
	json_decref(list);
}

static int must_exist(struct kernels *k, const char *name, struct cove_error *err)
{
	cleanup_fd int fd = -1;

	if (!kernel_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "'%.60s' is not a name for a kernel",
			    name);
	fd = kernels_open_one(k->dir, name, err);
	return fd < 0 ? err->code : 0;
}

int kernel_remove(const char *dir, const char *name, struct cove_error *err)
{
	cleanup_kernels struct kernels k = {.dir = -1, .lock = -1};
	int e;

	if (kernels_lock(&k, dir, false, NULL, err) < 0 || must_exist(&k, name, err) < 0)
		return err->code;
	e = rename_at(k.dir, name, k.dir, ".old", 0);
	if (e < 0)
		return fail(err, COVE_EIO, -e, "kernel %s", name);
	if (is_default(k.dir, name))
		choose_again(&k);
	e = remove_tree_at(k.dir, ".old");
	return e < 0 ? fail(err, COVE_EIO, -e, "kernel %s", name) : 0;
}

int kernel_set_default(const char *dir, const char *name, struct cove_error *err)
{
	cleanup_kernels struct kernels k = {.dir = -1, .lock = -1};

	if (kernels_lock(&k, dir, false, NULL, err) < 0 || must_exist(&k, name, err) < 0)
		return err->code;
	return kernels_point(&k, name, err);
}
