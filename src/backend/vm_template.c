/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_template - boots a machine once and saves it where it waits for its first byte.
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
#include <time.h>

#define BOOT_MS 120000 /* emulated, on a busy host */
#define SAVE_MS 60000

static struct template_id identify(const struct vm_host *h)
{
	return (struct template_id){.kernel = h->kernel.name,
				    .digest = h->kernel.digest,
				    .qemu = h->version,
				    .kvm = h->kvm,
				    .cpus = h->cpus,
				    .memory = h->memory};
}

/* The guest sends one byte when it is ready; or the monitor ends. */
static int wait_ready(const struct vm_channels *ch, struct cove_error *err)
{
	struct pollfd p[] = {
		{.fd = ch->link[0],     .events = POLLIN},
		{.fd = ch->lifeline[0], .events = POLLIN}
        };
	char byte;

	while (poll(p, ARRAY_LEN(p), BOOT_MS) < 0 && errno == EINTR)
		;
	if (p[0].revents & POLLIN && read(ch->link[0], &byte, 1) == 1)
		return 0;
	fail(err, p[1].revents ? COVE_EIO : COVE_ETIMEDOUT, 0,
	     p[1].revents ? "the guest's kernel did not start"
			  : "the guest's kernel does not come up");
	return vm_explain(ch->lifeline[0], err);
}

static int wait_saved(struct qmp *q, struct cove_error *err)
{
	const struct timespec nap = {0, 2000000};

	for (int i = 0; i < SAVE_MS / 2; i++) {
		json_t *answer = NULL;
		const char *status;
		bool done, failed;

		if (qmp_call(q, "query-migrate", NULL, &answer, err) < 0)
			return err->code;
		status = json_string_value(json_object_get(answer, "status"));
		done = status && strcmp(status, "completed") == 0;
		failed = status && strcmp(status, "failed") == 0;
		json_decref(answer);
		if (done)
			return 0;
		if (failed)
			return fail(err, COVE_EIO, 0, "QEMU: the state cannot be saved");
		nanosleep(&nap, NULL);
	}
	return fail(err, COVE_ETIMEDOUT, 0, "QEMU: saving the state");
}

static int save(struct qmp *q, const char *dir, struct cove_error *err)
{
	char path[4300];
	cleanup_fd int state = -1;

	snprintf(path, sizeof(path), "%s/state", dir);
	state = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (state < 0)
		return fail(err, COVE_EIO, errno, "template: %s", path);
	if (qmp_send(q, "qmp_capabilities", NULL, -1, err) < 0 ||
	    vm_ignore_shared(q, err) < 0 ||
	    qmp_send(q, "getfd", json_pack("{s:s}", "fdname", "state"), state, err) < 0 ||
	    qmp_send(q, "migrate", json_pack("{s:s}", "uri", "fd:state"), -1, err) < 0 ||
	    qmp_wait(q, 4, NULL, SAVE_MS, err) < 0)
		return err->code;
	return wait_saved(q, err);
}

static int boot_and_save(struct template *t, const struct vm_host *h,
			 const struct place_config *c, struct cove_error *err)
{
	struct place_config quiet = *c;
	struct vm_root root = {.host = h, .template_dir = t->making, .writable = true};
	struct qemu_machine m = {
		.program = h->qemu,
		.kvm = h->kvm,
		.cpus = h->cpus,
		.memory = h->memory,
		.share = true,
		.kernel = strrchr(h->kernel.image, '/') + 1,
		.initramfs = strrchr(h->kernel.initramfs, '/') + 1,
		.tuned = h->kernel.built_in,
		.tsc_khz = h->kvm ? 0 : qemu_tsc_khz(),
	};
	struct place p = place_none();
	struct vm_channels ch;
	struct qmp q;
	int r;

	/* A machine of the cache, not of the sandbox: neither its cgroup nor its limits.
	 */
	quiet.cgroup_made = NULL;
	p.backend = &backend_vm;
	vm_channels_init(&ch);
	r = vm_launch(&p, &quiet, &root, &m, &ch, err);
	if (r == 0)
		r = wait_ready(&ch, err);
	qmp_init(&q, take_fd(&ch.qmp[0]));
	if (r == 0)
		r = save(&q, t->making, err);
	proc_release(&p);
	qmp_clear(&q);
	vm_channels_clear(&ch);
	return r;
}

static int make(struct template *t, const struct vm_host *h, const struct place_config *c,
		struct cove_error *err)
{
	const struct template_id id = identify(h);
	int r;

	log_line(LOG_WARNING,
		 "backend vm: first start with %u cpus and %llu MiB: booting %s once",
		 h->cpus, (unsigned long long)h->memory >> 20, h->kernel.name);
	if (kernel_verify(&h->kernel, err) < 0 || template_begin(t, err) < 0)
		return err->code;
	r = boot_and_save(t, h, c, err);
	if (r == 0)
		r = template_commit(t, &id, err);
	if (r < 0)
		template_drop(t);
	return r;
}

int vm_template_ensure(struct template *t, const struct vm_host *h,
		       const struct place_config *c, struct cove_error *err)
{
	const struct template_id id = identify(h);
	int r = 0;

	if (template_find(t, c->cache_dir, &id, err) < 0)
		return err->code;
	if (template_ready(t))
		return 0;
	if (template_lock(t, err) < 0)
		return err->code;
	if (!template_ready(t))
		r = make(t, h, c, err);
	template_unlock(t);
	return r < 0 ? wrap(err, "template") : 0;
}
