/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the files of this program. */
#ifndef ZYGOTE_H
#define ZYGOTE_H

#include "../lib/counters.h"
#include "../lib/pages.h"
#include "../lib/process.h"
#include "part.h"

#define MAX_ROUNDS 200
#define MAX_CODE_PAGES 65536

struct options {
	const char *what;
	bool zygote;
	bool separate;
	bool tlb;
	bool server;
	bool beside;
	int rounds;
	long calls;
	size_t code, copied;
};

/* Data written while a child is alive; fork leaves it out. */
struct scratch {
	struct counter_reader reader;
	struct counters before, forked, after;
	struct {
		uint64_t fork, libc_fork, launch, fork_launch;
		uint64_t faults, shared, tables;
		struct counters in_fork, in_libc_fork, in_launch;
	} round[MAX_ROUNDS];
	unsigned char finds[MAX_CODE_PAGES];
	struct regions regions;
};

extern struct options opt;
extern struct scratch *s;

/* Populate @want code entries, those of what this program runs meanwhile included. */
void populate_code_about(size_t want);
/* Grow the heap until a stock fork copies @want entries. */
void populate_heap(size_t want);

void run_fork(void);
void run_inherit(void);
void run_ipc(void);
void run_beside(void);
void run_launch(void);
void run_footprint(void);

#endif
