/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_save - a running machine to a file and back.
 *
 * Theory of operation. The memory of a running machine is a private copy of a template,
 * so only QEMU can write it down: it migrates the stopped machine, whole, into a pipe of
 * the caller's, who seals what comes out (vm/state.h). What the files' server knows of
 * the guest goes with it. The machine itself stays where it is and goes on afterwards.
 *
 * The way back is the same in reverse: a process of ours opens the seal and writes into a
 * pipe that QEMU reads. It is told of no byte that was not authenticated, and the guest
 * does not run before the last of them was: a file that was damaged since it was verified
 * makes the start fail.
 *
 * The caller sees to it that the guest is quiet (core/keeper_save.c): nothing is on its
 * way on any of its ports, so whoever is at the other end can be another one.
 */
#include "backend/vm_impl.h"

#include "base/fscontrol.h"
#include "base/io.h"
#include "base/util.h"
#include "ipc/wire.h"
#include "vm/state.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium/randombytes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOAD_MS 120000 /* for all of its memory to come in */
#define COPY (256u * 1024)
#define SEED_BYTES 64

/* ---- the files' server ---------------------------------------------------------- */

int vm_ask_fs(const struct vm *vm, char what, int timeout_ms, struct cove_error *err)
{
	struct pollfd p = {.fd = vm->fs_control, .events = POLLIN};
	int32_t result = -EIO;
	int n;

	if (write(vm->fs_control, &what, 1) != 1)
		return fail(err, COVE_EGONE, errno, "cove-fs");
	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return fail(err, COVE_ETIMEDOUT, 0,
			    "the guest does not hear what its "
			    "files' server says");
	if (read(vm->fs_control, &result, sizeof(result)) != sizeof(result))
		return fail(err, COVE_EGONE, errno, "cove-fs");
	return result < 0 ? fail(err, COVE_EIO, -result, "cove-fs: its tables") : 0;
}

int vm_copy_tables(int from, int to, struct cove_error *err)
{
	uint8_t *buf = malloc(COPY);
	ssize_t n = buf ? 1 : -1;
	off_t at = 0;
	int r = 0;

	while (r == 0 && (n = pread(from, buf, COPY, at)) > 0) {
		r = write_all(to, buf, (size_t)n);
		at += n;
	}
	free(buf);
	if (r == 0 && n < 0)
		r = -errno;
	return r < 0 ? fail(err, COVE_EIO, -r, "the tables of cove-fs") : 0;
}

/* ---- saving --------------------------------------------------------------------- */

static int save_hold(struct place *p, struct cove_error *err)
{
	return vm_ask_fs(p->vm, FS_HOLD, VM_FS_MS, err);
}

static void save_release(struct place *p)
{
	struct cove_error ignored = {0};

	vm_ask_fs(p->vm, FS_RELEASE, VM_FS_MS, &ignored);
}

static json_t *describe(const struct vm_host *h)
{
	struct state_machine m = {.kvm = h->kvm,
				  .tuned = h->kernel.built_in,
				  .tsc_khz = h->tsc_khz,
				  .cpus = h->cpus,
				  .memory = h->memory};

	snprintf(m.qemu, sizeof(m.qemu), "%s", h->version);
	snprintf(m.kernel, sizeof(m.kernel), "%s", h->kernel.name);
	snprintf(m.digest, sizeof(m.digest), "%s", h->kernel.digest);
	return state_machine_json(&m);
}

static int save_start(struct place *p, int to, int tables, json_t **ret_machine,
		      struct cove_error *err)
{
	if (p->vm->host.swap) {
		fail(err, COVE_EUNSUPPORTED, 0,
		     "memory cannot be saved: a part of it may be on the swap disk");
		return hint(err, "a sandbox without resources.swap can be saved");
	}
	if (vm_ask_fs(p->vm, FS_SAVE, VM_FS_MS, err) < 0)
		return err->code;
	if (vm_copy_tables(p->vm->fs_tables, tables, err) < 0 ||
	    migrate_begin(&p->vm->saving, &p->vm->qmp, MIGRATE_OUT, to, false, err) < 0)
		return err->code;
	*ret_machine = describe(&p->vm->host);
	return *ret_machine ? 0 : fail_nomem(err);
}

