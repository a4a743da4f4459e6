/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/processor.h"

#include "base/util.h"

#include <fcntl.h>
#include <sodium/crypto_generichash.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FIRST_MAX 16384 /* what is said of the first processor is 2 to 5 KiB */

static bool counts(const char *line)
{
	static const char *const keys[] = {"vendor_id",  "cpu family", "model",
					   "model name", "stepping",   "flags"};
	size_t n = strcspn(line, "\t:\n");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strlen(keys[i]) == n && strncmp(line, keys[i], n) == 0)
			return true;
	return false;
}

void processor_digest_text(const char *cpuinfo, char out[PROCESSOR_HEX])
{
	unsigned char hash[(PROCESSOR_HEX - 1) / 2];
	crypto_generichash_state s;

	crypto_generichash_init(&s, NULL, 0, sizeof(hash));
	/* The first paragraph: machines are made of equal processors. */
	while (*cpuinfo && *cpuinfo != '\n') {
		size_t n = strcspn(cpuinfo, "\n");

		n += cpuinfo[n] == '\n';
		if (counts(cpuinfo))
			crypto_generichash_update(&s, (const unsigned char *)cpuinfo, n);
		cpuinfo += n;
	}
	crypto_generichash_final(&s, hash, sizeof(hash));
	for (size_t i = 0; i < sizeof(hash); i++)
		snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

void processor_digest(char out[PROCESSOR_HEX])
{
	cleanup_fd int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
	char text[FIRST_MAX + 1];
	size_t n = 0;
	ssize_t got = 1;

	while (fd >= 0 && n < FIRST_MAX && got > 0) {
		got = read(fd, text + n, FIRST_MAX - n);
		n += got > 0 ? (size_t)got : 0;
		text[n] = '\0';
		if (strstr(text, "\n\n"))
			break;
	}
	text[n] = '\0';
	processor_digest_text(text, out);
}
