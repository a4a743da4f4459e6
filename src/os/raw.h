/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw - system calls without libc: no errno, no cancellation, no locks.
 *
 * The child of a vfork-like clone shares its parent's memory, errno and all, while the
 * parent runs on. Nothing but these may be called there.
 */
#ifndef COVE_OS_RAW_H
#define COVE_OS_RAW_H

#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

/* A system call that makes a process with a stack of its own, on which lie fn and arg. */
static inline long raw_spawn(long nr, long a, long b)
{
	register long r10 __asm__("r10") = 0;
	register long r8 __asm__("r8") = 0;
	long ret;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "pop %%rax\n\t"
			 "pop %%rdi\n\t"
			 "call *%%rax\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov $60, %%eax\n\t" /* exit */
			 "syscall\n"
			 "1:"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(0), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

static inline long raw_spawn(long nr, long a, long b)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "ldp x1, x0, [sp], #16\n\t"
			 "blr x1\n\t"
			 "mov x8, #93\n\t" /* exit */
			 "svc #0\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory", "x30");
	return x0;
}
#else
#error "cove: port src/os/raw.h to this architecture"
#endif

/* Processes that share our memory and run fn(arg) on their own stack, of which `top` is
 * the 16-byte aligned end; they end when fn returns. */
static inline long raw_clone(unsigned long flags, void *top, int (*fn)(void *), void *arg)
{
	void **sp = (void **)top - 2;

	sp[0] = (void *)fn;
	sp[1] = arg;
	return raw_spawn(SYS_clone, (long)flags, (long)sp);
}

static inline long raw_clone3(struct clone_args *a, void *stack, size_t size,
			      int (*fn)(void *), void *arg)
{
	void **sp = (void **)(void *)((char *)stack + size) - 2;

	sp[0] = (void *)fn;
	sp[1] = arg;
	a->stack = (uint64_t)(uintptr_t)stack;
	a->stack_size = size - 2 * sizeof(void *);
	return raw_spawn(SYS_clone3, (long)a, (long)sizeof(*a));
}

/* For functions of a child whose stack the sanitizers do not know: their own tables must
 * not be touched from there. */
#if defined(__SANITIZE_ADDRESS__)
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))
#else
#define IN_CHILD
#endif

#define RAW_ARG(x) ((long)(x))
#define raw0(n) raw6(n, 0, 0, 0, 0, 0, 0)
#define raw1(n, a) raw6(n, RAW_ARG(a), 0, 0, 0, 0, 0)
#define raw2(n, a, b) raw6(n, RAW_ARG(a), RAW_ARG(b), 0, 0, 0, 0)
#define raw3(n, a, b, c) raw6(n, RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), 0, 0, 0)
#define raw4(n, a, b, c, d) raw6(n, RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), RAW_ARG(d), 0, 0)
#define raw5(n, a, b, c, d, e) \
	raw6(n, RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), RAW_ARG(d), RAW_ARG(e), 0)

#define TRY(expr) \
	do { \
		long try_ = (expr); \
		if (try_ < 0) \
			return try_; \
	} while (0)

IN_CHILD static inline void close_raw(long fd)
{
	raw1(SYS_close, fd);
}

#endif
