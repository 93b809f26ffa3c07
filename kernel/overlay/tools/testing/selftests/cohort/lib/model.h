/* SPDX-License-Identifier: GPL-2.0-only */
/* What each process must see. */
#ifndef COHORT_SELFTEST_MODEL_H
#define COHORT_SELFTEST_MODEL_H

#include "area.h"
#include "peer.h"

enum access { NONE, BUS, READ, WRITE };

struct want {
	char *addr;
	unsigned int tag;
	short id;		/* which spot this began as */
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
 * Memory that all processes of a case share, for what they tell each other.
 * It is the only thing the framework itself keeps in shared memory.
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
/* look at everything that process `who` must see (run it there) */
long model_check(long who, long unused);
/* write new tags wherever `who` may write (run it there), note who sees them */
long model_scribble(long who, long nr_models);
void model_check_all(int n);
void model_scribble_all(int n);
/* both, twice: nothing may be left that only a write brings out */
void models_right(int n);
/* fork so many peers of the process that runs the case, and a model of each of them */
void spawn_models(int peers, const struct area *a);
/* the same for a new `area` of a zygote */
void start_models(enum kind kind, int children);

#endif
