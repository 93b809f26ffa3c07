/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: flushing on x86, several address spaces at once too.
 */
#ifndef _ASM_X86_COHORT_TLB_H
#define _ASM_X86_COHORT_TLB_H

#include <linux/cpumask.h>
#include <linux/pgalloc.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include <asm/tlbbatch.h>
#include <asm/tlbflush.h>

/*
 * Flush a range for all users of a table without a look at them: false, because x86
 * interrupts processors, and only those that run a user.
 */
static inline bool arch_cohort_flush_wide(unsigned int users,
					  unsigned long start,
					  unsigned long end)
{
	return false;
}

/* See flush_singly(): each user is a round of interrupts. */
#define ARCH_COHORT_FLUSH_USERS	3
#define ARCH_COHORT_FLUSH_PAGES	0

/* Flush a range for one user; the tables stay. */
static inline void arch_cohort_flush_user(struct mm_struct *mm,
					  unsigned long start,
					  unsigned long end)
{
	flush_tlb_mm_range(mm, start, end, PAGE_SHIFT, false);
}

/*
 * Flush a process that has turned away from the table of a range. freed_tables: CPUs
 * that are lazy in this address space must not keep a pointer to the table.
 */
static inline void arch_cohort_flush_leaver(struct mm_struct *mm,
					    unsigned long start,
					    unsigned long end)
{
	flush_tlb_mm_range(mm, start, end, PAGE_SHIFT, true);
}

/*
 * Point an entry to @table, a copy of the shared table whose first address is @base,
 * and flush the process. One store, so that no walker sees an empty entry. Both locks
 * are held.
 */
static inline void arch_cohort_replace(struct mm_struct *mm, pmd_t *pmdp,
				       unsigned long base, pgtable_t table)
{
	pmd_populate(mm, pmdp, table);
	arch_cohort_flush_leaver(mm, base, base + PMD_SIZE);
}

/* A batch names the processors that it interrupts. */
#define ARCH_COHORT_BATCH

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
 * arch_cohort_exit_begin() - a process without threads is about to leave its tables
 * @mm: its address space
 *
 * One flush for all tables: afterwards no CPU has this address space loaded, not even
 * lazily, because freed_tables makes lazy CPUs leave it, and none loads it again. (A
 * child whose fork has failed never ran. A firmware call does not go back to what its
 * kernel thread had borrowed: see arch_cohort_mm_to_load().) Only a hypervisor that
 * flushes instead of sending an interrupt leaves it loaded. Entries can be cached again
 * then until they are cleared.
 *
 * Return: true if each table must be flushed when it is left.
 */
static inline bool arch_cohort_exit_begin(struct mm_struct *mm)
{
	flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, PAGE_SHIFT, true);
	return arch_cohort_loaded(mm);
}

/* Flush a table that an exiting process leaves. */
static inline void arch_cohort_exit_flush(struct mm_struct *mm,
					  unsigned long start,
					  unsigned long end)
{
	arch_cohort_flush_leaver(mm, start, end);
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
