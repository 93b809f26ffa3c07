/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A memory cgroup with a zygote and its children, to which the case sets limits.
 */
#ifndef COHORT_SELFTEST_FAIR_GROUP_H
#define COHORT_SELFTEST_FAIR_GROUP_H

#include "memory.h"

/*
 * Words on the board. A child of a full group says there what it has done: a pipe may need
 * a page, which is charged to the group.
 */
enum { CHILD, ANSWER = 16, DONE };	/* the children's PIDs begin at CHILD */

extern int number;	/* of a child in its group, from 0 */

/* A zygote in the group, with @n children that map the memory it touches and do @what. */
pid_t start_group(int n, void (*touch)(void), void (*what)(int said), int said, int go);
void do_nothing(int said);
void end_group(void);

/* From now on the group may use @more bytes more than it does. */
void limit_group(long more);

/* A child says that it is ready; the case waits for @n of them. */
void report(int fd);
void wait_for(int fd, int n);

/* Wait until the child of a full group has answered, or was killed. */
long wait_answer(void);

/* Is each page of each table that touch_many() has touched, from page @first on, as it was? */
void check_pages(pid_t pid, const char *who, int first);

/* In the group, but not of the cohort: of this size, and growing. */
void grow(size_t size, size_t more, int said, int go);

/*
 * Fill the memory of the group with another process of @size bytes that grows by @more, which
 * ends with the status that is returned.
 */
int fill_up(size_t size, size_t more);

/* The same in a group that has a zygote and its @n children. */
int fill_group(int n, void (*touch)(void), size_t size, size_t more, pid_t *zygote);

#endif
