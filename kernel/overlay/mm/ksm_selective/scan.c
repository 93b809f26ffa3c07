// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: the scan of a process. Included by ksmd.c.
 */

/* How many slots next_slot() passes before it lets go of ksm_mmlist_lock. */
#define SLOTS_AT_ONCE		64

/*
 * Move the cursor to the next process that waits or whose slot must be freed.
 * Returns false at the end of the round.
 */
static bool next_slot(void)
{
	struct ksm_mm_slot *mm_slot;
	struct mm_slot *slot;
	unsigned int passed = 0;
	bool found = false;

	if (ksm_scan.mm_slot == &ksm_mm_head)
		ksm_selective_begin_round();

	spin_lock(&ksm_mmlist_lock);
	slot = &ksm_scan.mm_slot->slot;
	while (!found) {
		/* In pieces (invariant 13): only ksmd frees a slot at the cursor. */
		if (passed++ == SLOTS_AT_ONCE) {
			passed = 1;
			ksm_scan.mm_slot = mm_slot_entry(slot, struct ksm_mm_slot,
							 slot);
			spin_unlock(&ksm_mmlist_lock);
			cond_resched();
			spin_lock(&ksm_mmlist_lock);
		}
		slot = list_next_entry(slot, mm_node);
		if (slot == &ksm_mm_head.slot)
			break;
		mm_slot = mm_slot_entry(slot, struct ksm_mm_slot, slot);
		found = ksm_test_exit(slot->mm) ||
			__ksm_selective_begin(&mm_slot->selective);
	}
	mm_slot = mm_slot_entry(slot, struct ksm_mm_slot, slot);
	ksm_scan.mm_slot = mm_slot;
	ksm_scan.address = 0;
	ksm_scan.rmap_list = &mm_slot->rmap_list;
	scan_app = mm_slot->selective.app;
	spin_unlock(&ksm_mmlist_lock);

	if (!found) {
		/* Learning ends once all dormant processes were scanned. */
		WRITE_ONCE(ksm_learning, false);
		return false;
	}
	if (ksm_test_exit(mm_slot->slot.mm))
		return true;
	twins_later = false;
	ksm_profile_begin(&scan_app);
	/*
	 * A page in an LRU batch has one reference too many to merge, and no
	 * later scan would try it again.
	 */
	lru_add_drain_all();
	return true;
}

/*
 * Remove the items between @from and @to, which is not scanned. Merged pages there
 * are still mapped, so their items stay: the reverse map needs them.
 */
static void pass_over(unsigned long from, unsigned long to)
{
	struct ksm_rmap_item *rmap_item;

	while ((rmap_item = *ksm_scan.rmap_list) &&
	       (rmap_item->address & PAGE_MASK) < to) {
		cond_resched();
		if (rmap_item->address >= from &&
		    (rmap_item->address & STABLE_FLAG)) {
			ksm_scan.rmap_list = &rmap_item->rmap_list;
			continue;
		}
		*ksm_scan.rmap_list = rmap_item->rmap_list;
		remove_rmap_item_from_tree(rmap_item);
		free_rmap_item(rmap_item);
	}
}

/* The next page of a region; NULL at its end or if the process has woken. */
static struct ksm_rmap_item *scan_vma(struct ksm_mm_slot *mm_slot,
				      struct vm_area_struct *vma,
				      struct page **page)
{
	bool forked = READ_ONCE(mm_slot->selective.state) & KSM_FORKED;
	unsigned long addr = max(ksm_scan.address, vma->vm_start);
	unsigned long from, end;
	struct ksm_next_page_arg arg;
	struct ksm_rmap_item *rmap_item;

	while (addr < vma->vm_end && !ksm_test_exit(vma->vm_mm) &&
	       ksm_selective_scanning(&mm_slot->selective)) {
		from = addr;
		end = vma->vm_end;
		if (!ksm_profile_next(vma, forked, &addr, &end))
			addr = end;
		pass_over(from, addr);
		ksm_scan.address = addr;
		cond_resched();
		if (addr == end)
			break;
		if (walk_page_range_vma(vma, addr, end, &ksm_next_page_ops,
					&arg) <= 0) {
			addr = end;
			ksm_scan.address = addr;
			continue;
		}
		flush_anon_page(vma, arg.page, arg.addr);
		flush_dcache_page(arg.page);
		addr = arg.addr + PAGE_SIZE;
		ksm_scan.address = addr;
		rmap_item = get_next_rmap_item(mm_slot, ksm_scan.rmap_list,
					       arg.addr);
		if (rmap_item) {
			ksm_scan.rmap_list = &rmap_item->rmap_list;
			*page = arg.page;
			return rmap_item;
		}
		folio_put(arg.folio);
	}
	return NULL;
}

/* The next page of a process, whose mmap_lock is held; NULL as above. */
static struct ksm_rmap_item *scan_mm(struct ksm_mm_slot *mm_slot,
				     struct page **page)
{
	struct mm_struct *mm = mm_slot->slot.mm;
	struct ksm_rmap_item *rmap_item;
	struct vm_area_struct *vma;
	struct vma_iterator vmi;

