/* SPDX-License-Identifier: Apache-2.0 */
/* vm_impl - what the files of the vm backend share. */
#ifndef COVE_BACKEND_VM_IMPL_H
#define COVE_BACKEND_VM_IMPL_H

#include "backend/proc_internal.h"
#include "vm/kernel.h"
#include "vm/migrate.h"
#include "vm/processor.h"
#include "vm/qemu.h"
#include "vm/qmp.h"
#include "vm/state.h"
#include "vm/template.h"
#include "vm/tsc.h"

#define VM_OVERHEAD (256u << 20) /* what a machine needs beside its memory */
#define VM_FILE_MIN (1u << 20)   /* that QEMU may write where it has none to write */
#define VM_SILENCE_MS 30000      /* a guest that leaves a question so long hangs */
/* Longer for the first word: it restores and mounts before it, and a start that is given
 * up costs a template. */
#define VM_UP_MS 120000
#define VM_SYNC_MS 60000 /* for its disk, at the end */
#define VM_FS_MS 5000    /* for cove-fs, and for the guest to hear what it says */
#define VM_BEGUN_MAX 256

/* What this host and this spec make of a machine; the same for every start. */
struct vm_host {
	char qemu[4096];
	char version[QEMU_VERSION_MAX];
	char append[QEMU_APPEND_MAX];
	char processor[PROCESSOR_HEX];
	struct vm_kernel kernel;
	bool kvm;
	uint64_t tsc_khz; /* 0: the machine needs no word of it */
	unsigned cpus;
	uint64_t memory, swap;
	bool disks; /* its root is on a disk of its own */
	/* What its template has of SETUP already, as a text; "": nothing. */
	char begun[VM_BEGUN_MAX];
	bool begun_home; /* ... a home directory in memory, for one */
};

/* What QEMU was told and has not answered yet: to stop the machine, or to let it go on.
 */
struct vm_stilling {
	uint64_t id; /* of the command; 0: nothing is awaited */
	bool on;
};

/* A running one, behind struct place: the place's own process is cove-vmm. */
struct vm {
	struct place fs; /* the process of cove-fs */
	struct vm_host host;
	struct template template;
	struct qmp qmp;
	int lifeline;              /* see roles/vmm.c */
	int unused_net;            /* our end of the port, where nothing is captured */
	bool restored;             /* from the template: neither booted nor from a save */
	uint32_t cpus_milli;       /* the share in force */
	int fs_control, fs_tables; /* of cove-fs, see fs/serve.h */
	const char *fs_how;        /* its first argument; NULL: none */
	struct vm_stilling stilling;
	struct migrate saving;
	int image; /* the memory that it shares with other forks; -1: none */
};

/* The other ends of what the monitor gets. */
struct vm_channels {
	int lifeline[2], console[2], qmp[2], link[2], fs[2], net[2];
	int ram; /* what QEMU finds as its memory file; -1: what lies there */
	int window, window_ro; /* memory for cove-fs to write and QEMU to read */
};

/* vm_probe.c */
int vm_probe(const struct place_config *c, json_t *checks, struct cove_error *err);
int vm_prepare(const struct place_config *c, struct cove_error *err);
void vm_tell_emulated(const char *cache_dir);
int vm_gather(struct vm_host *h, const struct place_config *c, struct cove_error *err);

/* vm_root.c: the root of the monitor: its program, its libraries, the template. */
struct vm_root {
	const struct vm_host *host;
	const char *template_dir; /* NULL: its memory is no file */
	/* A kernel and its initramfs are to be seen; and a template is being made, if
	 * there is one: writable. */
	bool boots;
};
int vm_root_plan(struct plan *p, const struct place_config *c, const void *root,
		 struct cove_error *err);

/* vm_launch.c: starts the monitor. m: what to run; the channels are opened here. */
int vm_launch(struct place *p, const struct place_config *c, const struct vm_root *root,
	      struct qemu_machine *m, struct vm_channels *ch, struct cove_error *err);
/* The same for a machine of the cache, which writes its memory to a file; and how that
 * one is configured: with neither the sandbox's cgroup nor its limits, nor anything else
 * that is one sandbox's. id: what it is called. */
struct place_config vm_cache_config(const struct place_config *c, const char *id);
int vm_launch_cached(struct place *p, const struct place_config *own,
		     const struct vm_root *root, struct qemu_machine *m,
		     struct vm_channels *ch, struct cove_error *err);
void vm_channels_init(struct vm_channels *ch);
void vm_channels_clear(struct vm_channels *ch);

