/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what an address space keeps about them.
 */
#ifndef _LINUX_COHORT_TYPES_H
#define _LINUX_COHORT_TYPES_H

#ifdef CONFIG_COHORT

#include <linux/atomic.h>
#include <linux/math64.h>
#include <linux/types.h>

struct cohort_group;
struct cohort_space;
struct cohort_uses;

/* Bytes of a group's name, with the 0 at its end. */
#define COHORT_NAME	32

/**
 * struct cohort_mm - what an address space keeps as a member of a cohort
 * @uses: its records of shared tables; NULL until it first shares one
 * @rss: resident pages in tables that others are charged for, as last seen
 * @swap: swap entries in such tables, as last seen
 * @guess: resident pages in tables that nobody has counted yet, as estimated
 * @guess_swap: the same for swap entries
 * @guess_scale: what @guess and @guess_swap are multiplied by, in units of
 *		 1/COHORT_GUESS_ONE, so that at its fork a child counts for what its parent
 *		 did
 * @borrowed: page-table pages that others are charged for, as last seen
 * @nr_tables: number of shared tables it uses; 0 makes every hook return at once
 * @nr_upper: how many of them are PMD tables
 * @id: which cohort it belongs to; 0 if none
 * @flags: PR_COHORT_* as set by prctl() and inherited
 * @leaving: a thread that returns to user mode must first leave all tables
 * @apart: its entries, or its parent's, tell what is true of it alone; it shares nothing
 * @watched: a userfaultfd was registered with one of its regions, or its parent's, so
 *	     another process may move pages of any with the region's lock alone
 * @batch: what it has allocated for a fork that is under way; NULL otherwise. Changes
 *	   under the mmap_lock held for writing
 * @name: the group that prctl() has chosen for later programs; empty if none
 * @group: whose tables it may join at faults; NULL if none. Changes under the mmap_lock
 *	   held for writing
 * @bf: what BabelFish's hardware knows of it; NULL if nothing. Changes as @group does
 * @image: the address at which a program that may lie anywhere was placed
 */
struct cohort_mm {
	struct cohort_uses *uses;
	atomic_long_t rss;
	atomic_long_t swap;
	atomic_long_t guess;
	atomic_long_t guess_swap;
	u32 guess_scale;
	atomic_long_t borrowed;
	atomic_t nr_tables;
	unsigned int nr_upper;
	u64 id;
	u8 flags;
	bool leaving;
	bool apart;
	bool watched;
	struct cohort_batch *batch;
#ifdef CONFIG_COHORT_GROUPS
	char name[COHORT_NAME];
	struct cohort_group *group;
#endif
#ifdef CONFIG_COHORT_BABELFISH
	struct cohort_space *bf;
	unsigned long image;
#endif
};

/* What get_mm_rss() adds: resident pages in tables that others are charged for. */
#define cohort_rss(mm)	((unsigned long)atomic_long_read(&(mm)->cohort.rss))
/* What those add who may not wait for a count: it is in no mark that stays. */
#define cohort_guess(mm)	cohort_scaled(mm, guess)
#define cohort_guess_swap(mm)	cohort_scaled(mm, guess_swap)

#define COHORT_GUESS_ONE	BIT(16)
#define cohort_scaled(mm, what)						\
	((unsigned long)mul_u64_u32_shr(atomic_long_read(&(mm)->cohort.what), \
					(mm)->cohort.guess_scale, 16))
/* True if it uses tables that nobody has counted. */
#define cohort_guessed(mm)						\
	(atomic_long_read(&(mm)->cohort.guess) ||			\
	 atomic_long_read(&(mm)->cohort.guess_swap))

#else /* !CONFIG_COHORT */

#define cohort_rss(...)	0UL
#define cohort_guess(...) 0UL

#endif /* CONFIG_COHORT */

#endif /* _LINUX_COHORT_TYPES_H */
