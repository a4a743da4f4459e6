/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the content of a file: all views, all rules, an exact value, archives.
 * Property: the value in front of the bytes is always found.
 */
#include "fuzz.h"

#include "base/util.h"
#include "scan/report.h"

#include <fcntl.h>
#include <sys/mman.h>

static const char value[] = "Q7x-fuzz-value-93kd";
static struct file_scanner scanner;
static bool found;

static void on_finding(void *arg, const struct file_finding *f)
{
	char excerpt[EXCERPT_MAX], print[PRINT_LEN + 1];

	(void)arg;
	report_excerpt(excerpt, f->found);
	report_print(print, "path", f);
	if (strlen(print) != PRINT_LEN || !f->found->rule[0])
		abort();
	if (strcmp(f->found->rule, "sandbox-secret") == 0) {
		found = true;
		if (strstr(excerpt, "fuzz"))
			abort(); /* nothing of it may be shown */
	}
}

static void prepare(void)
{
	const char *values[] = {value};
	const size_t lens[] = {sizeof(value) - 1};
	struct engine_options o = {.values = values, .value_lens = lens, .n_values = 1};
	struct cove_error err;
	struct engine *e;

	if (engine_new(&e, &o, &err) < 0 || file_scanner_init(&scanner, e) < 0)
		abort();
	scanner.max_file = 1u << 20;
	scanner.report = on_finding;
}

static void scan(const void *front, size_t n, const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || (n && write(fd, front, n) != (ssize_t)n) ||
	    (size && write(fd, data, size) != (ssize_t)size))
		abort();
	found = false;
	file_scan(&scanner, "a/file", fd);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!scanner.engine)
		prepare();
	scan(NULL, 0, data, size);
	scan(value, sizeof(value) - 1, data, size);
	if (!found)
		abort();
	return 0;
}
