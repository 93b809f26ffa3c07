// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared pages that are swapped out, and sharers that are killed when memory is
 * short: a page is taken from every sharer, and every sharer gets the same one
 * back.
 */
#include "common.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static int mapped_spots(int who)
{
	int n = 0;

	for (int i = 0; i < area.nspots; i++)
		if (pagemap_entry(pid_of(who), area.spot[i].addr) & PM_PRESENT)
			n++;
	return n;
}

/*
 * Reclaim all pages of the area from all processes. The zero page stays, and something else
 * may hold a few pages for a while, which is harmless.
 */
static void take_pages(unsigned int procs)
{
	int left = -1, before = -1, same = 0;

	for (int i = 0; i < 20 && left && same < 2; i++) {
		press();
		left = 0;
		for (int who = 0; procs >> who; who++)
			if (procs & 1u << who)
				left += mapped_spots(who);
		same = left == before ? same + 1 : 0;
		before = left;
	}
}

static bool any_swapped(int who)
{
	for (int i = 0; i < area.nspots; i++)
		if (pagemap_entry(pid_of(who), area.spot[i].addr) & PM_SWAP)
			return true;
	return false;
}

/* --- swapped out under sharers -------------------------------------------- */

static void test_swap(long arg)
{
	enum kind kind = ARG_KIND(arg);

	need_cgroup();
	need_swap();
	start_models(kind, 3);
	for (int first = 0; first <= 3; first++) {
		take_pages(0xf);
		if (!first && kind_anon(kind))
			must(any_swapped(1), "nothing was swapped out");
		/* each process in turn is the first to swap the pages in */
		for (int i = 0; i <= 3; i++)
			ask((first + i) % 4, model_check, (first + i) % 4, 0);
		take_pages(0xf);
		ask(first, model_scribble, first, 4);
		take_pages(0xf);
		model_check_all(4);
	}
	take_pages(0xf);
	model_scribble_all(4);
	model_check_all(4);
}

static void test_swap_read_twice(long arg)
{
	need_cgroup();
	need_swap();
	start_models(ARG_KIND(arg), 3);
	/*
	 * swapped in by one process, reclaimed, read by another: it must not get
	 * an old page
	 */
	for (int round = 0; round < (quick ? 2 : 6); round++) {
		take_pages(0xf);
		ask(1, model_check, 1, 0);
		take_pages(0xf);
		ask(2, model_check, 2, 0);
		take_pages(0xf);
		ask(3, model_scribble, 3, 4);
		take_pages(0xf);
		model_check_all(4);
	}
}

static void test_swap_leave(long arg)
{
	need_cgroup();
	need_swap();
	start_models(ARG_KIND(arg), 3);
	take_pages(0xf);
	quit(1);
	board->model[1].n = 0;
	model_check_all(4);
	take_pages(0xd);
	area_unmap(&area);
	board->model[0].n = 0;
	ask(2, model_check, 2, 0);
	take_pages(0xc);
	/* fork while swapped out: the fork shares or copies swap entries */
	spawn_from(2, 4);
	board->model[4] = board->model[2];
	ask(4, model_check, 4, 0);
	take_pages(0x1c);
	kill_peer(3);
	board->model[3].n = 0;
	ask(4, model_scribble, 4, 5);
	model_check_all(5);
	quit(2);
	board->model[2].n = 0;
	take_pages(0x10);
	model_check_all(5);
}

static long free_all(long a, long b)
{
	for (int i = 0; i < area.nparts; i++)
		if (!area.part[i].shared && area.part[i].fd < 0)
			madvise(area.part[i].addr, area.part[i].len, MADV_FREE);
	return 0;
}

static void test_free_under_pressure(long arg)
{
	need_cgroup();
	need_swap();
	start_models(ARG_KIND(arg), 3);
	/* one process gives the pages up; for the others they are data */
	ask(1, free_all, 0, 0);
	for (int i = 0; i < area.nspots; i++)
		if (!area.part[area.spot[i].part].shared && area.part[area.spot[i].part].fd < 0)
			board->model[1].want[i].or_zero = true;
	take_pages(0xf);
	model_check_all(4);
	take_pages(0xf);
	model_scribble_all(4);
	take_pages(0xf);
	model_check_all(4);
}

/* Swap out before the fork: with one owner this needs no cgroup. */
static bool page_out(void)
{
	for (int i = 0; i < 10; i++) {
		for (int p = 0; p < area.nparts; p++)
			madvise(area.part[p].addr, area.part[p].len, MADV_PAGEOUT);
		if (any_swapped(SELF))
			return true;
		usleep(10000);
	}
	return false;
}

