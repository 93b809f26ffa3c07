/* SPDX-License-Identifier: GPL-2.0-only */
/* Marked pages, and accesses that may raise a signal. */
#ifndef COHORT_SELFTEST_PAGE_H
#define COHORT_SELFTEST_PAGE_H

#include <stdbool.h>
#include <linux/types.h>

/* Every word of a page depends on its tag; tag 0 is a page of zeros. */
void page_fill(void *addr, unsigned int tag);
bool page_is(const void *addr, unsigned int tag);

void catch_faults(void);	/* every case begins with this */
/* 0, or the signal that the access raised */
int probe_read(const void *addr);
int probe_load(const __u64 *addr, __u64 *value);
int probe_write(void *addr);	/* writes back the byte that is there */

static inline char touch(const void *addr)
{
	return __atomic_load_n((const char *)addr, __ATOMIC_RELAXED);
}

#endif
