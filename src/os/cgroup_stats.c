/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_stats - what a group uses. A kernel without one of the files leaves that at 0.
 */
#include "os/cgroup_impl.h"

#include "base/util.h"

static uint64_t number(const struct cgroup_dir *d, const char *v1, const char *v2)
{
	uint64_t v = 0;

	if (cg_read_u64(d->path, d->v2 ? v2 : v1, &v) < 0)
		return 0;
	return v;
}

static int memory_stats(const struct cgroup_dir *d, struct cgroup_stats *s)
{
	char events[512] = "";
	int r = cg_read_u64(d->path, d->v2 ? "memory.current" : "memory.usage_in_bytes",
			    &s->mem_bytes);

	if (r < 0)
		return r;
	s->mem_peak_bytes = number(d, "memory.max_usage_in_bytes", "memory.peak");
	s->mem_limit = number(d, "memory.limit_in_bytes", "memory.max");
	if (s->mem_limit == UINT64_MAX)
		s->mem_limit = 0;
	if (cg_read(d->path, d->v2 ? "memory.events" : "memory.oom_control", events,
		    sizeof(events)) == 0)
		s->oom_kills = cg_field(events, "oom_kill");
	return 0;
}

static int cpu_stats(const struct cgroup_dir *d, struct cgroup_stats *s)
{
	char text[1024];
	int r;

	if (!d->v2)
		return cg_read_u64(d->path, "cpuacct.usage", &s->cpu_ns);
	r = cg_read(d->path, "cpu.stat", text, sizeof(text));
	if (r == 0)
		s->cpu_ns = cg_field(text, "usage_usec") * 1000;
	return r;
}

static int pids_stats(const struct cgroup_dir *d, struct cgroup_stats *s)
{
	return cg_read_u64(d->path, "pids.current", &s->pids);
}

int cgroup_stats(const struct cgroup *c, struct cgroup_stats *ret)
{
	static const struct {
		uint32_t bit;
		int (*read)(const struct cgroup_dir *d, struct cgroup_stats *s);
	} readers[] = {
		{CG_MEMORY,  memory_stats},
		{CG_ACCOUNT, cpu_stats   },
		{CG_PIDS,    pids_stats  },
	};
	struct cgroup_stats s = {0};

	for (uint32_t i = 0; i < c->n; i++) {
		for (size_t k = 0; k < ARRAY_LEN(readers); k++) {
			int r;

			if (!(c->dir[i].bits & readers[k].bit))
				continue;
			r = readers[k].read(&c->dir[i], &s);
			if (r < 0)
				return r;
			s.known |= readers[k].bit;
		}
	}
	*ret = s;
	return 0;
}

int cgroup_cpu(const struct cgroup *c, uint64_t *ret_ns)
{
	struct cgroup_stats s = {0};

	for (uint32_t i = 0; i < c->n; i++) {
		int r;

		if (!(c->dir[i].bits & CG_ACCOUNT))
			continue;
		r = cpu_stats(&c->dir[i], &s);
		if (r == 0)
			*ret_ns = s.cpu_ns;
		return r;
	}
	return -ENOENT;
}
