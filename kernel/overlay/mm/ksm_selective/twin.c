// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: the other items of a page that has merged. Included by ksmd.c.
 */

/*
 * The item has merged: look for its twins. If it merged with the stable tree it has
 * no checksum yet, and has twins only if other processes still map its page.
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
	struct ksm_app app;

	/* A page that merged with the zero page has no twins in the index. */
	if (rmap_item->address & STABLE_FLAG)
		want_twins(rmap_item);
	s = ksm_selective_lock(rmap_item->mm);
	if (!s)
		return;
	app = s->app;
	ksm_selective_unlock();
	ksm_profile_merged(&app, rmap_item->address & PAGE_MASK);
}

/*
 * The next item in the index with the checksum of the page that merged last. Each
 * leaves the index, and comes back if its page has changed or only the checksum is
 * equal. Stop after MAX_COMPARED that came back.
 */
static struct ksm_rmap_item *next_twin(struct page **page)
{
	struct ksm_rmap_item *last = twin;
	struct rb_node *node;

	twin = NULL;
	if (last && (last->address & INDEXED_FLAG))
		twins_back++;
	else if (last && !(last->address & STABLE_FLAG))
		/* Locked or pinned; the other twins may have the same page. */
		twins_later = true;
	if (!twin_wanted || twins_later)
		return NULL;

	while (twins_back < MAX_COMPARED &&
	       (node = rb_find_first(&twin_key, &selective_index, index_cmp))) {
		twin = rb_entry(node, struct ksm_rmap_item, node);
		/* Without a page the item has left the index. */
		*page = indexed_page(twin);
		if (*page)
			return twin;
	}
	twin = NULL;
	twin_wanted = false;
	return NULL;
}
