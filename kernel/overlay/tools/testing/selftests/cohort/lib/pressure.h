/* SPDX-License-Identifier: GPL-2.0-only */
/* Swap, and memory that is short. */
#ifndef COHORT_SELFTEST_PRESSURE_H
#define COHORT_SELFTEST_PRESSURE_H

#include <stdbool.h>

#define CGROUP	"/sys/fs/cgroup/cohort-selftest/"

bool swap_on(void);		/* undone at the end of the run */
bool swap_off(void);
void need_swap(void);		/* or skip the case */
/* press() can reclaim what this process touches from here on */
void need_cgroup(void);
void press(void);
void press_files(void);		/* as press(), but pages of files first */

void begin_pressure(void);	/* run_cases() calls both */
void end_pressure(void);

#endif
