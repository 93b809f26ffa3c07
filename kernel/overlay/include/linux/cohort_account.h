/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: who is charged, and what a process uses.
 */
#ifndef _LINUX_COHORT_ACCOUNT_H
#define _LINUX_COHORT_ACCOUNT_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

struct mm_struct *cohort_do_payer(pmd_t *pmd);
struct mm_struct *cohort_do_filler(pmd_t *pmd, unsigned long nr);
unsigned int cohort_do_users(pmd_t *pmd);
void cohort_do_borrowed(struct mm_struct *mm, unsigned long *counts);
unsigned long cohort_do_borrowed_rss(struct mm_struct *mm);
unsigned long cohort_do_pgtables_bytes(struct mm_struct *mm);
long cohort_do_badness(struct mm_struct *mm);
bool cohort_do_charged(struct mm_struct *mm, pmd_t *pmd);

/**
 * cohort_payer() - who is charged for the pages of a table
 * @mm: the process through which the table was reached
 * @pmd: its entry for the table, or NULL; the table's lock is held
 *
 * Return: the owner of a shared table, else @mm (invariant 7). Drops the table's
 * cached counts, because the caller is about to change them.
 */
static inline struct mm_struct *cohort_payer(struct mm_struct *mm, pmd_t *pmd)
{
	if (pmd && unlikely(pmd_cohort(*pmd)))
		return cohort_do_payer(pmd);
	return mm;
}

/* As cohort_payer(), for a read fault that puts @nr entries into the table. */
static inline struct mm_struct *cohort_filler(struct mm_struct *mm, pmd_t *pmd,
					      unsigned long nr)
{
	if (unlikely(pmd_cohort(*pmd)))
		return cohort_do_filler(pmd, nr);
	return mm;
}

/* Number of processes that use the table, whose lock is held. */
static inline unsigned int cohort_users(pmd_t *pmd)
{
	return unlikely(pmd_cohort(*pmd)) ? cohort_do_users(pmd) : 1;
}

/**
 * cohort_borrowed() - pages mapped through tables that others are charged for
 * @mm: the process
 * @counts: NR_MM_COUNTERS counts in pages, to which these are added
 *
 * Exact. Takes the lock of each such table, so the timer tick must not call it.
 */
static inline void cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
	if (mm_cohort(mm))
		cohort_do_borrowed(mm, counts);
}

/* As cohort_borrowed(), the sum of the resident pages alone. */
static inline unsigned long cohort_borrowed_rss(struct mm_struct *mm)
{
	return mm_cohort(mm) ? cohort_do_borrowed_rss(mm) : 0;
}

/* Bytes of page tables charged to no process that count as this one's. */
static inline unsigned long cohort_pgtables_bytes(struct mm_struct *mm)
{
	return mm_cohort_upper(mm) ? cohort_do_pgtables_bytes(mm) : 0;
}

/*
 * Pages that the OOM killer adds to those @mm is charged for, so that each user
 * of a table bears an equal part. May be negative.
 */
static inline long cohort_badness(struct mm_struct *mm)
{
	return mm_cohort(mm) ? cohort_do_badness(mm) : 0;
}

/*
 * True if @mm is charged for the table, whose lock is held. It is true for exactly
 * one user of each table, so a walk of all mappings counts each of them once.
 */
static inline bool cohort_charged(struct mm_struct *mm, pmd_t *pmd)
{
	return !pmd || likely(!pmd_cohort(*pmd)) || cohort_do_charged(mm, pmd);
}

#else /* !CONFIG_COHORT */

static inline struct mm_struct *cohort_payer(struct mm_struct *mm, pmd_t *pmd)
{
	return mm;
}

static inline struct mm_struct *cohort_filler(struct mm_struct *mm, pmd_t *pmd,
					      unsigned long nr)
{
	return mm;
}

static inline unsigned int cohort_users(pmd_t *pmd) { return 1; }

static inline void cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
}

static inline unsigned long cohort_borrowed_rss(struct mm_struct *mm)
{
	return 0;
}

static inline unsigned long cohort_pgtables_bytes(struct mm_struct *mm)
{
	return 0;
}

static inline long cohort_badness(struct mm_struct *mm) { return 0; }

static inline bool cohort_charged(struct mm_struct *mm, pmd_t *pmd)
{
	return true;
}

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_ACCOUNT_H */
