/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: the part of ksmd. Included by mm/ksm.c alone, of whose
 * cursor, items and stable tree it makes use.
 *
 * As long as the policy is in force ksmd does no full scans. In a round it goes
 * through the slots once, and scans the processes that wait for it; it sleeps
 * when nobody does. Slots are added behind the cursor, so a round has an end,
 * whatever processes do meanwhile: the cursor goes on with each step, in a
 * process to the next page or to the next slot.
 *
 * The unstable tree is not used. It is thrown away after each full scan since
 * its pages may change; here they are of processes that do not run, each is
 * scanned once only, and what has not found its like must be there when that
 * comes, maybe days later. So they are kept in an index, a tree by the checksum
 * that the page had, which nothing can put out of order: an item of which the
 * process has woken (even if it is dormant again), the page is gone or the
 * content is another one is taken out when it is met.
 *
 * An item is in the unstable tree, in the stable tree, in the index, or in none.
 * All of this is protected by ksm_thread_mutex, but for the states in the slots.
 */
#ifndef _MM_KSM_SELECTIVE_KSMD_H
#define _MM_KSM_SELECTIVE_KSMD_H

#ifdef CONFIG_KSM_SELECTIVE

#define INDEXED_FLAG		0x400	/* is a node of the index */

/*
 * So many pages with one checksum are compared and no more: checksums are easily
 * made to be alike. Those that are alike by chance are two at most.
 */
#define MAX_COMPARED		8

#define KSM_NICE		5	/* as ever */
#define KSM_SELECTIVE_NICE	15	/* what the paper found best */

static struct task_struct *ksmd;
static bool ksmd_nice_chosen;

/* Pages that were scanned and have not merged. */
static struct rb_root selective_index = RB_ROOT;

/* The application that is scanned, by the name it had when its scan began. */
static char scan_app[KSM_APP_LEN];

/* The page that was found last. */
static struct page *scan_page;
/*
 * Its item has the checksum that the index goes by. That is not taken before the
 * stable tree was searched, as most pages that a profile names have their like
 * there.
 */
static bool summed;

/*
 * Twins: a page that was mapped by several processes since their fork merges with
 * the first of them only; the items of others may wait in the index, under this
 * checksum and node.
 */
static u64 twin_key;
static bool twin_wanted;
/* The last of them that was looked at. */
static struct ksm_rmap_item *twin;
/* So many were put into the index again. */
static int twins_back;
/* One could not be merged at once: the others wait for the next scan. */
static bool twins_later;

/* --- states --------------------------------------------------------------- */

/* Find the state of an address space, and hold on to it. */
struct ksm_selective *ksm_selective_lock(struct mm_struct *mm)
{
	struct mm_slot *slot;

	spin_lock(&ksm_mmlist_lock);
	slot = mm_slot_lookup(mm_slots_hash, mm);
	if (slot)
		return &mm_slot_entry(slot, struct ksm_mm_slot, slot)->selective;
	spin_unlock(&ksm_mmlist_lock);
	return NULL;
}

void ksm_selective_unlock(void)
{
	spin_unlock(&ksm_mmlist_lock);
}

void ksm_selective_wake(void)
{
	wake_up_interruptible(&ksm_thread_wait);
}

static bool selective_has_work(void)
{
	return ksm_selective_work() ||
	       READ_ONCE(ksm_scan.mm_slot) != &ksm_mm_head;
}

/* Has the process of this item not run since it was scanned? */
static bool settled(struct ksm_rmap_item *rmap_item)
{
	struct ksm_selective *s = ksm_selective_lock(rmap_item->mm);
	bool yes;

	if (!s)
		return false;
	yes = ksm_selective_settled(s);
	ksm_selective_unlock();
	return yes;
}

