/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_attest - what the host's kernel says about the three processes of a machine.
 *
 * The guest is not asked: whatever it does with its own kernel, it does inside of QEMU,
 * and what QEMU, cove-vmm and cove-fs can do is what this machine can do to the host.
 */
#include "backend/attest.h"
#include "backend/vm_impl.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"
#include "os/proctree.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define NAME_MAX_SHOWN 80

static int open_proc(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void named(struct report *r, const char *who, const char *what,
		  const char *required, const char *actual, bool ok)
{
	char name[NAME_MAX_SHOWN];

	snprintf(name, sizeof(name), "%s: %s", who, what);
	attest_item(r, name, required, actual, ok);
}

/* ---- confinement of one process -------------------------------------------------- */

static void namespaces(struct report *r, const char *who, int proc)
{
	char shared[100] = "", text[64];
	size_t n = 0;

	for (size_t i = 0; i < ATTEST_NAMESPACES; i++) {
		const char *name = attest_namespaces[i];

		if ((strcmp(name, "time") == 0 && !proc_has_time_ns()) ||
		    attest_own_namespace(proc, name, text, sizeof(text)))
			continue;
		n += (size_t)snprintf(shared + n, sizeof(shared) - n, " %s", name);
	}
	snprintf(text, sizeof(text), "the host's:%.50s", shared);
	named(r, who, "namespaces", "all its own", n ? text : "all its own", n == 0);
}

static void privileges(struct report *r, const char *who, int proc)
{
	static const char none[] = "0000000000000000";
	static const struct {
		const char *key, *name, *want;
	} want[] = {
		{"\nNoNewPrivs", "no_new_privs",           "1" },
		{"\nSeccomp",    "seccomp mode",           "2" },
		{"\nCapPrm",     "capabilities permitted", none},
		{"\nCapEff",     "capabilities effective", none},
		{"\nCapBnd",     "capabilities bounding",  none},
		{"\nCapAmb",     "capabilities ambient",   none},
	};
	cleanup_buf struct buf b = BUF_INIT(65536);
	char value[64];

	if (read_file_at(proc, "status", &b) < 0 || !b.data) {
		named(r, who, "status", "readable", "unreadable", false);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		attest_status(b.data, want[i].key, value, sizeof(value));
		named(r, who, want[i].name, want[i].want, value,
		      strcmp(value, want[i].want) == 0);
	}
}

static void cgroup(struct report *r, const char *who, const struct place *p, int proc)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	char name[CGROUP_ID_MAX + 8];
	bool in;

	if (!p->has_cgroup || !p->cgroup.n)
		return; /* what that costs the limits say */
	snprintf(name, sizeof(name), "/cove-%s", p->cgroup.id);
	in = read_file_at(proc, "cgroup", &b) == 0 && b.data && strstr(b.data, name);
	named(r, who, "control group", name + 1, in ? name + 1 : "another", in);
}

static void confinement(struct report *r, const char *who, const struct place *p,
			uint32_t uid, int proc)
{
	bool ok = attest_only_loopback(proc);
	char text[64];

	namespaces(r, who, proc);
	privileges(r, who, proc);
	named(r, who, "network interfaces", "lo only", ok ? "lo only" : "others", ok);
	ok = attest_one_user(proc, uid, text, sizeof(text));
	named(r, who, "user map", "one id, unprivileged outside", text, ok);
	cgroup(r, who, p, proc);
}

/* "Max file size             1048576              1048576              bytes" */
static void file_size(struct report *r, int proc)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	const char *at = NULL;
	char text[64] = "none";

	if (read_file_at(proc, "limits", &b) == 0 && b.data)
		at = strstr(b.data, "Max file size");
	if (at)
		sscanf(at + strlen("Max file size"), "%*s %63s", text);
	attest_item(r, "QEMU: largest file", "limited", text,
		    text[0] >= '0' && text[0] <= '9');
}

/* ---- the template ---------------------------------------------------------------- */

/* "flags:\t02100002", in octal, of one descriptor. */
static bool can_write(int proc, const char *fd)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	char path[64];
	unsigned flags = O_RDWR;
	const char *at;

	snprintf(path, sizeof(path), "fdinfo/%.20s", fd);
	if (read_file_at(proc, path, &b) < 0 || !b.data)
		return true;
	at = strstr(b.data, "flags:");
	return !at || sscanf(at, "flags: %o", &flags) != 1 ||
	       (flags & O_ACCMODE) != O_RDONLY;
}

/* How many descriptors of a file it has, and how many of them can write. */
static void count_descriptors(int proc, const struct stat *file, int *ret_all,
			      int *ret_write)
{
	int fd = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	*ret_all = 0;
	*ret_write = d ? 0 : 1;
	if (!d && fd >= 0)
		close(fd);
	while (d && (e = readdir(d))) {
		struct stat st;

		if (fstatat(fd, e->d_name, &st, 0) < 0 || st.st_ino != file->st_ino ||
		    st.st_dev != file->st_dev)
			continue;
		++*ret_all;
		*ret_write += can_write(proc, e->d_name);
	}
	if (d)
		closedir(d);
}

