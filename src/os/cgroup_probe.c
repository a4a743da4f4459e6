/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_probe - what limits this user can have on this host, found by trying. */
#include "os/cgroup_impl.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/util.h"

static const struct {
	uint32_t bit;
	const char *name;
} kinds[] = {
	{CG_MEMORY, "memory"},
	{CG_SWAP,   "swap"  },
	{CG_CPU,    "cpu"   },
	{CG_PIDS,   "pids"  },
};

static void list(struct buf *b, uint32_t bits)
{
	const char *sep = "";

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (bits & kinds[i].bit) {
			buf_printf(b, "%s%s", sep, kinds[i].name);
			sep = ", ";
		}
	}
	if (!bits)
		buf_puts(b, "none");
}

int cgroup_probe(char *ret_text, size_t n, uint32_t *ret_usable)
{
	static const struct cgroup_limits l = {
		.memory_bytes = 64 << 20, .cpus_milli = 1000, .pids = 64};
	const uint32_t all = CG_MEMORY | CG_SWAP | CG_CPU | CG_PIDS;
	cleanup_buf struct buf b = BUF_INIT(4096);
	struct cove_error why = {0};
	struct cgroup c;
	uint32_t missing = all, v1 = 0, v2 = 0;
	char id[32];
	int r;

	snprintf(id, sizeof(id), "probe.%d", (int)getpid());
	r = cgroup_create(&c, id, &l, &missing, &why);
	if (r < 0)
		return r;
	for (int i = 0; i < CTL_CPUACCT; i++) {
		const struct cg_home *h = &cg_layout()->home[i];

		v1 += h->mount[0] && !h->v2;
		v2 += h->mount[0] && h->v2;
	}
	cgroup_remove(&c);
	buf_printf(&b, "cgroup %s: ",
		   v1 && v2 ? "hybrid"
		   : v2     ? "v2"
		   : v1     ? "v1"
			    : "(none)");
	list(&b, all & ~missing);
	if (missing) {
		buf_puts(&b, "; not available: ");
		list(&b, missing);
		buf_printf(&b, " (%s)\n%s", why.msg, why.hint);
	}
	snprintf(ret_text, n, "%s", b.data ? b.data : "");
	*ret_usable = all & ~missing;
	return 0;
}