static int save_poll(struct place *p, struct cove_error *err)
{
	return migrate_poll(&p->vm->saving, &p->vm->qmp, err);
}

/* ---- going on from one ---------------------------------------------------------- */

static int other_size(const char *key, unsigned long long then, unsigned long long now,
		      struct cove_error *err)
{
	fail(err, COVE_ESTATE, 0,
	     "the memory was saved with %s %llu, and the sandbox has %llu now", key, then,
	     now);
	return hint(err, "change it back with 'cove set', or restore without memory: "
			 "--files-only");
}

/* A machine goes on as large as it was, and the spec must not say anything else. */
static int check_size(const struct vm_host *h, const struct state_machine *m,
		      struct cove_error *err)
{
	if (m->memory != h->memory)
		return other_size("resources.memoryMiB", m->memory >> 20, h->memory >> 20,
				  err);
	if (h->swap) /* one that has it is not saved */
		return other_size("resources.swap", 0, h->swap >> 20, err);
	if (m->cpus != h->cpus)
		return other_size("resources.cpus", m->cpus, h->cpus, err);
	return 0;
}

int vm_adopt(struct vm_host *h, const json_t *machine, struct cove_error *err)
{
	struct state_machine m;

	if (state_machine_parse(&m, machine) < 0)
		return fail(err, COVE_EDAMAGED, 0, "the saved memory: of what machine?");
	if (strcmp(m.qemu, h->version) != 0 || m.kvm != h->kvm) {
		fail(err, COVE_EUNSUPPORTED, 0,
		     "the memory was saved by QEMU %.60s with %s, and this is %.60s with "
		     "%s",
		     m.qemu, m.kvm ? "KVM" : "emulation", h->version,
		     h->kvm ? "KVM" : "emulation");
		return hint(err, "its files can be restored: --files-only");
	}
	if (!tsc_alike(m.tsc_khz, h->tsc_khz)) {
		fail(err, COVE_EUNSUPPORTED, 0,
		     "the memory was saved where the processor counts %llu MHz, and here "
		     "it is %llu: its clock would be wrong",
		     (unsigned long long)tsc_mhz(m.tsc_khz),
		     (unsigned long long)tsc_mhz(h->tsc_khz));
		return hint(err, "its files can be restored: --files-only");
	}
	if (check_size(h, &m, err) < 0)
		return err->code;
	h->kernel.built_in = m.tuned;
	snprintf(h->kernel.name, sizeof(h->kernel.name), "%s", m.kernel);
	snprintf(h->kernel.digest, sizeof(h->kernel.digest), "%s", m.digest);
	return 0;
}

/* In a process of its own, which holds nothing but these two. */
__attribute__((noreturn)) static void feed(struct seal *s, int to)
{
	static uint8_t buf[COPY];
	ssize_t n;

	signal(SIGPIPE, SIG_IGN);
	if (dup2(s->fd, 3) < 0 || dup2(to, 4) < 0)
		_exit(1);
	s->fd = 3;
	syscall(SYS_close_range, 5u, ~0u, 0);
	while ((n = seal_read(s, buf, sizeof(buf))) > 0)
		if (write_all(4, buf, (size_t)n) < 0)
			_exit(1);
	_exit(n < 0 ? 2 : 0);
}

/* Above those that feed() takes for itself. */
static int move_up(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, 10);

	if (high < 0)
		return -errno;
	close(*fd);
	*fd = high;
	return 0;
}

static int start_feeder(struct seal *s, pid_t *ret_pid, int *ret_fd,
			struct cove_error *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return fail(err, COVE_EIO, errno, "pipe");
	if (move_up(&p[1]) < 0 || (*ret_pid = fork()) < 0) {
		fail(err, COVE_EIO, errno, "a process that opens the seal");
		close(p[0]);
		close(p[1]);
		return err->code;
	}
	if (*ret_pid == 0)
		feed(s, p[1]);
	close(p[1]);
	*ret_fd = p[0];
	return 0;
}