/* Scan all who are dormant again, from a round's beginning. */
static void selective_forget_all(void)
{
	struct mm_slot *slot;

	twin_wanted = false;
	twin = NULL;
	spin_lock(&ksm_mmlist_lock);
	list_for_each_entry(slot, &ksm_mm_head.slot.mm_node, mm_node)
		__ksm_selective_forget(&mm_slot_entry(slot, struct ksm_mm_slot,
						      slot)->selective);
	ksm_scan.mm_slot = &ksm_mm_head;
	spin_unlock(&ksm_mmlist_lock);
}

/* --- the index ------------------------------------------------------------ */

/*
 * In less than half the instructions of stock's, which has to tell whether a page has
 * changed: what is alike by this one is compared. It goes by all words, as pages
 * that were in common since a fork often differ in one, and each bit of them moves
 * others by where it is, as often they hold one word throughout.
 */
static u32 index_checksum(struct page *page)
{
	const u64 *words = kmap_local_page(page);
	u64 a = 0, b = 0, c = 0, d = 0;
	unsigned int i;

	for (i = 0; i < PAGE_SIZE / sizeof(*words); i += 8) {
		a = rol64(a, 7) + words[i];
		b = rol64(b, 7) + words[i + 1];
		c = rol64(c, 7) + words[i + 2];
		d = rol64(d, 7) + words[i + 3];
		a = (rol64(a, 7) + words[i + 4]) * GOLDEN_RATIO_64;
		b = (rol64(b, 7) + words[i + 5]) * GOLDEN_RATIO_64;
		c = (rol64(c, 7) + words[i + 6]) * GOLDEN_RATIO_64;
		d = (rol64(d, 7) + words[i + 7]) * GOLDEN_RATIO_64;
	}
	kunmap_local(words);
	a = rol64(a, 32) * GOLDEN_RATIO_64 + b;
	a = rol64(a, 32) * GOLDEN_RATIO_64 + c;
	a = rol64(a, 32) * GOLDEN_RATIO_64 + d;
	return a * GOLDEN_RATIO_64 >> 32;
}

/*
 * A line of the cache at a time. Of what differs most does in the first. The
 * order is memcmp's: the stable tree is kept when the policy changes.
 */
static int selective_do_memcmp_pages(struct page *a, struct page *b)
{
	const unsigned int line = 8;
	const u64 *x, *y;
	unsigned int i;
	int order;

	/* Where pages have tags these are compared, too. */
	if (IS_ENABLED(CONFIG_ARM64_MTE))
		return memcmp_pages(a, b);

	x = kmap_local_page(a);
	y = kmap_local_page(b);
	order = memcmp(x, y, line * sizeof(*x));
	for (i = line; !order && i < PAGE_SIZE / sizeof(*x); i += line) {
		if ((x[i] ^ y[i]) | (x[i + 1] ^ y[i + 1]) |
		    (x[i + 2] ^ y[i + 2]) | (x[i + 3] ^ y[i + 3]) |
		    (x[i + 4] ^ y[i + 4]) | (x[i + 5] ^ y[i + 5]) |
		    (x[i + 6] ^ y[i + 6]) | (x[i + 7] ^ y[i + 7]))
			order = memcmp(x + i, y + i, line * sizeof(*x));
	}
	kunmap_local(y);
	kunmap_local(x);
	return order;
}

static u64 index_key(u32 checksum, int nid)
{
	return (u64)nid << 32 | checksum;
}

static u64 item_key(const struct rb_node *node)
{
	struct ksm_rmap_item *rmap_item = rb_entry(node, struct ksm_rmap_item, node);

	return index_key(rmap_item->oldchecksum, NUMA(rmap_item->nid));
}

static int index_cmp(const void *key, const struct rb_node *node)
{
	u64 a = *(const u64 *)key, b = item_key(node);

	return a < b ? -1 : a > b;
}

static bool index_less(struct rb_node *a, const struct rb_node *b)
{
	return item_key(a) < item_key(b);
}

static void selective_do_unindex(struct ksm_rmap_item *rmap_item)
{
	if (!(rmap_item->address & INDEXED_FLAG))
		return;
	rb_erase(&rmap_item->node, &selective_index);
	rmap_item->address &= PAGE_MASK;
	ksm_pages_unshared--;
}

