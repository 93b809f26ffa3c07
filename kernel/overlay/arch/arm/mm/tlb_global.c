// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared TLB entries: which entries of page tables are global, and how they are flushed
 * (G2, G3). See tlb_group.c.
 */
#include <linux/cohort.h>
#include <linux/mm.h>

#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "tlb_group.h"

/*
 * Entries for all are in a table that the process may be the only one to have. A function
 * for everybody, so that an audit can leave it out.
 */
noinline void __cohort_tlb_own(struct mm_struct *mm)
{
	if (!(READ_ONCE(mm->context.tlb_flags) & TLB_OWN))
		cohort_tlb_set_flags(mm, TLB_OWN, 0);
}

/*
 * A page of a file: an anonymous one may be another in each process, after it was swapped.
 * Whether a shared table is the group's does not depend on who writes to it, which may be a
 * process on its way out, or the reverse map on its behalf (G5).
 */
bool __cohort_tlb_anybody(struct mm_struct *mm, pte_t pte, pte_t *ptep)
{
	unsigned long pfn = pte_pfn(pte);
	bool of_group;

	if (!pfn_valid(pfn) || PageAnon(pfn_to_page(pfn)))
		return false;
	if (ptep && cohort_table_group(ptep, &of_group))
		return of_group;
	if (!cohort_tlb_member(mm))
		return false;
	__cohort_tlb_own(mm);
	return true;
}

/* An entry, valid in hardware or not, that may be for all. */
static bool of_group(pte_t pte)
{
	return (pte_val(pte) & (L_PTE_PRESENT | L_PTE_ANYBODY)) ==
	       (L_PTE_PRESENT | L_PTE_ANYBODY);
}

/**
 * cohort_tlb_withdraw() - let the entries of a table be for one process alone
 * @table: the table; its lock and that of the entry that points to it are held
 */
void cohort_tlb_withdraw(pte_t *table)
{
	DECLARE_BITMAP(young, PTRS_PER_PTE);
	bool any = false;
	int i;

	bitmap_zero(young, PTRS_PER_PTE);
	/*
	 * Break before make, for all (G3): the hardware has no entry that is old, while
	 * other walkers find it as before. Who faults waits for the lock.
	 */
	for (i = 0; i < PTRS_PER_PTE; i++) {
		if (!of_group(table[i]))
			continue;
		any = true;
		if (pte_young(table[i]))
			__set_bit(i, young);
		set_pte_ext(table + i, pte_mkold(table[i]), 0);
	}
	if (!any)
		return;
	flush_tlb_all();
	for (i = 0; i < PTRS_PER_PTE; i++) {
		pte_t pte = table[i];

		if (!of_group(pte))
			continue;
		if (test_bit(i, young))
			pte = pte_mkyoung(pte);
		set_pte_ext(table + i, pte,
			    pte_valid_user(pte) ? PTE_EXT_NG : 0);
	}
}

/**
 * cohort_tlb_do_protect() - let code of the group that gets another protection be none
 * @vma: a region of the leader, which has no children yet; or of nobody's interest
 * @start: first address
 * @end: first address behind the range
 * @flags: what the range's flags are to be
 *
 * Its pages, which are the file's, come back at the next fault, for the process alone. It
 * is never the group's again: what was written to it would be there for all (G1).
 *
 * Return: @flags, without VM_TLB_GROUP.
 */
vm_flags_t cohort_tlb_do_protect(struct vm_area_struct *vma, unsigned long start,
				 unsigned long end, vm_flags_t flags)
{
	if (cohort_tlb_region(vma->vm_flags) && !cohort_tlb_region(flags)) {
		/* No fault brings one back before the flags say what the region is. */
		vma_start_write(vma);
		zap_page_range_single(vma, start, end - start, NULL);
		flags &= ~VM_TLB_GROUP;
	}
	return flags;
}
