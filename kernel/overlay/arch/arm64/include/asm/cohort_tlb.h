/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: flushing on arm64, where an invalidation reaches every processor
 * and names an address space, or none.
 */
#ifndef __ASM_COHORT_TLB_H
#define __ASM_COHORT_TLB_H

#include <linux/pgalloc.h>

#include <asm/cohort.h>
#include <asm/tlbflush.h>

/* Name up to this many users one by one. */
#define ARM64_COHORT_BY_ASID	2

/*
 * Begin to flush a range for all users of a table at once, whatever their number:
 * invalidate the addresses in all address spaces. A process that is no user may lose an
 * entry, which costs it a walk. False if it is for the caller to name the users.
 */
static inline bool arch_cohort_flush_wide(unsigned int users,
					  unsigned long start,
					  unsigned long end)
{
	unsigned long pages = (end - start) >> PAGE_SHIFT;

	if (users <= ARM64_COHORT_BY_ASID)
		return false;
	if (!system_supports_tlb_range() && pages >= MAX_DVM_OPS) {
		flush_tlb_all();
		return true;
	}
	dsb(ishst);
	__flush_tlb_range_op(vaale1is, start, pages, PAGE_SIZE, 0, 3, false,
			     lpa2_is_enabled());
	return true;
}

/* Flush a range for one user; the tables stay. */
static inline void arch_cohort_flush_user(struct mm_struct *mm,
					  unsigned long start,
					  unsigned long end)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, 0);

	__flush_tlb_range(&vma, start, end, PAGE_SIZE, true, 3);
}

/*
 * See flush_singly(): users that have the table at different addresses are named one by
 * one, as long as that is no more than the architecture does for one range at a time.
 */
#define ARCH_COHORT_FLUSH_USERS	ARM64_COHORT_BY_ASID
#define ARCH_COHORT_FLUSH_PAGES	MAX_DVM_OPS

/* All of them are waited for at once, in a batch of reclaim or migration at its end. */
static inline void arch_cohort_flush_begin(struct mm_struct *mm,
					   unsigned long start,
					   unsigned long end)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, 0);

	__flush_tlb_range_nosync(&vma, start, end, PAGE_SIZE, true, 3);
}

#define arch_cohort_flush_begin		arch_cohort_flush_begin
#define arch_cohort_flush_wait()	__tlbi_sync_s1ish()

/* Flush a process that has turned away from the table of a range: walks end anew. */
static inline void arch_cohort_flush_leaver(struct mm_struct *mm,
					    unsigned long start,
					    unsigned long end)
{
	struct vm_area_struct vma = TLB_FLUSH_VMA(mm, 0);

	__flush_tlb_range(&vma, start, end, PAGE_SIZE, false,
			  TLBI_TTL_UNKNOWN);
}

/*
 * Point an entry to @table, a copy of the shared table whose first address is @base,
 * and flush the process. The copy may hold other entries together (contpte), so break
 * before make: the entry is invalid to processors meanwhile, but not to software, for
 * which an empty one would be a hole. Both locks are held; who faults waits for them.
 */
static inline void arch_cohort_replace(struct mm_struct *mm, pmd_t *pmdp,
				       unsigned long base, pgtable_t table)
{
	pmdval_t val = pmd_val(READ_ONCE(*pmdp));

	WRITE_ONCE(*pmdp, __pmd((val & ~PTE_VALID) | PTE_PRESENT_INVALID));
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
 * Flush a table that an exiting process leaves. Leaf entries may stay: nobody uses the
 * address space's number again before all of it is flushed.
 */
static inline void arch_cohort_exit_flush(struct mm_struct *mm,
					  unsigned long start,
					  unsigned long end)
{
	arch_cohort_flush_walk(mm, start);
}

#endif /* __ASM_COHORT_TLB_H */
