/* SPDX-License-Identifier: Apache-2.0 */
/* value_impl - what value.c and value_read.c share. */
#ifndef COVE_POLICY_VALUE_IMPL_H
#define COVE_POLICY_VALUE_IMPL_H

#include "policy/value.h"

#define VALUE_DEPTH_MAX 16
#define VALUE_KEYS_MAX 64 /* of a map; all are compared with each other */
#define VALUE_TEXT_MAX (16u << 20)

struct value *value_new(struct values *v, enum value_type type); /* NULL: no memory */

#endif