/* vm.c: cove-fs, at the other end of its port; the monitor and cove-fs. */
int vm_start_fs(struct place *p, const struct place_config *c,
		const struct vm_channels *ch, struct cove_error *err);
int vm_launch_all(struct place *p, const struct place_config *c,
		  const struct vm_root *root, struct qemu_machine *m,
		  struct vm_channels *ch, struct cove_error *err);

/* vm_save.c */
extern const struct place_saver vm_saver;
int vm_start_saved(struct place *p, const struct place_config *c, struct vm_channels *ch,
		   struct cove_error *err);
/* The host becomes one for that machine, or it is refused. */
int vm_adopt(struct vm_host *h, const json_t *machine, struct cove_error *err);
/* What is left of the seal goes to QEMU, which waits for it. */
int vm_load(struct qmp *q, struct seal *s, int timeout_ms, struct cove_error *err);
int vm_copy_tables(int from, int to, struct cove_error *err);
/* what: FS_*, see base/fscontrol.h. */
int vm_ask_fs(const struct vm *vm, char what, int timeout_ms, struct cove_error *err);

/* vm_share.c: an image for forks, and going on from one. */
int vm_share(const struct place_config *c, const struct place_state *from,
	     struct place_image *ret, json_t **ret_head, struct cove_error *err);
int vm_start_shared(struct place *p, const struct place_config *c, struct vm_channels *ch,
		    struct cove_error *err);

/* vm_end.c: how it ended, and what its console said last. */
void vm_explain(struct place *p, enum place_trouble t, struct cove_error *why);
int vm_watch(struct place *p, struct cove_error *err); /* p->alarm */
int vm_quote(int lifeline, struct cove_error *err);    /* the hint of a failure */
/* The machine has ended before it was up. COVE_EIO: its memory file is to blame. */
int vm_boot_failed(int lifeline, struct cove_error *err);

/* vm_template.c: the template for this host and size is there, made if need be. COVE_EIO:
 * there is no place to keep it, and nothing else is known to be wrong. It is held. Where
 * one that has begun cannot be made, it is a bare one, and h->begun is empty after. */
int vm_template_ensure(struct template *t, struct vm_host *h,
		       const struct place_config *c, struct cove_error *err);
void vm_template_discard(struct template *t);
/* The fields that a template and a machine restored from it have in common. */
struct qemu_machine vm_machine(const struct vm_host *h);
/* What a machine needs to boot. */
void vm_machine_boots(struct qemu_machine *m, const struct vm_host *h);
/* Until a machine that boots has said that it is up. */
int vm_wait_ready(int link, int lifeline, struct cove_error *err);

/* vm_swap.c: a new swap disk, a file without a name below dir. -1 with err. */
int vm_swap_open(const char *dir, uint64_t bytes, struct cove_error *err);

/* vm_disk.c: the file of the image, and the one with what is written, made if need be. */
struct vm_disks {
	int image, layer;
	uint64_t bytes; /* of the layer */
};
/* The image can be one: known before a template is made for it. */
int vm_disk_check(const struct place_config *c, struct cove_error *err);
int vm_disks_open(struct vm_disks *ret, const struct place_config *c,
		  struct cove_error *err);

/* vm_limits.c */
int vm_size(struct vm_host *h, const struct spec *s, struct cove_error *err);
/* Of the processes on the host: the guest's memory, and what they need beside it. */
struct cgroup_limits vm_cgroup_limits(const struct spec *s, const struct vm_host *h);
uint32_t vm_held_limits(const struct spec *s); /* CG_* that need none */
int vm_set_limits(struct place *p, const struct spec *s, bool degraded,
		  struct cove_error *err);

/* vm_attest.c */
int vm_attest(struct place *p, const struct place_config *c, json_t *items,
	      struct cove_error *err);

/* vm_setup.c */
int vm_setup(const struct place *p, const struct place_config *c, struct wire_out *o,
	     struct cove_error *err);
/* What of SETUP a template of this kind of sandbox has: all that decides it as a text,
 * empty if it has nothing; and that part. */
void vm_begun(char *out, size_t size, const struct place_config *c);
void vm_setup_part(const struct place_config *c, bool home, struct wire_out *o);

/* vm_warm.c: the machine of a template, up to where it can be saved: it is set up in part
 * and has run a program; it is quiet, and what cove-fs knows of it is in vm->fs_tables.
 * vm_warm_ms(): how long that may take where the boot took so long. */
int64_t vm_warm_ms(int64_t boot_ms);
int vm_warm(struct place *p, const struct place_config *c, struct vm_channels *ch,
	    int64_t limit_ms, struct cove_error *err);

#endif
