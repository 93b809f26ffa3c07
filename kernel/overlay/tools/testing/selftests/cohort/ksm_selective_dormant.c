// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging in time: is a process scanned once when it becomes dormant,
 * and does each process still see its own memory?
 */
#include "ksm_selective/selective.h"

#include <sys/resource.h>

/* --- in time -------------------------------------------------------------- */

/*
 * All that KSM counts, and the values of a stock kernel after four full scans of
 * two processes with 64 pages, of which 63 are alike, and a third with one page.
 */
static const char * const stats[] = {
	"full_scans", "pages_scanned", "pages_shared", "pages_sharing",
	"pages_unshared", "pages_volatile", "pages_skipped", "ksm_zero_pages",
	"stable_node_chains", "stable_node_dups",
};

static const long stock[] = { 4, 516, 63, 63, 3, 0, 0, 0, 0, 0 };
static const char stock_keys[] =
	"ksm_rmap_items ksm_zero_pages ksm_merging_pages ksm_process_profit ";

enum { OFF, ON_BEFORE, STILL_MERGED };

static void test_off(long arg)
{
	long was[ARRAY_SIZE(stats)], n;
	char path[64], buf[512], keys[512] = "";

	if (arg)
		need_selective();
	all_off();
	if (access(KSM "run", W_OK))
		skip("no KSM, or not root");
	setup(2, PAGES);
	ask(1, fill, RANGE(0, 1), 5000);
	if (arg) {
		/* switch it off in the middle of a scan */
		start("global");
		dormant(1, true);
		wait_scans(1, 1);
		ksm_set("pages_to_scan", "7");
		dormant(2, true);
		for (int i = 0; i < 1500 && !ksm("pages_sharing"); i++)
			usleep(1000);
		must(ksm("pages_sharing") > 0, "nothing merged");
		/*
		 * without run=2 nothing resets the scan, so stop it before a full
		 * one begins
		 */
		if (arg == STILL_MERGED)
			ksm_set("run", "0");
		ksm_set("scan_policy", "all");
		if (arg == ON_BEFORE)
			ksm_set("run", "2");
	}
	must((ksm("pages_sharing") > 0) == (arg == STILL_MERGED), "%ld merged",
	     ksm("pages_sharing"));
	for (size_t i = 0; i < ARRAY_SIZE(stats); i++)
		was[i] = ksm(stats[i]);
	/* each batch is a full scan, with enough time in between to stop ksmd */
	ksm_set("pages_to_scan", "100000");
	ksm_set("sleep_millisecs", "300");
	ksm_set("run", "1");
	for (int i = 0; i < 3000 && ksm("full_scans") - was[0] < stock[0]; i++)
		usleep(2000);
	ksm_set("run", "0");
	for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
		n = ksm(stats[i]);
		/* these are never reset */
		if (i < 2 || !strcmp(stats[i], "pages_skipped"))
			n -= was[i];
		must(n == stock[i], "%s is %ld", stats[i], n);
	}
	snprintf(path, sizeof(path), "/proc/%d/ksm_stat", pid_of(1));
	must(read_text(path, buf, sizeof(buf)) > 0, "no ksm_stat");
	for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n"))
		snprintf(keys + strlen(keys), sizeof(keys) - strlen(keys), "%.*s ",
			 (int)strcspn(line, " "), line);
	must(!strcmp(keys, stock_keys), "ksm_stat has %s", keys);
	ask(1, intact, RANGE(1, PAGES), 1000);
	ask(2, intact, ALL, 1000);
}

