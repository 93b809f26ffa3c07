/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: the part of merging that needs KSM's own trees. Included
 * by mm/ksm.c alone.
 */
#ifndef _MM_COHORT_KSM_H
#define _MM_COHORT_KSM_H

/**
 * cohort_merge_anon_vma() - where the reverse map finds a page merged here
 * @vma: the region through which it is about to be merged; mmap_lock is held
 * @addr: the address
 *
 * All users of a shared table have the entry, and take it along when they leave:
 * the root has the regions of all, whichever was forked from which. To be asked
 * before the merge, since the table may be unshared after it. Of a page in a
 * table of its own each process has an item, as ever.
 */
static struct anon_vma *cohort_merge_anon_vma(struct vm_area_struct *vma,
					      unsigned long addr)
{
	if (cohort_table_shared(vma->vm_mm, addr & PAGE_MASK))
		return vma->anon_vma->root;
	return vma->anon_vma;
}

static struct ksm_stable_node *stable_tree_insert(struct folio *kfolio);
static void stable_tree_append(struct ksm_rmap_item *rmap_item,
			       struct ksm_stable_node *stable_node,
			       bool max_page_sharing_bypass);

/*
 * Of two pages that were to be merged one is KSM's already, and the other cannot
 * be merged for the moment. If the first lies in a shared table, to undo it would
 * unshare that for one user, and leave the others a page that the reverse map does
 * not find. So it stays merged, with nobody yet. Returns false if it does not.
 */
static noinline bool cohort_keep_merged(struct ksm_rmap_item *rmap_item,
					struct page *page)
{
	struct ksm_stable_node *stable_node;
	struct vm_area_struct *vma;
	bool shared;

	if (!cohort_active())
		return false;
	mmap_read_lock(rmap_item->mm);
	vma = find_mergeable_vma(rmap_item->mm, rmap_item->address);
	shared = vma && cohort_table_shared(rmap_item->mm, rmap_item->address);
	mmap_read_unlock(rmap_item->mm);
	if (!shared)
		return false;

	lock_page(page);
	stable_node = stable_tree_insert(page_folio(page));
	if (stable_node)
		stable_tree_append(rmap_item, stable_node, false);
	unlock_page(page);
	return stable_node;
}

#endif
