/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the bits of an upper-level entry that they use on x86.
 *
 * An entry that points to a table used by several processes carries a mark, a
 * bit that the hardware ignores. Faults and walkers test it in a value they have
 * loaded anyway. If the table maps private memory, the entry also denies writing:
 * the hardware combines the permissions of all levels, so one bit protects 512
 * entries whatever they say themselves (Intel SDM volume 3, "Determination of
 * Access Rights").
 */
#ifndef _ASM_X86_COHORT_H
#define _ASM_X86_COHORT_H

#include <asm/pgtable_types.h>

/* Bit 9: ignored by the hardware, and free in entries that point to a table. */
#define _PAGE_BIT_COHORT	_PAGE_BIT_SOFTW1
#define _PAGE_COHORT		(_AT(pmdval_t, 1) << _PAGE_BIT_COHORT)
/* Bit 11: with the above, the entry lies in a PMD table that is shared. */
#define _PAGE_COHORT_UPPER	(_AT(pmdval_t, 1) << _PAGE_BIT_SOFTW3)
/*
 * Bits 10 and 52, for BabelFish's hardware (COHORT_BF_BIT_*): ignored by all other hardware.
 * Bit 10 says something else in leaves only.
 */
#define _PAGE_BIT_COHORT_SHARED	_PAGE_BIT_SOFTW2
#define _PAGE_BIT_COHORT_ORPC	52
#ifdef CONFIG_COHORT_BABELFISH
#define _PAGE_COHORT_BF							\
	(_AT(pmdval_t, 1) << _PAGE_BIT_COHORT_SHARED |			\
	 _AT(pmdval_t, 1) << _PAGE_BIT_COHORT_ORPC)
#else
#define _PAGE_COHORT_BF		0
#endif

#ifndef CONFIG_COHORT
#define arch_pmd_bad(bad, ...)		(bad)
#elif !defined(__ASSEMBLY__)
#include <linux/atomic.h>

/*
 * For pmd_bad(): true if nothing but the mark explains the flags of an entry for a
 * table, which may have the other mark then and deny writing.
 */
static __always_inline bool arch_pmd_cohort_good(pmdval_t flags)
{
	const pmdval_t may = _PAGE_COHORT_UPPER | _PAGE_RW | _PAGE_USER |
			     _PAGE_ACCESSED | _PAGE_COHORT_BF;

	return (flags & ~may) == (_PAGE_COHORT | (_KERNPG_TABLE & ~may));
}

#define arch_pmd_bad(bad, flags)	((bad) && !arch_pmd_cohort_good(flags))

/* True if the entry points to a table that other processes may use as well. */
static inline bool arch_pmd_cohort(pmd_t pmd)
{
	/* Other entries use the bit for something else, but few have it set. */
	if (likely(!(pmd.pmd & _PAGE_COHORT)))
		return false;
	return (pmd.pmd & (_PAGE_PSE | _PAGE_PRESENT)) == _PAGE_PRESENT;
}

#define arch_pmd_cohort_last(entry)					\
	(((entry).pmd & (_PAGE_COHORT | _PAGE_COHORT_UPPER | _PAGE_PSE |	\
			 _PAGE_PRESENT)) == (_PAGE_COHORT | _PAGE_PRESENT))

#define arch_pmd_table_page(entry)					\
	pfn_to_page(((entry).pmd & PTE_PFN_MASK) >> PAGE_SHIFT)

/* True if all users reach the table through one shared PMD table. */
static inline bool arch_pmd_cohort_upper(pmd_t pmd)
{
	return pmd.pmd & _PAGE_COHORT_UPPER;
}

/* True if this entry allows writing; the entries below may still deny it. */
static inline bool arch_pmd_cohort_write(pmd_t pmd)
{
	return pmd.pmd & _PAGE_RW;
}

/*
 * The setters are atomic: other CPUs may set the accessed bit of the entry,
 * and MGLRU may clear it, without a lock. And a walker without a lock never sees an
 * entry that denies writing, or has the second mark, without the mark: it would be
 * bad for pmd_bad().
 */
static inline void arch_pmd_set_cohort(pmd_t *pmdp, bool wrprotect)
{
	set_bit(_PAGE_BIT_COHORT, (unsigned long *)&pmdp->pmd);
	if (wrprotect)
		clear_bit(_PAGE_BIT_RW, (unsigned long *)&pmdp->pmd);
}

static inline void arch_pmd_clear_cohort(pmd_t *pmdp)
{
	set_bit(_PAGE_BIT_RW, (unsigned long *)&pmdp->pmd);
	clear_bit(_PAGE_BIT_COHORT, (unsigned long *)&pmdp->pmd);
}

/* An entry for a new table, in a PMD table that is shared. */
static inline pmdval_t arch_pmd_cohort_upper_val(unsigned long pfn)
{
	return ((pmdval_t)pfn << PAGE_SHIFT) | _PAGE_TABLE | _PAGE_COHORT |
	       _PAGE_COHORT_UPPER;
}

static inline void arch_pmd_set_cohort_upper(pmd_t *pmdp)
{
	atomic_long_or(_PAGE_COHORT | _PAGE_COHORT_UPPER,
		       (atomic_long_t *)&pmdp->pmd);
}

static inline void arch_pmd_clear_cohort_upper(pmd_t *pmdp)
{
	atomic_long_andnot(_PAGE_COHORT | _PAGE_COHORT_UPPER,
			   (atomic_long_t *)&pmdp->pmd);
}

#ifdef CONFIG_COHORT_BABELFISH
/* The entry without what it says to BabelFish's hardware. */
#define arch_pmd_cohort_plain(entry)	\
	__pmd(pmd_val(entry) & ~_PAGE_COHORT_BF)

/* Atomic as the above: the process may run, and only the table's lock is held. */
static inline void arch_pmd_change_shared(pmd_t *pmdp, bool set)
{
	if (set)
		set_bit(_PAGE_BIT_COHORT_SHARED, (unsigned long *)&pmdp->pmd);
	else
		clear_bit(_PAGE_BIT_COHORT_SHARED, (unsigned long *)&pmdp->pmd);
}

static inline void arch_pmd_change_orpc(pmd_t *pmdp, bool set)
{
	if (set)
		set_bit(_PAGE_BIT_COHORT_ORPC, (unsigned long *)&pmdp->pmd);
	else
		clear_bit(_PAGE_BIT_COHORT_ORPC, (unsigned long *)&pmdp->pmd);
}
#endif

struct vm_area_struct;

/* True for [vdso] and [vvar]; in arch/x86/entry/vdso/vma.c. */
bool arch_vma_is_vdso(const struct vm_area_struct *vma);

/*
 * Make an entry old that is present or empty. The hardware sets the accessed bit alone
 * in a read-only entry, so a plain store loses nothing else.
 */
static __always_inline void arch_cohort_pte_mkold(struct vm_area_struct *vma,
						  unsigned long addr,
						  pte_t *ptep, bool readonly)
{
	if (readonly)
		data_race(ptep->pte &= ~_PAGE_ACCESSED);
	else
		clear_bit(_PAGE_BIT_ACCESSED, (unsigned long *)&ptep->pte);
}
#define arch_cohort_pte_mkold arch_cohort_pte_mkold

/* Xen PV pins each page table for one address space. */
#define arch_cohort_supported()	(!cpu_feature_enabled(X86_FEATURE_XENPV))

#define arch_cohort_release_pte(page)	paravirt_release_pte(page_to_pfn(page))
#define arch_cohort_release_pmd(page)	paravirt_release_pmd(page_to_pfn(page))

#include <asm-generic/cohort.h>

#endif /* CONFIG_COHORT && !__ASSEMBLY__ */
#endif /* _ASM_X86_COHORT_H */
