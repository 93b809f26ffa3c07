/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: page faults and GUP.
 */
#ifndef _LINUX_COHORT_FAULT_H
#define _LINUX_COHORT_FAULT_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

vm_fault_t cohort_fault(struct vm_fault *vmf);
int cohort_gup_check(pmd_t pmd, struct page *page, unsigned int flags);
bool cohort_gup_fast(unsigned int flags);
bool cohort_do_install(pmd_t *pmd, pgtable_t *pte);
bool cohort_do_pmd_shared(pmd_t *pmd);

/**
 * cohort_maps_old() - whether pages beside the faulting one are mapped old
 * @vma: a region of an address space that may have shared tables, or will
 * @vmf: the fault
 * @addr: the first page to be mapped
 * @nr: how many
 *
 * cohort_pte_wanted() must distinguish pages that were used from their neighbours.
 * Called per page, so it loads nothing before the branch. A macro, because this comes
 * before struct vm_fault is known.
 */
#define cohort_maps_old(vma, vmf, addr, nr)				\
	(cohort_active() &&						\
	 !in_range((vmf)->address, addr, (nr) * PAGE_SIZE) &&		\
	 cohort_member((vma)->vm_mm))

/**
 * cohort_fix_spurious() - a store has faulted though its entry allows it
 * @vma: the region
 * @addr: the address; the table's lock is held
 *
 * A processor may still hold the entry as it was before another user of the table made
 * it writable, or as the entry above denied writing before the last user took the table
 * back. Neither flushes all users, so each gets rid of it here. Where a fault does that,
 * an architecture defines no arch_cohort_fix_spurious(). Where it does not, and the
 * kernel expects one flush to have reached everybody, the store would fault for ever.
 */
static inline void cohort_fix_spurious(struct vm_area_struct *vma,
				       unsigned long addr)
{
#ifdef arch_cohort_fix_spurious
	if (cohort_active() && cohort_member(vma->vm_mm))
		arch_cohort_fix_spurious(vma, addr);
#endif
}

/* Put a new table into an empty entry; false if the PMD table is @mm's own. */
static inline bool cohort_install(struct mm_struct *mm, pmd_t *pmd,
				  pgtable_t *pte)
{
	return mm_cohort_upper(mm) && cohort_do_install(pmd, pte);
}

/* True if the entry lies in a shared PMD table: no huge page may be mapped there. */
static inline bool cohort_pmd_shared(struct mm_struct *mm, pmd_t *pmd)
{
	return mm_cohort_upper(mm) && cohort_do_pmd_shared(pmd);
}

#else /* !CONFIG_COHORT */

static inline vm_fault_t cohort_fault(struct vm_fault *vmf) { return 0; }

static inline int cohort_gup_check(pmd_t pmd, struct page *page,
				   unsigned int flags)
{
	return 0;
}

static inline bool cohort_gup_fast(unsigned int flags)
{
	return true;
}

static inline bool cohort_maps_old(struct vm_area_struct *vma,
				   struct vm_fault *vmf, unsigned long addr,
				   unsigned int nr)
{
	return false;
}

static inline void cohort_fix_spurious(struct vm_area_struct *vma,
				       unsigned long addr)
{
}

static inline bool cohort_install(struct mm_struct *mm, pmd_t *pmd,
				  pgtable_t *pte)
{
	return false;
}

static inline bool cohort_pmd_shared(struct mm_struct *mm, pmd_t *pmd)
{
	return false;
}

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_FAULT_H */
