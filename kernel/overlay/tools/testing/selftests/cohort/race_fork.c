// SPDX-License-Identifier: GPL-2.0-only
/*
 * Races of forks, threads that fault, and processes that leave. Each race runs
 * for a few seconds (-t). In any order, no process may see another's private
 * write, and none may lose its own.
 */
#include "race/race.h"

#include <pthread.h>
#include <sched.h>

static void test_fork_storm(long arg)
{
	int running = 0, most = quick ? 6 : 16, forked = 0;

	area_make(&area, ARG_KIND(arg));
	become_zygote();
	start_clock();
	while (time_left()) {
		fork_one(any(60));
		forked++;
		running++;
		/* the parent writes too, which only later children may see */
		for (int i = 0; i < 3; i++) {
			struct spot *s = any_spot();

			if (may_write(s)) {
				s->tag = 9900000u + any(10000);
				page_fill(s->addr, s->tag);
			} else {
				look(s);
			}
		}
		running -= reap(running >= most);
	}
	reap(running);
	note("%d forks", forked);
}

static void test_fork_tree(long arg)
{
	/* forks of forks: a sibling forks while another unshares the same table */
	int forked = 0;

	area_make(&area, ARG_KIND(arg));
	become_zygote();
	start_clock();
	while (time_left()) {
		for (int i = 0; i < 4; i++) {
			pid_t pid = fork();

			must(pid >= 0, "fork: %s", strerror(errno));
			if (pid) {
				forked++;
				continue;
			}
			for (int depth = 0; depth < 3; depth++) {
				live(any(20));
				pid = fork();
				must(pid >= 0, "fork: %s", strerror(errno));
				/* half of the time the parent lives on, or its child does */
				if (any(2) ? !pid : !!pid)
					continue;
				live(any(20));
				if (pid)
					reap(1);
				_exit(0);
			}
			reap(0);
			_exit(0);
		}
		reap(4);
	}
	note("%d trees", forked);
}

/* --- threads -------------------------------------------------------------- */

#define NR_THREADS	4

/*
 * Thread i owns the spots that are i modulo NR_THREADS and keeps checking and
 * changing them, so that faults of one address space meet under per-VMA locks.
 */
static void *worker(void *arg)
{
	long me = (long)arg;

	while (!stopping()) {
		int i = me + NR_THREADS * any((area.nspots - me + NR_THREADS - 1) / NR_THREADS);
		struct spot *s = &area.spot[i];

		look(s);
		if (may_write(s))
			scribble(s);
		if (!any(16) && !area.part[s->part].shared) {
			madvise(s->addr, page_size, MADV_DONTNEED);
			sees(page_is(s->addr, s->file_tag), "MADV_DONTNEED left something");
			mine[i] = NEVER;
			if (may_write(s))
				scribble(s);
		}
	}
	return NULL;
}

static void run_threads(double seconds)
{
	double end = now() + seconds;

	for (long i = 0; i < NR_THREADS; i++)
		start_thread(worker, (void *)i);
	while (now() < end)
		usleep(1000);
	stop_and_join();
}

static void test_threads(long arg)
{
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	start_clock();
	while (time_left()) {
		for (int i = 0; i < 3; i++) {
			pid_t pid = fork();

			must(pid >= 0, "fork: %s", strerror(errno));
			if (!pid) {
				run_threads(0.05);
				for (int j = 0; j < area.nspots; j++)
					look(&area.spot[j]);
				_exit(0);
			}
		}
		reap(3);
		for (int j = 0; j < area.nspots; j++)
			look(&area.spot[j]);
	}
}

