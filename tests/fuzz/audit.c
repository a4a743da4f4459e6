/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties: a line that is accepted as a record has the frame it is said to have; what
 * is printed is accepted, with the same values and the right hash; a head that is
 * accepted was made with the key, and any bytes become a JSON string.
 */
#include "core/audit_impl.h"
#include "fuzz.h"

static struct audit_key key;

static void check_line(const char *text, size_t n)
{
	struct audit_record r;
	char hash[AUDIT_HEX + 1];

	if (audit_parse(text, n, &r) < 0)
		return;
	if (r.seq == 0 || strlen(r.hash) != AUDIT_HEX ||
	    (r.prev[0] && strlen(r.prev) != AUDIT_HEX) || !r.event[0] ||
	    memchr(text, '\n', n))
		abort();
	audit_hash(&key, text, n, hash);
}

static void check_print(const char *text, size_t n)
{
	struct audit_record in = {.seq = n + 1}, out;
	cleanup_buf struct buf b = BUF_INIT(1 << 20);
	char hash[AUDIT_HEX + 1];
	json_t *j = json_pack("{s:o}", "text", audit_text(text, n, 4096));

	snprintf(in.event, sizeof(in.event), "exec");
	if (!j || audit_print(&b, &key, &in, (int64_t)n * 1000000007, j) < 0 ||
	    audit_parse(b.data, b.len - 1, &out) < 0)
		abort();
	audit_hash(&key, b.data, b.len - 1, hash);
	if (out.seq != in.seq || strcmp(out.hash, in.hash) != 0 ||
	    strcmp(out.hash, hash) != 0)
		abort();
	for (size_t i = 0; i + 1 < b.len; i++)
		if (b.data[i] < 32 || b.data[i] > 126)
			abort();
	json_decref(j);
}

static void check_head(const char *text, size_t n)
{
	struct audit_head a, b;
	char slot[AUDIT_SLOT];

	audit_head_parse(&key, text, n, &a);
	if (!a.seq)
		return;
	audit_head_print(&key, &a, slot);
	audit_head_parse(&key, slot, sizeof(slot), &b);
	if (a.seq != b.seq || strcmp(a.hash, b.hash) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!key.id[0]) {
		memset(key.bytes, 7, sizeof(key.bytes));
		audit_key_id(&key);
	}
	check_line((const char *)data, size);
	check_head((const char *)data, size);
	if (size < 4096)
		check_print((const char *)data, size);
	return 0;
}
