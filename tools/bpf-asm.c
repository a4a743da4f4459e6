/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf-asm.h"

#include "seccomp-policy.h"

#ifndef BRANCH_MAX
#define BRANCH_MAX 255 /* how far a conditional jump of BPF reaches */
#endif

/* ---- instructions with labels ---------------------------------------------------------
 */

static struct ins {
	uint16_t code;
	uint32_t k;
	int jt, jf; /* labels; for BPF_JA only jt */
	int long_t, long_f;
} ins[MAX_INS];
static int n_ins;
static int label_at[MAX_INS]; /* label -> instruction */
static int n_labels;

int new_label(void)
{
	if (n_labels == MAX_INS)
		die("too many labels");
	return n_labels++;
}

void place(int label)
{
	label_at[label] = n_ins;
}

void emit(uint16_t code, uint32_t k, int jt, int jf)
{
	if (n_ins == MAX_INS)
		die("program too long");
	ins[n_ins++] = (struct ins){code, k, jt, jf, 0, 0};
}

void load(int offset)
{
	emit(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

/* One RET for each answer, at the end of the program. */
static struct {
	uint32_t action;
	int label;
} rets[64];
static int n_rets;

int ret_label(uint32_t action)
{
	for (int i = 0; i < n_rets; i++)
		if (rets[i].action == action)
			return rets[i].label;
	if (n_rets == 64)
		die("too many answers");
	rets[n_rets].action = action;
	rets[n_rets].label = new_label();
	return rets[n_rets++].label;
}

void emit_rets(void)
{
	for (int i = 0; i < n_rets; i++) {
		place(rets[i].label);
		emit(BPF_RET | BPF_K, rets[i].action, 0, 0);
	}
}

/* ---- assembly -------------------------------------------------------------------------
 */

static int is_branch(const struct ins *p)
{
	return BPF_CLASS(p->code) == BPF_JMP && BPF_OP(p->code) != BPF_JA;
}

/* A branch reaches BRANCH_MAX instructions; one that goes further gets a BPF_JA behind
 * it. Adding those moves others, so this repeats until nothing changes. */
static void lay_out(int *at)
{
	int changed;

	do {
		changed = 0;
		for (int i = 0, pos = 0; i < n_ins; i++) {
			at[i] = pos;
			pos += 1 + ins[i].long_t + ins[i].long_f;
		}
		for (int i = 0; i < n_ins; i++) {
			struct ins *p = &ins[i];

			if (!is_branch(p))
				continue;
			if (!p->long_t && at[label_at[p->jt]] - at[i] - 1 > BRANCH_MAX)
				p->long_t = changed = 1;
			if (!p->long_f && at[label_at[p->jf]] - at[i] - 1 > BRANCH_MAX)
				p->long_f = changed = 1;
		}
	} while (changed);
}

int assemble(struct sock_filter *out)
{
	static int at[MAX_INS];
	int n = 0;

	lay_out(at);
	for (int i = 0; i < n_ins; i++) {
		const struct ins *p = &ins[i];
		struct sock_filter *f = &out[n++];

		*f = (struct sock_filter){p->code, 0, 0, p->k};
		if (BPF_CLASS(p->code) != BPF_JMP)
			continue;
		if (!is_branch(p)) {
			f->k = (uint32_t)(at[label_at[p->jt]] - n);
			continue;
		}
		f->jt = p->long_t ? 0 : (uint8_t)(at[label_at[p->jt]] - at[i] - 1);
		f->jf = p->long_f ? (uint8_t)p->long_t
				  : (uint8_t)(at[label_at[p->jf]] - at[i] - 1);
		for (int side = 0; side < 2; side++) {
			if (side ? !p->long_f : !p->long_t)
				continue;
			out[n].code = BPF_JMP | BPF_JA;
			out[n].k = (uint32_t)(at[label_at[side ? p->jf : p->jt]] - n - 1);
			n++;
		}
	}
	return n;
}
