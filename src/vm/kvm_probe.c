/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvm_probe - makes a machine of one processor, runs the guest of kvm_probe_guest.c in it
 * and judges what came of it.
 *
 * A guest on a broken device may run for ever, and KVM_RUN ends early only for a signal.
 * A library has no signal to itself, so KVM_RUN is called in a child that shares our
 * memory (KVM insists that a machine's owner runs it) but has signals and timers of its
 * own: a timer that is not stopped in time kills the child, and that is the verdict. The
 * caller's other threads run on; the calling one waits. No SIGCHLD, no handler, no fork
 * of the caller's pages.
 */
#include "vm/kvm_probe.h"

#include "base/util.h"
#include "vm/kvm_probe_guest.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

#if defined(__x86_64__)

#include "os/raw.h"

#include <linux/kvm.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define STACK 16384
#define CPU_LIMIT_US 150000  /* a guest that gets nowhere burns no more than this */
#define WALL_LIMIT_US 900000 /* and on a busy machine takes no longer than this */
#define TURN_LIMIT_NS 300    /* hardware: 1; an emulated processor: 700 and more */
#define CPUID_ENTRIES 200

struct machine {
	int kvm, vm, cpu;
	uint8_t *memory;
	struct kvm_run *run;
	size_t run_size;
	char *stack;
};

/* What the child says; it writes nothing else. */
struct turn {
	int cpu;
	volatile long result; /* of KVM_RUN: 0 or -errno */
	volatile int64_t cpu_ns;
};

static void machine_clear(struct machine *m)
{
	if (m->run)
		munmap(m->run, m->run_size);
	if (m->memory)
		munmap(m->memory, PROBE_MEMORY);
	if (m->stack)
		munmap(m->stack, STACK);
	close_fd(&m->cpu);
	close_fd(&m->vm);
	close_fd(&m->kvm);
}

static void *map(size_t size, int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Each step returns NULL, or the name of what failed (errno says why). */
static const char *give_memory(struct machine *m)
{
	struct kvm_userspace_memory_region region = {.memory_size = PROBE_MEMORY};

	m->memory = map(PROBE_MEMORY, -1);
	m->stack = map(STACK, -1);
	if (!m->memory || !m->stack)
		return "memory";
	probe_guest_load(m->memory);
	region.userspace_addr = (uintptr_t)m->memory;
	/* Three pages that some Intel processors need outside the guest's memory. */
	if (ioctl(m->vm, KVM_SET_TSS_ADDR, 0xfffbd000ul) < 0)
		return "KVM_SET_TSS_ADDR";
	if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return "KVM_SET_USER_MEMORY_REGION";
	return NULL;
}

static const char *copy_cpuid(const struct machine *m)
{
	cleanup_free struct kvm_cpuid2 *c =
		calloc(1, sizeof(*c) + CPUID_ENTRIES * sizeof(c->entries[0]));

	if (!c)
		return "memory";
	c->nent = CPUID_ENTRIES;
	if (ioctl(m->kvm, KVM_GET_SUPPORTED_CPUID, c) < 0)
		return "KVM_GET_SUPPORTED_CPUID";
	return ioctl(m->cpu, KVM_SET_CPUID2, c) < 0 ? "KVM_SET_CPUID2" : NULL;
}

static const char *give_processor(struct machine *m)
{
	struct kvm_sregs special;
	struct kvm_regs regs;
	int size = ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	const char *wrong;

	m->cpu = ioctl(m->vm, KVM_CREATE_VCPU, 0);
	if (m->cpu < 0)
		return "KVM_CREATE_VCPU";
	if (size < (int)sizeof(*m->run))
		return "KVM_GET_VCPU_MMAP_SIZE";
	m->run_size = (size_t)size;
	m->run = map(m->run_size, m->cpu);
	if (!m->run)
		return "memory";
	wrong = copy_cpuid(m);
	if (wrong)
		return wrong;
	if (ioctl(m->cpu, KVM_GET_SREGS, &special) < 0)
		return "KVM_GET_SREGS";
	probe_guest_enter(&special, &regs);
	if (ioctl(m->cpu, KVM_SET_SREGS, &special) < 0)
		return "long mode";
	return ioctl(m->cpu, KVM_SET_REGS, &regs) < 0 ? "KVM_SET_REGS" : NULL;
}

static const char *machine_make(struct machine *m)
{
	const char *wrong;

	if (ioctl(m->kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		return "KVM_GET_API_VERSION";
	m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return "KVM_CREATE_VM";
	wrong = give_memory(m);
	return wrong ? wrong : give_processor(m);
}

/* ---- the child: shares our memory, so raw system calls only -------------------- */

/* SIG_DFL and the mask as the kernel takes them; a handler of the host's is never run. */
static void let_it_kill(int sig)
{
	struct {
		uintptr_t handler, flags, restorer;
		uint64_t mask;
	} by_default = {0};
	uint64_t mask = 1ull << (sig - 1);

	raw4(SYS_rt_sigaction, sig, &by_default, 0, sizeof(mask));
	raw4(SYS_rt_sigprocmask, SIG_UNBLOCK, &mask, 0, sizeof(mask));
}

static int64_t cpu_clock(void)
{
	struct {
		int64_t s, ns;
	} t = {0, 0};

	raw2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
	return t.s * 1000000000 + t.ns;
}

static int run_guest(void *arg)
{
	struct turn *t = arg;
	struct {
		int64_t every_s, every_us, s, us;
	} cpu_limit = {0, 0, 0, CPU_LIMIT_US}, wall_limit = {0, 0, 0, WALL_LIMIT_US};
	int64_t began;

	let_it_kill(SIGPROF);
	let_it_kill(SIGALRM);
	raw3(SYS_setitimer, ITIMER_PROF, &cpu_limit, 0);
	raw3(SYS_setitimer, ITIMER_REAL, &wall_limit, 0);
	began = cpu_clock();
	t->result = raw3(SYS_ioctl, t->cpu, KVM_RUN, 0);
	t->cpu_ns = cpu_clock() - began;
	raw1(SYS_exit_group, 0);
	return 0;
}

/* ---- the caller ---------------------------------------------------------------- */

/* The wait status of the child, or -1. */
static int run_in_child(const struct machine *m, struct turn *t)
{
	sigset_t all, before;
	int status = -1, saved;
	pid_t pid;

	/* A ^C in these milliseconds is for the caller, who gets it when this is over. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone(run_guest, m->stack + STACK, CLONE_VM | CLONE_VFORK | CLONE_FILES, t);
	saved = errno;
	while (pid > 0 && waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved;
	return pid < 0 ? -1 : status;
}

static enum kvm_verdict judge(const struct machine *m, const struct turn *t, int status,
			      char *detail, size_t size)
{
	const char *stage = probe_guest_stage(m->memory);
	int64_t turn_ns = t->cpu_ns / (2 * PROBE_TURNS);

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
		snprintf(detail, size, "the guest did not get to its end in time (%s)",
			 stage);
		return KVM_UNKNOWN;
	}
	if (WIFSIGNALED(status))
		snprintf(detail, size, "the guest got stuck (%s)", stage);
	else if (t->result < 0)
		snprintf(detail, size, "KVM_RUN: %s (%s)", strerror((int)-t->result),
			 stage);
	else if (m->run->exit_reason == KVM_EXIT_INTERNAL_ERROR)
		snprintf(detail, size, "KVM internal error %u (%s)",
			 m->run->internal.suberror, stage);
	else if (m->run->exit_reason != KVM_EXIT_IO || m->run->io.port != PROBE_DOOR)
		snprintf(detail, size, "exit reason %u (%s)", m->run->exit_reason, stage);
	else if (!probe_guest_passed(m->memory))
		snprintf(detail, size, "wrong result (%s)", stage);
	else if (turn_ns > TURN_LIMIT_NS)
		snprintf(detail, size, "emulated: %d ns for a turn of an empty loop",
			 (int)turn_ns);
	else {
		snprintf(detail, size, "a 64-bit guest ran in %.2f ms",
			 (double)t->cpu_ns / 1e6);
		return KVM_USABLE;
	}
	return KVM_UNUSABLE;
}

static enum kvm_verdict try_guest(struct machine *m, char *detail, size_t size)
{
	const char *wrong = machine_make(m);
	struct turn t = {.cpu = m->cpu, .result = -EIO};
	int status;

	if (wrong) {
		snprintf(detail, size, "%s: %s", wrong, strerror(errno));
		return KVM_UNUSABLE;
	}
	status = run_in_child(m, &t);
	if (status == -1) {
		snprintf(detail, size, "clone: %s", strerror(errno));
		return KVM_UNUSABLE;
	}
	return judge(m, &t, status, detail, size);
}

static enum kvm_verdict not_opened(int error, char *detail, size_t size)
{
	snprintf(detail, size, "/dev/kvm: %s", strerror(error));
	if (error == EACCES || error == EPERM)
		return KVM_DENIED;
	if (error == ENOENT || error == ENODEV || error == ENXIO)
		return KVM_ABSENT;
	return KVM_UNUSABLE;
}

enum kvm_verdict kvm_probe(char *detail, size_t size)
{
	struct machine m = {.kvm = -1, .vm = -1, .cpu = -1};
	enum kvm_verdict verdict;

	m.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m.kvm < 0)
		return not_opened(errno, detail, size);
	verdict = try_guest(&m, detail, size);
	machine_clear(&m);
	return verdict;
}

#else

enum kvm_verdict kvm_probe(char *detail, size_t size)
{
	snprintf(detail, size, "there is a guest for x86-64 only");
	return KVM_ABSENT;
}

#endif
