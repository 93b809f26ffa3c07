// SPDX-License-Identifier: GPL-2.0-or-later
/* The cost of a fork of the zygote (Table 4). */
#include "zygote.h"

/* One fork of the given kind; its cost goes to @took and @in_fork. */
static void fork_round(pid_t (*forks)(void), uint64_t *took, struct counters *in_fork)
{
	uint64_t t0, t1;
	pid_t pid;

	counters_read(&s->reader, &s->before);
	t0 = ticks();
	pid = forks();
	if (!pid)
		bare_exit(0);
	t1 = ticks();
	counters_read(&s->reader, &s->forked);
	bare_wait(pid);
	counters_sub(&s->forked, &s->before);
	*took = t1 - t0;
	*in_fork = s->forked;
}

void run_fork(void)
{
	uint64_t first;

	if (opt.zygote)
		become_zygote(0);
	/* Report the first fork apart: it shares each table for the first time. */
	fork_round(bare_fork, &s->round[0].fork, &s->round[0].in_fork);
	first = s->round[0].fork;
	for (int i = 0; i < opt.rounds; i++)
		fork_round(bare_fork, &s->round[i].fork, &s->round[i].in_fork);
	/* The C library's, with the writes that it makes in the parent. */
	for (int i = -1; i < opt.rounds; i++) {
		int at = i < 0 ? 0 : i;

		fork_round(fork, &s->round[at].libc_fork, &s->round[at].in_libc_fork);
	}
	metric("first-fork-instructions", first, "instructions");
	for (int i = 0; i < opt.rounds; i++) {
		metric("fork-instructions", s->round[i].fork, "instructions");
		counters_print(&s->reader, &s->round[i].in_fork, "fork", "");
		metric("libc-fork-instructions", s->round[i].libc_fork, "instructions");
		counters_print(&s->reader, &s->round[i].in_libc_fork, "libc-fork", "");
	}
}
