/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_attest - what the kernel says is in force on a running sandbox, item by item.
 *
 * Read from the host's side (/proc of the guest as we see it), never asked of the guest.
 */
#include "backend/attest.h"
#include "backend/proc_internal.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>

static void namespaces(struct report *r, int proc)
{
	for (size_t i = 0; i < ATTEST_NAMESPACES; i++) {
		const char *name = attest_namespaces[i];
		char label[32], text[64];
		bool own;

		snprintf(label, sizeof(label), "namespace %s", name);
		if (strcmp(name, "time") == 0 && !proc_has_time_ns()) {
			attest_item(r, label, "own, from Linux 6.3 on", "the host's",
				    true);
			continue;
		}
		own = attest_own_namespace(proc, name, text, sizeof(text));
		attest_item(r, label, "own", text, own);
	}
}

static void status_items(struct report *r, int proc)
{
	static const struct {
		const char *key, *name, *want;
	} want[] = {
		{"\nNoNewPrivs", "no_new_privs",           "1"               },
		{"\nSeccomp",    "seccomp mode",           "2"               },
		{"\nCapPrm",     "capabilities permitted", "0000000000000000"},
		{"\nCapEff",     "capabilities effective", "0000000000000000"},
		{"\nCapBnd",     "capabilities bounding",  "0000000000000000"},
		{"\nCapAmb",     "capabilities ambient",   "0000000000000000"},
	};
	cleanup_buf struct buf b = BUF_INIT(65536);
	char value[64];

	if (read_file_at(proc, "status", &b) < 0 || !b.data) {
		attest_item(r, "status", "readable", "unreadable", false);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		attest_status(b.data, want[i].key, value, sizeof(value));
		attest_item(r, want[i].name, want[i].want, value,
			    strcmp(value, want[i].want) == 0);
	}
	/* The kernel tells how many filters there are, not which: the digest of ours is
	 * in the report beside the items, as what the start installed. */
	attest_status(b.data, "\nSeccomp_filters", value, sizeof(value));
	attest_item(r, "seccomp filters", "1 or more", value,
		    value[0] >= '1' && value[0] <= '9');
}

static void landlock_item(struct report *r, const struct place *p)
{
	char text[96];
	struct landlock_attr a;

	landlock_handled(p->landlock_abi, true, &a);
	snprintf(text, sizeof(text), "ABI %d, fs 0x%" PRIx64 ", scoped 0x%" PRIx64,
		 p->landlock_abi, a.fs, a.scoped);
	attest_item(r, "landlock", "highest ABI, all rights", text, p->landlock_abi > 0);
}

static void identity(struct report *r, const struct place *p, int proc)
{
	char text[64];
	bool ok = attest_one_user(proc, p->host_uid, text, sizeof(text));

	attest_item(r, "user map", "one id, unprivileged outside", text, ok);
}

static void limits(struct report *r, const struct place *p, const struct spec *s)
{
	struct cgroup_limits have = {0};
	struct rlimit nproc = {0};

	if (p->has_cgroup)
		cgroup_read_limits(&p->cgroup, &have);
	if (have.pids == 0 && prlimit(p->pid, RLIMIT_NPROC, NULL, &nproc) == 0)
		have.pids = (uint32_t)nproc.rlim_cur;
	attest_limit(r, "limit memory", s->resources.memory_bytes, have.memory_bytes,
		     s->resources.set & LIMIT_MEMORY, p->missing & CG_MEMORY);
	attest_limit(r, "limit cpus (1/1000)", s->resources.cpus_milli, have.cpus_milli,
		     s->resources.set & LIMIT_CPUS, p->missing & CG_CPU);
	attest_limit(r, "limit pids", s->resources.pids, have.pids,
		     s->resources.set & LIMIT_PIDS, p->missing & CG_PIDS);
}

/* Not the kernel's doing: said as what it is. */
static void disk(struct report *r, const struct spec *s)
{
	char want[48];

	if (!s->resources.disk_bytes)
		return;
	snprintf(want, sizeof(want), "%" PRIu64 "%s", s->resources.disk_bytes,
		 s->resources.set & LIMIT_DISK ? "" : " (default)");
	attest_item(r, "limit disk", want,
		    "a file: RLIMIT_FSIZE; in all: watched by the keeper", true);
}

static void network(struct report *r, int proc)
{
	bool ok = attest_only_loopback(proc);

	attest_item(r, "network interfaces", "lo only", ok ? "lo only" : "others", ok);
}

/* A local route for every address, as /proc shows them: the IPv4 tables as a tree, IPv6
 * by line with the device last. */
static bool all_is_local(int proc)
{
	cleanup_buf struct buf v4 = BUF_INIT(1u << 20), v6 = BUF_INIT(1u << 20);
	static const char zeros[] = "00000000000000000000000000000000 00 "
				    "00000000000000000000000000000000 00 "
				    "00000000000000000000000000000000 ";
	const char *at;
	bool local4, local6;
	int six = read_file_at(proc, "net/ipv6_route", &v6);

	if (read_file_at(proc, "net/fib_trie", &v4) < 0 || !v4.data)
		return false;
	local6 = six == -ENOENT; /* a kernel without IPv6 */
	local4 = strstr(v4.data, "/0 host LOCAL") != NULL;
	for (at = v6.data; !local6 && at && *at;
	     at = strchr(at, '\n'), at += at != NULL) {
		unsigned flags = 0;

		/* destination, source, next hop, then metric, two counts, flags */
		if (strncmp(at, zeros, sizeof(zeros) - 1) == 0 &&
		    sscanf(at + sizeof(zeros) - 1, "%*x %*x %*x %x", &flags) == 1)
			local6 = flags & 0x80000000u; /* RTF_LOCAL */
	}
	return local4 && local6;
}

static void network_mode(struct report *r, const struct place_config *c, int proc)
{
	bool caught = all_is_local(proc);

	attest_item(r, "network",
		    c->capture ? "every connection caught" : "no route to any address",
		    caught ? "every connection caught" : "no route to any address",
		    caught == c->capture);
}

int proc_attest(struct place *p, const struct place_config *c, json_t *items,
		struct cove_error *err)
{
	struct report r = {.items = items};
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)p->pid);
	cleanup_fd int proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return fail(err, COVE_EGONE, errno, "the guest is gone");
	namespaces(&r, proc);
	status_items(&r, proc);
	landlock_item(&r, p);
	identity(&r, p, proc);
	limits(&r, p, c->spec);
	disk(&r, c->spec);
	network(&r, proc);
	network_mode(&r, c, proc);
	attest_guards(&r, c, proc);
	if (r.nomem)
		return fail_nomem(err);
	return r.short_of;
}
