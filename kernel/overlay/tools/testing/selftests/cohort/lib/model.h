/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory that each process must see. */
#ifndef COHORT_SELFTEST_MODEL_H
#define COHORT_SELFTEST_MODEL_H

#include "area.h"
#include "peer.h"

enum access { NONE, BUS, READ, WRITE };

struct want {
	char *addr;
	unsigned int tag;
	short id;		/* the index of its spot */
	unsigned char acc;
	bool shared;		/* a write here is seen through every mapping */
	bool or_zero;		/* MADV_FREE: the old page or zeros */
};

#define MAX_WANTS	192
#define MAX_MODELS	8

struct model {
	int n;
	struct want want[MAX_WANTS];
};

/*
 * What the processes of a case exchange. The framework keeps nothing else in
 * shared memory.
 */
struct board {
	int verdict;
	char reason[300];
	pid_t pid[MAX_PEERS];
	struct model model[MAX_MODELS];
	long word[64];
};

extern struct board *board;

void model_init(struct model *m, const struct area *a);
/* check all that process `who` must see (run it there) */
long model_check(long who, long unused);
/* write new tags where `who` may write (run it there), and update all models */
long model_scribble(long who, long nr_models);
void model_check_all(int n);
void model_scribble_all(int n);
/* check and write twice: a write may reveal what a check did not */
void models_right(int n);
/* fork this many peers from the case's process, each with a model */
void spawn_models(int peers, const struct area *a);
/* the same for a new `area`, as a zygote */
void start_models(enum kind kind, int children);

#endif
