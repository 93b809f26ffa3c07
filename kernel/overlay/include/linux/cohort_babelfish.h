/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what the kernel does for BabelFish's hardware.
 *
 * See mm/cohort/babelfish.c. Off, each of these is one branch that is not taken.
 */
#ifndef _LINUX_COHORT_BABELFISH_H
#define _LINUX_COHORT_BABELFISH_H

#ifdef CONFIG_COHORT_BABELFISH

#include <linux/jump_label.h>
#include <linux/mm_types.h>

DECLARE_STATIC_KEY_FALSE(cohort_bf_key);

void cohort_bf_do_switch(struct mm_struct *next);
void cohort_bf_do_claim(struct mm_struct *mm, unsigned long start,
			unsigned long end);
void cohort_bf_do_fork(struct mm_struct *mm, struct mm_struct *oldmm);
void cohort_bf_do_exec(struct mm_struct *mm);
void cohort_bf_do_exit(struct mm_struct *mm);

/* On as soon as any process may have a CCID. */
static inline bool cohort_bf_active(void)
{
	return static_branch_unlikely(&cohort_bf_key);
}

/* A processor has loaded an address space; interrupts are off. */
static inline void cohort_bf_switch(struct mm_struct *next)
{
	if (cohort_bf_active())
		cohort_bf_do_switch(next);
}

/* A process is about to map something in a range; its mmap_lock is held for writing. */
static inline void cohort_bf_claim(struct mm_struct *mm, unsigned long start,
				   unsigned long end)
{
	if (cohort_bf_active() && unlikely(mm->cohort.bf) && start < end)
		cohort_bf_do_claim(mm, start, end);
}

/* A child has all that its parent has; both are locked, and the child has not run. */
static inline void cohort_bf_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	if (cohort_bf_active())
		cohort_bf_do_fork(mm, oldmm);
}

/* The calling process has a new program, and is about to start it. */
static inline void cohort_bf_exec(struct mm_struct *mm)
{
	if (cohort_bf_active())
		cohort_bf_do_exec(mm);
}

/* A process has no CCID any more: it ends, or leaves its cohort. */
static inline void cohort_bf_exit(struct mm_struct *mm)
{
	if (cohort_bf_active() && unlikely(mm->cohort.bf))
		cohort_bf_do_exit(mm);
}

#else /* !CONFIG_COHORT_BABELFISH */

#define cohort_bf_active(...)		false
#define cohort_bf_switch(...)		do { } while (0)
#define cohort_bf_claim(...)		do { } while (0)
#define cohort_bf_fork(...)		do { } while (0)
#define cohort_bf_exec(...)		do { } while (0)
#define cohort_bf_exit(...)		do { } while (0)

#endif /* CONFIG_COHORT_BABELFISH */
#endif /* _LINUX_COHORT_BABELFISH_H */
