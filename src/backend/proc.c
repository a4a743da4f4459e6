/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc - the process backend: a sandbox made of the kernel's own parts.
 *
 * Theory of operation. Everything is decided here, in the parent: the mount plan, the
 * Landlock ruleset, the (build-time) seccomp filter, the limits. Then one clone3 makes
 * the namespaces; the child (proc_child.c) walks the plan with raw system calls and execs
 * cove-guest, whose only descriptor is the link. Any step that fails stops the start, and
 * the message names the step: nothing is skipped with a warning.
 *
 * Invariants
 *  1. The child shares our memory until its exec: the job, its stack and the plan live
 * until `ready` reports end of file.
 *  2. The sandbox's user maps to one unprivileged id outside: the caller's own, or, when
 * the caller is root, one from a range that nobody has (HOST_UID_BASE).
 *  3. The link is the lifeline: when the last copy of our end closes, however we die, the
 * guest ends and the kernel kills everything in its pid namespace.
 */
#include "backend/proc_internal.h"

#include "base/io.h"
#include "base/util.h"
#include "os/landlock.h"
#include "os/raw.h"
#include "os/seccomp.h"
#include "os/userns.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define PROC_ARGS_MAX 96
#define STACK_SIZE (64u * 1024) /* of it, the last part for the network helper */
#define NET_STACK (16u * 1024)
#define HOST_UID_BASE 0x70000000u
#define HOST_UID_MASK 0x0fffffffu

/* ---- limits --------------------------------------------------------------------- */

static const struct {
	uint32_t limit, cg;
	const char *key;
} limit_bits[] = {
	{LIMIT_MEMORY, CG_MEMORY, "resources.memoryMiB"},
	{LIMIT_CPUS,   CG_CPU,    "resources.cpus"     },
	{LIMIT_PIDS,   CG_PIDS,   "resources.pids"     },
	{LIMIT_SWAP,   CG_SWAP,   "resources.swap"     },
};

/* A default that cannot bind here is not worth a cgroup: as many cpus as there are, and,
 * where nobody asks for the count, pids, which RLIMIT_NPROC holds anyway. */
static void drop_idle_limits(const struct spec *s, struct cgroup_limits *l)
{
	cpu_set_t cpus;

	if (!(s->resources.set & LIMIT_PIDS))
		l->pids = 0;
	if (!(s->resources.set & LIMIT_CPUS) &&
	    sched_getaffinity(0, sizeof(cpus), &cpus) == 0 &&
	    l->cpus_milli >= 1000u * (unsigned)CPU_COUNT(&cpus))
		l->cpus_milli = 0;
}

void proc_cgroup_limits(const struct spec *s, struct cgroup_limits *ret)
{
	*ret = (struct cgroup_limits){
		.memory_bytes = s->resources.memory_bytes,
		.swap_bytes = s->resources.swap_bytes,
		.cpus_milli = s->resources.cpus_milli,
		.pids = s->resources.pids,
	};
}

/* What the user asked for is met or refused; a default that cannot be met is noted. */
static int judge_missing(struct place *p, const struct spec *s, bool degraded,
			 const struct cove_error *why, struct cove_error *err)
{
	p->missing &= ~(uint32_t)CG_PIDS; /* RLIMIT_NPROC holds it, per user namespace */
	p->missing_asked = 0;
	for (size_t i = 0; i < ARRAY_LEN(limit_bits); i++) {
		if (!(p->missing & limit_bits[i].cg) ||
		    !(s->resources.set & limit_bits[i].limit))
			continue;
		p->missing_asked |= limit_bits[i].cg;
		if (degraded)
			continue;
		fail(err, COVE_EUNSUPPORTED, 0, "%s cannot be enforced here: %.300s",
		     limit_bits[i].key, why->msg);
		return hint(err, "%.200s%s--degraded runs without it and says so",
			    why->hint, why->hint[0] ? "; " : "");
	}
	return 0;
}

