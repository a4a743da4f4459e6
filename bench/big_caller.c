/* SPDX-License-Identifier: Apache-2.0 */
/*
 * big_caller - does a sandbox start as fast from a large process as from a small one?
 * Batches of one-shot sandboxes with and without MIB of touched memory (in 4 KiB pages:
 * the page tables are what a fork would copy), in turns. Prints samples as timeit does.
 *
 * usage: big_caller RUNS MIB PROGRAM
 */
#include "bench.h"

#include <cove.h>
#include <sys/mman.h>

#define BATCHES 4

static struct cove_spec *spec;

static void check(int r, const struct cove_error *err)
{
	if (r >= 0)
		return;
	fprintf(stderr, "big_caller: %s\n", err->msg);
	exit(125);
}

/* The time of cove_start() alone; the sandbox is used once, so that it surely ran. */
static uint64_t start_one(const char *program)
{
	const char *argv[] = {program, NULL};
	struct cove_start_options so = {.size = sizeof(so), .flags = COVE_START_ONESHOT};
	struct cove_exec_options eo = {.size = sizeof(eo), .argv = argv};
	struct cove_status status = {.size = sizeof(status)};
	struct cove_error err = {0};
	struct cove_proc *p;
	struct cove *box;
	uint64_t t = now_ns();

	check(cove_start(&box, NULL, spec, &so, &err), &err);
	t = now_ns() - t;
	check(cove_exec(box, &eo, &p, &err), &err);
	check(cove_wait(p, -1, &status, &err), &err);
	cove_proc_free(p);
	check(cove_finish(box, &(uint64_t){0}, &err), &err);
	cove_free(box);
	if (status.shell != 0) {
		fprintf(stderr, "big_caller: status %d\n", status.shell);
		exit(125);
	}
	return t;
}

static void *touch(size_t size)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	madvise(p, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += 4096)
		p[i] = 1;
	return p;
}

static void print(const char *name, const uint64_t *ns, unsigned n)
{
	printf("%s\t0", name);
	for (unsigned i = 0; i < n; i++)
		printf("\t%llu", (unsigned long long)ns[i]);
	printf("\n");
}

int main(int argc, char **argv)
{
	unsigned each = argc == 4 ? (unsigned)strtoul(argv[1], NULL, 10) / BATCHES : 0;
	size_t size = argc == 4 ? strtoul(argv[2], NULL, 10) << 20 : 0;
	uint64_t *ns[2] = {calloc(each * BATCHES + 1, 8), calloc(each * BATCHES + 1, 8)};
	struct cove_error err = {0};

	if (!each || !size || !ns[0] || !ns[1])
		die("usage: big_caller RUNS MIB PROGRAM");
	check(cove_spec_new(&spec, &err), &err);
	start_one(argv[3]); /* the first one fills caches */
	for (unsigned b = 0; b < 2 * BATCHES; b++) {
		char *memory = b % 2 ? touch(size) : NULL;

		for (unsigned i = 0; i < each; i++) {
			ns[b % 2][b / 2 * each + i] = start_one(argv[3]);
			usleep(1000);
		}
		if (memory)
			munmap(memory, size);
	}
	cove_spec_free(spec);
	print("small", ns[0], each * BATCHES);
	print("big", ns[1], each * BATCHES);
	return 0;
}
