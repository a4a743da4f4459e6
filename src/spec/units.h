/* SPDX-License-Identifier: Apache-2.0 */
/* units - plain numbers; sizes and durations are in spec.h. Leaf helpers: 0 or -errno. */
#ifndef COVE_SPEC_UNITS_H
#define COVE_SPEC_UNITS_H

#include <stdint.h>

int units_thousandths(const char *text, uint64_t *ret); /* "0.5" is 500 */
int units_count(const char *text, uint64_t *ret);       /* a whole number */

#endif
