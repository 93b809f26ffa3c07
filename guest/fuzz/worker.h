/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Declarations shared by the files of a worker. */
#ifndef FUZZ_WORKER_H
#define FUZZ_WORKER_H

#include "fuzz.h"

#include <signal.h>

extern u32 me;			/* slot */
extern struct slot *my;
extern u64 scratch[16 * PAGE / 8];

/*
 * Accesses that may fault. The handler sends a fault inside them to their end,
 * with the signal's number as the result; no state, so any thread may use them.
 *
 *   probe_load(to, from, words), probe_store(at, value, words): word i is
 *   value + i; probe_add(at): adds 0 to a word, a write that changes nothing
 */
long probe_load(u64 *to, const u64 *from, long words);
long probe_store(u64 *at, u64 value, long words);
long probe_add(u64 *at);
void on_fault(int sig, siginfo_t *info, void *context);

/* The place for the result of the next page. */
struct page_result *next_page(void);
/* The content of one page as its result, and the words of a page from a tag. */
void digest(const u64 *words, struct page_result *pr);
void fill_words(u64 *words, u64 tag);
u64 own_tag(u32 page, u32 seq);
u64 const_tag(u32 page, u32 arg);

s64 check_pages(u32 page, u32 n);
/*
 * Looks at pages all the time while slot @who is at work, and once more as soon
 * as it is done (its @round is over): on another processor, without a switch of
 * context in between, so that a translation out of date would still be there.
 */
s64 watch_pages(u32 page, u32 n, u32 who, u32 round);
s64 store_pages(u32 page, u32 n, u64 (*tag)(u32 page, u32 arg), u32 arg,
		u32 cells);

s64 execute(const struct cmd *cmd);

/* Executes the fuzzer again in this process, see start_by_exec(); returns if that fails. */
s64 become(u32 shift, u32 group);

/* Turn the thread on, or off and wait until it has stopped. */
void noise(bool on);
/* In a new process, which has no such thread yet. */
void noise_forked(void);

#endif
