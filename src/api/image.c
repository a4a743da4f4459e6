/* SPDX-License-Identifier: Apache-2.0 */
/* image - images and templates that are kept for later starts. */
#include "core/image.h"
#include "api/handle.h"

#include "base/util.h"

int cove_images_json(char **ret, struct cove_error *err)
{
	struct store st;
	json_t *list = NULL;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = images_list(&st, &list, err);
	store_close(&st);
	return r < 0 ? r : json_out(list, ret, err);
}

int cove_image_remove(const char *key, struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (!key || !*key)
		return fail(err, COVE_EINVAL, 0, "no key");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = image_remove(&st, key, err);
	store_close(&st);
	return r;
}

int cove_image_prepare(const struct cove_spec *spec, struct cove_error *err)
{
	struct store st;
	struct spec copy;
	int r;

	err = ERR(err);
	if (!spec)
		return fail(err, COVE_EINVAL, 0, "a spec is needed");
	if (spec_copy(&copy, &spec->spec, err) < 0)
		return err->code;
	r = handle_store(&st, err);
	if (r == 0) {
		r = box_resolve_spec(&copy, &st, err);
		if (r == 0)
			r = box_prepare(&copy, &st, err);
		store_close(&st);
	}
	spec_clear(&copy);
	return r;
}