/* A fork takes a snapshot: a thread's write happens before it or after it. */
static void *counter(void *arg)
{
	unsigned long *word = arg;

	while (!stopping())
		__atomic_add_fetch(word, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void test_fork_while_writing(long arg)
{
	unsigned long *word[NR_THREADS];
	int forked = 0;

	area_make(&area, ARG_KIND(arg));
	/* one counter per page, in different regions where there are some */
	for (int i = 0; i < NR_THREADS; i++) {
		int j = area.nspots * i / NR_THREADS;

		while (!may_write(&area.spot[j]))
			j = (j + 1) % area.nspots;
		word[i] = (unsigned long *)area.spot[j].addr;
		word[i] += i;
		*word[i] = 0;
	}
	become_zygote();
	for (long i = 0; i < NR_THREADS; i++)
		start_thread(counter, word[i]);
	start_clock();
	while (time_left()) {
		unsigned long before[NR_THREADS];
		pid_t pid;

		for (int i = 0; i < NR_THREADS; i++)
			before[i] = __atomic_load_n(word[i], __ATOMIC_RELAXED);
		pid = fork();
		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid) {
			unsigned long then[NR_THREADS];

			for (int i = 0; i < NR_THREADS; i++) {
				then[i] = __atomic_load_n(word[i], __ATOMIC_RELAXED);
				sees(then[i] >= before[i], "the child's picture is from before");
			}
			for (int round = 0; round < 5; round++) {
				sched_yield();
				for (int i = 0; i < NR_THREADS; i++)
					sees(__atomic_load_n(word[i], __ATOMIC_RELAXED) == then[i],
					     "the child sees its parent's thread write");
			}
			*word[0] = 1;
			_exit(0);
		}
		for (int i = 0; i < NR_THREADS; i++)
			sees(__atomic_load_n(word[i], __ATOMIC_RELAXED) >= before[i],
			     "the parent's counter went back");
		forked++;
		if (forked % 4 == 0)
			reap(4);
	}
	stop_and_join();
	reap(forked % 4);
	note("%d forks", forked);
}

/* --- many leave at once --------------------------------------------------- */

static void test_exit_at_once(long arg)
{
	int n = quick ? 16 : 48, rounds = 0;

	area_make(&area, ARG_KIND(arg));
	become_zygote();
	start_clock();
	while (time_left() || !rounds) {
		pid_t child[48];
		int gate[2];

		must_call(pipe(gate));
		for (int i = 0; i < n; i++) {
			child[i] = fork();
			must(child[i] >= 0, "fork: %s", strerror(errno));
			if (!child[i]) {
				char c;

				close(gate[1]);
				/* some have unshared by then, most have not */
				if (i % 5 == 0)
					live(5);
				read(gate[0], &c, 1);
				if (i % 3 == 0)
					look(any_spot());
				_exit(0);
			}
		}
		close(gate[0]);
		if (rounds % 2) {
			/* all exit by themselves */
			close(gate[1]);
			reap(n);
		} else {
			int status;

			for (int i = 0; i < n; i++)
				kill(child[i], SIGKILL);
			for (int i = 0; i < n; i++)
				must(waitpid(child[i], &status, 0) == child[i], "waitpid: %s",
				     strerror(errno));
			close(gate[1]);
		}
		for (int i = 0; i < area.nspots; i++)
			look(&area.spot[i]);
		rounds++;
	}
	note("%d rounds of %d", rounds, n);
}

/* The zygote unmaps while its children read: no page may disappear for them. */
static void test_unmap_while_read(long arg)
{
	int n = 4, rounds = 0;

	start_clock();
	while (time_left() || !rounds) {
		memset(mine, 0, sizeof(mine));
		area_make(&area, ARG_KIND(arg));
		become_zygote();
		for (int i = 0; i < n; i++)
			fork_one(quick ? 100 : 300);
		usleep(any(2000));
		if (any(2)) {
			area_unmap(&area);
		} else {
			/* page by page, from both ends */
			for (int i = 0; i < area.nspots / 2; i++) {
				munmap(area.spot[i].addr, page_size);
				munmap(area.spot[area.nspots - 1 - i].addr, page_size);
			}
			area_unmap(&area);
		}
		reap(n);
		for (int i = 0; i < area.nparts; i++)
			if (area.part[i].fd >= 0)
				close(area.part[i].fd);
		rounds++;
	}
	note("%d rounds", rounds);
}

/* --- a fork that does not share, of a table that a thread unshares ---------- */

#define HALF	256

struct pair {
	char *base;		/* two regions in one table */
	unsigned int *go;	/* tells the former sharer to go on */
};

static void *write_second_half(void *p)
{
	struct pair *pair = p;

	*(volatile unsigned int *)pair->go = 1;
	for (volatile unsigned int i = any(20000); i; i--)
		;
	page_fill(pair->base + (HALF + any(HALF)) * page_size, 3);
	return NULL;
}

static void write_first_half(struct pair *pair, unsigned int tag)
{
	for (int i = 0; i < HALF; i += 4)
		page_fill(pair->base + i * page_size, tag + i);
}

static void first_half_is(struct pair *pair, unsigned int tag, const char *who)
{
	for (int i = 0; i < HALF; i += 4)
		sees(page_is(pair->base + i * page_size, tag + i), "%s: page %d is another's", who,
		     i);
}

static void copy_while_unsharing(struct pair *pair)
{
	pthread_t thread;
	pid_t sharer, copy;
	int status;

	*pair->go = 0;
	write_first_half(pair, 1000);
	page_fill(pair->base + HALF * page_size, 2);
	must_call(prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0));
	sharer = fork();
	if (!sharer) {
		while (!*(volatile unsigned int *)pair->go)
			;
		/* it is the table's last user by now, or soon */
		write_first_half(pair, 7000);
		first_half_is(pair, 7000, "the sharer");
		_exit(0);
	}
	must_call(prctl(PR_SET_COHORT, 0, 0, 0, 0));
	must(!pthread_create(&thread, NULL, write_second_half, pair), "no thread");
	copy = fork();
	if (!copy) {
		first_half_is(pair, 1000, "the copy");
		_exit(0);
	}
	must(sharer > 0 && copy > 0, "fork: %s", strerror(errno));
	pthread_join(thread, NULL);
	first_half_is(pair, 1000, "the parent");
	must(waitpid(sharer, &status, 0) == sharer && !status, "the sharer: %x", status);
	must(waitpid(copy, &status, 0) == copy && !status, "the copy: %x", status);
}

