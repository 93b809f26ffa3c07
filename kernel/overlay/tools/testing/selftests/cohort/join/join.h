/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables that processes join at a fault: those that were not forked from one another, at
 * the same addresses or at others. Peers map a file each by itself, and each anew, so that
 * fork has shared nothing of it. That they have one parent does not matter.
 */
#ifndef COHORT_SELFTEST_JOIN_H
#define COHORT_SELFTEST_JOIN_H

#include "../common.h"

#define TABLES		2
#define NOBODY		65534

/* how a peer maps the file */
struct view {
	char *at;		/* where the file's first page would be */
	size_t first, pages;	/* which of its pages */
	int prot;
	int flags;
	int fd;
};

extern struct view view[8];
extern size_t table_pages;
extern int file;

enum { READ_ONLY, CODE, WRITABLE, SHARED, NR_PROTS };

/* with one of the above: the file is on a disk; each maps it at an address of its own */
#define DISK	0x10
#define APART	0x20

bool joining(void);		/* may processes of this user join tables now? */
/* make a file, and views of the whole of it for this process and so many peers */
void start(int peers, int prot, int flags, const char *fs, bool apart);
void start_prot(int peers, long arg);
void spawn_all(int peers);
char *page_at(int who, long page);

/* for peers: map, read one page in @step, unmap, and check all pages but one or -1 */
long map_view(long who, long unused);
long read_view(long who, long step);	/* returns how many faults that took */
long unmap_view(long who, long unused);
long view_right(long who, long but);
void map_and_read(int who);
/* and a page of it */
long fill_page(long addr, long tag);
long has_page(long addr, long tag);

/*
 * Run this test's own executable again, as another user or oneself (0). argv[3] is set to a
 * descriptor for its report; the number of the process is written to @pid. Returns false if
 * there is no report.
 */
bool start_self(char **argv, long user, void *report, size_t bytes, pid_t *pid);

/*
 * For peers: run a program that maps the file where a view has it, as another user or
 * oneself (0). Returns how many tables the program shares; below 0 is an error.
 */
long run_program(long who, long user);
long hold_program(long who, long user);	/* the same; it stays, and this returns its number */
long end_program(long pid, long unused);
/*
 * A program that makes a child in a cgroup, whose descriptor is given. Returns of the child:
 * 0, it has no group and no shared table; 1, it has a group; 2, shared tables alone.
 */
long bear_child(long who, long cgroup);
/* a program that maps the file anywhere: where? */
long place_of_file(long unused, long unused2);

/* A group is found at exec: set /sys/kernel/mm/cohort/join, start again, run the cases. */
int join_main(int argc, char **argv, const char *mode, const struct test_case *cases, int n);

#endif