/* With the policy off, marking a process as dormant has no effect. */
static void test_off_dormant(long arg)
{
	long scans, until;

	need_selective();
	all_off();
	must(reads("scan_policy", "[all] dormant"), "not off at first");
	setup(2, PAGES);
	ksm_set("pages_to_scan", "20000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("run", "1");
	dormant(1, true);
	set_frozen(2, true);
	scans = ksm("dormant_scans");
	until = ksm("full_scans") + 4;
	for (int i = 0; i < 1000 && ksm("full_scans") < until; i++)
		usleep(10000);
	must(ksm("full_scans") >= until, "no full scans");
	must(ksm("pages_sharing") >= PAGES - 1, "%ld shared", ksm("pages_sharing"));
	must(ksm("dormant_scans") == scans, "scanned as dormant");
	set_frozen(2, false);
	ask(1, intact, ALL, 1000);
	ask(2, intact, ALL, 1000);
	quit(2);
}

static void test_active(long arg)
{
	long scanned;

	setup(2, PAGES);
	start("all");
	scanned = ksm("pages_scanned");
	leave_time();
	must(ksm("pages_scanned") == scanned, "%ld pages of active processes",
	     ksm("pages_scanned") - scanned);
	must(!of(1, "ksm_merging_pages"), "merged");
}

static void test_written(long arg)
{
	long scanned;

	setup(2, PAGES);
	start("all");
	/* one after the other, each in its own round */
	dormant(1, true);
	wait_scans(1, 1);
	must(!of(2, "ksm_scans"), "the active one was scanned");
	dormant(2, true);
	wait_scans(2, 1);
	must(of(1, "ksm_merging_pages") == PAGES && of(2, "ksm_merging_pages") == PAGES,
	     "merged %ld and %ld of %d", of(1, "ksm_merging_pages"),
	     of(2, "ksm_merging_pages"), PAGES);
	must(of(1, "ksm_pages_scanned") == PAGES, "looked at %ld",
	     of(1, "ksm_pages_scanned"));
	scanned = ksm("pages_scanned");
	leave_time();
	/* marking it again starts no scan */
	dormant(1, true);
	leave_time();
	must(ksm("pages_scanned") == scanned, "scanned again");
	must(of(1, "ksm_scans") == 1, "scanned again");
	ask(1, intact, ALL, 1000);
	ask(2, intact, ALL, 1000);
}

/* Only the writer sees a write after the merge; its next scan finds the new content. */
static void test_wake_write(long arg)
{
	setup(2, PAGES);
	start("all");
	dormant(1, true);
	dormant(2, true);
	wait_scans(1, 1);
	wait_scans(2, 1);
	dormant(1, false);
	ask(1, fill, RANGE(0, 8), 5000);
	ask(1, intact, RANGE(0, 8), 5000);
	ask(1, intact, RANGE(8, PAGES), 1000);
	ask(2, intact, ALL, 1000);
	leave_time();
	must(of(1, "ksm_scans") == 1, "an active process was scanned");
	ask(1, fill, RANGE(0, 4), 1000);
	dormant(1, true);
	wait_scans(1, 2);
	must(of(1, "ksm_merging_pages") == PAGES - 4, "%ld merged",
	     of(1, "ksm_merging_pages"));
	ask(1, intact, RANGE(0, 4), 1000);
	ask(1, intact, RANGE(4, 8), 5000);
	ask(2, intact, ALL, 1000);
}

/* What ksmd saw of a process is invalid once the process has run. */
static void test_stale(long arg)
{
	setup(3, PAGES);
	start("all");
	dormant(1, true);
	wait_scans(1, 1);
	/* all its pages wait for a page that is alike; change them */
	dormant(1, false);
	ask(1, fill, ALL, 7000);
	if (arg)
		dormant(1, true);	/* dormant again, with other content */
	dormant(2, true);
	wait_scans(2, 1);
	must(!of(2, "ksm_merging_pages"), "merged with what is gone");
	dormant(3, true);
	wait_scans(3, 1);
	must(of(3, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(3, "ksm_merging_pages"));
	ask(1, intact, ALL, 7000);
	ask(2, intact, ALL, 1000);
	ask(3, intact, ALL, 1000);
}

/* What ksmd saw of a process that has exited must not prevent merges. */
static void test_gone(long arg)
{
	setup(3, PAGES);
	start("all");
	dormant(1, true);
	wait_scans(1, 1);
	if (arg)
		kill_peer(1);
	else
		quit(1);
	dormant(2, true);
	dormant(3, true);
	wait_scans(2, 1);
	wait_scans(3, 1);
	must(of(3, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(3, "ksm_merging_pages"));
}

static void test_woken_midway(long arg)
{
	const long pages = 4096;
	long scanned;

	setup(1, pages);
	start("all");
	ksm_set("pages_to_scan", "16");
	ksm_set("sleep_millisecs", "20");
	scanned = ksm("pages_scanned");
	dormant(1, true);
	for (int i = 0; i < 500 && ksm("pages_scanned") < scanned + 128; i++)
		usleep(2000);
	dormant(1, false);
	/* Read the count before the next scan can begin: it must scan all pages again. */
	scanned = ksm("pages_scanned");
	if (arg)
		dormant(1, true);
	leave_time();
	if (arg) {
		/* the scan begins again, from the first page */
		ksm_set("pages_to_scan", "10000");
		wait_scans(1, 1);
		must(ksm("pages_scanned") - scanned >= pages - 16, "only %ld pages",
		     ksm("pages_scanned") - scanned);
	} else {
		must(ksm("pages_scanned") - scanned <= 16, "%ld pages after it woke",
		     ksm("pages_scanned") - scanned);
		must(!of(1, "ksm_scans"), "counted as scanned");
	}
	must(of(1, "ksm_scans_left") == 1, "left %ld times", of(1, "ksm_scans_left"));
	ask(1, intact, RANGE(0, pages), 1000);
}

/*
 * A process that wakes in the middle of a scan keeps its items, which the next scan
 * needs, even if all pages are in tables that its parent is charged for.
 */
static void test_woken_borrower(long arg)
{
	const long pages = 2048;
	long items;

	setup_area(pages);
	merge_area(pages, 0);
	fill(RANGE(0, pages), 1000);
	become_zygote();
	spawn(1);
	start("all");
	ksm_set("pages_to_scan", "10000");
	dormant(1, true);
	wait_scans(1, 1);
	items = of(1, "ksm_rmap_items");
	must(items >= pages, "%ld items", items);
	dormant(1, false);
	ksm_set("pages_to_scan", "16");
	ksm_set("sleep_millisecs", "20");
	dormant(1, true);
	for (int i = 0; i < 500 && of(1, "ksm_pages_scanned") < pages + 32; i++)
		usleep(2000);
	dormant(1, false);
	for (int i = 0; i < 500 && !of(1, "ksm_scans_left"); i++)
		usleep(2000);
	must(of(1, "ksm_scans_left") == 1, "left %ld times", of(1, "ksm_scans_left"));
	must(of(1, "ksm_rmap_items") == items, "%ld items of %ld are left",
	     of(1, "ksm_rmap_items"), items);
	ask(1, intact, RANGE(0, pages), 1000);
}

static void test_freezer(long arg)
{
	setup(2, PAGES);
	if (arg)	/* freeze it before the policy is set */
		set_frozen(1, true);
	if (arg)
		leave_time();
	start("all");
	if (!arg)
		set_frozen(1, true);
	set_frozen(2, true);
	wait_scans(1, 1);
	wait_scans(2, 1);
	must(of(1, "ksm_dormant_frozen") == 1, "not dormant");
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	set_frozen(1, false);
	ask(1, fill, RANGE(0, 8), 5000);
	must(!of(1, "ksm_dormant_frozen"), "still dormant");
	leave_time();
	must(of(1, "ksm_scans") == 1, "scanned while it ran");
	set_frozen(1, true);
	wait_scans(1, 2);
	set_frozen(1, false);
	set_frozen(2, false);
	ask(1, intact, RANGE(0, 8), 5000);
	ask(1, intact, RANGE(8, PAGES), 1000);
	ask(2, intact, ALL, 1000);
	quit(1);
	quit(2);
}

/* memory.ksm_dormant marks the processes that are in the cgroup then, and no other. */
static void test_cgroup(long arg)
{
	int ret;

	setup(3, PAGES);
	start("all");
	set_frozen(1, false);
	set_frozen(2, false);
	if (access(FREEZE "1/memory.ksm_dormant", W_OK))
		skip("no memory control groups");
	ret = write_text(FREEZE "1/memory.ksm_dormant", "1");
	must(!ret, "memory.ksm_dormant: %s", strerror(-ret));
	ret = write_text(FREEZE "2/memory.ksm_dormant", "1\n");
	must(!ret, "memory.ksm_dormant: %s", strerror(-ret));
	must(write_text(FREEZE "2/memory.ksm_dormant", "2") == -EINVAL, "2 is taken");
	wait_scans(1, 1);
	wait_scans(2, 1);
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	must(!of(3, "ksm_scans"), "another cgroup's process was scanned");
	ret = write_text(FREEZE "1/memory.ksm_dormant", "0");
	must(!ret, "memory.ksm_dormant: %s", strerror(-ret));
	must(!of(1, "ksm_dormant_written"), "still dormant");
	must(of(2, "ksm_dormant_written") == 1, "another cgroup's process woke");
	quit(1);
	quit(2);
}

static void move_to(const char *cgroup, int who)
{
	char file[64], pid[16];

	snprintf(file, sizeof(file), "%s/cgroup.procs", cgroup);
	snprintf(pid, sizeof(pid), "%d", pid_of(who));
	cgroup_set(file, pid);
}

/* memory.ksm_dormant reaches the cgroups below, as cgroup.freeze does. */
static void test_cgroup_below(long arg)
{
	setup(4, PAGES);
	start("all");
	set_frozen(3, false);
	if (access(FREEZE "3/memory.ksm_dormant", W_OK))
		skip("no memory control groups");
	/* one with a memory controller of its own, one without, one of threads */
	must_call(mkdir(FREEZE "1", 0755));
	cgroup_set("1/cgroup.subtree_control", "+memory");
	must_call(mkdir(FREEZE "1/below", 0755));
	must_call(mkdir(FREEZE "1/below/below", 0755));
	move_to("1/below", 1);
	must(!access(FREEZE "1/below/memory.ksm_dormant", W_OK), "no memory controller");
	move_to("1/below/below", 2);
	must_call(mkdir(FREEZE "3/below", 0755));
	cgroup_set("3/below/cgroup.type", "threaded");
	move_to("3/below", 3);
	cgroup_set("1/memory.ksm_dormant", "1");
	wait_scans(1, 1);
	wait_scans(2, 1);
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	must(!of(3, "ksm_dormant_written") && !of(4, "ksm_dormant_written"),
	     "another cgroup's process is dormant");
	cgroup_set("3/memory.ksm_dormant", "1");
	wait_scans(3, 1);
	/* a write to a lower cgroup does not reach those above or beside it */
	cgroup_set("1/below/memory.ksm_dormant", "0");
	must(!of(1, "ksm_dormant_written") && !of(2, "ksm_dormant_written"),
	     "still dormant");
	must(of(3, "ksm_dormant_written") == 1, "another cgroup's process woke");
	for (int i = 1; i <= 3; i++)
		quit(i);
}

static void test_oom(long arg)
{
	setup(2, PAGES);
	start("all");
	set_oom(1, "900");
	leave_time();
	must(!of(1, "ksm_scans"), "scanned without a threshold");
	/* set the threshold after one process's value, before the other's */
	ksm_set("dormant_oom_score_adj", "800");
	wait_scans(1, 1);
	set_oom(2, "799");
	leave_time();
	must(!of(2, "ksm_scans"), "scanned below the threshold");
	set_oom(2, "800");
	wait_scans(2, 1);
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	set_oom(2, "0");
	must(!of(2, "ksm_dormant_oom"), "dormant for ever");
	ksm_set("dormant_oom_score_adj", "1001");
	must(!of(1, "ksm_dormant_oom"), "dormant without a threshold");
}

/* The process gets its oom_score_adj before it has mergeable memory. */
static void test_oom_before(long arg)
{
	bool all = arg;

	setup_area(PAGES);
	for (int i = 1; i <= 2; i++) {
		spawn(i);
		ask(i, fill, ALL, 1000);
	}
	start("all");
	ksm_set("dormant_oom_score_adj", "800");
	set_oom(1, "900");
	set_oom(2, "799");
	for (int i = 1; i <= 2; i++)
		ask(i, all ? merge_all : merge_area, PAGES, 0);
	wait_scans(1, 1);
	must(of(1, "ksm_dormant_oom") == 1, "not dormant");
	must(of(1, "ksm_pages_scanned") >= PAGES, "%ld pages scanned",
	     of(1, "ksm_pages_scanned"));
	must(!of(2, "ksm_dormant_oom") && !of(2, "ksm_scans"),
	     "dormant below the threshold");
	/* a child is active, whatever value it inherits */
	spawn_from(1, 3);
	must(!of(3, "ksm_dormant_oom"), "a child is born dormant");
	set_oom(2, "800");
	wait_scans(2, 1);
	must(of(2, "ksm_merging_pages") >= PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	ask(1, intact, ALL, 1000);
	ask(2, intact, ALL, 1000);
}

/* a vfork child, which borrows this process's memory, sets its own value */
static long vfork_oom(long adj, long unused)
{
	char text[16];
	int status;
	pid_t pid;

	snprintf(text, sizeof(text), "%ld", adj);
	pid = vfork();
	if (!pid)
		_exit(write_text("/proc/self/oom_score_adj", text) ? 1 : 0);
	must_call(pid);
	must(waitpid(pid, &status, 0) == pid && !status, "the child has failed");
	return 0;
}

static void test_oom_vfork(long arg)
{
	setup(2, PAGES);
	start("all");
	ksm_set("dormant_oom_score_adj", "800");
	ask(1, vfork_oom, 900, 0);
	must(!of(1, "ksm_dormant_oom"), "dormant for its child's value");
	leave_time();
	must(!of(1, "ksm_scans"), "scanned for its child's value");
	set_oom(2, "900");
	wait_scans(2, 1);
	ask(2, vfork_oom, 0, 0);
	must(of(2, "ksm_dormant_oom") == 1, "active for its child's value");
}

/* ksmd scans no more often than sleep_millisecs allows, however often it is woken (13). */
static void test_rest(long arg)
{
	const double sleep = 0.4;
	double began, took;

	setup(1, PAGES);
	start("all");
	ksm_set("sleep_millisecs", "400");
	began = now();
	do {
		dormant(1, true);
		usleep(2000);
		dormant(1, false);
		took = now() - began;
	} while (took < 4 * sleep);
	must(of(1, "ksm_scans") + of(1, "ksm_scans_left") <= took / sleep + 2,
	     "%ld scans and %ld begun in %.1f s", of(1, "ksm_scans"),
	     of(1, "ksm_scans_left"), took);
}

/*
 * Pages that several processes inherited merge with the first page that is alike.
 * A table that they share is scanned through one of them only.
 */
static void test_forked_pages(long arg)
{
	const int peers = 4, scanned = cohort_mode == MODE_ALWAYS ? 1 : peers;

	setup(0, PAGES);
	fill(ALL, 1000);
	for (int i = 1; i <= peers + 1; i++)
		spawn(i);
	/* the last process has pages of its own */
	ask(peers + 1, fill, ALL, 2000);
	ask(peers + 1, fill, ALL, 1000);
	start("all");
	for (int i = 1; i <= peers; i++) {
		dormant(i, true);
		wait_scans(i, 1);
	}
	must(!ksm("pages_sharing"), "a page was merged with itself");
	must(ksm("pages_unshared") == scanned * PAGES, "%ld wait for others",
	     ksm("pages_unshared"));
	dormant(peers + 1, true);
	wait_scans(peers + 1, 1);
	for (int i = 1; i <= peers + 1; i++) {
		long pages = i <= scanned || i > peers ? PAGES : 0;

		must(of(i, "ksm_merging_pages") == pages, "%ld of peer %d merged",
		     of(i, "ksm_merging_pages"), i);
		ask(i, intact, ALL, 1000);
	}
	must(ksm("pages_shared") == PAGES && ksm("pages_sharing") == scanned * PAGES &&
	     !ksm("pages_unshared"), "%ld shared, %ld sharing, %ld unshared",
	     ksm("pages_shared"), ksm("pages_sharing"), ksm("pages_unshared"));
	/* a write to a merged page is seen by the writer alone */
	ask(1, fill, RANGE(0, 1), 3000);
	ask(2, intact, ALL, 1000);
	must(intact(ALL, 1000) == 0, "lost");
}

/* One process has written to its pages meanwhile: the others still merge. */
static void test_changed_twin(long arg)
{
	const int peers = 3, scanned = cohort_mode == MODE_ALWAYS ? 1 : peers;

	setup(0, PAGES);
	fill(ALL, 1000);
	for (int i = 1; i <= peers + 1; i++)
		spawn(i);
	ask(peers + 1, fill, ALL, 2000);
	ask(peers + 1, fill, ALL, 1000);
	start("all");
	for (int i = 1; i <= peers; i++) {
		dormant(i, true);
		wait_scans(i, 1);
	}
	/* this process is marked as dormant but writes */
	ask(2, fill, ALL, 7000);
	dormant(peers + 1, true);
	wait_scans(peers + 1, 1);
	for (int i = 1; i <= peers + 1; i++) {
		long pages = i == 2 || (i > scanned && i <= peers) ? 0 : PAGES;

		must(of(i, "ksm_merging_pages") == pages, "%ld of peer %d merged",
		     of(i, "ksm_merging_pages"), i);
		ask(i, intact, ALL, i == 2 ? 7000 : 1000);
	}
}

/* fill each page with one repeated word, different for each page */
static long fill_plain(long range, long unused)
{
	for (long i = range >> 16; i < (range & 0xffff); i++)
		for (size_t at = 0; at < page_size; at += sizeof(int))
			*(int *)(memory + i * page_size + at) = i + 1;
	return 0;
}

static void test_plain_pages(long arg)
{
	setup(2, PAGES);
	for (int i = 1; i <= 2; i++)
		ask(i, fill_plain, ALL, 0);
	start("all");
	for (int i = 1; i <= 2; i++) {
		dormant(i, true);
		wait_scans(i, 1);
	}
	must(ksm("pages_shared") == PAGES && ksm("pages_sharing") == PAGES,
	     "%ld shared, %ld sharing", ksm("pages_shared"), ksm("pages_sharing"));
}

static void test_unmerge(long arg)
{
	setup(2, PAGES);
	start("all");
	dormant(1, true);
	dormant(2, true);
	wait_scans(1, 1);
	wait_scans(2, 1);
	ksm_set("run", "2");
	must(!of(1, "ksm_merging_pages") && !ksm("pages_sharing"), "not unmerged");
	ask(1, intact, ALL, 1000);
	ksm_set("run", "1");
	wait_scans(1, 2);
	wait_scans(2, 2);
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged again",
	     of(2, "ksm_merging_pages"));
	/* switch policies repeatedly: neither may find the other's items in a tree */
	for (int i = 0; i < 20; i++) {
		ksm_set("scan_policy", i % 2 ? "dormant" : "all");
		ksm_set("pages_to_scan", i % 3 ? "7" : "1000");
		usleep(30000);
	}
	ksm_set("pages_to_scan", "1000");
	leave_time();
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged in the end",
	     of(2, "ksm_merging_pages"));
	ask(1, intact, ALL, 1000);
	ask(2, intact, ALL, 1000);
}

/*
 * Until a priority is written, it follows the policy. This case must come first:
 * a written priority stays until reboot. all_off() writes one that differs from
 * stock's, which this case detects.
 */
static void test_default_nice(long arg)
{
	need_selective();
	if (!reads("scan_policy", "[all]") || ksm("ksmd_nice") != 5)
		skip("not the first run in this boot");
	ksm_set("scan_policy", "dormant");
	must(ksm("ksmd_nice") == 15, "%ld when the policy is on", ksm("ksmd_nice"));
	must(getpriority(PRIO_PROCESS, ksmd_pid()) == 15, "ksmd has another");
	ksm_set("scan_policy", "all");
	must(ksm("ksmd_nice") == 5, "%ld when it is off again", ksm("ksmd_nice"));
}

static const struct test_case cases[] = {
	{ "ksmd's priority follows the policy until it is written", test_default_nice,
	  .guards = KSM_SELECTIVE },
	{ "Switched off, does KSM count what stock KSM counts?", test_off, OFF,
	  .guards = KSM_SELECTIVE },
	{ "Switched off after a scan, does KSM count what stock KSM counts?", test_off, ON_BEFORE,
	  .guards = KSM_SELECTIVE },
	{ "Switched off with merged pages, does KSM count what stock KSM counts?", test_off,
	  STILL_MERGED, .guards = KSM_SELECTIVE },
	{ "Switched off, is a dormant process like any other?", test_off_dormant,
	  .guards = KSM_SELECTIVE },
	{ "Are active processes left alone?", test_active, .guards = KSM_SELECTIVE },
	{ "Is a process scanned once when it is said to be dormant?", test_written,
	  .guards = KSM_SELECTIVE },
	{ "Who sees a write after a process has woken?", test_wake_write, .guards = KSM_SELECTIVE },
	{ "Is a page that changed since its scan left unmerged?", test_stale, 0,
	  .guards = KSM_SELECTIVE },
	{ "Is a changed page of a process that is dormant again left unmerged?", test_stale, 1,
	  .guards = KSM_SELECTIVE },
	{ "Do pages of an exited process stay out of the way?", test_gone, 0,
	  .guards = KSM_SELECTIVE },
	{ "Do pages of a killed process stay out of the way?", test_gone, 1,
	  .guards = KSM_SELECTIVE },
	{ "Does ksmd stop scanning a process that wakes?", test_woken_midway, 0,
	  .guards = KSM_SELECTIVE },
	{ "Does ksmd scan from the start when it is dormant again?", test_woken_midway, 1,
	  .guards = KSM_SELECTIVE },
	{ "Does a process that wakes keep the items of pages that it borrows?",
	  test_woken_borrower, .guards = KSM_SELECTIVE },
	{ "Does the freezer make processes dormant?", test_freezer, 0, .guards = KSM_SELECTIVE },
	{ "Are processes dormant that were frozen before?", test_freezer, 1,
	  .guards = KSM_SELECTIVE },
	{ "Does memory.ksm_dormant make the processes of a cgroup dormant?", test_cgroup,
	  .guards = KSM_SELECTIVE },
	{ "Does memory.ksm_dormant reach the cgroups below?", test_cgroup_below,
	  .guards = KSM_SELECTIVE },
	{ "Does a high oom_score_adj make processes dormant?", test_oom, .guards = KSM_SELECTIVE },
	{ "Does an oom_score_adj from before the first madvise make processes dormant?",
	  test_oom_before, 0, .guards = KSM_SELECTIVE },
	{ "Does an oom_score_adj from before the prctl make processes dormant?", test_oom_before,
	  1, .guards = KSM_SELECTIVE },
	{ "Is the oom_score_adj of a vfork child its own?", test_oom_vfork,
	  .guards = KSM_SELECTIVE },
	{ "Does ksmd sleep between scans, however often it is woken?", test_rest,
	  .guards = KSM_SELECTIVE | INVARIANT(13) },
	{ "Do pages merge that several processes inherited?", test_forked_pages,
	  .guards = KSM_SELECTIVE },
	{ "Do inherited pages merge when one process has written its own?", test_changed_twin,
	  .guards = KSM_SELECTIVE },
	{ "Do pages of one repeated word merge?", test_plain_pages, .guards = KSM_SELECTIVE },
	{ "Is everything scanned again after an unmerge?", test_unmerge, .guards = KSM_SELECTIVE },
};

int main(int argc, char **argv)
{
	after_each_case = all_off;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
