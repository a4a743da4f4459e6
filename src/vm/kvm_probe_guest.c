/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvm_probe_guest - what a 64-bit kernel does early, in a few hundred bytes.
 *
 * The processor starts in long mode, ring 0, with one page table that maps the first two
 * MiB to themselves for both rings. The program notes each stage before it begins it, so
 * that a guest that dies says where. What can only be right or wrong comes first, the
 * loops that take time after it: a device that cannot is found out in a millisecond.
 */
#include "vm/kvm_probe_guest.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)

/* Where things are in the guest's memory. The stack of ring 0 grows down from the code.
 */
#define PML4 0x1000
#define PDPT 0x2000
#define PD 0x3000
#define GDT 0x4000
#define IDT 0x5000
#define TSS 0x6000
#define CODE 0x8000
#define NOTES 0xa000
#define USER_STACK 0xc000
#define UNMAPPED 0x40000123 /* an address that faults */

enum selector {
	KERNEL_CODE = 0x08,
	KERNEL_DATA = 0x10,
	USER_DATA = 0x18, /* SYSRET's order: data, then code */
	USER_CODE = 0x20,
	TASK = 0x30,
};
#define USER_CODE_3 0x23 /* with ring 3 in it */
#define USER_DATA_3 0x1b
#define GDT_ENTRIES 8

/* What the program writes down, eight bytes each. */
#define NOTE_STAGE 0
#define NOTE_BREAKPOINT 8
#define NOTE_FAULT 16
#define NOTE_USER_CS 24
#define NOTE_KERNEL_CS 32
#define NOTE_SSE 40
#define BREAKPOINT_SEEN 0xb9

struct notes {
	uint64_t stage, breakpoint, fault, user_cs, kernel_cs, sse;
};
static_assert(offsetof(struct notes, fault) == NOTE_FAULT, "the program's offsets");
static_assert(offsetof(struct notes, sse) == NOTE_SSE, "the program's offsets");

static const char *const stages[] = {
	"entry",
	"CPUID",
	"model-specific registers",
	"breakpoint exception",
	"page fault",
	"CR3 and CR4",
	"loop in ring 0",
	"way to ring 3",
	"system call",
	"SSE",
	"end",
};
#define LAST_STAGE 10
static_assert(sizeof(stages) / sizeof(stages[0]) == LAST_STAGE + 1, "a name each");

#define STR_(x) #x
#define STR(x) STR_(x)
#define I(text) "\t" text "\n"
#define STAGE(n) I("movq $" STR(n) ", " STR(NOTE_STAGE) "(%rbx)")
#define LOOP(label) \
	I("movl $100000, %ecx") \
	label ":\n" I("decl %ecx") I("jnz " label "b")
static_assert(PROBE_TURNS == 100000, "the program's loop");
#define WRMSR(index, high, low) \
	I("movl $" index ", %ecx") \
	I("movl $" high ", %edx") I("movl $" low ", %eax") I("wrmsr")

/* rbx: the notes. Position-independent, in read-only data: nobody here executes it. */
extern const char probe_code[], probe_code_end[];
extern const char probe_breakpoint[], probe_fault[], probe_surprise[];
/* clang-format off */
__asm__(
	".pushsection .rodata.kvm_probe, \"a\"\n"
	".balign 16\n"
	"probe_code:\n"
	I("movl $" STR(NOTES) ", %ebx")
	STAGE(1)
	I("movl %ebx, %r9d")
	I("movl $0x40000000, %eax")
	I("cpuid")
	I("movl %r9d, %ebx")

	STAGE(2) /* EFER.SCE; STAR: kernel code 8, user from 0x10; LSTAR; FMASK */
	I("movl $0xc0000080, %ecx")
	I("rdmsr")
	I("orl $1, %eax")
	I("wrmsr")
	WRMSR("0xc0000081", "0x00100008", "0")
	I("movl $0xc0000082, %ecx")
	I("xorl %edx, %edx")
	I("leal 4f(%rip), %eax")
	I("wrmsr")
	WRMSR("0xc0000084", "0", "0")

	STAGE(3)
	I("int3")

	STAGE(4)
	I("leaq 1f(%rip), %r10") /* where the handler goes on */
	I("movl $" STR(UNMAPPED) ", %eax")
	I("movq (%rax), %rdx")
	"1:\n"

	STAGE(5) /* CR4.PGE there and back */
	I("movq %cr3, %rax")
	I("movq %rax, %cr3")
	I("movq %cr4, %rax")
	I("xorb $0x80, %al")
	I("movq %rax, %cr4")
	I("xorb $0x80, %al")
	I("movq %rax, %cr4")

	STAGE(6)
	LOOP("2")

	STAGE(7)
	I("movw $0x30, %ax")
	I("ltr %ax")
	I("pushq $" STR(USER_DATA_3))
	I("pushq $" STR(USER_STACK))
	I("pushq $2")
	I("pushq $" STR(USER_CODE_3))
	I("leaq 3f(%rip), %rax")
	I("pushq %rax")
	I("iretq")
	"3:\n" /* ring 3 from here on */
	LOOP("2")
	I("movl %cs, %eax")
	I("movq %rax, " STR(NOTE_USER_CS) "(%rbx)")
	STAGE(8)
	I("syscall")
	I("ud2")
	"4:\n" /* ring 0 again */
	I("movl %cs, %eax")
	I("movq %rax, " STR(NOTE_KERNEL_CS) "(%rbx)")

	STAGE(9)
	I("movq %rbx, %xmm0")
	I("paddq %xmm0, %xmm0")
	I("movq %xmm0, " STR(NOTE_SSE) "(%rbx)")

	STAGE(10)
	I("outb %al, $" STR(0xf4))
	I("hlt")

	"probe_breakpoint:\n"
	I("movq $" STR(BREAKPOINT_SEEN) ", " STR(NOTE_BREAKPOINT) "(%rbx)")
	I("iretq")
	"probe_fault:\n"
	I("movq %cr2, %rax")
	I("movq %rax, " STR(NOTE_FAULT) "(%rbx)")
	I("addq $8, %rsp") /* the error code */
	I("movq %r10, (%rsp)")
	I("iretq")
	"probe_surprise:\n" /* any other exception: leave, the stage says where it was */
	I("outb %al, $" STR(0xf4))
	I("hlt")
	"probe_code_end:\n"
	".popsection\n");
