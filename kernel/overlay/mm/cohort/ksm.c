// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: the part of merging that needs KSM's own trees. Included
 * by mm/ksm.c alone.
 */

#ifdef CONFIG_COHORT

/**
 * cohort_merge_anon_vma() - the anon_vma by which a merged page is found
 * @vma: the region through which it is merged; mmap_lock is held
 *
 * All users of a shared table have the entry, and copy it when they unshare. A
 * walk must find all of them or none: if it finds T through one user and puts a
 * migration entry there, another user may copy that entry to a table which the walk
 * that ends the migration does not reach. The root has the regions of all users,
 * whichever was forked from which. It is used for a member that has left T too,
 * because T may still have the page. A process that is no member has never used
 * another's table; the users of its own tables are its descendants.
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
 * Keep a page in the stable tree when the page to merge with it cannot be merged.
 * Stock would unmerge it for one process, which leaves to the other users of its
 * table a page that the reverse map does not find. Returns false if the page does
 * not stay merged.
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

#else /* !CONFIG_COHORT */

#define cohort_merge_anon_vma(vma)	((vma)->anon_vma)
#define cohort_keep_merged(...)		false

#endif /* CONFIG_COHORT */
