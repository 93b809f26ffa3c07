/* SPDX-License-Identifier: GPL-2.0-only */
/* Uprobes: a function that the kernel counts the calls of. */
#ifndef COHORT_SELFTEST_UPROBE_H
#define COHORT_SELFTEST_UPROBE_H

#include <sys/types.h>

long probed(long a, long b);	/* their sum */
long probed_offset(void);	/* where its code is in this program's file, or -1 */
void need_uprobes(void);	/* or skip the case */
/* count the calls of probed() by a process (0: this one; -1: all) on a processor (-1: on any) */
int count_calls(pid_t pid, int cpu);
long hits(int fd);		/* the calls until now */

#endif
