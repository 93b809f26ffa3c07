// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merging in shared tables: is a page merged once for all who share the table, does
 * the table stay shared, and does nobody see another's memory?
 */
#include "shared_merge/merge.h"

#include <sys/uio.h>

/* --- once for all --------------------------------------------------------- */

static void test_once(long arg)
{
	long merging = 0, unshared, items = 0;

	start(SHARERS - 1);
	all_share(0, SHARERS - 1);
	vm_event("pgfault");	/* reading it writes to our memory, so do it before counting */
	unshared = vm_event("cohort_ptp_unshared_fault") +
		   vm_event("cohort_ptp_unshared_change");
	scan();
	must_be_merged(0, SHARERS - 1);
	for (int i = 1; i < SHARERS; i++)
		for (int page = 0; page < PAGES; page++)
			must(frame(i, page) == frame(0, page),
			     "page %d of %d is in another frame", page, i);
	if (!sharing_possible())
		return;
	all_share(0, SHARERS - 1);
	must(vm_event("cohort_ptp_unshared_fault") +
	     vm_event("cohort_ptp_unshared_change") == unshared,
	     "something was unshared");
	/* pages in use and pages saved are counted once per table */
	must(ksm("pages_shared") == COPIES && ksm("pages_sharing") == COPIES,
	     "%ld shared, %ld sharing", ksm("pages_shared"), ksm("pages_sharing"));
	for (int i = 0; i < SHARERS; i++) {
		merging += proc_field(pid_of(i), "ksm_stat", "ksm_merging_pages");
		items += proc_field(pid_of(i), "ksm_stat", "ksm_rmap_items");
	}
	must(merging == PAGES && items == PAGES, "all have %ld pages in %ld items",
	     merging, items);
}

static void test_write(long arg)
{
	start(SHARERS - 1);
	scan();
	/* one after the other writes; the rest still shares */
	for (int i = 1; i < SHARERS; i++) {
		ask(i, write_page, i, own_tag(i, i));
		for (int j = 0; j < SHARERS; j++) {
			ask(j, intact, j && j <= i ? j : -1, own_tag(j, j));
			must(j && j <= i ? merged(j) == COPIES - 1 :
			     merged(j) == COPIES, "%d pages of %d are merged",
			     merged(j), j);
		}
		if (i < SHARERS - 1 && sharing_possible()) {
			must(!one_table(0, i), "a writer shares the table");
			must(one_table(0, i + 1), "a reader does not share");
		}
	}
	/* the last user of the table must still not write in place */
	write_page(COPIES, 77);
	intact(COPIES, 77);
	for (int j = 1; j < SHARERS; j++)
		ask(j, intact, j, own_tag(j, j));
	/* alike again, the pages merge again, now in separate tables */
	for (int i = 1; i < SHARERS; i++)
		ask(i, write_page, i, 1000 + i);
	write_page(COPIES, 1000);
	scan();
	must_be_merged(0, SHARERS - 1);
}

/* Merge before the fork, after it, and both. */
static void test_fork(long when)
{
	need_merging();
	make_area();
	must_call(madvise(memory, table_size, MADV_MERGEABLE));
	if (when)
		scan();
	become_zygote();
	need_peers(8);
	spawn(1);
	spawn(2);
	all_share(0, 2);
	scan();
	must_be_merged(0, 2);
	spawn_from(1, 3);
	spawn(4);
	all_share(0, 4);
	must_be_merged(0, 4);
	ask(3, write_page, 1, own_tag(3, 1));
	spawn_from(3, 5);
	ask(5, intact, 1, own_tag(3, 1));
	ask(5, write_page, 1, own_tag(5, 1));
	ask(3, intact, 1, own_tag(3, 1));
	write_page(0, 5);
	intact(0, 5);
	scan();
	for (int i = 1; i <= 4; i++)
		ask(i, intact, i == 3 ? 1 : -1, own_tag(3, 1));
	ask(5, intact, 1, own_tag(5, 1));
	for (int i = 5; i > 0; i--)
		quit(i);
	intact(0, 5);
}

static void leave(int who, int how)
{
	switch (how % 4) {
	case 0:
		quit(who);
		return;
	case 1:
		kill_peer(who);
		return;
	case 2:
		ask(who, unmap, 0, 0);
		return;
	default:
		tell(who, exec_sleep, 0, 0);
		wait_exec(who);
	}
}

/*
 * Leave in any order, each process in another way. The others stay merged: when
 * the user through which ksmd scanned has left, it scans through another.
 */
