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
 * struct cohort_mm - an address space as the member of a cohort
 * @tables: the shared tables it uses (&struct cohort_sharer, RCU list)
 * @lock: serialises changes of @tables; a leaf lock, inside every table's lock
 * @nr_tables: length of @tables; 0 lets every hook pass at once
 * @id: which cohort it belongs to; 0 if none
 * @flags: PR_COHORT_* as set by prctl() and inherited
 */
struct cohort_mm {
	struct list_head tables;
	spinlock_t lock;		/* of the list, a leaf lock */
	unsigned int nr_tables;
	u64 id;
	u8 flags;
};

#endif /* _LINUX_COHORT_TYPES_H */
