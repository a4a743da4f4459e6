/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-gen - turns a policy file into a seccomp BPF program, as a C header.
 *
 *	seccomp-gen [-a x86_64|aarch64] FILE > header
 *
 * A build-time tool: generating a filter with libseccomp at run time costs a millisecond,
 * and its linear form makes the kernel work ten times longer at every install. The
 * language is described in the policy file itself.
 *
 * Theory of operation: every system call number has a leaf, which is either a plain
 * answer or a block that looks at arguments. Neighbours with the same leaf form a range.
 * The ranges are the leaves of a binary search tree whose shape minimises the sum of the
 * depths over all numbers, because at install time the kernel walks the tree once per
 * number (to learn which calls are always allowed and need no filter run at all).
 *
 * Invariants: 1. all jumps go forward; 2. every path ends in a RET; 3. the architecture
 * is checked before the number, the number before any argument.
 */
#include "bpf-asm.h"
#include "seccomp-policy.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define MAX_RANGES 512
#define X32_BIT 0x40000000u

static struct policy policy;

/* ---- argument blocks
 * ------------------------------------------------------------------- */

static void emit_cond(const struct cond *c, int yes, int no)
{
	int hit = c->negate ? no : yes, miss = c->negate ? yes : no;

	load(c->offset);
	if (c->mask != UINT32_MAX)
		emit(BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	for (int i = 0; i < c->n; i++) {
		int next = i + 1 < c->n ? new_label() : miss;

		emit(BPF_JMP | BPF_JEQ | BPF_K, c->val[i], hit, next);
		if (i + 1 < c->n)
			place(next);
	}
}

/* The block of a call whose answer depends on its arguments. */
static void emit_call(const struct call *c, int label)
{
	place(label);
	for (int i = 0; i < c->n - 1; i++) {
		const struct rule *r = &c->rule[i];
		int last = i + 2 == c->n;
		int no = last ? ret_label(c->rule[i + 1].action) : new_label();

		for (int j = 0; j < r->n; j++) {
			int end = j + 1 == r->n;
			int yes = end ? ret_label(r->action) : new_label();

			emit_cond(&r->cond[j], yes, no);
			if (!end)
				place(yes);
		}
		if (!last)
			place(no);
	}
}

/* ---- the tree -------------------------------------------------------------------------
 */

static struct range {
	uint32_t first;
	int leaf;        /* label */
	uint32_t weight; /* how many numbers the kernel tries in here */
} ranges[MAX_RANGES];
static int n_ranges;
static uint32_t cost[MAX_RANGES][MAX_RANGES];
static int split[MAX_RANGES][MAX_RANGES]; /* last range of the left side; -1: JEQ */

static void add_range(uint32_t first, int leaf, uint32_t weight)
{
	if (n_ranges && ranges[n_ranges - 1].leaf == leaf) {
		ranges[n_ranges - 1].weight += weight;
		return;
	}
	if (n_ranges == MAX_RANGES)
		die("too many ranges");
	ranges[n_ranges++] = (struct range){first, leaf, weight};
}

static int leaf_of(int nr, int *blocks)
{
	const struct call *c = &policy.call[nr];

	if (c->n == 0)
		return ret_label(policy.default_action);
	if (c->n == 1)
		return ret_label(c->rule[0].action);
	blocks[nr] = new_label();
	return blocks[nr];
}

static void make_ranges(int *blocks)
{
	/* What the kernel walks: its own table ends at about 470. An argument block also
	 * counts for its run time, as these calls never come from the kernel's cache. */
	for (int nr = 0; nr < MAX_NR; nr++)
		add_range((uint32_t)nr, leaf_of(nr, blocks),
			  blocks[nr] >= 0 ? 4
			  : nr < 470      ? 1
					  : 0);
	if (policy.arch != AUDIT_ARCH_X86_64)
		return;
	add_range(X32_BIT, ret_label(SECCOMP_RET_KILL_PROCESS), 0);
	/* -1 is how a tracer inside (gdb, strace) makes the kernel skip a call. */
	add_range(UINT32_MAX, ret_label(policy.default_action), 0);
}

/* A single number between two ranges that are the same otherwise: one test for equality.
 */
static int is_island(int i, int j)
{
	return j == i + 2 && ranges[j].first - ranges[i + 1].first == 1 &&
	       ranges[i].leaf == ranges[j].leaf;
}

/* The best tree over neighbouring ranges, from short spans to long ones. */
static void plan_tree(void)
{
	for (int len = 2; len <= n_ranges; len++) {
		for (int i = 0; i + len <= n_ranges; i++) {
			int j = i + len - 1;
			uint32_t sum = 0, best = UINT32_MAX;

			for (int k = i; k <= j; k++)
				sum += ranges[k].weight;
			for (int k = i; k < j; k++) {
				uint32_t c = cost[i][k] + cost[k + 1][j];

				if (c < best) {
					best = c;
					split[i][j] = k;
				}
			}
			if (is_island(i, j)) {
				best = 0;
				split[i][j] = -1;
			}
			cost[i][j] = best + sum;
		}
	}
}

static void emit_tree(int i, int j)
{
	int k = split[i][j], left, right;

	if (k < 0) {
		emit(BPF_JMP | BPF_JEQ | BPF_K, ranges[i + 1].first, ranges[i + 1].leaf,
		     ranges[i].leaf);
		return;
	}
	left = k == i ? ranges[i].leaf : new_label();
	right = k + 1 == j ? ranges[j].leaf : new_label();
	emit(BPF_JMP | BPF_JGE | BPF_K, ranges[k + 1].first, right, left);
	if (k != i) {
		place(left);
		emit_tree(i, k);
	}
	if (k + 1 != j) {
		place(right);
		emit_tree(k + 1, j);
	}
}

static void generate(void)
{
	static int blocks[MAX_NR];
	int ok = new_label(), tree = new_label();

	memset(blocks, -1, sizeof(blocks));
	load((int)offsetof(struct seccomp_data, arch));
	emit(BPF_JMP | BPF_JEQ | BPF_K, policy.arch, ok,
	     ret_label(SECCOMP_RET_KILL_PROCESS));
	place(ok);
	load((int)offsetof(struct seccomp_data, nr));
	make_ranges(blocks);
	plan_tree();
	place(tree);
	if (n_ranges == 1)
		emit(BPF_JMP | BPF_JA, 0, ranges[0].leaf, 0);
	else
		emit_tree(0, n_ranges - 1);
	for (int nr = 0; nr < MAX_NR; nr++)
		if (blocks[nr] >= 0)
			emit_call(&policy.call[nr], blocks[nr]);
	emit_rets();
}

static void print_header(const struct sock_filter *f, int n)
{
	unsigned char hash[crypto_hash_sha256_BYTES];

	crypto_hash_sha256(hash, (const unsigned char *)f, (size_t)n * sizeof(*f));
	printf("/* Made by seccomp-gen from the policy file; not to be edited. */\n");
	printf("#define SECCOMP_GUEST_ARCH 0x%xu\n", policy.arch);
	printf("#define SECCOMP_GUEST_LEN %d\n#define SECCOMP_GUEST_DIGEST \"", n);
	for (size_t i = 0; i < sizeof(hash); i++)
		printf("%02x", hash[i]);
	printf("\"\nstatic const struct sock_filter seccomp_guest[] = {\n");
	for (int i = 0; i < n; i++)
		printf("\t{0x%02x, %d, %d, 0x%08x},\n", f[i].code, f[i].jt, f[i].jf,
		       f[i].k);
	printf("};\n");
}

int main(int argc, char **argv)
{
	static struct sock_filter out[3 * MAX_INS];
	int n;

	policy.arch = seccomp_arch_native();
	if (argc == 4 && strcmp(argv[1], "-a") == 0) {
		policy.arch = seccomp_arch_resolve_name(argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: seccomp-gen [-a ARCH] FILE\n");
		return 2;
	}
	if (policy.arch != AUDIT_ARCH_X86_64 && policy.arch != AUDIT_ARCH_AARCH64)
		die("only x86_64 and aarch64 are supported");
	policy_read(&policy, argv[1]);
	generate();
	n = assemble(out);
	if (n > BPF_MAXINSNS)
		die("the program has %d instructions, the kernel takes %d", n,
		    BPF_MAXINSNS);
	print_header(out, n);
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
