/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_template - boots a machine once and saves it: where it waits for its first byte, or,
 * if what comes then is the same for many sandboxes, some way further (vm_warm.c).
 *
 * QEMU writes no memory: the file that backs it is the copy, and only the state of the
 * devices (a hundred kilobytes) goes to a second file. It stops the machine by itself
 * when it has saved that; one that was stopped before would not run when it is restored.
 * Ten starts that race wait for one.
 */
#include "backend/vm_impl.h"

#include "base/log.h"
#include "base/util.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>

#define BOOT_MS 300000 /* emulated, on a very busy host; alone it takes 2 s */
#define SAVE_MS 60000
#define ROOM_MIN (192ull << 20) /* what a guest has written when it is up, and some */

static struct template_id identify(const struct vm_host *h)
{
	return (struct template_id){.kernel = h->kernel.name,
				    .digest = h->kernel.digest,
				    .qemu = h->version,
				    .append = h->append,
				    .processor = h->processor,
				    .kvm = h->kvm,
				    .tsc_mhz = tsc_mhz(h->tsc_khz),
				    .cpus = h->cpus,
				    .memory = h->memory,
				    .swap = h->swap,
				    .disks = h->disks,
				    .begun = h->begun};
}

struct qemu_machine vm_machine(const struct vm_host *h)
{
	return (struct qemu_machine){.program = h->qemu,
				     .kvm = h->kvm,
				     .cpus = h->cpus,
				     .memory = h->memory,
				     .tuned = h->kernel.built_in,
				     .disks = h->disks};
}

void vm_machine_boots(struct qemu_machine *m, const struct vm_host *h)
{
	m->kernel = strrchr(h->kernel.image, '/') + 1;
	m->initramfs = strrchr(h->kernel.initramfs, '/') + 1;
	m->append = h->append[0] ? h->append : NULL;
	m->tsc_khz = h->tsc_khz;
}

/* The guest sends one byte when it is ready; or the monitor ends. */
int vm_wait_ready(int link, int lifeline, struct cove_error *err)
{
	struct pollfd p[] = {
		{.fd = link,     .events = POLLIN},
                {.fd = lifeline, .events = POLLIN}
        };
	char byte;

	while (poll(p, ARRAY_LEN(p), BOOT_MS) < 0 && errno == EINTR)
		;
	if (p[0].revents & POLLIN && read(link, &byte, 1) == 1)
		return 0;
	if (p[0].revents || p[1].revents)
		return vm_boot_failed(lifeline, err);
	fail(err, COVE_ETIMEDOUT, 0, "boot: the guest's kernel is not up after %d s",
	     BOOT_MS / 1000);
	hint(err, "its console is silent; 'cove kernel ls' shows which kernel it is");
	return vm_quote(lifeline, err);
}

static int make_file(const char *dir, const char *name, struct cove_error *err)
{
	char path[4300];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(err, COVE_EIO, errno, "template: %s", path);
	return fd;
}

static int save_tables(const struct vm *vm, const char *dir, struct cove_error *err)
{
	cleanup_fd int tables = make_file(dir, "tables", err);

	return tables < 0 ? err->code : vm_copy_tables(vm->fs_tables, tables, err);
}

