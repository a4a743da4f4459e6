/* SPDX-License-Identifier: Apache-2.0 */
/* glob - patterns of request paths: * stands for any text within a segment, ** across. */
#ifndef COVE_POLICY_GLOB_H
#define COVE_POLICY_GLOB_H

#include <stdbool.h>

#define GLOB_MAX 1023 /* bytes of a pattern */

/* In time proportional to the product of the lengths at worst, whatever the path. */
bool glob_matches(const char *pattern, const char *path);

#endif
