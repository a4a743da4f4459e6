/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imageview - the paths of an image as the sandbox will see them, looked up from outside.
 *
 * An image is somebody's work: its symlinks are resolved inside it, never on the host.
 */
#ifndef COVE_CORE_IMAGEVIEW_H
#define COVE_CORE_IMAGEVIEW_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

struct imageview {
	int root;            /* -1: not open */
	char path[PATH_MAX]; /* on the host; "" for "/" */
};

/* path: its root on the host. 0 or -errno. */
int imageview_open(struct imageview *im, const char *path);
void imageview_close(struct imageview *im);
/* A descriptor (O_CLOEXEC is added), or -errno. */
int imageview_look(const struct imageview *im, const char *path, int flags);
/* Where a path really is, from the image's root, if it is of this type (S_IFREG, ...). */
int imageview_real(const struct imageview *im, const char *path, mode_t type,
		   char out[PATH_MAX]);
/* dir's real place, and a name in it that may not be there yet. */
int imageview_place(const struct imageview *im, const char *dir, const char *name,
		    char out[PATH_MAX]);
/* Calls fn for each path that fits a pattern, in which one '*' may stand for a name;
 * stops where it returns true, and returns that. */
bool imageview_each(const struct imageview *im, const char *pattern,
		    bool (*fn)(void *arg, const struct imageview *im, const char *path),
		    void *arg);

#endif
