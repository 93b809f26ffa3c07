/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: flushing on ARM, where an invalidation reaches every processor and
 * names an address space, or none.
 */
#ifndef __ASM_ARM_COHORT_TLB_H
#define __ASM_ARM_COHORT_TLB_H

#include <linux/mm.h>
#include <linux/pgalloc.h>
#include <linux/sizes.h>

#include <asm/cohort.h>
#include <asm/tlbflush.h>

/* Name up to this many users one by one. */
#define ARM_COHORT_BY_ASID	2
/* One invalidation per page; more of them take longer than to fill the TLB again. */
#define ARM_COHORT_PAGES	64

/* In arch/arm/kernel/smp_tlb.c. */
void flush_tlb_all_asids(unsigned long start, unsigned long end);

static inline bool arm_cohort_many_pages(unsigned long start, unsigned long end)
{
	return end - start > ARM_COHORT_PAGES * PAGE_SIZE;
}

/*
 * Flush a range for all users of a table at once, whatever their number: invalidate the
 * addresses in all address spaces. A process that is no user may lose an entry, which
 * costs it a walk.
 */
static inline bool arch_cohort_flush_wide(unsigned int users,
					  unsigned long start,
					  unsigned long end)
{
	if (users <= ARM_COHORT_BY_ASID)
		return false;
	if (arm_cohort_many_pages(start, end))
		flush_tlb_all();
	else
		flush_tlb_all_asids(start, end);
	return true;
}

/* Flush a range for one user; the tables stay. */
static inline void arch_cohort_flush_user(struct mm_struct *mm,
					  unsigned long start,
					  unsigned long end)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, VM_EXEC);

	/* An address space that gets another number later walks what is written here. */
	dsb(ishst);
	/* To flush an address space keeps the entries that members share. */
	if (arm_cohort_many_pages(start, end) && cohort_tlb_held(mm))
		flush_tlb_all();
	else if (arm_cohort_many_pages(start, end))
		flush_tlb_mm(mm);
	else
		flush_tlb_range(&vma, start, end);
}

/*
 * See flush_singly(): users that have the table at different addresses are named one by
 * one, as long as that takes no more invalidations than a range.
 */
#define ARCH_COHORT_FLUSH_USERS	ARM_COHORT_BY_ASID
#define ARCH_COHORT_FLUSH_PAGES	ARM_COHORT_PAGES

/* Flush a process that has turned away from the table of a range: walks end anew. */
static inline void arch_cohort_flush_leaver(struct mm_struct *mm,
					    unsigned long start,
					    unsigned long end)
{
	flush_tlb_mm(mm);
}

/*
 * Point an entry to @table, a copy of the shared table whose first address is @base,
 * and flush the process. A short descriptor's two words cannot be written at once, and
 * nobody may reach a page through the copy while a TLB still has what the shared table says
 * of it. So break before make: both words are invalid to processors meanwhile, but not to
 * software, for which an empty entry would be a hole. Both locks are held; who faults waits
 * for them. A long descriptor is written at once: addresses keep their pages and types, and
 * lose rights only.
 */
static inline void arch_cohort_replace(struct mm_struct *mm, pmd_t *pmdp,
				       unsigned long base, pgtable_t table)
{
	if (IS_ENABLED(CONFIG_ARM_LPAE)) {
		arch_cohort_enter_pmd(pmdp, __pmd(page_to_phys(table) |
						  _PAGE_USER_TABLE));
		arch_cohort_flush_leaver(mm, base, base + PMD_SIZE);
		return;
	}
	arch_cohort_set_pmd(pmdp, __pmd(pmd_val(*pmdp) & ~PMD_TYPE_MASK));
	arch_cohort_flush_leaver(mm, base, base + PMD_SIZE);
	pmd_populate(mm, pmdp, table);
}

/*
 * A process without threads is about to leave its tables. Processors may go on with
 * speculative walks until an entry is cleared, so each table is flushed then.
 */
static inline bool arch_cohort_exit_begin(struct mm_struct *mm)
{
	return true;
}

/*
 * Flush a table that an exiting process leaves: one page of each megabyte ends what walks
 * have kept of both words. Leaf entries may stay: nobody uses the address space's number
 * again before all of it is flushed.
 */
static inline void arch_cohort_exit_flush(struct mm_struct *mm,
					  unsigned long start,
					  unsigned long end)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, 0);

	/* As in arch_cohort_flush_user(). */
	dsb(ishst);
	flush_tlb_page(&vma, start);
	if (!IS_ENABLED(CONFIG_ARM_LPAE))
		flush_tlb_page(&vma, start + SZ_1M);
}

#endif /* __ASM_ARM_COHORT_TLB_H */
