/* SPDX-License-Identifier: Apache-2.0 */
/* vm_impl - what the files of the vm backend share. */
#ifndef COVE_BACKEND_VM_IMPL_H
#define COVE_BACKEND_VM_IMPL_H

#include "backend/proc_internal.h"
#include "vm/kernel.h"
#include "vm/qemu.h"
#include "vm/qmp.h"
#include "vm/template.h"

/* What this host and this spec make of a machine; the same for every start. */
struct vm_host {
	char qemu[4096];
	char version[QEMU_VERSION_MAX];
	struct vm_kernel kernel;
	bool kvm;
	unsigned cpus;
	uint64_t memory;
};

/* A running one, behind struct place: the place's own process is cove-vmm. */
struct vm {
	struct place fs; /* the process of cove-fs */
	struct vm_host host;
	struct qmp qmp;
	int lifeline;   /* see roles/vmm.c */
	int unused_net; /* our end of the port, where nothing is captured */
	bool restored;  /* from a template, not booted */
};

/* The other ends of what the monitor gets. */
struct vm_channels {
	int lifeline[2], console[2], qmp[2], link[2], fs[2], net[2];
};

/* vm_probe.c */
int vm_probe(const struct place_config *c, json_t *checks, struct cove_error *err);
int vm_prepare(const struct place_config *c, struct cove_error *err);
int vm_gather(struct vm_host *h, const struct place_config *c, struct cove_error *err);

/* vm_root.c: the root of the monitor: its program, its libraries, the template. */
struct vm_root {
	const struct vm_host *host;
	const char *template_dir;
	bool writable; /* a template is being made */
};
int vm_root_plan(struct plan *p, const struct place_config *c, const void *root,
		 struct cove_error *err);

/* vm_launch.c: starts the monitor. m: what to run; the channels are opened here. */
int vm_launch(struct place *p, const struct place_config *c, const struct vm_root *root,
	      struct qemu_machine *m, struct vm_channels *ch, struct cove_error *err);
void vm_channels_init(struct vm_channels *ch);
void vm_channels_clear(struct vm_channels *ch);
/* Adds what the monitor or the guest's console said last to an error. */
int vm_explain(int lifeline, struct cove_error *err);

/* vm_template.c: the template for this host and size is there, made if need be. */
int vm_template_ensure(struct template *t, const struct vm_host *h,
		       const struct place_config *c, struct cove_error *err);

/* vm.c: memory that is a file is not part of what QEMU saves and loads. */
int vm_ignore_shared(struct qmp *q, struct cove_error *err);

/* vm_attest.c */
int vm_freeze(struct place *p, bool on, struct cove_error *err);
int vm_set_limits(struct place *p, const struct spec *s, bool degraded,
		  struct cove_error *err);
int vm_attest(struct place *p, const struct place_config *c, json_t *items,
	      struct cove_error *err);

/* vm_setup.c */
int vm_setup(const struct place *p, const struct place_config *c, struct wire_out *o,
	     struct cove_error *err);

#endif
