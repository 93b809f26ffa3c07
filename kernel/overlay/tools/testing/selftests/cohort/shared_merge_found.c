// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merging in shared tables: are all entries of a merged page found when it is
 * reclaimed, moved or broken?
 */
#include "shared_merge/merge.h"

/* --- found again ---------------------------------------------------------- */

static bool none_present(int from, int to)
{
	for (int i = from; i <= to; i++)
		for (int page = 0; page < PAGES; page++)
			if (frame(i, page))
				return false;
	return true;
}

/* Let ksmd scan a shared table through one process; without sharing, scan all. */
static void merge_through(int who)
{
	if (sharing_possible())
		scan_through(who);
	else
		scan();
}

/*
 * Merge through a child, which then unshares. The pages are in two tables:
 * reclaim, migration and the child's exit must find both.
 */
static void two_tables(void)
{
	start(3);
	merge_through(2);
	must_be_merged(0, 3);
	ask(2, write_page, 0, own_tag(2, 0));
	spawn_from(2, 4);	/* and that one has a child */
	ask(4, write_page, 1, own_tag(4, 1));
	ask(2, write_page, 1, own_tag(4, 1));
}

static long intact2(long who, long unused)
{
	for (int i = 0; i < PAGES; i++) {
		long tag = 1000 + i % COPIES;

		if (i < 2 && (who == 2 || who == 4))
			tag = i ? own_tag(4, 1) : own_tag(2, 0);
		sees(page_is(memory + i * page_size, tag), "page %d of %ld", i, who);
	}
	return 0;
}

static void intact2_all(void)
{
	for (int i = 0; i <= 4; i++)
		ask(i, intact2, i, 0);
}

static void test_swap(long arg)
{
	need_cgroup();
	need_swap();
	two_tables();
	ksm_set("run", "0");
	for (int i = 0; i < 30 && !none_present(0, 4); i++)
		press();
	must(none_present(0, 4), "reclaim does not find a merged page");
	intact2_all();
	for (int i = 0; i < 10; i++)
		press();
	ask(4, write_page, 5, 7);
	quit(2);
	for (int i = 0; i <= 4; i++)
		if (i != 2 && i != 4)
			ask(i, intact2, i, 0);
	ask(4, write_page, 5, 1005);
	ask(4, intact2, 4, 0);
}

/*
 * Merge before the fork, scan the child, then the parent again, and end the
 * child: reclaim must still find the parent's pages.
 */
static void test_child_first(long arg)
{
	need_cgroup();
	need_swap();
	start(0);
	scan_through(0);
	must_be_merged(0, 0);
	spawn(1);
	all_share(0, 1);
	scan_through(1);
	scan_through(0);
	must_be_merged(0, 1);
	quit(1);
	ksm_set("run", "0");
	for (int i = 0; i < 30 && !none_present(0, 0); i++)
		press();
	must(none_present(0, 0), "reclaim does not find a merged page");
	intact(-1, 0);
}

static void test_migration(long arg)
{
	__u64 was, is;
	int moved = 0;

	if (access("/sys/kernel/debug/hwpoison/unpoison-pfn", W_OK))
		skip("a page taken out of use cannot be given back here");
	two_tables();
	ksm_set("run", "0");
	for (int page = 4; page < 12; page++) {
		long ret;

		was = frame(0, page);
		ret = ask(page % 4, advise_page, (long)memory + page * page_size,
			  MADV_SOFT_OFFLINE);
		if (ret == -EINVAL || ret == -EPERM)
			skip("no soft offlining in this kernel");
		is = frame(0, page);
		for (int i = 0; i <= 4; i++)
			must(frame(i, page) == is && frame(i, page + COPIES) == is,
			     "page %d of %d was not moved with the rest", page, i);
		moved += was != is;
		if (was != is)
			give_back(was);
		intact2_all();
	}
	must(moved, "no page was moved");
}

/*
 * Merge in the copy of a child that has unshared: the users of the shared table
 * map the page too, and reclaim and migration must find them.
 */
static void merged_in_a_copy(void)
{
	ask(1, write_page, OWN, own_tag(1, 0));
	merge_through(1);
	ksm_set("run", "0");
	must(merged(1) == COPIES, "%d pages are merged", merged(1));
}

/* Find where another process maps the page that this one has here. */
static int same_frame(int who, int other, int page)
{
	if (frame(other, page) == frame(who, page))
		return page;
	must(frame(other, page + COPIES) == frame(who, page),
	     "page %d of %d has nobody else", page, who);
	return page + COPIES;
}

