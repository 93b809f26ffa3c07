/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of KSM. */
#ifndef COHORT_SELFTEST_KSM_H
#define COHORT_SELFTEST_KSM_H

#define KSM	"/sys/kernel/mm/ksm/"

long ksm(const char *file);	/* what a file of KSM's says */
void ksm_set(const char *file, const char *value);
pid_t ksmd_pid(void);		/* 0 if there is none */
void forgotten(void);		/* waits until KSM knows of no page */

#endif