static void test_leave(long order)
{
	start(5);
	scan();
	must_be_merged(0, 5);
	for (int n = 0; n < 5; n++) {
		int who = order == 0 ? n + 1 : order == 1 ? 5 - n :
			  (n * 3 + order) % 5 + 1;

		leave(who, n + order);
		if (n == 1)	/* the first one is the zygote itself */
			unmap(0, 0);
		if (n == 4)
			break;
		scan();
		for (int i = 1; i <= 5; i++) {
			bool gone = false;

			for (int m = 0; m <= n; m++)
				gone |= i == (order == 0 ? m + 1 : order == 1 ?
					      5 - m : (m * 3 + order) % 5 + 1);
			if (gone)
				continue;
			ask(i, intact, -1, 0);
			must(merged(i) == COPIES, "%d pages of %d are merged",
			     merged(i), i);
			if (n && sharing_possible())
				must(ksm("pages_sharing") == COPIES,
				     "%ld sharing after %d have left",
				     ksm("pages_sharing"), n + 1);
		}
	}
	forgotten();
}

/* --- and back ------------------------------------------------------------- */

enum unmerge { ADVICE, PROCESS, EVERYTHING };

static void test_unmerge(long how)
{
	if (how != PROCESS) {
		start(3);
	} else {
		need_merging();
		make_area();
		if (merge_any(1, 0))
			skip("no merging of all that a process has");
		become_zygote();
		need_peers(8);
		for (int i = 1; i <= 3; i++)
			spawn(i);
	}
	scan();
	must_be_merged(0, 3);
	all_share(0, 3);
	if (how == EVERYTHING) {
		ksm_set("run", "2");
		for (int i = 0; i <= 3; i++) {
			must(!merged(i), "%d pages of %d are still merged", merged(i), i);
			ask(i, intact, -1, 0);
		}
		must(!ksm("pages_shared") && !ksm("pages_sharing"), "still counted");
		/* each process has its own table now */
		scan();
		must_be_merged(0, 3);
		return;
	}
	must(!(how == ADVICE ? ask(2, advise, MADV_UNMERGEABLE, 0) :
	       ask(2, merge_any, 0, 0)), "not unmerged");
	for (int i = 0; i <= 3; i++) {
		must(merged(i) == (i == 2 ? 0 : COPIES), "%d pages of %d are merged",
		     merged(i), i);
		ask(i, intact, -1, 0);
	}
	all_share(0, 1);
	scan();
	must(!merged(2), "merged against its will");
}

/* 1 if it makes less than @nth allocations, so that none fails */
static long unmerge_failing(long nth, long unused)
{
	long ret;

	arm(nth);
	ret = merge_any(0, 0);
	return disarm() ? ret : 1;
}

/*
 * A failed PR_SET_MEMORY_MERGE=0 is undone, which makes all possible regions
 * mergeable, also those that the parent excepted, but in the child alone.
 */
