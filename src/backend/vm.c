/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm - the vm backend: a sandbox with a kernel of its own.
 *
 * Theory of operation. Two confined processes make one place. cove-vmm runs QEMU in
 * namespaces of its own; cove-fs is started by the machinery of the process backend, in
 * exactly the root that a sandbox of that backend would have, and serves it as FUSE
 * requests. So mounts, layers, guards and the gate are the same code on both backends,
 * and what the guest's kernel does with its file system cannot exceed what the process
 * backend's sandbox could do with it.
 *
 * A start restores a template: QEMU maps its memory privately, loads the state of its
 * devices, and the guest goes on where it waited for the first byte of the link. Where
 * that cannot be (no room for one, or QEMU refuses what it has saved itself), the machine
 * boots, and whoever listens is told.
 *
 * Invariants
 *  1. The lifeline: cove-vmm ends when our end of it closes, and QEMU with it; cove-fs
 *     ends when QEMU's end of its socket closes.
 *  2. The place's pid is cove-vmm's; `vm` and everything in it belongs to the place.
 */
#include "backend/vm_impl.h"
#include "backend/vm_sources.h"

#include "base/fscontrol.h"
#include "base/log.h"
#include "base/util.h"
#include "os/program.h"

#include <fcntl.h>
#include <sodium/randombytes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define RESTORE_MS 30000
#define FREEZE_MS 100

static const char *fs_file(struct cove_error *err)
{
	static char cache[PATH_MAX];

	return program_find(cache, "cove-fs", "COVE_FS", err);
}

/* For a save, see vm_save.c; the file is there already if it holds something. */
static int open_control(struct vm *vm, int *ret, struct cove_error *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return fail(err, COVE_EIO, errno, "files: control channel");
	close_fd(&vm->fs_control);
	vm->fs_control = pair[0];
	*ret = pair[1];
	return 0;
}

/* In the machine's cgroup, which is the place's. */
int vm_start_fs(struct place *p, const struct place_config *c,
		const struct vm_channels *ch, struct cove_error *err)
{
	cleanup_sources struct vm_sources sources = {0};
	static const struct cgroup_limits none;
	cleanup_fd int control = -1;
	struct place_config own = *c;
	struct proc_program fs = {
		.path = fs_file(err),
		/* no filter: it sets its own before it reads the first byte */
		.n_fds = 4,
		.plan = proc_plan,
		.limits = &none,
		.held = ~0u,
	};
	struct place *f = &p->vm->fs;
	int r;

	if (!fs.path || open_control(p->vm, &control, err) < 0)
		return err->code;
	fs.fds[0] = ch->fs[0];
	fs.fds[1] = control;
	fs.fds[2] = p->vm->fs_tables;
	fs.fds[3] = ch->window;
	fs.argv = vm_sources_argv(&sources, c, p->vm->fs_how);
	for (size_t i = 0; i < sources.n; i++)
		fs.fds[fs.n_fds++] = sources.fd[i];
	own.capture = false;
	own.cgroup_made = NULL;
	f->cgroup = p->cgroup;
	f->has_cgroup = p->has_cgroup;
	r = proc_launch(f, &own, &fs, err);
	f->has_cgroup = false; /* the place removes it */
	return r < 0 ? wrap(err, "files") : 0;
}

static int restore(struct vm *vm, const char *dir, struct cove_error *err)
{
	struct migrate m;
	char path[4300];
	cleanup_fd int state = -1;

	snprintf(path, sizeof(path), "%s/state", dir);
	state = open(path, O_RDONLY | O_CLOEXEC);
	if (state < 0)
		return fail(err, COVE_EIO, errno, "template: %s", path);
	if (migrate_begin(&m, &vm->qmp, MIGRATE_IN, state, true, err) < 0)
		return err->code;
	return qmp_event(&vm->qmp, "RESUME", RESTORE_MS, err);
}

