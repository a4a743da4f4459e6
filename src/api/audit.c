/* SPDX-License-Identifier: Apache-2.0 */
/* audit - reading and checking the audit log. */
#include "api/handle.h"

#include "core/audit.h"

int64_t cove_audit(const char *name, uint64_t from_seq,
		   int (*fn)(void *arg, const char *line, size_t n), void *arg,
		   struct cove_error *err)
{
	struct store st;
	int64_t next;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (handle_store(&st, err) < 0)
		return err->code;
	next = audit_read(&st, name, from_seq, fn, arg, err);
	store_close(&st);
	return next;
}

int cove_audit_verify(const char *name, uint64_t *ret_records, struct cove_error *err)
{
	struct store st;
	int r;

	err = ERR(err);
	if (!name)
		return fail(err, COVE_EINVAL, 0, "no name");
	if (handle_store(&st, err) < 0)
		return err->code;
	r = audit_verify(&st, name, ret_records, err);
	store_close(&st);
	return r;
}
