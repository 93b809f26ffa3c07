/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: tests of how pages are compared and found. Included at the
 * end of ksmd.c, so that its statics can be tested.
 */
#ifdef CONFIG_KSM_SELECTIVE_KUNIT_TEST

#ifndef _MM_KSM_SELECTIVE_KSMD_KUNIT_H
#define _MM_KSM_SELECTIVE_KSMD_KUNIT_H

#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/sort.h>

#define KSM_TEST_WORDS	(PAGE_SIZE / sizeof(u32))
#define KSM_TEST_PAGES	2000

static int ksm_test_sign(int order)
{
	return (order > 0) - (order < 0);
}

/* Pages are in the order that memcmp_pages() has, wherever they differ. */
static void ksm_test_order(struct kunit *test)
{
	struct page *a = alloc_page(GFP_KERNEL), *b = alloc_page(GFP_KERNEL);
	struct rnd_state rnd;
	u8 *x, *y, was;
	int i, at;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_NOT_NULL(test, b);
	x = page_address(a);
	y = page_address(b);
	prandom_seed_state(&rnd, 1);
	prandom_bytes_state(&rnd, x, PAGE_SIZE);
	memcpy(y, x, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, selective_do_memcmp_pages(a, b), 0);
	for (at = 0; at < PAGE_SIZE; at++) {
		was = y[at];
		y[at] ^= 1 << at % 8;
		/* a second difference, in the other direction, does not count */
		i = PAGE_SIZE - 1;
		if (at != i)
			y[i] = y[at] > x[at] ? x[i] - 1 : x[i] + 1;
		KUNIT_EXPECT_NE(test, selective_do_memcmp_pages(a, b), 0);
		KUNIT_EXPECT_EQ(test,
				ksm_test_sign(selective_do_memcmp_pages(a, b)),
				ksm_test_sign(memcmp_pages(a, b)));
		y[i] = x[i];
		y[at] = was;
	}
	__free_page(a);
	__free_page(b);
}

static int ksm_test_cmp(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

/* The largest number of equal checksums. */
static int ksm_test_alike(u32 *sums)
{
	int i, run = 1, longest = 1;

	sort(sums, KSM_TEST_PAGES, sizeof(*sums), ksm_test_cmp, NULL);
	for (i = 1; i < KSM_TEST_PAGES; i++) {
		run = sums[i] == sums[i - 1] ? run + 1 : 1;
		longest = max(longest, run);
	}
	return longest;
}

/*
 * For simple pages that programs have many of, at most MAX_COMPARED have the same
 * checksum.
 */
static void ksm_test_checksum(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);
	u32 *sums = kvmalloc_array(KSM_TEST_PAGES, sizeof(*sums), GFP_KERNEL);
	u32 *words;
	int kind, i, j;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_NOT_NULL(test, sums);
	words = page_address(page);
	for (kind = 0; kind < 6; kind++) {
		memset(words, 0, PAGE_SIZE);
		for (i = 0; i < KSM_TEST_PAGES; i++) {
			for (j = 0; kind < 4 && j < KSM_TEST_WORDS; j++) {
				if (kind == 0)		/* counters */
					words[j] = i;
				else if (kind == 1)	/* pixels */
					words[j] = 0xff000000 | i * 8191;
				else if (kind == 2)	/* pointers */
					words[j] = j % 2 ? 0x7f12 : i * 4096;
				else			/* records */
					words[j] = j % 8 ? 0 : i;
			}
			if (kind == 4)			/* a bit in zeros */
				words[i % KSM_TEST_WORDS] ^= 1 << i % 32;
			else if (kind == 5)		/* one more reference */
				words[i % KSM_TEST_WORDS]++;
			sums[i] = index_checksum(page);
			if (kind == 4)
				words[i % KSM_TEST_WORDS] ^= 1 << i % 32;
		}
		KUNIT_EXPECT_LE_MSG(test, ksm_test_alike(sums), MAX_COMPARED / 2,
				    "kind %d", kind);
	}
	kvfree(sums);
	__free_page(page);
}

/* A page of zeros whose region has gone meanwhile has not merged. */
static void ksm_test_zero_page_gone(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct ksm_rmap_item item = { .address = PAGE_SIZE };
	struct mm_struct *mm = mm_alloc();
	unsigned long bytes = ksm_profile_bytes;

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_ASSERT_EQ(test, __ksm_enter(mm), 0);
	ksm_selective_switch(true);
	mutex_lock(&ksm_thread_mutex);
	ksm_use_zero_pages = true;
	item.mm = mm;
	cmp_and_merge_page(page, &item);
	ksm_use_zero_pages = false;
	mutex_unlock(&ksm_thread_mutex);
	ksm_selective_switch(false);
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, bytes);
	KUNIT_EXPECT_EQ(test, item.address, PAGE_SIZE);
	mmput(mm);
	__free_page(page);
}

static struct kunit_case ksm_ksmd_cases[] = {
	KUNIT_CASE(ksm_test_order),
	KUNIT_CASE(ksm_test_checksum),
	KUNIT_CASE(ksm_test_zero_page_gone),
	{}
};

static struct kunit_suite ksm_ksmd_suite = {
	.name = "ksm_selective_ksmd",
	.test_cases = ksm_ksmd_cases,
};

kunit_test_suite(ksm_ksmd_suite);

#endif
#endif
