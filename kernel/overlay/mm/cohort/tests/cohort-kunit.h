/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: tests that need no process. Included at the end of
 * unshare.c, so that its statics can be tested.
 */
#ifdef CONFIG_COHORT_KUNIT_TEST

#ifndef _MM_COHORT_KUNIT_H
#define _MM_COHORT_KUNIT_H

#include <kunit/test.h>
#include <linux/mman.h>
#include <linux/rmap.h>
#include <linux/uaccess.h>

#include "../../internal.h"

/* An entry as the architecture makes it, for a table that nobody looks at. */
static pmd_t table_entry(void)
{
	pmd_t pmd[COHORT_PMD_STEP] = {};

	pmd_populate(NULL, pmd, ZERO_PAGE(0));
	return *pmd;
}

/* cohort_test_entry_bad() and cohort_test_entry_others() */
#include <asm/cohort_kunit.h>

/* A marked entry is not bad, and denies writing only if told to. */
static void cohort_test_entry_mark(struct kunit *test)
{
	/* An entry may have more words than the one that generic code reads. */
	pmd_t pmd[COHORT_PMD_STEP] = { table_entry() };

	KUNIT_EXPECT_FALSE(test, pmd_cohort(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_bad(*pmd));

	arch_pmd_set_cohort(pmd, false);
	KUNIT_EXPECT_TRUE(test, pmd_cohort(*pmd));
	KUNIT_EXPECT_TRUE(test, arch_pmd_cohort_write(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_bad(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_leaf(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_trans_huge(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_devmap(*pmd));
	KUNIT_EXPECT_TRUE(test, pmd_present(*pmd));

	arch_pmd_set_cohort(pmd, true);
	KUNIT_EXPECT_EQ(test, arch_pmd_cohort_write(*pmd),
			!arch_cohort_table_protect());
	KUNIT_EXPECT_FALSE(test, pmd_bad(*pmd));
	KUNIT_EXPECT_PTR_EQ(test, pmd_page(*pmd), ZERO_PAGE(0));

	arch_pmd_clear_cohort(pmd);
	KUNIT_EXPECT_EQ(test, pmd_val(*pmd), pmd_val(table_entry()));
}

#ifdef CONFIG_COHORT_UPPER
/* An entry in a shared PMD table allows writing, and differs from others. */
static void cohort_test_entry_upper(struct kunit *test)
{
	pmd_t pmd = table_entry();
	pmd_t made = __pmd(arch_pmd_cohort_upper_val(page_to_pfn(ZERO_PAGE(0))));

	arch_pmd_set_cohort(&pmd, false);
	KUNIT_EXPECT_FALSE(test, arch_pmd_cohort_upper(pmd));
	arch_pmd_clear_cohort(&pmd);

	arch_pmd_set_cohort_upper(&pmd);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd), pmd_val(made));
	KUNIT_EXPECT_TRUE(test, pmd_cohort(pmd));
	KUNIT_EXPECT_TRUE(test, arch_pmd_cohort_upper(pmd));
	KUNIT_EXPECT_TRUE(test, arch_pmd_cohort_write(pmd));
	KUNIT_EXPECT_FALSE(test, pmd_bad(pmd));
	KUNIT_EXPECT_FALSE(test, pmd_leaf(pmd));
	KUNIT_EXPECT_PTR_EQ(test, pmd_page(pmd), ZERO_PAGE(0));

	arch_pmd_clear_cohort_upper(&pmd);
	KUNIT_EXPECT_EQ(test, pmd_val(pmd), pmd_val(table_entry()));
}
#endif

/* A table that was shared stays, with its lock, while somebody may walk it. */
static void cohort_test_free_waits(struct kunit *test)
{
	struct ptdesc *pt = pagetable_alloc(GFP_KERNEL | __GFP_ZERO, 0);
	bool there;

	KUNIT_ASSERT_NOT_NULL(test, pt);
	if (!pagetable_pte_ctor(pt)) {
		pagetable_free(pt);
		kunit_skip(test, "no memory");
	}
	cohort_mark_table(pt, NULL);
	rcu_read_lock();
	KUNIT_EXPECT_TRUE(test, cohort_free_table(ptdesc_page(pt)));
	there = PageTable(ptdesc_page(pt)) &&
		test_bit(PG_COHORT, &pt->__page_flags);
	KUNIT_EXPECT_TRUE(test, there);
	if (there) {
		spin_lock(ptlock_ptr(pt));
		spin_unlock(ptlock_ptr(pt));
	}
	rcu_read_unlock();
	rcu_barrier();
}

/*
 * Fork never goes over the end of a table of entries, also where the levels above are
 * folded: the end of a table is then not where the level above ends.
 */
static void cohort_test_table_end(struct kunit *test)
{
	unsigned long size = PTRS_PER_PMD * PMD_SIZE;

	KUNIT_EXPECT_EQ(test, cohort_table_end(0, TASK_SIZE), size);
	KUNIT_EXPECT_EQ(test, cohort_table_end(size - 1, TASK_SIZE), size);
	KUNIT_EXPECT_EQ(test, cohort_table_end(size, TASK_SIZE), 2 * size);
	KUNIT_EXPECT_EQ(test, cohort_table_end(size + 1, 2 * size), 2 * size);
	KUNIT_EXPECT_EQ(test, cohort_table_end(size, size + 1), size + 1);
	/* Tables of many entries: the one under an entry of the level above. */
	KUNIT_EXPECT_EQ(test, cohort_span_end(5UL << 27, 1UL << 27, 9UL << 27),
			6UL << 27);
	/* Two levels: a table of one entry. */
	KUNIT_EXPECT_EQ(test, cohort_span_end(PMD_SIZE, PMD_SIZE, 9 * PMD_SIZE),
			2 * PMD_SIZE);
	/* The last table ends where addresses do. */
	KUNIT_EXPECT_EQ(test, cohort_table_end(-size, -PMD_SIZE), -PMD_SIZE);
	KUNIT_EXPECT_EQ(test, cohort_table_end(-size, 0), 0);
}

static void cohort_test_regions(struct kunit *test)
{
	static const vm_flags_t never[] = {
		VM_IO, VM_PFNMAP, VM_MIXEDMAP, VM_DONTEXPAND, VM_HUGETLB,
		VM_LOCKED, VM_LOCKONFAULT, VM_DONTCOPY, VM_WIPEONFORK,
		VM_GROWSDOWN,
#ifdef CONFIG_USERFAULTFD
		VM_UFFD_MISSING, VM_UFFD_WP,
#endif
	};
	static const vm_flags_t fine[] = {
		VM_READ | VM_EXEC | VM_MAYWRITE,
		VM_READ | VM_WRITE | VM_MAYWRITE | VM_ACCOUNT,
		VM_READ | VM_WRITE | VM_SHARED | VM_MAYSHARE,
		VM_READ | VM_SOFTDIRTY, VM_READ | VM_HUGEPAGE,
		VM_READ | VM_NOHUGEPAGE, VM_READ | VM_DONTDUMP,
		VM_READ | VM_RAND_READ, VM_READ | VM_WRITE | VM_MERGEABLE, 0,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(never); i++)
		KUNIT_EXPECT_FALSE_MSG(test,
				       cohort_vma_shareable(VM_READ | never[i]),
				       "flags %lx", never[i]);
	for (i = 0; i < ARRAY_SIZE(fine); i++)
		KUNIT_EXPECT_TRUE_MSG(test, cohort_vma_shareable(fine[i]),
				      "flags %lx", fine[i]);
}

/* EuroSys'16, section 3.1.3: referenced, or what fork would have copied. */
static void cohort_test_copy_policy(struct kunit *test)
{
	pte_t old = pte_mkold(pfn_pte(0x1234, PAGE_READONLY));
	pte_t young = pte_mkyoung(old);

	KUNIT_EXPECT_FALSE(test, cohort_pte_wanted(old, false,
						   COHORT_COPY_REFERENCED));
	KUNIT_EXPECT_TRUE(test, cohort_pte_wanted(young, false,
						  COHORT_COPY_REFERENCED));
	KUNIT_EXPECT_TRUE(test, cohort_pte_wanted(old, true,
						  COHORT_COPY_REFERENCED));
	KUNIT_EXPECT_TRUE(test, cohort_pte_wanted(old, false,
						  COHORT_COPY_ALL));
}

static void cohort_test_count_entry(struct kunit *test)
{
	unsigned long counts[NR_MM_COUNTERS] = {};
	struct page *page = alloc_page(GFP_KERNEL);
	pte_t zero = pte_mkspecial(pfn_pte(my_zero_pfn(0), PAGE_READONLY));

	KUNIT_ASSERT_NOT_NULL(test, page);
	cohort_count_entry(__pte(0), counts);
	cohort_count_entry(zero, counts);
	KUNIT_EXPECT_EQ(test, counts[MM_FILEPAGES] + counts[MM_ANONPAGES] +
			counts[MM_SHMEMPAGES] + counts[MM_SWAPENTS], 0);

	cohort_count_entry(mk_pte(page, PAGE_READONLY), counts);
	KUNIT_EXPECT_EQ(test, counts[MM_FILEPAGES], 1);
	cohort_count_entry(swp_entry_to_pte(swp_entry(0, 7)), counts);
	cohort_count_entry(swp_entry_to_pte(swp_entry(1, 9)), counts);
	KUNIT_EXPECT_EQ(test, counts[MM_SWAPENTS], 2);
	KUNIT_EXPECT_EQ(test, counts[MM_ANONPAGES], 0);
	__free_page(page);
}

/*
 * A walk of the reverse map takes no lock of an ordinary table that has nothing for
 * it, though processes share (invariant 10). If it does, it waits here for ever.
 */
static void cohort_test_walk_lockless(struct kunit *test)
{
	struct page_vma_mapped_walk walk = { .nr_pages = 1 };
	unsigned long addr;
	struct mm_struct *mm;
	spinlock_t *ptl;
	bool found;
	pte_t *pte;
	pmd_t *pmd;

	addr = kunit_vm_mmap(test, NULL, 0, 2 * PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !addr || IS_ERR_VALUE(addr));
	KUNIT_ASSERT_EQ(test, put_user(1, (char __user *)addr), 0);
	cohort_activate();

	mm = current->mm;
	mmap_read_lock(mm);
	walk.vma = vma_lookup(mm, addr);
	walk.address = addr + PAGE_SIZE;
	pmd = mm_find_pmd(mm, addr);
	pte = pte_offset_map_lock(mm, pmd, addr, &ptl);
	KUNIT_EXPECT_NOT_NULL(test, pte);
	if (pte) {
		KUNIT_EXPECT_FALSE(test, cohort_left_table(pmd, pte));
		walk.pfn = pte_pfn(ptep_get(pte));
		found = page_vma_mapped_walk(&walk);
		pte_unmap_unlock(pte, ptl);
		KUNIT_EXPECT_FALSE(test, found);
	}
	mmap_read_unlock(mm);
}

/* A walk sees that the entry does not point to its table any more. */
static void cohort_test_left_table(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	pmd_t pmd[COHORT_PMD_STEP] = {}, other = table_entry();
	pte_t *pte;

	KUNIT_ASSERT_NOT_NULL(test, page);
	cohort_activate();
	pte = page_address(page);
	pmd_populate(NULL, pmd, page);
	KUNIT_EXPECT_FALSE(test, cohort_left_table(pmd, pte + 7));
	arch_pmd_set_cohort(pmd, true);
	KUNIT_EXPECT_FALSE(test, cohort_left_table(pmd, pte));
	KUNIT_EXPECT_TRUE(test, cohort_left_table(&other, pte));
	pmd_clear(pmd);
	KUNIT_EXPECT_TRUE(test, cohort_left_table(pmd, pte));
	__free_page(page);
}

/*
 * Let a walk for @nr pages from @first on be at @at in a table that the process has left:
 * an empty one, of which it has passed the entries before. Return where it finds one of
 * the pages that begin with @page, or 0.
 */
static unsigned long walk_from_left(struct vm_area_struct *vma,
				    unsigned long first, unsigned long nr,
				    unsigned long at, struct page *page,
				    struct page *left)
{
	struct page_vma_mapped_walk walk = {
		.vma = vma,
		.pfn = page_to_pfn(page),
		.nr_pages = nr,
		.pgoff = linear_page_index(vma, first),
		.address = at,
		.pmd = mm_find_pmd(vma->vm_mm, at),
	};

	/* The walk unmaps it. */
	if (!pte_offset_map(walk.pmd, at))
		return 0;
	walk.pte = (pte_t *)page_address(left) + pte_index(at);
	if (!page_vma_mapped_walk(&walk))
		return 0;
	page_vma_mapped_walk_done(&walk);
	return walk.address;
}

/*
 * A walk for several pages that finds at the end that the process has left the table looks
 * again at all of the table's entries for the pages, at none before them, and at none of
 * the table before.
 */
static void cohort_test_walk_back(struct kunit *test)
{
	struct page *left, *before, *behind;
	struct vm_area_struct *vma;
	unsigned long addr, edge;
	struct mm_struct *mm;

	/* Two small pages on both sides of the edge of a table. */
	addr = kunit_vm_mmap(test, NULL, 0, 2 * PMD_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, !addr || IS_ERR_VALUE(addr));
	edge = ALIGN(addr + PAGE_SIZE, PMD_SIZE);
	KUNIT_ASSERT_EQ(test, vm_munmap(addr, 2 * PMD_SIZE), 0);
	addr = kunit_vm_mmap(test, NULL, edge - PAGE_SIZE, 4 * PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE | MAP_FIXED, 0);
	KUNIT_ASSERT_EQ(test, addr, edge - PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, put_user(1, (char __user *)addr), 0);
	KUNIT_ASSERT_EQ(test, put_user(1, (char __user *)edge), 0);
	/* Held, the pages do not move. */
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(addr, 1, 0, &before), 1);
	if (get_user_pages_fast(edge, 1, 0, &behind) != 1)
		behind = NULL;
	left = alloc_page(GFP_KERNEL | __GFP_ZERO);
	cohort_activate();

	mm = current->mm;
	mmap_read_lock(mm);
	vma = vma_lookup(mm, addr);
	KUNIT_EXPECT_TRUE(test, left && behind);
	if (left && behind) {
		/* The walk passed the second page. */
		KUNIT_EXPECT_EQ(test, edge,
				walk_from_left(vma, addr, 4, edge + PAGE_SIZE,
					       behind, left));
		/* In the table before the walk has seen all. */
		KUNIT_EXPECT_NE(test, addr,
				walk_from_left(vma, addr, 2, edge, before, left));
		/* A page of the same number, but not where the walk looks. */
		KUNIT_EXPECT_EQ(test, 0,
				walk_from_left(vma, edge + PAGE_SIZE, 2,
					       edge + PAGE_SIZE, behind, left));
	}
	mmap_read_unlock(mm);
	if (left)
		__free_page(left);
	if (behind)
		put_page(behind);
	put_page(before);
}

static struct kunit_case cohort_test_cases[] = {
	KUNIT_CASE(cohort_test_walk_lockless),
	KUNIT_CASE(cohort_test_left_table),
	KUNIT_CASE(cohort_test_walk_back),
	KUNIT_CASE(cohort_test_entry_mark),
#ifdef CONFIG_COHORT_UPPER
	KUNIT_CASE(cohort_test_entry_upper),
#endif
	KUNIT_CASE(cohort_test_entry_bad),
	KUNIT_CASE(cohort_test_entry_others),
#ifdef ARCH_COHORT_KUNIT_CASES
	ARCH_COHORT_KUNIT_CASES
#endif
	KUNIT_CASE(cohort_test_table_end),
	KUNIT_CASE(cohort_test_regions),
	KUNIT_CASE(cohort_test_copy_policy),
	KUNIT_CASE(cohort_test_count_entry),
	KUNIT_CASE(cohort_test_free_waits),
	{},
};

/* pmd_cohort() sees no mark before. */
static int cohort_test_start(struct kunit_suite *suite)
{
	cohort_activate();
	return 0;
}

static struct kunit_suite cohort_test_suite = {
	.name = "cohort",
	.suite_init = cohort_test_start,
	.test_cases = cohort_test_cases,
};
kunit_test_suite(cohort_test_suite);

#endif /* _MM_COHORT_KUNIT_H */

#endif /* CONFIG_COHORT_KUNIT_TEST */
