// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: what is to merge with a page that has merged. Included by ksmd.c.
 */

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
