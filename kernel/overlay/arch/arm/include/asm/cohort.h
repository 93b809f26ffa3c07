/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the bits of an upper-level entry that they use on ARM, with short
 * descriptors.
 *
 * An entry of Linux is two words: the hardware's entries for the first megabyte and for
 * the second. Both say the same; generic code reads the first alone, and here both are
 * written. The mark is the domain of the table (DOMAIN_COHORT), which is open whenever
 * that of user memory is: so what TLBs hold need not be flushed when the mark changes.
 * No bit of the entry denies writing, so each entry of a shared table protects itself.
 */
#ifndef __ASM_ARM_COHORT_H
#define __ASM_ARM_COHORT_H

#include <linux/pgtable.h>

#include <asm/cachetype.h>
#include <asm/cp15.h>
#include <asm/domain.h>
#include <asm/smp_plat.h>
#include <asm/tlbflush.h>

#define PMD_COHORT	PMD_DOMAIN(DOMAIN_COHORT)

/*
 * True if the entry points to a table that other processes may use as well: also
 * while arch_cohort_replace() has made it invalid. A section of user memory would have
 * bits of its address or its attributes elsewhere; there is none.
 */
static inline bool arch_pmd_cohort(pmd_t pmd)
{
	return (pmd_val(pmd) & (PMD_DOMAIN_MASK | PMD_TYPE_SECT)) == PMD_COHORT;
}

/* True if this entry allows writing: always. */
static inline bool arch_pmd_cohort_write(pmd_t pmd)
{
	return true;
}

#define arch_cohort_table_protect()	false

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

/* As above, with the barrier. */
static inline void arch_cohort_enter_pmd(pmd_t *pmdp, pmd_t pmd)
{
	arch_cohort_set_pmd(pmdp, pmd);
	flush_pmd_entry(pmdp);
}

#define arch_cohort_enter_pmd arch_cohort_enter_pmd

static inline void arch_pmd_set_cohort(pmd_t *pmdp, bool wrprotect)
{
	arch_cohort_set_pmd(pmdp, __pmd((pmd_val(*pmdp) & ~PMD_DOMAIN_MASK) |
					PMD_COHORT));
}

static inline void arch_pmd_clear_cohort(pmd_t *pmdp)
{
	arch_cohort_set_pmd(pmdp, __pmd((pmd_val(*pmdp) & ~PMD_DOMAIN_MASK) |
					PMD_DOMAIN(DOMAIN_USER)));
}

/* No bit of an entry says so: the kernel knows the zero page by its number. */
#define arch_cohort_pte_special(pte)	is_zero_pfn(pte_pfn(pte))

/* There is no set_pte(): the hardware's entry depends on the address. */
#define arch_cohort_set_pte(mm, addr, ptep, pte)	\
	set_pte_at(mm, addr, ptep, pte)

/*
 * Synchronize the instruction caches with an entry's page, if it has changed since the
 * entry was made. In arch/arm/mm/flush.c.
 */
void arch_cohort_sync_exec(pte_t pte);
#define arch_cohort_sync_exec arch_cohort_sync_exec

/*
 * Write one entry to a table that nothing points to yet. Do not use set_ptes(), which
 * empties the instruction caches of all processors for each entry that maps code.
 */
static inline void arch_cohort_copy_ptes(struct mm_struct *mm,
					 unsigned long addr, pte_t *ptep,
					 pte_t pte, unsigned int nr)
{
	arch_cohort_sync_exec(pte);
	set_pte_ext(ptep, pte, pte_valid_user(pte) ? PTE_EXT_NG : 0);
}

#define arch_cohort_copy_ptes arch_cohort_copy_ptes

struct vm_area_struct;

/* True for [vdso], [vvar] and [sigpage]; in arch/arm/kernel/process.c. */
bool arch_vma_is_vdso(const struct vm_area_struct *vma);

/*
 * With low vectors, each process has a table of its own for them. A processor that is
 * not made for several walks tables in memory, not in its cache, and a new table would
 * have to be written back. An instruction cache that is tagged by the address space is
 * flushed for one when a page changes.
 */
#define arch_cohort_supported()					\
	(vectors_high() && is_smp() && !tlb_ops_need_broadcast() &&	\
	 !icache_is_vivt_asid_tagged())

#include <asm-generic/cohort.h>

#endif /* __ASM_ARM_COHORT_H */
