/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf-asm - classic BPF with labels. Instructions are appended; a label is made, used as
 * a target any number of times, and placed once, always further on.
 */
#ifndef COVE_TOOLS_BPF_ASM_H
#define COVE_TOOLS_BPF_ASM_H

#include <linux/filter.h>
#include <stdint.h>

#define MAX_INS 4096

int new_label(void);
void place(int label); /* here: before the next instruction */
void emit(uint16_t code, uint32_t k, int jt,
	  int jf);     /* jt, jf: labels; BPF_JA: only jt */
void load(int offset); /* A = 32-bit word of the data */

/* The label of the one RET with this answer; they are emitted by emit_rets(). */
int ret_label(uint32_t action);
void emit_rets(void);

/* The finished program; returns its length. out has room for 3 * MAX_INS. */
int assemble(struct sock_filter *out);

#endif
