/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: tests of what BabelFish's hardware reads. Included at the end of
 * maskpage.c.
 */
#ifdef CONFIG_COHORT_KUNIT_TEST

#ifndef _MM_COHORT_BABELFISH_KUNIT_H
#define _MM_COHORT_BABELFISH_KUNIT_H

#include <kunit/test.h>
#include <linux/pgalloc.h>

static struct cohort_gigabyte *new_page(struct kunit *test)
{
	struct cohort_gigabyte *g = cohort_gigabyte_alloc(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, g);
	return g;
}

/* The model reads these by their offsets. */
static void cohort_test_bf_layout(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, sizeof(struct cohort_bf_space), 256);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_space, pid), 12);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_space, group), 16);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_space, segment), 24);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_group, dir), 24);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_mask, pid_list), 2048);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_mask, nr), 2176);
	KUNIT_EXPECT_EQ(test, offsetof(struct cohort_bf_mask, flags), 2180);
}

/* A process has one place for all bitmasks of a MaskPage. */
static void cohort_test_bf_place(struct kunit *test)
{
	struct cohort_gigabyte *g = new_page(test);

	KUNIT_EXPECT_EQ(test, cohort_mask_place(g, 7), -1);
	KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 0, 7));
	KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 511, 9));
	KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 511, 7));
	KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 511, 7));
	KUNIT_EXPECT_EQ(test, g->mask->pid_list[0], 7);
	KUNIT_EXPECT_EQ(test, g->mask->pid_list[1], 9);
	KUNIT_EXPECT_EQ(test, g->mask->nr, 2);
	KUNIT_EXPECT_EQ(test, g->mask->mask[0], 1);
	KUNIT_EXPECT_EQ(test, g->mask->mask[511], 3);
	KUNIT_EXPECT_TRUE(test, cohort_mask_has(g, 511, 9));
	KUNIT_EXPECT_FALSE(test, cohort_mask_has(g, 0, 9));
	cohort_gigabyte_free(g);
}

/* A place is free with its last bit, and not before. */
static void cohort_test_bf_free(struct kunit *test)
{
	struct cohort_gigabyte *g = new_page(test);

	cohort_mask_set(g, 3, 7);
	cohort_mask_set(g, 4, 7);
	cohort_mask_set(g, 4, 9);
	KUNIT_EXPECT_TRUE(test, cohort_mask_clear(g, 3, 7));
	KUNIT_EXPECT_FALSE(test, cohort_mask_clear(g, 3, 7));
	KUNIT_EXPECT_EQ(test, cohort_mask_place(g, 7), 0);
	KUNIT_EXPECT_FALSE(test, cohort_mask_clear(g, 4, 7));
	KUNIT_EXPECT_EQ(test, cohort_mask_place(g, 7), -1);
	KUNIT_EXPECT_EQ(test, g->mask->mask[4], 2);
	KUNIT_EXPECT_EQ(test, g->mask->nr, 1);
	/* the next takes it */
	KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 5, 11));
	KUNIT_EXPECT_EQ(test, g->mask->mask[5], 1);
	cohort_gigabyte_free(g);
}

/* 32 processes have places; a 33rd gets one when another ends. */
static void cohort_test_bf_full(struct kunit *test)
{
	struct cohort_gigabyte *g = new_page(test);
	u32 pid;

	for (pid = 1; pid <= COHORT_BF_PIDS; pid++) {
		KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, pid, pid));
		KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 100, pid));
	}
	KUNIT_EXPECT_EQ(test, g->mask->mask[100], U32_MAX);
	KUNIT_EXPECT_FALSE(test, cohort_mask_set(g, 100, pid));
	KUNIT_EXPECT_FALSE(test, cohort_mask_set(g, 500, pid));
	KUNIT_EXPECT_EQ(test, g->mask->mask[500], 0);

	cohort_mask_forget(g, 5);
	KUNIT_EXPECT_EQ(test, g->mask->mask[5], 0);
	KUNIT_EXPECT_EQ(test, g->mask->mask[100], U32_MAX & ~BIT(4));
	KUNIT_EXPECT_TRUE(test, cohort_mask_set(g, 500, pid));
	KUNIT_EXPECT_EQ(test, g->mask->mask[500], BIT(4));
	KUNIT_EXPECT_EQ(test, g->mask->nr, COHORT_BF_PIDS);
	cohort_gigabyte_free(g);
}

