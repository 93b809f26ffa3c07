/* SPDX-License-Identifier: GPL-2.0-only */
/* Allocations that fail, and memory that breaks. */
#ifndef COHORT_SELFTEST_INJECT_H
#define COHORT_SELFTEST_INJECT_H

#include <stdbool.h>

void need_injection(void);	/* or skip the case */
void arm(long n);		/* the n-th allocation from now on fails, in this process alone */
bool disarm(void);		/* was there an n-th one, so that it failed? */
void save_injection(void);	/* keep the machine's settings: call before run_cases() ... */
void restore_injection(void);	/* ... and restore them after it */

/* --- memory that breaks --------------------------------------------------- */

/* run in a peer: take the page at an address out of use; 0 or -errno */
long poison(long addr, long unused);
/* run in a peer: get SIGBUS when it uses such a page, not before */
long dies_late(long unused, long unused2);

#endif
