/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: tests of the bits that they use on ARM. Part of
 * mm/cohort/tests/cohort-kunit.h, whose table_entry() they call.
 */
#ifndef __ASM_ARM_COHORT_KUNIT_H
#define __ASM_ARM_COHORT_KUNIT_H

#ifdef CONFIG_ARM_LPAE

static void cohort_test_entry_bad(struct kunit *test)
{
	pmd_t pmd = table_entry();

	arch_pmd_set_cohort(&pmd, false);
	KUNIT_EXPECT_FALSE(test, pmd_none(pmd));
	KUNIT_EXPECT_PTR_EQ(test, pmd_page(pmd), pmd_page(table_entry()));
	KUNIT_EXPECT_TRUE(test, pmd_bad(__pmd(PMD_COHORT)));
}

/* The same bit in other entries is not taken for the mark. */
static void cohort_test_entry_others(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(0)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(PMD_COHORT | PMD_TYPE_SECT)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(PMD_COHORT)));
}

#else

/*
 * Both words of an entry say the same, and one that arch_cohort_replace() has made
 * invalid is a table to software.
 */
static void cohort_test_entry_bad(struct kunit *test)
{
	pmd_t pmd[2], invalid;

	arch_cohort_set_pmd(pmd, table_entry());
	KUNIT_EXPECT_EQ(test, pmd_val(pmd[1]) - pmd_val(pmd[0]), SZ_1K);
	arch_pmd_set_cohort(pmd, false);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd[1]) - pmd_val(pmd[0]), SZ_1K);
	KUNIT_EXPECT_TRUE(test, pmd_cohort(pmd[1]));

	invalid = __pmd(pmd_val(*pmd) & ~PMD_TYPE_MASK);
	KUNIT_EXPECT_TRUE(test, pmd_cohort(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_none(invalid));
	KUNIT_EXPECT_TRUE(test, pmd_present(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_bad(invalid));
	KUNIT_EXPECT_FALSE(test, pmd_leaf(invalid));
	KUNIT_EXPECT_PTR_EQ(test, pmd_page(invalid), pmd_page(table_entry()));

	arch_pmd_clear_cohort(pmd);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd[1]) - pmd_val(pmd[0]), SZ_1K);
	KUNIT_EXPECT_FALSE(test, pmd_cohort(pmd[1]));
}

/* The same bits in other entries are not taken for the mark. */
static void cohort_test_entry_others(struct kunit *test)
{
	pmdval_t table = pmd_val(table_entry()) & ~PMD_DOMAIN_MASK;

	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(0)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(PMD_COHORT | PMD_TYPE_SECT)));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(table | PMD_DOMAIN(DOMAIN_KERNEL))));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(table | PMD_DOMAIN(DOMAIN_VECTORS))));
	KUNIT_EXPECT_TRUE(test, pmd_cohort(__pmd(table | PMD_DOMAIN(DOMAIN_ZYGOTE_COHORT))));
	KUNIT_EXPECT_FALSE(test, pmd_cohort(__pmd(table | PMD_DOMAIN(DOMAIN_ZYGOTE))));
}

#endif /* CONFIG_ARM_LPAE */

#endif /* __ASM_ARM_COHORT_KUNIT_H */
