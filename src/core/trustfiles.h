/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trustfiles - what programs in a sandbox with a network find in files: their resolver,
 * and where connections are opened, our authority among those that the image trusts.
 *
 * Made in the RUN directory and bound read-only: resolv.conf; /run/cove/ca.pem (ours) and
 * /run/cove/ca-bundle.pem (the image's and ours); the same bundle over every bundle file
 * that the image has; and a key store over each of its Java. Mounts are by inode, so what
 * is written here later is seen inside: the authority is made while the sandbox starts,
 * or when a rule that opens connections comes in hours later.
 */
#ifndef COVE_CORE_TRUSTFILES_H
#define COVE_CORE_TRUSTFILES_H

#include "base/error.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <stddef.h>

struct box;

/* Before the place starts, once RUN exists. Fills b->trust and b->config.files. With
 * trust, the bundles and key stores are there too, as the image has them: they can be
 * filled later, while the sandbox runs. */
int trustfiles_prepare(struct box *b, bool trust, struct cove_error *err);
/* Does the image have a Java whose key store is among them? */
bool trustfiles_java(const struct box *b);
/* Our authority goes into all of them, in place. jks: borrowed; -1: no Java. */
int trustfiles_fill(struct box *b, const char *pem, int jks, struct cove_error *err);
/* Can it be, and was it not yet? */
bool trustfiles_unfilled(const struct box *b);
void trustfiles_clear(struct box *b);

/* "NAME=VALUE" for every program inside, before what the spec says (which wins). */
const char *const *trustfiles_env(const struct box *b, size_t *ret_n);

#endif
