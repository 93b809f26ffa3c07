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
struct mm_struct *cohort_do_filler(struct mm_struct *mm, pmd_t *pmd,
				   unsigned long addr, int member,
				   unsigned long nr);
unsigned int cohort_do_users(pmd_t *pmd);
void cohort_do_borrowed(struct mm_struct *mm, unsigned long *counts);
void cohort_do_look(struct mm_struct *mm);
void cohort_do_look_task(struct task_struct *task);
unsigned long cohort_do_pgtables_bytes(struct mm_struct *mm);
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

/*
 * As cohort_payer(), for a fault at @addr that puts @nr entries of the counter @member
 * into the table. They count for @mm at once.
 */
static inline struct mm_struct *cohort_filler(struct mm_struct *mm, pmd_t *pmd,
					      unsigned long addr, int member,
					      unsigned long nr)
{
	if (unlikely(pmd_cohort(*pmd)))
		return cohort_do_filler(mm, pmd, addr, member, nr);
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
 * Exact. May sleep; cohort_rss() and cohort_badness() do not.
 */
static inline void cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
	if (mm_cohort(mm))
		cohort_do_borrowed(mm, counts);
}

/* Bring what get_mm_rss() and cohort_badness() say up to date. May sleep. */
static inline void cohort_look(struct mm_struct *mm)
{
	if (mm_cohort(mm))
		cohort_do_look(mm);
}

/* As cohort_look(), for the address space that a task has. */
static inline void cohort_look_task(struct task_struct *task)
{
	if (cohort_active())
		cohort_do_look_task(task);
}

/* Bytes of page tables charged to no process that count as this one's. */
static inline unsigned long cohort_pgtables_bytes(struct mm_struct *mm)
{
	return mm_cohort_upper(mm) ? cohort_do_pgtables_bytes(mm) : 0;
}

/*
 * Pages that the OOM killer adds to get_mm_rss() and to those @mm is charged for: a
 * table that @mm borrows counts as if it were its own (invariant 14). Takes no lock
 * and looks at no table (invariant 13).
 */
static inline long cohort_badness(struct mm_struct *mm)
{
	return atomic_long_read(&mm->cohort.swap) +
	       atomic_long_read(&mm->cohort.borrowed);
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
					      unsigned long addr, int member,
					      unsigned long nr)
{
	return mm;
}

static inline unsigned int cohort_users(pmd_t *pmd) { return 1; }

static inline void cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
}

static inline void cohort_look(struct mm_struct *mm) { }
static inline void cohort_look_task(struct task_struct *task) { }

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
