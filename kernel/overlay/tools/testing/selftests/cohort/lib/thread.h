/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads of this process that run until they are stopped. */
#ifndef COHORT_SELFTEST_THREAD_H
#define COHORT_SELFTEST_THREAD_H

#include <stdbool.h>

void start_thread(void *(*fn)(void *arg), void *arg);
bool stopping(void);		/* for threads: time to return */
void stop_and_join(void);	/* all that were started */

#endif
