// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size per region: copy on write by whole large pages.
 *
 * Mainline copies a base page out of a large one, so after a fork every large page
 * that child or parent writes to is broken up. In a region with MADV_ORDER_COPY the
 * whole page is copied instead, or taken over by its last user.
 *
 * The copy is consistent for three reasons. The fault holds the mmap_lock or the
 * region's lock, so no fork runs meanwhile. All entries of the range map pages that
 * are not exclusive, to which no process writes while they are mapped here. And the
 * entries are checked again before they are replaced.
 */
#include <linux/hugetlb.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/region_order.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>

#include <asm/tlbflush.h>

#include "../internal.h"

static struct folio *new_folio(struct vm_area_struct *vma, unsigned long addr,
			       int order)
{
	gfp_t gfp = region_order_do_gfp(vma->vm_flags);
	struct folio *folio = vma_alloc_folio(gfp, order, vma, addr, true);

	if (!folio)
		return NULL;
	if (mem_cgroup_charge(folio, vma->vm_mm, gfp)) {
		folio_put(folio);
		return NULL;
	}
	folio_throttle_swaprate(folio, gfp);
	return folio;
}

/*
 * True if @nr entries map consecutive pages from @page on, of which none is
 * exclusive. The pages are of one folio. The table's lock is held.
 */
static bool maps_shared(pte_t *pte, struct page *page, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		pte_t entry = ptep_get(pte + i);

		if (!pte_present(entry) || pte_protnone(entry) ||
		    pte_write(entry) ||
		    pte_pfn(entry) != page_to_pfn(page) + i ||
		    PageAnonExclusive(page + i))
			return false;
	}
	return true;
}

/*
 * Make the folio's pages exclusive if the entries of the range are its only
 * mappings, as wp_can_reuse_anon_folio() does for a base page. The only other
 * reference is the fault's. The table's lock is held.
 */
static bool take_over(struct vm_fault *vmf, unsigned long addr, pte_t *pte,
		      struct folio *folio)
{
	struct vm_area_struct *vma = vmf->vma;
	int i, nr = folio_nr_pages(folio);
	pte_t entry;

	if (folio_ref_count(folio) != nr + 1 || !folio_trylock(folio))
		return false;
	if (folio_test_swapcache(folio) || folio_ref_count(folio) != nr + 1) {
		folio_unlock(folio);
		return false;
	}
	folio_move_anon_rmap(folio, vma);
	for (i = 0; i < nr; i++) {
		SetPageAnonExclusive(folio_page(folio, i));
		entry = pte_mkyoung(pte_mkdirty(ptep_get(pte + i)));
		entry = maybe_mkwrite(entry, vma);
		if (ptep_set_access_flags(vma, addr + i * PAGE_SIZE, pte + i,
					  entry, 1))
			update_mmu_cache_range(vmf, vma, addr + i * PAGE_SIZE,
					       pte + i, 1);
	}
	folio_unlock(folio);
	return true;
}

/* The folio's page at @addr, or NULL if the range reaches out of the folio. */
static struct page *first_page(struct vm_fault *vmf, struct folio *folio,
			       unsigned long addr, int nr)
{
	unsigned long idx = folio_page_idx(folio, vmf->page);
	unsigned long before = (vmf->address - addr) >> PAGE_SHIFT;

	if (idx < before || idx - before + nr > folio_nr_pages(folio))
		return NULL;
	return vmf->page - before;
}

