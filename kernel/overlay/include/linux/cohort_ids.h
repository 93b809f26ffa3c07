/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: a process changes its user or its namespaces.
 *
 * Siblings can learn what a process has touched. So a process that
 * changes them unshares, unless the zygote asked otherwise (PR_COHORT_KEEP_IDS).
 */
#ifndef _LINUX_COHORT_IDS_H
#define _LINUX_COHORT_IDS_H

#ifdef CONFIG_COHORT

#include <linux/cohort_tlb_group.h>
#include <linux/mm_types.h>
#include <linux/sched.h>

struct cred;

int cohort_do_fork_namespaces(struct mm_struct *mm, unsigned long flags);
void cohort_do_new_creds(struct mm_struct *mm, const struct cred *old,
			 const struct cred *new);
void cohort_do_new_namespaces(struct mm_struct *mm);
void cohort_do_resume_user_mode(struct mm_struct *mm);

static inline bool cohort_ids_matter(struct mm_struct *mm)
{
	if (!mm)
		return false;
#ifdef CONFIG_COHORT_GROUPS
	if (unlikely(READ_ONCE(mm->cohort.group)))
		return true;
#endif
	/* A process without shared tables may have a CCID, or children that share. */
	return unlikely(atomic_read(&mm->cohort.nr_tables)) ||
	       unlikely(READ_ONCE(mm->cohort.id)) || cohort_tlb_held(mm);
}

/* Before a child is forked, perhaps into new namespaces. Returns 0 or an error. */
static inline int cohort_fork_namespaces(struct mm_struct *mm,
					 unsigned long flags)
{
	return cohort_ids_matter(mm) ? cohort_do_fork_namespaces(mm, flags) : 0;
}

/* The calling process gets other credentials: it leaves when it returns from this call. */
static inline void cohort_new_creds(struct mm_struct *mm,
				    const struct cred *old,
				    const struct cred *new)
{
	if (cohort_ids_matter(mm))
		cohort_do_new_creds(mm, old, new);
}

/* The calling process enters other namespaces: it leaves when it returns from this call. */
static inline void cohort_new_namespaces(struct mm_struct *mm)
{
	if (cohort_ids_matter(mm))
		cohort_do_new_namespaces(mm);
}

/* Before a thread returns to user mode, without locks: see cohort_do_new_creds(). */
static inline void cohort_resume_user_mode(void)
{
	struct mm_struct *mm = current->mm;

	if (mm && unlikely(READ_ONCE(mm->cohort.leaving)))
		cohort_do_resume_user_mode(mm);
}

/* An exec that gains privileges inherits none of the caller's settings. */
static inline void cohort_forget(struct mm_struct *mm)
{
	mm->cohort.id = 0;
	mm->cohort.flags = 0;
#ifdef CONFIG_COHORT_GROUPS
	mm->cohort.name[0] = 0;
#endif
}

#else /* !CONFIG_COHORT */

#define cohort_fork_namespaces(...)	0
#define cohort_new_creds(...)		do { } while (0)
#define cohort_new_namespaces(...)	do { } while (0)
#define cohort_resume_user_mode(...)	do { } while (0)
#define cohort_forget(...)		do { } while (0)

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_IDS_H */
