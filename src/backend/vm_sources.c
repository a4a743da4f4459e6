/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/vm_sources.h"

#include "base/util.h"

#include <fcntl.h>

const char *const *vm_sources_argv(struct vm_sources *s, const struct place_config *c,
				   const char *how)
{
	size_t n = 0;

	s->argv[n++] = "cove-fs";
	if (how)
		s->argv[n++] = how;
	for (size_t i = 0; i < c->n_mounts && s->n < VM_SOURCES_MAX; i++) {
		const struct place_mount *m = &c->mounts[i];
		int fd = -1;

		if (m->mode == MOUNT_OVERLAY && m->source)
			fd = open(m->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		s->fd[s->n++] = fd;
		s->argv[n++] = m->target;
	}
	s->argv[n] = NULL;
	return s->argv;
}

void vm_sources_close(struct vm_sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		close_fd(&s->fd[i]);
	s->n = 0;
}