/* Map the copy if the range is unchanged. */
static bool replace(struct vm_fault *vmf, unsigned long addr,
		    struct page *page, struct folio *old, struct folio *new)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	int i, nr = folio_nr_pages(new);
	unsigned long end = addr + nr * PAGE_SIZE;
	struct mmu_notifier_range range;
	bool done = false;
	spinlock_t *ptl;	/* the table's */
	pte_t *pte, entry;

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, mm, addr, end);
	mmu_notifier_invalidate_range_start(&range);
	pte = pte_offset_map_lock(mm, vmf->pmd, addr, &ptl);
	if (pte && maps_shared(pte, page, nr)) {
		entry = pte_sw_mkyoung(mk_pte(&new->page, vma->vm_page_prot));
		entry = maybe_mkwrite(pte_mkdirty(entry), vma);

		flush_cache_range(vma, addr, end);
		for (i = 0; i < nr; i++)
			ptep_get_and_clear(mm, addr + i * PAGE_SIZE, pte + i);
		/* As in wp_page_copy(): no CPU may use the old and the new page. */
		flush_tlb_range(vma, addr, end);
		folio_ref_add(new, nr - 1);
		folio_add_new_anon_rmap(new, vma, addr, RMAP_EXCLUSIVE);
		folio_add_lru_vma(new, vma);
		set_ptes(mm, addr, pte, entry, nr);
		update_mmu_cache_range(vmf, vma, addr, pte, nr);
		/* Only now may another user become the last one of the old page. */
		folio_remove_rmap_ptes(old, page, nr, vma);
		done = true;
	}
	if (pte)
		pte_unmap_unlock(pte, ptl);
	mmu_notifier_invalidate_range_end(&range);
	return done;
}

/* Copy pages of the region's order from @page on. Returns 0 or -EHWPOISON. */
static int copy_pages(struct folio *new, struct page *page, unsigned long addr,
		      struct vm_area_struct *vma)
{
	int i, nr = folio_nr_pages(new);

	for (i = 0; i < nr; i++) {
		if (copy_mc_user_highpage(folio_page(new, i), page + i,
					  addr + i * PAGE_SIZE, vma))
			return -EHWPOISON;
		cond_resched();
	}
	return 0;
}

/**
 * region_order_do_copy() - serve a write to a page that is not exclusive
 * @vmf: the fault; no lock of a table is held
 * @folio: the folio mapped there, with a reference
 *
 * Return: true, with the reference dropped, if the fault is done or must be retried;
 * false to copy the base page.
 */
bool region_order_do_copy(struct vm_fault *vmf, struct folio *folio)
{
	struct vm_area_struct *vma = vmf->vma;
	struct page *page = NULL;
	unsigned long orders, addr = 0;
	struct folio *new = NULL;
	spinlock_t *ptl;	/* the table's */
	pte_t *table;
	int order;

	if ((vmf->flags & FAULT_FLAG_UNSHARE) || !folio_test_large(folio) ||
	    !folio_test_anon(folio) || userfaultfd_armed(vma) ||
	    !vma->anon_vma)
		return false;

	orders = region_orders(vma->vm_flags) & THP_ORDERS_ALL_ANON &
		 GENMASK(folio_order(folio), 0);
	orders = thp_vma_suitable_orders(vma, vmf->address, orders);
	if (!orders)
		return false;
	/* A reference of an LRU batch would look like another user's. */
	if (!folio_test_lru(folio))
		lru_add_drain();

	table = pte_offset_map_lock(vma->vm_mm, vmf->pmd,
				    vmf->address & PMD_MASK, &ptl);
	if (!table)
		return false;
	if (!pte_same(ptep_get(table + pte_index(vmf->address)),
		      vmf->orig_pte)) {
		pte_unmap_unlock(table, ptl);
		folio_put(folio);
		return true;
	}
	for (order = highest_order(orders); orders;
	     order = next_order(&orders, order)) {
		addr = ALIGN_DOWN(vmf->address, PAGE_SIZE << order);
		page = first_page(vmf, folio, addr, 1 << order);
		if (page && maps_shared(table + pte_index(addr), page,
					1 << order))
			break;
	}
	if (orders && order == folio_order(folio) &&
	    take_over(vmf, addr, table + pte_index(addr), folio)) {
		pte_unmap_unlock(table, ptl);
		folio_put(folio);
		count_vm_event(ORDER_REUSED);
		return true;
	}
	pte_unmap_unlock(table, ptl);

	for (; orders; order = next_order(&orders, order)) {
		/* A new folio of this order is taken to be mapped by a PMD. */
		if (order == PMD_ORDER)
			continue;
		addr = ALIGN_DOWN(vmf->address, PAGE_SIZE << order);
		new = new_folio(vma, addr, order);
		if (new)
			break;
	}
	if (!new)
		return false;
	page = first_page(vmf, folio, addr, 1 << order);
	if (copy_pages(new, page, addr, vma)) {
		folio_put(new);
		return false;
	}
	__folio_mark_uptodate(new);

	if (replace(vmf, addr, page, folio, new)) {
		folio_put_refs(folio, 1 << order);
		count_vm_event(ORDER_COPIED);
	} else {
		folio_put(new);
	}
	folio_put(folio);
	return true;
}

