// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: is a process scanned when it has become dormant, once,
 * only where it pays, and does everybody still see his own memory?
 *
 * Peers 1 and 2 fill the same area with pages that are alike in both.
 */
#include "common.h"

#include <sys/resource.h>

#define FREEZE		"/sys/fs/cgroup/ksm-selftest-"
#define PAGES		64
#define PR_MEMORY_MERGE	67	/* PR_SET_MEMORY_MERGE */

static char *area;

/* --- the kernel's side ---------------------------------------------------- */

static bool reads(const char *file, const char *word)
{
	char path[64], buf[128];

	snprintf(path, sizeof(path), KSM "%s", file);
	return read_text(path, buf, sizeof(buf)) > 0 && strstr(buf, word);
}

static void need_selective(void)
{
	if (access(KSM "scan_policy", W_OK))
		skip("no selective merging in this kernel, or not root");
}

/*
 * KSM off, nothing merged, nothing learned, all switches as at boot but ksmd_nice,
 * which tells test_default_nice() that it was written.
 */
static void all_off(void)
{
	static const char * const was[][2] = {
		{ "run", "2" }, { "scan_policy", "all" }, { "run", "0" },
		{ "scan_scope", "all" }, { "scan_new_regions", "0" },
		{ "dormant_oom_score_adj", "1001" }, { "profile", "clear" },
		{ "profile_max_bytes", "1048576" }, { "pages_to_scan", "100" },
		{ "sleep_millisecs", "20" }, { "ksmd_nice", "4" },
		{ "use_zero_pages", "0" },
	};
	static const char * const below[] = { "/below/below", "/below", "" };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(was); i++) {
		snprintf(path, sizeof(path), KSM "%s", was[i][0]);
		write_text(path, was[i][1]);
	}
	for (int i = 1; i < 8; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(below); j++) {
			snprintf(path, sizeof(path), FREEZE "%d%s", i, below[j]);
			rmdir(path);
		}
	}
}

static void start(const char *scope)
{
	need_selective();
	all_off();
	ksm_set("pages_to_scan", "1000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("scan_policy", "dormant");
	ksm_set("scan_scope", scope);
	ksm_set("run", "1");
}

static long of(int who, const char *key)
{
	return proc_field(pid_of(who), "ksm_stat", key);
}

static void dormant(int who, bool yes)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/ksm_dormant", pid_of(who));
	ret = write_text(path, yes ? "1" : "0");
	must(!ret, "%s: %s", path, strerror(-ret));
}

/* until ksmd has been through all of a process so often since it was forked */
static void wait_scans(int who, long n)
{
	for (int i = 0; i < 1500 && of(who, "ksm_scans") < n; i++)
		usleep(10000);
	must(of(who, "ksm_scans") == n, "%ld scans of peer %d, not %ld",
	     of(who, "ksm_scans"), who, n);
}

/* ksmd has time for what it must not do */
static void leave_time(void)
{
	usleep(300000);
}

static void set_frozen(int who, bool yes)
{
	char path[64], text[16];
	int ret;

	snprintf(path, sizeof(path), FREEZE "%d", who);
	if (mkdir(path, 0755) && errno != EEXIST)
		skip("%s: %s", path, strerror(errno));
	snprintf(text, sizeof(text), "%d", pid_of(who));
	snprintf(path, sizeof(path), FREEZE "%d/cgroup.procs", who);
	ret = write_text(path, text);
	must(!ret, "%s: %s", path, strerror(-ret));
	snprintf(path, sizeof(path), FREEZE "%d/cgroup.freeze", who);
	ret = write_text(path, yes ? "1" : "0");
	must(!ret, "%s: %s", path, strerror(-ret));
}

/* --- what peers do -------------------------------------------------------- */

/* pages from..to alike in all who have the same tag */
static long fill(long range, long tag)
{
	for (long i = range >> 16; i < (range & 0xffff); i++)
		page_fill(area + i * page_size, tag + i);
	return 0;
}

#define RANGE(from, to)	((long)(from) << 16 | (to))
#define ALL		RANGE(0, PAGES)

static long intact(long range, long tag)
{
	for (long i = range >> 16; i < (range & 0xffff); i++)
		must(page_is(area + i * page_size, tag + i), "page %ld is not %ld",
		     i, tag + i);
	return 0;
}

static long merge_area(long pages, long unused)
{
	must_call(madvise(area, pages * page_size, MADV_MERGEABLE));
	return 0;
}

static long rename_me(long number, long unused)
{
	char name[16];

	snprintf(name, sizeof(name), "app %ld", number);
	must_call(prctl(PR_SET_NAME, name));
	return 0;
}