/* Where sharing ends, all bits go, and places that have none elsewhere. */
static void cohort_test_bf_end(struct kunit *test)
{
	struct cohort_gigabyte *g = new_page(test);

	cohort_mask_set(g, 8, 1);
	cohort_mask_set(g, 8, 2);
	cohort_mask_set(g, 9, 2);
	cohort_mask_end(g, 8);
	KUNIT_EXPECT_EQ(test, g->mask->mask[8], 0);
	KUNIT_EXPECT_EQ(test, g->mask->mask[9], 2);
	KUNIT_EXPECT_EQ(test, g->mask->nr, 1);
	KUNIT_EXPECT_EQ(test, cohort_mask_place(g, 1), -1);
	cohort_gigabyte_free(g);
}

static void cohort_test_bf_dir(struct kunit *test)
{
	struct cohort_gigabyte *g = new_page(test);
	struct cohort_bf_group *dir;
	unsigned int nr = 0;

	dir = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dir);
	KUNIT_EXPECT_TRUE(test, cohort_dir_add(dir, 5UL << PUD_SHIFT, g));
	KUNIT_EXPECT_EQ(test, dir->nr, 1);
	KUNIT_EXPECT_EQ(test, dir->seq, 2);
	KUNIT_EXPECT_EQ(test, dir->dir[0].base, 5UL << PUD_SHIFT);
	KUNIT_EXPECT_EQ(test, dir->dir[0].mask, __pa(g->mask));
	while (cohort_dir_add(dir, 0, g))
		nr++;
	KUNIT_EXPECT_EQ(test, nr, 253);
	KUNIT_EXPECT_EQ(test, dir->seq, 2 * dir->nr);
	cohort_gigabyte_free(g);
}

/* A segment moves the tables that lie in it, and only these. */
static void cohort_test_bf_segments(struct kunit *test)
{
	const unsigned long start = 0x7f0000000000UL, diff = 0x40000000UL;
	const struct cohort_bf_space space = {
		.nr_segments = 2,
		.segment = {
			{ start, start + 10 * PMD_SIZE, diff },
			{ 0x550000000000UL, 0x560000000000UL, 0 },
		},
	};

	KUNIT_EXPECT_EQ(test, cohort_group_addr(&space, start), start + diff);
	KUNIT_EXPECT_EQ(test, cohort_group_addr(&space, start + 9 * PMD_SIZE),
			start + 9 * PMD_SIZE + diff);
	KUNIT_EXPECT_EQ(test, cohort_group_addr(&space, start + 10 * PMD_SIZE),
			start + 10 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, cohort_group_addr(&space, start - PAGE_SIZE),
			COHORT_BF_ADDR_END);
	KUNIT_EXPECT_EQ(test, cohort_group_addr(&space, 0x550000000000UL),
			0x550000000000UL);
	KUNIT_EXPECT_EQ(test, cohort_own_addr(&space, start + diff), start);
	KUNIT_EXPECT_EQ(test, cohort_own_addr(&space, PMD_SIZE), PMD_SIZE);
}

/* Two segments may not give two addresses of a process one of the group. */
static void cohort_test_bf_meet(struct kunit *test)
{
	const unsigned long low = 0x550000000000UL, high = 0x7f0000000000UL;
	struct cohort_bf_space space = {};

	cohort_add_segment(&space, low, low + SZ_1G, high, low);
	KUNIT_EXPECT_EQ(test, space.nr_segments, 1);
	/* meets the first here, or there */
	cohort_add_segment(&space, low + PMD_SIZE, high, low, low + PMD_SIZE);
	cohort_add_segment(&space, high, high + SZ_1G, high + PMD_SIZE, high);
	/* ends below 0, or has no end */
	cohort_add_segment(&space, SZ_2G, SZ_4G, 0, SZ_4G);
	cohort_add_segment(&space, -PMD_SIZE, SZ_4G, 0, 0);
	KUNIT_EXPECT_EQ(test, space.nr_segments, 1);
	cohort_add_segment(&space, high, high + SZ_1G, high + SZ_1G, high);
	KUNIT_EXPECT_EQ(test, space.nr_segments, 2);
}

