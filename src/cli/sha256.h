/* SPDX-License-Identifier: Apache-2.0 */
/* sha256 - the hash that `cove config trust` shows. */
#ifndef COVE_CLI_SHA256_H
#define COVE_CLI_SHA256_H

#include <stddef.h>

void cli_sha256_hex(const void *data, size_t n, char ret[65]);

#endif
