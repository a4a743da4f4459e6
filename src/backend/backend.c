/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

static const struct backend *const backends[] = {&backend_vm, &backend_process, NULL};

const struct backend *const *backend_list(void)
{
	return backends;
}

/* Nobody but a machine can mount it, and an emulated one is not taken unasked. */
static int pick_for_disk(const struct backend **ret, const struct place_config *c,
			 struct cove_error *err)
{
	const char *kind = spec_image_prefix(c->spec->image.kind);

	*ret = &backend_vm;
	if (c->spec->backend == BACKEND_PROCESS) {
		fail(err, COVE_EINVAL, 0, "image %s needs backend vm: it is a disk",
		     kind);
		return hint(err, "--backend vm, or an image that is rootfs: or tar:");
	}
	if (backend_vm_is_best(c))
		return 0;
	fail(err, COVE_EUNSUPPORTED, 0,
	     "image %s needs a virtual machine, and 'auto' takes none here", kind);
	return hint(err, "--backend vm takes an emulated one, if need be; 'cove doctor' "
			 "says what is missing");
}

int backend_pick(const struct backend **ret, const struct place_config *c,
		 struct cove_error *err)
{
	if (spec_image_is_disk(c->spec) &&
	    (c->spec->backend == BACKEND_AUTO || c->spec->backend == BACKEND_PROCESS))
		return pick_for_disk(ret, c, err);
	switch (c->spec->backend) {
	case BACKEND_AUTO:
		*ret = backend_vm_is_best(c) ? &backend_vm : &backend_process;
		return 0;
	case BACKEND_PROCESS:
		/* The start itself is the proof: any layer that is missing fails it. */
		*ret = &backend_process;
		return 0;
	case BACKEND_VM:
		*ret = &backend_vm;
		return 0;
	default:
		fail(err, COVE_EUNSUPPORTED, 0, "backend remote: not in this build");
		return hint(err, "'cove version' lists what is; use --backend process");
	}
}
