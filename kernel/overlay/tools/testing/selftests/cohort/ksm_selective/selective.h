/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the tests of selective merging. Peers 1 and 2 fill the same memory
 * with pages that are alike in both.
 */
#ifndef COHORT_SELFTEST_SELECTIVE_H
#define COHORT_SELFTEST_SELECTIVE_H

#include "../common.h"

#define FREEZE		"/sys/fs/cgroup/ksm-selftest-"
#define PAGES		64

#define RANGE(from, to)	((long)(from) << 16 | (to))
#define ALL		RANGE(0, PAGES)

extern char *memory;

bool reads(const char *file, const char *word);
void need_selective(void);
void all_off(void);
void start(const char *scope);
long of(int who, const char *key);
void dormant(int who, bool yes);
void wait_scans(int who, long n);
void leave_time(void);
void set_frozen(int who, bool yes);

long fill(long range, long tag);
long intact(long range, long tag);
long merge_area(long pages, long unused);
long rename_me(long number, long unused);
void setup_area(long pages);
void setup(int peers, long pages);

void cgroup_set(const char *file, const char *value);
void set_oom(int who, const char *adj);
long merge_all(long unused, long unused2);

#endif