/* A processor drops its entries once for each event, and not for those of the past. */
static void cohort_test_bf_generation(struct kunit *test)
{
	u64 seen = 0;

	/* a new CCID, whose number another has had */
	KUNIT_EXPECT_TRUE(test, cohort_ccid_behind(&seen, 1, 1));
	KUNIT_EXPECT_FALSE(test, cohort_ccid_behind(&seen, 1, 1));
	/* events that concern others only */
	KUNIT_EXPECT_FALSE(test, cohort_ccid_behind(&seen, 5, 1));
	KUNIT_EXPECT_TRUE(test, cohort_ccid_behind(&seen, 7, 4));
	KUNIT_EXPECT_EQ(test, seen, 7);
	KUNIT_EXPECT_FALSE(test, cohort_ccid_behind(&seen, 8, 6));
	/* one that comes while the processor looks is seen at the next switch */
	KUNIT_EXPECT_TRUE(test, cohort_ccid_behind(&seen, 8, 9));
	KUNIT_EXPECT_TRUE(test, cohort_ccid_behind(&seen, 9, 9));
}

/* What an entry says to the hardware makes it bad without the mark alone. */
static void cohort_test_bf_entry(struct kunit *test)
{
	pmd_t pmd = __pmd(0), plain;

	pmd_populate(NULL, &pmd, ZERO_PAGE(0));
	arch_pmd_set_cohort(&pmd, true);
	plain = pmd;
	arch_pmd_change_shared(&pmd, true);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd) ^ pmd_val(plain),
			BIT_ULL(COHORT_BF_BIT_SHARED));
	arch_pmd_change_orpc(&pmd, true);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd) ^ pmd_val(plain),
			BIT_ULL(COHORT_BF_BIT_SHARED) |
			BIT_ULL(COHORT_BF_BIT_ORPC));
	KUNIT_EXPECT_FALSE(test, pmd_bad(pmd));
	KUNIT_EXPECT_TRUE(test, pmd_cohort(pmd));
	KUNIT_EXPECT_FALSE(test, pmd_cohort_upper(pmd));
	KUNIT_EXPECT_FALSE(test, pmd_leaf(pmd));
	KUNIT_EXPECT_EQ(test, pmd_pfn(pmd), pmd_pfn(plain));
	KUNIT_EXPECT_EQ(test, pmd_val(arch_pmd_cohort_plain(pmd)),
			pmd_val(plain));
	arch_pmd_change_shared(&pmd, false);
	arch_pmd_change_orpc(&pmd, false);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd), pmd_val(plain));
	arch_pmd_change_orpc(&pmd, true);
	arch_pmd_clear_cohort(&pmd);
	KUNIT_EXPECT_TRUE(test, pmd_bad(pmd));
}

static struct kunit_case cohort_bf_test_cases[] = {
	KUNIT_CASE(cohort_test_bf_layout),
	KUNIT_CASE(cohort_test_bf_place),
	KUNIT_CASE(cohort_test_bf_free),
	KUNIT_CASE(cohort_test_bf_full),
	KUNIT_CASE(cohort_test_bf_end),
	KUNIT_CASE(cohort_test_bf_dir),
	KUNIT_CASE(cohort_test_bf_segments),
	KUNIT_CASE(cohort_test_bf_meet),
	KUNIT_CASE(cohort_test_bf_generation),
	KUNIT_CASE(cohort_test_bf_entry),
	{},
};

/* pmd_cohort() sees no mark before. */
static int cohort_bf_test_start(struct kunit_suite *suite)
{
	cohort_activate();
	return 0;
}

static struct kunit_suite cohort_bf_test_suite = {
	.name = "cohort_babelfish",
	.suite_init = cohort_bf_test_start,
	.test_cases = cohort_bf_test_cases,
};
kunit_test_suite(cohort_bf_test_suite);

#endif /* _MM_COHORT_BABELFISH_KUNIT_H */

#endif /* CONFIG_COHORT_KUNIT_TEST */
