// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: flushing the users of a table, and nobody else.
 */
#include <linux/mm.h>

#include <asm/tlbflush.h>

#include "internal.h"

/* T's lock is held. Invariant 4. */
void __cohort_flush(pmd_t *pmd, unsigned long start, unsigned long end)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;
	struct cohort_sharer *sharer;

	list_for_each_entry(sharer, &ct->sharers, in_table)
		flush_tlb_mm_range(sharer->mm, start, end, PAGE_SHIFT, false);
}
