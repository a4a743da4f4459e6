/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trust.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <sodium/crypto_hash_sha256.h>
#include <stdio.h>

#define TRUST_MAX (1u << 20)

int config_dir(char *out, size_t size)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	if (xdg && xdg[0] == '/')
		n = snprintf(out, size, "%s/cove", xdg);
	else if (home && home[0] == '/')
		n = snprintf(out, size, "%s/.config/cove", home);
	else
		return -ENOENT;
	return n >= (int)size ? -ENAMETOOLONG : 0;
}

static void make_line(char *out, size_t size, const char *path, const void *text,
		      size_t n)
{
	unsigned char h[crypto_hash_sha256_BYTES];
	size_t at = 0;

	crypto_hash_sha256(h, text, n);
	for (size_t i = 0; i < sizeof(h); i++)
		at += (size_t)snprintf(out + at, size - at, "%02x", h[i]);
	snprintf(out + at, size - at, " %s\n", path);
}

static int open_dir(bool create)
{
	char dir[4096];
	int r = config_dir(dir, sizeof(dir));

	if (r == 0 && create)
		r = mkdir_p(dir, 0700);
	if (r < 0)
		return r;
	r = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

bool trust_has(const char *path, const void *text, size_t n)
{
	cleanup_buf struct buf list = BUF_INIT(TRUST_MAX);
	cleanup_fd int dir = open_dir(false);
	char line[4300];

	if (dir < 0 || strchr(path, '\n') || read_file_at(dir, "trusted", &list) < 0)
		return false;
	make_line(line, sizeof(line), path, text, n);
	for (const char *p = list.data; p && *p;
	     p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (strncmp(p, line, strlen(line)) == 0)
			return true;
	return false;
}

/* Everything but lines about this path. */
static int copy_others(const struct buf *list, const char *path, struct buf *ret)
{
	const char *p = list->data ? list->data : "";

	while (*p) {
		size_t n = strcspn(p, "\n");
		bool same =
			n > 65 && n - 65 == strlen(path) && !memcmp(p + 65, path, n - 65);

		if (!same && n && (buf_append(ret, p, n) < 0 || buf_puts(ret, "\n") < 0))
			return -ENOMEM;
		p += n + (p[n] == '\n');
	}
	return 0;
}

int trust_set(const char *path, const void *text, size_t n, bool trust,
	      struct cove_error *err)
{
	cleanup_buf struct buf list = BUF_INIT(TRUST_MAX), out = BUF_INIT(TRUST_MAX);
	cleanup_fd int dir = open_dir(true);
	char line[4300];
	int r = dir;

	if (strchr(path, '\n'))
		return fail(err, COVE_EINVAL, 0, "the path has a line break in it");
	if (r >= 0)
		r = read_file_at(dir, "trusted", &list);
	if (r == -ENOENT)
		r = 0;
	if (r == 0)
		r = copy_others(&list, path, &out);
	if (r == 0 && trust) {
		make_line(line, sizeof(line), path, text, n);
		r = buf_puts(&out, line);
	}
	if (r == 0)
		r = write_file_atomic(dir, "trusted", out.data ? out.data : "", out.len,
				      0600, 1);
	return r < 0 ? fail(err, COVE_EIO, -r, "list of trusted files") : 0;
}
