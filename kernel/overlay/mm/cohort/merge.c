// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: what KSM checks before it merges pages in them.
 *
 * A page in a shared table is merged once, in place, for all users: the entry is
 * one mapping, T's lock guards it, all users are flushed (invariants 3 and 4), and
 * no region changes. The differences from stock are in
 * Documentation/mm/cohort.rst, section "Merging".
 */
#include <linux/ksm.h>
#include <linux/mm.h>
#include <linux/rmap.h>

#include "internal.h"

/**
 * cohort_do_scans() - whether KSM scans a shared table through this process
 * @mm: the process that is scanned
 * @pmd: its entry, with the mark; the table's lock is held
 *
 * KSM scans the table through the first user it meets, for as long as that one
 * uses the table. Otherwise it would count each mapping once per user.
 */
bool cohort_do_scans(struct mm_struct *mm, pmd_t *pmd)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;

	/* No private page is in a shared PMD table. */
	if (ct->is_upper)
		return false;
	if (!ct->scanned)
		ct->scanned = mm;
	return ct->scanned == mm;
}

/**
 * cohort_do_merge_region() - unshare before VM_MERGEABLE of a region changes
 * @vma: the region; the mmap_lock is held for writing
 * @start: first address
 * @end: address behind the last
 *
 * Merged pages may lie only in regions with VM_MERGEABLE, so this flag is equal in
 * all users of a table (invariant 1). A region without an anon_vma keeps its
 * tables: they have no anonymous page and can get none.
 *
 * Return: 0, -ENOMEM or -EINTR.
 */
int cohort_do_merge_region(struct vm_area_struct *vma, unsigned long start,
			   unsigned long end)
{
	if (!vma->anon_vma)
		return 0;
	return cohort_unshare_tables(vma->vm_mm, start, end, COHORT_CHANGE);
}

/* As cohort_do_merge_region(), for all regions that may become mergeable. */
int cohort_do_merge_any(struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	int err;

	for_each_vma(vmi, vma) {
		if (vma->vm_flags & VM_MERGEABLE)
			continue;
		err = cohort_do_merge_region(vma, vma->vm_start, vma->vm_end);
		if (err)
			return err;
	}
	return 0;
}

/**
 * cohort_do_maps_merged() - whether a region maps a merged page
 * @vma: the region, found by the reverse map
 * @addr: the address; it may lie outside the region
 * @folio: the page
 */
bool cohort_do_maps_merged(struct vm_area_struct *vma, unsigned long addr,
			   struct folio *folio)
{
	struct page_vma_mapped_walk pvmw = {
		.pfn = folio_pfn(folio),
		.nr_pages = 1,
		.vma = vma,
		.address = addr,
		.flags = PVMW_SYNC,
	};

	if (addr < vma->vm_start || addr >= vma->vm_end)
		return false;
	if (!page_vma_mapped_walk(&pvmw))
		return false;
	page_vma_mapped_walk_done(&pvmw);
	return true;
}

/**
 * __cohort_merged_zeros() - whether KSM has put the zero page into a table
 * @mm: the process that has the table, which is not shared yet
 * @pt: the table; its lock is held
 *
 * Each process counts its own zero pages, so a table with any is copied.
 */
bool __cohort_merged_zeros(struct mm_struct *mm, struct ptdesc *pt)
{
	pte_t *ptep = ptdesc_address(pt);
	int i;

	/* A child's count dates from before its tables were copied. */
	if (!mm_ksm_zero_pages(mm) && !test_bit(MMF_VM_MERGEABLE, &mm->flags))
		return false;
	for (i = 0; i < PTRS_PER_PTE; i++) {
		pte_t pte = ptep_get(ptep + i);

		if (pte_present(pte) && is_ksm_zero_pte(pte))
			return true;
	}
	return false;
}
