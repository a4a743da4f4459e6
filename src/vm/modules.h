/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules - the kernel modules that a guest needs, with what these need, in the order in
 * which they are loaded.
 *
 * A distribution's package has no modules.dep: that is made by depmod at installation.
 * What depmod reads is in the modules themselves, so it is read here from there: the ELF
 * section .modinfo, with `depends=a,b` and `softdep=pre: c`. A module may be anybody's;
 * everything that parses one is pure and checks every offset.
 */
#ifndef COVE_VM_MODULES_H
#define COVE_VM_MODULES_H

#include "base/buf.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define MODULE_NAME_MAX 63
#define MODULE_MAX (64u << 20) /* bytes of one */
#define MODULES_MAX 200        /* a guest needs about 25 */

/* ---- one module; pure ---------------------------------------------------------- */

/* How a file name of a module goes on after ".ko". */
enum module_packing { MODULE_PLAIN, MODULE_XZ, MODULE_ZSTD, MODULE_GZIP };

/* "a/b/virtio-rng.ko.xz" is the module virtio_rng. False: not the path of a module. */
bool module_name(const char *path, size_t n, char ret[MODULE_NAME_MAX + 1],
		 enum module_packing *ret_packing);

/* Does modules.builtin (paths, a line each) have it? */
bool module_listed(const char *builtin, size_t n, const char *name);

/* The bytes without the signature behind them. A signature is for a kernel that cannot
 * know where its modules come from; here each is in a manifest with its checksum, which
 * is verified before the machine boots, and checking RSA once more takes longer than
 * loading does. */
size_t module_unsigned_size(const void *data, size_t n);

/* Section .modinfo: strings "key=value", each with its NUL. -EBADMSG: not a module. */
int modinfo_find(const void *elf, size_t n, const char **ret, size_t *ret_len);
/* The next value of key from *pos (starts at 0) on, or NULL. */
const char *modinfo_next(const char *info, size_t len, size_t *pos, const char *key);

/* ---- a set of them ------------------------------------------------------------- */

struct module {
	char name[MODULE_NAME_MAX + 1];
	struct buf content; /* unpacked, unsigned */
};

struct module_set {
	struct module *v; /* in the order of loading */
	size_t n;
};

void module_set_clear(struct module_set *s);

struct module_source {
	/* Appends the module, unpacked. 1; 0: there is none of this name; or a code. */
	int (*read)(void *arg, const char *name, struct buf *out, struct cove_error *err);
	bool (*built_in)(void *arg, const char *name);
	void *arg;
};

/* Everything of the table in modules.c that the kernel has not built in. Whatever a guest
 * cannot do without and the source lacks is COVE_EUNSUPPORTED. */
int modules_collect(struct module_set *ret, const struct module_source *source,
		    struct cove_error *err);

#endif
