/* SPDX-License-Identifier: GPL-2.0-only */
/* The files of KSM. */
#ifndef COHORT_SELFTEST_KSM_H
#define COHORT_SELFTEST_KSM_H

#define KSM	"/sys/kernel/mm/ksm/"

long ksm(const char *file);	/* what a file of KSM's says */
void ksm_set(const char *file, const char *value);

#endif
