// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: page faults and GUP.
 */
#include <linux/mm.h>
#include <linux/region_order.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include "../internal.h"
#include "internal.h"

/*
 * True if a fault may be served through a shared table (invariants 2 and 6): reads
 * of file pages, which all users will see, and of the zero page; and stores to
 * shared memory, if the entry above allows writing: in a table without a private
 * region, or one whose entries are protected one by one. Reads in a region with an
 * order may not, because they allocate anonymous pages.
 */
static bool fault_through_table(struct vm_fault *vmf)
{
	swp_entry_t entry;

	/* No region in a shared PMD table has private pages. */
	if (pmd_cohort_upper(pmdp_get_lockless(vmf->pmd)))
		return true;

	/* What it would install, it would install for itself: see arch/arm/mm/tlb_group.c. */
	if (cohort_tlb_leaving(vmf->vma->vm_mm))
		return false;

	if (vmf->flags & (FAULT_FLAG_WRITE | FAULT_FLAG_UNSHARE))
		return !is_cow_mapping(vmf->vma->vm_flags) &&
		       arch_pmd_cohort_write(pmdp_get_lockless(vmf->pmd));

	if (!vmf->pte)
		return !vma_is_anonymous(vmf->vma) ||
		       !region_order_fills(vmf->vma);
	/* A NUMA-hint fault would rebuild the entry as if it were its own. */
	if (pte_present(vmf->orig_pte))
		return !pte_protnone(vmf->orig_pte);
	/*
	 * Waiting is harmless. A page swapped in would be known to the reverse
	 * map by this process's anon_vma only.
	 */
	entry = pte_to_swp_entry(vmf->orig_pte);
	return is_migration_entry(entry) || is_hwpoison_entry(entry);
}

/**
 * cohort_fault() - a page fault in the range of a shared table
 * @vmf: the fault, with the entry read but not locked; either the mmap_lock or
 *       the region's lock is held
 *
 * The mark was read before the table was mapped. A fault that saw no mark works in
 * a table that cannot become shared meanwhile: sharing needs both locks.
 *
 * Return: 0 to go on through the table; VM_FAULT_FALLBACK if the table was
 * unshared and the entry must be read again; VM_FAULT_OOM.
 */
vm_fault_t cohort_fault(struct vm_fault *vmf)
{
	if (fault_through_table(vmf))
		return 0;

	if (vmf->pte) {
		__acquire(RCU);		/* by the caller, who has mapped it */
		pte_unmap(vmf->pte);
		vmf->pte = NULL;
	}
	if (cohort_unshare(vmf->vma->vm_mm, vmf->pmd, vmf->address,
			   COHORT_FAULT))
		return VM_FAULT_OOM;
	return VM_FAULT_FALLBACK;
}

/**
 * cohort_gup_check() - whether GUP may take a page through a shared table
 * @pmd: the entry, with the mark; the table's lock is held
 * @page: the page, or NULL for one without a struct page
 * @flags: FOLL_*
 *
 * A pin counts as a store, because its holder may write at any time and the page
 * must stay this process's own (invariants 2 and 9).
 *
 * Return: 0; -EAGAIN if a write fault must come first, -EMLINK if an unsharing
 * fault must.
 */
int cohort_gup_check(pmd_t pmd, struct page *page, unsigned int flags)
{
	if ((flags & FOLL_WRITE) &&
	    (!arch_pmd_cohort_write(pmd) || !page || PageAnon(page)))
		return -EAGAIN;
	if ((flags & FOLL_PIN) && page && PageAnon(page))
		return -EMLINK;
	return 0;
}

/**
 * cohort_gup_fast() - whether GUP-fast may go through a shared table
 * @flags: FOLL_*
 *
 * Return: false to leave it to cohort_gup_check().
 */
bool cohort_gup_fast(unsigned int flags)
{
	return !(flags & (FOLL_WRITE | FOLL_PIN));
}

