/* SPDX-License-Identifier: Apache-2.0 */
/* kernel - the kernels of virtual machines. */
#include "vm/kernel.h"
#include "api/handle.h"

#include "base/util.h"

int cove_kernels_json(char **ret, struct cove_error *err)
{
	struct store st;
	json_t *list;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	list = kernel_list(st.kernels, err);
	store_close(&st);
	return list ? json_out(list, ret, err) : err->code;
}

static int take_options(struct cove_kernel_options *dst,
			const struct cove_kernel_options *src, struct cove_error *err)
{
	*dst = (struct cove_kernel_options){0};
	if (!src)
		return 0;
	if (options_import(dst, sizeof(*dst), 2 * sizeof(uint32_t), src, "kernel options",
			   err) < 0)
		return err->code;
	if (dst->flags)
		return fail(err, COVE_EUNSUPPORTED, 0, "kernel options: unknown flag");
	return 0;
}

static int name_out(int r, const char *name, char **ret_name, struct cove_error *err)
{
	if (r < 0 || !ret_name)
		return r;
	*ret_name = strdup(name);
	return *ret_name ? 0 : fail_nomem(err);
}

int cove_kernel_install(const struct cove_kernel_options *options, char **ret_name,
			struct cove_error *err)
{
	char name[KERNEL_NAME_MAX + 1];
	struct cove_kernel_options o;
	struct store st;
	int r;

	err = ERR(err);
	if (take_options(&o, options, err) < 0 || handle_store(&st, err) < 0)
		return err->code;
	r = kernel_install(st.kernels, o.deb, name, o.progress, o.arg, err);
	store_close(&st);
	return name_out(r, name, ret_name, err);
}

int cove_kernel_build(const struct cove_kernel_options *options, char **ret_name,
		      struct cove_error *err)
{
	char name[KERNEL_NAME_MAX + 1];
	struct cove_kernel_options o;
	struct store st;
	int r;

	err = ERR(err);
	if (take_options(&o, options, err) < 0)
		return err->code;
	if (o.deb)
		return fail(err, COVE_EINVAL, 0, "kernel options: deb is for install");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = kernel_build(st.kernels, name, o.progress, o.arg, err);
	store_close(&st);
	return name_out(r, name, ret_name, err);
}

int cove_kernel_add(const char *kernel, const char *image, const char *modules,
		    struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (!kernel || !image)
		return fail(err, COVE_EINVAL, 0, "no name, or no image");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = kernel_add(st.kernels, kernel, image, modules, err);
	store_close(&st);
	return r;
}

static int with_name(const char *kernel,
		     int (*act)(const char *dir, const char *name,
				struct cove_error *err),
		     struct cove_error *err)
{
	struct store st;
	int r;

	if (!kernel)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = act(st.kernels, kernel, err);
	store_close(&st);
	return r;
}

int cove_kernel_default(const char *kernel, struct cove_error *err)
{
	return with_name(kernel, kernel_set_default, ERR(err));
}

int cove_kernel_remove(const char *kernel, struct cove_error *err)
{
	return with_name(kernel, kernel_remove, ERR(err));
}
