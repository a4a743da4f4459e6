/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sha256.h"

#include <sodium/crypto_hash_sha256.h>
#include <stdio.h>

void cli_sha256_hex(const void *data, size_t n, char ret[65])
{
	unsigned char h[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(h, data, n);
	for (size_t i = 0; i < sizeof(h); i++)
		snprintf(ret + 2 * i, 3, "%02x", h[i]);
}
