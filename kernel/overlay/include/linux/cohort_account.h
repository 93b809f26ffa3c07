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
 * Store cohort_payer() in *@payer, which is @mm so far: for walks of the reverse map. They
 * pay a nop before the first fork that shares (invariant 10).
 */
static inline void cohort_find_payer(struct mm_struct **payer,
				     struct mm_struct *mm, pmd_t *pmd)
{
	if (cohort_active())
		*payer = cohort_payer(mm, pmd);
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

/* Pages of each counter (MM_FILEPAGES and so on). */
struct cohort_counts {
	unsigned long pages[NR_MM_COUNTERS];
};

/**
 * cohort_borrowed() - pages mapped through tables that others are charged for
 * @counts: filled in for cohort_counted()
 * @mm: the process
 *
 * Exact. May sleep; cohort_rss() and cohort_badness() do not.
 */
static inline void cohort_borrowed(struct cohort_counts *counts,
				   struct mm_struct *mm)
{
	*counts = (struct cohort_counts){};
	if (mm_cohort(mm))
		cohort_do_borrowed(mm, counts->pages);
}

static inline unsigned long cohort_counted(const struct cohort_counts *counts,
					   int member)
{
	return counts->pages[member];
}

/* Bring what get_mm_rss() and cohort_badness() say up to date. May sleep. */
static inline void cohort_look(struct mm_struct *mm)
{
	if (mm_cohort(mm))
		cohort_do_look(mm);
}

/* Before the high-water mark of a process is taken: it has no estimate. May sleep. */
static inline void cohort_look_guessed(struct mm_struct *mm)
{
	if (mm_cohort(mm) && cohort_guessed(mm))
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
 * table that @mm borrows counts as if it were its own (invariant 14), with an estimate of
 * what it maps if nobody has counted. Takes no lock and looks at no table (invariant 13).
 */
static inline long cohort_badness(struct mm_struct *mm)
{
	return cohort_guess(mm) + cohort_guess_swap(mm) +
	       atomic_long_read(&mm->cohort.swap) +
	       atomic_long_read(&mm->cohort.borrowed);
}

/**
 * struct cohort_view - what a walk of a process's entries knows of the current table
 * @users: how many processes use it; each bears a part of what it maps
 * @shared: it has the mark, so its accessed bits may be other processes'
 */
struct cohort_view {
	unsigned int users;
	bool shared;
};

/* The walk enters a table, whose lock is held until cohort_view_end(). */
static inline void cohort_view_begin(struct cohort_view *view, pmd_t *pmd)
{
	view->users = cohort_users(pmd);
	view->shared = pmd_cohort(*pmd);
}

static inline void cohort_view_end(struct cohort_view *view)
{
	view->users = 1;
	view->shared = false;
}

/* Divide a page among the users of its table; with several it is not private. */
static inline void cohort_view_part(const struct cohort_view *view,
				    unsigned long *pss, bool *private)
{
	if (view->users > 1) {
		*pss /= view->users;
		*private = false;
	}
}

/* Multiply a number of mappings by the users of the table. */
static inline int cohort_view_count(int count, const struct cohort_view *view)
{
	return view->users > 1 ? max(count, 1) * (int)view->users : count;
}

/* True if all entries count as young: old ones would reveal what other users access. */
static inline bool cohort_view_young(const struct cohort_view *view)
{
	return view->shared;
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

#define cohort_payer(mm, ...)		(mm)
#define cohort_find_payer(...)		do { } while (0)
#define cohort_filler(mm, ...)		(mm)
#define cohort_users(...)		1

struct cohort_counts { };

#define cohort_borrowed(counts, ...)	((void)(counts))
#define cohort_counted(...)		0UL
#define cohort_look(...)		do { } while (0)
#define cohort_look_guessed(...)	do { } while (0)
#define cohort_look_task(...)		do { } while (0)
#define cohort_pgtables_bytes(...)	0
#define cohort_badness(...)		0

struct cohort_view { };

#define cohort_view_begin(...)		do { } while (0)
#define cohort_view_end(...)		do { } while (0)
#define cohort_view_part(...)		do { } while (0)
#define cohort_view_count(count, ...)	(count)
#define cohort_view_young(...)		false
#define cohort_charged(...)		true

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_ACCOUNT_H */
