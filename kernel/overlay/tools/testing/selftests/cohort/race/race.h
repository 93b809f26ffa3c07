/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the races: a clock, random numbers, and children that use the memory. */
#ifndef COHORT_SELFTEST_RACE_H
#define COHORT_SELFTEST_RACE_H

#include "../common.h"

/* tags that this process wrote to private pages; NEVER: the zygote's content */
#define NEVER	0
extern unsigned int mine[MAX_SPOTS];

bool time_left(void);
void start_clock(void);
unsigned int any(unsigned int n);
struct spot *any_spot(void);
bool may_write(const struct spot *s);
void look(const struct spot *s);
void scribble(const struct spot *s);
void live(int steps);
pid_t fork_one(int steps);
int reap(int least);

#define ROUGH	(KIND(ANON) | KIND(PRIV_FILE) | KIND(PRIV_FILE_RO) | KIND(MIXED) | KIND(BORDERS))
#define QUICK	(KIND(ANON) | KIND(MIXED))
#define FILES	(KIND(PRIV_FILE) | KIND(PRIV_DISK) | KIND(SHARED_FILE) | KIND(SHARED_DISK))
#define LOCKED	(KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED))

#endif
