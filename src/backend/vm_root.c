/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_root - where the monitor lives: a root that holds its program, the libraries and
 * firmware it loads, the template, and nothing else; read-only but for the memory of a
 * template that is being made.
 */
#include "backend/vm_impl.h"

#include "base/util.h"
#include "os/landlock.h"

#include <stdio.h>
#include <sys/stat.h>

#define ARENA (32u * 1024)
#define ROOT_SIZE "1048576" /* mount points only */

/* What a dynamically linked program of this host is loaded from. */
static const char *const library_dirs[] = {
	"/usr/lib", "/usr/lib64",      "/usr/lib32",         "/usr/local/lib",     "/lib",
	"/lib64",   "/usr/share/qemu", "/usr/share/seabios", "/usr/share/qemu-kvm"};

static void add_dir(struct plan *p, const char *dir)
{
	char to[256];
	struct stat st;
	ssize_t n;

	if (lstat(dir, &st) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(dir, to, sizeof(to) - 1);
		if (n <= 0)
			return;
		to[n] = '\0';
		plan_add(p, OP_SYMLINK, to, dir, 0);
		return;
	}
	plan_add(p, OP_DIR, NULL, dir, 0);
	plan_add(p, OP_BIND, dir, dir, OPF_RDONLY);
	plan_grant(p, dir, LL_READ_EXEC, false);
}

static void add_file(struct plan *p, const char *path, uint64_t rights)
{
	plan_add(p, OP_BIND, path, path, OPF_RDONLY | OPF_FILE | OPF_OPTIONAL);
	plan_grant(p, path, rights, true);
}

/* /dev/kvm is handed over opened, see roles/vmm_open.c. */
static void add_devices(struct plan *p)
{
	static const char *const nodes[] = {"/dev/null", "/dev/urandom"};

	plan_add(p, OP_DIR, NULL, "/dev", 0);
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		plan_add(p, OP_BIND, nodes[i], nodes[i], OPF_DEV | OPF_FILE);
	plan_grant(p, "/dev", LL_READ | LL_WRITE_FILE | LL_IOCTL_DEV, false);
}

static void add_own(struct plan *p, const struct vm_root *r)
{
	char dir[KERNEL_PATH_MAX];

	if (r->template_dir) {
		plan_add(p, OP_DIR, NULL, QEMU_VM_DIR, 0);
		plan_add(p, OP_BIND, r->template_dir, QEMU_VM_DIR,
			 OPF_IDMAP | OPF_HIDDEN | (r->boots ? 0 : OPF_RDONLY));
		plan_grant(p, QEMU_VM_DIR, r->boots ? LL_FULL : LL_READ, false);
	}
	if (!r->boots)
		return;
	snprintf(dir, sizeof(dir), "%s", r->host->kernel.image);
	*strrchr(dir, '/') = '\0';
	plan_add(p, OP_DIR, NULL, QEMU_KERNEL_DIR, 0);
	plan_add(p, OP_BIND, dir, QEMU_KERNEL_DIR, OPF_RDONLY | OPF_IDMAP | OPF_HIDDEN);
	plan_grant(p, QEMU_KERNEL_DIR, LL_READ, false);
}

int vm_root_plan(struct plan *p, const struct place_config *c, const void *root,
		 struct cove_error *err)
{
	const struct vm_root *r = root;
	struct op *o;

	(void)c;
	if (plan_init(p, ARENA, err) < 0)
		return err->code;
	o = plan_add(p, OP_ROOT_TMPFS, NULL, "", 0);
	o->arg = ROOT_SIZE;
	for (size_t i = 0; i < ARRAY_LEN(library_dirs); i++)
		add_dir(p, library_dirs[i]);
	add_file(p, "/etc/ld.so.cache", LL_READ_FILE);
	add_file(p, r->host->qemu, LL_READ_FILE | LL_EXECUTE);
	add_devices(p);
	add_own(p, r);
	return p->full ? fail(err, COVE_EINVAL, 0, "the monitor's root: paths too long")
		       : 0;
}