static void test_unmerge_fails(long arg)
{
	int nth, failed = 0;
	char *more;

	need_merging();
	need_injection();
	need_peers(FAILURES);
	make_area();
	more = arena(1);
	map_at(more, table_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page_fill(more, 1);
	if (merge_any(1, 0))
		skip("no merging of all that a process has");
	must(!advise(MADV_UNMERGEABLE, 0), "not excepted");
	become_zygote();
	for (nth = 1; nth < FAILURES; nth++) {
		long ret;

		spawn(nth);
		if (sharing_possible())
			must(one_table(0, nth), "not shared to begin with");
		ret = ask(nth, unmerge_failing, nth, 0);
		if (ret > 0)
			break;
		must(!ret || ret == -ENOMEM, "failed otherwise: %s", strerror(-ret));
		failed += ret == -ENOMEM;
	}
	if (!failed && !sharing_possible())
		skip("nothing to fail without shared tables");
	must(failed, "nothing fails");
	scan();
	must(!merged(0), "%d pages are merged against their owner's will", merged(0));
	for (int i = 0; i <= nth && i < FAILURES; i++)
		ask(i, intact, -1, 0);
}

/* An unmergeable process is not merged, also if the table was mergeable before. */
static void test_against_will(long how)
{
	need_merging();
	make_area();
	if (how != PROCESS)	/* for PROCESS the child alone becomes mergeable */
		must_call(madvise(memory, table_size, MADV_MERGEABLE));
	become_zygote();
	need_peers(8);
	for (int i = 1; i <= 3; i++)
		spawn(i);
	if (how == PROCESS) {
		/* the child is mergeable, the others are not */
		if (ask(2, merge_any, 1, 0))
			skip("no merging of all that a process has");
	} else {
		must(!ask(2, advise, MADV_UNMERGEABLE, 0), "not unmergeable");
		if (how == EVERYTHING) {
			must(!ask(1, advise, MADV_UNMERGEABLE, 0), "no");
			must(!ask(1, advise, MADV_MERGEABLE, 0), "no");
		}
	}
	scan();
	for (int i = 0; i <= 3; i++) {
		bool may = how == PROCESS ? i == 2 : i != 2;

		must(merged(i) == (may ? COPIES : 0), "%d pages of %d are merged",
		     merged(i), i);
		ask(i, intact, -1, 0);
	}
}

/* --- what does not merge -------------------------------------------------- */

static long zeros(long from, long to)
{
	for (long i = from; i < to; i++)
		page_fill(memory + i * page_size, 0);
	return 0;
}

/* Each process counts its zero pages, so KSM puts none into a shared table. */
static void test_zeros(long before)
{
	long was;

	need_merging();
	was = ksm("ksm_zero_pages");
	make_area();
	must_call(madvise(memory, table_size, MADV_MERGEABLE));
	zeros(0, 8);
	zeros(COPIES, COPIES + 8);
	ksm_set("use_zero_pages", "1");
	if (before) {
		scan();
#ifdef __arm__
		/*
		 * With LPAE, pte_same() compares a bit that set_pte_ext() derives from
		 * others. So KSM takes an entry that it has just protected for another
		 * one, and merges the page with its like instead.
		 */
		if (ksm("ksm_zero_pages") == was)
			skip("KSM makes no zero pages here");
#endif
		must(ksm("ksm_zero_pages") == was + 16, "%ld zero pages",
		     ksm("ksm_zero_pages") - was);
	}
	become_zygote();
	need_peers(8);
	for (int i = 1; i <= 3; i++)
		spawn(i);
	scan();
	if (before)
		must(ksm("ksm_zero_pages") == was + 4 * 16, "%ld zero pages in all",
		     ksm("ksm_zero_pages") - was);
	else
		must(!sharing_possible() || ksm("ksm_zero_pages") == was,
		     "%ld zero pages in a shared table", ksm("ksm_zero_pages") - was);
	for (int i = 0; i <= 3; i++) {
		for (int page = 0; page < 8; page++)
			sees(ask(i, still_there, page, 0) == 0, "gone");
		ask(i, write_page, i, own_tag(i, i));
	}
	for (int i = 1; i <= 3; i++)
		quit(i);
	for (int page = 0; page < 8; page++)
		sees(page_is(memory + page * page_size, page ? 0 : own_tag(0, 0)),
		     "page %d is not zeros", page);
	ksm_set("run", "0");
	unmap(0, 0);
	must(ksm("ksm_zero_pages") == was, "%ld zero pages are left over",
	     ksm("ksm_zero_pages") - was);
}

static int lent[2];

static long lend(long page, long unused)
{
	struct iovec iov = { memory + page * page_size, page_size };

	must(vmsplice(lent[1], &iov, 1, 0) == (ssize_t)page_size, "vmsplice: %s",
	     strerror(errno));
	return 0;
}

/*
 * A page like one in the shared table cannot be merged while it is pinned. The
 * attempt must unshare nothing; once unpinned, the page merges.
 */
static void test_lent(long arg)
{
	char buf[4096];

	need_merging();
	must_call(pipe2(lent, O_CLOEXEC));
	need_peers(8);
	make_area();
	/* the stranger is first, so that KSM scans it first */
	spawn(1);
	ask(1, write_page, 0, 4242);
	must(!ask(1, advise, MADV_MERGEABLE, 0), "not mergeable");
	ask(1, lend, 0, 0);
	write_page(3, 4242);
	must_call(madvise(memory, table_size, MADV_MERGEABLE));
	become_zygote();
	spawn(2);
	spawn(3);
	all_share(0, 0);
	if (sharing_possible())
		must(one_table(0, 2) && one_table(0, 3), "not shared to begin with");
	scan();
	must(frame(1, 0) != frame(0, 3), "a page that was lent is merged");
	if (sharing_possible())
		must(one_table(0, 2) && one_table(0, 3), "a vain attempt unshared a table");
	for (size_t n = 0; n < page_size; n += sizeof(buf))
		must(read(lent[0], buf, sizeof(buf)) > 0, "the pipe is empty");
	scan();
	must(frame(1, 0) && frame(1, 0) == frame(0, 3) && frame(0, 3) == frame(2, 3),
	     "not merged in the end");
	if (sharing_possible())
		must(one_table(0, 2) && one_table(0, 3), "merging unshared a table");
	ask(1, write_page, 0, 9);
	for (int i = 0; i <= 3; i++)
		if (i != 1)
			ask(i, intact, 3, 4242);
}

/* Allocations of ksmd fail now and then: it must leave no inconsistent state. */
static void test_no_memory(long selective)
{
	static const char * const percent[] = { "2", "10", "30", "70" };

	start(4);
	if (selective && access(KSM "scan_policy", W_OK))
		skip("no selective merging in this kernel");
	for (size_t round = 0; round < ARRAY_SIZE(percent); round++) {
		fast();
		if (selective)
			ksm_set("scan_policy", "dormant");
		if (!ksmd_fails(percent[round]))
			skip("no fault injection in this kernel");
		ksm_set("run", "1");
		for (int i = 0; i < 20; i++) {
			int who = i % 5;
			char path[48];

			snprintf(path, sizeof(path), "/proc/%d/ksm_dormant", pid_of(who));
			if (selective)
				must(!write_text(path, "0") && !write_text(path, "1"),
				     "%s", path);
			usleep(20000);
			ask(who, intact, -1, 0);
			/* write a page that is like others in the next round */
			if (i % 7 == 0)
				ask(who, write_page, i, 1000 + i);
		}
		must(ksmd_fails("0"), "does not end");
		ksm_set("run", "2");
		for (int i = 0; i <= 4; i++) {
			must(!merged(i), "%d pages of %d are still merged", merged(i), i);
			ask(i, intact, -1, 0);
		}
		must(!ksm("pages_shared") && !ksm("pages_sharing"),
		     "%ld shared, %ld sharing", ksm("pages_shared"),
		     ksm("pages_sharing"));
		/* fork new sharers */
		for (int i = 1; i <= 4; i++) {
			quit(i);
			spawn(i);
		}
	}
	if (selective)
		ksm_set("scan_policy", "all");
	scan();
	must_be_merged(0, 4);
}

static const struct test_case cases[] = {
	{ "Are pages merged once for all who share a table?", test_once,
	  .guards = INVARIANT(3) | INVARIANT(7) },
	{ "Who sees a write after the merge?", test_write, .guards = INVARIANT(2) },
	{ "Do forks share what was merged after the fork?", test_fork, 0,
	  .guards = INVARIANT(2) | INVARIANT(3) },
	{ "Do forks share what was merged before the fork?", test_fork, 1,
	  .guards = INVARIANT(2) | INVARIANT(3) },
	{ "Can all processes leave, first to last?", test_leave, 0, .guards = INVARIANT(5) },
	{ "Can all processes leave, last to first?", test_leave, 1, .guards = INVARIANT(5) },
	{ "Can all processes leave in a mixed order?", test_leave, 2, .guards = INVARIANT(5) },
	{ "Can all processes leave in another mixed order?", test_leave, 4, .guards = INVARIANT(5)
	  },
	{ "Does MADV_UNMERGEABLE unmerge one process alone?", test_unmerge, ADVICE,
	  .guards = INVARIANT(1) },
	{ "Does PR_SET_MEMORY_MERGE=0 unmerge one process alone?", test_unmerge, PROCESS,
	  .guards = INVARIANT(1) },
	{ "Does KSM's run=2 unmerge all processes?", test_unmerge, EVERYTHING,
	  .guards = INVARIANT(1) },
	{ "Does a failed PR_SET_MEMORY_MERGE=0 leave excepted regions alone?", test_unmerge_fails,
	  .guards = INVARIANT(1) | INVARIANT(8) },
	{ "Is an unmergeable process left alone?", test_against_will, ADVICE,
	  .guards = INVARIANT(1) },
	{ "Is a process that alone is mergeable merged alone?", test_against_will, PROCESS,
	  .guards = INVARIANT(1) },
	{ "Is a process merged again that was unmergeable?", test_against_will, EVERYTHING,
	  .guards = INVARIANT(1) },
	{ "Are zero pages kept out of shared tables?", test_zeros, 0, .guards = INVARIANT(7) },
	{ "Are tables with zero pages copied?", test_zeros, 1, .guards = INVARIANT(7) },
	{ "Does a page that cannot be merged unshare nothing?", test_lent, .guards = POLICY },
	{ "Is nothing left over when ksmd has no memory?", test_no_memory, 0,
	  .guards = INVARIANT(8) },
	{ "Is nothing left over when ksmd has no memory, with the selective policy?",
	  test_no_memory, 1, .guards = INVARIANT(8) },
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
