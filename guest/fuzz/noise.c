// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A thread that touches pages while the burst changes them. Errno and TLS are the main
 * thread's: its system calls are raw.
 */
#include "worker.h"
#include "machine.h"

#include <sched.h>

static int noise_words[2];	/* run, parked */
static bool noise_alive;
static char noise_stack[32768] __attribute__((aligned(16)));

/*
 * Loads, and stores that change nothing: right whenever they happen. Private
 * file pages would be copied by a store, and later changes of the file missed:
 * stores stay in the chunks where the generator maps none in such a run.
 */
static int noise_main(void *arg)
{
	u64 x = (unsigned long)arg * 0x9e3779b97f4a7c15ULL + 1;

	for (;;) {
		u64 word;
		u32 page, cell, i;
		u64 *at;

		while (!__atomic_load_n(&noise_words[0], __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&noise_words[1], 1, __ATOMIC_RELEASE);
			raw_futex(&noise_words[0], FUTEX_WAIT_PRIVATE, 0);
		}
		__atomic_store_n(&noise_words[1], 0, __ATOMIC_RELEASE);
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		page = (x >> 8) % NR_PAGES;
		cell = (x >> 40) % CELLS;
		i = (x >> 48) % CELL_WORDS;
		at = (u64 *)page_addr(page) + cell * CELL_STRIDE + i;
		if ((page < NOISE_PAGES || page >= MAP_PAGES) && (x & 1)) {
			probe_add(at);
			continue;
		}
		if (probe_load(&word, at, 1) == 0 && word && (word & 0xff) != i)
			__atomic_store_n(&my->noise_bad, word, __ATOMIC_RELAXED);
	}
	return 0;
}

void noise(bool on)
{
	if (on && !noise_alive) {
		noise_words[1] = 1;
		if (clone(noise_main, noise_stack + sizeof(noise_stack),
			  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
			  CLONE_THREAD | CLONE_SYSVSEM,
			  (void *)(unsigned long)(my->id + 1)) < 0)
			return;
		noise_alive = true;
	}
	if (!noise_alive)
		return;
	__atomic_store_n(&noise_words[0], on, __ATOMIC_RELEASE);
	if (on)
		raw_futex(&noise_words[0], FUTEX_WAKE_PRIVATE, 1);
	else
		while (!__atomic_load_n(&noise_words[1], __ATOMIC_ACQUIRE))
			sched_yield();
}

void noise_forked(void)
{
	noise_alive = false;
	noise_words[0] = 0;
}
