/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stats - what sandboxes use now: one sample, or with --watch one every second. */
#include "cli/json.h"

#include <stdio.h>
#include <time.h>

/* One sandbox of the sample; cpu of the last sample gives the share of a processor. */
struct seen {
	char *name;
	double cpu, at;
};

struct watch {
	const struct args *a;
	struct seen *seen;
	size_t n;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* "12 %" of one processor since the last sample; "" for the first. */
static const char *share(struct watch *w, const char *name, double cpu, char *buf,
			 size_t size)
{
	double at = now();
	struct seen *s = NULL;

	*buf = '\0';
	for (size_t i = 0; i < w->n; i++)
		if (w->seen[i].name && strcmp(w->seen[i].name, name) == 0)
			s = &w->seen[i];
	if (s && at > s->at)
		snprintf(buf, size, "%.0f %%", 100 * (cpu - s->cpu) / (at - s->at));
	if (!s) {
		struct seen *more = reallocarray(w->seen, w->n + 1, sizeof(*more));

		if (!more)
			return buf;
		w->seen = more;
		s = &w->seen[w->n++];
		s->name = strdup(name);
	}
	s->cpu = cpu;
	s->at = at;
	return buf;
}

/* "12 MiB / 2.0 GiB" */
static const char *of_limit(const json_t *o, const char *key, const char *limit_key,
			    bool bytes, char *buf, size_t size)
{
	const json_t *value = json_object_get(o, key),
		     *limit = json_object_get(o, limit_key);
	char v[32], l[32];

	if (!json_is_number(value))
		return NULL;
	if (bytes) {
		cli_bytes(json_number_value(value), v, sizeof(v));
		cli_bytes(json_number_value(limit), l, sizeof(l));
	} else {
		snprintf(v, sizeof(v), "%.0f", json_number_value(value));
		snprintf(l, sizeof(l), "%.0f", json_number_value(limit));
	}
	if (json_number_value(limit) > 0)
		snprintf(buf, size, "%s / %s", v, l);
	else
		snprintf(buf, size, "%s", v);
	return buf;
}

static int add_row(struct watch *w, struct table *t, const char *name, const json_t *o)
{
	bool measured = json_is_true(json_object_get(o, "cgroup"));
	double cpu = json_number_value(json_object_get(o, "cpuNs")) / 1e9;
	const json_t *uptime = json_object_get(o, "uptimeSeconds");
	char used[40] = "", percent[24] = "", memory[80], peak[40], pids[60], up[40];
	const char *cells[] = {
		name,
		measured ? share(w, name, cpu, percent, sizeof(percent)) : NULL,
		used,
		measured ? of_limit(o, "memoryBytes", "memoryLimitBytes", true, memory,
				    sizeof(memory))
			 : NULL,
		measured ? of_limit(o, "memoryPeakBytes", "", true, peak, sizeof(peak))
			 : NULL,
		measured ? of_limit(o, "pids", "pidsLimit", false, pids, sizeof(pids))
			 : NULL,
		json_is_number(uptime)
			? cli_elapsed(json_number_value(uptime), up, sizeof(up))
			: NULL,
	};

	if (measured)
		snprintf(used, sizeof(used), "%.2fs", cpu);
	return cli_table_row(t, cells, NULL);
}

/* Prints or adds one sandbox. 0, or the exit code after a message. */
static int one(struct watch *w, struct table *t, const char *name)
{
	struct cove_error err = {0};
	char *text = NULL;
	json_t *o;
	int r;

	if (cove_stats_json(name, &text, &err) < 0)
		return cli_fail("stats", &err);
	if (!t) {
		puts(text);
		cove_string_free(text);
		return 0;
	}
	o = cli_json_take(text, &err);
	r = o ? add_row(w, t, name, o) : -1;
	json_decref(o);
	return r < 0 ? cli_failf("stats", NULL, "%s", o ? "out of memory" : err.msg) : 0;
}

static int every_running(struct watch *w, struct table *t)
{
	struct cove_error err = {0};
	json_t *list = NULL, *box;
	size_t i;

	if (cli_list(&list, &err) < 0)
		return cli_fail("stats", &err);
	json_array_foreach(list, i, box)
	{
		const char *state = cli_json_text(box, "state"), *name;

		name = cli_json_text(box, "name");
		if (name && state && strcmp(state, "stopped") != 0)
			one(w, t, name); /* one that ended meanwhile is no failure */
	}
	json_decref(list);
	return 0;
}

static int sample(struct watch *w)
{
	static const char *const heads[] = {"NAME", "CPU",  "CPU TIME", "MEMORY",
					    "PEAK", "PIDS", "UPTIME"};
	bool json = cli_has(w->a, F_JSON);
	cleanup_table struct table *t =
		json ? NULL : cli_table_new(ARRAY_LEN(heads), heads);
	int code = 0;

	if (!json && !t)
		return cli_failf("stats", NULL, "out of memory");
	if (!w->a->n_words)
		code = every_running(w, t);
	for (size_t i = 0; i < w->a->n_words; i++) {
		int r = one(w, t, w->a->words[i]);

		code = r ? r : code;
	}
	if (t && code == 0)
		cli_table_print(t);
	return cli_flush("stats", code);
}

int cmd_stats(const struct args *a)
{
	struct watch w = {.a = a};
	bool again = cli_has(a, F_WATCH), clear = again && isatty(STDOUT_FILENO);
	int code;

	do {
		if (clear && !cli_has(a, F_JSON))
			fputs("\033[H\033[J", stdout);
		code = sample(&w);
		if (again && code == 0)
			sleep(1);
	} while (again && code == 0 && !ferror(stdout));
	for (size_t i = 0; i < w.n; i++)
		free(w.seen[i].name);
	free(w.seen);
	return code;
}
