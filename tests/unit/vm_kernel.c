/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of kernels: adding, finding, verifying, choosing, removing, and what
 * happens to damaged ones; the probe of /dev/kvm. */
#include "base/io.h"
#include "base/util.h"
#include "tap.h"
#include "vm/kernel.h"
#include "vm/kvm_probe.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

static char top[] = "/tmp/cove-kernel-test.XXXXXX";
static char dir[100], image[100], guest[100], path[400];

static const char *at(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void write_file(const char *name, const void *data, size_t n)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	if (fd < 0 || write_all(fd, data, n) < 0)
		perror(name);
	close(fd);
}

static void make_guest(const char *content)
{
	struct {
		Elf64_Ehdr head;
		char content[100];
	} e = {.head = {.e_phentsize = sizeof(Elf64_Phdr)}};

	memcpy(e.head.e_ident, ELFMAG, SELFMAG);
	snprintf(e.content, sizeof(e.content), "%s", content);
	write_file(guest, &e, sizeof(e));
}

static void make_inputs(void)
{
	char bytes[5000] = {0};

	snprintf(dir, sizeof(dir), "%s/kernels", top);
	snprintf(image, sizeof(image), "%s/image", top);
	snprintf(guest, sizeof(guest), "%s/guest", top);
	memcpy(bytes + 0x202, "HdrS", 4);
	bytes[0x20e] = 0x10;
	memcpy(bytes + 0x210, "6.7.8-mine x", 12);
	write_file(image, bytes, sizeof(bytes));
	make_guest("one");
}

static const json_t *listed(json_t **all, const char *name)
{
	struct cove_error err = {0};
	const json_t *v, *found = NULL;
	size_t i;

	*all = kernel_list(dir, &err);
	json_array_foreach(*all, i, v)
	{
		if (strcmp(json_string_value(json_object_get(v, "name")), name) == 0)
			found = v;
	}
	return found;
}

static bool is_default(const char *name)
{
	json_t *all;
	const json_t *v = listed(&all, name);
	bool yes = v && json_is_true(json_object_get(v, "default"));

	json_decref(all);
	return yes;
}

static void nothing_there(void)
{
	struct cove_error err = {0};
	struct vm_kernel k;
	json_t *all;

	OK(kernel_find(&k, dir, NULL, guest, &err) == COVE_ENOENT &&
		   strstr(err.hint, "cove kernel install"),
	   "no kernel: %s", err.msg);
	OK(kernel_remove(dir, "a", &err) == COVE_ENOENT && access(dir, F_OK) < 0,
	   "looking for one makes no directory");
	OK(!listed(&all, "a") && json_array_size(all) == 0, "an empty list");
	json_decref(all);
}

static void added_and_found(void)
{
	struct cove_error err = {0};
	struct vm_kernel k, again, other;
	struct stat st;
	json_t *all;
	const json_t *v;

	OK(kernel_add(dir, "mine", image, NULL, &err) == 0, "added: %s", err.msg);
	v = listed(&all, "mine");
	OK(v &&
		   strcmp(json_string_value(json_object_get(v, "version")),
			  "6.7.8-mine") == 0 &&
		   json_integer_value(json_object_get(v, "bytes")) == 5000 &&
		   !json_object_get(v, "problem") && is_default("mine"),
	   "listed, with its version, as the default");
	json_decref(all);
	OK(kernel_find(&k, dir, NULL, guest, &err) == 0 && strcmp(k.name, "mine") == 0 &&
		   k.built_in && strlen(k.digest) == 64,
	   "found: %s", err.msg);
	OK(stat(k.image, &st) == 0 && st.st_size == 5000 && stat(k.initramfs, &st) == 0,
	   "with its files");
	OK(kernel_find(&again, dir, "mine", guest, &err) == 0 &&
		   memcmp(&k, &again, sizeof(k)) == 0,
	   "by name it is the same");
	OK(kernel_verify(&k, &err) == 0, "and whole");
	make_guest("two");
	OK(kernel_find(&other, dir, NULL, guest, &err) == 0 &&
		   strcmp(k.digest, other.digest) != 0 &&
		   strcmp(k.initramfs, other.initramfs) != 0,
	   "another guest: another initramfs, another digest");
	make_guest("one");
}

static unsigned count_initramfs(void)
{
	DIR *d = opendir(at("mine"));
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += strncmp(e->d_name, "initramfs.", 10) == 0;
	if (d)
		closedir(d);
	return n;
}

