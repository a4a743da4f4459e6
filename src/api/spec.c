/* SPDX-License-Identifier: Apache-2.0 */
/* spec - the public face of specs. */
#include "api/handle.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>

int cove_spec_new(struct cove_spec **ret, struct cove_error *err)
{
	struct cove_spec *s = calloc(1, sizeof(*s));

	if (!s)
		return fail_nomem(ERR(err));
	spec_init(&s->spec);
	buf_init(&s->problems, 1 << 18);
	*ret = s;
	return 0;
}

int cove_spec_copy(struct cove_spec **ret, const struct cove_spec *src,
		   struct cove_error *err)
{
	struct cove_spec *s = NULL;
	int r;

	err = ERR(err);
	r = cove_spec_new(&s, err);
	if (r < 0)
		return r;
	spec_clear(&s->spec);
	r = spec_copy(&s->spec, &src->spec, err);
	if (r < 0) {
		cove_spec_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void cove_spec_free(struct cove_spec *s)
{
	if (!s)
		return;
	spec_clear(&s->spec);
	buf_clear(&s->problems);
	free(s);
}

int cove_spec_parse(struct cove_spec *s, const char *text, size_t len, const char *name,
		    struct cove_error *err)
{
	buf_clear(&s->problems);
	return spec_parse(&s->spec, text, len, name ? name : "spec", &s->problems,
			  ERR(err));
}

int cove_spec_load(struct cove_spec *s, const char *path, struct cove_error *err)
{
	cleanup_buf struct buf b = BUF_INIT(SPEC_TEXT_MAX);
	int r = read_file_at(AT_FDCWD, path, &b);

	if (r < 0)
		return fail(ERR(err), COVE_EINVAL, -r, "spec %s", path);
	return cove_spec_parse(s, b.data ? b.data : "", b.len, path, err);
}

const char *cove_spec_problems(const struct cove_spec *s)
{
	return s->problems.data ? s->problems.data : "";
}

int cove_spec_set(struct cove_spec *s, const char *key, const char *value,
		  struct cove_error *err)
{
	return spec_set(&s->spec, key, value, ERR(err));
}

int cove_spec_json(const struct cove_spec *s, char **ret, struct cove_error *err)
{
	return json_out(spec_json(&s->spec, false), ret, ERR(err));
}
