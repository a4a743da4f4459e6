/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/attest.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const attest_namespaces[ATTEST_NAMESPACES] = {
	"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};

void attest_item(struct report *r, const char *name, const char *required,
		 const char *actual, bool ok)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:b}", "item", name, "required", required,
			      "actual", actual, "ok", ok);

	if (!o || json_array_append_new(r->items, o) < 0)
		r->nomem = true;
	r->short_of += !ok;
}

void attest_limit(struct report *r, const char *name, uint64_t want, uint64_t have,
		  bool asked, bool missing)
{
	char w[48], h[64];

	if (!want)
		return;
	snprintf(w, sizeof(w), "%" PRIu64 "%s", want, asked ? "" : " (default)");
	if (missing)
		snprintf(h, sizeof(h), "not enforced on this host");
	else if (!have)
		snprintf(h, sizeof(h), "all that this host has");
	else
		snprintf(h, sizeof(h), "%" PRIu64, have);
	attest_item(r, name, w, h, missing || !have ? !asked : have <= want + 4096);
}

bool attest_own_namespace(int proc, const char *name, char *ret, size_t size)
{
	char path[32], self[40], host[64] = "";
	ssize_t a, b;

	snprintf(path, sizeof(path), "ns/%s", name);
	snprintf(self, sizeof(self), "/proc/self/ns/%s", name);
	a = readlink(self, host, sizeof(host) - 1);
	b = readlinkat(proc, path, ret, size - 1);
	if (b <= 0) {
		snprintf(ret, size, "unknown");
		return false;
	}
	ret[b] = '\0';
	return a > 0 && strcmp(host, ret) != 0;
}

void attest_status(const char *status, const char *key, char *out, size_t size)
{
	const char *p = strstr(status, key);
	size_t n;

	out[0] = '\0';
	if (!p)
		return;
	p += strlen(key);
	p += strspn(p, ":\t ");
	n = min_size(strcspn(p, "\n"), size - 1);
	memcpy(out, p, n);
	out[n] = '\0';
}

bool attest_only_loopback(int proc)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	int lines = 0;

	if (read_file_at(proc, "net/dev", &b) < 0 || !b.data)
		return false;
	for (const char *p = b.data; (p = strchr(p, '\n')); p++)
		lines++;
	/* two of them are headings */
	return lines == 3 && strstr(b.data, " lo:");
}

bool attest_one_user(int proc, uint32_t outside, char *ret, size_t size)
{
	cleanup_buf struct buf b = BUF_INIT(4096);
	unsigned in = 0, out = 0, n = 0;

	snprintf(ret, size, "unknown");
	if (read_file_at(proc, "uid_map", &b) == 0 && b.data &&
	    sscanf(b.data, "%u %u %u", &in, &out, &n) == 3)
		snprintf(ret, size, "%u inside is %u outside, %u id", in, out, n);
	return n == 1 && out != 0 && out == outside;
}
