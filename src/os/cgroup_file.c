/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_file - reading and writing the small files that a cgroup consists of. */
#include "os/cgroup_impl.h"

#include "base/util.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

int cg_path(char *out, size_t n, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(out, n, fmt, ap);
	va_end(ap);
	return len < 0 || (size_t)len >= n ? -ENAMETOOLONG : 0;
}

int cg_write(const char *dir, const char *file, const char *text)
{
	char path[CGROUP_PATH_MAX + 64];
	int r = cg_path(path, sizeof(path), "%s/%s", dir, file);
	cleanup_fd int fd = r < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);

	if (r < 0)
		return r;
	if (fd < 0)
		return -errno;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int cg_read(const char *dir, const char *file, char *out, size_t n)
{
	char path[CGROUP_PATH_MAX + 64];
	int r = cg_path(path, sizeof(path), "%s/%s", dir, file);
	cleanup_fd int fd = r < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (r < 0)
		return r;
	if (fd < 0)
		return -errno;
	len = read(fd, out, n - 1);
	if (len < 0)
		return -errno;
	out[len] = '\0';
	return 0;
}

int cg_read_u64(const char *dir, const char *file, uint64_t *ret)
{
	/* v1 says "no limit" with the largest multiple of a page. */
	const uint64_t v1_max = 0x7fffffffffffffffull & ~0xffffull;
	char text[128];
	uint64_t v;
	char *end;
	int r = cg_read(dir, file, text, sizeof(text));

	if (r < 0)
		return r;
	if (strncmp(text, "max", 3) == 0 || strncmp(text, "-1", 2) == 0) {
		*ret = UINT64_MAX;
		return 0;
	}
	errno = 0;
	v = strtoull(text, &end, 10);
	if (end == text || errno)
		return -EBADMSG;
	*ret = v >= v1_max ? UINT64_MAX : v;
	return 0;
}

uint64_t cg_field(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, key, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	}
	return 0;
}

int cg_mkdir(const char *path)
{
	if (mkdir(path, 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	/* Left by a crash: it goes only if nothing runs in it. */
	if (rmdir(path) < 0)
		return -EEXIST;
	return mkdir(path, 0755) < 0 ? -errno : 0;
}

int cg_id_ok(const char *id)
{
	size_t n = strlen(id);

	if (n == 0 || n > CGROUP_ID_MAX || !isalnum((unsigned char)id[0]))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)id[i]) && !strchr("._-", id[i]))
			return 0;
	return 1;
}
