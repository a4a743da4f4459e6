/* SPDX-License-Identifier: Apache-2.0 */
/* imageview - see imageview.h. */
#include "core/imageview.h"

#include "base/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>

#define NAMES_MAX 64 /* of a directory, looked at for a pattern */

int imageview_look(const struct imageview *im, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, im->root, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

static int path_of(int fd, char out[PATH_MAX])
{
	char link[48];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n <= 0 || out[0] != '/')
		return -ENOENT;
	out[n] = '\0';
	return 0;
}

int imageview_open(struct imageview *im, const char *path)
{
	im->root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (im->root < 0 || path_of(im->root, im->path) < 0)
		return -ENOENT;
	if (strcmp(im->path, "/") == 0)
		im->path[0] = '\0';
	return 0;
}

int imageview_real(const struct imageview *im, const char *path, mode_t type,
		   char out[PATH_MAX])
{
	cleanup_fd int fd = imageview_look(im, path, O_PATH);
	size_t n = strlen(im->path);
	char full[PATH_MAX];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type ||
	    path_of(fd, full) < 0)
		return -ENOENT;
	if (strncmp(full, im->path, n) != 0 || full[n] != '/')
		return -ENOENT; /* moved away meanwhile */
	snprintf(out, PATH_MAX, "%s", full + n);
	return 0;
}

int imageview_place(const struct imageview *im, const char *dir, const char *name,
		    char out[PATH_MAX])
{
	size_t n;

	if (imageview_real(im, dir, S_IFDIR, out) < 0)
		snprintf(out, PATH_MAX, "%s", dir);
	n = strlen(out);
	return snprintf(out + n, PATH_MAX - n, "/%s", name) < (int)(PATH_MAX - n)
		       ? 0
		       : -ENAMETOOLONG;
}

void imageview_close(struct imageview *im)
{
	close_fd(&im->root);
}

bool imageview_each(const struct imageview *im, const char *pattern,
		    bool (*fn)(void *arg, const struct imageview *im, const char *path),
		    void *arg)
{
	const char *star = strchr(pattern, '*');
	char path[PATH_MAX];
	struct dirent *e;
	bool stop = false;
	DIR *d;
	int fd;

	if (!star)
		return fn(arg, im, pattern);
	snprintf(path, sizeof(path), "%.*s", (int)(star - pattern), pattern);
	fd = imageview_look(im, path, O_RDONLY | O_DIRECTORY);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return false;
	for (int i = 0; i < NAMES_MAX && !stop && (e = readdir(d)); i++)
		if (e->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%.*s%s%s", (int)(star - pattern),
			     pattern, e->d_name, star + 1) < (int)sizeof(path))
			stop = fn(arg, im, path);
	closedir(d);
	return stop;
}
