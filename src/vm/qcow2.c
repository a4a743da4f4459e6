/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/qcow2.h"

#include <string.h>

/* Where the fields are; all of them are big-endian. */
enum {
	AT_VERSION = 4,
	AT_BACKING = 8,
	AT_CLUSTER_BITS = 20,
	AT_SIZE = 24,
	AT_CRYPT = 32,
	SIZE_2 = 72, /* of a header of version 2 */
	AT_INCOMPATIBLE = 72,
	AT_LENGTH = 100,
};

/* Bits of what a reader must understand. An unclean shutdown (0) costs no reader
 * anything; compression (3) and subclusters (4) are ways to store data. */
#define CORRUPT (1u << 1)
#define DATA_ELSEWHERE (1u << 2)
#define KNOWN 0x1fu

#define SIZE_MAX_ (64ull << 40)

static uint64_t number(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

static const char *check_features(const uint8_t *p, size_t n)
{
	uint64_t bits;

	if (n < QCOW2_HEAD || number(p + AT_LENGTH, 4) < QCOW2_HEAD)
		return "its header is cut short";
	bits = number(p + AT_INCOMPATIBLE, 8);
	if (bits & DATA_ELSEWHERE)
		return "its data is in another file";
	if (bits & CORRUPT)
		return "it is marked as corrupt";
	return bits & ~(uint64_t)KNOWN ? "it needs what this version does not know"
				       : NULL;
}

const char *qcow2_check(const void *head, size_t n, uint64_t *ret_size)
{
	const uint8_t *p = head;
	uint64_t bits, size;

	if (n < SIZE_2)
		return "it is too short";
	if (memcmp(p, "QFI\xfb", 4) != 0)
		return "it is no qcow2 file";
	if (number(p + AT_VERSION, 4) != 2 && number(p + AT_VERSION, 4) != 3)
		return "its version is neither 2 nor 3";
	if (number(p + AT_BACKING, 8))
		return "it names a backing file";
	if (number(p + AT_CRYPT, 4))
		return "it is encrypted";
	bits = number(p + AT_CLUSTER_BITS, 4);
	size = number(p + AT_SIZE, 8);
	if (bits < 9 || bits > 21 || !size || size > SIZE_MAX_)
		return "its sizes are not possible";
	*ret_size = size;
	return number(p + AT_VERSION, 4) == 3 ? check_features(p, n) : NULL;
}