static int make_cgroup(struct place *p, const struct place_config *c,
		       const struct proc_program *program, struct cove_error *err)
{
	struct cgroup_limits l;
	struct cove_error why = {0};

	if (p->has_cgroup)
		return 0; /* of the other program that runs for this place */
	if (program->limits)
		l = *program->limits;
	else
		proc_cgroup_limits(c->spec, &l);
	l.account = c->account;
	if (!c->account)
		drop_idle_limits(c->spec, &l);
	if (!l.memory_bytes && !l.cpus_milli && !l.pids)
		return 0;
	if (cgroup_create(&p->cgroup, c->id, &l, &p->missing, &why) < 0)
		p->missing = CG_MEMORY | CG_CPU | CG_PIDS | CG_SWAP;
	else
		p->has_cgroup = true;
	if (p->has_cgroup && c->cgroup_made)
		c->cgroup_made(c->arg, &p->cgroup);
	if (!l.memory_bytes)
		p->missing &= ~(uint32_t)(CG_MEMORY | CG_SWAP);
	if (!l.cpus_milli)
		p->missing &= ~(uint32_t)CG_CPU;
	p->missing &= ~program->held;
	return judge_missing(p, c->spec, c->degraded, &why, err);
}

/* What only an rlimit holds belongs to each process: it can go down by other means (the
 * cgroup, the keeper's watch), never up. */
static int check_fixed(const struct place *p, const struct spec *s,
		       struct cove_error *err)
{
	const struct {
		const char *key;
		uint64_t fixed, want;
	} limits[] = {
		{"resources.pids",    p->nproc, s->resources.pids      },
		{"resources.diskGiB", p->fsize, s->resources.disk_bytes},
	};

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		uint64_t fixed = limits[i].fixed, want = limits[i].want;

		if (!fixed || (want && want <= fixed))
			continue;
		fail(err, COVE_ESTATE, 0, "%s can only be lowered while it runs",
		     limits[i].key);
		return hint(err, "stop it, change it, start it");
	}
	return 0;
}

static int proc_set_limits(struct place *p, const struct spec *s, bool degraded,
			   struct cove_error *err)
{
	struct cgroup_limits l;
	struct cove_error why = {0};

	proc_cgroup_limits(s, &l);
	if (!p->has_cgroup) {
		fail(err, COVE_ESTATE, 0, "limits cannot change while it runs");
		return hint(err, "it was started without a cgroup; restart it");
	}
	if (check_fixed(p, s, err) < 0)
		return err->code;
	if (cgroup_update(&p->cgroup, &l, &p->missing, &why) < 0)
		return fail(err, COVE_EIO, why.sys, "%.300s", why.msg);
	if ((p->missing & CG_PIDS) && s->resources.pids != p->nproc) {
		fail(err, COVE_ESTATE, 0,
		     "resources.pids cannot change while it runs: "
		     "no pids controller here");
		return hint(err, "stop it, change it, start it");
	}
	return judge_missing(p, s, degraded, &why, err);
}

/* ---- the job -------------------------------------------------------------------- */

struct start {
	struct plan plan;
	struct child_job job;
	struct child_rlimit rlimits[8];
	char uid_map[48], gid_map[48];
	char tasks[CGROUP_DIRS_MAX][CGROUP_PATH_MAX + 8];
	const char *tasks_list[CGROUP_DIRS_MAX + 1];
	int cgroup_fd; /* of the v2 group, or negative */
	bool attach;   /* the parent moves the child there */
	int go[2], ready[2];
	int caught[2]; /* over which the sockets of the network come */
	struct netcapture capture;
	int guest;
	int fds[PROC_FDS_MAX];
	const char *argv[PROC_ARGS_MAX + 1];
	char *stack;
	bool privileged;
};

static void start_clear(struct start *s)
{
	plan_clear(&s->plan);
	for (int i = 0; i < 2; i++) {
		close_fd(&s->go[i]);
		close_fd(&s->ready[i]);
		close_fd(&s->caught[i]);
	}
	for (size_t i = 0; i < PROC_FDS_MAX; i++)
		close_fd(&s->fds[i]);
	close_fd(&s->guest);
	close_fd(&s->cgroup_fd);
	close_fd(&s->job.ruleset);
	if (s->stack)
		munmap(s->stack, STACK_SIZE);
}