/*
 * Entries are looked at and made old in blocks without a branch: it is nearly all that a
 * fault of a member costs more. Most may map 16 (fault_around_bytes).
 */
#define BLOCK	8
#ifdef CONFIG_CC_IS_CLANG
#define UNROLLED	_Pragma("clang loop unroll_count(8)")
#else
#define UNROLLED	_Pragma("GCC unroll 8")
#endif

static bool all_empty(pte_t *ptep, unsigned int nr)
{
	pteval_t any = 0;
	unsigned int i;

	for (; nr >= BLOCK; nr -= BLOCK, ptep += BLOCK) {
		UNROLLED
		for (i = 0; i < BLOCK; i++)
			any |= pte_val(ptep_get(ptep + i));
	}
	while (nr)
		any |= pte_val(ptep_get(ptep + --nr));
	return !any;
}

void cohort_do_around_begin(struct cohort_around *around, struct vm_fault *vmf,
			    unsigned int nr)
{
	pte_t *ptep = vmf->pte;
	unsigned int i;

	around->ptep = ptep;
	/* Of the table's entries it is the one that its own address names. */
	around->addr = (vmf->address & PMD_MASK) +
		       offset_in_page(ptep) / sizeof(pte_t) * PAGE_SIZE;
	around->nr = nr;
	around->empty = all_empty(ptep, nr);
	if (likely(around->empty))
		return;
	bitmap_zero(around->there, nr);
	for (i = 0; i < nr; i++)
		if (!pte_none(ptep_get(ptep + i)))
			__set_bit(i, around->there);
}

/* Entries of private memory: they are empty, or the fault has just written them. */
static void make_readonly_old(struct vm_area_struct *vma,
			      const struct cohort_around *around)
{
	unsigned long addr = around->addr;
	unsigned int i, nr = around->nr;
	pte_t *ptep = around->ptep;

	for (; nr >= BLOCK; nr -= BLOCK, ptep += BLOCK) {
		UNROLLED
		for (i = 0; i < BLOCK; i++)
			arch_cohort_pte_mkold(vma, addr + i * PAGE_SIZE,
					      ptep + i, true);
		addr += BLOCK * PAGE_SIZE;
	}
	for (i = 0; i < nr; i++)
		arch_cohort_pte_mkold(vma, addr + i * PAGE_SIZE, ptep + i,
				      true);
}

/*
 * cohort_pte_wanted() must distinguish pages that were used from their neighbours.
 * An entry that somebody else uses meanwhile on another processor is taken for one of
 * the neighbours: a process that unshares faults on its page once more.
 */
void cohort_do_around_end(struct cohort_around *around, struct vm_fault *vmf)
{
	unsigned int i, own = (vmf->address - around->addr) >> PAGE_SHIFT;
	pte_t entry;

	if (likely(around->empty) && !(vmf->vma->vm_flags & VM_SHARED)) {
		/* The fault's own page may lie behind the end of the file. */
		if (likely(own < around->nr))
			entry = ptep_get(around->ptep + own);
		make_readonly_old(vmf->vma, around);
		/* Nobody else changes an entry that is read-only. */
		if (likely(own < around->nr))
			arch_cohort_set_pte(vmf->vma->vm_mm,
					    around->addr + own * PAGE_SIZE,
					    around->ptep + own, entry);
		return;
	}
	for (i = 0; i < around->nr; i++)
		if (i != own && (around->empty || !test_bit(i, around->there)))
			arch_cohort_pte_mkold(vmf->vma,
					      around->addr + i * PAGE_SIZE,
					      around->ptep + i, false);
}

#ifdef arch_cohort_fix_spurious
void cohort_do_fix_spurious(struct vm_area_struct *vma, unsigned long addr)
{
	count_vm_event(COHORT_FAULT_SPURIOUS);
	arch_cohort_fix_spurious(vma, addr);
}
#endif
