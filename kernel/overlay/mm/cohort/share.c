// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: sharing at fork (EuroSys'16, sections 3.1.1 and 3.1.3).
 *
 * A table is shared if every region in its range may be, whatever their kind
 * and number: code and data of files, private writable memory, shared memory.
 * It costs the same whether the table holds one entry or 512. What may not be
 * shared is copied, or left to faults, as without us.
 */
#include <linux/hugetlb.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/prctl.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>

#include <trace/events/cohort.h>

#include "internal.h"

/*
 * Regions whose tables are never shared, and why:
 *
 * VM_SPECIAL        drivers write such tables as they like (also vdso, vvar)
 * VM_HUGETLB        has its own sharing
 * VM_LOCKED_MASK    mlock counts each page for its region; not inherited
 * VM_UFFD_*         what an entry means depends on this process's monitor
 * VM_DONTCOPY       the child has no such region
 * VM_WIPEONFORK     the child has the region, but empty
 * VM_DROPPABLE      ditto, and pages may vanish at any time
 * VM_GROWSDOWN      the stack: written at once after fork (section 4.2.1)
 * VM_SHADOW_STACK   every access is a write fault
 * VM_MERGEABLE      KSM works through one process's entries
 */
#define COHORT_NEVER_SHARED						\
	(VM_SPECIAL | VM_HUGETLB | VM_LOCKED_MASK | __VM_UFFD_FLAGS |	\
	 VM_DONTCOPY | VM_WIPEONFORK | VM_DROPPABLE | VM_GROWSDOWN |	\
	 VM_GROWSUP | VM_SHADOW_STACK | VM_MERGEABLE)

bool cohort_vma_shareable(vm_flags_t flags)
{
	return !(flags & COHORT_NEVER_SHARED);
}

static bool vma_shareable(struct vm_area_struct *vma)
{
	return cohort_vma_shareable(vma->vm_flags) && !vma_is_dax(vma);
}

/* Is the fork that makes this process to share tables? */
static bool fork_shares(struct mm_struct *oldmm)
{
	switch (READ_ONCE(cohort_mode)) {
	case COHORT_ALWAYS:
		break;
	case COHORT_OPTIN:
		if (oldmm->cohort.flags & PR_COHORT_ZYGOTE)
			break;
		fallthrough;
	default:
		return false;
	}
	/* A notifier must hear of every change, through whichever process. */
	return !mm_has_notifiers(oldmm);
}

/**
 * __cohort_fork() - decide whether a fork shares tables, and stop faults
 * @mm: the child
 * @oldmm: the parent; both are locked for writing
 *
 * Faults under a region's own lock must not fill a table while it is being
 * shared. dup_mmap() locks the regions one by one, but a table may serve
 * several: lock all before the first table is shared.
 */
void __cohort_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	VMA_ITERATOR(vmi, oldmm, 0);
	struct vm_area_struct *vma;

	if (!fork_shares(oldmm))
		return;
	for_each_vma(vmi, vma)
		vma_start_write(vma);
	if (!oldmm->cohort.id)
		oldmm->cohort.id = cohort_new_id();
	mm->cohort.id = oldmm->cohort.id;
	mm->cohort.forking = true;
}

/**
 * cohort_fork_walks() - must a region be walked at fork only for our sake?
 * @dst_vma: the child's region
 * @src_vma: the parent's region, which fork would leave to faults
 *
 * Return: true if its tables may be shared.
 */
bool cohort_fork_walks(struct vm_area_struct *dst_vma,
		       struct vm_area_struct *src_vma)
{
	return cohort_forking(dst_vma->vm_mm) && vma_shareable(src_vma);
}

/*
 * May the table at @base be shared, as far as regions decide it (invariant 1)?
 * All of them are write-locked.
 */
static bool range_shareable(struct vm_area_struct *vma, unsigned long base,
			    bool *cow)
{
	struct vma_iterator vmi;

	*cow = is_cow_mapping(vma->vm_flags);
	if (vma->vm_start <= base && vma->vm_end >= base + PMD_SIZE)
		return vma_shareable(vma);

	vma_iter_init(&vmi, vma->vm_mm, base);
	for_each_vma_range(vmi, vma, base + PMD_SIZE) {
		if (!vma_shareable(vma))
			return false;
		*cow |= is_cow_mapping(vma->vm_flags);
	}
	return true;
}

/*
 * A page that a device may write to is copied at fork, so that the device and
 * the parent keep seeing the same page (invariant 9). T's lock is held.
 */
static bool __maybe_pinned(struct ptdesc *pt)
{
	pte_t *ptep = ptdesc_address(pt);
	int i;

	for (i = 0; i < PTRS_PER_PTE; i++) {
		pte_t pte = ptep_get(ptep + i);
		struct folio *folio;

		if (!pte_present(pte) || pte_special(pte))
			continue;
		folio = page_folio(pte_page(pte));
		if (folio_test_anon(folio) && folio_maybe_dma_pinned(folio))
			return true;
	}
	return false;
}

