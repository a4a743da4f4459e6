/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, paths and a .gitattributes as a sandbox may write them. Properties: folding a
 * folded name changes nothing; a name and its folded form make the host run code or do
 * not, both alike; nothing is read beyond the end.
 */
#include "base/util.h"
#include "fuzz.h"
#include "work/gate_impl.h"

#define INPUT_MAX 4096 /* longer than any path */

static void fold(const char *text, size_t n)
{
	cleanup_buf struct buf once = BUF_INIT(1u << 20), twice = BUF_INIT(1u << 20);

	if (gate_fold(&once, text, n) < 0)
		abort();
	/* Bytes that are no text are marked, and a mark would be marked again. */
	if (gate_name_problem(text, n) == RULE_NAME_ENCODING ||
	    (once.len && memchr(once.data, 0xff, once.len)))
		return;
	if (gate_fold(&twice, once.len ? once.data : "", once.len) < 0 ||
	    once.len != twice.len ||
	    (once.len && memcmp(once.data, twice.data, once.len) != 0))
		abort();
	if (memchr(text, '\0', n) || once.len == 0)
		return;
	cleanup_free char *path = strndup(text, n);
	if (path &&
	    !gate_executing_path(path, NULL) != !gate_executing_path(once.data, NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = min_size(size, INPUT_MAX), len = 0;
	cleanup_free char *text = malloc(n + 1);

	if (!text)
		return 0;
	memcpy(text, data, n);
	text[n] = '\0';
	fold(text, n);
	gate_git_driver(text, n, &len);
	if (gate_path_problem(text, 1) < 0) {
		size_t prefix = 0;

		gate_path_match(text, true, &prefix);
		if (prefix > strlen(text))
			abort();
	}
	return 0;
}
