/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: entries with long descriptors (LPAE). The mark is a bit of a table
 * descriptor that the hardware ignores.
 */
#ifndef __ASM_ARM_COHORT_3LEVEL_H
#define __ASM_ARM_COHORT_3LEVEL_H

#include <linux/atomic.h>

/* In the word that says whether there is a table: a store of half an entry is no hole. */
#define PMD_COHORT	(_AT(pmdval_t, 1) << 9)

/* True if the entry points to a table that other processes may use as well. */
static inline bool arch_pmd_cohort(pmd_t pmd)
{
	return (pmd_val(pmd) & (PMD_COHORT | PMD_TYPE_MASK)) ==
	       (PMD_COHORT | PMD_TYPE_TABLE);
}

/* By one store: who walks without a lock sees the mark and its table, or neither. */
static inline void arch_cohort_set_pmd(pmd_t *pmdp, pmd_t pmd)
{
	atomic64_set((atomic64_t *)&pmd_val(*pmdp), pmd_val(pmd));
	clean_pmd_entry(pmdp);
}

#define arch_cohort_set_pmd arch_cohort_set_pmd

#endif /* __ASM_ARM_COHORT_3LEVEL_H */
