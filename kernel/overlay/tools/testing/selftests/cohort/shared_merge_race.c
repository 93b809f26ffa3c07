// SPDX-License-Identifier: GPL-2.0-only
/* Merging in shared tables while the users write, fork, unmerge and exit. */
#include "shared_merge/merge.h"

/* --- races ---------------------------------------------------------------- */

/* Read pages without system calls, so that nothing flushes the TLB. */
static long stare(long until, long unused)
{
	long rounds = 0;

	while (now() < until) {
		for (int i = 0; i < 20; i++)
			for (int page = 0; page < PAGES; page++)
				sees(page_is(memory + page * page_size,
					     1000 + page % COPIES),
				     "page %d is not what it was", page);
		rounds++;
	}
	return rounds;
}

/* Reuse pages that ksmd frees at once. */
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

/* No process may still see a page that merging has replaced. */
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
		must_call(madvise(memory, table_size, MADV_MERGEABLE));
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

static long compact(long until, long unused)
{
	while (now() < until) {
		write_text("/proc/sys/vm/compact_memory", "1");
		usleep(5000);
	}
	return 0;
}

/* Check a page; on failure report its content, and whether it changes. */
static void must_hold(const char *who, int page, unsigned int tag)
{
	char *p = memory + page * page_size;
	unsigned int is = 0;

	if (page_is(p, tag))
		return;
	for (unsigned int t = 0; t < 1100000 && !is; t++)
		if (page_is(p, t))
			is = t;
	note_fatal("what a process sees is wrong");
	fail("%s: page %d is %u (%llx), not %u; looked at again it is %s, pagemap %llx",
	     who, page, is, (unsigned long long)*(__u64 *)p, tag,
	     page_is(p, tag) ? "right" : "wrong",
	     (unsigned long long)pagemap_entry(0, p));
}

/*
 * Each racer tracks its own content. All write, fork, unmerge, page out and exit
 * while ksmd scans.
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
		char *p = memory + i * page_size;
		pid_t pid;

		must_hold("racer", i, tag[i]);
		switch (rand_r(&r) % 16) {
		case 0:
			madvise(memory, table_size, rand_r(&r) % 2 ?
				MADV_MERGEABLE : MADV_UNMERGEABLE);
			break;
		case 1:
			must_call(madvise(p, page_size, MADV_DONTNEED));
			tag[i] = 0;
			break;
		case 2:
			madvise(memory, table_size, MADV_PAGEOUT);
			break;
		case 3:
		case 4:
		case 5:
			pid = fork();
			if (pid < 0)
				break;
			if (!pid) {
				/* one more user of the table for a while */
				for (int n = 0; n < 20; n++) {
					int at = rand_r(&r) % PAGES;

					must_hold("child", at, tag[at]);
					if (!n && r % 2) {
						page_fill(memory + at * page_size, 8);
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
			if (mremap(memory, table_size, table_size, MREMAP_MAYMOVE |
				   MREMAP_FIXED, memory + 2 * table_size) != MAP_FAILED)
				must(mremap(memory + 2 * table_size, table_size, table_size,
					    MREMAP_MAYMOVE | MREMAP_FIXED, memory) == memory,
				     "mremap: %s", strerror(errno));
			break;
		case 8:
		case 9:
			usleep(rand_r(&r) % 10000);
			break;
		default:
			/* often content that others have too */
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

/* Wait until the racer has read its request: a killed peer would leave it to the next. */
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
	memory = arena(4);
	map_at(memory, table_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	no_huge_pages(memory, table_size);
	fill_alike();
	must_call(madvise(memory, table_size, MADV_MERGEABLE));
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
	{ "Is a replaced page gone for two users?", test_stale, 0, .guards = INVARIANT(4) },
	{ "Is a replaced page gone for six users?", test_stale, 1, .guards = INVARIANT(4) },
	{ "Does memory stay right in races?", test_race, 0,
	  .guards = INVARIANT(2) | INVARIANT(4) | INVARIANT(5) },
	{ "Does memory stay right in races, with the selective policy?", test_race, 1,
	  .guards = INVARIANT(2) | INVARIANT(4) | INVARIANT(5) },
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
