/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the bits of an upper-level entry that they use on arm64.
 *
 * The mark is a bit of a table descriptor that the hardware ignores. If the table maps
 * private memory, the descriptor also denies writing (APTable), which holds for all
 * entries below it, at any exception level. Processors with permission indirection or
 * overlays ignore that (Arm ARM, "Hierarchical control of data access permissions"):
 * there, each entry of a shared table protects itself.
 */
#ifndef __ASM_COHORT_H
#define __ASM_COHORT_H

#include <linux/atomic.h>

#include <asm/cpufeature.h>
#include <asm/pgtable.h>
#include <asm/tlbflush.h>

#define PMD_COHORT_BIT	55
#define PMD_COHORT	(_AT(pmdval_t, 1) << PMD_COHORT_BIT)
/* With the above, the entry lies in a PMD table that is shared. Ignored likewise. */
#define PMD_COHORT_UPPER	(_AT(pmdval_t, 1) << 56)
/* APTable[1]: no writing. */
#define PMD_APTABLE_RO_BIT	62
#define PMD_APTABLE_RO	(_AT(pmdval_t, 1) << PMD_APTABLE_RO_BIT)

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

/* True if this entry allows writing; the entries below may still deny it. */
static inline bool arch_pmd_cohort_write(pmd_t pmd)
{
	return !(pmd_val(pmd) & PMD_APTABLE_RO);
}

/* True if all users reach the table through one shared PMD table. */
static inline bool arch_pmd_cohort_upper(pmd_t pmd)
{
	return pmd_val(pmd) & PMD_COHORT_UPPER;
}

/* The kernel itself leaves hierarchical control on (TCR_EL1.HPD0 is 0). */
static inline bool arch_cohort_table_protect(void)
{
	return !cpus_have_final_cap(ARM64_HAS_S1PIE) && !system_supports_poe();
}

#define arch_cohort_table_protect	arch_cohort_table_protect

/*
 * The setters are atomic: hardware may set the access flag of a table. An entry that
 * denies writing without the mark is not seen by a walker without a lock either.
 */
static inline void arch_pmd_set_cohort(pmd_t *pmdp, bool wrprotect)
{
	set_bit(PMD_COHORT_BIT, (unsigned long *)&pmd_val(*pmdp));
	if (wrprotect && arch_cohort_table_protect())
		set_bit(PMD_APTABLE_RO_BIT, (unsigned long *)&pmd_val(*pmdp));
}

static inline void arch_pmd_clear_cohort(pmd_t *pmdp)
{
	clear_bit(PMD_APTABLE_RO_BIT, (unsigned long *)&pmd_val(*pmdp));
	clear_bit(PMD_COHORT_BIT, (unsigned long *)&pmd_val(*pmdp));
}

/* An entry for a new table, in a PMD table that is shared. */
static inline pmdval_t arch_pmd_cohort_upper_val(unsigned long pfn)
{
	return __phys_to_pmd_val(PFN_PHYS(pfn)) | PMD_TYPE_TABLE |
	       PMD_TABLE_PXN | PMD_COHORT | PMD_COHORT_UPPER;
}

static inline void arch_pmd_set_cohort_upper(pmd_t *pmdp)
{
	atomic_long_or(PMD_COHORT | PMD_COHORT_UPPER,
		       (atomic_long_t *)&pmd_val(*pmdp));
}

static inline void arch_pmd_clear_cohort_upper(pmd_t *pmdp)
{
	atomic_long_andnot(PMD_COHORT | PMD_COHORT_UPPER,
			   (atomic_long_t *)&pmd_val(*pmdp));
}

/* The flush at the end of fork has the barrier. */
#define arch_cohort_set_pmd(pmdp, pmd)	WRITE_ONCE(*(pmdp), pmd)

/* Nothing walks the copy yet: there is nothing to fold or to flush. */
#define arch_cohort_copy_ptes(mm, addr, ptep, pte, nr)	\
	__set_ptes(mm, addr, ptep, pte_mknoncont(pte), nr)

#ifdef CONFIG_ARM64_CONTPTE
/* True if entries that nothing walks may be held together: AF and dirty may differ. */
static inline bool cohort_may_fold(pte_t *ptep)
{
	pte_t first = pte_mkold(pte_mkclean(__ptep_get(ptep)));
	int i;

	if (!pte_valid(first))
		return false;
	for (i = 1; i < CONT_PTES; i++) {
		pte_t pte = pte_mkold(pte_mkclean(__ptep_get(ptep + i)));

		if (!pte_same(pte, pte_advance_pfn(first, i)))
			return false;
	}
	return true;
}

/*
 * Hold together in a copy what the table holds together (contpte), if all of it was
 * copied: as fork does, which copies such entries at once. No TLB has any of them, so
 * there is nothing to clear or to flush. The table's lock is held.
 */
static inline void arch_cohort_copied(pte_t *src, pte_t *dst)
{
	int i, j;

	for (i = 0; i < PTRS_PER_PTE; i += CONT_PTES) {
		pte_t pte;

		if (!pte_valid_cont(__ptep_get(src + i)) ||
		    !cohort_may_fold(dst + i))
			continue;
		/* With accessed and dirty bits of all, as contpte_convert(). */
		pte = contpte_ptep_get(dst + i, __ptep_get(dst + i));
		pte = pte_mkcont(pte);
		for (j = 0; j < CONT_PTES; j++)
			__set_pte(dst + i + j, pte_advance_pfn(pte, j));
	}
}

#define arch_cohort_copied arch_cohort_copied
#endif

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

/*
 * Processors may hold the entry of a table and entries of the table each for itself, so
 * one of the table that was protected without a flush may allow writing as soon as the
 * entry above does. Break before make, as arch_cohort_replace().
 */
static inline void arch_cohort_take_back(struct mm_struct *mm, pmd_t *pmdp,
					 bool dying)
{
	pmdval_t val = pmd_val(READ_ONCE(*pmdp));
	unsigned long asid;

	if (dying || arch_pmd_cohort_write(__pmd(val))) {
		arch_pmd_clear_cohort(pmdp);
		return;
	}
	WRITE_ONCE(*pmdp, __pmd((val & ~PTE_VALID) | PTE_PRESENT_INVALID));
	/* All of the address space: a table has more entries than one may name. */
	dsb(ishst);
	asid = __TLBI_VADDR(0, ASID(mm));
	__tlbi(aside1is, asid);
	__tlbi_user(aside1is, asid);
	__tlbi_sync_s1ish();
	/* No walk has met the entry: write it at once, without the mark. */
	WRITE_ONCE(*pmdp, __pmd(val & ~(PMD_COHORT | PMD_APTABLE_RO)));
	dsb(ishst);
	isb();
}

#define arch_cohort_take_back arch_cohort_take_back

/* A fault removes nothing here, and flush_tlb_fix_spurious_fault() is empty. */
#define arch_cohort_fix_spurious(vma, addr)	\
	arch_cohort_flush_walk((vma)->vm_mm, addr)

/*
 * False: where an old entry costs no fault, stock maps these pages old already. A constant,
 * because each of the two checks searches a table of registers (invariant 10).
 */
#define arch_cohort_maps_young()	false

#include <asm-generic/cohort.h>

#endif /* __ASM_COHORT_H */
