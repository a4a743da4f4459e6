/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_limits - what a machine may use.
 *
 * Its memory and its processors are what it was built with; a share of a processor, and
 * what QEMU and cove-fs need beside the guest's memory, are held by the cgroup in which
 * both of them are. How many processes there may be the guest's kernel counts, as SETUP
 * tells it. While it runs only the share can change.
 */
#include "backend/vm_impl.h"

#include "base/util.h"

#include <sched.h>

#define MEMORY_MIN (128ull << 20)
#define MEMORY_DEFAULT (1024ull << 20)
#define CPUS_MAX 32
#define VM_TASKS 256 /* of cove-vmm, QEMU and cove-fs */

/* ---- before it runs ------------------------------------------------------------- */

static unsigned host_cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set)
							    : 1;
}

static unsigned whole_cpus(const struct spec *s)
{
	unsigned want = (unsigned)((s->resources.cpus_milli + 999) / 1000);
	unsigned have = host_cpus();

	if (!want || want > have)
		want = have;
	return want > CPUS_MAX ? CPUS_MAX : want;
}

static uint64_t whole_memory(const struct spec *s)
{
	uint64_t want =
		s->resources.memory_bytes ? s->resources.memory_bytes : MEMORY_DEFAULT;

	return want & ~((1ull << 20) - 1);
}

static uint64_t whole_swap(const struct spec *s)
{
	return s->resources.swap_bytes & ~((1ull << 20) - 1);
}

int vm_size(struct vm_host *h, const struct spec *s, struct cove_error *err)
{
	h->cpus = whole_cpus(s);
	h->memory = whole_memory(s);
	h->swap = whole_swap(s);
	h->disks = spec_image_is_disk(s);
	if (h->memory >= MEMORY_MIN)
		return 0;
	fail(err, COVE_EINVAL, 0, "resources.memoryMiB: a machine needs %llu",
	     MEMORY_MIN >> 20);
	return hint(err, "--memory %lluM, or --backend process", MEMORY_MIN >> 20);
}

struct cgroup_limits vm_cgroup_limits(const struct spec *s, const struct vm_host *h)
{
	struct cgroup_limits l;

	proc_cgroup_limits(s, &l);
	if (l.memory_bytes)
		l.memory_bytes = h->memory + VM_OVERHEAD;
	l.swap_bytes = 0; /* it has a disk for that */
	l.pids = l.pids ? VM_TASKS : 0;
	return l;
}

/* Memory, swap and the number of processes are the machine's own; so are processors, if
 * they are whole. */
uint32_t vm_held_limits(const struct spec *s)
{
	bool whole = s->resources.cpus_milli % 1000 == 0;

	return CG_MEMORY | CG_SWAP | CG_PIDS | (whole ? CG_CPU : 0u);
}

/* ---- while it runs -------------------------------------------------------------- */

static int refuse(struct cove_error *err, const char *key, const char *why)
{
	fail(err, COVE_ESTATE, 0, "%s %s", key, why);
	return hint(err, "stop it, change it, start it");
}

/* What was fixed when it started, and is not what the new spec says. */
static int check_fixed(const struct place *p, const struct spec *s,
		       struct cove_error *err)
{
	static const char fixed[] = "cannot change while the machine runs";
	const struct vm *vm = p->vm;
	uint64_t disk = s->resources.disk_bytes;

	if (whole_memory(s) != vm->host.memory)
		return refuse(err, "resources.memoryMiB", fixed);
	if (whole_swap(s) != vm->host.swap)
		return refuse(err, "resources.swap", fixed);
	if (s->resources.pids != p->nproc)
		return refuse(err, "resources.pids", fixed);
	if (p->fsize && (!disk || disk > p->fsize))
		return refuse(err, "resources.diskGiB",
			      "can only be lowered while it runs");
	if (whole_cpus(s) > vm->host.cpus) {
		char text[80];

		snprintf(text, sizeof(text), "cannot go beyond the %u of the machine",
			 vm->host.cpus);
		return refuse(err, "resources.cpus", text);
	}
	return 0;
}

int vm_set_limits(struct place *p, const struct spec *s, bool degraded,
		  struct cove_error *err)
{
	struct cgroup_limits l = vm_cgroup_limits(s, &p->vm->host);
	struct cove_error why = {0};

	if (check_fixed(p, s, err) < 0)
		return err->code;
	if (s->resources.cpus_milli == p->vm->cpus_milli)
		return 0;
	if (!p->has_cgroup)
		return refuse(err, "resources.cpus",
			      "cannot change: it was started without a cgroup");
	if (cgroup_update(&p->cgroup, &l, &p->missing, &why) < 0)
		return fail(err, COVE_EIO, why.sys, "%.300s", why.msg);
	p->missing &= ~vm_held_limits(s);
	if ((p->missing & CG_CPU) && !degraded)
		return fail(err, COVE_EUNSUPPORTED, 0,
			    "resources.cpus cannot be enforced here: %.300s", why.msg);
	p->vm->cpus_milli = s->resources.cpus_milli;
	return 0;
}