/* What the machine of the template knows of files goes to the new server of them. */
static int take_tables(struct vm *vm, const char *dir, struct cove_error *err)
{
	char path[4300];
	cleanup_fd int tables = -1;

	vm->fs_how = NULL;
	if (!vm->host.begun[0])
		return 0;
	snprintf(path, sizeof(path), "%s/tables", dir);
	tables = open(path, O_RDONLY | O_CLOEXEC);
	if (tables < 0)
		return fail(err, COVE_EIO, errno, "template: %s", path);
	if (ftruncate(vm->fs_tables, 0) < 0 || lseek(vm->fs_tables, 0, SEEK_SET) < 0 ||
	    vm_copy_tables(tables, vm->fs_tables, err) < 0 ||
	    lseek(vm->fs_tables, 0, SEEK_SET) < 0)
		return err->code ? err->code
				 : fail(err, COVE_EIO, errno, "the tables of cove-fs");
	vm->fs_how = "restored";
	return 0;
}

/* ---- four ways to start -------------------------------------------------------- */

/* The monitor and cove-fs; QEMU gets ready while cove-fs starts. */
int vm_launch_all(struct place *p, const struct place_config *c,
		  const struct vm_root *root, struct qemu_machine *m,
		  struct vm_channels *ch, struct cove_error *err)
{
	struct vm *vm = p->vm;

	if (vm_launch(p, c, root, m, ch, err) < 0)
		return err->code;
	qmp_init(&vm->qmp, take_fd(&ch->qmp[0]));
	vm->lifeline = take_fd(&ch->lifeline[0]);
	return vm_start_fs(p, c, ch, err);
}

/* *ret_broken: it is the template that does not work. */
static int start_restored(struct place *p, const struct place_config *c,
			  struct vm_channels *ch, bool *ret_broken,
			  struct cove_error *err)
{
	struct vm *vm = p->vm;
	struct vm_root root = {.host = &vm->host, .template_dir = vm->template.dir};
	struct qemu_machine m = vm_machine(&vm->host);

	m.incoming = true;
	*ret_broken = take_tables(vm, vm->template.dir, err) < 0;
	if (*ret_broken || vm_launch_all(p, c, &root, &m, ch, err) < 0)
		return err->code;
	vm->restored = true;
	p->resumes = vm->fs_how != NULL;
	if (restore(vm, vm->template.dir, err) == 0 &&
	    (!p->resumes || vm_ask_fs(vm, FS_SETTLE, RESTORE_MS, err) == 0)) {
		template_let_go(&vm->template); /* QEMU has opened what it needs */
		return 0;
	}
	*ret_broken = true;
	return vm_quote(vm->lifeline, err);
}

static int start_booted(struct place *p, const struct place_config *c,
			struct vm_channels *ch, struct cove_error *err)
{
	struct vm *vm = p->vm;
	struct vm_root root = {.host = &vm->host, .boots = true};
	struct qemu_machine m = vm_machine(&vm->host);

	if (kernel_verify(&vm->host.kernel, err) < 0)
		return err->code;
	vm_machine_boots(&m, &vm->host);
	vm->restored = p->resumes = false;
	vm->fs_how = NULL;
	if (vm_launch_all(p, c, &root, &m, ch, err) < 0)
		return err->code;
	return vm_wait_ready(ch->link[0], vm->lifeline, err);
}

/* What an attempt has left; the place is as before it. */
static void take_back(struct place *p, struct vm_channels *ch)
{
	struct vm *vm = p->vm;

	close_fd(&p->net);
	close_fd(&p->alarm);
	close_fd(&vm->lifeline);
	close_fd(&vm->unused_net);
	close_fd(&vm->fs_control);
	template_let_go(&vm->template);
	qmp_clear(&vm->qmp);
	proc_kill(p);
	proc_release(&vm->fs);
	proc_release(p);
	if (ch)
		vm_channels_clear(ch);
}

/* A template that does not work is made anew, once. */
static int start_from_template(struct place *p, const struct place_config *c,
			       struct vm_channels *ch, bool *ret_broken,
			       struct cove_error *err)
{
	struct vm *vm = p->vm;
	int r = -1;

	for (int i = 0; i < 2; i++) {
		*ret_broken = false;
		if (vm_template_ensure(&vm->template, &vm->host, c, err) < 0) {
			*ret_broken = err->code == COVE_EIO;
			return err->code;
		}
		r = start_restored(p, c, ch, ret_broken, err);
		if (r == 0 || !*ret_broken)
			return r;
		log_line(LOG_WARNING,
			 "backend vm: the template cannot be restored (%s; %s): it is "
			 "thrown away",
			 err->msg, err->hint);
		take_back(p, ch);
		vm_template_discard(&vm->template);
	}
	return r;
}