/**
 * region_order_do_copy_pmd() - serve a write to a page mapped by a PMD
 * @vmf: the fault; no lock of a table is held, and the page could not be reused
 *
 * Return: true if the fault is done or must be retried; false to split the PMD.
 */
bool region_order_do_copy_pmd(struct vm_fault *vmf)
{
	unsigned long haddr = vmf->address & HPAGE_PMD_MASK;
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	struct mmu_notifier_range range;
	struct folio *old, *new;
	bool done = false;
	pmd_t entry;

	if ((vmf->flags & FAULT_FLAG_UNSHARE) || userfaultfd_armed(vma) ||
	    region_order(vma->vm_flags) < PMD_ORDER ||
	    is_huge_zero_pmd(vmf->orig_pmd))
		return false;

	vmf->ptl = pmd_lock(mm, vmf->pmd);
	if (!pmd_same(*vmf->pmd, vmf->orig_pmd)) {
		spin_unlock(vmf->ptl);
		return true;
	}
	/* It became exclusive meanwhile: the retry writes to it in place. */
	if (PageAnonExclusive(pmd_page(vmf->orig_pmd))) {
		spin_unlock(vmf->ptl);
		return true;
	}
	/* From now on it cannot become exclusive: see do_huge_pmd_wp_page(). */
	old = page_folio(pmd_page(vmf->orig_pmd));
	folio_get(old);
	spin_unlock(vmf->ptl);

	new = new_folio(vma, haddr, PMD_ORDER);
	if (!new || copy_user_large_folio(new, old, vmf->address, vma)) {
		if (new)
			folio_put(new);
		folio_put(old);
		return false;
	}
	__folio_mark_uptodate(new);

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, mm, haddr,
				haddr + HPAGE_PMD_SIZE);
	mmu_notifier_invalidate_range_start(&range);
	vmf->ptl = pmd_lock(mm, vmf->pmd);
	if (pmd_same(*vmf->pmd, vmf->orig_pmd)) {
		entry = mk_huge_pmd(&new->page, vma->vm_page_prot);
		entry = maybe_pmd_mkwrite(pmd_mkdirty(entry), vma);
		pmdp_huge_clear_flush(vma, haddr, vmf->pmd);
		folio_add_new_anon_rmap(new, vma, haddr, RMAP_EXCLUSIVE);
		folio_add_lru_vma(new, vma);
		set_pmd_at(mm, haddr, vmf->pmd, entry);
		update_mmu_cache_pmd(vma, vmf->address, vmf->pmd);
		folio_remove_rmap_pmd(old, &old->page, vma);
		/* may be split if it turns out to be mostly zeros */
		deferred_split_folio(new, false);
		done = true;
	}
	spin_unlock(vmf->ptl);
	mmu_notifier_invalidate_range_end(&range);

	if (done) {
		folio_put(old);
		count_vm_event(ORDER_COPIED);
	} else {
		folio_put(new);
	}
	folio_put(old);
	return true;
}