/* clang-format on */
static_assert(PROBE_DOOR == 0xf4, "the program's port");

static void put(uint8_t *memory, size_t at, uint64_t value)
{
	memcpy(memory + at, &value, sizeof(value));
}

/* The labels are symbols of their own to the compiler, but one program. */
static size_t offset_in_code(const char *label)
{
	return (uintptr_t)label - (uintptr_t)probe_code;
}

static void put_gate(uint8_t *memory, unsigned vector, const char *handler)
{
	uint64_t at = CODE + offset_in_code(handler);

	/* A present interrupt gate; the code is below 64 KiB. */
	put(memory, IDT + vector * 16, at | KERNEL_CODE << 16 | 0x8eull << 40);
}

static void put_tables(uint8_t *m)
{
	put(m, PML4, PDPT | 7);
	put(m, PDPT, PD | 7);
	put(m, PD, 0x87); /* 2 MiB, present, writable, for ring 3 too */
	put(m, GDT + KERNEL_CODE, 0x00af9b000000ffff);
	put(m, GDT + KERNEL_DATA, 0x00cf93000000ffff);
	put(m, GDT + USER_DATA, 0x00cff3000000ffff);
	put(m, GDT + USER_CODE, 0x00affb000000ffff);
	put(m, GDT + TASK, 0x67 | (uint64_t)TSS << 16 | 0x89ull << 40);
	put(m, TSS + 4, CODE); /* RSP of ring 0 */
}

void probe_guest_load(uint8_t *memory)
{
	put_tables(memory);
	for (unsigned vector = 0; vector < 32; vector++)
		put_gate(memory, vector, probe_surprise);
	put_gate(memory, 3, probe_breakpoint);
	put_gate(memory, 14, probe_fault);
	memcpy(memory + CODE, probe_code, offset_in_code(probe_code_end));
}

void probe_guest_enter(struct kvm_sregs *s, struct kvm_regs *r)
{
	struct kvm_segment code = {.limit = ~0u,
				   .selector = KERNEL_CODE,
				   .type = 11, /* execute, read, accessed */
				   .present = 1,
				   .s = 1,
				   .l = 1,
				   .g = 1};
	struct kvm_segment data = {.limit = ~0u,
				   .selector = KERNEL_DATA,
				   .type = 3, /* read, write, accessed */
				   .present = 1,
				   .s = 1,
				   .db = 1,
				   .g = 1};

	s->cs = code;
	s->ds = s->es = s->fs = s->gs = s->ss = data;
	s->gdt.base = GDT;
	s->gdt.limit = GDT_ENTRIES * 8 - 1;
	s->idt.base = IDT;
	s->idt.limit = 32 * 16 - 1;
	s->cr3 = PML4;
	s->cr4 = 1u << 5 | 1u << 9 | 1u << 10; /* PAE, OSFXSR, OSXMMEXCPT */
	s->cr0 = 1u << 31 | 1u << 16 | 1u << 5 | 1u << 4 | 3; /* PG WP NE ET MP PE */
	s->efer = 1u << 8 | 1u << 10;                         /* LME, LMA */
	*r = (struct kvm_regs){.rip = CODE, .rsp = CODE, .rflags = 2};
}

static struct notes notes_of(const uint8_t *memory)
{
	struct notes n;

	memcpy(&n, memory + NOTES, sizeof(n));
	return n;
}

const char *probe_guest_stage(const uint8_t *memory)
{
	struct notes n = notes_of(memory);

	return n.stage <= LAST_STAGE ? stages[n.stage] : "nowhere";
}

bool probe_guest_passed(const uint8_t *memory)
{
	struct notes n = notes_of(memory);

	return n.stage == LAST_STAGE && n.breakpoint == BREAKPOINT_SEEN &&
	       n.fault == UNMAPPED && n.user_cs == USER_CODE_3 &&
	       n.kernel_cs == KERNEL_CODE && n.sse == 2 * (uint64_t)NOTES;
}

#else

void probe_guest_load(uint8_t *memory)
{
	(void)memory;
}

const char *probe_guest_stage(const uint8_t *memory)
{
	(void)memory;
	return "entry";
}

bool probe_guest_passed(const uint8_t *memory)
{
	(void)memory;
	return false;
}

#endif