static int share_table(struct mm_struct *dst_mm, struct mm_struct *src_mm,
		       pmd_t *dst_pmd, pmd_t *src_pmd, unsigned long base,
		       bool cow)
{
	struct cohort_sharer *child, *parent = NULL;
	struct cohort_table *ct = NULL;
	bool first = !pmd_cohort(*src_pmd);
	spinlock_t *pml, *ptl;
	struct ptdesc *pt;
	pmd_t entry;
	int ret = 0;

	child = cohort_sharer_alloc();
	if (!child)
		return -ENOMEM;
	if (first) {
		parent = cohort_sharer_alloc();
		ct = cohort_table_alloc();
		if (!parent || !ct) {
			ret = -ENOMEM;
			goto out_free;
		}
	}

	pml = pmd_lock(src_mm, src_pmd);
	entry = *src_pmd;
	/* File collapse needs no lock of ours, and may have taken the table. */
	if (pmd_none(entry) || pmd_leaf(entry) || pmd_bad(entry)) {
		spin_unlock(pml);
		goto out_free;
	}
	pt = cohort_ptdesc(entry);
	ptl = ptlock_ptr(pt);
	spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);

	if (first) {
		/*
		 * Order the increment of write_protect_seq before the test:
		 * pairs with GUP-fast, which sets the flag, then reads the
		 * sequence count.
		 */
		smp_mb();
		if (test_bit(MMF_HAS_PINNED, &src_mm->flags) &&
		    __maybe_pinned(pt)) {
			spin_unlock(ptl);
			spin_unlock(pml);
			goto out_free;
		}
		ct->pt = pt;
		ct->addr = base;
		ct->users = 0;
		ct->counted = false;
		ct->owner = src_mm;
		INIT_LIST_HEAD(&ct->sharers);
		cohort_mark_table(pt, ct);
		/*
		 * From here no store goes through this entry; what TLBs still
		 * allow ends with the flush at the end of dup_mmap(), before
		 * the child can run.
		 */
		arch_pmd_set_cohort(src_pmd, cow);
		__cohort_join(ct, parent, src_mm, src_pmd);
		parent = NULL;
	} else {
		ct = pt->pt_cohort;
		VM_WARN_ON_ONCE(cow && arch_pmd_cohort_write(entry));
	}
	__cohort_join(ct, child, dst_mm, dst_pmd);
	child = NULL;
	entry = *src_pmd;

	/* Invariant 7: swapoff finds every user of a table with swap entries. */
	if (!list_empty(&src_mm->mmlist) && list_empty(&dst_mm->mmlist)) {
		spin_lock(&mmlist_lock);
		if (list_empty(&dst_mm->mmlist))
			list_add(&dst_mm->mmlist, &init_mm.mmlist);
		spin_unlock(&mmlist_lock);
	}
	trace_cohort_share(src_mm, dst_mm, base, ct->users);
	ct = NULL;
	spin_unlock(ptl);
	spin_unlock(pml);

	/* The child does not run yet; only the reverse map can look. */
	pml = pmd_lock(dst_mm, dst_pmd);
	set_pmd(dst_pmd, entry);
	spin_unlock(pml);
	count_vm_event(COHORT_PTP_SHARED);
	ret = 1;

out_free:
	cohort_sharer_free(child);
	cohort_sharer_free(parent);
	if (first)
		cohort_table_free(ct);
	return ret;
}

/**
 * cohort_fork_table() - share a table with the child if it may be
 * @dst_vma: the child's region
 * @src_vma: the parent's region, one of those that the table serves
 * @dst_pmd: the child's entry
 * @src_pmd: the parent's entry, which points to a table
 * @addr: an address in the range of both
 *
 * Both address spaces are locked for writing, and all the parent's regions.
 *
 * Return: 1 if the child uses the parent's table now, 0 if the region's entries
 * are to be copied as without us, or -ENOMEM.
 */
int cohort_fork_table(struct vm_area_struct *dst_vma,
		      struct vm_area_struct *src_vma, pmd_t *dst_pmd,
		      pmd_t *src_pmd, unsigned long addr)
{
	unsigned long base = addr & PMD_MASK;
	bool cow;

	/* Another region in the same range came first, and decided for all. */
	if (pmd_cohort(*dst_pmd))
		return 1;
	if (!pmd_none(*dst_pmd))
		return 0;
	if (!range_shareable(src_vma, base, &cow))
		return 0;
	return share_table(dst_vma->vm_mm, src_vma->vm_mm, dst_pmd, src_pmd,
			   base, cow);
}
