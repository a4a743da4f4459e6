/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan - the sandbox's root file system as data.
 *
 * plan_build() turns a place_config into a list of operations with every string made and
 * every decision taken; the child of the clone then only walks the list (proc_child.c).
 * What only the privileged parent can do (id-mapped mounts, when the caller is root) is
 * done by plan_prepare() before the clone and left in the operations as descriptors.
 *
 * All targets are relative to the new root. Order matters: later operations may lie
 * inside what earlier ones mounted.
 */
#ifndef COVE_BACKEND_PLAN_H
#define COVE_BACKEND_PLAN_H

#include "backend/backend.h"
#include "os/userns.h"

#include <linux/filter.h>
#include <stdint.h>

enum op_kind {
	OP_ROOT_TMPFS,   /* the root itself: an empty tmpfs (arg: options "size=...") */
	OP_ROOT_OVERLAY, /* the root itself: overlay of an image directory */
	OP_DIR,          /* mkdir, parents included, mode 0755 */
	OP_SYMLINK,      /* source = what it points to */
	OP_BIND,         /* source = host path; flags */
	OP_OVERLAY,      /* source = lower, layer = directory of upper/ and work/ */
	OP_TMPFS,        /* arg: options */
	OP_PROC,
	OP_DEVPTS,
	OP_GUARD, /* target mounted over itself: read-only, or just not to be moved */
};

enum op_flags {
	OPF_RDONLY = 1 << 0,
	OPF_DEV = 1 << 1,      /* a device node */
	OPF_FILE = 1 << 2,     /* target is a file */
	OPF_OPTIONAL = 1 << 3, /* skip if the source does not exist */
	/* for a privileged caller: map the owner to the sandbox's user */
	OPF_IDMAP = 1 << 4,
	/* lies where the sandbox's user cannot walk: the parent prepares it */
	OPF_HIDDEN = 1 << 5,
	/* the way to the target may hold symlinks made by somebody else */
	OPF_HOSTILE = 1 << 6,
	/* what cannot be carried out is left out */
	OPF_SOFT = 1 << 7,
};

struct op {
	enum op_kind kind;
	uint32_t flags;
	const char *source, *target, *layer, *arg;
	int fd, layer_fd; /* prepared by the parent, or -1 */
};

struct landlock_grant {
	const char *path; /* inside, absolute */
	uint64_t rights;
	bool optional;
};

#define PLAN_OPS_MAX 4000
#define PLAN_GRANTS_MAX 600

struct plan {
	struct op *ops;
	size_t n_ops;
	struct landlock_grant *grants;
	size_t n_grants;
	char *arena; /* every string */
	size_t arena_len, arena_size;
	bool full;   /* something did not fit: the plan is refused */
	int etc_ref; /* held while the sandbox runs, see etc.h */
	struct userns_holder holder;
};

int plan_build(struct plan *p, const struct place_config *c, struct cove_error *err);

/* The same by hand, for a root that is no sandbox's (vm_root.c): what does not fit sets
 * p->full. Strings are copied. */
int plan_init(struct plan *p, size_t arena_size, struct cove_error *err);
const char *plan_keep(struct plan *p, const char *s);
struct op *plan_add(struct plan *p, enum op_kind kind, const char *source,
		    const char *target, uint32_t flags);
void plan_grant(struct plan *p, const char *path, uint64_t rights, bool optional);

/* For a caller with CAP_SYS_ADMIN: opens and id-maps what the sandbox's user, who is
 * nobody outside, could not reach. host_uid: the id that user has on the host. */
int plan_prepare(struct plan *p, uint32_t host_uid, struct cove_error *err);

void plan_clear(struct plan *p);

#endif
