/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: giving a process tables of its own.
 */
#ifndef _LINUX_COHORT_UNSHARE_H
#define _LINUX_COHORT_UNSHARE_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

#include <linux/cohort_babelfish.h>
#include <linux/cohort_tlb_group.h>

int cohort_do_unshare_tables(struct mm_struct *mm, unsigned long start,
			     unsigned long end, enum cohort_cause cause);
int cohort_do_unshare_range(struct mm_struct *mm, unsigned long start,
			    unsigned long end, enum cohort_cause cause);
int cohort_do_unshare_edges(struct mm_struct *mm, unsigned long start,
			    unsigned long end, enum cohort_cause cause);
int cohort_do_unshare_partial(struct mm_struct *mm, unsigned long start,
			      unsigned long end);
int cohort_do_madvise(struct mm_struct *mm, unsigned long start,
		      unsigned long end, int behavior);
int cohort_do_leave_timens(struct mm_struct *mm);
bool cohort_take_back(struct mm_struct *mm, pmd_t *pmd, unsigned long addr);

/**
 * cohort_unshare_tables() - unshare every last-level table in a range
 * @mm: the process; its mmap_lock is held
 * @start: first address
 * @end: first address behind the range
 * @cause: why, for the counters
 *
 * Use it before entries of private memory change while the regions stay (swapoff,
 * uprobes, userfaultfd's move, merging). Shared PMD tables hold no private memory
 * and stay shared. May sleep.
 *
 * Return: 0, -ENOMEM or, if the caller is about to be killed, -EINTR. After an error
 * some tables may already be unshared; no process can see a difference.
 */
static inline int cohort_unshare_tables(struct mm_struct *mm,
					unsigned long start, unsigned long end,
					enum cohort_cause cause)
{
	return mm_cohort(mm) ?
	       cohort_do_unshare_tables(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_range() - unshare every table in a range, PMD tables too
 * @mm: the process; its mmap_lock is held for writing
 * @start: first address
 * @end: first address behind the range
 * @cause: why, for the counters
 *
 * Use it before regions change while their pages stay (mprotect, mremap, mlock,
 * registering with userfaultfd), and before a stack grows down. Call it before
 * anything is changed (invariant 8). May sleep.
 *
 * Return: as cohort_unshare_tables().
 */
static inline int cohort_unshare_range(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	int err = cohort_tlb_diverge(mm, start, end);

	if (err)
		return err;
	if (cause == COHORT_MAP) {
		cohort_bf_claim(mm, start, end);
		cohort_tlb_claim(mm, start, end);
	}
	return mm_cohort(mm) ?
	       cohort_do_unshare_range(mm, start, end, cause) : 0;
}

/*
 * Entries of a process tell from now on what is true of it alone, also when it forks or
 * the region is registered no more: which pages userfaultfd has poisoned, or to which it
 * has stored since somebody asked (clear_refs). Its tables here are its own already.
 */
static inline void cohort_keep_apart(struct mm_struct *mm)
{
	WRITE_ONCE(mm->cohort.apart, true);
}

/*
 * Give @mm, whose mmap_lock is held for writing, entries of its own before clear_refs
 * changes them. If @soft, they tell from now on to which pages it stores, and without
 * memory for them this returns -ENOMEM; otherwise clear_refs goes on with those it has.
 */
int cohort_clear_refs(struct mm_struct *mm, bool soft);

/* Before a userfaultfd is registered with a range. Returns as cohort_unshare_tables(). */
static inline int cohort_uffd_register(struct mm_struct *mm,
				       unsigned long start, unsigned long end)
{
	WRITE_ONCE(mm->cohort.watched, true);
	return cohort_unshare_range(mm, start, end, COHORT_CHANGE);
}

/*
 * True if change_protection() skips a table: NUMA hints are optional. All its other
 * callers have unshared the table before (invariant 1).
 */
static inline bool cohort_keeps_rights(pmd_t pmd, bool hint)
{
	if (!IS_ENABLED(CONFIG_NUMA_BALANCING)) {
		VM_WARN_ON_ONCE(pmd_cohort(pmd));
		return false;
	}
	if (likely(!pmd_cohort(pmd)))
		return false;
	VM_WARN_ON_ONCE(!hint);
	return true;
}

/**
 * cohort_unshare_edges() - unshare tables that reach beyond a range
 * @mm: the process; its mmap_lock is held for writing
 * @start: first address
 * @end: first address behind the range
 * @cause: why, for the counters
 *
 * Use it before a range is unmapped or a region is put there (munmap, mmap, brk).
 * It unshares a table at either end if the process also has a region in it outside
 * the range, and leaves all PMD tables. The other tables stay shared: zapping
 * leaves them without a copy. May sleep.
 *
 * Return: as cohort_unshare_tables().
 */
static inline int cohort_unshare_edges(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	int err = cohort_tlb_diverge(mm, start, end);

	if (err)
		return err;
	if (cause == COHORT_MAP) {
		cohort_bf_claim(mm, start, end);
		cohort_tlb_claim(mm, start, end);
	}
	return mm_cohort(mm) ?
	       cohort_do_unshare_edges(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_partial() - unshare tables that lie partly in a range
 * @mm: the process; its mmap_lock is held
 * @start: first address
 * @end: first address behind the range
 *
 * Use it before pages are thrown away while the regions stay (MADV_DONTNEED).
 * Unlike cohort_unshare_edges() it ignores regions, and it leaves no PMD table:
 * cohort_madvise() has done that. Tables wholly in the range stay shared: zapping
 * leaves them without a copy. May sleep.
 *
 * Return: as cohort_unshare_tables().
 */
static inline int cohort_unshare_partial(struct mm_struct *mm,
					 unsigned long start, unsigned long end)
{
	return mm_cohort(mm) ? cohort_do_unshare_partial(mm, start, end) : 0;
}

/* Leave PMD tables before advice that zaps entries. Returns 0 or -EINTR. */
static inline int cohort_madvise(struct mm_struct *mm, unsigned long start,
				 unsigned long end, int behavior)
{
	return mm_cohort_upper(mm) ?
	       cohort_do_madvise(mm, start, end, behavior) : 0;
}

/* Unshare [vvar] before the time namespace changes. Returns 0 or an error. */
static inline int cohort_leave_timens(struct mm_struct *mm)
{
	return mm && mm_cohort(mm) ? cohort_do_leave_timens(mm) : 0;
}

#else /* !CONFIG_COHORT */

#define cohort_unshare_tables(...)	0
#define cohort_unshare_range(...)	0
#define cohort_keeps_rights(...)	false
#define cohort_keep_apart(...)		do { } while (0)
#define cohort_clear_refs(...)		0
#define cohort_uffd_register(...)	0
#define cohort_unshare_edges(...)	0
#define cohort_unshare_partial(...)	0
#define cohort_madvise(...)		0
#define cohort_leave_timens(...)	0
#define cohort_take_back(...)		false

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_UNSHARE_H */
