/* SPDX-License-Identifier: Apache-2.0 */
/* vm_probe - what this host has for machines, found by trying. */
#include "backend/vm_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/util.h"
#include "vm/kvm_probe.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* ---- KVM: tried once a boot ----------------------------------------------------- */

/* What is remembered holds for this boot of the host, this user and this /dev/kvm. */
static void memory_key(char *out, size_t size)
{
	cleanup_buf struct buf id = BUF_INIT(100);
	bool may = access("/dev/kvm", R_OK | W_OK) == 0;

	if (read_file_at(AT_FDCWD, BOOT_ID, &id) < 0)
		id.len = 0;
	snprintf(out, size, "%.36s %d ", id.len ? id.data : "", may);
}

static bool recall(const char *file, const char *key, enum kvm_verdict *ret)
{
	cleanup_buf struct buf text = BUF_INIT(200);
	size_t n = strlen(key);

	if (read_file_at(AT_FDCWD, file, &text) < 0 || text.len <= n ||
	    strncmp(text.data, key, n) != 0 || text.data[n] < '0' ||
	    text.data[n] > '0' + KVM_ABSENT)
		return false;
	*ret = (enum kvm_verdict)(text.data[n] - '0');
	return true;
}

static bool have_kvm(const char *cache_dir)
{
	char file[4200], key[64], text[80], detail[160];
	enum kvm_verdict v;

	if (access("/dev/kvm", F_OK) < 0)
		return false;
	snprintf(file, sizeof(file), "%s/kvm", cache_dir);
	memory_key(key, sizeof(key));
	if (!recall(file, key, &v)) {
		v = kvm_probe(detail, sizeof(detail));
		snprintf(text, sizeof(text), "%s%d\n", key, v);
		write_file_in(cache_dir, "kvm", text, strlen(text), 0600, 0);
	}
	return v == KVM_USABLE;
}

/* ---- for the doctor ------------------------------------------------------------- */

static void add_check(json_t *checks, const char *name, bool ok, const char *detail,
		      const char *fix)
{
	json_t *o = json_pack("{s:s, s:s, s:b, s:s}", "name", name, "backend", "vm", "ok",
			      ok, "detail", detail);

	if (o && !ok && *fix)
		json_object_set_new(o, "fix", json_string(fix));
	if (checks)
		json_array_append_new(checks, o);
	else
		json_decref(o);
}

static void check_kvm(json_t *checks)
{
	static const char *const fixes[] = {
		[KVM_USABLE] = "",
		[KVM_UNUSABLE] = "a host with hardware virtualization; until then "
				 "machines are emulated: isolation holds, speed does not",
		[KVM_DENIED] = "sudo usermod -aG kvm $USER, then log in again",
		[KVM_ABSENT] = "modprobe kvm_intel or kvm_amd; in a virtual machine, "
			       "switch nested virtualization on",
	};
	char detail[160] = "";
	enum kvm_verdict v = kvm_probe(detail, sizeof(detail));

	add_check(checks, "kvm", v == KVM_USABLE, detail, fixes[v]);
}

static int check_qemu(const struct place_config *c, json_t *checks,
		      struct cove_error *err)
{
	char path[4096], version[QEMU_VERSION_MAX] = "";
	int r = qemu_find(path, err);

	if (r == 0)
		r = qemu_version(path, c->cache_dir, version, err);
	add_check(checks, "qemu", r == 0, r == 0 ? version : err->msg, err->hint);
	return r;
}

static int check_kernel(const struct place_config *c, json_t *checks,
			struct cove_error *err)
{
	struct vm_kernel k;
	int r = kernel_find(&k, c->kernels, NULL, c->guest, err);

	add_check(checks, "guest-kernel", r == 0, r == 0 ? k.name : err->msg, err->hint);
	return r;
}

int vm_probe(const struct place_config *c, json_t *checks, struct cove_error *err)
{
#if !defined(__x86_64__)
	return fail(err, COVE_EUNSUPPORTED, 0, "backend vm: only on x86-64");
#else
	struct cove_error other = {0};
	int q, k;

	check_kvm(checks);
	q = check_qemu(c, checks, err);
	k = check_kernel(c, checks, q < 0 ? &other : err);
	return q < 0 ? q : k;
#endif
}

/* ---- for a start ---------------------------------------------------------------- */

int vm_gather(struct vm_host *h, const struct place_config *c, struct cove_error *err)
{
	if (qemu_find(h->qemu, err) < 0 ||
	    qemu_version(h->qemu, c->cache_dir, h->version, err) < 0 ||
	    qemu_append(h->append, err) < 0 ||
	    kernel_find(&h->kernel, c->kernels, NULL, c->guest, err) < 0 ||
	    vm_size(h, c->spec, err) < 0)
		return wrap(err, "backend vm");
	h->kvm = have_kvm(c->cache_dir);
	return 0;
}

int vm_prepare(const struct place_config *c, struct cove_error *err)
{
	struct vm_host h;
	struct template t;
	int r;

	if (vm_gather(&h, c, err) < 0)
		return err->code;
	if (!h.kvm)
		log_line(LOG_WARNING, "backend vm: no usable KVM here, so the machine is "
				      "emulated: isolation holds, speed does not");
	r = vm_template_ensure(&t, &h, c, err);
	if (r != COVE_EIO)
		return r;
	log_line(LOG_WARNING, "backend vm: %s: every start boots", err->msg);
	return 0;
}

/* Cheap tests first: most hosts have no kernel installed. */
bool backend_vm_is_best(const struct place_config *c)
{
	struct cove_error ignored = {0};
	struct vm_kernel k;
	char path[4096];

	return access(c->kernels, X_OK) == 0 && have_kvm(c->cache_dir) &&
	       qemu_find(path, &ignored) == 0 &&
	       kernel_find(&k, c->kernels, NULL, c->guest, &ignored) == 0;
}
