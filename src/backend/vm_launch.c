/* SPDX-License-Identifier: Apache-2.0 */
/* vm_launch - starts cove-vmm, and with it QEMU, in a place of their own. */
#include "backend/vm_impl.h"

#include "base/fusemsg.h"
#include "base/util.h"
#include "os/program.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
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

/* Of base/fusemsg.h: cove-fs maps it, and would end by what is cut off; so nobody can. */
static int open_window(struct vm_channels *ch, struct cove_error *err)
{
	char path[40];

	ch->window = memfd_create("cove-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ch->window);
	if (ch->window < 0 || ftruncate(ch->window, FUSEMSG_WINDOW) < 0 ||
	    fcntl(ch->window, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
		    0 ||
	    (ch->window_ro = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return fail(err, COVE_EIO, errno, "memory for the machine's files");
	return 0;
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
	return open_window(ch, err);
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

/* What it writes: its disks, and a template's memory. One that has neither gets a limit
 * too: whoever took QEMU over must not fill the host's disk by any way that is
 * left. */
static uint64_t largest_file(const struct vm_host *h, const struct qemu_machine *m,
			     uint64_t disks)
{
	uint64_t most = m->share ? h->memory : VM_FILE_MIN;

	if (h->swap > most)
		most = h->swap;
	return disks > most ? disks : most;
}

/* What QEMU has beside its channels. -1: it has none of that. */
struct means {
	int swap, kvm;
	struct vm_disks disks;
};

static void means_close(struct means *f)
{
	close_fd(&f->swap);
	close_fd(&f->kvm);
	close_fd(&f->disks.image);
	close_fd(&f->disks.layer);
}

static int means_open(struct means *f, const struct place_config *c,
		      const struct vm_host *h, const struct qemu_machine *m,
		      struct cove_error *err)
{
	if (open_kvm(h, &f->kvm, err) < 0)
		return err->code;
	if (h->swap && (f->swap = vm_swap_open(c->cache_dir, h->swap, err)) < 0)
		return err->code;
	/* a template is made without: what is behind its disks comes with each start */
	if (h->disks && !m->share)
		return vm_disks_open(&f->disks, c, err);
	return 0;
}

/* The numbers that QEMU and cove-vmm are told, where they are not fixed. */
struct told {
	int kvm, ram;
};

/* All that cove-vmm gets, in the order of roles/vmm.c, and where it is said which number
 * each has there. */
static struct told pass_all(struct proc_program *vmm, struct qemu_machine *m,
			    const struct vm_channels *ch, const struct means *f)
{
	struct told told = {-1, -1};
	int fixed;
	const struct {
		int fd, *number;
	} all[] = {
		{ch->lifeline[1], &fixed     },
                {ch->console[0],  &fixed     },
		{ch->console[1],  &m->console},
                {ch->qmp[1],      &m->qmp    },
		{ch->link[1],     &m->link   },
                {ch->fs[1],       &m->fs     },
		{ch->net[1],      &m->net    },
                {ch->window_ro,   &m->window },
		{f->swap,         &m->swap   },
                {f->disks.image,  &m->image  },
		{f->disks.layer,  &m->layer  },
                {f->kvm,          &told.kvm  },
		{ch->ram,         &told.ram  },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		*all[i].number = -1;
		if (all[i].fd < 0)
			continue;
		*all[i].number = FIRST_FD + (int)vmm->n_fds;
		vmm->fds[vmm->n_fds++] = all[i].fd;
	}
	return told;
}

/* Only cove-vmm has them from now on. */
static void close_far_ends(struct vm_channels *ch)
{
	close_fd(&ch->console[0]);
	for (int *far = (int *)ch + 1; far < &ch->ram; far += 2)
		close_fd(far);
	close_fd(&ch->ram);
	close_fd(&ch->window_ro);
}

int vm_launch(struct place *p, const struct place_config *c, const struct vm_root *root,
	      struct qemu_machine *m, struct vm_channels *ch, struct cove_error *err)
{
	struct cgroup_limits limits = vm_cgroup_limits(c->spec, root->host);
	__attribute__((cleanup(means_close))) struct means f = {
		-1, -1, {-1, -1, 0}
        };
	char kvm[12] = "-", ram[16];
	const char *argv[QEMU_ARGS_MAX + 4] = {
		"cove-vmm", m->incoming && !m->saved ? "shared" : "own", kvm};
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
	struct told told;
	int r;

	if (!vmm.path || open_channels(ch, err) < 0 ||
	    means_open(&f, c, root->host, m, err) < 0)
		return err->code;
	told = pass_all(&vmm, m, ch, &f);
	m->qcow2 = c->spec->image.kind == IMAGE_QCOW2;
	vmm.fsize = largest_file(root->host, m, f.disks.bytes);
	if (told.kvm >= 0)
		snprintf(kvm, sizeof(kvm), "%d", told.kvm);
	if (told.ram >= 0) {
		snprintf(ram, sizeof(ram), "ram=%d", told.ram);
		argv[1] = ram;
	}
	if (qemu_args(&args, m) < 0)
		return fail(err, COVE_EINVAL, 0, "QEMU: its command line is too long");
	memcpy(argv + 3, args.v, (args.n + 1) * sizeof(argv[0]));
	r = proc_launch(p, c, &vmm, err);
	close_far_ends(ch);
	return r;
}

struct place_config vm_cache_config(const struct place_config *c, const char *id)
{
	struct place_config own = *c;

	own.cgroup_made = NULL;
	own.id = id;
	own.hostname = "cove";
	own.degraded = true;
	own.n_mounts = own.n_files = 0;
	own.hosts = own.home_dir = NULL;
	own.capture = false;
	return own;
}

int vm_launch_cached(struct place *p, const struct place_config *own,
		     const struct vm_root *root, struct qemu_machine *m,
		     struct vm_channels *ch, struct cove_error *err)
{
	m->share = true;
	p->backend = &backend_vm;
	return vm_launch(p, own, root, m, ch, err);
}
