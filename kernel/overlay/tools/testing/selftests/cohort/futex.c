// SPDX-License-Identifier: GPL-2.0-only
/*
 * Futexes, and the word that the kernel clears when a thread ends: which process
 * sees which write?
 */
#include "common.h"

#include <linux/futex.h>
#include <pthread.h>

static long futex(unsigned int *word, int op, unsigned int val, void *timeout,
		  unsigned int *word2, unsigned int val3)
{
	long ret = syscall(__NR_futex, word, op, val, timeout, word2, val3);

	return ret < 0 ? -errno : ret;
}

/* wait until the word leaves 0; 0 if woken, -ETIMEDOUT if not */
static long futex_wait(long addr, long flags)
{
	struct timespec limit = { .tv_sec = flags & 0x10000 ? 0 : 30, .tv_nsec = 100000000 };

	return futex((unsigned int *)addr, FUTEX_WAIT | (flags & 0xffff), 0, &limit, NULL, 0);
}

static void test_futex_shared(long arg)
{
	unsigned int *word;
	long woken;

	start_models(ARG_KIND(arg), 2);
	/* a page that no process has touched: the futex call faults it in */
	word = (unsigned int *)area.spot[2].addr;
	sees(!*word, "the spot is not empty");
	for (int waker = 0; waker <= 2; waker += 2) {
		tell(1, futex_wait, (long)word, 0);
		do {
			usleep(2000);
			woken = futex(word, FUTEX_WAKE, 1, NULL, NULL, 0);
			must(woken >= 0, "FUTEX_WAKE: %s", strerror(-woken));
			must(woken || !is_gone(pid_of(1)), "the waiter is gone");
		} while (!woken);
		must(!answer(1), "the waiter was not woken");
	}
}

static void test_futex_private(long arg)
{
	unsigned int *word;
	long woken = 0;

	/* a private futex at the same address in another process is another futex */
	start_models(ARG_KIND(arg), 1);
	word = (unsigned int *)area.spot[2].addr;
	sees(!*word || area.spot[2].file_tag, "the spot is not empty");
	page_fill(word, 0);
	spawn(2);
	for (int flags = 0; flags <= FUTEX_PRIVATE_FLAG; flags += FUTEX_PRIVATE_FLAG) {
		tell(2, futex_wait, (long)word, 0x10000 | flags);
		for (int i = 0; i < 10; i++) {
			usleep(5000);
			woken += futex(word, FUTEX_WAKE | flags, 1, NULL, NULL, 0);
		}
		must(!woken, "a private futex was woken from another process");
		must(answer(2) == -ETIMEDOUT, "the waiter was woken");
	}
}

static long futex_write(long addr, long unused)
{
	unsigned int *word = (unsigned int *)addr;
	long ret;

	/* the kernel itself writes the word: set it to 5 */
	ret = futex(word + 1, FUTEX_WAKE_OP, 0, NULL, word,
		    FUTEX_OP(FUTEX_OP_SET, 5, FUTEX_OP_CMP_EQ, 0));
	sees(ret >= 0 && *word == 5, "FUTEX_WAKE_OP: %s", strerror(-ret));
	/* the kernel writes the id of the owner */
	word[2] = 0;
	ret = futex(word + 2, FUTEX_LOCK_PI, 0, NULL, NULL, 0);
	must(!ret && (word[2] & FUTEX_TID_MASK) == (unsigned int)getpid(), "FUTEX_LOCK_PI: %s",
	     strerror(-ret));
	must(!futex(word + 2, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0), "FUTEX_UNLOCK_PI");
	return 0;
}

static long word_is(long addr, long value)
{
	return *(unsigned int *)addr == (unsigned int)value;
}

static void test_futex_write(long arg)
{
	unsigned int *word;

	area_make(&area, ARG_KIND(arg));
	word = (unsigned int *)area.spot[0].addr;
	page_fill(word, 0);
	become_zygote();
	spawn(1);
	spawn(2);
	ask(1, futex_write, (long)word, 0);
	sees(ask(1, word_is, (long)word, 5), "the futex operation is lost");
	sees(word_is((long)word, 0), "the parent sees a child's futex operation");
	sees(ask(2, word_is, (long)word, 0), "a sibling sees a child's futex operation");
	futex_write((long)word, 0);
	sees(ask(2, word_is, (long)word, 0), "a child sees the parent's futex operation");
}

static void *tid_thread(void *word)
{
	/* when this thread ends, the kernel writes 0 here */
	syscall(__NR_set_tid_address, word);
	syscall(__NR_exit, 0);
	return NULL;
}

static long end_thread(long addr, long unused)
{
	unsigned int *word = (unsigned int *)addr;
	pthread_t thread;
	int i;

	must(!pthread_create(&thread, NULL, tid_thread, word), "no thread");
	for (i = 0; i < 20000 && __atomic_load_n(word, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	return *word;
}

static void test_clear_tid(long arg)
{
	unsigned int *word;

	area_make(&area, ARG_KIND(arg));
	word = (unsigned int *)area.spot[0].addr;
	become_zygote();
	spawn(1);
	spawn(2);
	must(!ask(1, end_thread, (long)word, 0), "the kernel did not clear the word");
	spots_intact((long)&area, 0);
	ask(2, spots_intact, (long)&area, 0);
}

#define PRIVATE		(KIND(ANON) | KIND(PRIV_FILE) | KIND(HEAP))
#define QUICK_PRIVATE	(KIND(ANON) | KIND(PRIV_FILE))

static const struct test_case cases[] = {
	{ "Does a shared futex wake a sharer?", test_futex_shared, 0, KIND(SHARED_ANON) |
	  KIND(MEMFD) | KIND(SYSV), .guards = STOCK },
	{ "Does a private futex stay private?", test_futex_private, 0, PRIVATE, QUICK_PRIVATE,
	  .guards = STOCK },
	{ "Who sees what a futex operation writes?", test_futex_write, 0, PRIVATE,
	  .guards = INVARIANT(2) },
	{ "Who sees the word that the kernel clears when a thread ends?", test_clear_tid, 0,
	  PRIVATE, .guards = INVARIANT(2) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