static void test_left(long arg)
{
	int moved = 0;

	if (access("/sys/kernel/debug/hwpoison/unpoison-pfn", W_OK))
		skip("a page taken out of use cannot be given back here");
	start(1);
	merged_in_a_copy();
	for (int page = 4; page < 12; page++) {
		int same = same_frame(1, 0, page);
		__u64 was = frame(1, page);
		long ret;

		ret = ask(1, advise_page, (long)memory + page * page_size,
			  MADV_SOFT_OFFLINE);
		if (ret == -EINVAL || ret == -EPERM)
			skip("no soft offlining in this kernel");
		must(frame(0, same) == frame(1, page) &&
		     frame(1, page + COPIES) == frame(1, page),
		     "page %d was not moved with the rest", page);
		if (was != frame(1, page)) {
			moved++;
			give_back(was);
		}
		ask(0, intact, -1, 0);
		ask(1, intact, -1, 0);
	}
	must(moved, "no page was moved: the other table was not found");
}

/* move all pages, whoever else maps them; return how many arrived */
static long move_area(long node, long unused)
{
	int nodes[PAGES], status[PAGES];
	void *pages[PAGES];
	long n = 0;

	for (int i = 0; i < PAGES; i++) {
		pages[i] = memory + i * page_size;
		nodes[i] = node;
		status[i] = -1;
	}
	__atomic_store_n(&board->word[0], 1, __ATOMIC_RELEASE);
	/* MPOL_MF_MOVE_ALL */
	if (syscall(__NR_move_pages, 0, PAGES, pages, nodes, status, 4) < 0)
		n = -errno;
	else
		for (int i = 0; i < PAGES; i++)
			n += status[i] == node;
	__atomic_store_n(&board->word[0], 2, __ATOMIC_RELEASE);
	return n;
}

/* Leave the table as soon as a page of it is being moved; return whether one was. */
static long leave_moving(long page, long tag)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (uintptr_t)(memory + page * page_size) / page_size * sizeof(__u64);
	__u64 entry = 0;

	must(fd >= 0, "pagemap: %s", strerror(errno));
	__atomic_store_n(&board->word[1], 1, __ATOMIC_RELEASE);
	do {
		must(pread(fd, &entry, sizeof(entry), at) == sizeof(entry), "pagemap");
	} while (entry & PM_PRESENT &&
		 __atomic_load_n(&board->word[0], __ATOMIC_ACQUIRE) != 2);
	write_page(OWN, tag);
	close(fd);
	return !(entry & PM_PRESENT);
}

/*
 * The child has unshared and merges; its own child still shares the old table.
 * Other users leave that table while its pages are moved, with copies of the
 * entries at that moment. Migration must find those copies too.
 */
static void test_leave_moving(long arg)
{
	long most = 0;
	int seen = 0;

	if (access("/sys/devices/system/node/node1", F_OK))
		skip("one node only");
	start(1);
	spawn_from(1, 2);
	for (int i = 3; i < 3 + LEAVERS; i++)
		spawn(i);
	all_share(0, 2 + LEAVERS);
	merged_in_a_copy();
	for (int i = 3; i < 3 + LEAVERS; i++) {
		long n, left;

		board->word[0] = 0;
		board->word[1] = 0;
		tell(i, leave_moving, same_frame(1, i, 4), own_tag(i, 0));
		while (!__atomic_load_n(&board->word[1], __ATOMIC_ACQUIRE))
			usleep(1000);
		n = ask(2, move_area, i % 2, 0);
		must(n >= 0, "move_pages: %s", strerror(-n));
		most = n > most ? n : most;
		left = answer(i);
		must(left >= 0, "peer %d died", i);
		seen += left;
		for (int page = 0; page < PAGES; page++)
			must(frame(i, page), "page %d of %d has not arrived", page, i);
		ask(i, intact, -1, 0);
	}
	note("%d of %d left while pages were on their way, %ld at most", seen, LEAVERS, most);
	for (int i = 0; i < 3; i++)
		ask(i, intact, -1, 0);
}

static long dies_early(long unused, long unused2)
{
	prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
	return 0;
}

