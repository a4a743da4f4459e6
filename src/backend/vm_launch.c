/* SPDX-License-Identifier: Apache-2.0 */
/* vm_launch - starts cove-vmm, and with it QEMU, in a place of their own. */
#include "backend/vm_impl.h"

#include "base/util.h"
#include "os/program.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "seccomp_monitor.h"

#define FIRST_FD 3

void vm_channels_init(struct vm_channels *ch)
{
	int *fd = (int *)ch;

	for (size_t i = 0; i < sizeof(*ch) / sizeof(int); i++)
		fd[i] = -1;
}

void vm_channels_clear(struct vm_channels *ch)
{
	int *fd = (int *)ch;

	for (size_t i = 0; i < sizeof(*ch) / sizeof(int); i++)
		close_fd(&fd[i]);
}

static int open_channels(struct vm_channels *ch, struct cove_error *err)
{
	struct {
		int *pair, type;
	} all[] = {
		{ch->lifeline, SOCK_SEQPACKET},
                {ch->console,  SOCK_STREAM   },
		{ch->qmp,      SOCK_STREAM   },
                {ch->link,     SOCK_STREAM   },
		{ch->fs,       SOCK_STREAM   },
                {ch->net,      SOCK_STREAM   }
        };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (socketpair(AF_UNIX, all[i].type | SOCK_CLOEXEC, 0, all[i].pair) < 0)
			return fail(err, COVE_EIO, errno, "channels to the machine");
	return 0;
}

/* See vm/monitor.seccomp. */
static const struct sock_fprog *monitor_filter(void)
{
	/* The kernel's struct has no const, but only reads. */
	static const struct sock_fprog program = {
		.len = SECCOMP_MONITOR_LEN,
		.filter = (struct sock_filter *)(uintptr_t)seccomp_monitor,
	};

	return &program;
}

static const char *vmm_file(struct cove_error *err)
{
	static char cache[PATH_MAX];

	return program_find(cache, "cove-vmm", "COVE_VMM", err);
}

/* Opened here, with the caller's rights: QEMU's own id may have none. -1 in *ret: it is
 * emulated. */
static int open_kvm(const struct vm_host *h, int *ret, struct cove_error *err)
{
	if (!h->kvm)
		return 0;
	*ret = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (*ret >= 0)
		return 0;
	fail(err, COVE_EUNSUPPORTED, errno, "/dev/kvm");
	return hint(err, "it was there before: see 'cove doctor'");
}

/* The number that it will have there. */
static int pass(struct proc_program *vmm, int fd)
{
	if (fd < 0)
		return -1;
	vmm->fds[vmm->n_fds] = fd;
	return FIRST_FD + (int)vmm->n_fds++;
}

/* What it writes: its disks, and a template's memory. One that has neither gets a limit
 * too: whoever took QEMU over must not fill the host's disk by any way that is left. */
static uint64_t largest_file(const struct vm_host *h, const struct qemu_machine *m,
			     uint64_t disks)
{
	uint64_t most = m->share ? h->memory : VM_FILE_MIN;

	if (h->swap > most)
		most = h->swap;
	return disks > most ? disks : most;
}

int vm_launch(struct place *p, const struct place_config *c, const struct vm_root *root,
	      struct qemu_machine *m, struct vm_channels *ch, struct cove_error *err)
{
	struct cgroup_limits limits = vm_cgroup_limits(c->spec, root->host);
	bool shared = m->incoming && !m->saved;
	char kvm_number[12] = "-";
	const char *argv[QEMU_ARGS_MAX + 4] = {"cove-vmm", shared ? "shared" : "own",
					       kvm_number};
	cleanup_fd int swap = -1, kvm = -1;
	struct vm_disks disks = {-1, -1, 0};
	struct proc_program vmm = {
		.path = vmm_file(err),
		.argv = argv,
		.filter = monitor_filter(),
		.plan = vm_root_plan,
		.plan_arg = root,
		.limits = &limits,
		.held = m->share ? ~0u : vm_held_limits(c->spec),
		.machine = true,
	};
	struct qemu_args args;
	int r;

	if (!vmm.path || open_channels(ch, err) < 0 ||
	    open_kvm(root->host, &kvm, err) < 0)
		return err->code;
	if (root->host->swap) {
		swap = vm_swap_open(c->cache_dir, root->host->swap, err);
		if (swap < 0)
			return err->code;
	}
	/* a template is made without: what is behind its disks comes with each start */
	if (root->host->disks && !m->share && vm_disks_open(&disks, c, err) < 0)
		return err->code;
	cleanup_fd int image = disks.image, layer = disks.layer;
	const int fds[] = {ch->lifeline[1], ch->console[0], ch->console[1], ch->qmp[1],
			   ch->link[1],     ch->fs[1],      ch->net[1]};
	m->console = FIRST_FD + 2;
	m->qmp = FIRST_FD + 3;
	m->link = FIRST_FD + 4;
	m->fs = FIRST_FD + 5;
	m->net = FIRST_FD + 6;
	vmm.n_fds = ARRAY_LEN(fds);
	memcpy(vmm.fds, fds, sizeof(fds));
	m->swap = pass(&vmm, swap);
	m->image = pass(&vmm, image);
	m->layer = pass(&vmm, layer);
	m->qcow2 = c->spec->image.kind == IMAGE_QCOW2;
	vmm.fsize = largest_file(root->host, m, disks.bytes);
	if (kvm >= 0)
		snprintf(kvm_number, sizeof(kvm_number), "%d", pass(&vmm, kvm));
	if (qemu_args(&args, m) < 0)
		return fail(err, COVE_EINVAL, 0, "QEMU: its command line is too long");
	memcpy(argv + 3, args.v, (args.n + 1) * sizeof(argv[0]));
	r = proc_launch(p, c, &vmm, err);
	close_fd(&ch->console[0]);
	for (size_t i = 0; i < sizeof(*ch) / sizeof(ch->lifeline); i++)
		close_fd((int *)ch + 2 * i + 1);
	return r;
}
