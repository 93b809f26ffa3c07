/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the tests of merging in shared tables. The memory is one table: a page
 * at each of the first COPIES addresses, and one with the same content behind
 * them. The rest is empty.
 */
#ifndef COHORT_SELFTEST_MERGE_H
#define COHORT_SELFTEST_MERGE_H

#include "../common.h"

#define COPIES		32
#define PAGES		(2 * COPIES)
#define SHARERS		8
#define FAILURES	40	/* more than the allocations of one call */
#define LEAVERS		(quick ? 8 : 24)
#define OWN		(2 * PAGES)	/* a page that no two processes have in common */

extern char *memory;

bool ksmd_fails(const char *percent);
void all_off(void);
void fast(void);
void scan(void);
void scan_through(int who);
__u64 frame(int who, int page);
int merged(int who);
void need_merging(void);

long own_tag(int who, int page);
void fill_alike(void);
void make_area(void);
long advise(long advice, long unused);
long intact(long except, long tag);
long write_page(long page, long tag);
void start(int children);
bool one_table(int a, int b);
void all_share(int from, int to);
void must_be_merged(int from, int to);
long unmap(long unused, long unused2);
long merge_any(long on, long unused);
void give_back(__u64 pfn);

long advise_page(long addr, long advice);
long still_there(long page, long unused);

#endif
