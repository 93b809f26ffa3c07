/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: page faults and GUP.
 */
#ifndef _LINUX_COHORT_FAULT_H
#define _LINUX_COHORT_FAULT_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

vm_fault_t cohort_fault(struct vm_fault *vmf);
int cohort_gup_check(pmd_t pmd, struct page *page, unsigned int flags);
bool cohort_gup_fast(unsigned int flags);
bool cohort_do_install(pmd_t *pmd, pgtable_t *pte);
bool cohort_do_pmd_shared(pmd_t *pmd);
void cohort_do_fix_spurious(struct vm_area_struct *vma, unsigned long addr);

/**
 * struct cohort_around - what a table held before a fault mapped pages around its own
 * @ptep: the first entry that the fault may fill
 * @addr: its address
 * @nr: how many it may fill; 0 outside cohorts
 * @empty: all of them were empty
 * @there: if not, a bit for each entry that was not
 */
struct cohort_around {
	pte_t *ptep;
	unsigned long addr;
	unsigned int nr;
	bool empty;
	DECLARE_BITMAP(there, PTRS_PER_PTE);
};

void cohort_do_around_begin(struct cohort_around *around, struct vm_fault *vmf,
			    unsigned int nr);
void cohort_do_around_end(struct cohort_around *around, struct vm_fault *vmf);

/**
 * cohort_around_begin() - a fault is about to map pages around its own
 * @around: filled in for cohort_around_end()
 * @mm: the process
 * @vmf: the fault, at the first entry that it may fill; the table's lock is held
 * @nr: how many it may fill
 */
static inline void cohort_around_begin(struct cohort_around *around,
				       struct mm_struct *mm,
				       struct vm_fault *vmf, unsigned int nr)
{
	around->nr = 0;
	if (arch_cohort_maps_young() && cohort_active() && cohort_member(mm))
		cohort_do_around_begin(around, vmf, nr);
}

/* The pages are mapped: make all but the fault's own old. The lock is still held. */
static inline void cohort_around_end(struct cohort_around *around,
				     struct vm_fault *vmf)
{
	if (unlikely(around->nr))
		cohort_do_around_end(around, vmf);
}

/**
 * cohort_fix_spurious() - a store has faulted though its entry allows it
 * @vma: the region
 * @addr: the address; the table's lock is held
 *
 * A processor may still hold the entry as it was before another user of the table made
 * it writable, or as the entry above denied writing before the last user took the table
 * back. Neither flushes all users, so each gets rid of it here, also one that has left its
 * group since: its records stay. Where a fault does that,
 * an architecture defines no arch_cohort_fix_spurious(). Where it does not, and the
 * kernel expects one flush to have reached everybody, the store would fault for ever.
 */
static inline void cohort_fix_spurious(struct vm_area_struct *vma,
				       unsigned long addr)
{
#ifdef arch_cohort_fix_spurious
	if (cohort_active() && READ_ONCE(vma->vm_mm->cohort.uses))
		cohort_do_fix_spurious(vma, addr);
#endif
}

/* Read a fault's entry for the table, also into *@was for cohort_table_changed(). */
static inline pmd_t cohort_read_pmd(pmd_t *pmd, pmd_t *was)
{
	return *was = pmdp_get_lockless(pmd);
}

/**
 * cohort_table_changed() - whether a fault has lost the table in which it read an entry
 * @was: what the process's entry for the table was before the table was mapped
 * @pmd: that entry; the lock of the table that was mapped is held
 *
 * The process may have left a shared table, or another thread may have joined one, with
 * the same page at the same place.
 */
static inline bool cohort_table_changed(pmd_t was, pmd_t *pmd)
{
	pmd_t now;

	if (!cohort_active())
		return false;
	now = pmdp_get_lockless(pmd);
	return unlikely(pmd_cohort(was) || pmd_cohort(now)) &&
	       !pmd_same(was, now);
}

/* Put a new table into an empty entry; false if the PMD table is @mm's own. */
static inline bool cohort_install(struct mm_struct *mm, pmd_t *pmd,
				  pgtable_t *pte)
{
	return mm_cohort_upper(mm) && cohort_do_install(pmd, pte);
}

/* True if the entry lies in a shared PMD table: no huge page may be mapped there. */
static inline bool cohort_pmd_shared(struct mm_struct *mm, pmd_t *pmd)
{
	return mm_cohort_upper(mm) && cohort_do_pmd_shared(pmd);
}

#else /* !CONFIG_COHORT */

#define cohort_gup_check(...)		0
#define cohort_gup_fast(...)		true

struct cohort_around { };
#define cohort_around_begin(around, ...)	((void)(around))
#define cohort_around_end(...)		do { } while (0)
#define cohort_fix_spurious(...)	do { } while (0)
#define cohort_install(...)		false
#define cohort_read_pmd(pmd, ...)	(*(pmd))
#define cohort_table_changed(...)	false
#define cohort_pmd_shared(...)		false

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_FAULT_H */
