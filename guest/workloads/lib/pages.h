/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages of a process are in its page tables, region by region: read from
 * /proc/PID/maps and /proc/PID/pagemap.
 */
#ifndef LIB_PAGES_H
#define LIB_PAGES_H

#include "measure.h"

#define MAX_REGIONS 4096

struct region {
	uintptr_t start, end;
	uint64_t inode;
	char perms[5];
	char path[128];
};

struct regions {
	int count;
	struct region r[MAX_REGIONS];
};

void regions_read(struct regions *rs, pid_t pid);

static inline bool is_code(const struct region *r)
{
	return r->inode && r->perms[2] == 'x' && r->perms[3] == 'p';
}

int pagemap_open(pid_t pid);

/*
 * Count the entries that are present in [start, end), and those among them that
 * map a process's own page rather than the file's. Page I of the range goes to
 * bit[I] if @bit is given.
 */
size_t pages_present(int pagemap, uintptr_t start, uintptr_t end,
		     unsigned char *bit, size_t *anon);

/* Last-level tables of a process that map a page of a file or of shared memory. */
size_t file_tables(pid_t pid);

struct footprint {
	size_t regions;
	size_t code;		/* entries in private file regions that may execute */
	size_t copied;		/* entries that stock fork copies */
};

/*
 * Of all regions but the one at @skip, which fork leaves out.
 *
 * Stock fork leaves a file region without a copied page to later faults, and
 * copies every entry of the others: so a region counts in full as soon as one
 * of its pages is the process's own.
 */
void footprint_read(struct footprint *fp, struct regions *rs, const void *skip);

/* The number after "KEY:" in /proc/PID/FILE, or -1. */
long proc_field(pid_t pid, const char *file, const char *key);

#endif
