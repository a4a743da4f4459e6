/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_fixture.h - a host directory and an upper layer above it, in a temporary
 * directory; and how a sandbox's changes look in it, made by hand.
 */
#ifndef COVE_LAYER_FIXTURE_H
#define COVE_LAYER_FIXTURE_H

#include "base/io.h"
#include "base/util.h"
#include "work/layer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

struct fixture {
	char top[64];
	struct layer layer;
	struct layers layers;
};

static inline void fixture_must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(99);
}

static inline int fixture_dir(int at, const char *name)
{
	int fd;

	fixture_must(mkdirat(at, name, 0755) == 0 || errno == EEXIST, name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fixture_must(fd >= 0, name);
	return fd;
}

static inline void fixture_init(struct fixture *f)
{
	char source[80];
	int top;

	*f = (struct fixture){
		.layers = {.n = 1, .record = -1}
        };
	snprintf(f->top, sizeof(f->top), "/tmp/cove-layer.XXXXXX");
	fixture_must(mkdtemp(f->top) != NULL, "mkdtemp");
	snprintf(source, sizeof(source), "%s/host", f->top);
	top = open(f->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->layer = (struct layer){.source = strdup(source), .name = "m0"};
	f->layer.lower = fixture_dir(top, "host");
	f->layer.dir = fixture_dir(top, "m0");
	f->layer.upper = fixture_dir(f->layer.dir, "upper");
	close(fixture_dir(f->layer.dir, "work"));
	f->layers.v = &f->layer;
	close(top);
}

static inline void fixture_clear(struct fixture *f)
{
	char base[64];

	close(f->layer.lower);
	close(f->layer.dir);
	close(f->layer.upper);
	free(f->layer.source);
	snprintf(base, sizeof(base), "%s", f->top + 5);
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	remove_tree_at(tmp, base);
	close(tmp);
}

/* As if the overlay was mounted just now. */
static inline void fixture_mounted(const struct fixture *f)
{
	usleep(10000); /* file systems count time in ticks */
	fixture_must(utimensat(f->layer.dir, "work", NULL, 0) == 0, "work");
	usleep(10000);
}

static inline void put_mode(int at, const char *path, const char *text, mode_t mode)
{
	int fd;

	unlinkat(at, path, 0); /* a new inode, as by most programs */
	fd = openat(at, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fixture_must(fd >= 0 && write_all(fd, text, strlen(text)) == 0 &&
			     fchmod(fd, mode) == 0,
		     path);
	close(fd);
}

static inline void put(int at, const char *path, const char *text)
{
	put_mode(at, path, text, 0644);
}

static inline void sym(int at, const char *path, const char *target)
{
	fixture_must(symlinkat(target, at, path) == 0, path);
}

static inline void mode(int at, const char *path, mode_t to)
{
	fixture_must(fchmodat(at, path, to, 0) == 0, path);
}

static inline void dir(int at, const char *path)
{
	fixture_must(mkdirat(at, path, 0755) == 0, path);
}

static inline void whiteout(int at, const char *path)
{
	fixture_must(mknodat(at, path, S_IFCHR, makedev(0, 0)) == 0, path);
}

static inline void attr(int at, const char *path, const char *name, const char *value)
{
	char full[4200];

	snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", at, path);
	fixture_must(lsetxattr(full, name, value, strlen(value), 0) == 0, path);
}

static inline void opaque(int at, const char *path)
{
	dir(at, path);
	attr(at, path, "user.overlay.opaque", "y");
}

#endif
