// SPDX-License-Identifier: GPL-2.0-only
/* Shared by the tests of merging in shared tables. */
#include "merge.h"

char *memory;

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

/* Let this percentage of ksmd's allocations fail, and no other process's. */
bool ksmd_fails(const char *percent)
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
void all_off(void)
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

void fast(void)
{
	ksm_set("pages_to_scan", "20000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("smart_scan", "0");
}

void scan(void)
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
void scan_through(int who)
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

__u64 frame(int who, int page)
{
	__u64 entry = pagemap_entry(pid_of(who), memory + page * page_size);

	return entry & PM_PRESENT ? entry & PM_PFN : 0;
}

/* how many of a process's pages are merged with their copy */
int merged(int who)
{
	int n = 0;

	for (int i = 0; i < COPIES; i++)
		n += frame(who, i) && frame(who, i) == frame(who, i + COPIES);
	return n;
}

void need_merging(void)
{
	if (access(KSM "run", W_OK))
		skip("no KSM, or not root");
	all_off();
}

/* --- what peers do -------------------------------------------------------- */

long own_tag(int who, int page)
{
	return 100000 + who * 1000 + page;
}

void fill_alike(void)
{
	for (int i = 0; i < PAGES; i++)
		page_fill(memory + i * page_size, 1000 + i % COPIES);
}

void make_area(void)
{
	memory = arena(1);
	map_at(memory, table_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	no_huge_pages(memory, table_size);
	fill_alike();
}

long advise(long advice, long unused)
{
	return madvise(memory, table_size, advice) ? -errno : 0;
}

/* Check all pages; page @except, if not negative, holds @tag. */
long intact(long except, long tag)
{
	for (int i = 0; i < PAGES; i++)
		sees(page_is(memory + i * page_size,
			     i == except ? tag : 1000 + i % COPIES),
		     "page %d is another", i);
	return 0;
}

long write_page(long page, long tag)
{
	page_fill(memory + page * page_size, tag);
	return 0;
}

/* A zygote, and its children, with one table in common. */
void start(int children)
{
	need_merging();
	make_area();
	must_call(madvise(memory, table_size, MADV_MERGEABLE));
	become_zygote();
	need_peers(children + 4);
	for (int i = 1; i <= children; i++)
		spawn(i);
	for (int i = 1; i <= children; i++)
		ask(i, intact, -1, 0);
}

/*
 * Whether two processes share the table: a page that one reads in appears in the
 * other.
 */
static long read_hole(long page, long unused)
{
	touch(memory + page * page_size);
	return 0;
}

static int next_hole;

bool one_table(int a, int b)
{
	int hole = PAGES + 1 + next_hole++ % (table_size / page_size - PAGES - 1);

	ask(a, read_hole, hole, 0);
	return pagemap_entry(pid_of(b), memory + hole * page_size) & PM_PRESENT;
}

void all_share(int from, int to)
{
	if (!sharing_possible())
		return;
	for (int i = from + 1; i <= to; i++)
		must(one_table(from, i), "%d and %d do not share the table", from, i);
}

void must_be_merged(int from, int to)
{
	for (int i = from; i <= to; i++) {
		must(merged(i) == COPIES, "%d of %d pages of %d are merged", merged(i),
		     COPIES, i);
		ask(i, intact, -1, 0);
	}
}

long unmap(long unused, long unused2)
{
	must_call(munmap(memory, table_size));
	return 0;
}

long merge_any(long on, long unused)
{
	return prctl(PR_SET_MEMORY_MERGE, on, 0, 0, 0) ? -errno : 0;
}

long advise_page(long addr, long advice)
{
	return madvise((void *)addr, page_size, advice) ? -errno : 0;
}

void give_back(__u64 pfn)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)pfn);
	write_text("/sys/kernel/debug/hwpoison/unpoison-pfn", text);
}

long still_there(long page, long unused)
{
	return probe_read(memory + page * page_size);
}
