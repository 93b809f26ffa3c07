/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what an address space keeps about them.
 */
#ifndef _LINUX_COHORT_TYPES_H
#define _LINUX_COHORT_TYPES_H

#include <linux/list.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

/**
 * struct cohort_mm - what an address space keeps as a member of a cohort
 * @tables: the shared last-level tables it uses (&struct cohort_sharer, RCU list)
 * @uppers: the same for PMD tables
 * @lock: serialises changes of both lists; a leaf lock, inside every table's lock
 * @nr_tables: length of both lists; 0 makes every hook return at once
 * @nr_upper: how many of them are PMD tables
 * @id: which cohort it belongs to; 0 if none
 * @flags: PR_COHORT_* as set by prctl() and inherited
 */
struct cohort_mm {
	struct list_head tables;
	struct list_head uppers;
	spinlock_t lock;		/* of both lists, a leaf lock */
	unsigned int nr_tables;
	unsigned int nr_upper;
	u64 id;
	u8 flags;
};

#endif /* _LINUX_COHORT_TYPES_H */