static int save(struct qmp *q, const char *dir, struct cove_error *err)
{
	cleanup_fd int state = make_file(dir, "state", err);
	struct migrate m;

	if (state < 0)
		return err->code;
	if (migrate_begin(&m, q, MIGRATE_OUT, state, true, err) < 0)
		return err->code;
	return migrate_wait(&m, q, SAVE_MS, err);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* It is up; what is to be saved of it? *ret_cold: it is, and does not get further. */
static int bring_up(struct place *p, const struct place_config *c, struct vm_channels *ch,
		    const char *dir, bool *ret_cold, struct cove_error *err)
{
	int64_t began = now_ms();
	int r = vm_wait_ready(ch->link[0], ch->lifeline[0], err);

	if (r < 0 || !p->vm->host.begun[0])
		return r;
	r = vm_warm(p, c, ch, vm_warm_ms(now_ms() - began), err);
	*ret_cold = r < 0 && err->sys != ENOSPC; /* of its memory file */
	return r < 0 ? r : save_tables(p->vm, dir, err);
}

static int boot_and_save(struct template *t, const struct vm_host *h,
			 const struct place_config *c, bool *ret_cold,
			 struct cove_error *err)
{
	char id[CGROUP_ID_MAX + 1] = "";
	const struct place_config own = vm_cache_config(c, id);
	struct vm_root root = {.host = h, .template_dir = t->making, .boots = true};
	struct qemu_machine m = vm_machine(h);
	struct vm vm = {.host = *h, .fs = place_none(), .fs_control = -1};
	struct place p = place_none();
	struct vm_channels ch;
	struct qmp q;
	int r;

	vm_machine_boots(&m, h);
	snprintf(id, sizeof(id), "boot-%s", t->key);
	p.vm = &vm;
	vm.fs_tables = memfd_create("cove-fs-tables", MFD_CLOEXEC);
	vm_channels_init(&ch);
	r = vm.fs_tables < 0 ? fail(err, COVE_EIO, errno, "memory for tables")
			     : vm_launch_cached(&p, &own, &root, &m, &ch, err);
	if (r == 0)
		r = bring_up(&p, &own, &ch, t->making, ret_cold, err);
	qmp_init(&q, take_fd(&ch.qmp[0]));
	if (r == 0)
		r = save(&q, t->making, err);
	proc_kill(&p);
	proc_release(&vm.fs);
	proc_release(&p);
	qmp_clear(&q);
	vm_channels_clear(&ch);
	close_fd(&vm.fs_control);
	close_fd(&vm.fs_tables);
	return r;
}

/* QEMU does not survive a memory file that the disk has no room for. */
static int check_room(const char *cache_dir, struct cove_error *err)
{
	struct statvfs v;

	if (statvfs(cache_dir, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < ROOM_MIN)
		return fail(err, COVE_EIO, ENOSPC, "%s", cache_dir);
	return 0;
}

static int make(struct template *t, const struct vm_host *h, const struct place_config *c,
		bool *ret_cold, struct cove_error *err)
{
	const struct template_id id = identify(h);
	int r;

	template_sweep(c->cache_dir, &id);
	if (check_room(c->cache_dir, err) < 0)
		return err->code;
	log_line(LOG_WARNING,
		 "backend vm: first start with %u cpus and %llu MiB: booting %s once",
		 h->cpus, (unsigned long long)h->memory >> 20, h->kernel.name);
	if (kernel_verify(&h->kernel, err) < 0 || template_begin(t, err) < 0)
		return err->code;
	r = boot_and_save(t, h, c, ret_cold, err);
	if (r == 0)
		r = template_commit(t, &id, err);
	if (r < 0)
		template_drop(t);
	if (*ret_cold)
		template_forgo(t);
	return r;
}

static bool ready(const struct template *t, const struct vm_host *h)
{
	const struct template_id id = identify(h);
	const char *fault;
	bool is = template_ready(t, &id, &fault);

	if (fault)
		log_line(LOG_WARNING,
			 "backend vm: the template of %u cpus and %llu MiB is damaged "
			 "(%s): it is made again",
			 h->cpus, (unsigned long long)h->memory >> 20, fault);
	return is;
}

/* *ret_cold: one that has begun cannot be had, now or for some time. */
static int ensure(struct template *t, const struct vm_host *h,
		  const struct place_config *c, bool *ret_cold, struct cove_error *err)
{
	const struct template_id id = identify(h);
	int r = 0;

	*ret_cold = false;
	if (template_find(t, c->cache_dir, &id, err) < 0)
		return err->code;
	if (template_hold(t) && ready(t, h))
		return 0;
	template_let_go(t);
	if (template_lock(t, err) < 0)
		return err->code;
	if (!template_hold(t) || !template_ready(t, &id, &(const char *){NULL})) {
		template_let_go(t);
		*ret_cold = h->begun[0] && template_forgone(t);
		r = *ret_cold ? COVE_ETIMEDOUT : make(t, h, c, ret_cold, err);
	}
	if (r == 0 && t->held < 0 && !template_hold(t))
		r = fail(err, COVE_EIO, 0, "%s is gone", t->dir);
	template_unlock(t);
	return r;
}

/* A shell that hangs must not cost the start: one that waits for its first byte serves
 * every sandbox. Said by who has waited for it; the others find it so. */
int vm_template_ensure(struct template *t, struct vm_host *h,
		       const struct place_config *c, struct cove_error *err)
{
	struct cove_error why = {0};
	bool cold;
	int r = ensure(t, h, c, &cold, &why);

	if (r < 0 && cold) {
		if (why.code)
			log_line(LOG_WARNING,
				 "backend vm: no template that has run a shell (%s): "
				 "for an hour one is used that has not",
				 why.msg);
		why = (struct cove_error){0};
		h->begun[0] = '\0';
		r = ensure(t, h, c, &cold, &why);
	}
	if (r == 0)
		return 0;
	*err = why;
	return wrap(err, "template");
}

void vm_template_discard(struct template *t)
{
	struct cove_error ignored = {0};

	template_let_go(t);
	if (template_lock(t, &ignored) == 0)
		template_drop(t);
	template_unlock(t);
}
