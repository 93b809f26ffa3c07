/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: tests of the bits that they use on arm64. Part of
 * mm/cohort/tests/cohort-kunit.h, whose table_entry() they call.
 */
#ifndef __ASM_COHORT_KUNIT_H
#define __ASM_COHORT_KUNIT_H

/* An entry that arch_cohort_replace() has made invalid is a table to software. */
static void cohort_test_entry_bad(struct kunit *test)
{
	pmd_t pmd = table_entry(), invalid;

	arch_pmd_set_cohort(&pmd, true);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd) & S1_TABLE_AP,
			arch_cohort_table_protect() ? PMD_APTABLE_RO : 0);
	invalid = __pmd((pmd_val(pmd) & ~PTE_VALID) | PTE_PRESENT_INVALID);
	KUNIT_EXPECT_TRUE(test, pmd_cohort(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_none(invalid));
	KUNIT_EXPECT_TRUE(test, pmd_present(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_bad(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_leaf(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_trans_huge(invalid));
	KUNIT_EXPECT_EQ(test, pmd_page_paddr(invalid),
			pmd_page_paddr(table_entry()));

	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(0)));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(PMD_COHORT)));
}

/* The same bit in other entries is not taken for the mark. */
static void cohort_test_entry_others(struct kunit *test)
{
	pmd_t leaf = pmd_mkhuge(table_entry());

	leaf = __pmd(pmd_val(leaf) | PMD_COHORT);
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(0)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(PMD_COHORT)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(leaf));
	KUNIT_EXPECT_TRUE(test, pmd_leaf(leaf));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(pmd_mkinvalid(leaf)));
	/* A swap entry has neither of the two lowest bits. */
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(~3UL)));
}

#endif /* __ASM_COHORT_KUNIT_H */
