/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the header of a qcow2 file: what passes stands alone and has a size. */
#include "vm/qcow2.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t none[8];
	uint64_t disk = 0;

	if (qcow2_check(data, size, &disk))
		return 0;
	if (!disk || memcmp(data + 8, none, 8) != 0 || (data[7] == 3 && data[79] & 4))
		abort();
	return 0;
}
