/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: entries with short descriptors.
 *
 * An entry of Linux is two words: the hardware's entries for the first megabyte and for
 * the second. Both say the same; generic code reads the first alone, and here both are
 * written. The mark is in the domain of the table: DOMAIN_COHORT is open whenever that of
 * user memory is, so what TLBs hold need not be flushed when the mark changes.
 */
#ifndef __ASM_ARM_COHORT_2LEVEL_H
#define __ASM_ARM_COHORT_2LEVEL_H

#include <linux/pgtable.h>

#include <asm/domain.h>
#include <asm/tlbflush.h>

/* Makes DOMAIN_COHORT of DOMAIN_USER, and DOMAIN_ZYGOTE_COHORT of DOMAIN_ZYGOTE. */
#define PMD_COHORT	PMD_DOMAIN(DOMAIN_COHORT & ~DOMAIN_USER)

/*
 * True if the entry points to a table that other processes may use as well: also
 * while arch_cohort_replace() has made it invalid. A section of user memory would have
 * bits of its address or its attributes elsewhere; there is none.
 */
static inline bool arch_pmd_cohort(pmd_t pmd)
{
	return (pmd_val(pmd) & (PMD_COHORT | PMD_TYPE_SECT)) == PMD_COHORT;
}

/*
 * Write both words. @pmd is what generic code reads: the first. Without a barrier: the
 * flush at the end of fork has one, and so has any other flush that follows.
 */
static inline void arch_cohort_set_pmd(pmd_t *pmdp, pmd_t pmd)
{
	WRITE_ONCE(pmdp[0], pmd);
	/* The second half of the hardware's entries: see pgtable-2level.h. */
	WRITE_ONCE(pmdp[1], __pmd(pmd_val(pmd) + PTE_HWTABLE_SIZE / 2));
	clean_pmd_entry(pmdp);
}

#define arch_cohort_set_pmd arch_cohort_set_pmd

/* No bit of an entry says so: the kernel knows the zero page by its number. */
#define arch_cohort_pte_special(pte)	is_zero_pfn(pte_pfn(pte))

#endif /* __ASM_ARM_COHORT_2LEVEL_H */
