// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging in space: is a process scanned only at pages that are likely
 * to merge? Also the settings, and races.
 */
#include "ksm_selective/selective.h"

#include <sys/resource.h>

/* --- in space ------------------------------------------------------------- */

static char text[65536];

static void read_profile(void)
{
	must(read_text(KSM "profile", text, sizeof(text)) >= 0, "no profile");
}

/* The first process of an application is scanned whole, the next by the profile. */
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
		/* the first process has nothing to merge with, so it leaves no profile */
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

static long become(long user, long unused)
{
	must_call(setresuid(user, user, user));
	return 0;
}

/* A user that gives its processes another's name changes nothing for that one. */
static void test_users(long arg)
{
	static const int users[] = { 0, 1000, 1000, 0, 1000, 1001 };
	/* the first two of a user's are scanned whole */
	static const int scanned[] = { 0, PAGES, PAGES, PAGES, 16, PAGES };

	setup(5, PAGES);
	start("application");
	for (int i = 1; i <= 5; i++) {
		ask(i, become, users[i], 0);
		ask(i, fill, RANGE(16, PAGES), 10000 * i);
		ask(i, rename_me, 1, 0);
		dormant(i, true);
		wait_scans(i, 1);
		must(of(i, "ksm_pages_scanned") == scanned[i],
		     "%ld pages scanned of peer %d, of user %d", of(i, "ksm_pages_scanned"), i,
		     users[i]);
	}
	read_profile();
	must(strstr(text, "known app\\x201\n"), "profile reads %s", text);
	must(strstr(text, "known app\\x201 1000\n"), "profile reads %s", text);
	ksm_set("profile", "clear");
	ksm_set("profile", text);
	read_profile();
	must(strstr(text, "known app\\x201 1000\n"), "profile reads %s", text);
}

/* A user that fills the profiles, with names and pages, leaves the others their share. */
static void test_shares(long arg)
{
	const int names = 60, ours = 999;

	setup(3, PAGES);
	start("application");
	ksm_set("profile_max_bytes", "4096");
	ask(1, become, 1000, 0);
	ask(2, become, 1000, 0);
	dormant(2, true);
	wait_scans(2, 1);
	for (int i = 1; i <= names; i++) {
		dormant(1, false);
		ask(1, rename_me, i, 0);
		ask(1, fill, ALL, 1000);
		dormant(1, true);
		wait_scans(1, i);
	}
	must(ksm("profile_refused") > 0, "the user has not filled the profiles");
	ask(3, rename_me, ours, 0);
	dormant(3, true);
	wait_scans(3, 1);
	must(of(3, "ksm_merging_pages") == PAGES, "%ld merged", of(3, "ksm_merging_pages"));
	read_profile();
	must(strstr(text, "known app\\x20999\n"), "profile reads %s", text);
	must(ksm("profile_bytes") <= 4096, "%ld bytes", ksm("profile_bytes"));
	/* and what it has it keeps */
	for (int i = names + 1; i <= 2 * names; i++) {
		dormant(1, false);
		ask(1, rename_me, i, 0);
		ask(1, fill, ALL, 1000);
		dormant(1, true);
		wait_scans(1, i);
	}
	read_profile();
	must(strstr(text, "known app\\x20999\n"), "profile reads %s", text);
}

/*
 * With several programs and one global profile, each is scanned once per dormant
 * phase, and then ksmd sleeps.
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
			/* every third page is unique, with new content in each round */
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

/* A saved profile can be written back, as after a reboot. */
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

/* A full scan on demand adds to the profile. */
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
	/* a scan by the profile covers all merged pages, which stay merged */
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

/* Regions made after the fork are not scanned, unless scan_new_regions is 1. */
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

/* What an address adds to the profiles tells what others have merged there. */
static void test_hidden(long arg)
{
	static const char * const files[] = { "profile", "profile_bytes", "profile_refused" };
	char path[64];
	struct stat st;

	need_selective();
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), KSM "%s", files[i]);
		must_call(stat(path, &st));
		must(!(st.st_mode & 0077), "%s has mode %o", path, st.st_mode & 0777);
	}
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
			madvise(memory, PAGES * page_size,
				rand_r(&r) % 2 ? MADV_MERGEABLE : MADV_UNMERGEABLE);
			break;
		case 1:
			madvise(memory + i * page_size, page_size, MADV_DONTNEED);
			page_fill(memory + i * page_size, 1000 + i);
			break;
		case 2:
			if (!fork()) {
				page_fill(memory + i * page_size, 9000 + i);
				sees(page_is(memory + i * page_size, 9000 + i), "lost");
				_exit(0);
			}
			wait(NULL);
			break;
		case 3:
			prctl(PR_SET_MEMORY_MERGE, rand_r(&r) % 2, 0, 0, 0);
			break;
		default:
			sees(page_is(memory + i * page_size, 1000 + i), "page %ld differs", i);
			page_fill(memory + i * page_size, 4000 + i);
			sees(page_is(memory + i * page_size, 4000 + i), "page %ld differs", i);
			page_fill(memory + i * page_size, 1000 + i);
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
	{ "Is the second scanned by the application's profile?", test_profile, 0,
	  .guards = KSM_SELECTIVE },
	{ "Is the second scanned by the global profile?", test_profile, 1,
	  .guards = KSM_SELECTIVE },
	{ "Is a name of another user's no name of ours?", test_users,
	  .guards = KSM_SELECTIVE | PRIVILEGE },
	{ "Does a user who fills the profiles leave the others their share?", test_shares,
	  .guards = KSM_SELECTIVE | PRIVILEGE },
	{ "Does a run of many programs with one profile end?", test_many, .guards = KSM_SELECTIVE },
	{ "Can a profile be saved and restored?", test_restore, .guards = KSM_SELECTIVE },
	{ "Does a full scan on demand learn?", test_learn, .guards = KSM_SELECTIVE },
	{ "Are regions made after the fork left out?", test_new_regions, 0,
	  .guards = KSM_SELECTIVE },
	{ "Are regions made after the fork scanned when asked for?", test_new_regions, 1,
	  .guards = KSM_SELECTIVE },
	{ "Are profiles bounded?", test_bound, .guards = KSM_SELECTIVE },
	{ "Do zero pages merge in the one scan?", test_zero_pages, .guards = KSM_SELECTIVE },
	{ "Can ksmd's priority be set?", test_nice, .guards = KSM_SELECTIVE },
	{ "May only root read what the profiles of all take?", test_hidden,
	  .guards = KSM_SELECTIVE | PRIVILEGE },
	{ "Are wrong values refused?", test_bad_words, .guards = KSM_SELECTIVE },
	{ "Does memory stay right in races, all pages?", test_race, 0, .guards = KSM_SELECTIVE },
	{ "Does memory stay right in races, by profile?", test_race, 1, .guards = KSM_SELECTIVE },
};

int main(int argc, char **argv)
{
	after_each_case = all_off;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
