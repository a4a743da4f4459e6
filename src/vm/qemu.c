/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/qemu.h"

#include "base/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a guest of ours does not need, and what its start waits for longest under
 * emulation; each was measured. cmos_init: there is no clock to ask, and the port is
 * slow; we set the time. */
#define SKIPPED_INITCALLS \
	"init_kprobe_trace,load_system_certificate_list,slab_sysfs_init," \
	"crypto_kdf108_init,cmos_init,vga_arb_device_init,init_encrypted,init_ima," \
	"init_evm,tpm_init,perf_event_sysfs_init,snapshot_device_init,hugetlb_init," \
	"fbmem_init"

/* Everything that QEMU emulates but what costs more than it gives: it emulates string
 * instructions one round at a time, so that whoever is told that they are fast copies
 * and clears memory several times slower than with a plain loop; and a fifth level of
 * page tables is one more step of each walk, for memory that no guest of ours has. */
#define EMULATED_CPU "max,-erms,-la57"

__attribute__((format(printf, 2, 3))) static void add(struct qemu_args *a,
						      const char *fmt, ...)
{
	va_list ap;
	int n;

	if (a->n == QEMU_ARGS_MAX) {
		a->full = true;
		return;
	}
	va_start(ap, fmt);
	n = vsnprintf(a->text + a->used, sizeof(a->text) - a->used, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(a->text) - a->used) {
		a->full = true;
		return;
	}
	a->v[a->n++] = a->text + a->used;
	a->used += (size_t)n + 1;
}

static void add_words(struct qemu_args *a, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(a, "%s", words[i]);
}

/* Without KVM the guest's counter is the host's, and there is nothing in this machine to
 * measure it by: the guest must be told. Mitigations guard against what an emulated
 * processor does not do. Programs stay in their place: QEMU finds what it has translated
 * by its address, and would translate the loader and the C library for every start of a
 * program anew (45 ms instead of 5). And rep_good: see EMULATED_CPU. */
static void add_append(struct qemu_args *a, const struct qemu_machine *m)
{
	char emulated[160] = "";

	if (!m->kvm)
		snprintf(
			emulated, sizeof(emulated),
			" tsc_early_khz=%llu tsc=reliable no_timer_check mitigations=off "
			"norandmaps clearcpuid=rep_good",
			(unsigned long long)m->tsc_khz);
	add(a, "-append");
	add(a,
	    "console=ttyS0 quiet panic=-1 oops=panic reboot=t random.trust_cpu=on "
	    "cryptomgr.notests rcupdate.rcu_expedited=1 psi=0 nowatchdog "
	    "lsm=landlock,yama cgroup.memory=nokmem,nosocket initcall_blacklist=%s%s%s%s",
	    SKIPPED_INITCALLS, emulated, m->append ? " " : "",
	    m->append ? m->append : "");
}

static void add_boot(struct qemu_args *a, const struct qemu_machine *m)
{
	if (!m->kernel)
		return;
	add(a, "-kernel");
	add(a, QEMU_KERNEL_DIR "/%s", m->kernel);
	add(a, "-initrd");
	add(a, QEMU_KERNEL_DIR "/%s", m->initramfs);
	add_append(a, m);
}

static void add_socket(struct qemu_args *a, const char *id, int fd)
{
	add(a, "-chardev");
	add(a, "socket,id=%s,fd=%d", id, fd);
}

static void add_ports(struct qemu_args *a, const struct qemu_machine *m)
{
	const struct {
		const char *name;
		int fd;
	} ports[] = {
		{"link", m->link},
                {"fs",   m->fs  },
                {"net",  m->net }
        };

	add(a, "-device");
	add(a, "virtio-serial-device,max_ports=4");
	for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
		add_socket(a, ports[i].name, ports[i].fd);
		add(a, "-device");
		add(a, "virtserialport,chardev=%s,name=cove.%s,nr=%zu", ports[i].name,
		    ports[i].name, i + 1);
	}
}

static void add_swap(struct qemu_args *a, int fd)
{
	if (fd < 0)
		return;
	add(a, "-add-fd");
	add(a, "fd=%d,set=1", fd);
	add(a, "-blockdev");
	add(a, "driver=raw,node-name=swap,file.driver=file,file.locking=off,file.drop-"
	       "cache=off,"
	       "file.filename=/dev/fdset/1");
	add(a, "-device");
	add(a, "virtio-blk-device,drive=swap,serial=" QEMU_SWAP_SERIAL);
}

