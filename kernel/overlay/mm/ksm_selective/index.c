// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: pages that were scanned and have not merged. Included by
 * ksmd.c.
 */

/*
 * A checksum in less than half the instructions of stock's, which has to show that
 * a page has changed; this one may collide, as pages with equal ones are compared.
 * All words count, because pages shared since a fork often differ in one word; and
 * their positions count, because pages often repeat one word.
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
 * Compare a cache line at a time; most different pages differ in the first. The
 * order is memcmp's, because the stable tree is kept when the policy changes.
 */
static int selective_do_memcmp_pages(struct page *a, struct page *b)
{
	const unsigned int line = 8;
	const u64 *x, *y;
	unsigned int i;
	int order;

	/* memcmp_pages() compares tags too. */
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

/* The page of an indexed item; NULL, with the item removed, if it is stale. */
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
 * As unstable_tree_search_insert() for full scans: find an item whose page has the
 * same content, or else put this one into the index.
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
		/* The same page, mapped since a fork: both wait for another. */
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

/* False if pages of zeros merge first: they are found by stock's checksum. */
static bool selective_do_sums_later(void)
{
	return !READ_ONCE(ksm_use_zero_pages);
}

/* Remove all unmerged items from tree and index. Leaves the cursor at the head. */
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
		/* Only ksmd frees a slot under the cursor. */
		ksm_scan.mm_slot = mm_slot;
		spin_unlock(&ksm_mmlist_lock);
		if (mm_slot == &ksm_mm_head)
			return;
		for (rmap_item = mm_slot->rmap_list; rmap_item;
		     rmap_item = rmap_item->rmap_list) {
			cond_resched();
			if (rmap_item->address & (UNSTABLE_FLAG | INDEXED_FLAG))
				remove_rmap_item_from_tree(rmap_item);
		}
		spin_lock(&ksm_mmlist_lock);
	}
}
