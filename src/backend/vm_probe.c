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

#define TOLD "kvm-told" /* what vm_tell_emulated() said holds for */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* ---- KVM: tried once a boot ----------------------------------------------------- */

struct finding {
	enum kvm_verdict verdict;
	char detail[160];
};

static const char *const fixes[] = {
	[KVM_USABLE] = "",
	[KVM_UNUSABLE] = "a host with hardware virtualization; until then "
			 "machines are emulated: isolation holds, speed does not",
	[KVM_DENIED] = "sudo usermod -aG kvm $USER, then log in again",
	[KVM_ABSENT] = "modprobe kvm_intel or kvm_amd; in a virtual machine, "
		       "switch nested virtualization on",
	[KVM_UNKNOWN] = "ask again when the host is less busy",
};

/* What is remembered holds for this boot of the host, this user and this /dev/kvm. */
static void memory_key(char *out, size_t size)
{
	cleanup_buf struct buf id = BUF_INIT(100);
	bool may = access("/dev/kvm", R_OK | W_OK) == 0;

	if (read_file_at(AT_FDCWD, BOOT_ID, &id) < 0)
		id.len = 0;
	snprintf(out, size, "%.36s %d ", id.len ? id.data : "", may);
}

/* "KEY VERDICT DETAIL\n" */
static bool recall(struct finding *f, const char *file, const char *key)
{
	cleanup_buf struct buf text = BUF_INIT(400);
	size_t n = strlen(key);

	if (read_file_at(AT_FDCWD, file, &text) < 0 || text.len <= n ||
	    strncmp(text.data, key, n) != 0 || text.data[n] < '0' ||
	    text.data[n] > '0' + KVM_ABSENT)
		return false;
	f->verdict = (enum kvm_verdict)(text.data[n] - '0');
	snprintf(f->detail, sizeof(f->detail), "%s", text.data + n + 1);
	f->detail[strcspn(f->detail, "\n")] = '\0';
	/* an older cove kept no reason */
	return f->verdict == KVM_USABLE || f->detail[0];
}

static void try_kvm(struct finding *f, const char *cache_dir)
{
	char key[64], text[300];

	memory_key(key, sizeof(key));
	f->detail[0] = '\0';
	f->verdict = kvm_probe(f->detail, sizeof(f->detail));
	if (f->verdict == KVM_UNKNOWN)
		return;
	snprintf(text, sizeof(text), "%s%d%s\n", key, f->verdict, f->detail);
	write_file_in(cache_dir, "kvm", text, strlen(text), 0600, 0);
}

static void find_kvm(struct finding *f, const char *cache_dir)
{
	char file[4200], key[64];

	snprintf(file, sizeof(file), "%s/kvm", cache_dir);
	memory_key(key, sizeof(key));
	if (access("/dev/kvm", F_OK) < 0)
		*f = (struct finding){KVM_ABSENT, "/dev/kvm: not there"};
	else if (!recall(f, file, key))
		try_kvm(f, cache_dir);
}

static bool have_kvm(const char *cache_dir)
{
	struct finding f;

	find_kvm(&f, cache_dir);
	return f.verdict == KVM_USABLE;
}

/* Once a boot of the host. Who only lacks a group is told that: the rest is nobody's
 * fault. */
void vm_tell_emulated(const char *cache_dir)
{
	char file[4200], key[64];
	cleanup_buf struct buf told = BUF_INIT(sizeof(key));
	struct finding f;

	snprintf(file, sizeof(file), "%s/" TOLD, cache_dir);
	memory_key(key, sizeof(key));
	if (!log_heard() || (read_file_at(AT_FDCWD, file, &told) == 0 &&
			     told.len == strlen(key) && strcmp(told.data, key) == 0))
		return;
	find_kvm(&f, cache_dir);
	log_line(LOG_WARNING,
		 "backend vm: no usable KVM here (%s%s%s), so machines are emulated: "
		 "isolation holds, speed does not",
		 f.detail, f.verdict == KVM_DENIED ? "; " : "",
		 f.verdict == KVM_DENIED ? fixes[KVM_DENIED] : "");
	write_file_in(cache_dir, TOLD, key, strlen(key), 0600, 0);
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

/* Tried anew: who asks has perhaps just mended something. */
static void check_kvm(const struct place_config *c, json_t *checks)
{
	struct finding f;

	try_kvm(&f, c->cache_dir);
	add_check(checks, "kvm", f.verdict == KVM_USABLE, f.detail, fixes[f.verdict]);
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

	check_kvm(c, checks);
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
	h->tsc_khz = h->kvm ? 0 : tsc_khz(c->cache_dir);
	processor_digest(h->processor);
	vm_begun(h->begun, sizeof(h->begun), c);
	h->begun_home = !c->home_dir;
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
		vm_tell_emulated(c->cache_dir);
	r = vm_template_ensure(&t, &h, c, err);
	template_let_go(&t);
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