static void old_ones_go(void)
{
	struct cove_error err = {0};
	struct vm_kernel k;
	char content[20];

	for (int i = 0; i < 12; i++) {
		snprintf(content, sizeof(content), "guest %d", i);
		make_guest(content);
		kernel_find(&k, dir, NULL, guest, &err);
	}
	OK(count_initramfs() <= 4 && access(k.initramfs, R_OK) == 0,
	   "of many initramfs few stay, the last one among them");
	make_guest("one");
}

static void bad_input_is_refused(void)
{
	static const char *const names[] = {"",    ".",   "..", ".x",      "a/b",
					    "-rf", "a b", "\n", "default", "\xff"};
	struct cove_error err = {0};
	struct vm_kernel k;
	char dynamic[200];

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		OK(kernel_add(dir, names[i], image, NULL, &err) == COVE_EINVAL &&
			   kernel_remove(dir, names[i], &err) == COVE_EINVAL &&
			   kernel_find(&k, dir, names[i], guest, &err) == COVE_EINVAL,
		   "no name: %zu", i);
	OK(kernel_add(dir, "mine", image, NULL, &err) == COVE_EEXIST, "there is one: %s",
	   err.msg);
	OK(kernel_add(dir, "x", "/dev/null", NULL, &err) == COVE_EINVAL &&
		   strstr(err.msg, "not the image"),
	   "nothing is no image");
	OK(kernel_add(dir, "x", "/nonexistent", NULL, &err) == COVE_EIO, "no file");
	OK(kernel_add(dir, "x", image, top, &err) == COVE_EINVAL &&
		   strstr(err.msg, "no modules"),
	   "a directory without modules");
	OK(kernel_find(&k, dir, "x", guest, &err) == COVE_ENOENT,
	   "nothing was left of it");
	OK(kernel_find(&k, dir, "mine", "/nonexistent", &err) == COVE_EIO, "no guest");
	snprintf(dynamic, sizeof(dynamic), "%s/script", top);
	write_file(dynamic, "#!/bin/sh\n", 10);
	OK(kernel_find(&k, dir, "mine", dynamic, &err) == COVE_EUNSUPPORTED,
	   "a guest that cannot be the first program: %s", err.msg);
}

static void choosing_and_removing(void)
{
	struct cove_error err = {0};
	struct vm_kernel k;

	OK(kernel_add(dir, "second", image, NULL, &err) == 0 && is_default("mine"),
	   "a second one leaves the default");
	OK(kernel_set_default(dir, "third", &err) == COVE_ENOENT &&
		   strstr(err.hint, "cove kernel ls"),
	   "not one that is not there");
	OK(kernel_set_default(dir, "second", &err) == 0 && is_default("second") &&
		   kernel_find(&k, dir, NULL, guest, &err) == 0 &&
		   strcmp(k.name, "second") == 0,
	   "chosen and used");
	OK(kernel_remove(dir, "second", &err) == 0 && is_default("mine"),
	   "removed: another one is the default");
	OK(access(at("second"), F_OK) < 0 && access(at(".old"), F_OK) < 0,
	   "nothing is left");
}

/* Each damage is found, and the message says what to do. */
static void flip(const char *name, off_t offset)
{
	int fd = open(at(name), O_RDWR | O_CLOEXEC);
	char c = 0;

	if (pread(fd, &c, 1, offset) == 1) {
		c ^= 1;
		if (pwrite(fd, &c, 1, offset) != 1)
			perror(name);
	}
	close(fd);
}

/* One that is right but for what it says of a second file. */
static void write_manifest(const char *second)
{
	char text[1000];
	int n = snprintf(
		text, sizeof(text),
		"{\"version\":\"1\",\"source\":\"x\",\"origin\":\"own\",\"files\":["
		"{\"path\":\"vmlinuz\",\"bytes\":4999,\"blake2b\":\"%064d\"},"
		"{\"path\":\"%s\",\"bytes\":1,\"blake2b\":\"%064d\"}]}",
		0, second, 0);

	write_file(at("mine/manifest.json"), text, (size_t)n);
}

