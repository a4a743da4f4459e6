/* SPDX-License-Identifier: Apache-2.0 */
/* egress_attest - what holds the role, as the kernel says; the role itself is not asked.
 */
#include "core/egress_impl.h"

#include "base/io.h"
#include "base/util.h"

#include <fcntl.h>
#include <stdio.h>

static const struct {
	const char *key, *item, *required;
} wanted[] = {
	{"\nNoNewPrivs:", "egress no_new_privs", "1"               },
	{"\nSeccomp:",    "egress seccomp mode", "2"               },
	{"\nCapEff:",     "egress capabilities", "0000000000000000"},
};

/* The word behind key in a /proc/PID/status. */
static void value_of(const char *status, const char *key, char out[32])
{
	const char *p = status ? strstr(status, key) : NULL;

	out[0] = '\0';
	if (p)
		sscanf(p + strlen(key), " %31s", out);
}

static int put(json_t *items, const char *item, const char *required, const char *actual,
	       bool ok)
{
	json_array_append_new(items,
			      json_pack("{s:s, s:s, s:s, s:b}", "item", item, "required",
					required, "actual", actual, "ok", ok));
	return !ok;
}

int egress_attest(const struct egress_host *h, json_t *items)
{
	cleanup_buf struct buf b = BUF_INIT(65536);
	char path[40], value[32];
	int wrong = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)h->pid);
	if (!h->dead && h->pid > 0)
		read_file_at(AT_FDCWD, path, &b);
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		value_of(b.data, wanted[i].key, value);
		wrong += put(items, wanted[i].item, wanted[i].required,
			     *value ? value : "not running",
			     strcmp(value, wanted[i].required) == 0);
	}
	snprintf(value, sizeof(value), "generation %llu",
		 (unsigned long long)h->generation);
	return wrong + put(items, "egress policy", "in force", value, !h->dead);
}
