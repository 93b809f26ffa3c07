// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: PMD tables are never shared. A later series shares those of
 * shared memory.
 */
#include <linux/mm.h>

#include "internal.h"

int cohort_share_upper(struct mm_struct *mm, struct mm_struct *oldmm,
		       unsigned long addr)
{
	return 0;
}

void __cohort_leave_upper(struct cohort_sharer *sharer, bool flush)
{
}

void __cohort_leave_range(struct mm_struct *mm, unsigned long start,
			  unsigned long end)
{
}
