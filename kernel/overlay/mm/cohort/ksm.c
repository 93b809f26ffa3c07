// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: the part of merging that needs KSM's own trees. Included
 * by mm/ksm.c alone.
 */

/**
 * cohort_merge_anon_vma() - where the reverse map finds a page merged here
 * @vma: the region through which it is merged; mmap_lock is held
 *
 * All users of a shared table have the entry, and take it along when they leave.
 * A walk has to find all of them or none: if it finds T through one of them and
 * puts a migration entry there, another may take that along, where the walk that
 * ends the migration does not come by. The root has the regions of all, whichever
 * was forked from which. It is taken for a process that has left T too, since T
 * may have the page still. Who is not a member has never used a shared table: any
 * that he comes to use has been his own, and its users are his descendants.
 */
static struct anon_vma *cohort_merge_anon_vma(struct vm_area_struct *vma)
{
	if (cohort_active() && cohort_member(vma->vm_mm))
		return vma->anon_vma->root;
	return vma->anon_vma;
}

static struct ksm_stable_node *stable_tree_insert(struct folio *kfolio);
static void stable_tree_append(struct ksm_rmap_item *rmap_item,
			       struct ksm_stable_node *stable_node,
			       bool max_page_sharing_bypass);

/*
 * Of two pages that were to be merged one is KSM's already, and the other cannot
 * be merged for the moment. To undo it would break the first for one process, and
 * leave to the others of its tables a page that the reverse map does not find. So
 * it stays merged, with nobody yet. Returns false if it does not.
 */
static noinline bool cohort_keep_merged(struct ksm_rmap_item *rmap_item,
					struct page *page)
{
	struct ksm_stable_node *stable_node;

	if (!cohort_active() || !cohort_member(rmap_item->mm))
		return false;

	lock_page(page);
	stable_node = stable_tree_insert(page_folio(page));
	if (stable_node)
		stable_tree_append(rmap_item, stable_node, false);
	unlock_page(page);
	return stable_node;
}
