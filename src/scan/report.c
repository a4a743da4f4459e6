/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/report.h"

#include "base/util.h"

#include <sodium.h>
#include <stdio.h>

void report_excerpt(char ret[EXCERPT_MAX], const struct found *f)
{
	size_t show = f->exact ? 0 : min_size(4, f->len / 4), n = 0;

	ret[0] = '\0';
	if (!f->len)
		return;
	for (; n < show; n++) {
		char c = f->secret[n];

		ret[n] = c > ' ' && c < 0x7f ? c : '.';
	}
	snprintf(ret + n, EXCERPT_MAX - n, "******** (%zu characters)", f->len);
}

static void add(crypto_hash_sha256_state *h, const char *text, size_t len)
{
	uint64_t n = len;

	crypto_hash_sha256_update(h, (const unsigned char *)&n, sizeof(n));
	crypto_hash_sha256_update(h, (const unsigned char *)text, len);
}

void report_print(char ret[PRINT_LEN + 1], const char *path, const struct file_finding *f)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state h;

	crypto_hash_sha256_init(&h);
	add(&h, f->found->rule, strlen(f->found->rule));
	add(&h, path, strlen(path));
	add(&h, f->inner, strlen(f->inner));
	add(&h, f->found->secret, f->found->len);
	crypto_hash_sha256_final(&h, hash);
	for (size_t i = 0; i < PRINT_LEN / 2; i++)
		snprintf(ret + 2 * i, 3, "%02x", hash[i]);
}
