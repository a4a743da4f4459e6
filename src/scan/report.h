/* SPDX-License-Identifier: Apache-2.0 */
/* report - a finding as it may be shown: redacted, and with a name of its own. */
#ifndef COVE_SCAN_REPORT_H
#define COVE_SCAN_REPORT_H

#include "scan/file.h"

#define PRINT_LEN 16 /* hex digits of a fingerprint */
#define EXCERPT_MAX 96

/* The first characters of a long secret, never more than a quarter of it, and its length.
 * Of a secret of the sandbox nothing. Plain ASCII. */
void report_excerpt(char ret[EXCERPT_MAX], const struct found *f);
/* Of rule, path, place in the archive and the secret's text: the same finding has the
 * same one in every scan. */
void report_print(char ret[PRINT_LEN + 1], const char *path,
		  const struct file_finding *f);

#endif
