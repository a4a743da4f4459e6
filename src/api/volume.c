/* SPDX-License-Identifier: Apache-2.0 */
/* volume - volumes, and what there is to tell about rw mounts. */
#include "core/volume.h"
#include "api/handle.h"

#include "base/util.h"
#include "core/quarantine.h"

int cove_volumes_json(char **ret, struct cove_error *err)
{
	struct store st;
	json_t *list = NULL;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = volumes_list(&st, &list, err);
	store_close(&st);
	return r < 0 ? r : json_out(list, ret, err);
}

int cove_volume_remove(const char *volume, struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (!volume)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = volume_remove(&st, volume, err);
	store_close(&st);
	return r;
}

int cove_notices(const char *name, char **ret, struct cove_error *err)
{
	struct store st;

	err = ERR(err);
	if (!name || !spec_name_ok(name))
		return fail(err, COVE_EINVAL, 0, "not a name");
	if (store_open(&st, err) < 0)
		return err->code;
	*ret = quarantine_news(&st, name);
	store_close(&st);
	return 0;
}
