/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: tests of the bits that they use on x86. Part of
 * mm/cohort/tests/cohort-kunit.h, whose table_entry() they call.
 */
#ifndef _ASM_X86_COHORT_KUNIT_H
#define _ASM_X86_COHORT_KUNIT_H

/* Only the mark explains the other bits: without it they are a corrupted entry. */
static void cohort_test_entry_bad(struct kunit *test)
{
	pmdval_t table = pmd_val(table_entry());

	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(table & ~_PAGE_RW)));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(table | _PAGE_COHORT_UPPER)));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd((table | _PAGE_COHORT_UPPER) &
					      ~_PAGE_RW)));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd((table | _PAGE_COHORT) &
					      ~_PAGE_PRESENT)));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(table | _PAGE_COHORT | _PAGE_PSE)));
	KUNIT_EXPECT_FALSE(test, pmd_bad(__pmd((table | _PAGE_COHORT) &
					       ~_PAGE_RW)));
}

/* The same bit in other entries is not taken for the mark. */
static void cohort_test_entry_others(struct kunit *test)
{
	pmd_t leaf = __pmd(pmd_val(table_entry()) | _PAGE_PSE);

	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(0)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(leaf));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(pmd_mkspecial(leaf)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(pmd_mkinvalid(pmd_mkspecial(leaf))));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(_PAGE_COHORT)));
	/* Any other bit still makes an entry bad. */
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(pmd_val(table_entry()) |
					      _PAGE_SOFTW2)));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(pmd_val(table_entry()) |
					      _PAGE_GLOBAL)));
}

#endif /* _ASM_X86_COHORT_KUNIT_H */