static void test_copy_while_unsharing(long arg)
{
	struct pair pair = { .base = arena(1) };

	if (cohort_mode == MODE_STOCK)
		skip("no Cohort");
	pair.go = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	map_at(pair.base, 2 * HALF * page_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	no_huge_pages(pair.base, 2 * HALF * page_size);
	/* no fault in one region waits for the other's lock */
	must_call(madvise(pair.base + HALF * page_size, HALF * page_size, MADV_DONTDUMP));
	start_clock();
	while (time_left())
		copy_while_unsharing(&pair);
}

static const struct test_case cases[] = {
	{ "Children of a busy zygote see nothing of each other", test_fork_storm, 0, ROUGH, QUICK,
	  .guards = INVARIANT(2) | INVARIANT(11) | INVARIANT(12) },
	{ "Forks of forks see nothing of each other", test_fork_tree, 0, ROUGH, QUICK,
	  .guards = INVARIANT(2) | INVARIANT(11) | INVARIANT(12) },
	{ "Threads that fault and unshare at once lose nothing", test_threads, 0, ROUGH, QUICK,
	  .guards = INVARIANT(2) | INVARIANT(11) | INVARIANT(12) },
	{ "A fork is a snapshot, whatever threads write meanwhile", test_fork_while_writing, 0,
	  LOCKED | KIND(BORDERS), QUICK, .guards = INVARIANT(2) | INVARIANT(4) },
	{ "A fork outside the cohort is a snapshot", test_copy_while_unsharing,
	  .guards = INVARIANT(12) },
	{ "Many that leave at once leave the zygote's memory alone", test_exit_at_once, 0, ROUGH,
	  QUICK, .guards = INVARIANT(5) | INVARIANT(11) },
	{ "Children read on while the zygote unmaps", test_unmap_while_read, 0, ROUGH, QUICK,
	  .guards = INVARIANT(5) | INVARIANT(11) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