/* Returns the page of an indexed item, or NULL if nothing is to be had of it. */
static struct page *indexed_page(struct ksm_rmap_item *rmap_item)
{
	struct page *page = NULL;

	if (settled(rmap_item))
		page = get_mergeable_page(rmap_item);
	if (!page)
		remove_rmap_item_from_tree(rmap_item);
	return page;
}

/*
 * What unstable_tree_search_insert() is to full scans: find an item whose page
 * has the same content, or else put this one into the index.
 */
static struct ksm_rmap_item *
selective_search_insert(struct ksm_rmap_item *rmap_item, struct page *page,
			struct page **other_pagep)
{
	int nid = get_kpfn_nid(page_to_pfn(page)), compared = 0;
	struct rb_node *node, *next;
	struct ksm_rmap_item *other;
	struct page *other_page;
	u64 key;

	rmap_item->oldchecksum = index_checksum(page);
	summed = true;
	key = index_key(rmap_item->oldchecksum, nid);
	node = rb_find_first(&key, &selective_index, index_cmp);
	for (; node && compared < MAX_COMPARED; node = next) {
		next = rb_next_match(&key, node, index_cmp);
		other = rb_entry(node, struct ksm_rmap_item, node);
		other_page = indexed_page(other);
		if (!other_page)
			continue;
		/* One page, mapped twice since a fork: both wait for a third. */
		if (other_page == page) {
			put_page(other_page);
			break;
		}
		if (get_kpfn_nid(page_to_pfn(other_page)) == nid) {
			if (!selective_do_memcmp_pages(page, other_page)) {
				*other_pagep = other_page;
				return other;
			}
			compared++;
		}
		if (get_kpfn_nid(page_to_pfn(other_page)) != nid ||
		    index_checksum(other_page) != other->oldchecksum)
			remove_rmap_item_from_tree(other);
		put_page(other_page);
	}

	DO_NUMA(rmap_item->nid = nid);
	rmap_item->address |= INDEXED_FLAG;
	rb_add(&rmap_item->node, &selective_index, index_less);
	ksm_pages_unshared++;
	return NULL;
}

/* Forget what has not merged, whoever has found it. Leaves the cursor at the head. */
static void drop_unmerged(void)
{
	struct ksm_rmap_item *rmap_item;
	struct ksm_mm_slot *mm_slot;
	struct mm_slot *slot;

	spin_lock(&ksm_mmlist_lock);
	ksm_scan.mm_slot = &ksm_mm_head;
	for (;;) {
		slot = list_next_entry(&ksm_scan.mm_slot->slot, mm_node);
		mm_slot = mm_slot_entry(slot, struct ksm_mm_slot, slot);
		/* A slot under the cursor is freed by nobody else. */
		ksm_scan.mm_slot = mm_slot;
		spin_unlock(&ksm_mmlist_lock);
		if (mm_slot == &ksm_mm_head)
			return;
		for (rmap_item = mm_slot->rmap_list; rmap_item;
		     rmap_item = rmap_item->rmap_list)
			if (rmap_item->address & (UNSTABLE_FLAG | INDEXED_FLAG))
				remove_rmap_item_from_tree(rmap_item);
		spin_lock(&ksm_mmlist_lock);
	}
}

/* --- what has merged ------------------------------------------------------ */

/*
 * The item has merged. If that was with the content of the stable tree its page
 * was not in the index; but it has twins only as long as others map it.
 */
static void want_twins(struct ksm_rmap_item *rmap_item)
{
	if (!summed) {
		if (rmap_item == twin || PageKsm(scan_page) ||
		    !page_mapped(scan_page))
			return;
		rmap_item->oldchecksum = index_checksum(scan_page);
	}
	twin_wanted = true;
	twins_back = 0;
	twins_later = false;
	twin_key = index_key(rmap_item->oldchecksum, NUMA(rmap_item->head->nid));
}

