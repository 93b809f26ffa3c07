/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: same-page merging (mm/ksm.c).
 */
#ifndef _LINUX_COHORT_MERGE_H
#define _LINUX_COHORT_MERGE_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

bool cohort_do_scans(struct mm_struct *mm, pmd_t *pmd);
int cohort_do_merge_region(struct vm_area_struct *vma, unsigned long start,
			   unsigned long end);
int cohort_do_merge_any(struct mm_struct *mm);
bool cohort_do_maps_merged(struct vm_area_struct *vma, unsigned long addr,
			   struct folio *folio);

/* True if KSM scans the table through @mm. The table's lock is held. */
static inline bool cohort_scans(struct mm_struct *mm, pmd_t *pmd)
{
	return likely(!pmd_cohort(*pmd)) || cohort_do_scans(mm, pmd);
}

/* Before VM_MERGEABLE of a region changes. Returns 0 or an error. */
static inline int cohort_merge_region(struct vm_area_struct *vma,
				      unsigned long start, unsigned long end)
{
	return mm_cohort(vma->vm_mm) ?
	       cohort_do_merge_region(vma, start, end) : 0;
}

/* Before all regions become mergeable. Returns 0 or an error. */
static inline int cohort_merge_any(struct mm_struct *mm)
{
	return mm_cohort(mm) ? cohort_do_merge_any(mm) : 0;
}

/*
 * True if a merged page is mapped by a region of another process than the one
 * through which it was merged. Outside a cohort true without a test, as in stock
 * KSM. The anon_vma root leads to regions of members and of others alike.
 */
static inline bool cohort_maps_merged(struct vm_area_struct *vma,
				      unsigned long addr, struct folio *folio)
{
	return !cohort_active() || cohort_do_maps_merged(vma, addr, folio);
}

#else /* !CONFIG_COHORT */

#define cohort_scans(...)		true
#define cohort_merge_region(...)	0
#define cohort_merge_any(...)		0
#define cohort_maps_merged(...)		true

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_MERGE_H */