/* Bytes of it that are mapped so that writes stay in the process, and otherwise. */
static void count_mappings(int proc, const struct stat *file, uint64_t *ret_private,
			   uint64_t *ret_shared)
{
	cleanup_fd int fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(take_fd(&fd), "re");
	char line[512];

	*ret_private = 0;
	*ret_shared = f ? 0 : 1;
	while (f && fgets(line, sizeof(line), f)) {
		uint64_t from, to, inode;
		unsigned major, minor;
		char mode[8];

		/* An overlay may show another device here than stat() does: the inode is
		 * enough, as a stranger's would only make it worse. */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %x:%x %" SCNu64, &from,
			   &to, mode, &major, &minor, &inode) == 6 &&
		    inode == file->st_ino)
			*(mode[3] == 'p' ? ret_private : ret_shared) += to - from;
	}
	if (f)
		fclose(f);
}

static void template(struct report *r, const struct vm *vm, int proc)
{
	uint64_t mapped = 0, shared = 1;
	int all = 0, writing = 1;
	char text[160];

	if (!vm->restored)
		return;
	/* It may have been removed since. */
	count_descriptors(proc, &vm->template.ram, &all, &writing);
	count_mappings(proc, &vm->template.ram, &mapped, &shared);
	snprintf(text, sizeof(text),
		 "%" PRIu64 " MiB private, %" PRIu64 " shared; of %d descriptors %d can "
		 "write",
		 mapped >> 20, shared >> 20, all, writing);
	attest_item(r, "QEMU: template", "mapped privately, not writable", text,
		    mapped == vm->host.memory && !shared && !writing);
}

/* ---- the machine ----------------------------------------------------------------- */

static void machine(struct report *r, const struct vm *vm)
{
	const struct vm_host *h = &vm->host;
	char text[200];

	attest_item(r, "isolation", "a kernel of its own",
		    h->kvm ? "hardware virtualization (KVM)" : "emulated (QEMU TCG)",
		    true);
	attest_item(r, "QEMU: version", "6 or newer", h->version, true);
	snprintf(text, sizeof(text), "%.100s, %.64s", h->kernel.name, h->kernel.digest);
	attest_item(r, "guest kernel", "as installed, checked before it booted", text,
		    true);
}

static void limits(struct report *r, const struct place *p, const struct spec *s)
{
	const struct vm_host *h = &p->vm->host;
	struct cgroup_limits have = {0};
	char want[64], text[100];

	if (p->has_cgroup)
		cgroup_read_limits(&p->cgroup, &have);
	attest_limit(r, "limit memory", s->resources.memory_bytes, h->memory,
		     s->resources.set & LIMIT_MEMORY, false);
	snprintf(want, sizeof(want), "%u/1000%s", s->resources.cpus_milli,
		 s->resources.set & LIMIT_CPUS ? "" : " (default)");
	if (have.cpus_milli)
		snprintf(text, sizeof(text), "%u processors, of which %u/1000 by cgroup",
			 h->cpus, have.cpus_milli);
	else
		snprintf(text, sizeof(text), "%u processors", h->cpus);
	attest_item(r, "limit cpus", want, text,
		    !(p->missing_asked & CG_CPU) &&
			    (have.cpus_milli || s->resources.cpus_milli % 1000 == 0 ||
			     !(s->resources.set & LIMIT_CPUS)));
	if (s->resources.pids) {
		snprintf(want, sizeof(want), "%u%s", s->resources.pids,
			 s->resources.set & LIMIT_PIDS ? "" : " (default)");
		attest_item(r, "limit pids", want,
			    "held by the guest's kernel; outside nothing is shared",
			    true);
	}
	if (s->resources.disk_bytes) {
		snprintf(want, sizeof(want), "%" PRIu64 "%s", s->resources.disk_bytes,
			 s->resources.set & LIMIT_DISK ? "" : " (default)");
		attest_item(
			r, "limit disk", want,
			p->vm->host.disks
				? "the size of its disk; mounts: watched by the keeper"
				: "a file: RLIMIT_FSIZE; in all: watched by the keeper",
			true);
	}
}

/* cove-vmm has one child. */
static pid_t qemu_pid(const struct place *p)
{
	struct proctree t = {0};
	pid_t pid = -1;

	if (proctree_list(&t, p->pid) == 0 && t.n == 2)
		pid = t.v[1].pid;
	proctree_clear(&t);
	return pid;
}

int vm_attest(struct place *p, const struct place_config *c, json_t *items,
	      struct cove_error *err)
{
	const struct {
		const char *name;
		pid_t pid;
		uint32_t uid;
	} parts[] = {
		{"QEMU",     qemu_pid(p),   p->host_uid       },
		{"cove-vmm", p->pid,        p->host_uid       },
		{"cove-fs",  p->vm->fs.pid, p->vm->fs.host_uid},
	};
	struct report r = {.items = items};

	machine(&r, p->vm);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		cleanup_fd int proc = open_proc(parts[i].pid);

		if (parts[i].pid <= 0 || proc < 0)
			return fail(err, COVE_EGONE, 0, "%s is gone", parts[i].name);
		confinement(&r, parts[i].name, p, parts[i].uid, proc);
		if (i == 0) {
			template(&r, p->vm, proc);
			file_size(&r, proc);
		}
		if (parts[i].pid == p->vm->fs.pid)
			attest_guards(&r, c, proc);
	}
	limits(&r, p, c->spec);
	return r.nomem ? fail_nomem(err) : r.short_of;
}