static void selective_do_merged(struct ksm_rmap_item *rmap_item)
{
	struct ksm_selective *s;
	char app[KSM_APP_LEN];

	/* Pages of zeros that wait for nobody are not in the index. */
	if (rmap_item->address & STABLE_FLAG)
		want_twins(rmap_item);
	s = ksm_selective_lock(rmap_item->mm);
	if (!s)
		return;
	memcpy(app, s->app, sizeof(app));
	ksm_selective_unlock();
	ksm_profile_merged(app, rmap_item->address & PAGE_MASK);
}

/*
 * Find an item with the content that has merged last. Each that is found leaves
 * the index. Some come back, as their pages have changed or another has their
 * checksum: of those that is enough after a few.
 */
static struct ksm_rmap_item *next_twin(struct page **page)
{
	struct ksm_rmap_item *last = twin;
	struct rb_node *node;

	twin = NULL;
	if (last && (last->address & INDEXED_FLAG))
		twins_back++;
	else if (last && !(last->address & STABLE_FLAG))
		/* Locked or pinned, and it may be the page of all of them. */
		twins_later = true;
	if (!twin_wanted || twins_later)
		return NULL;

	while (twins_back < MAX_COMPARED &&
	       (node = rb_find_first(&twin_key, &selective_index, index_cmp))) {
		twin = rb_entry(node, struct ksm_rmap_item, node);
		/* If there is no page, the item has left the index. */
		*page = indexed_page(twin);
		if (*page)
			return twin;
	}
	twin = NULL;
	twin_wanted = false;
	return NULL;
}

/* Unless pages of zeros, which are known by stock's checksum, are to come first. */
static bool selective_do_sums_later(void)
{
	return !READ_ONCE(ksm_use_zero_pages);
}

/* --- the scan of a process ------------------------------------------------ */

/*
 * Leave the process at the cursor, if there is one, for the next that waits or
 * whose slot is to be freed. Returns false at the end of the round.
 */
static bool next_slot(void)
{
	struct ksm_mm_slot *mm_slot;
	struct mm_slot *slot;
	bool found = false;

	if (ksm_scan.mm_slot == &ksm_mm_head)
		ksm_selective_begin_round();

	spin_lock(&ksm_mmlist_lock);
	slot = &ksm_scan.mm_slot->slot;
	while (!found) {
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
	memcpy(scan_app, mm_slot->selective.app, sizeof(scan_app));
	spin_unlock(&ksm_mmlist_lock);

	if (!found) {
		/* If it has learned, then from all who are dormant. */
		WRITE_ONCE(ksm_learning, false);
		return false;
	}
	if (ksm_test_exit(mm_slot->slot.mm))
		return true;
	twins_later = false;
	ksm_profile_begin(scan_app);
	/*
	 * A page on its way to the LRU has a reference too many to be merged, and
	 * there is no other scan in which it would be.
	 */
	lru_add_drain_all();
	return true;
}

/*
 * Pass over what is not scanned between @from and @to. Pages there that were
 * merged are still mapped: their items stay, or the reverse map would lose them.
 */
static void pass_over(unsigned long from, unsigned long to)
{
	struct ksm_rmap_item *rmap_item;

	while ((rmap_item = *ksm_scan.rmap_list) &&
	       (rmap_item->address & PAGE_MASK) < to) {
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

/* The next page of a region, or NULL if there is none or the process has woken. */
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

/* The same of a process, whose mmap lock the caller holds. */
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

/* Is there a page at the address that merging has put there? */
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
 * A scan was left. What waits behind the cursor is found again by the next one,
 * but who is always left before that would gather items of pages that are gone.
 */
static void drop_gone(struct mm_struct *mm)
{
	struct ksm_rmap_item *rmap_item;

	if (ksm_test_exit(mm) ||
	    mm->ksm_rmap_items <= get_mm_counter(mm, MM_ANONPAGES))
		return;
	while ((rmap_item = *ksm_scan.rmap_list)) {
		if ((rmap_item->address & STABLE_FLAG) &&
		    still_merged(mm, rmap_item->address & PAGE_MASK)) {
			ksm_scan.rmap_list = &rmap_item->rmap_list;
			continue;
		}
		*ksm_scan.rmap_list = rmap_item->rmap_list;
		remove_rmap_item_from_tree(rmap_item);
		free_rmap_item(rmap_item);
		cond_resched();
	}
}

/* There is no more of the process at the cursor, or it has woken or exited. */
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
	/* What is behind the last page that was found is not there any more. */
	remove_trailing_rmap_items(ksm_scan.rmap_list);
	ksm_profile_end(scan_app);
	mm_slot->selective.scans++;
	ksm_dormant_scans++;
}

/* As scan_get_next_rmap_item() does: the process is gone but for its slot. */
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

/* What scan_get_next_rmap_item() is to full scans. */
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
		/* A slot at the cursor is freed by nobody else, nor is its mm. */
		mmap_read_unlock(mm);
		if (exited)
			mmdrop(mm);
		cond_resched();
		more = next_slot();
		/*
		 * One process at most before ksmd sleeps, also if it had no page:
		 * next_slot() makes all CPUs work. The cursor stays.
		 */
	} while (more && exited && !freezing(current));
	return NULL;
}