static uint32_t unprivileged_id(const char *seed)
{
	uint32_t h = 2166136261u;

	for (; *seed; seed++)
		h = (h ^ (unsigned char)*seed) * 16777619u;
	return HOST_UID_BASE + (h & HOST_UID_MASK);
}

/* Only ever lower than what we have ourselves. */
static struct child_rlimit lower(int resource, uint64_t soft, uint64_t hard)
{
	struct rlimit now = {RLIM_INFINITY, RLIM_INFINITY};

	getrlimit(resource, &now);
	if (hard > now.rlim_max)
		hard = now.rlim_max;
	return (struct child_rlimit){resource, soft < hard ? soft : hard, hard};
}

static size_t fill_rlimits(struct child_rlimit *r, const struct spec *s,
			   const struct proc_program *program)
{
	size_t n = 0;

	r[n++] = lower(RLIMIT_CORE, 0, 0);
	r[n++] = lower(RLIMIT_NOFILE, 4096, 65536);
	r[n++] = lower(RLIMIT_RTPRIO, 0, 0);
	r[n++] = lower(RLIMIT_MSGQUEUE, 819200, 819200);
	if (program->fsize)
		r[n++] = lower(RLIMIT_FSIZE, program->fsize, program->fsize);
	if (program->machine)
		return n;
	if (s->resources.pids)
		r[n++] = lower(RLIMIT_NPROC, s->resources.pids, s->resources.pids);
	if (s->resources.disk_bytes)
		r[n++] = lower(RLIMIT_FSIZE, s->resources.disk_bytes,
			       s->resources.disk_bytes);
	return n;
}

static int make_ruleset(struct start *s, struct place *p, struct cove_error *err)
{
	p->landlock_abi = landlock_abi();
	if (!p->landlock_abi) {
		fail(err, COVE_EUNSUPPORTED, 0, "Landlock: not in this kernel");
		return hint(err,
			    "Linux 5.13 or newer with 'landlock' in the lsm= list is "
			    "needed; see 'cove doctor'");
	}
	landlock_handled(p->landlock_abi, true, &s->job.handled);
	s->job.ruleset = landlock_create(p->landlock_abi, &s->job.handled);
	if (s->job.ruleset < 0)
		return fail(err, COVE_EIO, -s->job.ruleset, "Landlock ruleset");
	return 0;
}

/* Away from where the child puts them, so that no dup3 there hits one that is still
 * needed. */
static int move_up(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3 + PROC_FDS_MAX);
}

static int open_channels(struct start *s, const struct place_config *c,
			 const struct proc_program *program, struct cove_error *err)
{
	cleanup_fd int file = open(program->path, O_PATH | O_CLOEXEC);

	s->guest = file < 0 ? -1 : move_up(file);
	if (s->guest < 0) {
		fail(err, COVE_EIO, errno, "%s: %s", program->argv[0], program->path);
		return hint(err, "install cove completely");
	}
	for (size_t i = 0; i < program->n_fds; i++) {
		s->fds[i] = move_up(program->fds[i]);
		if (s->fds[i] < 0)
			return fail(err, COVE_EIO, errno, "descriptors");
	}
	if (pipe2(s->ready, O_CLOEXEC) < 0 || pipe2(s->go, O_CLOEXEC) < 0)
		return fail(err, COVE_EIO, errno, "channel to the guest");
	if (c->capture && !program->machine &&
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s->caught) < 0)
		return fail(err, COVE_EIO, errno, "channel to the network");
	return 0;
}

/* Since Linux 6.3 an exec enters the time namespace that was unshared before it. */
bool proc_has_time_ns(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 3));
}

/* execve() wants pointers that it could write through, and does not. */
static int copy_args(struct start *s, const char *const *argv, struct cove_error *err)
{
	size_t n = 0;

	for (; argv[n]; n++) {
		if (n == PROC_ARGS_MAX)
			return fail(err, COVE_EINVAL, E2BIG, "%s", argv[0]);
		s->argv[n] = argv[n];
	}
	s->argv[n] = NULL;
	s->job.argv = (char *const *)(uintptr_t)s->argv;
	return 0;
}

