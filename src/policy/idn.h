/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idn - one label of an international name, from UTF-8 to its A-label. Pure.
 *
 * Only what needs no mapping is taken: lower-case letters, composed, of one script (Han,
 * kana and Hangul count as one), with digits and '-'. Everything else, so also every mix
 * of scripts that looks like another name, is refused; its author can write the xn--
 * form.
 */
#ifndef COVE_POLICY_IDN_H
#define COVE_POLICY_IDN_H

#include <stddef.h>

#define IDN_LABEL_MAX 63

/* Writes "xn--..." without a NUL and returns its length; -EINVAL. */
int idn_label(const char *in, size_t n, char out[IDN_LABEL_MAX]);

#endif
