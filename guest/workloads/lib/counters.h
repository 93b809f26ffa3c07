/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Cohort's counters in /proc/vmstat. */
#ifndef LIB_COUNTERS_H
#define LIB_COUNTERS_H

#include "measure.h"

/* How many of the counters the workloads report. */
#define COUNTERS 12

struct counters {
	uint64_t value[COUNTERS];
};

#define VMSTAT_BYTES KB(64)

/*
 * All the memory that a reading writes to, so that it can live in the scratch
 * arena. @present is false on a kernel without these counters: then nothing is
 * reported, rather than zeros.
 */
struct counter_reader {
	int fd;
	bool present;
	char text[VMSTAT_BYTES];
};

/* The value after "NAME " at a line's start in @text, or -1. */
int64_t vmstat_value(const char *text, const char *name);
/* The value of NAME in /proc/vmstat now, or -1. */
int64_t vmstat(const char *name);

/* What a number of programs that stay have taken together, since run_begin(). */
struct run_counts {
	int64_t tables, memory, joined, opened, withdrawn;
};

void run_begin(struct run_counts *c);
/*
 * Print table-pages, memory, and on a kernel of ours joined, opened and withdrawn: pages of page
 * tables more, KB less that are free, and how often tables were joined, opened and withdrawn.
 */
void run_print(const struct run_counts *begin);

void count_all(void);	/* let tables, copies and faults of all processes count */
void counters_open(struct counter_reader *r);
void counters_read(struct counter_reader *r, struct counters *c);
void counters_sub(struct counters *d, const struct counters *from);
/* Print every counter as PREFIX-name-with-hyphens[SUFFIX]. */
void counters_print(const struct counter_reader *r, const struct counters *d,
		    const char *prefix, const char *suffix);

#endif
