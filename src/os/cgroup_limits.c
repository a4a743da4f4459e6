/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_limits - the limits as the kernel's files have them: writing, reading back. */
#include "os/cgroup_impl.h"

#include "base/util.h"

#include <fcntl.h>
#include <inttypes.h>

#define PERIOD_US 100000u  /* the kernel's own default on v1 and v2 */
#define QUOTA_MIN_US 1000u /* less is refused by the kernel */

/* Each of these gives the text for the file, or 0 when no limit was asked for. */
static int text_memory(const struct cgroup_limits *l, int v2, char *out, size_t n)
{
	snprintf(out, n, "%" PRIu64, l->memory_bytes);
	if (!l->memory_bytes)
		snprintf(out, n, "%s", v2 ? "max" : "-1");
	return l->memory_bytes != 0;
}

static int text_swap(const struct cgroup_limits *l, int v2, char *out, size_t n)
{
	uint64_t v = l->swap_bytes;

	if (!v2) /* v1 counts memory and swap together */
		v = UINT64_MAX - v < l->memory_bytes ? UINT64_MAX : v + l->memory_bytes;
	/* INT64_MAX is more than any limit that means something. */
	if (l->memory_bytes && v <= INT64_MAX)
		snprintf(out, n, "%" PRIu64, v);
	else
		snprintf(out, n, "%s", v2 ? "max" : "-1");
	return l->memory_bytes != 0;
}

static int text_cpu(const struct cgroup_limits *l, int v2, char *out, size_t n)
{
	uint64_t quota = (uint64_t)l->cpus_milli * (PERIOD_US / 1000);

	if (quota < QUOTA_MIN_US)
		quota = QUOTA_MIN_US;
	if (!l->cpus_milli)
		snprintf(out, n, "%s", v2 ? "max" : "-1");
	else if (v2)
		snprintf(out, n, "%" PRIu64 " %u", quota, PERIOD_US);
	else
		snprintf(out, n, "%" PRIu64, quota);
	return l->cpus_milli != 0;
}

static int text_pids(const struct cgroup_limits *l, int v2, char *out, size_t n)
{
	(void)v2;
	snprintf(out, n, "%u", l->pids);
	if (!l->pids)
		snprintf(out, n, "max");
	return l->pids != 0;
}

static const struct knob {
	uint32_t bit, home;  /* what it limits; the controller whose directory has it */
	const char *file[2]; /* v1, v2 */
	int (*text)(const struct cgroup_limits *l, int v2, char *out, size_t n);
} knobs[] = {
	{CG_MEMORY, CG_MEMORY, {"memory.limit_in_bytes", "memory.max"},            text_memory},
	{CG_SWAP,
	 CG_MEMORY,	    {"memory.memsw.limit_in_bytes", "memory.swap.max"},
	 text_swap									    },
	{CG_CPU,    CG_CPU,    {"cpu.cfs_quota_us", "cpu.max"},                    text_cpu   },
	{CG_PIDS,   CG_PIDS,   {"pids.max", "pids.max"},                           text_pids  },
};

static int host_has_swap(void)
{
	char text[512];
	const char *line;

	if (cg_read("/proc", "swaps", text, sizeof(text)) < 0)
		return 0; /* a kernel without swap */
	line = strchr(text, '\n');
	return line && line[1];
}

static int write_knob(const struct cgroup_dir *d, const struct knob *k,
		      const struct cgroup_limits *l, int all)
{
	char text[64];
	int asked = k->text(l, (int)d->v2, text, sizeof(text)), r;

	if (!asked && !all)
		return 0;
	r = cg_write(d->path, k->file[d->v2 ? 1 : 0], text);
	/* The kernel counts no swap: that is as good as a limit of 0 where there is none.
	 */
	if (r == -ENOENT && k->bit == CG_SWAP &&
	    (!asked || (!l->swap_bytes && !host_has_swap())))
		return 0;
	return r;
}

uint32_t cg_write_limits(const struct cgroup_dir *d, const struct cgroup_limits *l,
			 int all, int *ret_sys)
{
	uint32_t failed = 0;

	for (size_t i = 0; i < ARRAY_LEN(knobs); i++) {
		const struct knob *k = &knobs[i];
		int r;

		if (!(d->bits & k->home))
			continue;
		r = write_knob(d, k, l, all);
		/* v1 keeps memory <= memory+swap at every moment: going up, the sum is
		 * first. */
		if (r == -EINVAL && k->bit == CG_MEMORY && !d->v2 &&
		    write_knob(d, k + 1, l, all) == 0)
			r = write_knob(d, k, l, all);
		if (r < 0 && !failed)
			*ret_sys = -r;
		failed |= r < 0 ? k->bit : 0;
	}
	return failed;
}

/* ---- reading back --------------------------------------------------------------- */

static int read_memory(const struct cgroup_dir *d, struct cgroup_limits *l)
{
	uint64_t mem, swap = UINT64_MAX;
	int r = cg_read_u64(d->path, knobs[0].file[d->v2 ? 1 : 0], &mem);

	if (r < 0)
		return r;
	if (cg_read_u64(d->path, knobs[1].file[d->v2 ? 1 : 0], &swap) < 0)
		swap = host_has_swap() ? UINT64_MAX : 0;
	else if (!d->v2 && swap != UINT64_MAX)
		swap = swap > mem ? swap - mem : 0;
	l->memory_bytes = mem == UINT64_MAX ? 0 : mem;
	l->swap_bytes = swap;
	return 0;
}

static int read_cpu(const struct cgroup_dir *d, struct cgroup_limits *l)
{
	uint64_t quota, period = PERIOD_US;
	char text[64];
	const char *space;
	int r = cg_read_u64(d->path, d->v2 ? "cpu.max" : "cpu.cfs_quota_us", &quota);

	if (r < 0)
		return r;
	if (!d->v2)
		r = cg_read_u64(d->path, "cpu.cfs_period_us", &period);
	else if ((r = cg_read(d->path, "cpu.max", text, sizeof(text))) == 0 &&
		 (space = strchr(text, ' ')))
		period = strtoull(space + 1, NULL, 10);
	if (r < 0 || period == 0)
		return r < 0 ? r : -EBADMSG;
	l->cpus_milli = quota == UINT64_MAX ? 0 : (uint32_t)(quota * 1000 / period);
	return 0;
}

static int read_pids(const struct cgroup_dir *d, struct cgroup_limits *l)
{
	uint64_t v;
	int r = cg_read_u64(d->path, "pids.max", &v);

	if (r == 0)
		l->pids = v > UINT32_MAX ? 0 : (uint32_t)v;
	return r;
}

int cgroup_read_limits(const struct cgroup *c, struct cgroup_limits *ret)
{
	static const struct {
		uint32_t bit;
		int (*read)(const struct cgroup_dir *d, struct cgroup_limits *l);
	} readers[] = {
		{CG_MEMORY, read_memory},
		{CG_CPU,    read_cpu   },
		{CG_PIDS,   read_pids  },
	};
	struct cgroup_limits l = {.swap_bytes = UINT64_MAX};

	for (uint32_t i = 0; i < c->n; i++) {
		l.account |= c->dir[i].bits & CG_ACCOUNT;
		for (size_t k = 0; k < ARRAY_LEN(readers); k++) {
			int r = 0;

			if (c->dir[i].bits & readers[k].bit)
				r = readers[k].read(&c->dir[i], &l);
			if (r < 0)
				return r;
		}
	}
	*ret = l;
	return 0;
}