	if (ksm_test_exit(mm))
		return NULL;
	vma_iter_init(&vmi, mm, ksm_scan.address);
	for_each_vma(vmi, vma) {
		if (!(vma->vm_flags & VM_MERGEABLE) || !vma->anon_vma)
			continue;
		rmap_item = scan_vma(mm_slot, vma, page);
		if (rmap_item)
			return rmap_item;
	}
	return NULL;
}

/* True if a KSM page is mapped at the address. */
static bool still_merged(struct mm_struct *mm, unsigned long addr)
{
	struct vm_area_struct *vma = find_mergeable_vma(mm, addr);
	struct folio_walk fw;
	struct folio *folio;
	bool merged;

	if (!vma)
		return false;
	folio = folio_walk_start(&fw, vma, addr, 0);
	if (!folio)
		return false;
	merged = folio_test_ksm(folio);
	folio_walk_end(&fw, vma);
	return merged;
}

/*
 * Remove stale items behind the cursor after an aborted scan. The next full scan
 * would do it, but a process whose scans are always aborted would gather items. It has
 * such items for sure only if it has more items than pages, and pages that it maps
 * through tables charged to others have items as well.
 */
static void drop_gone(struct mm_struct *mm)
{
	struct ksm_rmap_item *rmap_item;

	if (ksm_test_exit(mm))
		return;
	/* An estimate may be too low. The mmap_lock keeps the records: an exit waits for it. */
	cohort_look_guessed(mm);
	if (mm->ksm_rmap_items <= get_mm_counter(mm, MM_ANONPAGES) +
				  cohort_rss(mm))
		return;
	while ((rmap_item = *ksm_scan.rmap_list)) {
		cond_resched();
		if ((rmap_item->address & STABLE_FLAG) &&
		    still_merged(mm, rmap_item->address & PAGE_MASK)) {
			ksm_scan.rmap_list = &rmap_item->rmap_list;
			continue;
		}
		*ksm_scan.rmap_list = rmap_item->rmap_list;
		remove_rmap_item_from_tree(rmap_item);
		free_rmap_item(rmap_item);
	}
}

/* The scan of the process at the cursor is complete, or the process has woken. */
static void end_scan(struct ksm_mm_slot *mm_slot)
{
	bool ended;

	spin_lock(&ksm_mmlist_lock);
	ended = __ksm_selective_end(&mm_slot->selective);
	spin_unlock(&ksm_mmlist_lock);
	if (!ended) {
		drop_gone(mm_slot->slot.mm);
		mm_slot->selective.scans_left++;
		ksm_dormant_scans_left++;
		return;
	}
	/* Items behind the last page that was found are stale. */
	remove_trailing_rmap_items(ksm_scan.rmap_list);
	ksm_profile_end(&scan_app);
	mm_slot->selective.scans++;
	ksm_dormant_scans++;
}

/* Free the slot of an exited process, as scan_get_next_rmap_item() does. */
static void free_slot(struct ksm_mm_slot *mm_slot)
{
	struct mm_struct *mm = mm_slot->slot.mm;
	struct mm_slot *prev;

	remove_trailing_rmap_items(&mm_slot->rmap_list);
	spin_lock(&ksm_mmlist_lock);
	prev = list_prev_entry(&mm_slot->slot, mm_node);
	ksm_scan.mm_slot = mm_slot_entry(prev, struct ksm_mm_slot, slot);
	hash_del(&mm_slot->slot.hash);
	list_del(&mm_slot->slot.mm_node);
	spin_unlock(&ksm_mmlist_lock);
	mm_slot_free(mm_slot_cache, mm_slot);
	clear_bit(MMF_VM_MERGEABLE, &mm->flags);
}

/* As scan_get_next_rmap_item() for full scans. */
static struct ksm_rmap_item *next_rmap_item(struct page **page)
{
	struct ksm_rmap_item *rmap_item;
	struct ksm_mm_slot *mm_slot;
	struct mm_struct *mm;
	bool exited, more;

	rmap_item = next_twin(page);
	if (rmap_item)
		return rmap_item;

	if (ksm_scan.mm_slot == &ksm_mm_head && !next_slot())
		return NULL;
	do {
		mm_slot = ksm_scan.mm_slot;
		mm = mm_slot->slot.mm;
		mmap_read_lock(mm);
		rmap_item = scan_mm(mm_slot, page);
		if (rmap_item) {
			mm_slot->selective.pages_scanned++;
			mmap_read_unlock(mm);
			return rmap_item;
		}
		exited = ksm_test_exit(mm);
		if (exited)
			free_slot(mm_slot);
		else
			end_scan(mm_slot);
		/* Only ksmd frees a slot at the cursor, and its mm. */
		mmap_read_unlock(mm);
		if (exited)
			mmdrop(mm);
		cond_resched();
		more = next_slot();
		/*
		 * At most one process before ksmd sleeps, even one without pages:
		 * next_slot() runs work on all CPUs. The cursor stays.
		 */
	} while (more && exited && !freezing(current));
	return NULL;
}

static struct ksm_rmap_item *selective_next_rmap_item(struct page **page)
{
	struct ksm_rmap_item *rmap_item = next_rmap_item(page);

	summed = false;
	scanned = true;
	if (rmap_item)
		scan_page = *page;
	return rmap_item;
}
