/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/attest.h"
#include "backend/backend.h"

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

/* ---- guarded paths of rw mounts ------------------------------------------------- */

/* As the kernel writes it: blanks and the like as \ooo. */
static void mountinfo_path(const char *dir, const char *name, char *out, size_t size)
{
	const char *parts[] = {dir, "/", name};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		for (const char *c = parts[i]; *c && n + 5 < size; c++) {
			if (strchr(" \t\n\\", *c))
				n += (size_t)snprintf(out + n, size - n, "\\%03o",
						      (unsigned char)*c);
			else
				out[n++] = *c;
		}
	out[n] = '\0';
}

/* The options of the last mount at path, which is the uppermost: "ro,nosuid,...". */
static bool mounted_ro(const char *mountinfo, const char *path)
{
	size_t n = strlen(path);
	bool ro = false;

	for (const char *line = mountinfo; line && *line;) {
		const char *p = line, *end = strchr(line, '\n');

		/* id parent major:minor root MOUNTPOINT OPTIONS */
		for (int field = 0; p && field < 4; field++) {
			p = strchr(p, ' ');
			p = p && (!end || p < end) ? p + 1 : NULL;
		}
		if (p && strncmp(p, path, n) == 0 && p[n] == ' ')
			ro = strncmp(p + n + 1, "ro", 2) == 0 &&
			     (p[n + 3] == ',' || p[n + 3] == ' ');
		line = end ? end + 1 : NULL;
	}
	return ro;
}

void attest_guards(struct report *r, const struct place_config *c, int proc)
{
	cleanup_buf struct buf b = BUF_INIT(4u << 20);
	bool read = false;

	for (size_t i = 0; i < c->n_mounts; i++)
		for (size_t k = 0; k < c->mounts[i].n_guards; k++) {
			const struct place_guard *g = &c->mounts[i].guards[k];
			char path[4 * SPEC_STR_MAX], name[2 * SPEC_STR_MAX];
			bool ro;

			if (g->pin)
				continue;
			if (!read)
				read = read_file_at(proc, "mountinfo", &b) == 0 && b.data;
			mountinfo_path(c->mounts[i].target, g->path, path, sizeof(path));
			ro = read && mounted_ro(b.data, path);
			snprintf(name, sizeof(name), "protected %s/%s",
				 c->mounts[i].target, g->path);
			attest_item(r, name, "read-only", ro ? "read-only" : "writable",
				    ro);
		}
}
