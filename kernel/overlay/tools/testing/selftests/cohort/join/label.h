/* SPDX-License-Identifier: GPL-2.0-only */
/* Two cgroups below that of the case, whose labels name groups. */
#ifndef COHORT_SELFTEST_JOIN_LABEL_H
#define COHORT_SELFTEST_JOIN_LABEL_H

extern char groups[2][160];

void need_groups(void);		/* make them, or skip the case */
void drop_groups(void);		/* once nobody is in them any more */
void label(const char *dir, const char *text);
long enter(long i, long unused);	/* for peers: move to one of them */

#endif
