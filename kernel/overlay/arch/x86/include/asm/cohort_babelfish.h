/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: marks for BabelFish's hardware on x86.
 */
#ifndef _ASM_X86_COHORT_BABELFISH_H
#define _ASM_X86_COHORT_BABELFISH_H

#include <linux/percpu.h>
#include <linux/smp.h>

#include <asm/tlbflush.h>

#include <linux/cohort_babelfish.h>
#include <uapi/linux/cohort_babelfish.h>

/* nopl COHORT_BF_MARK + code(%rax), in seven bytes whatever the assembler prefers. */
static __always_inline void arch_cohort_mark(unsigned int code,
					     unsigned long argument)
{
	asm volatile(".byte 0x0f, 0x1f, 0x80; .long %c0"
		     : : "i" (COHORT_BF_MARK + code), "a" (argument)
		     : "memory");
}

static inline void arch_cohort_reload_cpu(void *mm)
{
	if (this_cpu_read(cpu_tlbstate.loaded_mm) == mm)
		cohort_bf_switch(mm);
}

/* What the hardware is to know of a process has changed: tell processors that run it. */
static inline void arch_cohort_reload(struct mm_struct *mm)
{
	smp_mb();	/* what has changed before who runs it: pairs with the switch */
	on_each_cpu_mask(mm_cpumask(mm), arch_cohort_reload_cpu, mm, true);
}

#endif /* _ASM_X86_COHORT_BABELFISH_H */