/* No file of the host's: memory that cove-fs writes, and nobody else. */
static void add_window(struct qemu_args *a, int fd)
{
	if (fd < 0)
		return;
	add(a, "-add-fd");
	add(a, "fd=%d,set=4", fd);
	add(a, "-blockdev");
	add(a, "driver=raw,node-name=window,read-only=on,file.driver=file,file.read-only="
	       "on,file.locking=off,file.drop-cache=off,file.filename=/dev/fdset/4");
	add(a, "-device");
	add(a, "virtio-blk-device,drive=window,serial=" QEMU_WINDOW_SERIAL);
}

/* A device whose file is swapped when a template is restored: the guest looks at it
 * afterwards only. That the image is read-only is a feature of the device. QEMU reads no
 * file that the image names: there is none in its root, and `backing` says there is none
 * to open. */
static void add_image(struct qemu_args *a, const struct qemu_machine *m)
{
	add(a, "-blockdev");
	if (m->image < 0) {
		add(a, "{\"driver\":\"null-co\",\"node-name\":\"image\",\"size\":1048576,"
		       "\"read-only\":true}");
		return;
	}
	add(a,
	    "{\"driver\":\"%s\",\"node-name\":\"image\",\"read-only\":true,%s"
	    "\"file\":{\"driver\":\"file\",\"locking\":\"off\",\"drop-cache\":false,"
	    "\"read-only\":true,"
	    "\"filename\":\"/dev/fdset/2\"}}",
	    m->qcow2 ? "qcow2" : "raw", m->qcow2 ? "\"backing\":null," : "");
}

static void add_layer(struct qemu_args *a, const struct qemu_machine *m)
{
	add(a, "-blockdev");
	if (m->layer < 0)
		add(a, "driver=null-co,node-name=layer,size=1048576");
	else
		add(a, "driver=raw,node-name=layer,discard=unmap,file.driver=file,"
		       "file.discard=unmap,file.locking=off,file.drop-cache=off,file."
		       "filename=/dev/fdset/3");
}

static void add_disks(struct qemu_args *a, const struct qemu_machine *m)
{
	const struct {
		int fd, set;
	} fds[] = {
		{m->image, 2},
                {m->layer, 3}
        };

	if (!m->disks)
		return;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i].fd < 0)
			continue;
		add(a, "-add-fd");
		add(a, "fd=%d,set=%d", fds[i].fd, fds[i].set);
	}
	add_image(a, m);
	add(a, "-device");
	add(a, "virtio-blk-device,drive=image,serial=" QEMU_IMAGE_SERIAL);
	add_layer(a, m);
	add(a, "-device");
	add(a, "virtio-blk-device,drive=layer,serial=" QEMU_LAYER_SERIAL);
}

static void add_memory(struct qemu_args *a, const struct qemu_machine *m)
{
	unsigned long long mib = m->memory >> 20;

	add(a, "-m");
	add(a, "%lluM", mib);
	add(a, "-object");
	if (m->saved || (!m->share && !m->incoming)) {
		add(a, "memory-backend-ram,id=ram,size=%lluM", mib);
		return;
	}
	add(a,
	    "memory-backend-file,id=ram,size=%lluM,mem-path=" QEMU_VM_DIR "/ram,share=%s",
	    mib, m->share ? "on" : "off");
}

int qemu_args(struct qemu_args *a, const struct qemu_machine *m)
{
	static const char *const fixed[] = {
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-sandbox",
		"on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		/* the legacy form of the device has no feature bits above 31 */
		"-global", "virtio-mmio.force-legacy=false",
		/* what the guest frees goes back to the host */
		"-device", "virtio-balloon-device,free-page-reporting=on"};

	*a = (struct qemu_args){0};
	add(a, "%s", m->program);
	add(a, "-M");
	add(a, "microvm,memory-backend=ram%s", m->tuned ? ",acpi=off" : "");
	add(a, "-accel");
	add(a, "%s", m->kvm ? "kvm" : "tcg,thread=multi");
	add(a, "-cpu");
	add(a, "%s", m->kvm ? "host" : EMULATED_CPU);
	add(a, "-smp");
	add(a, "%u", m->cpus);
	add_memory(a, m);
	add_words(a, fixed, ARRAY_LEN(fixed));
	if (!m->kvm) { /* who rings a device's bell serves it: no other thread is woken */
		add(a, "-global");
		add(a, "virtio-mmio.ioeventfd=off");
	}
	add_boot(a, m);
	add_socket(a, "console", m->console);
	add(a, "-serial");
	add(a, "chardev:console");
	add_socket(a, "qmp", m->qmp);
	add(a, "-mon");
	add(a, "chardev=qmp,mode=control");
	add_ports(a, m);
	add_window(a, m->window);
	add_swap(a, m->swap);
	add_disks(a, m);
	if (m->incoming) {
		add(a, "-incoming");
		add(a, "defer");
	}
	a->v[a->n] = NULL;
	return a->full ? -1 : 0;
}
