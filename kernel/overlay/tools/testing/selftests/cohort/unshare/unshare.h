/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaving a shared table: whatever one process does to its address space, only
 * that process may notice. Each action is done by the parent, by a child, and
 * by a child whose parent has gone, and all the others look on.
 */
#ifndef COHORT_SELFTEST_UNSHARE_H
#define COHORT_SELFTEST_UNSHARE_H

#include "../common.h"

enum {
	BY_FAULT = 1, BY_MAP = 2, BY_UNMAP = 4, BY_CHANGE = 8, BY_LEAVING = 16,
};

/* what an action works on: the whole of a part, or the middle third of it */
struct range {
	char *start;
	size_t len;
	struct part *part;
};

struct range whole(int part);
struct range middle(int part);
struct range one_page(char *addr);
bool inside(const struct want *w, struct range r);

/* --- how an action changes what its process must see ---------------------- */

void now_acc(struct model *m, struct range r, enum access acc);
void now_dropped(struct model *m, struct range r);
void now_private_zero(struct model *m, struct range r);
struct want *add_want(struct model *m, char *addr, unsigned int tag, enum access acc);
void now_moved(struct model *m, struct range r, char *to, enum access left);

/* --- the actions ---------------------------------------------------------- */

/*
 * Each runs in the process that acts, changes m, the model of that process, and
 * returns with the work done or gives up with skip() or fail().
 */
typedef void (*action_fn)(struct model *m, long me);

#define ALL	ALL_KINDS
#define ANONS	(KIND(ANON) | KIND(HEAP) | KIND(BORDERS) | KIND(NEAR_THP))
#define PRIVATE	(ANONS | KIND(PRIV_FILE) | KIND(PRIV_DISK))
#define SHARED	(KIND(SHARED_FILE) | KIND(SHARED_DISK) | KIND(SHARED_ANON) | KIND(MEMFD) | \
		 KIND(SYSV))
#define WRITABLE (PRIVATE | SHARED | KIND(MIXED))
/* one region, so that one mremap call can take it */
#define MOVABLE	(ALL & ~KIND(NEAR_THP))
#define GROWABLE (MOVABLE & ~KIND(HEAP) & ~KIND(SYSV))
#define HOLED	(KIND(MIXED) | KIND(BORDERS))

struct action {
	const char *desc;
	action_fn fn;
	unsigned int kinds;
	unsigned int causes;		/* at least one of these counters must grow */
	void (*fork_view)(struct model *m);
	unsigned int guards;
};

int run_actions(int argc, char **argv, const struct action *list, int nr,
		const struct test_case *more_cases, int nr_more);

#endif
