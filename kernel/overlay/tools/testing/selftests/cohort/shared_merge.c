// SPDX-License-Identifier: GPL-2.0-only
/*
 * Merging in shared tables: is a page merged once for all who share the table,
 * does the table stay shared, and does nobody see another's memory?
 *
 * The area is one table: a page at each of the first COPIES addresses, and one
 * with the same content behind them. The rest is empty.
 */
#include "common.h"

#include <sys/uio.h>

#define COPIES		32
#define PAGES		(2 * COPIES)
#define PR_MEMORY_MERGE	67	/* PR_SET_MEMORY_MERGE */
#define SHARERS		8
#define FAILURES	40	/* more than one call allocates */
#define LEAVERS		(quick ? 8 : 24)
#define OWN		(2 * PAGES)	/* this page each has for itself, if at all */

static char *area;

/* --- failing allocations -------------------------------------------------- */

static const char * const injectors[] = {
	"/sys/kernel/debug/failslab/", "/sys/kernel/debug/fail_page_alloc/",
};

static bool inject(const char *knob, const char *value)
{
	char path[80];
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(injectors); i++) {
		snprintf(path, sizeof(path), "%s%s", injectors[i], knob);
		ok &= !write_text(path, value);
	}
	return ok;
}

static pid_t ksmd_pid(void)
{
	char path[32], comm[32];

	for (int pid = 2; pid < 400; pid++) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (read_text(path, comm, sizeof(comm)) > 0 && !strcmp(comm, "ksmd\n"))
			return pid;
	}
	return 0;
}

/* So many of a hundred allocations of ksmd fail, and nobody else's. */
static bool ksmd_fails(const char *percent)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/make-it-fail", ksmd_pid());
	return !write_text(path, strcmp(percent, "0") ? "1" : "0") &&
	       inject("task-filter", "Y") && inject("verbose", "0") &&
	       inject("ignore-gfp-wait", "N") && inject("interval", "1") &&
	       inject("times", "-1") && inject("probability", percent) &&
	       !write_text("/sys/kernel/debug/fail_page_alloc/min-order", "0") &&
	       !write_text("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
}

/* nothing merged, and all switches as at boot */
static void all_off(void)
{
	static const char * const was[][2] = {
		{ "run", "2" }, { "scan_policy", "all" }, { "run", "0" },
		{ "pages_to_scan", "100" }, { "sleep_millisecs", "20" },
		{ "smart_scan", "1" }, { "use_zero_pages", "0" },
	};
	char path[64];

	if (!access("/sys/kernel/debug/failslab/probability", W_OK)) {
		ksmd_fails("0");
		inject("task-filter", "N");
		inject("ignore-gfp-wait", "Y");
	}
	for (size_t i = 0; i < ARRAY_SIZE(was); i++) {
		snprintf(path, sizeof(path), KSM "%s", was[i][0]);
		write_text(path, was[i][1]);
	}
}