/* Every byte was read, and was as it had been written. */
static int feeder_done(pid_t *pid, struct cove_error *err)
{
	int status = 0;

	while (waitpid(*pid, &status, 0) < 0 && errno == EINTR)
		;
	*pid = -1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		return fail(err, COVE_EDAMAGED, 0, "the saved memory is damaged");
	return fail(err, COVE_EIO, 0, "QEMU does not take the saved memory");
}

static int take_in(struct qmp *q, int from, int timeout_ms, struct cove_error *err)
{
	struct migrate m;

	if (migrate_begin(&m, q, MIGRATE_IN, from, false, err) < 0)
		return err->code;
	return migrate_wait(&m, q, timeout_ms, err);
}

int vm_load(struct qmp *q, struct seal *s, int timeout_ms, struct cove_error *err)
{
	cleanup_fd int from = -1;
	pid_t feeder = -1;
	int r;

	if (start_feeder(s, &feeder, &from, err) < 0)
		return err->code;
	r = take_in(q, from, timeout_ms, err);
	close_fd(&from);
	if (r == 0)
		return feeder_done(&feeder, err);
	kill(feeder, SIGKILL);
	waitpid(feeder, NULL, 0);
	return r;
}

int vm_start_saved(struct place *p, const struct place_config *c, struct vm_channels *ch,
		   struct cove_error *err)
{
	struct vm *vm = p->vm;
	struct seal s = {.fd = -1};
	cleanup_fd int file = fcntl(c->state->file, F_DUPFD_CLOEXEC, 10);
	json_t *head = NULL;
	int r;

	if (file < 0 || lseek(file, 0, SEEK_SET) < 0)
		return fail(err, COVE_EIO, errno, "the saved memory");
	r = state_open(&s, file, c->state->key, &head, vm->fs_tables, err);
	if (r == 0)
		r = vm_adopt(&vm->host, json_object_get(head, "machine"), err);
	if (r == 0 && lseek(vm->fs_tables, 0, SEEK_SET) < 0)
		r = fail(err, COVE_EIO, errno, "the tables of cove-fs");
	vm->fs_how = "restored";
	json_decref(head);
	if (r == 0) {
		struct vm_root root = {.host = &vm->host};
		struct qemu_machine m = vm_machine(&vm->host);

		m.incoming = m.saved = true;
		r = vm_launch_all(p, c, &root, &m, ch, err);
	}
	if (r == 0)
		r = vm_load(&vm->qmp, &s, LOAD_MS, err);
	if (r == 0)
		r = qmp_call(&vm->qmp, "cont", NULL, NULL, err);
	seal_clear(&s);
	return r;
}

static int check(const struct place_config *c, const json_t *machine,
		 struct cove_error *err)
{
	struct vm_host h;

	return vm_gather(&h, c, err) < 0 ? err->code : vm_adopt(&h, machine, err);
}

/* What is different in another life. */
static int resume(const struct place *p, const struct place_config *c, struct wire_out *o,
		  struct cove_error *err)
{
	uint8_t seed[SEED_BYTES];
	struct timespec now;

	(void)err;
	randombytes_buf(seed, sizeof(seed));
	wire_put_u32(o, WIRE_A_FLAGS,
		     WIRE_RESUME_RESTORED |
			     (c->state->head ? WIRE_RESUME_OTHER : 0)); /* a fork */
	wire_put_attr(o, WIRE_A_SEED, seed, sizeof(seed));
	wire_put_str(o, WIRE_A_HOSTNAME, c->hostname);
	wire_put_u32(o, WIRE_A_PIDS, c->spec->resources.pids);
	if (c->capture)
		wire_put_attr(o, WIRE_A_NONCE, p->net_nonce, sizeof(p->net_nonce));
	clock_gettime(CLOCK_REALTIME, &now);
	wire_put_u64(o, WIRE_A_TIME_NS,
		     (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	return 0;
}

const struct place_saver vm_saver = {
	.hold = save_hold,
	.release = save_release,
	.start = save_start,
	.poll = save_poll,
	.check = check,
	.share = vm_share,
	.resume = resume,
};
