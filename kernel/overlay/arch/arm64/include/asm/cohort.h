/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the bits of an upper-level entry that they use on arm64.
 *
 * The mark is a bit of a table descriptor that the hardware ignores. The entry could
 * also deny writing (APTable), but not on processors with permission indirection or
 * overlays, and processors may hold it beside a leaf entry. So each entry of a shared
 * table protects itself.
 */
#ifndef __ASM_COHORT_H
#define __ASM_COHORT_H

#include <asm/pgtable.h>
#include <asm/tlbflush.h>

#define PMD_COHORT_BIT	55
#define PMD_COHORT	(_AT(pmdval_t, 1) << PMD_COHORT_BIT)

/*
 * True if the entry points to a table that other processes may use as well: also
 * while arch_cohort_replace() has made it invalid. No huge page or swap entry has
 * PMD_TABLE_BIT, so bit 55 may mean PTE_DIRTY there.
 */
static inline bool arch_pmd_cohort(pmd_t pmd)
{
	return (pmd_val(pmd) & (PMD_COHORT | PMD_TABLE_BIT)) ==
	       (PMD_COHORT | PMD_TABLE_BIT);
}

/* True if this entry allows writing: always. */
static inline bool arch_pmd_cohort_write(pmd_t pmd)
{
	return true;
}

#define arch_cohort_table_protect()	false

/* The setters are atomic: hardware may set the access flag of a table. */
static inline void arch_pmd_set_cohort(pmd_t *pmdp, bool wrprotect)
{
	set_bit(PMD_COHORT_BIT, (unsigned long *)&pmd_val(*pmdp));
}

static inline void arch_pmd_clear_cohort(pmd_t *pmdp)
{
	clear_bit(PMD_COHORT_BIT, (unsigned long *)&pmd_val(*pmdp));
}

/* The flush at the end of fork has the barrier. */
#define arch_cohort_set_pmd(pmdp, pmd)	WRITE_ONCE(*(pmdp), pmd)

/* Nothing walks the copy yet: there is nothing to fold or to flush. */
#define arch_cohort_copy_ptes(mm, addr, ptep, pte, nr)	\
	__set_ptes(mm, addr, ptep, pte_mknoncont(pte), nr)

/*
 * Synchronize the instruction caches with an entry's page, if it has changed since the
 * entry was made.
 */
static inline void arch_cohort_sync_exec(pte_t pte)
{
	if (pte_present(pte) && pte_user_exec(pte) && !pte_special(pte))
		__sync_icache_dcache(pte);
}

#define arch_cohort_sync_exec arch_cohort_sync_exec

struct vm_area_struct;

/* True for [vdso], [vvar] and their like; in arch/arm64/kernel/vdso.c. */
bool arch_vma_is_vdso(const struct vm_area_struct *vma);

/*
 * Remove what processors hold of the levels above an address in one address space, and
 * the entry of its page: one invalidation that is not for leaf entries only.
 */
static inline void arch_cohort_flush_walk(struct mm_struct *mm,
					  unsigned long addr)
{
	unsigned long op;

	dsb(ishst);
	/* Behind the barrier: asm/mmu.h says why. */
	op = __TLBI_VADDR(addr, ASID(mm));
	__tlbi(vae1is, op);
	__tlbi_user(vae1is, op);
	__tlbi_sync_s1ish();
}

/* A fault removes nothing here, and flush_tlb_fix_spurious_fault() is empty. */
#define arch_cohort_fix_spurious(vma, addr)	\
	arch_cohort_flush_walk((vma)->vm_mm, addr)

#include <asm-generic/cohort.h>

#endif /* __ASM_COHORT_H */