static void fast(void)
{
	ksm_set("pages_to_scan", "20000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("smart_scan", "0");
}

static void scan(void)
{
	long until;

	fast();
	ksm_set("run", "1");
	until = ksm("full_scans") + 4;
	for (int i = 0; i < 2000 && ksm("full_scans") < until; i++)
		usleep(20000);
	must(ksm("full_scans") >= until, "ksmd does not get round");
}

/* Let ksmd look at one process only. */
static void scan_through(int who)
{
	char path[64];

	if (access(KSM "scan_policy", W_OK))
		skip("no selective merging in this kernel");
	fast();
	ksm_set("scan_policy", "dormant");
	ksm_set("run", "1");
	for (int again = 0; again < 2; again++) {
		long until = proc_field(pid_of(who), "ksm_stat", "ksm_scans") + 1;

		snprintf(path, sizeof(path), "/proc/%d/ksm_dormant", pid_of(who));
		must(!write_text(path, "0") && !write_text(path, "1"), "%s", path);
		for (int i = 0; i < 2000 &&
		     proc_field(pid_of(who), "ksm_stat", "ksm_scans") < until; i++)
			usleep(10000);
		must(proc_field(pid_of(who), "ksm_stat", "ksm_scans") >= until,
		     "peer %d is not scanned", who);
	}
}

static __u64 frame(int who, int page)
{
	__u64 entry = pagemap_entry(pid_of(who), area + page * page_size);

	return entry & PM_PRESENT ? entry & PM_PFN : 0;
}

/* how many of a process's pages are merged with their copy */
static int merged(int who)
{
	int n = 0;

	for (int i = 0; i < COPIES; i++)
		n += frame(who, i) && frame(who, i) == frame(who, i + COPIES);
	return n;
}

static void need_merging(void)
{
	if (access(KSM "run", W_OK))
		skip("no KSM, or not root");
	all_off();
}

/* --- what peers do -------------------------------------------------------- */

static long own_tag(int who, int page)
{
	return 100000 + who * 1000 + page;
}

static void fill_alike(void)
{
	for (int i = 0; i < PAGES; i++)
		page_fill(area + i * page_size, 1000 + i % COPIES);
}

static void make_area(void)
{
	area = arena(1);
	map_at(area, table_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must_call(madvise(area, table_size, MADV_NOHUGEPAGE));
	fill_alike();
}

static long advise(long advice, long unused)
{
	return madvise(area, table_size, advice) ? -errno : 0;
}

/* All is as it was filled, but for one page if that is not negative. */
static long intact(long except, long tag)
{
	for (int i = 0; i < PAGES; i++)
		must(page_is(area + i * page_size,
			     i == except ? tag : 1000 + i % COPIES),
		     "page %d is another", i);
	return 0;
}

static long write_page(long page, long tag)
{
	page_fill(area + page * page_size, tag);
	return 0;
}

/* A zygote, and its children, with one table in common. */
static void start(int children)
{
	need_merging();
	make_area();
	must_call(madvise(area, table_size, MADV_MERGEABLE));
	become_zygote();
	need_peers(children + 4);
	for (int i = 1; i <= children; i++)
		spawn(i);
	for (int i = 1; i <= children; i++)
		ask(i, intact, -1, 0);
}

/* Do two processes have one table there? What one reads into a hole tells. */
static long read_hole(long page, long unused)
{
	touch(area + page * page_size);
	return 0;
}

static int next_hole;

static bool one_table(int a, int b)
{
	int hole = PAGES + 1 + next_hole++ % (table_size / page_size - PAGES - 1);

	ask(a, read_hole, hole, 0);
	return pagemap_entry(pid_of(b), area + hole * page_size) & PM_PRESENT;
}

static void all_share(int from, int to)
{
	if (!sharing_possible())
		return;
	for (int i = from + 1; i <= to; i++)
		must(one_table(from, i), "%d and %d do not share the table", from, i);
}

/* Nothing is left of who is gone. */
static void forgotten(void)
{
	for (int i = 0; i < 1000; i++) {
		if (!ksm("pages_unshared") && !ksm("pages_volatile") &&
		    !ksm("pages_shared") && !ksm("pages_sharing"))
			return;
		usleep(10000);
	}
	fail("%ld unshared, %ld volatile, %ld shared, %ld sharing",
	     ksm("pages_unshared"), ksm("pages_volatile"), ksm("pages_shared"),
	     ksm("pages_sharing"));
}

/* --- once for all --------------------------------------------------------- */

static void must_be_merged(int from, int to)
{
	for (int i = from; i <= to; i++) {
		must(merged(i) == COPIES, "%d of %d pages of %d are merged", merged(i),
		     COPIES, i);
		ask(i, intact, -1, 0);
	}
}

static void test_once(long arg)
{
	long merging = 0, unshared, items = 0;

	start(SHARERS - 1);
	all_share(0, SHARERS - 1);
	vm_event("pgfault");	/* which writes what it reads into our memory */
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
	/* what is in use, and what is saved, is counted once */
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
	/* one after the other; the rest goes on to share */
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
	/* the last one has the table for itself, and still must not write in place */
	write_page(COPIES, 77);
	intact(COPIES, 77);
	for (int j = 1; j < SHARERS; j++)
		ask(j, intact, j, own_tag(j, j));
	/* alike again, it merges again: a table each now */
	for (int i = 1; i < SHARERS; i++)
		ask(i, write_page, i, 1000 + i);
	write_page(COPIES, 1000);
	scan();
	must_be_merged(0, SHARERS - 1);
}

/* Merged before the fork, after it, and both. */
static void test_fork(long when)
{
	need_merging();
	make_area();
	must_call(madvise(area, table_size, MADV_MERGEABLE));
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

static long unmap(long unused, long unused2)
{
	must_call(munmap(area, table_size));
	return 0;
}

static long exec_sleep(long unused, long unused2)
{
	execl("/proc/self/exe", "shared_merge", "--sleep", NULL);
	return -1;
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
		for (int i = 0; i < 500; i++) {
			char path[32], buf[64];

			snprintf(path, sizeof(path), "/proc/%d/cmdline", pid_of(who));
			if (read_text(path, buf, sizeof(buf)) > 4 &&
			    !strcmp(buf, "shared_merge"))
				return;
			usleep(10000);
		}
		fail("no exec");
	}
}

/*
 * In any order, each in another way. Who is left goes on to be merged: when the one
 * through which ksmd saw the table has gone, it sees it through another.
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

static long merge_any(long on, long unused)
{
	return prctl(PR_MEMORY_MERGE, on, 0, 0, 0) ? -errno : 0;
}

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
		/* that has cost everybody a table */
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
 * To end merging fails half-way and is undone, which makes all mergeable that may
 * be: what the parent has excepted as well, but in the child alone.
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

/* Who is not to be merged (any more) is not, though nothing was merged yet. */
static void test_against_will(long how)
{
	need_merging();
	make_area();
	if (how != PROCESS)	/* or the child alone */
		must_call(madvise(area, table_size, MADV_MERGEABLE));
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

/* --- found again ---------------------------------------------------------- */

static bool none_present(int from, int to)
{
	for (int i = from; i <= to; i++)
		for (int page = 0; page < PAGES; page++)
			if (frame(i, page))
				return false;
	return true;
}

/* A shared table is seen through this one; without sharing each sees his own. */
static void merge_through(int who)
{
	if (sharing_possible())
		scan_through(who);
	else
		scan();
}

/*
 * Merged through a child, which then takes a table of its own. The pages are in
 * two tables: reclaim, and migration, must find both, and so must the child's end.
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
		must(page_is(area + i * page_size, tag), "page %d of %ld", i, who);
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
 * Merged before the fork. The child is scanned first, then the parent again, and
 * the child exits: the parent's pages are found nevertheless.
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

static long advise_page(long addr, long advice)
{
	return madvise((void *)addr, page_size, advice) ? -errno : 0;
}

static void give_back(__u64 pfn)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)pfn);
	write_text("/sys/kernel/debug/hwpoison/unpoison-pfn", text);
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
		ret = ask(page % 4, advise_page, (long)area + page * page_size,
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
 * Merged in a copy that a child has taken along: those that go on to share the
 * table have the page too, and reclaim and migration must know.
 */
static void merged_in_a_copy(void)
{
	ask(1, write_page, OWN, own_tag(1, 0));
	merge_through(1);
	ksm_set("run", "0");
	must(merged(1) == COPIES, "%d pages are merged", merged(1));
}

/* Where has another one the page that this one has there? */
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

		ret = ask(1, advise_page, (long)area + page * page_size,
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

/* all of the area's pages, whoever else maps them; how many are there */
static long move_area(long node, long unused)
{
	int nodes[PAGES], status[PAGES];
	void *pages[PAGES];
	long n = 0;

	for (int i = 0; i < PAGES; i++) {
		pages[i] = area + i * page_size;
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

/* Leave the table as soon as a page of it is on its way: was there one? */
static long leave_moving(long page, long tag)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t at = (uintptr_t)(area + page * page_size) / page_size * sizeof(__u64);
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
 * The child has a copy and merges; its own child shares the table still. Others of
 * the table leave while its pages are moved, and take along what is there then. If
 * pages are found through the grandchild those must be found as well.
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

static long compact(long until, long unused)
{
	while (now() < until) {
		write_text("/proc/sys/vm/compact_memory", "1");
		usleep(5000);
	}
	return 0;
}

static long dies_early(long unused, long unused2)
{
	prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
	return 0;
}

static long still_there(long page, long unused)
{
	return probe_read(area + page * page_size);
}

/* Who has the broken page is told; who has his own copy is not. */
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
	ret = ask(2, poison, (long)area + 6 * page_size, 0);
	if (ret == -EINVAL || ret == -EPERM)
		skip("memory cannot be poisoned in this kernel");
	must(!ret, "MADV_HWPOISON: %s", strerror(-ret));
	must(!is_gone(pid_of(3)), "a process was killed for another's page");
	must(!ask(3, still_there, 6, 0), "it has lost its own page");
	for (int i = 0; i <= 4; i++)
		if (i != 3)
			must(ask(i, still_there, 6, 0) == SIGBUS &&
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

/* From here on this peer has what its parent has not, and a zygote's children. */
static long begin_family(long unused, long unused2)
{
	dies_late(0, 0);
	fill_alike();
	must_call(madvise(area, table_size, MADV_MERGEABLE));
	become_zygote();
	return 0;
}

/* An ancestor has other pages there, and no part in what his descendants share. */
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
	ret = ask(2, poison, (long)area + 6 * page_size, 0);
	if (ret == -EINVAL || ret == -EPERM)
		skip("memory cannot be poisoned in this kernel");
	must(!ret, "MADV_HWPOISON: %s", strerror(-ret));
	must(!__atomic_load_n(&told, __ATOMIC_RELAXED), "SIGBUS for another's page");
	catch_faults();
	for (int i = 0; i < PAGES; i++)
		must(page_is(area + i * page_size, own_tag(0, i)), "page %d", i);
	for (int i = 1; i <= 2; i++)
		must(ask(i, still_there, 6, 0) == SIGBUS &&
		     ask(i, still_there, 6 + COPIES, 0) == SIGBUS,
		     "%d can read the broken page", i);
	quit(2);
	quit(1);
	give_back(pfn);
}

/* --- what does not merge -------------------------------------------------- */

static long zeros(long from, long to)
{
	for (long i = from; i < to; i++)
		page_fill(area + i * page_size, 0);
	return 0;
}

/* Pages of zeros are counted by each process: none is put into a shared table. */
static void test_zeros(long before)
{
	long was;

	need_merging();
	was = ksm("ksm_zero_pages");
	make_area();
	must_call(madvise(area, table_size, MADV_MERGEABLE));
	zeros(0, 8);
	zeros(COPIES, COPIES + 8);
	ksm_set("use_zero_pages", "1");
	if (before) {
		scan();
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
			must(ask(i, still_there, page, 0) == 0, "gone");
		ask(i, write_page, i, own_tag(i, i));
	}
	for (int i = 1; i <= 3; i++)
		quit(i);
	for (int page = 0; page < 8; page++)
		must(page_is(area + page * page_size, page ? 0 : own_tag(0, 0)),
		     "page %d is not zeros", page);
	ksm_set("run", "0");
	unmap(0, 0);
	must(ksm("ksm_zero_pages") == was, "%ld zero pages are left over",
	     ksm("ksm_zero_pages") - was);
}

static int lent[2];

static long lend(long page, long unused)
{
	struct iovec iov = { area + page * page_size, page_size };

	must(vmsplice(lent[1], &iov, 1, 0) == (ssize_t)page_size, "vmsplice: %s",
	     strerror(errno));
	return 0;
}

/*
 * A page like one in the shared table cannot be merged for the moment. That must
 * not unshare anything, and when it can be it is.
 */
static void test_lent(long arg)
{
	char buf[4096];

	need_merging();
	must_call(pipe2(lent, O_CLOEXEC));
	need_peers(8);
	make_area();
	/* the stranger comes first, in KSM's list as well */
	spawn(1);
	ask(1, write_page, 0, 4242);
	must(!ask(1, advise, MADV_MERGEABLE, 0), "not mergeable");
	ask(1, lend, 0, 0);
	write_page(3, 4242);
	must_call(madvise(area, table_size, MADV_MERGEABLE));
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

/* ksmd has to do without memory, now and then, and must not leave a mess. */
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
			/* and a page more that is like others in the next round */
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
		/* whoever shares next */
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

/* --- races ---------------------------------------------------------------- */

/* Look at pages without a system call in between, so that nothing is flushed. */
static long stare(long until, long unused)
{
	long rounds = 0;

	while (now() < until) {
		for (int i = 0; i < 20; i++)
			for (int page = 0; page < PAGES; page++)
				must(page_is(area + page * page_size,
					     1000 + page % COPIES),
				     "page %d is not what it was", page);
		rounds++;
	}
	return rounds;
}

/* Whatever ksmd has freed is somebody else's at once. */
static long churn(long until, long unused)
{
	const size_t len = 4 * table_size;

	while (now() < until) {
		char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		must(p != MAP_FAILED, "mmap: %s", strerror(errno));
		madvise(p, len, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < len; i += page_size)
			memset(p + i, 0x5a, 64);
		must_call(munmap(p, len));
	}
	return 0;
}

/* Does anybody go on to see a page that merging has replaced? */
static void test_stale(long arg)
{
	double end = now() + race_seconds * 4;
	int rounds = 0;

	need_merging();
	need_peers(12);
	spawn(9);
	become_zygote();
	fast();
	while (now() < end || rounds < 3) {
		long until = now() + 2;

		ksm_set("run", "0");
		make_area();
		must_call(madvise(area, table_size, MADV_MERGEABLE));
		for (int i = 1; i <= (arg ? 6 : 2); i++)
			spawn(i);
		for (int i = 1; i <= (arg ? 6 : 2); i++)
			tell(i, stare, until, 0);
		tell(9, churn, until, 0);
		ksm_set("run", "1");
		for (int i = 1; i <= (arg ? 6 : 2); i++)
			must(answer(i) >= 0, "peer %d", i);
		must(answer(9) >= 0, "churn");
		for (int i = 1; i <= (arg ? 6 : 2); i++)
			quit(i);
		unmap(0, 0);
		rounds++;
	}
}

/* What is there instead, and does it stay? */
static void must_hold(const char *who, int page, unsigned int tag)
{
	char *p = area + page * page_size;
	unsigned int is = 0;

	if (page_is(p, tag))
		return;
	for (unsigned int t = 0; t < 1100000 && !is; t++)
		if (page_is(p, t))
			is = t;
	fail("%s: page %d is %u (%llx), not %u; looked at again it is %s, pagemap %llx",
	     who, page, is, (unsigned long long)*(__u64 *)p, tag,
	     page_is(p, tag) ? "right" : "wrong",
	     (unsigned long long)pagemap_entry(0, p));
}

/*
 * Each has its own notion of every page, and all change pages, fork, unmerge, page
 * out and die while ksmd goes through them.
 */
static long racer(long seed, long until)
{
	unsigned int r = seed;
	unsigned int tag[PAGES];

	__atomic_store_n(&board->word[seed % 10], 1, __ATOMIC_RELEASE);
	for (int i = 0; i < PAGES; i++)
		tag[i] = 1000 + i % COPIES;
	while (now() < until) {
		int i = rand_r(&r) % PAGES;
		char *p = area + i * page_size;
		pid_t pid;

		must_hold("racer", i, tag[i]);
		switch (rand_r(&r) % 16) {
		case 0:
			madvise(area, table_size, rand_r(&r) % 2 ?
				MADV_MERGEABLE : MADV_UNMERGEABLE);
			break;
		case 1:
			must_call(madvise(p, page_size, MADV_DONTNEED));
			tag[i] = 0;
			break;
		case 2:
			madvise(area, table_size, MADV_PAGEOUT);
			break;
		case 3:
		case 4:
		case 5:
			pid = fork();
			if (pid < 0)
				break;
			if (!pid) {
				/* one more who shares the table, for a while */
				for (int n = 0; n < 20; n++) {
					int at = rand_r(&r) % PAGES;

					must_hold("child", at, tag[at]);
					if (!n && r % 2) {
						page_fill(area + at * page_size, 8);
						tag[at] = 8;
					}
					usleep(rand_r(&r) % 2000);
				}
				_exit(0);
			}
			if (r % 4)
				usleep(rand_r(&r) % 8000);
			if (r % 3 == 0)
				kill(pid, SIGKILL);
			else if (r % 3 == 1)
				break;
			waitpid(pid, NULL, 0);
			break;
		case 6:
			merge_any(rand_r(&r) % 2, 0);
			break;
		case 7:
			if (mremap(area, table_size, table_size, MREMAP_MAYMOVE |
				   MREMAP_FIXED, area + 2 * table_size) != MAP_FAILED)
				must(mremap(area + 2 * table_size, table_size, table_size,
					    MREMAP_MAYMOVE | MREMAP_FIXED, area) == area,
				     "mremap: %s", strerror(errno));
			break;
		case 8:
		case 9:
			usleep(rand_r(&r) % 10000);
			break;
		default:
			/* often what others have there too */
			tag[i] = (unsigned int)seed * 1000 + 100000 + i;
			if (rand_r(&r) % 4)
				tag[i] = 1000 + rand_r(&r) % COPIES;
			page_fill(p, tag[i]);
			must_hold("writer", i, tag[i]);
			break;
		}
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	for (int i = 0; i < PAGES; i++)
		must_hold("at the end", i, tag[i]);
	return 0;
}

/* Who is killed before it has read what it is told leaves that to the next. */
static void race(int who, long seed, long until)
{
	board->word[who] = 0;
	spawn(who);
	tell(who, racer, seed * 10 + who, until);
	while (!__atomic_load_n(&board->word[who], __ATOMIC_ACQUIRE))
		usleep(1000);
}

static void test_race(long selective)
{
	long until = now() + race_seconds * 6;
	unsigned int r = 1;

	need_merging();
	if (selective && access(KSM "scan_policy", W_OK))
		skip("no selective merging in this kernel");
	if (!swap_on())
		note("without swap");
	need_peers(12);
	spawn(9);
	area = arena(4);
	map_at(area, table_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must_call(madvise(area, table_size, MADV_NOHUGEPAGE));
	fill_alike();
	must_call(madvise(area, table_size, MADV_MERGEABLE));
	become_zygote();
	fast();
	ksm_set("sleep_millisecs", "0");
	if (selective)
		ksm_set("scan_policy", "dormant");
	ksm_set("run", "1");
	for (int i = 1; i <= 4; i++)
		race(i, i, until);
	tell(9, compact, until, 0);
	while (now() < until) {
		int who = rand_r(&r) % 4 + 1;
		char path[64];

		switch (rand_r(&r) % 12) {
		case 0:
			ksm_set("run", "2");
			ksm_set("run", "1");
			break;
		case 1:
		case 2:
			kill_peer(who);
			race(who, r % 100, until);
			break;
		default:
			snprintf(path, sizeof(path), "/proc/%d/ksm_dormant",
				 pid_of(who));
			if (selective)
				write_text(path, r % 3 ? "1" : "0");
			intact(-1, 0);
			usleep(20000);
		}
	}
	for (int i = 1; i <= 4; i++) {
		must(answer(i) == 0, "peer %d failed", i);
		quit(i);
	}
	must(answer(9) == 0, "the compactor failed");
	intact(-1, 0);
}

static const struct test_case cases[] = {
	{ "Are pages merged once for all who share a table?", test_once },
	{ "Who sees a write after the merge?", test_write },
	{ "Do forks share what was merged after the fork?", test_fork, 0 },
	{ "Do forks share what was merged before the fork?", test_fork, 1 },
	{ "May all leave, the first one first?", test_leave, 0 },
	{ "May all leave, the last one first?", test_leave, 1 },
	{ "May all leave in any order?", test_leave, 2 },
	{ "May all leave in another order?", test_leave, 4 },
	{ "Is one unmerged by advice, and nobody else?", test_unmerge, ADVICE },
	{ "Is one unmerged by prctl, and nobody else?", test_unmerge, PROCESS },
	{ "Is everybody unmerged?", test_unmerge, EVERYTHING },
	{ "Is what is excepted left alone when to end merging fails?", test_unmerge_fails },
	{ "Is who may not be merged left alone?", test_against_will, ADVICE },
	{ "Is one who may be merged alone in that?", test_against_will, PROCESS },
	{ "Is one merged again who was unmergeable?", test_against_will, EVERYTHING },
	{ "Does reclaim find merged pages of all?", test_swap },
	{ "Does migration find merged pages of all?", test_migration },
	{ "Does reclaim find what a parent had merged before?", test_child_first },
	{ "Does migration find the table that one left before the merge?", test_left },
	{ "May others leave it while its pages are moved?", test_leave_moving },
	{ "Is nobody killed for a page that he does not have?", test_poison },
	{ "Nor an ancestor who shares nothing?", test_poison_ancestor },
	{ "Are zero pages kept out of shared tables?", test_zeros, 0 },
	{ "Are tables with zero pages copied?", test_zeros, 1 },
	{ "Does a page that cannot be merged unshare nothing?", test_lent },
	{ "Is nothing left over when ksmd has no memory?", test_no_memory, 0 },
	{ "Nor with the selective policy?", test_no_memory, 1 },
	{ "Is what was replaced gone for two?", test_stale, 0 },
	{ "Is what was replaced gone for six?", test_stale, 1 },
	{ "Does memory stay right in races?", test_race, 0 },
	{ "Does memory stay right in races, selective?", test_race, 1 },
};

int main(int argc, char **argv)
{
	int ret;

	if (argc == 2 && !strcmp(argv[1], "--sleep"))
		return sleep(1000);
	after_each_case = all_off;
	save_injection();
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	restore_injection();
	return ret;
}
