/* SPDX-License-Identifier: GPL-2.0-only */
/* The flags of a process, and which tables it shares. */
#ifndef COHORT_SELFTEST_COHORT_H
#define COHORT_SELFTEST_COHORT_H

#include <stdbool.h>

void need_cohort(void);		/* or skip the case */
bool all_join(void);		/* is every program of this user in one group? */
/* the prctl, for peers: flags, 0 or -errno */
long get_flags(long unused, long unused2);
long set_flags(long flags, long unused);
/* tables of `area` that a new child shares; @other is a second one meanwhile */
long tables_shared_with(int child, int other);
void expect_shared(long wanted);

#endif
