/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the bits of an upper-level entry that they use on ARM.
 *
 * No bit of an entry denies writing: short descriptors have none, and long ones have
 * APTable, which is not used. So each entry of a shared table protects itself.
 */
#ifndef __ASM_ARM_COHORT_H
#define __ASM_ARM_COHORT_H

#include <linux/pgtable.h>

#include <asm/cachetype.h>
#include <asm/cp15.h>
#include <asm/smp_plat.h>
#include <asm/tlb_group.h>
#include <asm/tlbflush.h>

#ifdef CONFIG_ARM_LPAE
#include <asm/cohort-3level.h>
#else
#include <asm/cohort-2level.h>
#endif

/* As arch_cohort_set_pmd(), with the barrier. */
static inline void arch_cohort_enter_pmd(pmd_t *pmdp, pmd_t pmd)
{
	arch_cohort_set_pmd(pmdp, pmd);
	flush_pmd_entry(pmdp);
}

#define arch_cohort_enter_pmd arch_cohort_enter_pmd

static inline void arch_pmd_set_cohort(pmd_t *pmdp, bool wrprotect)
{
	arch_cohort_set_pmd(pmdp, __pmd(pmd_val(*pmdp) | PMD_COHORT));
}

static inline void arch_pmd_clear_cohort(pmd_t *pmdp)
{
	arch_cohort_set_pmd(pmdp, __pmd(pmd_val(*pmdp) & ~PMD_COHORT));
}

/* True if this entry allows writing: always. */
static inline bool arch_pmd_cohort_write(pmd_t pmd)
{
	return true;
}

#define arch_cohort_table_protect()	false

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
	set_pte_ext(ptep, pte, pte_valid_user(pte) &&
		    !cohort_tlb_anybody(mm, pte, NULL) ? PTE_EXT_NG : 0);
}

#define arch_cohort_copy_ptes arch_cohort_copy_ptes

/* Entries of the table that members share are its last user's now. */
static inline void arch_cohort_take_back(struct mm_struct *mm, pmd_t *pmdp,
					 bool dying)
{
	if (cohort_tlb_held(mm))
		__cohort_tlb_own(mm);
	arch_pmd_clear_cohort(pmdp);
}

#define arch_cohort_take_back arch_cohort_take_back

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
