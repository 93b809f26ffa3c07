/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the reverse map, zapping and freeing.
 */
#ifndef _LINUX_COHORT_RMAP_H
#define _LINUX_COHORT_RMAP_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

bool cohort_zap(struct mmu_gather *tlb, pmd_t *pmd, unsigned long addr,
		unsigned long next, struct zap_details *details);
void cohort_do_zapped(struct mmu_gather *tlb, pmd_t *pmd, unsigned long addr,
		      int *rss);
pte_t cohort_do_clear_flush(struct mm_struct *mm, pmd_t *pmd,
			    unsigned long addr, pte_t *ptep, bool batch);
bool cohort_do_flush_ptes(pte_t *ptep, unsigned long start, unsigned long end);
void cohort_do_flush_deferred(struct tlbflush_unmap_batch *ubc);
void cohort_do_pte_free_tlb(struct mmu_gather *tlb, struct page *page);
void cohort_do_pmd_free_tlb(struct mmu_gather *tlb, struct page *page);
void cohort_do_free_table(struct page *page);

/* For the OOM reaper: its victim leaves shared tables, whose pages others may need. */
struct zap_details *cohort_reap_details(void);

/*
 * Set on a table that was ever shared, until it is freed: a walker that came
 * through a former user's entry may still be in it, so it is freed by RCU. Xen PV
 * uses this bit for "pinned"; no table is shared there.
 */
#define PG_COHORT	PG_owner_priv_1

bool cohort_table_group(pte_t *ptep, bool *of_group);

/* Account for entries zapped up to @addr; false if the table is not shared. */
static inline bool cohort_zapped(struct mmu_gather *tlb, pmd_t *pmd,
				 unsigned long addr, int *rss)
{
	if (likely(!pmd_cohort(*pmd)))
		return false;
	cohort_do_zapped(tlb, pmd, addr, rss);
	return true;
}

/**
 * cohort_left_table() - whether a process has left the table that a walk is in
 * @pmd: its entry for the table
 * @pte: an entry of the table that was mapped through @pmd, still under RCU
 *
 * For a walker that holds none of the process's locks, and read entries without the
 * table's lock. Fork may have shared the table T after the walk came to it, and the
 * process may have unshared it since, under a folio that only the walker's folio lock
 * protects; T is another process's then, and what the process maps is in a copy.
 * Call it after the entries that are to be passed were read, and after T's lock was
 * taken. If it says no:
 *
 * - The process has used T all the time. It does not come back to a table that it has
 *   left: its entries turn to shared tables when it is forked, or when it joins one,
 *   which nobody does during a walk of one of the table's files (cohort_lock_files());
 *   a walk for an anonymous page finds none in such a table. And a table that was
 *   ever shared is not freed under RCU (invariant 5), so that @pmd cannot point to
 *   another table at T's address.
 * - So entries that were passed are as good as without sharing. Whoever clears an
 *   entry of T for other users after the process has left takes T's lock after the
 *   leaver's entry was turned away under it (invariants 5 and 12): who read such an
 *   entry empty sees the new @pmd here.
 * - With T's lock held the answer stays true until it is dropped (invariant 12), and
 *   so does the mark in @pmd, which fork sets under it.
 *
 * An ordinary table costs a compare with an entry that is in the cache (invariant
 * 10). While no process has ever shared, not even that: cohort_activate() waits for
 * walks that did not compare.
 */
static inline bool cohort_left_table(pmd_t *pmd, pte_t *pte)
{
	pmd_t now;

	if (!cohort_active())
		return false;
	/* Entries before @pmd: pairs with the locks of who leaves and who clears. */
	smp_rmb();
	now = pmdp_get_lockless(pmd);
	return unlikely((unsigned long)pmd_page_vaddr(now) !=
			((unsigned long)pte & PAGE_MASK) || !pmd_present(now));
}

/**
 * cohort_clear_flush() - clear an entry and flush every TLB that may hold it
 * @vma: the region through which the reverse map came
 * @addr: the address
 * @ptep: the entry
 * @pmd: the entry above; the lock of the table is held
 *
 * Flushes all users of a shared table, this process included, before it returns
 * (invariant 4).
 *
 * Return: the entry as it was.
 */
static inline pte_t cohort_clear_flush(struct vm_area_struct *vma,
				       unsigned long addr, pte_t *ptep,
				       pmd_t *pmd)
{
	if (unlikely(pmd_cohort(*pmd)))
		return cohort_do_clear_flush(vma->vm_mm, pmd, addr, ptep, false);
	return ptep_clear_flush(vma, addr, ptep);
}

/*
 * As cohort_clear_flush(), for a shared table. If @batch, its users are flushed by
 * try_to_unmap_flush(), which the caller calls before the page is used anew.
 */
static inline pte_t cohort_clear_batch(struct vm_area_struct *vma,
				       unsigned long addr, pte_t *ptep,
				       pmd_t *pmd, bool batch)
{
	return cohort_do_clear_flush(vma->vm_mm, pmd, addr, ptep, batch);
}

/*
 * Flush a range of entries that an architecture has cleared by itself, in order to write
 * them anew, for all users of the table that has them. The table's lock is held. Returns
 * false if the table is not shared.
 */
static inline bool cohort_flush_ptes(pte_t *ptep, unsigned long start,
				     unsigned long end)
{
	if (likely(!test_bit(PG_COHORT, &virt_to_page(ptep)->flags)))
		return false;
	return cohort_do_flush_ptes(ptep, start, end);
}

/* Part of try_to_unmap_flush(): a table in the batch had too many users to visit. */
static inline void cohort_flush_deferred(struct tlbflush_unmap_batch *ubc)
{
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (unlikely(ubc->cohort_all))
		cohort_do_flush_deferred(ubc);
#endif
}

/* Give a table to the gather if it was ever shared, else return false. */
static inline bool cohort_pte_free_tlb(struct mmu_gather *tlb,
				       struct page *page)
{
	if (likely(!test_bit(PG_COHORT, &page->flags)))
		return false;
	cohort_do_pte_free_tlb(tlb, page);
	return true;
}

static inline bool cohort_pmd_free_tlb(struct mmu_gather *tlb,
				       struct page *page)
{
	if (likely(!test_bit(PG_COHORT, &page->flags)))
		return false;
	cohort_do_pmd_free_tlb(tlb, page);
	return true;
}

/* Free a table of any level by RCU if it was ever shared, else return false. */
static inline bool cohort_free_table(struct page *page)
{
	if (likely(!test_bit(PG_COHORT, &page->flags)))
		return false;
	cohort_do_free_table(page);
	return true;
}

#else /* !CONFIG_COHORT */

#define cohort_zap(...)			false
#define cohort_zapped(...)		false
#define cohort_left_table(...)		false
#define cohort_clear_flush(vma, addr, ptep, ...) \
	ptep_clear_flush(vma, addr, ptep)
#define cohort_clear_batch(...)		__pte(0)
#define cohort_flush_ptes(...)		false
#define cohort_flush_deferred(...)	do { } while (0)
#define cohort_pte_free_tlb(...)	false
#define cohort_pmd_free_tlb(...)	false
#define cohort_free_table(...)		false
#define cohort_reap_details(...)	NULL

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_RMAP_H */
