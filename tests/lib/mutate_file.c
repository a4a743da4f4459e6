/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_file - writes, copies and removes files and trees. */
#include "mutate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void put_file(const char *path, const char *data, size_t n, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n || fchmod(fd, mode) < 0)
		die("write", path);
	close(fd);
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
	static char buf[1 << 16];
	int in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = 0;

	if (in < 0 || out < 0)
		die("copy", from);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		if (write(out, buf, (size_t)n) != n)
			die("write", to);
	if (n < 0 || fchmod(out, mode) < 0)
		die("copy", from);
	close(in);
	close(out);
}

static void copy_entry(const struct entry *e, const char *from, const char *to)
{
	char src[PATH_SIZE], dst[PATH_SIZE], target[PATH_SIZE];
	ssize_t n;

	if (snprintf(src, sizeof(src), "%s/%s", from, e->path) >= PATH_SIZE ||
	    snprintf(dst, sizeof(dst), "%s/%s", to, e->path) >= PATH_SIZE)
		die("path too long:", e->path);
	if (S_ISDIR(e->st.st_mode)) {
		if (mkdir(dst, 0700) < 0)
			die("mkdir", dst);
	} else if (S_ISLNK(e->st.st_mode)) {
		n = readlink(src, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = '\0';
		if (n < 0 || symlink(target, dst) < 0)
			die("symlink", dst);
	} else {
		copy_file(src, dst, e->st.st_mode & 07777);
	}
}

/* As mv(1) does where a rename is not possible. */
void copy_tree(const char *from, const char *to)
{
	char dst[PATH_SIZE];
	struct stat st;
	struct tree t;

	if (lstat(from, &st) < 0 || mkdir(to, 0700) < 0)
		die("copy", from);
	tree_read(&t, from);
	for (size_t i = 0; i < t.n; i++)
		copy_entry(&t.v[i], from, to);
	for (size_t i = t.n; i-- > 0;)
		if (S_ISDIR(t.v[i].st.st_mode) &&
		    (snprintf(dst, sizeof(dst), "%s/%s", to, t.v[i].path) < 0 ||
		     chmod(dst, t.v[i].st.st_mode & 07777) < 0))
			die("chmod", dst);
	if (chmod(to, st.st_mode & 07777) < 0)
		die("chmod", to);
	tree_free(&t);
}

void remove_tree(const char *path)
{
	char below[PATH_SIZE];
	struct stat st;
	struct tree t = {0};

	if (lstat(path, &st) < 0)
		die("stat", path);
	if (S_ISDIR(st.st_mode))
		tree_read(&t, path);
	for (size_t i = t.n; i-- > 0;) {
		bool dir = S_ISDIR(t.v[i].st.st_mode);

		if (snprintf(below, sizeof(below), "%s/%s", path, t.v[i].path) < 0 ||
		    unlinkat(AT_FDCWD, below, dir ? AT_REMOVEDIR : 0) < 0)
			die("remove", below);
	}
	if (unlinkat(AT_FDCWD, path, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		die("remove", path);
	tree_free(&t);
}