/* Whether the area is mergeable is for others to say. */
static void setup_area(long pages)
{
	area = arena(pages * page_size / table_size + 1);
	map_at(area, pages * page_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* each page of its own, so that nothing is alike for having been forked */
	must_call(madvise(area, pages * page_size, MADV_NOHUGEPAGE));
	*area = 1;
}

static void setup(int peers, long pages)
{
	setup_area(pages);
	merge_area(pages, 0);
	for (int i = 1; i <= peers; i++)
		spawn(i);
	for (int i = 1; i <= peers; i++)
		ask(i, fill, RANGE(0, pages), 1000);
}

/* --- in time -------------------------------------------------------------- */

/*
 * Everything that KSM counts. As a stock kernel has it after four full scans of
 * two processes with 64 pages, alike in all but one, and a third with one page.
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
		/* it was on, and in the middle of something */
		start("global");
		dormant(1, true);
		wait_scans(1, 1);
		ksm_set("pages_to_scan", "7");
		dormant(2, true);
		for (int i = 0; i < 1500 && !ksm("pages_sharing"); i++)
			usleep(1000);
		must(ksm("pages_sharing") > 0, "nothing merged");
		/* where nothing sets it back, no full scan may have begun */
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
	/* a batch is a full scan, and time enough between two to stop ksmd */
	ksm_set("pages_to_scan", "100000");
	ksm_set("sleep_millisecs", "300");
	ksm_set("run", "1");
	for (int i = 0; i < 3000 && ksm("full_scans") - was[0] < stock[0]; i++)
		usleep(2000);
	ksm_set("run", "0");
	for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
		n = ksm(stats[i]);
		/* these count on */
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

/* What is said of a process changes nothing. */
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
	/* one after the other, in rounds of their own */
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
	/* said again, it is not news */
	dormant(1, true);
	leave_time();
	must(ksm("pages_scanned") == scanned, "scanned again");
	must(of(1, "ksm_scans") == 1, "scanned again");
	ask(1, intact, ALL, 1000);
	ask(2, intact, ALL, 1000);
}

/* A write after the merge is the writer's alone, and is found at the next scan. */
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

/* What was seen of a process that has run since is worth nothing. */
static void test_stale(long arg)
{
	setup(3, PAGES);
	start("all");
	dormant(1, true);
	wait_scans(1, 1);
	/* all its pages wait for one that is alike; now they change */
	dormant(1, false);
	ask(1, fill, ALL, 7000);
	if (arg)
		dormant(1, true);	/* dormant again, and not the same */
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

/* And what was seen of one that is gone must not be in the way. */
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
	for (int i = 0; i < 500 && ksm("pages_scanned") < scanned + 32; i++)
		usleep(2000);
	dormant(1, false);
	if (arg)
		dormant(1, true);
	scanned = ksm("pages_scanned");
	leave_time();
	if (arg) {
		/* begun again, from its first page */
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

static void test_freezer(long arg)
{
	setup(2, PAGES);
	if (arg)	/* it was frozen before the policy was chosen */
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

/* All who are in a cgroup at that time, and nobody else. */
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

static void cgroup_set(const char *file, const char *value)
{
	char path[128];
	int ret;

	snprintf(path, sizeof(path), FREEZE "%s", file);
	ret = write_text(path, value);
	must(!ret, "%s: %s", path, strerror(-ret));
}

static void move_to(const char *cgroup, int who)
{
	char file[64], pid[16];

	snprintf(file, sizeof(file), "%s/cgroup.procs", cgroup);
	snprintf(pid, sizeof(pid), "%d", pid_of(who));
	cgroup_set(file, pid);
}

/* It is said of the cgroups below too, as with cgroup.freeze. */
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
	/* what is said below is of nobody above or beside */
	cgroup_set("1/below/memory.ksm_dormant", "0");
	must(!of(1, "ksm_dormant_written") && !of(2, "ksm_dormant_written"),
	     "still dormant");
	must(of(3, "ksm_dormant_written") == 1, "another cgroup's process woke");
	for (int i = 1; i <= 3; i++)
		quit(i);
}

static void set_oom(int who, const char *adj)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid_of(who));
	ret = write_text(path, adj);
	must(!ret, "%s: %s", path, strerror(-ret));
}

