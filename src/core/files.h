/* SPDX-License-Identifier: Apache-2.0 */
/* files - file requests over a session, one blocking call each. */
#ifndef COVE_CORE_FILES_H
#define COVE_CORE_FILES_H

#include "core/session.h"

#include <sys/types.h>

struct file_info {
	uint32_t mode; /* st_mode */
	uint64_t size;
	char target[4096]; /* of a symlink */
};

int file_stat(struct session *s, const char *path, struct file_info *ret,
	      struct cove_error *err);
int file_mkdir(struct session *s, const char *path, mode_t mode, struct cove_error *err);
int file_symlink(struct session *s, const char *path, const char *target,
		 struct cove_error *err);
int file_write(struct session *s, const char *path, mode_t mode, const void *data,
	       size_t n, struct cove_error *err);
/* From and to a host descriptor. */
int file_put(struct session *s, const char *path, mode_t mode, int fd,
	     struct cove_error *err);
int file_get(struct session *s, const char *path, int fd, struct cove_error *err);
/* fn is called for each entry; names are checked ('/' and control characters refused). */
int file_list(struct session *s, const char *path,
	      int (*fn)(void *arg, uint8_t type, const char *name), void *arg,
	      struct cove_error *err);

#endif
