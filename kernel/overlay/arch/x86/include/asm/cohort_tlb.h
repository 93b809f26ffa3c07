/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: flushing several address spaces at once on x86.
 */
#ifndef _ASM_X86_COHORT_TLB_H
#define _ASM_X86_COHORT_TLB_H

#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include <asm/tlbbatch.h>
#include <asm/tlbflush.h>

/**
 * arch_cohort_add_flush() - have a batch flush one more address space
 * @batch: the batch; preemption is off
 * @mm: whose translations have changed
 *
 * Only processors that run @mm now are interrupted. mm_cpumask() is trimmed late,
 * so it also names processors that ran @mm once; these flush by its generation
 * when they switch to it again. A processor that is just switching may be
 * switching to @mm, so it is interrupted too, as in should_flush_tlb().
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
 * @mm: one that no thread runs, and that no processor will load again
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

/**
 * arch_cohort_mm_to_load() - the address space to load after a firmware call
 * @active: what the current task has used before, its own or a borrowed one
 *
 * The process of a borrowed one may be exiting, and cohort_do_exit_mmap() relies on
 * no processor loading it then. The task goes on as if its processor had been made
 * to leave it, as leave_mm() does.
 *
 * Return: @active if it is the task's own.
 */
static inline struct mm_struct *arch_cohort_mm_to_load(struct mm_struct *active)
{
	return IS_ENABLED(CONFIG_COHORT) && !current->mm ? &init_mm : active;
}

#endif /* _ASM_X86_COHORT_TLB_H */
