// SPDX-License-Identifier: GPL-2.0-only
/* Shared by the tests of selective merging. */
#include "selective.h"

char *memory;

/* --- the kernel's side ---------------------------------------------------- */

bool reads(const char *file, const char *word)
{
	char path[64], buf[128];

	snprintf(path, sizeof(path), KSM "%s", file);
	return read_text(path, buf, sizeof(buf)) > 0 && strstr(buf, word);
}

void need_selective(void)
{
	if (access(KSM "scan_policy", W_OK))
		skip("no selective merging in this kernel, or not root");
}

/*
 * Reset KSM: nothing merged, nothing learned, all switches as at boot. ksmd_nice
 * differs, which tells test_default_nice() that it was written.
 */
void all_off(void)
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

void start(const char *scope)
{
	need_selective();
	all_off();
	ksm_set("pages_to_scan", "1000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("scan_policy", "dormant");
	ksm_set("scan_scope", scope);
	ksm_set("run", "1");
}

long of(int who, const char *key)
{
	return proc_field(pid_of(who), "ksm_stat", key);
}

void dormant(int who, bool yes)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/ksm_dormant", pid_of(who));
	ret = write_text(path, yes ? "1" : "0");
	must(!ret, "%s: %s", path, strerror(-ret));
}

/* wait until ksmd has made n scans of a process */
void wait_scans(int who, long n)
{
	for (int i = 0; i < 1500 && of(who, "ksm_scans") < n; i++)
		usleep(10000);
	must(of(who, "ksm_scans") == n, "%ld scans of peer %d, not %ld",
	     of(who, "ksm_scans"), who, n);
}

/* give ksmd time to do what it must not do */
void leave_time(void)
{
	usleep(300000);
}

void set_frozen(int who, bool yes)
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

/* fill pages from..to; they are alike in processes that use the same tag */
long fill(long range, long tag)
{
	for (long i = range >> 16; i < (range & 0xffff); i++)
		page_fill(memory + i * page_size, tag + i);
	return 0;
}

long intact(long range, long tag)
{
	for (long i = range >> 16; i < (range & 0xffff); i++)
		sees(page_is(memory + i * page_size, tag + i), "page %ld is not %ld",
		     i, tag + i);
	return 0;
}

long merge_area(long pages, long unused)
{
	must_call(madvise(memory, pages * page_size, MADV_MERGEABLE));
	return 0;
}

long rename_me(long number, long unused)
{
	char name[16];

	snprintf(name, sizeof(name), "app %ld", number);
	must_call(prctl(PR_SET_NAME, name));
	return 0;
}

/* Map the memory; it is not mergeable yet. */
void setup_area(long pages)
{
	memory = arena(pages * page_size / table_size + 1);
	map_at(memory, pages * page_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* the children write each page, so that no page is inherited */
	no_huge_pages(memory, pages * page_size);
	*memory = 1;
}

void setup(int peers, long pages)
{
	setup_area(pages);
	merge_area(pages, 0);
	for (int i = 1; i <= peers; i++)
		spawn(i);
	for (int i = 1; i <= peers; i++)
		ask(i, fill, RANGE(0, pages), 1000);
}

void cgroup_set(const char *file, const char *value)
{
	char path[128];
	int ret;

	snprintf(path, sizeof(path), FREEZE "%s", file);
	ret = write_text(path, value);
	must(!ret, "%s: %s", path, strerror(-ret));
}

void set_oom(int who, const char *adj)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid_of(who));
	ret = write_text(path, adj);
	must(!ret, "%s: %s", path, strerror(-ret));
}

long merge_all(long unused, long unused2)
{
	must_call(prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0));
	return 0;
}