/* Processes that map the broken page get SIGBUS; one with its own copy does not. */
static void test_poison(long arg)
{
	__u64 pfn;
	long ret;

	if (access("/sys/kernel/debug/hwpoison/unpoison-pfn", W_OK))
		skip("a page taken out of use cannot be given back here");
	if (!sharing_possible())
		skip("stock kills all who may have the page");
	two_tables();
	ask(3, write_page, 6, own_tag(3, 6));
	ask(3, write_page, 6 + COPIES, own_tag(3, 6));
	ksm_set("run", "0");
	ask(3, dies_early, 0, 0);
	for (int i = 0; i <= 4; i++)
		if (i != 3)
			ask(i, dies_late, 0, 0);
	pfn = frame(1, 6);
	must(pfn == frame(2, 6) && pfn == frame(0, 6), "the page is not merged");
	ret = ask(2, poison, (long)memory + 6 * page_size, 0);
	if (ret == -EINVAL || ret == -EPERM)
		skip("memory cannot be poisoned in this kernel");
	must(!ret, "MADV_HWPOISON: %s", strerror(-ret));
	must(!is_gone(pid_of(3)), "a process was killed for another's page");
	sees(!ask(3, still_there, 6, 0), "it has lost its own page");
	for (int i = 0; i <= 4; i++)
		if (i != 3)
			sees(ask(i, still_there, 6, 0) == SIGBUS &&
			     ask(i, still_there, 6 + COPIES, 0) == SIGBUS,
			     "%d can read the broken page", i);
	for (int i = 1; i <= 4; i++)
		quit(i);
	unmap(0, 0);
	give_back(pfn);
}

static int told;

static void be_told(int sig)
{
	__atomic_store_n(&told, 1, __ATOMIC_RELAXED);
}

/* Make this peer a zygote with pages that its parent does not have. */
static long begin_family(long unused, long unused2)
{
	dies_late(0, 0);
	fill_alike();
	must_call(madvise(memory, table_size, MADV_MERGEABLE));
	become_zygote();
	return 0;
}

/* An ancestor with other pages at these addresses shares nothing with its descendants. */
static void test_poison_ancestor(long arg)
{
	struct sigaction sa = { .sa_handler = be_told, .sa_flags = SA_RESTART };
	__u64 pfn;
	long ret;

	if (access("/sys/kernel/debug/hwpoison/unpoison-pfn", W_OK))
		skip("a page taken out of use cannot be given back here");
	need_merging();
	make_area();
	for (int i = 0; i < PAGES; i++)
		write_page(i, own_tag(0, i));
	need_peers(8);
	spawn(1);
	ask(1, begin_family, 0, 0);
	spawn_from(1, 2);
	ask(2, intact, -1, 0);
	if (sharing_possible())
		must(one_table(1, 2) && !one_table(1, 0), "not shared to begin with");
	scan();
	must_be_merged(1, 2);
	ksm_set("run", "0");
	pfn = frame(1, 6);
	must(pfn == frame(2, 6) && pfn != frame(0, 6), "the page is not theirs alone");

	dies_early(0, 0);
	must_call(sigaction(SIGBUS, &sa, NULL));
	ret = ask(2, poison, (long)memory + 6 * page_size, 0);
	if (ret == -EINVAL || ret == -EPERM)
		skip("memory cannot be poisoned in this kernel");
	must(!ret, "MADV_HWPOISON: %s", strerror(-ret));
	must(!__atomic_load_n(&told, __ATOMIC_RELAXED), "SIGBUS for another's page");
	catch_faults();
	for (int i = 0; i < PAGES; i++)
		sees(page_is(memory + i * page_size, own_tag(0, i)), "page %d", i);
	for (int i = 1; i <= 2; i++)
		sees(ask(i, still_there, 6, 0) == SIGBUS &&
		     ask(i, still_there, 6 + COPIES, 0) == SIGBUS,
		     "%d can read the broken page", i);
	quit(2);
	quit(1);
	give_back(pfn);
}

static const struct test_case cases[] = {
	{ "Does reclaim find merged pages of all?", test_swap, .guards = INVARIANT(4) },
	{ "Does migration find merged pages of all?", test_migration, .guards = INVARIANT(4) },
	{ "Does reclaim find what a parent had merged before?", test_child_first,
	  .guards = INVARIANT(4) },
	{ "Does migration find the table that one left before the merge?", test_left,
	  .guards = INVARIANT(4) },
	{ "Can others leave a table while its pages are moved?", test_leave_moving,
	  .guards = INVARIANT(4) | INVARIANT(5) },
	{ "Is a process left alone that does not have the broken page?", test_poison,
	  .guards = INVARIANT(4) | INVARIANT(13) },
	{ "Is an ancestor left alone that shares nothing?", test_poison_ancestor,
	  .guards = INVARIANT(13) },
};

int main(int argc, char **argv)
{
	int ret;

	after_each_case = all_off;
	save_injection();
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	restore_injection();
	return ret;
}
