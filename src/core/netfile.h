/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netfile - the policy file that a spec may name (network.file): YAML or JSON, a
 * `network:` object, just what is in one, or just a list of rules.
 *
 * It is kept as JSON text, which policy_compile() reads and checks in full: JSON goes
 * there as it is, YAML is turned into it first.
 */
#ifndef COVE_CORE_NETFILE_H
#define COVE_CORE_NETFILE_H

#include "base/error.h"
#include "spec/spec.h"

#include <jansson.h>

#define NETFILE_MAX (16u << 20) /* bytes of a policy file */

struct netfile {
	char *text; /* JSON; NULL: there is no file */
	size_t n;
	char name[64]; /* without its directory, for messages */
};
int netfile_read(struct netfile *f, const char *path, struct cove_error *err);
void netfile_clear(struct netfile *f);

bool netfile_same(const struct netfile *a, const struct netfile *b);

/* Is it a policy? */
int netfile_check(const struct netfile *f, struct cove_error *err);
/* What is in its network object, for people; a new reference, NULL: no memory. */
json_t *netfile_json(const struct netfile *f);

/* The gate of a spec, with a policy file that lies in a mount among what may not land; a
 * new reference, or NULL: there is no gate. */
json_t *netfile_gate(const struct spec *s);

/* A policy file must not be where the sandbox could change it at will: below the source
 * of a rw mount. */
int netfile_place_ok(const struct spec *s, struct cove_error *err);

#endif
