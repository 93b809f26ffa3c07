/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the files of the controller. */
#ifndef FUZZ_CONTROL_H
#define FUZZ_CONTROL_H

#include "fuzz.h"

/* The work done until now. */
extern u64 ops, rounds, forks, execs;

double now_seconds(void);

void *shared_memory(unsigned long at, size_t size);
/*
 * Without a race all run on one processor: a message to another one is slow, and
 * under emulation slower than all else.
 */
void choose_processors(bool race);

void first_worker(void);
void kill_all(void);
/* All processes exit at once. */
void exit_all(void);

void run_round(struct round *round);
/* Every page of every process that holds something, and all accounts. */
void look_at_all(void);

#endif
