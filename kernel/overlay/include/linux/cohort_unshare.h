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

/**
 * cohort_unshare_tables() - give a process its own last-level tables in a range
 * @mm: whose; its mmap_lock is held
 * @start: first address
 * @end: address behind the last
 * @cause: why, for the counters
 *
 * For what changes entries of private memory only: that is never in a shared PMD
 * table. May sleep.
 *
 * Return: 0, or -ENOMEM; then some tables may be private by now, which changes
 * nothing that a process could see.
 */
static inline int cohort_unshare_tables(struct mm_struct *mm,
					unsigned long start, unsigned long end,
					enum cohort_cause cause)
{
	return mm_cohort(mm) ?
	       cohort_do_unshare_tables(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_range() - give a process its own tables in a range
 * @mm: whose; its mmap_lock is held for writing
 * @start: first address
 * @end: address behind the last
 * @cause: why, for the counters
 *
 * Call before anything is changed (invariant 8). May sleep.
 *
 * Return: as cohort_unshare_tables().
 */
static inline int cohort_unshare_range(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return mm_cohort(mm) ?
	       cohort_do_unshare_range(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_edges() - prepare a range to be unmapped or mapped anew
 * @mm: whose; its mmap_lock is held for writing
 * @start: first address
 * @end: address behind the last
 * @cause: why, for the counters
 *
 * Unshares the tables that the range shares with regions outside of it. Tables
 * of which the process uses nothing outside the range are left alone: zapping
 * leaves them without a copy.
 *
 * Return: 0 or -ENOMEM.
 */
static inline int cohort_unshare_edges(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return mm_cohort(mm) ?
	       cohort_do_unshare_edges(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_partial() - prepare a range whose pages are thrown away
 * @mm: whose; its mmap_lock is held
 * @start: first address
 * @end: address behind the last
 *
 * Unshares the tables of which only a part lies in the range.
 *
 * Return: 0 or -ENOMEM.
 */
static inline int cohort_unshare_partial(struct mm_struct *mm,
					 unsigned long start, unsigned long end)
{
	return mm_cohort(mm) ? cohort_do_unshare_partial(mm, start, end) : 0;
}

/* Advice is to come. Returns 0 or -EINTR. */
static inline int cohort_madvise(struct mm_struct *mm, unsigned long start,
				 unsigned long end, int behavior)
{
	return mm_cohort_upper(mm) ?
	       cohort_do_madvise(mm, start, end, behavior) : 0;
}

/* The process is to change its time namespace. Returns 0 or -ENOMEM. */
static inline int cohort_leave_timens(struct mm_struct *mm)
{
	return mm && mm_cohort(mm) ? cohort_do_leave_timens(mm) : 0;
}

#else /* !CONFIG_COHORT */

static inline int cohort_unshare_tables(struct mm_struct *mm,
					unsigned long start, unsigned long end,
					enum cohort_cause cause)
{
	return 0;
}

static inline int cohort_unshare_range(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return 0;
}

static inline int cohort_unshare_edges(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return 0;
}

static inline int cohort_unshare_partial(struct mm_struct *mm,
					 unsigned long start, unsigned long end)
{
	return 0;
}

static inline int cohort_madvise(struct mm_struct *mm, unsigned long start,
				 unsigned long end, int behavior)
{
	return 0;
}

static inline int cohort_leave_timens(struct mm_struct *mm) { return 0; }

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_UNSHARE_H */
