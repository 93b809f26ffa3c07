/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the fuzzer's workers need in assembler, for each architecture: the probes of
 * worker.h, between probe_begin and probe_end, where a fault goes on at probe_fault; and
 * a system call that touches no errno.
 */
#ifndef FUZZ_MACHINE_H
#define FUZZ_MACHINE_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <ucontext.h>

#if defined(__x86_64__)

#define PROBES \
	".text\n" \
	".globl probe_load, probe_store, probe_add\n" \
	".globl probe_begin, probe_fault, probe_end\n" \
	"probe_begin:\n" \
	"probe_load:\n" \
	"	mov	%rdx, %rcx\n" \
	"	cld\n" \
	"	rep movsq\n" \
	"	xor	%eax, %eax\n" \
	"	ret\n" \
	"probe_store:\n" \
	"1:	mov	%rsi, (%rdi)\n" \
	"	add	$8, %rdi\n" \
	"	inc	%rsi\n" \
	"	dec	%rdx\n" \
	"	jnz	1b\n" \
	"	xor	%eax, %eax\n" \
	"	ret\n" \
	"probe_add:\n" \
	"	lock addq $0, (%rdi)\n" \
	"	xor	%eax, %eax\n" \
	"probe_fault:\n" \
	"	ret\n" \
	"probe_end:\n"

#define PC_OF(regs)	((regs)->gregs[REG_RIP])
#define RESULT_OF(regs)	((regs)->gregs[REG_RAX])

static inline long raw_futex(int *word, int op, int value)
{
	register long timeout asm("r10") = 0;
	long ret;

	asm volatile("syscall" : "=a"(ret)
		     : "a"(SYS_futex), "D"(word), "S"(op), "d"(value),
		       "r"(timeout)
		     : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

#define PROBES \
	".text\n" \
	".globl probe_load, probe_store, probe_add\n" \
	".globl probe_begin, probe_fault, probe_end\n" \
	"probe_begin:\n" \
	"probe_load:\n" \
	"1:	ldr	x3, [x1], #8\n" \
	"	str	x3, [x0], #8\n" \
	"	subs	x2, x2, #1\n" \
	"	b.ne	1b\n" \
	"	mov	x0, #0\n" \
	"	ret\n" \
	"probe_store:\n" \
	"1:	str	x1, [x0], #8\n" \
	"	add	x1, x1, #1\n" \
	"	subs	x2, x2, #1\n" \
	"	b.ne	1b\n" \
	"	mov	x0, #0\n" \
	"	ret\n" \
	"probe_add:\n" \
	"1:	ldxr	x1, [x0]\n" \
	"	stxr	w2, x1, [x0]\n" \
	"	cbnz	w2, 1b\n" \
	"	mov	x0, #0\n" \
	"probe_fault:\n" \
	"	ret\n" \
	"probe_end:\n"

#define PC_OF(regs)	((regs)->pc)
#define RESULT_OF(regs)	((regs)->regs[0])

static inline long raw_futex(int *word, int op, int value)
{
	register long nr asm("x8") = SYS_futex;
	register long a asm("x0") = (long)word;
	register long b asm("x1") = op;
	register long c asm("x2") = value;
	register long d asm("x3") = 0;

	asm volatile("svc 0" : "+r"(a)
		     : "r"(nr), "r"(b), "r"(c), "r"(d) : "memory");
	return a;
}

#elif defined(__arm__)

/*
 * For programs compiled with -marm. A pair of registers begins with an even one, so the
 * number of words of probe_store() is on the stack.
 */
#define PROBES \
	".text\n" \
	".arm\n" \
	".globl probe_load, probe_store, probe_add\n" \
	".globl probe_begin, probe_fault, probe_end\n" \
	"probe_begin:\n" \
	"probe_load:\n" \
	"	mov	ip, r2\n" \
	"1:	ldrd	r2, r3, [r1], #8\n" \
	"	strd	r2, r3, [r0], #8\n" \
	"	subs	ip, ip, #1\n" \
	"	bne	1b\n" \
	"	mov	r0, #0\n" \
	"	bx	lr\n" \
	"probe_store:\n" \
	"	ldr	ip, [sp]\n" \
	"1:	strd	r2, r3, [r0], #8\n" \
	"	adds	r2, r2, #1\n" \
	"	adc	r3, r3, #0\n" \
	"	subs	ip, ip, #1\n" \
	"	bne	1b\n" \
	"	mov	r0, #0\n" \
	"	bx	lr\n" \
	"probe_add:\n" \
	"1:	ldrexd	r2, r3, [r0]\n" \
	"	strexd	r1, r2, r3, [r0]\n" \
	"	cmp	r1, #0\n" \
	"	bne	1b\n" \
	"	mov	r0, #0\n" \
	"probe_fault:\n" \
	"	bx	lr\n" \
	"probe_end:\n"

#define PC_OF(regs)	((regs)->arm_pc)
#define RESULT_OF(regs)	((regs)->arm_r0)

static inline long raw_futex(int *word, int op, int value)
{
	register long nr asm("r7") = SYS_futex;
	register long a asm("r0") = (long)word;
	register long b asm("r1") = op;
	register long c asm("r2") = value;
	register long d asm("r3") = 0;

	asm volatile("svc 0" : "+r"(a)
		     : "r"(nr), "r"(b), "r"(c), "r"(d) : "memory");
	return a;
}

#else
#error "the fuzzer does not know this architecture"
#endif

#endif