static int fill_job(struct start *s, struct place *p, const struct place_config *c,
		    const struct proc_program *program, struct cove_error *err)
{
	static char *const envp[] = {NULL};
	struct child_job *j = &s->job;

	s->privileged = have_sys_admin();
	p->host_uid = s->privileged ? unprivileged_id(c->id) : getuid();
	if (make_ruleset(s, p, err) < 0 || open_channels(s, c, program, err) < 0 ||
	    copy_args(s, program->argv, err) < 0)
		return err->code;
	if (!s->privileged) {
		snprintf(s->uid_map, sizeof(s->uid_map), "%u %u 1\n", c->uid, getuid());
		snprintf(s->gid_map, sizeof(s->gid_map), "%u %u 1\n", c->gid, getgid());
		j->uid_map = s->uid_map;
		j->gid_map = s->gid_map;
	}
	j->plan = &s->plan;
	j->go = s->go[0];
	j->go_write = s->go[1];
	j->uid = c->uid;
	j->gid = c->gid;
	j->drop_groups = s->privileged;
	j->time_ns = proc_has_time_ns();
	j->hostname = c->hostname;
	j->rlimits = s->rlimits;
	j->n_rlimits = fill_rlimits(s->rlimits, c->spec, program);
	p->nproc = c->spec->resources.pids;
	p->fsize = c->spec->resources.disk_bytes;
	j->filter = program->filter;
	j->fds = s->fds;
	j->n_fds = program->n_fds;
	if (s->caught[1] >= 0) {
		netcapture_build(&s->capture, netcapture_has_ipv6());
		j->capture = &s->capture;
		j->capture_to = s->caught[1];
	}
	j->guest = s->guest;
	j->envp = envp;
	return 0;
}

/* v1 groups are entered by the child; the v2 one by being born there. */
static void fill_cgroup(struct start *s, struct place *p)
{
	size_t n = 0;

	for (uint32_t i = 0; p->has_cgroup && i < p->cgroup.n; i++) {
		if (p->cgroup.dir[i].v2)
			continue;
		snprintf(s->tasks[n], sizeof(s->tasks[n]), "%s/tasks",
			 p->cgroup.dir[i].path);
		s->tasks_list[n] = s->tasks[n];
		n++;
	}
	s->tasks_list[n] = NULL;
	s->job.cgroup_tasks = s->tasks_list;
	s->cgroup_fd = p->has_cgroup ? cgroup_clone_fd(&p->cgroup) : -ENOENT;
	s->attach = s->cgroup_fd < 0 && s->cgroup_fd != -ENOENT;
}

/* ---- clone and wait ------------------------------------------------------------- */

/* No exit signal: the caller's SIGCHLD handling never hears of the child. */
static long try_clone(struct start *s, struct place *p, bool into_cgroup)
{
	struct clone_args a = {
		.flags = CLONE_VM | CLONE_PIDFD | CLONE_CLEAR_SIGHAND | CLONE_NEWUSER |
			 CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
		.pidfd = (uint64_t)(uintptr_t)&p->pidfd,
	};

	if (into_cgroup) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)s->cgroup_fd;
	}
	return raw_clone3(&a, s->stack, STACK_SIZE - NET_STACK, proc_child, &s->job);
}

