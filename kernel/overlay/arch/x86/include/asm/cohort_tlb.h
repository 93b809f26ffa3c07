/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: flushing several address spaces at once on x86.
 */
#ifndef _ASM_X86_COHORT_TLB_H
#define _ASM_X86_COHORT_TLB_H

#include <linux/cpumask.h>
#include <linux/percpu.h>

#include <asm/tlbbatch.h>
#include <asm/tlbflush.h>

/**
 * arch_cohort_add_flush() - have a batch flush one more address space
 * @batch: the batch; preemption is off
 * @mm: whose translations have changed
 *
 * Only processors that run @mm now are interrupted: the mask of an address space
 * is trimmed late, so it also names some that ran it once. Those, and all that
 * will run it, flush by its generation when they switch to it. As in
 * should_flush_tlb(), a processor that is about to switch may be on its way to
 * @mm.
 */
static inline void
arch_cohort_add_flush(struct arch_tlbflush_unmap_batch *batch,
		      struct mm_struct *mm)
{
	int cpu;

	inc_mm_tlb_gen(mm);		/* a full barrier */
	for_each_cpu(cpu, mm_cpumask(mm)) {
		struct mm_struct *loaded;

		loaded = READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu));
		if (loaded == mm || loaded == LOADED_MM_SWITCHING)
			cpumask_set_cpu(cpu, &batch->cpumask);
	}
}

/**
 * arch_cohort_loaded() - whether a processor may still walk an address space
 * @mm: one that nobody runs, and that nobody will load any more
 *
 * Return: false if no processor has it loaded, not even lazily.
 */
static inline bool arch_cohort_loaded(struct mm_struct *mm)
{
	int cpu;

	for_each_cpu(cpu, mm_cpumask(mm)) {
		struct mm_struct *loaded;

		loaded = READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu));
		if (loaded == mm || loaded == LOADED_MM_SWITCHING)
			return true;
	}
	return false;
}

#endif /* _ASM_X86_COHORT_TLB_H */
