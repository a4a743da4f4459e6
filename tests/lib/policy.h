/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h - for tests: a policy from JSON texts, in which ' stands for ". */
#ifndef COVE_TEST_POLICY_H
#define COVE_TEST_POLICY_H

#include "base/util.h"
#include "policy/policy.h"

#include <stdio.h>

struct made {
	struct buf image;
	struct policy *p; /* NULL: err says why */
	struct cove_error err;
};

static inline json_t *loose(const char *text)
{
	char *copy = text ? strdup(text) : NULL;
	json_t *json;

	for (char *s = copy; s && *s; s++)
		if (*s == '\'')
			*s = '"';
	json = copy ? json_loads(copy, JSON_DECODE_ANY, NULL) : NULL;
	if (text && !json) {
		printf("Bail out! not JSON: %s\n", text);
		abort();
	}
	free(copy);
	return json;
}

static inline void unmake(struct made *m)
{
	policy_close(m->p);
	buf_clear(&m->image);
	m->p = NULL;
}

/* Any may be NULL. */
static inline struct policy *make_policy(struct made *m, const char *network,
					 const char *secrets, const char *live)
{
	json_t *n = loose(network), *s = loose(secrets), *l = loose(live);
	struct policy_source src = {
		.network = n, .secrets = s, .live = l, .generation = 7};

	*m = (struct made){.image = BUF_INIT(POLICY_IMAGE_MAX)};
	if (policy_compile(&src, &m->image, &m->err) == 0 &&
	    policy_open(&m->p, m->image.data, m->image.len, &m->err) < 0)
		m->p = NULL;
	json_decref(n);
	json_decref(s);
	json_decref(l);
	return m->p;
}

#endif