static int clone_child(struct start *s, struct place *p, struct cove_error *err)
{
	bool into = s->cgroup_fd >= 0;
	sigset_t all, old;
	long pid;
	int e;

	s->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (s->stack == MAP_FAILED) {
		s->stack = NULL;
		return fail_nomem(err);
	}
	s->job.net_stack = s->stack + STACK_SIZE;
	s->job.net_fd = -EIO;
	/* No handler of ours may run in the child; the guest sets its own mask. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = try_clone(s, p, into);
	if (pid < 0 && into) { /* not allowed to be born there: moved there, then */
		p->cgroup.cloned = 0;
		s->attach = true;
		pid = try_clone(s, p, false);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	p->pid = (pid_t)pid;
	e = (int)-pid;
	if (p->pid < 0) {
		p->pid = 0;
		fail(err, COVE_EUNSUPPORTED, e, "create namespaces");
		return hint(err,
			    e == EPERM || e == ENOSPC || e == EUSERS
				    ? "user namespaces are switched off: sysctl "
				      "kernel.unprivileged_userns_clone, "
				      "user.max_user_namespaces, or an AppArmor rule; "
				      "see 'cove doctor'"
				    : "see 'cove doctor'");
	}
	return 0;
}

static int explain_failure(const struct start *s, struct cove_error *err)
{
	const struct child_job *j = &s->job;
	const char *what = "";

	if (j->stage == STAGE_MOUNT && j->detail < (int)s->plan.n_ops) {
		const struct op *o = &s->plan.ops[j->detail];

		what = o->kind == OP_PROC        ? "/proc"
		       : o->target && *o->target ? o->target
						 : "/";
	} else if (j->stage == STAGE_LANDLOCK && j->detail < (int)s->plan.n_grants) {
		what = s->plan.grants[j->detail].path;
	}
	if (j->stage == STAGE_NET && j->net_no_capture) {
		fail(err, COVE_EUNSUPPORTED, j->error, PROC_NO_CAPTURE);
		return hint(err, PROC_NO_CAPTURE_FIX);
	}
	fail(err, COVE_EUNSUPPORTED, j->error, "%s%s%s%s",
	     j->error ? "" : "killed at: ", child_stage_text((enum child_stage)j->stage),
	     *what ? " " : "", what);
	if (j->stage == STAGE_MOUNT && j->error == EINVAL &&
	    s->plan.ops[j->detail].kind == OP_OVERLAY)
		hint(err, "a directory with other mounts in it, or on a file system that "
			  "overlayfs cannot use, needs mode ro or rw");
	if (j->stage == STAGE_MOUNT && j->error == ENOENT)
		hint(err, "the mount that it lies in is read-only: make the path there");
	if (j->stage == STAGE_MOUNT && (j->error == ENOTDIR || j->error == EINVAL) &&
	    s->plan.ops[j->detail].kind != OP_OVERLAY)
		hint(err, "a directory cannot be mounted over a file, nor a file over a "
			  "directory");
	return err->code;
}

/* Until the exec closes `ready`: then the child no longer uses our memory. */
static int wait_exec(struct start *s, struct place *p, struct cove_error *err)
{
	char c;
	ssize_t n;

	close_fd(&s->ready[1]);
	do
		n = read(s->ready[0], &c, 1);
	while (n < 0 && errno == EINTR);
	if (s->job.error == 0 && s->job.stage == STAGE_EXEC) {
		/* STAGE_EXEC without error: exec'd, or killed at that very point; the
		 * link tells which. */
		return 0;
	}
	(void)p;
	return explain_failure(s, err);
}

static int release_child(struct start *s, struct place *p, const struct place_config *c,
			 struct cove_error *err)
{
	int r = 0;

	if (s->privileged)
		r = userns_write_maps(p->pid, c->uid, p->host_uid, c->gid, p->host_uid);
	if (r < 0)
		return fail(err, COVE_EIO, -r, "map user and group");
	if (s->attach) {
		r = cgroup_attach(&p->cgroup, p->pid);
		if (r < 0)
			return fail(err, COVE_EIO, -r, "enter the cgroup");
	}
	if (write(s->go[1], "g", 1) != 1)
		return fail(err, COVE_EIO, errno, "release the child");
	return 0;
}