static void test_fork_swapped(long arg)
{
	need_swap();
	for (int first = 0; first <= 2; first++) {
		area_make(&area, ARG_KIND(arg));
		if (!page_out())
			skip("MADV_PAGEOUT swaps nothing out");
		become_zygote();
		for (int i = 0; i <= 2; i++) {
			if (i)
				spawn(i);
			model_init(&board->model[i], &area);
		}
		for (int i = 0; i <= 2; i++) {
			int who = (first + i) % 3;

			ask(who, i == 1 ? model_scribble : model_check, who, 3);
		}
		model_check_all(3);
		model_scribble_all(3);
		model_check_all(3);
		for (int i = 1; i <= 2; i++)
			quit(i);
	}
}

static void off_and_on(void)
{
	must(swap_off(), "swapoff: %s", strerror(errno));
	must(swap_on(), "swapon: %s", strerror(errno));
}

static long opt_out(long a, long b)
{
	return prctl(PR_SET_COHORT, 0, 0, 0, 0);
}

static void test_swapoff(long arg)
{
	__u64 entry;

	need_swap();
	for (int way = 0; way < 5; way++) {
		area_make(&area, ARG_KIND(arg));
		if (!page_out())
			skip("MADV_PAGEOUT swaps nothing out");
		become_zygote();
		for (int i = 0; i <= 2; i++) {
			if (i)
				spawn(i);
			model_init(&board->model[i], &area);
		}
		switch (way) {
		case 0:
			/* all are there */
			off_and_on();
			break;
		case 1:
			/*
			 * only a grandchild is left, forked while everything was
			 * swapped out
			 */
			spawn_from(1, 3);
			board->model[3] = board->model[1];
			quit(1);
			quit(2);
			area_unmap(&area);
			memset(board->model, 0, 3 * sizeof(*board->model));
			off_and_on();
			break;
		case 2:
			/* one process has swapped some in, another has written some */
			ask(1, spots_touch, (long)&area, 0);
			ask(2, model_scribble, 2, 3);
			off_and_on();
			break;
		case 3:
			/* the owner has gone */
			area_unmap(&area);
			board->model[0].n = 0;
			off_and_on();
			break;
		case 4:
			/* a grandchild has copies of entries that its parent only shares */
			ask(1, opt_out, 0, 0);
			spawn_from(1, 3);
			board->model[3] = board->model[1];
			off_and_on();
			break;
		}
		model_check_all(4);
		for (int i = 0; i < area.nspots; i++)
			for (int who = 0; who < 4; who++) {
				if (!board->model[who].n)
					continue;
				entry = pagemap_entry(pid_of(who), area.spot[i].addr);
				must(!(entry & PM_SWAP), "process %d has a page where swap is off",
				     who);
			}
		model_scribble_all(4);
		model_check_all(4);
		for (int i = 1; i <= 3; i++) {
			if (board->model[i].n)
				quit(i);
			board->model[i].n = 0;
		}
		if (board->model[0].n)
			area_unmap(&area);
	}
}

