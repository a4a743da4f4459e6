/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_tree - lists a tree in an order that does not depend on the file system. */
#include "mutate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void add(struct tree *t, const char *path, const struct stat *st)
{
	struct entry *v = t->v;

	if ((t->n & (t->n - 1)) == 0) /* full at every power of two */
		v = realloc(t->v, (t->n ? t->n * 2 : 1) * sizeof(*v));
	if (!v)
		die("memory for", path);
	t->v = v;
	t->v[t->n] = (struct entry){.path = strdup(path), .st = *st};
	if (!t->v[t->n].path)
		die("memory for", path);
	t->n++;
}

static void walk(struct tree *t, int parent, const char *name, const char *path)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		die("open", path);
	while ((e = readdir(d))) {
		char below[PATH_SIZE];
		struct stat st;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "",
			 e->d_name);
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			die("stat", below);
		add(t, below, &st);
		if (S_ISDIR(st.st_mode))
			walk(t, fd, e->d_name, below);
	}
	closedir(d);
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

void tree_read(struct tree *t, const char *top)
{
	*t = (struct tree){0};
	walk(t, AT_FDCWD, top, "");
	if (t->n)
		qsort(t->v, t->n, sizeof(*t->v), by_path);
}

void tree_free(struct tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].path);
	free(t->v);
	*t = (struct tree){0};
}

/* Two sums of different kinds: two files that differ by accident differ in one of them.
 */
static void digest(int dir, const char *path, uint64_t out[2])
{
	static unsigned char buf[1 << 16];
	int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		die("open", path);
	out[0] = 14695981039346656037u;
	out[1] = 88172645463325252u;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			out[0] = (out[0] ^ buf[i]) * 1099511628211u;
			out[1] = out[1] * 6364136223846793005u + buf[i] + 1;
		}
	if (n < 0)
		die("read", path);
	close(fd);
}

static void put_text(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f || *s == '\\')
			printf("\\%03o", (unsigned char)*s);
		else
			putchar(*s);
}

static void put_content(int dir, const struct entry *e)
{
	char target[PATH_SIZE];
	uint64_t sums[2];
	ssize_t n;

	if (S_ISREG(e->st.st_mode)) {
		digest(dir, e->path, sums);
		printf(" %lld %016llx%016llx", (long long)e->st.st_size,
		       (unsigned long long)sums[0], (unsigned long long)sums[1]);
	} else if (S_ISLNK(e->st.st_mode)) {
		n = readlinkat(dir, e->path, target, sizeof(target) - 1);
		if (n < 0)
			die("readlink", e->path);
		target[n] = '\0';
		printf(" > ");
		put_text(target);
	} else if (!S_ISDIR(e->st.st_mode)) {
		printf(" device %llx", (unsigned long long)e->st.st_rdev);
	}
}

int manifest(const char *top)
{
	static const char types[] = "?pc?d?b?-?l?s???";
	int dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree t;

	if (dir < 0)
		die("open", top);
	tree_read(&t, top);
	for (size_t i = 0; i < t.n; i++) {
		const struct entry *e = &t.v[i];

		printf("%c %04o", types[(e->st.st_mode >> 12) & 15],
		       S_ISLNK(e->st.st_mode) ? 0777u : (unsigned)e->st.st_mode & 07777u);
		put_content(dir, e);
		putchar('\t');
		put_text(e->path);
		putchar('\n');
	}
	tree_free(&t);
	close(dir);
	return fflush(stdout) == 0 ? 0 : 1;
}