void proc_kill(struct place *p)
{
	freeze_end(&p->freeze); /* a frozen process may not even notice a SIGKILL */
	if (p->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
}

void proc_release(struct place *p)
{
	siginfo_t si;

	close_fd(&p->link);
	for (int i = 0; i < CAPTURE_COUNT; i++)
		close_fd(&p->capture[i]);
	if (p->pidfd >= 0) {
		struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};

		proc_kill(p);
		/* poll, because a janitor (cove_leave) is not the guest's parent */
		while (poll(&ended, 1, -1) < 0 && errno == EINTR)
			;
		while (waitid(P_PIDFD, (id_t)p->pidfd, &si, WEXITED | __WALL) < 0 &&
		       errno == EINTR)
			;
		close_fd(&p->pidfd);
	}
	if (p->has_cgroup)
		cgroup_remove(&p->cgroup);
	p->has_cgroup = false;
	close_fd(&p->etc_ref);
}

/* The child has exec'd, so what its helper sent is there. */
static int take_capture(struct start *s, struct place *p, struct cove_error *err)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(p->capture))];
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(s->caught[0], &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *h = n == 1 ? CMSG_FIRSTHDR(&m) : NULL;

	if (!h || h->cmsg_type != SCM_RIGHTS ||
	    h->cmsg_len != CMSG_LEN(sizeof(p->capture)))
		return fail(err, COVE_EIO, n < 0 ? errno : 0, "network: its sockets");
	memcpy(p->capture, CMSG_DATA(h), sizeof(p->capture));
	return 0;
}

static int run_start(struct start *s, struct place *p, const struct place_config *c,
		     const struct proc_program *program, struct cove_error *err)
{
	int r;

	if (fill_job(s, p, c, program, err) < 0 ||
	    program->plan(&s->plan, c, program->plan_arg, err) < 0)
		return err->code;
	if (s->privileged && plan_prepare(&s->plan, p->host_uid, err) < 0)
		return err->code;
	if (make_cgroup(p, c, program, err) < 0)
		return err->code;
	fill_cgroup(s, p);
	if (clone_child(s, p, err) < 0)
		return err->code;
	r = release_child(s, p, c, err);
	if (r < 0)
		proc_kill(p);
	close_fd(&s->go[0]);
	close_fd(&s->go[1]);
	/* Even when we gave up: the child must be gone before its stack is. */
	if (wait_exec(s, p, r < 0 ? &(struct cove_error){0} : err) < 0 || r < 0)
		return err->code;
	if (s->caught[0] >= 0 && take_capture(s, p, err) < 0)
		return err->code;
	p->etc_ref = take_fd(&s->plan.etc_ref);
	return 0;
}

int proc_launch(struct place *p, const struct place_config *c,
		const struct proc_program *program, struct cove_error *err)
{
	struct start s = {
		.go = {-1,  -1},
		.ready = {-1,   -1},
		.caught = {-1,-1},
		.guest = -1,
		.cgroup_fd = -1,
		.job = {.ruleset = -1 },
		.plan = {.etc_ref = -1  }
        };
	int r;

	for (size_t i = 0; i < PROC_FDS_MAX; i++)
		s.fds[i] = -1;
	r = run_start(&s, p, c, program, err);
	start_clear(&s);
	return r;
}

int proc_plan(struct plan *p, const struct place_config *c, const void *arg,
	      struct cove_error *err)
{
	(void)arg;
	return plan_build(p, c, err);
}

static int proc_start(struct place *p, const struct place_config *c,
		      struct cove_error *err)
{
	static const char *const argv[] = {"cove-guest", "--init", NULL};
	struct proc_program guest = {
		.path = c->guest,
		.argv = argv,
		.filter = seccomp_guest_program(),
		.n_fds = 1,
		.plan = proc_plan,
	};
	int link[2], r;

	*p = place_none();
	p->backend = &backend_process;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) < 0)
		return fail(err, COVE_EIO, errno, "channel to the guest");
	guest.fds[0] = link[1];
	p->link = link[0];
	r = proc_launch(p, c, &guest, err);
	close(link[1]);
	if (r < 0)
		proc_release(p);
	return r;
}

const struct backend backend_process = {
	.name = "process",
	.probe = proc_probe,
	.start = proc_start,
	.attest = proc_attest,
	.set_limits = proc_set_limits,
	.freeze = proc_freeze,
	.kill = proc_kill,
	.release = proc_release,
};