/* of many shared tables, one has a page in swap */
static void test_swapoff_spares(long arg)
{
	const int tables = 16;
	long before, after;
	char *p, *out;

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	need_swap();
	p = map_at(arena(tables), tables * table_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(p, tables * table_size, MADV_NOHUGEPAGE);
	for (int i = 0; i < tables; i++)
		page_fill(p + i * table_size, i + 1);
	out = p + 5 * table_size;
	for (int i = 0; i < 10 && !(pagemap_entry(SELF, out) & PM_SWAP); i++) {
		madvise(out, page_size, MADV_PAGEOUT);
		usleep(10000);
	}
	if (!(pagemap_entry(SELF, out) & PM_SWAP))
		skip("MADV_PAGEOUT swaps nothing out");
	become_zygote();
	for (int i = 1; i <= 2; i++) {
		spawn(i);
		ask(i, nothing, 0, 0);
	}
	before = shared_tables(pid_of(1));
	must(before >= tables, "a child shares %ld tables of %d", before, tables);
	off_and_on();
	after = shared_tables(pid_of(1));
	must(!(pagemap_entry(pid_of(1), out) & PM_SWAP), "the page is still in swap");
	/* this process has written its own data meanwhile, which unshares a table or two */
	must(after > before - tables / 2, "of %ld tables that a child shared, swapoff left %ld",
	     before, after);
	for (int i = 0; i < tables; i++)
		sees(page_is(p + i * table_size, i + 1), "page %d has changed", i);
}

static void wake_up(int signal)
{
}

/*
 * A child unshares a table that is swapped out, and so has copies of its entries; nothing
 * else of the child was ever in swap. If swapoff does not find it, it searches for ever.
 */
static void test_swapoff_copies(long arg)
{
	struct sigaction action = { .sa_handler = wake_up };
	size_t pages = table_size / page_size;
	int to[2], from[2];
	pid_t pid;
	char *p, c;

	need_swap();
	p = map_at(arena(1), table_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	madvise(p, table_size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		p[i * page_size] = i % 100 + 1;
	for (int i = 0; i < 20 && !(pagemap_entry(SELF, p + page_size) & PM_SWAP); i++)
		madvise(p, table_size, MADV_PAGEOUT);
	if (!(pagemap_entry(SELF, p + page_size) & PM_SWAP))
		skip("MADV_PAGEOUT swaps nothing out");
	become_zygote();
	must_call(pipe(to));
	must_call(pipe(from));
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		p[0] = 101;
		if (write(from[1], "", 1) != 1 || read(to[0], &c, 1) != 1 || p[0] != 101)
			_exit(1);
		for (size_t i = 1; i < pages; i++)
			if (p[i * page_size] != (char)(i % 100 + 1))
				_exit(2);
		_exit(0);
	}
	must(read(from[0], &c, 1) == 1, "the child ended too soon");
	/* swapoff ends at a signal */
	must_call(sigaction(SIGALRM, &action, NULL));
	alarm(20);
	off_and_on();
	alarm(0);
	must(!(pagemap_entry(pid, p + page_size) & PM_SWAP), "the child has a page in swap");
	must(write(to[1], "", 1) == 1, "the child is gone");
	must(waitpid(pid, &to[0], 0) == pid && WIFEXITED(to[0]) && !WEXITSTATUS(to[0]),
	     "the child does not find its pages");
}

static void test_many_swapped(long arg)
{
	/* more sharers than the byte of a swap entry counts (62) */
	int n = quick ? 66 : 90;

	need_swap();
	need_peers(n);
	area_make(&area, ARG_KIND(arg));
	if (!page_out())
		skip("MADV_PAGEOUT swaps nothing out");
	become_zygote();
	for (int i = 1; i <= n; i++)
		spawn(i);
	/* each process writes one page, which unshares all entries of the table */
	for (int i = 1; i <= n; i++) {
		struct model *m = &board->model[1];

		model_init(m, &area);
		m->n = 1;
		ask(i, model_scribble, 1, 0);
	}
	for (int i = 1; i <= n; i++) {
		struct model *m = &board->model[1];

		model_init(m, &area);
		m->want[0].acc = NONE;
		m->want[0] = m->want[--m->n];
		ask(i, model_check, 1, 0);
		if (i % 3 == 0)
			quit(i);
	}
	spots_intact((long)&area, 0);
}

/* --- when memory is short ------------------------------------------------- */

static long eat(long bytes, long b)
{
	write_text("/proc/self/oom_score_adj", "1000");
	for (;;) {
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return 0;
		memset(p, 1, bytes);
	}
}

static void test_oom(long arg)
{
	need_cgroup();
	must(swap_off(), "swapoff: %s", strerror(errno));
	start_models(ARG_KIND(arg), 3);
	must(!write_text(CGROUP "memory.max", "48M"), "memory.max");
	tell(2, eat, 1 << 20, 0);
	wait_gone(2);
	board->model[2].n = 0;
	write_text(CGROUP "memory.max", "max");
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
}

static void test_mrelease(long arg)
{
	int pidfd;

	start_models(ARG_KIND(arg), 3);
	pidfd = syscall(__NR_pidfd_open, pid_of(1), 0);
	must(pidfd >= 0, "pidfd_open: %s", strerror(errno));
	must_call(kill(pid_of(1), SIGKILL));
	/* it may be gone (ESRCH) or not dead yet (EAGAIN, EINVAL) */
	syscall(__NR_process_mrelease, pidfd, 0);
	close(pidfd);
	wait_gone(1);
	board->model[1].n = 0;
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
}

/*
 * Process @pid is killed, but stopped on its way out, with its memory: as one that waits
 * for a lock.
 */
static void kill_half(pid_t pid)
{
	int status;

	must(!ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT), "ptrace: %s", strerror(errno));
	must_call(kill(pid, SIGKILL));
	must(waitpid(pid, &status, __WALL) == pid, "waitpid: %s", strerror(errno));
	must(status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8),
	     "a killed process does not stop at its exit: %#x", status);
}

