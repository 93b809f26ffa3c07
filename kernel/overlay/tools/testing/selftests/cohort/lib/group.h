/* SPDX-License-Identifier: GPL-2.0-only */
/* A memory cgroup for one case. */
#ifndef COHORT_SELFTEST_GROUP_H
#define COHORT_SELFTEST_GROUP_H

#include <stdbool.h>

extern char group[128];		/* its directory */

void make_group(void);		/* or skip the case */
bool remove_group(void);	/* waits until its processes have gone */
void group_put(const char *file, const char *text);
/* The number behind @key in a file of the group, or the first one without @key. */
long group_number(const char *file, const char *key);
long cgroup_number(const char *dir, const char *file, const char *key);

#endif
