/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: walks of the reverse map that a process leaves a table under.
 * Part of mm/page_vma_mapped.c, which includes this file after mm/internal.h.
 *
 * Entries that a walk passes without the table's lock count only if the process used the
 * table until after they were read: see cohort_left_table(). If it has left, the walk
 * goes back to where it came to the table, and returns nothing twice: what it returned
 * before was found with the lock held, and the lock is kept up to the end of the table.
 */
#ifndef _MM_COHORT_WALK_H
#define _MM_COHORT_WALK_H

#include <linux/cohort.h>
#include <linux/rmap.h>

#ifdef CONFIG_COHORT

/* Go back to where the walk came to the table that has the entry for @address. */
static bool cohort_walk_back(struct page_vma_mapped_walk *pvmw,
			     unsigned long address)
{
	page_vma_mapped_walk_done(pvmw);
	pvmw->pte = NULL;
	pvmw->ptl = NULL;
	pvmw->address = address;
	/* ->pgoff is invalid for KSM, which has one page. */
	if (pvmw->nr_pages > 1)
		pvmw->address = max(address & PMD_MASK,
				    vma_address(pvmw->vma, pvmw->pgoff,
						pvmw->nr_pages));
	return true;
}

/* Whether the walk has gone back: here with the table's lock just taken. */
static __always_inline bool cohort_left_locked(struct page_vma_mapped_walk *pvmw)
{
	return cohort_left_table(pvmw->pmd, pvmw->pte) &&
	       cohort_walk_back(pvmw, pvmw->address);
}

/*
 * The same behind the last entry of the table or of the walk. If the lock is held, the
 * entries before were checked when it was taken.
 */
static __always_inline bool cohort_left_passed(struct page_vma_mapped_walk *pvmw)
{
	return cohort_active() && !pvmw->ptl &&
	       cohort_left_table(pvmw->pmd, pvmw->pte) &&
	       cohort_walk_back(pvmw, pvmw->address - PAGE_SIZE);
}

#else

#define cohort_left_locked(...)		false
#define cohort_left_passed(...)		false

#endif
#endif /* _MM_COHORT_WALK_H */
