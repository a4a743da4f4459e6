/* SPDX-License-Identifier: Apache-2.0 */
#include "api/handle.h"

#include "base/redact.h"
#include "base/util.h"

int options_import(void *dst, size_t n, size_t least, const void *src, const char *what,
		   struct cove_error *err)
{
	const unsigned char *bytes = src;
	uint32_t size;

	memcpy(&size, src, sizeof(size));
	if (size < least || size > 65536)
		return fail(err, COVE_EINVAL, 0, "%s: size not set", what);
	for (size_t i = n; i < size; i++)
		if (bytes[i]) /* a newer caller asks for what we cannot do: refuse */
			return fail(err, COVE_EUNSUPPORTED, 0,
				    "%s: unknown option at byte %zu", what, i);
	memset(dst, 0, n);
	memcpy(dst, src, min_size(size, n));
	return 0;
}

const struct spec *handle_spec(const struct cove *s)
{
	return s->inproc ? &s->box.spec : &s->spec;
}

int handle_store(struct store *st, struct cove_error *err)
{
	int r = store_open(st, err);

	if (r == 0)
		store_sweep(st);
	return r;
}

int json_out(json_t *j, char **ret, struct cove_error *err)
{
	char *text = j ? json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;

	json_decref(j);
	if (!text || redact_string(&text) < 0) {
		free(text);
		return fail_nomem(err);
	}
	*ret = text;
	return 0;
}

void cove_string_free(char *s)
{
	free(s);
}
