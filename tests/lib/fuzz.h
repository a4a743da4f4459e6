/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - a fuzz target is one function. With -DFUZZ_REPLAY it gets a main() that runs
 * each file named on the command line through it (and every prefix and some bit flips of
 * it).
 */
#ifndef COVE_FUZZ_H
#define COVE_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_REPLAY
static void fuzz_replay(const uint8_t *data, size_t size)
{
	uint8_t *copy =
		malloc(size + 1); /* exact copies, so that ASan sees an overread */
	size_t step = size / 64 + 1;

	if (!copy)
		abort();
	LLVMFuzzerTestOneInput(data, size);
	for (size_t n = 0; n < size; n += step) {
		uint8_t *cut = malloc(n + 1);

		memcpy(cut, data, n);
		LLVMFuzzerTestOneInput(cut, n);
		free(cut);
		memcpy(copy, data, size);
		copy[n] ^= (uint8_t)(1u << (n % 8));
		LLVMFuzzerTestOneInput(copy, size);
	}
	free(copy);
}

int main(int argc, char **argv)
{
	static uint8_t data[1 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");

		if (!f)
			return 1;
		fuzz_replay(data, fread(data, 1, sizeof(data), f));
		fclose(f);
	}
	printf("replayed %d inputs\n", argc - 1);
	return argc < 2;
}
#endif
#endif
