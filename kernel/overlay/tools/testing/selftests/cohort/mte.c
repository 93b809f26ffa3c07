// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory tags of arm64 (MTE): four bits for each 16 bytes, which belong to the page. They
 * go where the page's content goes, whoever shares the table above it.
 */
#include "common.h"

#ifdef __aarch64__

#include <sys/auxv.h>

#ifndef HWCAP2_MTE
#define HWCAP2_MTE	0x40000
#endif

static bool tags_here(void)
{
	return getauxval(AT_HWCAP2) & HWCAP2_MTE;
}

static int tag_of(const char *granule)
{
	__u64 value = (__u64)granule;

	asm volatile(".arch armv8.5-a+memtag\n\tldg %0, [%0]" : "+r" (value) : : "memory");
	return value >> 56 & 0xf;
}

static void set_tag(char *granule, int tag)
{
	__u64 value = (__u64)granule | (__u64)tag << 56;

	asm volatile(".arch armv8.5-a+memtag\n\tstg %0, [%1]"
		     : : "r" (value), "r" (granule) : "memory");
}

#else

/* need_tags() lets nobody get here. */
static bool tags_here(void)
{
	return false;
}

static int tag_of(const char *granule)
{
	return -1;
}

static void set_tag(char *granule, int tag)
{
}

#endif

/* what the C library may not know yet */
#ifndef PROT_MTE
#define PROT_MTE		0x20
#endif
#ifndef PR_MTE_TCF_SYNC
#define PR_MTE_TCF_SYNC		0x2UL
#endif

#define PAGES		8
#define GRANULE		16
#define GRANULES	4	/* of each page, that have a tag of their own */

static char *base;

static char *page_at(int i)
{
	return base + i * page_size;
}

static int tag_for(int page, int granule, int seed)
{
	return 1 + (page + 3 * granule + 4 * seed) % 15;
}

static void need_tags(void)
{
	if (!tags_here())
		skip("this machine has no memory tags");
}

/* which pages */
enum { BOTH, FIRST, SECOND };

static int begin(int half)
{
	return half == SECOND ? PAGES / 2 : 0;
}

static int end(int half)
{
	return half == FIRST ? PAGES / 2 : PAGES;
}

/* Give pages a content and tags that depend on a seed. */
static long fill(long half, long seed)
{
	for (int i = begin(half); i < end(half); i++) {
		page_fill(page_at(i), 16 * seed + i + 1);
		for (int g = 0; g < GRANULES; g++)
			set_tag(page_at(i) + g * GRANULE, tag_for(i, g, seed));
	}
	return 0;
}

/*
 * Run in a peer: 0, or 1 + 100 times the page + the granule that is wrong; GRANULES: the
 * content.
 */
static long wrong(long half, long seed)
{
	for (int i = begin(half); i < end(half); i++) {
		if (!page_is(page_at(i), 16 * seed + i + 1))
			return 1 + 100 * i + GRANULES;
		for (int g = 0; g < GRANULES; g++)
			if (tag_of(page_at(i) + g * GRANULE) != tag_for(i, g, seed))
				return 1 + 100 * i + g;
	}
	return 0;
}

static void is_right(int who, int half, int seed)
{
	long bad = ask(who, wrong, half, seed);

	sees(!bad, "process %d: page %ld, granule %ld is not as it was left", who, bad / 100,
	     bad % 100 - 1);
}

static void make_tagged(int flags)
{
	need_tags();
	base = map_at(arena(1), table_size, PROT_READ | PROT_WRITE | PROT_MTE,
		      flags | MAP_ANONYMOUS, -1, 0);
	madvise(base, table_size, MADV_NOHUGEPAGE);
	fill(BOTH, 0);
}

static void share_tagged(int flags, int peers)
{
	make_tagged(flags);
	become_zygote();
	for (int i = 1; i <= peers; i++)
		spawn(i);
	for (int i = 1; i <= peers; i++)
		ask(i, nothing, 0, 0);
	if (sharing_possible())
		must(shared_tables(pid_of(1)) > 0, "no table with tags is shared");
}

/* Each process in turn writes content and tags of its own; the rest keep theirs. */
static void test_own(long writes_first)
{
	share_tagged(MAP_PRIVATE, 2);
	for (int i = 0; i <= 2; i++)
		is_right(i, BOTH, 0);
	for (int i = 0; i <= 2; i++) {
		int who = (writes_first + i) % 3;

		ask(who, fill, SECOND, who + 1);
		for (int other = 0; other <= 2; other++) {
			bool wrote = (other - writes_first + 3) % 3 <= i;

			is_right(other, SECOND, wrote ? other + 1 : 0);
			is_right(other, FIRST, 0);
		}
	}
	spawn_from(1, 3);
	is_right(3, FIRST, 0);
	is_right(3, SECOND, 2);
}

/* run in a peer: only tags change, no byte of the content */
static long retag(long seed, long unused)
{
	for (int i = 0; i < PAGES; i++)
		for (int g = 0; g < GRANULES; g++)
			set_tag(page_at(i) + g * GRANULE, tag_for(i, g, seed));
	return 0;
}