static void release(pid_t pid)
{
	int pidfd = syscall(__NR_pidfd_open, pid, 0);

	must(pidfd >= 0, "pidfd_open: %s", strerror(errno));
	must_call(syscall(__NR_process_mrelease, pidfd, 0));
	close(pidfd);
}

#define VICTIMS	3

/* Fill @len bytes, and let two children map them too; say who these are. */
static void be_victims(size_t len, int said)
{
	pid_t pid[VICTIMS] = { getpid() };
	char *p;

	p = map_at(arena(len / table_size), len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	no_huge_pages(p, len);
	memset(p, 1, len);
	become_zygote();
	for (int i = 1; i < VICTIMS; i++) {
		pid[i] = fork();
		must(pid[i] >= 0, "fork: %s", strerror(errno));
		if (!pid[i])
			for (;;)
				pause();
	}
	if (write(said, pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	for (;;)
		pause();
}

/* All sharers are killed and none can end: their memory is free all the same. */
static void test_mrelease_all(long arg)
{
	size_t len = (table_size > 2 << 20 ? 1 : 8) * table_size;
	pid_t pid[VICTIMS];
	long before, after;
	int said[2];

	make_group();
	must_call(pipe(said));
	pid[0] = fork();
	must(pid[0] >= 0, "fork: %s", strerror(errno));
	if (!pid[0]) {
		group_put("cgroup.procs", "0");
		be_victims(len, said[1]);
	}
	must(read(said[0], pid, sizeof(pid)) == sizeof(pid), "the zygote said nothing");
	before = group_number("memory.current", NULL);
	for (int i = 0; i < VICTIMS; i++)
		kill_half(pid[i]);
	for (int i = 0; i < VICTIMS; i++)
		release(pid[i]);
	after = group_number("memory.current", NULL);
	for (int i = 0; i < VICTIMS; i++)
		ptrace(PTRACE_DETACH, pid[i], 0, 0);
	waitpid(pid[0], NULL, 0);
	must(before - after >= (long)len / 10 * 9,
	     "of %zu kB of %d killed processes %ld kB were released", len / 1024, VICTIMS,
	     (before - after) / 1024);
	must(remove_group(), "the group cannot be removed");
}

#define SWAPPED	(KIND(ANON) | KIND(HEAP) | KIND(PRIV_FILE) | KIND(SHARED_ANON) | KIND(MIXED) | \
		 KIND(BORDERS) | KIND(SHARED_DISK) | KIND(PRIV_FILE_RO))
#define QUICK	(KIND(ANON) | KIND(SHARED_ANON) | KIND(MIXED))
#define OWN	(KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED) | KIND(BORDERS))

static const struct test_case cases[] = {
	{ "Does every sharer get swapped pages back, in any order?", test_swap, 0, SWAPPED,
	  QUICK, .guards = INVARIANT(4) | INVARIANT(6) },
	{ "Is a page brought in by one and taken again right for another?",
	  test_swap_read_twice, 0, SWAPPED, QUICK, .guards = INVARIANT(6) },
	{ "Are swapped pages right when sharers leave and fork?", test_swap_leave, 0, SWAPPED,
	  QUICK, .guards = INVARIANT(3) | INVARIANT(5) | INVARIANT(6) },
	{ "Does MADV_FREE under pressure cost others their data?", test_free_under_pressure, 0,
	  KIND(ANON) | KIND(HEAP) | KIND(MIXED) | KIND(BORDERS), .guards = INVARIANT(8) },
	{ "Who sees what, forked while swapped out?", test_fork_swapped, 0, OWN,
	  .guards = INVARIANT(3) | INVARIANT(6) },
	{ "Does swapoff bring all pages back to all?", test_swapoff, 0, OWN,
	  .guards = INVARIANT(6) },
	{ "Does swapoff unshare only tables with swapped pages?", test_swapoff_spares,
	  .guards = INVARIANT(13) },
	{ "Does swapoff find entries that a child has copied?", test_swapoff_copies,
	  .guards = INVARIANT(7) },
	{ "Can more processes than a byte counts share a swapped page?", test_many_swapped, 0,
	  KIND(ANON) | KIND(PRIV_FILE), .guards = INVARIANT(3) },
	{ "Does memory stay right when the OOM killer kills a sharer?", test_oom, 0,
	  KIND(ANON) | KIND(MIXED), .guards = INVARIANT(5) | INVARIANT(8) },
	{ "Does memory stay right when process_mrelease reaps a sharer?", test_mrelease, 0,
	  SOME_KINDS, .guards = INVARIANT(5) | INVARIANT(8) },
	{ "Does process_mrelease free what three killed sharers map and none can leave?",
	  test_mrelease_all, .guards = INVARIANT(13) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
