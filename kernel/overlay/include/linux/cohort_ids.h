/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: a process becomes another user's or enters a namespace.
 *
 * What a process has touched, its siblings can learn by timing. So it takes tables
 * of its own then, unless the zygote has asked otherwise (PR_COHORT_KEEP_IDS).
 */
#ifndef _LINUX_COHORT_IDS_H
#define _LINUX_COHORT_IDS_H

#include <linux/mm_types.h>

struct cred;

#ifdef CONFIG_COHORT

int cohort_do_fork_namespaces(struct mm_struct *mm, unsigned long flags);
void cohort_do_new_creds(struct mm_struct *mm, const struct cred *old,
			 const struct cred *new);
void cohort_do_new_namespaces(struct mm_struct *mm);

static inline bool cohort_ids_matter(struct mm_struct *mm)
{
	return mm && unlikely(READ_ONCE(mm->cohort.nr_tables));
}

/* A child is made, maybe in namespaces of its own. Returns 0 or -ENOMEM. */
static inline int cohort_fork_namespaces(struct mm_struct *mm,
					 unsigned long flags)
{
	return cohort_ids_matter(mm) ? cohort_do_fork_namespaces(mm, flags) : 0;
}

/* The calling process gets other credentials. Cannot fail. */
static inline void cohort_new_creds(struct mm_struct *mm,
				    const struct cred *old,
				    const struct cred *new)
{
	if (cohort_ids_matter(mm))
		cohort_do_new_creds(mm, old, new);
}

/* The calling process enters other namespaces. Cannot fail. */
static inline void cohort_new_namespaces(struct mm_struct *mm)
{
	if (cohort_ids_matter(mm))
		cohort_do_new_namespaces(mm);
}

/* exec gives more rights: nothing of what the caller asked for is inherited. */
static inline void cohort_forget(struct mm_struct *mm)
{
	mm->cohort.id = 0;
	mm->cohort.flags = 0;
}

#else /* !CONFIG_COHORT */

static inline int cohort_fork_namespaces(struct mm_struct *mm,
					 unsigned long flags)
{
	return 0;
}

static inline void cohort_new_creds(struct mm_struct *mm,
				    const struct cred *old,
				    const struct cred *new)
{
}

static inline void cohort_new_namespaces(struct mm_struct *mm) { }
static inline void cohort_forget(struct mm_struct *mm) { }

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_IDS_H */
