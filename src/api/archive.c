/* SPDX-License-Identifier: Apache-2.0 */
/* archive - sandboxes to and from one file. */
#include "core/archive.h"

#include "api/handle.h"
#include "api/state.h"

#include "base/util.h"

int cove_export(const char *name, int fd, struct cove_error *err)
{
	struct store st;
	struct cut c;
	int r;

	err = ERR(err);
	if (handle_store(&st, err) < 0)
		return err->code;
	r = open_cut(&c, &st, name, err);
	if (r == 0) {
		r = archive_export(&c, fd, err);
		cut_clear(&c);
	}
	store_close(&st);
	return r;
}

int cove_import(const char *name, int fd, const struct cove_spec *changes,
		char **ret_name, struct cove_error *err)
{
	char made[SPEC_NAME_MAX + 1] = "", *copy = NULL;
	struct store st;
	int r;

	err = ERR(err);
	if (ret_name && !(copy = malloc(sizeof(made))))
		return fail_nomem(err);
	r = handle_store(&st, err);
	if (r == 0) {
		r = archive_import(&st, name, fd, changes ? &changes->spec : NULL, made,
				   err);
		store_close(&st);
	}
	if (r < 0) {
		free(copy);
		return r;
	}
	if (copy) {
		memcpy(copy, made, sizeof(made));
		*ret_name = copy;
	}
	return 0;
}
