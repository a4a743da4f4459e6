/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netlearn - what a sandbox used while its network mode was learn, as a policy.
 *
 * One rule for each host, in the order of their names: the ports that were connected to
 * and, where requests were read, their methods and paths. Many paths below one directory
 * become a pattern.
 */
#ifndef COVE_CORE_NETLEARN_H
#define COVE_CORE_NETLEARN_H

#include "base/error.h"

#include <jansson.h>

#define NETLEARN_HOSTS 65536
#define NETLEARN_PATHS 16 /* of one host; more become patterns */

/* dir: the record. {"mode":"allowlist","rules":[...]}; a new reference. */
int netlearn(int dir, json_t **ret, struct cove_error *err);
/* The same of lines that were read already; for tests. */
struct netlearn;
int netlearn_new(struct netlearn **ret);
int netlearn_line(void *l, const char *line, size_t n); /* not 0: no memory */
json_t *netlearn_policy(struct netlearn *l);
void netlearn_free(struct netlearn *l);

#endif
