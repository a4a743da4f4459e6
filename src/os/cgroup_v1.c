/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_v1 - making a sandbox's directory in a v1 hierarchy. */
#include "os/cgroup_impl.h"

#include "base/util.h"

#include <sys/stat.h>

/* MOUNT/cove is made on demand and stays, like a slice. Somebody may remove it between
 * our two steps when it is empty, hence more than one try. */
static int make_shared(struct cgroup_dir *d, const char *mount, const char *id)
{
	char parent[CGROUP_PATH_MAX];
	int r = geteuid() == 0 ? cg_path(parent, sizeof(parent), "%s/cove", mount)
			       : cg_path(parent, sizeof(parent), "%s/cove/user-%u", mount,
					 (unsigned)geteuid());

	if (r == 0)
		r = cg_path(d->path, sizeof(d->path), "%s/cove-%s", parent, id);
	if (r < 0)
		return r;
	for (int i = 0; i < 3; i++) {
		r = cg_mkdir(d->path);
		if (r != -ENOENT || geteuid() != 0)
			return r;
		/* Users pass through it to theirs, whatever the umask of who makes it. */
		if (mkdir(parent, 0755) == 0 ? chmod(parent, 0755) < 0 : errno != EEXIST)
			return -errno;
	}
	return r;
}

int cg_make_v1(struct cgroup_dir *d, const struct cg_home *home, enum cg_controller ctl,
	       const char *id)
{
	char own[CGROUP_PATH_MAX];
	int first = make_shared(d, home->mount, id), r;

	if (first == 0 || first == -EEXIST)
		return first;
	r = cg_own(home, ctl, own, sizeof(own));
	if (r == 0)
		r = cg_path(d->path, sizeof(d->path), "%s/cove-%s", own, id);
	if (r == 0)
		r = cg_mkdir(d->path);
	/* A user without a directory made for him lacks the permission: say that. */
	return r < 0 && first == -ENOENT ? (r == -ENOENT ? -EACCES : r) : r;
}