static void test_oom(long arg)
{
	setup(2, PAGES);
	start("all");
	set_oom(1, "900");
	leave_time();
	must(!of(1, "ksm_scans"), "scanned without a threshold");
	/* the threshold comes after the process, and before it */
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

static long merge_all(long unused, long unused2)
{
	must_call(prctl(PR_MEMORY_MERGE, 1, 0, 0, 0));
	return 0;
}

/* The value came before there was anything to merge. */
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
	/* a child is active, whatever it has inherited */
	spawn_from(1, 3);
	must(!of(3, "ksm_dormant_oom"), "a child is born dormant");
	set_oom(2, "800");
	wait_scans(2, 1);
	must(of(2, "ksm_merging_pages") >= PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	ask(1, intact, ALL, 1000);
	ask(2, intact, ALL, 1000);
}

/* a child that has this one's memory until it executes something sets its value */
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

/*
 * Pages that several processes have in common since their fork merge with the
 * first page that is like them, all of them. Where they have the table in common
 * too it is scanned through the first of them.
 */
static void test_forked_pages(long arg)
{
	const int peers = 4, scanned = cohort_mode == MODE_ALWAYS ? 1 : peers;

	setup(0, PAGES);
	fill(ALL, 1000);
	for (int i = 1; i <= peers + 1; i++)
		spawn(i);
	/* the last one has its own */
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
	/* woken before: it is not scanned for another's sake */
	ask(1, fill, RANGE(0, 1), 3000);
	ask(2, intact, ALL, 1000);
	must(intact(ALL, 1000) == 0, "lost");
}

/* One of them has written to its pages meanwhile: that is no matter for the others. */
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
	/* marked as dormant, but it runs */
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

/* each page with one word throughout, another one in each */
static long fill_plain(long range, long unused)
{
	for (long i = range >> 16; i < (range & 0xffff); i++)
		for (size_t at = 0; at < page_size; at += sizeof(int))
			*(int *)(area + i * page_size + at) = i + 1;
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

static long exec_sleep(long unused, long unused2)
{
	/* so that KSM knows of the program too */
	prctl(PR_MEMORY_MERGE, 1, 0, 0, 0);
	execl("/proc/self/exe", "ksm_selective", "--sleep", NULL);
	return -1;
}

/* until a peer has executed itself as that */
static void wait_exec(int who)
{
	char path[32], buf[64];
	int len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid_of(who));
	for (int i = 0; i < 500; i++) {
		len = read_text(path, buf, sizeof(buf));
		if (len > 0 && memmem(buf, len, "--sleep", 7))
			return;
		usleep(10000);
	}
	fail("no exec");
}

enum reason { WRITTEN, FROZEN, OOM };
enum state { ACTIVE, WAITING, SCANNING, SCANNED };
enum event { FORK, EXEC, EXIT, KILL, UNMERGE };

#define REASON_CASE(reason, state, event) \
	((reason) << 16 | (state) << 8 | (event))
#define STATE_CASE(state, event)	REASON_CASE(WRITTEN, state, event)

static const char * const reason_keys[] = {
	"ksm_dormant_written", "ksm_dormant_frozen", "ksm_dormant_oom",
};

static void go_dormant(int who, enum reason reason)
{
	switch (reason) {
	case WRITTEN:
		dormant(who, true);
		break;
	case FROZEN:
		set_frozen(who, true);
		break;
	case OOM:
		set_oom(who, "900");
	}
	/* it is frozen when all its threads have got there */
	for (int i = 0; i < 500 && !of(who, reason_keys[reason]); i++)
		usleep(2000);
	must(of(who, reason_keys[reason]) == 1, "not dormant");
}

/* From here on ksmd does not dawdle. */
static void at_once(void)
{
	ksm_set("pages_to_scan", "10000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("run", "1");
}

/* Bring peer 1 into a state, and let ksmd dawdle. */
static void bring_into(enum state state, enum reason reason)
{
	start("all");
	ksm_set("dormant_oom_score_adj", "800");
	ksm_set("pages_to_scan", "16");
	ksm_set("sleep_millisecs", "100");
	switch (state) {
	case ACTIVE:
		return;
	case WAITING:
		ksm_set("run", "0");
		go_dormant(1, reason);
		return;
	case SCANNING:
		go_dormant(1, reason);
		for (int i = 0; i < 1000 && of(1, "ksm_pages_scanned") < 32; i++)
			usleep(2000);
		must(of(1, "ksm_pages_scanned") >= 32 && !of(1, "ksm_scans"),
		     "not in the middle of its scan");
		return;
	case SCANNED:
		at_once();
		go_dormant(1, reason);
		wait_scans(1, 1);
	}
}

/* There is nothing left of who is gone. */
static void forgotten(void)
{
	for (int i = 0; i < 500; i++) {
		if (!ksm("pages_unshared") && !ksm("pages_volatile") &&
		    !ksm("pages_shared"))
			return;
		usleep(10000);
	}
	fail("%ld unshared, %ld volatile, %ld shared", ksm("pages_unshared"),
	     ksm("pages_volatile"), ksm("pages_shared"));
}

/* A child is active, and so is what has executed another program. */
static void test_states(long arg)
{
	enum reason reason = arg >> 16;
	enum state state = arg >> 8 & 0xff;
	enum event event = arg & 0xff;
	const char *key = reason_keys[reason];
	const long pages = 1024;
	bool stays;

	setup(2, pages);
	bring_into(state, reason);
	switch (event) {
	case FORK:
		spawn_from(1, 3);
		must(of(1, key) == (state != ACTIVE), "the parent has changed");
		must(!of(3, key), "a child is born dormant");
		must(!of(3, "ksm_scanned"), "a child is born scanned");
		ask(3, fill, RANGE(0, pages), 1000);
		at_once();
		dormant(1, true);
		wait_scans(1, 1);
		must(!of(3, "ksm_scans"), "an active child was scanned");
		dormant(3, true);
		wait_scans(3, 1);
		must(of(3, "ksm_merging_pages") == pages, "%ld merged",
		     of(3, "ksm_merging_pages"));
		ask(3, intact, RANGE(0, pages), 1000);
		ask(1, intact, RANGE(0, pages), 1000);
		break;
	case EXEC:
		tell(1, exec_sleep, 0, 0);
		wait_exec(1);
		/* an oom_score_adj outlasts the program */
		stays = reason == OOM && state != ACTIVE;
		for (int i = 0; stays && i < 500 && !of(1, key); i++)
			usleep(2000);
		must(of(1, key) == stays, "exec left it %s", stays ? "active" : "dormant");
		must(stays || !of(1, "ksm_scans"), "scanned while active");
		at_once();
		if (!stays)
			dormant(1, true);
		wait_scans(1, 1);
		kill(pid_of(1), SIGKILL);
		for (int i = 0; i < 500 && !is_gone(pid_of(1)); i++)
			usleep(10000);
		forgotten();
		break;
	case EXIT:
	case KILL:
		if (event == EXIT)
			quit(1);
		else
			kill_peer(1);
		at_once();
		forgotten();
		break;
	case UNMERGE:
		ksm_set("run", "2");
		must(!of(1, "ksm_merging_pages"), "merged");
		must(!ksm("pages_unshared"), "%ld are indexed", ksm("pages_unshared"));
		if (reason != FROZEN)
			ask(1, intact, RANGE(0, pages), 1000);
		at_once();
		if (state == ACTIVE) {
			leave_time();
			must(!of(1, "ksm_scans"), "an active process was scanned");
		} else {
			wait_scans(1, state == SCANNED ? 2 : 1);
		}
		if (reason == FROZEN) {
			set_frozen(1, false);
			ask(1, intact, RANGE(0, pages), 1000);
			quit(1);
		}
		break;
	}
	at_once();
	dormant(2, true);
	wait_scans(2, 1);
	ask(2, intact, RANGE(0, pages), 1000);
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
	/* to and fro: neither may find what the other has left in a tree */
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

/* --- in space ------------------------------------------------------------- */

static char text[65536];

static void read_profile(void)
{
	must(read_text(KSM "profile", text, sizeof(text)) >= 0, "no profile");
}

/* The first of an application is scanned whole, the next by its profile. */
static void test_profile(long arg)
{
	bool global = arg;
	long app = 1;

	setup(4, PAGES);
	start(global ? "global" : "application");
	for (int i = 1; i <= 4; i++) {
		/* all but 16 pages are different in each */
		ask(i, fill, RANGE(16, PAGES), 10000 * i);
		ask(i, rename_me, app, 0);
		dormant(i, true);
		wait_scans(i, 1);
		must(of(i, "ksm_pages_scanned") == (i < 3 ? PAGES : 16),
		     "%ld pages scanned of peer %d", of(i, "ksm_pages_scanned"), i);
		must(i < 2 || of(i, "ksm_merging_pages") == 16, "%ld merged",
		     of(i, "ksm_merging_pages"));
		/* the first has nothing to merge with, which says nothing yet */
		read_profile();
		must(i > 1 || !*text, "the first leaves %s", text);
	}
	must(strstr(text, "known app\\x201\n"), "profile reads %s", text);
	must(strstr(text, "app ") && strstr(text, "global "), "profile reads %s", text);
	for (int i = 1; i <= 4; i++) {
		ask(i, intact, RANGE(0, 16), 1000);
		ask(i, intact, RANGE(16, PAGES), 10000 * i);
	}
}

/*
 * Several programs and one profile for all come to an end: each is scanned as
 * often as it went dormant, and then ksmd sleeps.
 */
static void test_many(long arg)
{
	const int peers = 10, rounds = quick ? 2 : 4;
	long scanned;

	need_peers(peers);
	setup(peers, PAGES);
	start("global");
	ksm_set("sleep_millisecs", "0");
	for (int i = 1; i <= peers; i++)
		ask(i, rename_me, i, 0);
	for (int round = 1; round <= rounds; round++) {
		for (int i = 1; i <= peers; i++) {
			dormant(i, false);
			/* every third page is its own, another each time */
			for (int page = i % 3; page < PAGES; page += 3)
				ask(i, fill, RANGE(page, page + 1),
				    10000 * i + 100 * round);
			dormant(i, true);
		}
		for (int i = 1; i <= peers; i++)
			wait_scans(i, round);
	}
	leave_time();
	scanned = ksm("pages_scanned");
	leave_time();
	must(ksm("pages_scanned") == scanned, "ksmd does not sleep");
	for (int i = 1; i <= peers; i++)
		for (int page = 0; page < PAGES; page++)
			ask(i, intact, RANGE(page, page + 1),
			    page % 3 == i % 3 ? 10000 * i + 100 * rounds : 1000);
	must(ksm("pages_sharing") > PAGES, "%ld merged", ksm("pages_sharing"));
}

/* What was saved before a boot goes for the next one. */
static void test_restore(long arg)
{
	char saved[sizeof(text)];

	setup(3, PAGES);
	start("application");
	for (int i = 1; i <= 3; i++)
		ask(i, rename_me, 1, 0);
	ask(1, fill, RANGE(16, PAGES), 10000);
	ask(2, fill, RANGE(16, PAGES), 20000);
	for (int i = 1; i <= 2; i++) {
		dormant(i, true);
		wait_scans(i, 1);
	}
	read_profile();
	memcpy(saved, text, sizeof(text));
	must(ksm("profile_bytes") > 0, "takes nothing");
	ksm_set("profile", "clear");
	must(!ksm("profile_bytes"), "clear leaves %ld bytes", ksm("profile_bytes"));
	read_profile();
	must(!*text, "clear leaves %s", text);
	must(!write_text(KSM "profile", saved), "what was read cannot be written");
	read_profile();
	must(!strcmp(saved, text), "%s became %s", saved, text);
	dormant(3, true);
	wait_scans(3, 1);
	must(of(3, "ksm_pages_scanned") == 16 && of(3, "ksm_merging_pages") == 16,
	     "scanned %ld, merged %ld", of(3, "ksm_pages_scanned"),
	     of(3, "ksm_merging_pages"));
}

/* A full scan on demand finds what the profile does not have. */
static void test_learn(long arg)
{
	setup(2, PAGES);
	start("application");
	for (int i = 1; i <= 2; i++)
		ask(i, rename_me, 1, 0);
	ksm_set("profile", "known app\\x201");
	dormant(1, true);
	dormant(2, true);
	wait_scans(1, 1);
	wait_scans(2, 1);
	must(!of(1, "ksm_pages_scanned"), "an empty profile has %ld pages",
	     of(1, "ksm_pages_scanned"));
	ksm_set("learn", "1");
	wait_scans(1, 2);
	wait_scans(2, 2);
	for (int i = 0; i < 200 && ksm("learn"); i++)
		usleep(10000);
	must(!ksm("learn"), "learns for ever");
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged",
	     of(2, "ksm_merging_pages"));
	read_profile();
	must(strstr(text, "\napp "), "profile reads %s", text);
	/* by the profile, all that was merged is scanned, and stays merged */
	dormant(1, false);
	dormant(1, true);
	wait_scans(1, 3);
	must(of(1, "ksm_pages_scanned") == 2 * PAGES, "%ld pages scanned",
	     of(1, "ksm_pages_scanned"));
	must(of(1, "ksm_merging_pages") == PAGES, "%ld stay merged",
	     of(1, "ksm_merging_pages"));
	ksm_set("profile", "clear");
	ksm_set("profile", "known app\\x201");
	dormant(1, false);
	dormant(1, true);
	wait_scans(1, 4);
	must(of(1, "ksm_merging_pages") == PAGES,
	     "%ld stay merged of what was passed over", of(1, "ksm_merging_pages"));
	ask(1, fill, ALL, 3000);
	ask(1, intact, ALL, 3000);
	ask(2, intact, ALL, 1000);
}

static long map_new(long addr, long tag)
{
	char *p = map_at((char *)addr, 16 * page_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 16; i++)
		page_fill(p + i * page_size, tag + i);
	must_call(madvise(p, 16 * page_size, MADV_MERGEABLE));
	return 0;
}

/* Regions that came after the fork are left out, unless they are asked for. */
static void test_new_regions(long arg)
{
	bool wanted = arg;
	char *new;

	setup(2, PAGES);
	start("global");
	ksm_set("scan_new_regions", wanted ? "1" : "0");
	new = arena(1);
	for (int i = 1; i <= 2; i++) {
		ask(i, map_new, (long)new, 60000);
		dormant(i, true);
		wait_scans(i, 1);
	}
	must(of(2, "ksm_merging_pages") == PAGES + (wanted ? 16 : 0), "%ld merged",
	     of(2, "ksm_merging_pages"));
}

static void test_bound(long arg)
{
	long refused;

	setup(2, PAGES);
	start("application");
	ksm_set("profile_max_bytes", "0");
	refused = ksm("profile_refused");
	dormant(1, true);
	dormant(2, true);
	wait_scans(1, 1);
	wait_scans(2, 1);
	must(of(2, "ksm_merging_pages") == PAGES, "%ld merged without a profile",
	     of(2, "ksm_merging_pages"));
	must(!ksm("profile_bytes"), "%ld bytes", ksm("profile_bytes"));
	must(ksm("profile_refused") > refused, "nothing counted");
	must(write_text(KSM "profile", "known x") == -ENOSPC, "taken without room");
}

static void test_zero_pages(long arg)
{
	long zero = ksm("ksm_zero_pages");

	setup(1, PAGES);
	start("all");
	ksm_set("use_zero_pages", "1");
	for (int i = 0; i < PAGES; i++)
		ask(1, fill, RANGE(i, i + 1), -i);
	dormant(1, true);
	wait_scans(1, 1);
	must(ksm("ksm_zero_pages") - zero == PAGES, "%ld zero pages",
	     ksm("ksm_zero_pages") - zero);
	ask(1, fill, RANGE(0, 8), 1000);
	ask(1, intact, RANGE(0, 8), 1000);
}

/* --- settings ------------------------------------------------------------- */

static pid_t ksmd_pid(void)
{
	char path[32], comm[32];

	for (int pid = 2; pid < 400; pid++) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (read_text(path, comm, sizeof(comm)) > 0 && !strcmp(comm, "ksmd\n"))
			return pid;
	}
	fail("no ksmd");
}

/*
 * Nobody has chosen a priority: it goes with the policy. Comes first, since what is
 * written remains for this boot; all_off() writes another than stock's, to be seen.
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

static void test_nice(long arg)
{
	pid_t pid = ksmd_pid();

	need_selective();
	all_off();
	for (int nice = -20; nice <= 19; nice += 13) {
		char word[8];

		snprintf(word, sizeof(word), "%d", nice);
		ksm_set("ksmd_nice", word);
		must(ksm("ksmd_nice") == nice, "reads %ld", ksm("ksmd_nice"));
		must(getpriority(PRIO_PROCESS, pid) == nice, "is %d",
		     getpriority(PRIO_PROCESS, pid));
	}
	must(write_text(KSM "ksmd_nice", "20") == -EINVAL, "20 is taken");
	must(write_text(KSM "ksmd_nice", "-21") == -EINVAL, "-21 is taken");
	must(write_text(KSM "ksmd_nice", "x") == -EINVAL, "x is taken");
}

static void test_bad_words(long arg)
{
	static const char * const bad[][2] = {
		{ "scan_policy", "none" }, { "scan_policy", "0" }, { "scan_scope", "app" },
		{ "scan_new_regions", "2" }, { "dormant_oom_score_adj", "1002" },
		{ "dormant_oom_score_adj", "-1001" }, { "learn", "0" }, { "learn", "x" },
		{ "profile_max_bytes", "-1" }, { "profile", "global 1-2" },
	};
	char path[64];

	need_selective();
	all_off();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(path, sizeof(path), KSM "%s", bad[i][0]);
		must(write_text(path, bad[i][1]) == -EINVAL, "%s takes '%s'", path,
		     bad[i][1]);
	}
	must(write_text(KSM "learn", "1") == -EBUSY, "learns without the policy");
	must(write_text("/proc/self/ksm_dormant", "2") == -EINVAL, "2 is taken");
	must(write_text("/proc/2/ksm_dormant", "1") < 0, "a kernel thread is dormant");
}

/* --- races ---------------------------------------------------------------- */

static long racer(long seed, long seconds)
{
	double end = now() + seconds;
	unsigned int r = seed;

	while (now() < end) {
		long i = rand_r(&r) % PAGES;

		switch (rand_r(&r) % 8) {
		case 0:
			madvise(area, PAGES * page_size,
				rand_r(&r) % 2 ? MADV_MERGEABLE : MADV_UNMERGEABLE);
			break;
		case 1:
			madvise(area + i * page_size, page_size, MADV_DONTNEED);
			page_fill(area + i * page_size, 1000 + i);
			break;
		case 2:
			if (!fork()) {
				page_fill(area + i * page_size, 9000 + i);
				must(page_is(area + i * page_size, 9000 + i), "lost");
				_exit(0);
			}
			wait(NULL);
			break;
		case 3:
			prctl(PR_MEMORY_MERGE, rand_r(&r) % 2, 0, 0, 0);
			break;
		default:
			must(page_is(area + i * page_size, 1000 + i), "page %ld differs", i);
			page_fill(area + i * page_size, 4000 + i);
			must(page_is(area + i * page_size, 4000 + i), "page %ld differs", i);
			page_fill(area + i * page_size, 1000 + i);
			break;
		}
	}
	return 0;
}

/* Processes that write, fork, unmerge and die while they go dormant and wake. */
static void test_race(long arg)
{
	unsigned int r = 1;
	double end;

	setup(4, PAGES);
	start(arg ? "global" : "all");
	ksm_set("sleep_millisecs", "0");
	ksm_set("scan_new_regions", "1");
	for (int i = 1; i <= 4; i++)
		tell(i, racer, i, race_seconds * 4);
	end = now() + race_seconds * 4;
	while (now() < end) {
		int who = rand_r(&r) % 4 + 1;
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/ksm_dormant", pid_of(who));
		switch (rand_r(&r) % 32) {
		case 0:
			ksm_set("run", "2");
			ksm_set("run", "1");
			break;
		case 1:
			ksm_set("scan_policy", "all");
			usleep(rand_r(&r) % 20000);
			ksm_set("scan_policy", "dormant");
			break;
		case 2:
			ksm_set("learn", "1");
			break;
		case 3:
			ksm_set("profile", "clear");
			break;
		case 4:
			kill_peer(who);
			spawn(who);
			ask(who, fill, ALL, 1000);
			if (end - now() > 1)
				tell(who, racer, who, (long)(end - now()));
			else
				tell(who, intact, ALL, 1000);
			break;
		case 5:
		case 6:
			set_frozen(who, true);
			usleep(rand_r(&r) % 10000);
			set_frozen(who, false);
			break;
		default:
			write_text(path, rand_r(&r) % 2 ? "1" : "0");
			usleep(rand_r(&r) % 3000);
		}
	}
	for (int i = 1; i <= 4; i++) {
		must(answer(i) == 0, "peer %d failed", i);
		ask(i, intact, ALL, 1000);
		quit(i);
	}
}

static const struct test_case cases[] = {
	{ "Is ksmd's priority the policy's until it is written?", test_default_nice },
	{ "Switched off, does KSM count what stock KSM counts?", test_off, OFF },
	{ "Does it when it was on before?", test_off, ON_BEFORE },
	{ "Does it with what is merged still?", test_off, STILL_MERGED },
	{ "Switched off, is a dormant process like any other?", test_off_dormant },
	{ "Are active processes left alone?", test_active },
	{ "Is a process scanned once when it is said to be dormant?", test_written },
	{ "Who sees a write after a process has woken?", test_wake_write },
	{ "Is what has changed since the scan not merged?", test_stale, 0 },
	{ "Nor when its process is dormant again?", test_stale, 1 },
	{ "Do pages of an exited process stay out of the way?", test_gone, 0 },
	{ "Do pages of a killed process stay out of the way?", test_gone, 1 },
	{ "Is a process left that wakes in the middle of its scan?", test_woken_midway, 0 },
	{ "Is its scan begun again when it is dormant again?", test_woken_midway, 1 },
	{ "Does the freezer make processes dormant?", test_freezer, 0 },
	{ "Are processes dormant that were frozen before?", test_freezer, 1 },
	{ "Can a cgroup be said to be dormant?", test_cgroup },
	{ "And with it those below?", test_cgroup_below },
	{ "Does a high oom_score_adj make processes dormant?", test_oom },
	{ "Does one that was high before the first madvise?", test_oom_before, 0 },
	{ "Does one that was high before the prctl?", test_oom_before, 1 },
	{ "Is the value of a vfork child its own?", test_oom_vfork },
	{ "Do pages merge that were forked?", test_forked_pages },
	{ "Do they if one of them was written?", test_changed_twin },
	{ "Do pages merge that hold one word each?", test_plain_pages },
	{ "Is a child active, of a process that is active?", test_states,
	  STATE_CASE(ACTIVE, FORK) },
	{ "Is a child active, of a process that is waiting?", test_states,
	  STATE_CASE(WAITING, FORK) },
	{ "Is a child active, of a process that is being scanned?", test_states,
	  STATE_CASE(SCANNING, FORK) },
	{ "Is a child active, of a process that is scanned?", test_states,
	  STATE_CASE(SCANNED, FORK) },
	{ "Is an executed program active, of a process that was active?", test_states,
	  STATE_CASE(ACTIVE, EXEC) },
	{ "Is an executed program active, of a process that was waiting?", test_states,
	  STATE_CASE(WAITING, EXEC) },
	{ "Is an executed program active, of a process that was being scanned?", test_states,
	  STATE_CASE(SCANNING, EXEC) },
	{ "Is an executed program active, of a process that was scanned?", test_states,
	  STATE_CASE(SCANNED, EXEC) },
	{ "Is nothing left of a process that exits while active?", test_states,
	  STATE_CASE(ACTIVE, EXIT) },
	{ "Is nothing left of a process that exits while waiting?", test_states,
	  STATE_CASE(WAITING, EXIT) },
	{ "Is nothing left of a process that exits while being scanned?", test_states,
	  STATE_CASE(SCANNING, EXIT) },
	{ "Is nothing left of a process that exits while scanned?", test_states,
	  STATE_CASE(SCANNED, EXIT) },
	{ "Is nothing left of a process that is killed while active?", test_states,
	  STATE_CASE(ACTIVE, KILL) },
	{ "Is nothing left of a process that is killed while waiting?", test_states,
	  STATE_CASE(WAITING, KILL) },
	{ "Is nothing left of a process that is killed while being scanned?", test_states,
	  STATE_CASE(SCANNING, KILL) },
	{ "Is nothing left of a process that is killed while scanned?", test_states,
	  STATE_CASE(SCANNED, KILL) },
	{ "Is a process unmerged, and scanned again, while active?", test_states,
	  STATE_CASE(ACTIVE, UNMERGE) },
	{ "Is a process unmerged, and scanned again, while waiting?", test_states,
	  STATE_CASE(WAITING, UNMERGE) },
	{ "Is a process unmerged, and scanned again, while being scanned?", test_states,
	  STATE_CASE(SCANNING, UNMERGE) },
	{ "Is a process unmerged, and scanned again, while scanned?", test_states,
	  STATE_CASE(SCANNED, UNMERGE) },
	{ "Is nothing left of a process that is killed while frozen and waiting?",
	  test_states, REASON_CASE(FROZEN, WAITING, KILL) },
	{ "Is nothing left of a process that is killed while frozen and being scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNING, KILL) },
	{ "Is nothing left of a process that is killed while frozen and scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNED, KILL) },
	{ "Is a process unmerged, and scanned again, while frozen and waiting?",
	  test_states, REASON_CASE(FROZEN, WAITING, UNMERGE) },
	{ "Is a process unmerged, and scanned again, while frozen and being scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNING, UNMERGE) },
	{ "Is a process unmerged, and scanned again, while frozen and scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNED, UNMERGE) },
	{ "By oom_score_adj: is a child active, of a process that is waiting?",
	  test_states, REASON_CASE(OOM, WAITING, FORK) },
	{ "By oom_score_adj: is a child active, of a process that is being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, FORK) },
	{ "By oom_score_adj: is a child active, of a process that is scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, FORK) },
	{ "By oom_score_adj: is an executed program dormant, of a process that was waiting?",
	  test_states, REASON_CASE(OOM, WAITING, EXEC) },
	{ "By oom_score_adj: is an executed program dormant, of a process that was being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, EXEC) },
	{ "By oom_score_adj: is an executed program dormant, of a process that was scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, EXEC) },
	{ "By oom_score_adj: is nothing left of a process that exits while waiting?",
	  test_states, REASON_CASE(OOM, WAITING, EXIT) },
	{ "By oom_score_adj: is nothing left of a process that exits while being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, EXIT) },
	{ "By oom_score_adj: is nothing left of a process that exits while scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, EXIT) },
	{ "By oom_score_adj: is nothing left of a process that is killed while waiting?",
	  test_states, REASON_CASE(OOM, WAITING, KILL) },
	{ "By oom_score_adj: is nothing left of a process that is killed while being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, KILL) },
	{ "By oom_score_adj: is nothing left of a process that is killed while scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, KILL) },
	{ "By oom_score_adj: is a process unmerged, and scanned again, while waiting?",
	  test_states, REASON_CASE(OOM, WAITING, UNMERGE) },
	{ "By oom_score_adj: is a process unmerged, and scanned again, while being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, UNMERGE) },
	{ "By oom_score_adj: is a process unmerged, and scanned again, while scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, UNMERGE) },
	{ "Is everything scanned again after an unmerge?", test_unmerge },
	{ "Is the second scanned by the application's profile?", test_profile, 0 },
	{ "Is the second scanned by the global profile?", test_profile, 1 },
	{ "Does a run of many programs with one profile end?", test_many },
	{ "Can a profile be saved and restored?", test_restore },
	{ "Does a full scan on demand learn?", test_learn },
	{ "Are regions made after the fork left out?", test_new_regions, 0 },
	{ "Are they scanned when asked for?", test_new_regions, 1 },
	{ "Are profiles bounded?", test_bound },
	{ "Do zero pages merge in the one scan?", test_zero_pages },
	{ "Can ksmd's priority be set?", test_nice },
	{ "Are bad words refused?", test_bad_words },
	{ "Does memory stay right in races, all pages?", test_race, 0 },
	{ "Does memory stay right in races, by profile?", test_race, 1 },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--sleep"))
		return sleep(1000);
	after_each_case = all_off;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
