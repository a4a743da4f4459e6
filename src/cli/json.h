/* SPDX-License-Identifier: Apache-2.0 */
/* json - reading what the library reports. */
#ifndef COVE_CLI_JSON_H
#define COVE_CLI_JSON_H

#include "cli/cli.h"

#include <jansson.h>

/* Parses and frees text (a string of the library). NULL sets err. */
json_t *cli_json_take(char *text, struct cove_error *err);
int cli_list(json_t **ret, struct cove_error *err); /* all sandboxes, an array */

const char *cli_json_text(const json_t *object,
			  const char *key); /* NULL: no string there */
/* Any scalar as text in buf; NULL and missing give "". */
const char *cli_json_scalar(const json_t *value, char *buf, size_t size);
/* Prints one document with a newline; pretty: indented. The exit code. */
int cli_json_print(const char *verb, const char *text, bool pretty, int code);

const char *cli_bytes(double n, char *buf, size_t size);         /* "1.5 GiB" */
const char *cli_elapsed(double seconds, char *buf, size_t size); /* "3d2h", "5m", "12s" */

/* Shows an array of objects with "name" (text: taken over): as it is with --json, the
 * names with --quiet, else as a table. The exit code. */
int cli_json_list(const struct args *a, char *text, int (*table)(const json_t *all));

#endif