static int start(struct place *p, const struct place_config *c, struct vm_channels *ch,
		 struct cove_error *err)
{
	bool broken = false;
	int r;

	if (vm_gather(&p->vm->host, c, err) < 0 || vm_disk_check(c, err) < 0)
		return err->code;
	if (!p->vm->host.kvm)
		vm_tell_emulated(c->cache_dir);
	if (c->state)
		r = c->state->file < 0 ? vm_start_shared(p, c, ch, err)
				       : vm_start_saved(p, c, ch, err);
	else
		r = start_from_template(p, c, ch, &broken, err);
	if (r < 0 && !c->state && broken) {
		log_line(LOG_WARNING, "backend vm: %s: booting without a template",
			 err->msg);
		r = start_booted(p, c, ch, err);
	}
	if (r < 0 || vm_watch(p, err) < 0)
		return err->code;
	if (c->state) /* the stream of connections begins anew */
		randombytes_buf(p->net_nonce, sizeof(p->net_nonce));
	p->link = take_fd(&ch->link[0]);
	p->silence_ms = VM_SILENCE_MS;
	p->up_ms = VM_UP_MS;
	p->sync_ms = p->vm->host.disks ? VM_SYNC_MS : 0;
	p->vm->cpus_milli = c->spec->resources.cpus_milli;
	*(c->capture ? &p->net : &p->vm->unused_net) = take_fd(&ch->net[0]);
	return 0;
}

static void vm_release(struct place *p)
{
	if (p->vm) {
		take_back(p, NULL);
		close_fd(&p->vm->fs_tables);
		close_fd(&p->vm->image);
	}
	free(p->vm);
	p->vm = NULL;
}

static int vm_start(struct place *p, const struct place_config *c, struct cove_error *err)
{
	struct vm_channels ch;
	int r;

	*p = place_none();
	p->backend = &backend_vm;
	p->vm = calloc(1, sizeof(*p->vm));
	if (!p->vm)
		return fail_nomem(err);
	p->vm->fs = place_none();
	p->vm->lifeline = p->vm->unused_net = p->vm->fs_control = p->vm->image = -1;
	p->vm->fs_tables = memfd_create("cove-fs-tables", MFD_CLOEXEC);
	p->vm->qmp.fd = p->vm->template.lock = p->vm->template.held = -1;
	vm_channels_init(&ch);
	r = p->vm->fs_tables < 0 ? fail(err, COVE_EIO, errno, "memory for tables")
				 : start(p, c, &ch, err);
	vm_channels_clear(&ch);
	if (r < 0)
		vm_release(p);
	return r;
}

/* QEMU answers at once, or when its processors have stopped; a busy host may take longer,
 * and then nobody waits for it here: it is asked for again. */
static int vm_freeze(struct place *p, bool on, struct cove_error *err)
{
	struct vm_stilling *s = &p->vm->stilling;
	struct qmp *q = &p->vm->qmp;
	struct cove_error why = {0};
	int r = 0;

	if (s->id) {
		r = qmp_poll(q, s->id, s->id, NULL, &why);
		if (r == 0)
			return 1;
		s->id = 0;
		if (s->on == on) {
			*err = why;
			return r < 0 ? r : 0;
		}
	}
	if (qmp_send(q, on ? "stop" : "cont", NULL, -1, err) < 0)
		return err->code;
	r = qmp_wait(q, 1, NULL, FREEZE_MS, err);
	if (r != COVE_ETIMEDOUT)
		return r;
	*err = (struct cove_error){0};
	*s = (struct vm_stilling){q->sent, on};
	return 1;
}

const struct backend backend_vm = {
	.name = "vm",
	.probe = vm_probe,
	.prepare = vm_prepare,
	.start = vm_start,
	.setup = vm_setup,
	.attest = vm_attest,
	.set_limits = vm_set_limits,
	.freeze = vm_freeze,
	.explain = vm_explain,
	.saver = &vm_saver,
	.kill = proc_kill,
	.release = vm_release,
};