static void damage_is_found(void)
{
	struct cove_error err = {0};
	struct vm_kernel k;
	json_t *all;
	char *base;

	kernel_find(&k, dir, "mine", guest, &err);
	flip("mine/vmlinuz", 3000);
	OK(kernel_find(&k, dir, "mine", guest, &err) == 0 &&
		   kernel_verify(&k, &err) == COVE_EDAMAGED &&
		   strstr(err.msg, "vmlinuz") && strstr(err.hint, "cove kernel"),
	   "a flipped bit: %s", err.msg);
	flip("mine/vmlinuz", 3000);
	base = strrchr(k.initramfs, '/') + 1;
	snprintf(path, sizeof(path), "mine/%s", base);
	base = strdup(path);
	flip(base, 200);
	free(base);
	OK(kernel_verify(&k, &err) == COVE_EDAMAGED && strstr(err.msg, "initramfs") &&
		   strstr(err.hint, "again"),
	   "in the initramfs: %s", err.msg);
	OK(kernel_find(&k, dir, "mine", guest, &err) == 0 && kernel_verify(&k, &err) == 0,
	   "which is made again");
	OK(truncate(at("mine/vmlinuz"), 4999) == 0 &&
		   kernel_find(&k, dir, "mine", guest, &err) == COVE_EDAMAGED,
	   "a cut image: %s", err.msg);
	OK(json_object_get(listed(&all, "mine"), "problem"), "the list says so");
	json_decref(all);
	OK(truncate(at("mine/manifest.json"), 100) == 0 &&
		   kernel_find(&k, dir, "mine", guest, &err) == COVE_EDAMAGED,
	   "a cut manifest: %s", err.msg);
	write_manifest("modules/x.ko");
	OK(kernel_find(&k, dir, "mine", guest, &err) == COVE_EDAMAGED &&
		   strstr(err.msg, "modules/x.ko: No such file"),
	   "a module that is missing: %s", err.msg);
	write_manifest("../../guest");
	OK(kernel_find(&k, dir, "mine", guest, &err) == COVE_EDAMAGED &&
		   strstr(err.msg, "manifest.json: damaged"),
	   "a path that leads out: %s", err.msg);
	OK(kernel_remove(dir, "mine", &err) == 0 &&
		   kernel_find(&k, dir, NULL, guest, &err) == COVE_ENOENT,
	   "a damaged one can be removed");
}

static void leftovers_are_swept(void)
{
	struct cove_error err = {0};

	mkdir(at(".new-0"), 0700);
	write_file(at(".new-0/vmlinuz"), "half", 4);
	OK(kernel_add(dir, "mine", image, NULL, &err) == 0 &&
		   access(at(".new-0"), F_OK) < 0,
	   "what a killed one has left goes");
}

static void one_at_a_time(void)
{
	int lock = open(at(".lock"), O_RDWR | O_CLOEXEC), status = 0;
	struct cove_error err = {0};
	pid_t pid;

	flock(lock, LOCK_EX);
	pid = fork();
	if (pid == 0)
		_exit(kernel_remove(dir, "mine", &err) == 0 ? 0 : 1);
	usleep(250000);
	OK(waitpid(pid, NULL, WNOHANG) == 0 && access(at("mine"), F_OK) == 0,
	   "the second waits");
	flock(lock, LOCK_UN);
	OK(waitpid(pid, &status, 0) == pid && status == 0 && access(at("mine"), F_OK) < 0,
	   "and goes on");
	close(lock);
}

/* ---- the probe ----------------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void on_signal(int signo)
{
	(void)signo;
	signals++;
}

static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void probe_leaves_no_trace(void)
{
	static const int used[] = {SIGALRM, SIGPROF, SIGCHLD};
	int before = next_fd();
	struct timespec a, b;
	char detail[200] = "", again[200] = "";
	enum kvm_verdict v;
	sigset_t mask;

	for (size_t i = 0; i < ARRAY_LEN(used); i++)
		signal(used[i], on_signal);
	clock_gettime(CLOCK_MONOTONIC, &a);
	v = kvm_probe(detail, sizeof(detail));
	clock_gettime(CLOCK_MONOTONIC, &b);
	OK(v <= KVM_UNKNOWN && detail[0], "verdict %d: %s", v, detail);
	OK((b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9 < 3,
	   "in a fraction of a second");
	sigprocmask(SIG_BLOCK, NULL, &mask);
	OK(next_fd() == before && signals == 0 && !sigismember(&mask, SIGALRM) &&
		   !sigismember(&mask, SIGINT) && waitpid(-1, NULL, __WALL) < 0,
	   "no descriptor, no signal, no child, and the mask is as it was");
	OK(kvm_probe(again, sizeof(again)) == v, "twice the same");
	for (size_t i = 0; i < ARRAY_LEN(used); i++)
		signal(used[i], SIG_DFL);
}

int main(void)
{
	if (!mkdtemp(top))
		return 1;
	make_inputs();
	nothing_there();
	added_and_found();
	old_ones_go();
	bad_input_is_refused();
	choosing_and_removing();
	damage_is_found();
	leftovers_are_swept();
	one_at_a_time();
	probe_leaves_no_trace();
	remove_tree_at(AT_FDCWD, top);
	return tap_done();
}