static long wrong_tags(long seed, long unused)
{
	for (int i = 0; i < PAGES; i++)
		for (int g = 0; g < GRANULES; g++)
			if (tag_of(page_at(i) + g * GRANULE) != tag_for(i, g, seed))
				return 1 + 100 * i + g;
	return 0;
}

/* To store a tag is a write to the page. */
static void test_tags_alone(long unused)
{
	share_tagged(MAP_PRIVATE, 2);
	ask(1, retag, 1, 0);
	sees(!ask(1, wrong_tags, 1, 0), "a child has not the tags that it stored");
	is_right(0, BOTH, 0);
	is_right(2, BOTH, 0);
}

/* Tags of shared memory are everybody's. */
static void test_shared(long unused)
{
	share_tagged(MAP_SHARED, 2);
	ask(1, fill, BOTH, 3);
	for (int i = 0; i <= 2; i++)
		is_right(i, BOTH, 3);
}

static bool any_swapped(int who)
{
	for (int i = 0; i < PAGES; i++)
		if (pagemap_entry(pid_of(who), page_at(i)) & PM_SWAP)
			return true;
	return false;
}

/* Tags are kept beside swap, and come back with the page, whoever asks for it. */
static void test_swapped(long unused)
{
	need_tags();
	need_cgroup();
	need_swap();
	share_tagged(MAP_PRIVATE, 3);
	for (int first = 0; first <= 3; first++) {
		bool out = false;

		for (int i = 0; i < 20 && !out; i++) {
			press();
			out = any_swapped(2);
		}
		if (!out)
			skip("nothing is swapped out");
		for (int i = 0; i <= 3; i++)
			is_right((first + i) % 4, BOTH, 0);
	}
	ask(2, fill, BOTH, 1);
	for (int i = 0; i < 5; i++)
		press();
	is_right(2, BOTH, 1);
	is_right(0, BOTH, 0);
	is_right(3, BOTH, 0);
}

static long turn_on(long unused, long unused2)
{
	return mprotect(base, table_size, PROT_READ | PROT_WRITE | PROT_MTE);
}

/* run in a peer: the sum of all tags */
static long sum_tags(long unused, long unused2)
{
	long sum = 0;

	for (int i = 0; i < PAGES; i++)
		for (int g = 0; g < GRANULES; g++)
			sum += tag_of(page_at(i) + g * GRANULE);
	return sum;
}

/* Who turns tags on has tags of zero; nobody else has any. */
static void test_turn_on(long who)
{
	need_tags();
	base = map_at(arena(1), table_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	madvise(base, table_size, MADV_NOHUGEPAGE);
	for (int i = 0; i < PAGES; i++)
		page_fill(page_at(i), i + 1);
	become_zygote();
	spawn(1);
	spawn(2);
	must(!ask(who, turn_on, 0, 0), "mprotect: %s", strerror(errno));
	must(!ask(who, sum_tags, 0, 0), "tags of a page that had none are not zero");
	ask(who, retag, 1, 0);
	sees(!ask(who, wrong_tags, 1, 0), "tags were lost");
	for (int other = 0; other <= 2; other++)
		if (other != who)
			must(!ask(other, sum_tags, 0, 0), "process %d has tags", other);
	for (int i = 0; i < PAGES; i++)
		sees(page_is(page_at(i), i + 1) || who == SELF, "page %d has changed", i);
}

/* run in a peer: the signals of a store with the page's tag and with another one */
static long store(long page, long off)
{
	__u64 tag = (tag_of(page_at(page)) + off) & 0xf;

	return probe_write((void *)((__u64)page_at(page) | tag << 56));
}

/* A store is checked before it can unshare, and after. */
static void test_checked(long unused)
{
	need_tags();
	if (prctl(PR_SET_TAGGED_ADDR_CTRL,
		  PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_SYNC | 0xfffeUL << 3, 0, 0, 0))
		skip("no checks of tags: %s", strerror(errno));
	make_tagged(MAP_PRIVATE);
	become_zygote();
	spawn(1);
	spawn(2);
	for (int who = 2; who >= 0; who--)
		for (int page = 0; page < PAGES; page++) {
			must(ask(who, store, page, 1) == SIGSEGV,
			     "process %d may store with another tag", who);
			must(!ask(who, store, page, 0),
			     "process %d may not store with the right tag", who);
			must(ask(who, store, page, 1) == SIGSEGV,
			     "process %d may store with another tag, once it has its copy", who);
		}
}

static const struct test_case cases[] = {
	{ "Does each process keep its tags, the zygote writes first?", test_own, 0,
	  .guards = INVARIANT(2) },
	{ "Does each process keep its tags, a child writes first?", test_own, 1,
	  .guards = INVARIANT(2) },
	{ "Is a tag that a child stores its own?", test_tags_alone, .guards = INVARIANT(2) },
	{ "Does everybody see tags of shared memory?", test_shared, .guards = STOCK },
	{ "Do tags survive swap in each process?", test_swapped, .guards = INVARIANT(4) },
	{ "Who has tags when the zygote turns them on?", test_turn_on, 0, .guards = INVARIANT(1) },
	{ "Who has tags when a child turns them on?", test_turn_on, 1, .guards = INVARIANT(1) },
	{ "Is a store with another tag refused?", test_checked, .guards = INVARIANT(2) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
