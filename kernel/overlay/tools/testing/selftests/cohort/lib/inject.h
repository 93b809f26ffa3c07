/* SPDX-License-Identifier: GPL-2.0-only */
/* Allocations that fail, and memory that breaks. */
#ifndef COHORT_SELFTEST_INJECT_H
#define COHORT_SELFTEST_INJECT_H

#include <stdbool.h>

void need_injection(void);	/* or skip the case */
void arm(long n);		/* the n-th allocation from now on fails, in this process alone */
bool disarm(void);		/* was there an n-th one, so that it failed? */
void save_injection(void);	/* the machine's settings, before run_cases() ... */
void restore_injection(void);	/* ... and after it */

/* --- memory that breaks --------------------------------------------------- */

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif
#ifndef PR_MCE_KILL
#define PR_MCE_KILL		33
#define PR_MCE_KILL_SET		1
#define PR_MCE_KILL_LATE	0
#define PR_MCE_KILL_EARLY	1
#endif

/* run in a peer: take the page at an address out of use; 0 or -errno */
long poison(long addr, long unused);
/* run in a peer: it is told by SIGBUS when it uses such a page, not at once */
long dies_late(long unused, long unused2);

#endif
