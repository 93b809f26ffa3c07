/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory of some size that a process touches in one of several ways.
 */
#ifndef COHORT_SELFTEST_FAIR_MEMORY_H
#define COHORT_SELFTEST_FAIR_MEMORY_H

#include "../common.h"

#define SPARSE_TABLES	512
#define KEPT		3	/* pages of each table that touch_many() touches */

extern size_t len;
extern char *memory;

/* an eighth of the machine's memory, but no more than a debug kernel can touch soon */
void choose_size(void);

/* @len bytes from the start of a table on, and a table more */
void map_memory(void);

/* all pages of a size that choose_size() chooses */
void touch_memory(void);

/* the first page of each of SPARSE_TABLES tables */
void touch_first(void);

/* some pages of each table, none where an estimate of what it maps might look */
void touch_others(void);

/* the case has mapped it: it looks at the pages of others at these addresses */
void touch_many(void);

#endif
