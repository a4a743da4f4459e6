/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the manifest of a snapshot. */
#include "fuzz.h"

#include "os/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct manifest m;
	struct stat st = {.st_dev = 1, .st_ino = 2, .st_size = 3};

	manifest_init(&m);
	if (manifest_parse(&m, (const char *)data, size) == 0) {
		struct buf out = BUF_INIT(MANIFEST_MAX);
		struct manifest again;

		manifest_init(&again);
		if (manifest_print(&m, &out) < 0 ||
		    manifest_parse(&again, out.data, out.len) < 0 || again.n != m.n)
			abort();
		manifest_find(&m, &st);
		manifest_clear(&again);
		buf_clear(&out);
	}
	manifest_clear(&m);
	return 0;
}