static struct ksm_rmap_item *selective_next_rmap_item(struct page **page)
{
	struct ksm_rmap_item *rmap_item = next_rmap_item(page);

	summed = false;
	if (rmap_item)
		scan_page = *page;
	return rmap_item;
}

/* --- switches ------------------------------------------------------------- */

static void selective_ksmd_starts(void)
{
	ksmd = current;
}

int ksm_selective_nice(void)
{
	return ksmd ? task_nice(ksmd) : KSM_NICE;
}

int ksm_selective_set_nice(int nice)
{
	if (!ksmd || nice < MIN_NICE || nice > MAX_NICE)
		return -EINVAL;
	mutex_lock(&ksm_thread_mutex);
	ksmd_nice_chosen = true;
	set_user_nice(ksmd, nice);
	mutex_unlock(&ksm_thread_mutex);
	return 0;
}

static void switch_locked(bool on)
{
	wait_while_offlining();
	/* Neither may find what the other has left. */
	drop_unmerged();
	WRITE_ONCE(ksm_selective_on, on);
	WRITE_ONCE(ksm_learning, false);
	selective_forget_all();
	if (ksmd && !ksmd_nice_chosen)
		set_user_nice(ksmd, on ? KSM_SELECTIVE_NICE : KSM_NICE);
	if (on)
		ksm_selective_look_again();
}

/*
 * The key is not switched under ksm_thread_mutex: memory hotplug takes that one
 * inside of what the key takes.
 */
void ksm_selective_switch(bool on)
{
	static DEFINE_MUTEX(switch_mutex);

	mutex_lock(&switch_mutex);
	if (on == ksm_selective_on)
		goto out;
	if (on)
		static_branch_enable(&ksm_selective_key);
	mutex_lock(&ksm_thread_mutex);
	switch_locked(on);
	mutex_unlock(&ksm_thread_mutex);
	if (!on)
		static_branch_disable(&ksm_selective_key);
	/* Those who were dormant, those who have exited: see what there is. */
	ksm_selective_poke();
out:
	mutex_unlock(&switch_mutex);
}

int ksm_selective_learn(void)
{
	int err = -EBUSY;

	mutex_lock(&ksm_thread_mutex);
	wait_while_offlining();
	if (ksm_selective()) {
		selective_forget_all();
		WRITE_ONCE(ksm_learning,
			   !list_empty(&ksm_mm_head.slot.mm_node));
		err = 0;
	}
	mutex_unlock(&ksm_thread_mutex);
	ksm_selective_poke();
	return err;
}

#include "tests/ksmd-kunit.h"

#endif
#endif
