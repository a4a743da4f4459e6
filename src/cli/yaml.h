/* SPDX-License-Identifier: Apache-2.0 */
/* yaml - a spec as a text that people like to edit. */
#ifndef COVE_CLI_YAML_H
#define COVE_CLI_YAML_H

#include <jansson.h>
#include <stdio.h>

/* Writes a JSON object as block YAML. */
void cli_yaml_write(FILE *f, const json_t *object);

#endif
