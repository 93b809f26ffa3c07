/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks: how a program in the guest tells the translation model where it is.
 *
 * A mark is an instruction that does nothing on any processor and that QEMU's plugin looks for
 * (crates/qemu-plugin/src/mark.rs, docs/model-qemu.md): without the plugin it costs one
 * instruction. It needs no rights.
 */
#ifndef MARK_H
#define MARK_H

/* Counting begins; the argument names the region. */
#define MARK_START 1
/* Counting ends. */
#define MARK_STOP 2
/* A request begins on this core; the argument names it among those under way. */
#define MARK_BEGIN 3
/* It ends. */
#define MARK_END 4
/* This process belongs to the cohort that the argument, below 65536, names. */
#define MARK_COHORT 5
/* The model follows from here on without counting: its caches and TLBs fill. */
#define MARK_WARM 6
/* The lines that follow belong to the job's step that the argument names. */
#define MARK_STEP 7

/* `code` must be a constant: it is part of the instruction. */
#if defined(__x86_64__)
#define mark(code, argument)							\
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long 0x434f0000 + %c0"	\
			 : : "i"(code), "a"((unsigned long)(argument)) : "memory")
#elif defined(__aarch64__)
#define mark(code, argument) do {						\
	register unsigned long mark_argument __asm__("x0") = (argument);	\
	__asm__ volatile("hint #(0x60 + %c0)"					\
			 : : "i"(code), "r"(mark_argument) : "memory");		\
} while (0)
#elif defined(__arm__)
#define mark(code, argument) do {						\
	register unsigned long mark_argument __asm__("r0") = (argument);	\
	__asm__ volatile(".inst 0xe320f080 + %c0"				\
			 : : "i"(code), "r"(mark_argument) : "memory");		\
} while (0)
#else
#error "no mark for this processor: see crates/qemu-plugin/src/mark.rs"
#endif

#endif
