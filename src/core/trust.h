/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trust - which project files the user has vouched for: path and SHA-256 of the exact
 * content, one line each in ~/.config/cove/trusted.
 */
#ifndef COVE_CORE_TRUST_H
#define COVE_CORE_TRUST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* $XDG_CONFIG_HOME/cove or ~/.config/cove; -errno if neither is known. */
int config_dir(char *out, size_t size);

bool trust_has(const char *path, const void *text, size_t n);
/* Records (trust) or forgets the file; path is absolute. */
int trust_set(const char *path, const void *text, size_t n, bool trust,
	      struct cove_error *err);

#endif
