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

#ifdef CONFIG_ARM64_CONTPTE
/* Entries that are held together are so in a copy, too, if all of them are copied. */
static void cohort_test_copied(struct kunit *test)
{
	size_t size = PTRS_PER_PTE * sizeof(pte_t);
	pte_t *src = kunit_kzalloc(test, size, GFP_KERNEL);
	pte_t *dst = kunit_kzalloc(test, size, GFP_KERNEL);
	pte_t pte = pte_mkclean(pte_mkold(pfn_pte(0x1000, PAGE_READONLY)));
	int i;

	KUNIT_ASSERT_NOT_NULL(test, src);
	KUNIT_ASSERT_NOT_NULL(test, dst);
	/* All; all but one; all, but not held together; one has another page. */
	for (i = 0; i < 4 * CONT_PTES; i++) {
		pte_t entry = pte_advance_pfn(pte, i);

		src[i] = i / CONT_PTES == 2 ? entry : pte_mkcont(entry);
		dst[i] = entry;
	}
	dst[3] = pte_mkyoung(dst[3]);
	dst[5] = pte_mkdirty(dst[5]);
	dst[CONT_PTES + 7] = __pte(0);
	dst[3 * CONT_PTES + 7] = pte_advance_pfn(dst[3 * CONT_PTES + 7], 1);
	arch_cohort_copied(src, dst);

	for (i = 0; i < 4 * CONT_PTES; i++) {
		bool held = i < CONT_PTES;

		KUNIT_EXPECT_EQ_MSG(test, !!pte_valid_cont(dst[i]), held,
				    "entry %d", i);
		if (!held)
			continue;
		KUNIT_EXPECT_EQ(test, pte_pfn(dst[i]), 0x1000 + i);
		KUNIT_EXPECT_TRUE(test, pte_young(dst[i]));
		KUNIT_EXPECT_TRUE(test, pte_dirty(dst[i]));
	}
	KUNIT_EXPECT_TRUE(test, pte_none(dst[CONT_PTES + 7]));
	KUNIT_EXPECT_TRUE(test, pte_none(dst[4 * CONT_PTES]));
}

#define ARCH_COHORT_KUNIT_CASES	KUNIT_CASE(cohort_test_copied),
#endif

#endif /* __ASM_COHORT_KUNIT_H */
