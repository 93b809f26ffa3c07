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
 * VM_SPECIAL        drivers write such tables as they like
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
	vm_flags_t flags = vma->vm_flags;

	/*
	 * The exception among special regions: they lie next to libraries, and
	 * their pages differ between time namespaces alone, see
	 * __cohort_leave_timens().
	 */
	if ((flags & VM_SPECIAL) && arch_vma_is_vdso(vma))
		flags &= ~VM_SPECIAL;
	return cohort_vma_shareable(flags) && !vma_is_dax(vma);
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

/*
 * Returns 1 if the child uses the table now, 0 if its entries are to be copied
 * as without us, or -ENOMEM.
 */
static int share_table(struct cohort_fork *cf, pmd_t *dst_pmd, pmd_t *src_pmd,
		       unsigned long base, bool cow)
{
	struct mm_struct *dst_mm = cf->mm, *src_mm = cf->oldmm;
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

/* The child's entry that maps @addr. */
static pmd_t *alloc_pmd(struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud;

	p4d = p4d_alloc(mm, pgd, addr);
	if (!p4d)
		return NULL;
	pud = pud_alloc(mm, p4d, addr);
	if (!pud)
		return NULL;
	return pmd_alloc(mm, pud, addr);
}

/*
 * Copy, as fork does, what regions that may share map in a range. Others have
 * been copied as a whole.
 */
static int copy_range(struct cohort_fork *cf, unsigned long start,
		      unsigned long end)
{
	VMA_ITERATOR(vmi, cf->mm, start);
	struct vm_area_struct *dst, *src;
	int err;

	for_each_vma_range(vmi, dst, end) {
		src = vma_lookup(cf->oldmm, dst->vm_start);
		if (!vma_shareable(src))
			continue;
		err = copy_page_subrange(dst, src, max(start, src->vm_start),
					 min(end, src->vm_end));
		if (err)
			return err;
	}
	return 0;
}

/* Share the tables of a range, whole tables all of whose regions may share. */
static int share_range(struct cohort_fork *cf, unsigned long start,
		       unsigned long end, bool cow)
{
	unsigned long addr, next, copied = start;
	pmd_t *src_pmd = NULL, *dst_pmd = NULL;
	int ret;

	for (addr = start; addr < end; addr = next) {
		if (src_pmd && (addr & ~PUD_MASK)) {
			/* The neighbour, in the same table of entries. */
			src_pmd++;
			if (dst_pmd)
				dst_pmd++;
			next = addr + PMD_SIZE;
		} else {
			src_pmd = cohort_find_pmd(cf->oldmm, addr, end, &next);
			dst_pmd = NULL;
		}
		if (!src_pmd || pmd_none(pmdp_get_lockless(src_pmd)))
			continue;
		if (!dst_pmd)
			dst_pmd = alloc_pmd(cf->mm, addr);
		if (!dst_pmd)
			return -ENOMEM;
		/* GUP-fast must not pin a page meanwhile (invariant 9). */
		raw_write_seqcount_begin(&cf->oldmm->write_protect_seq);
		ret = share_table(cf, dst_pmd, src_pmd, addr, cow);
		raw_write_seqcount_end(&cf->oldmm->write_protect_seq);
		if (ret < 0)
			return ret;
		if (!ret)
			continue;
		if (copied < addr) {
			ret = copy_range(cf, copied, addr);
			if (ret)
				return ret;
		}
		copied = next;
	}
	/* Huge pages, and tables with a page that may be pinned. */
	return copied < end ? copy_range(cf, copied, end) : 0;
}

/*
 * Tables below @limit are complete: all their regions are in the child. Several
 * regions may lie in the first of them; the others serve the last region alone.
 */
static noinline int finish_tables(struct cohort_fork *cf, unsigned long limit)
{
	unsigned long edge = cf->base + PMD_SIZE;
	unsigned long end = min(limit, ALIGN(cf->prev->vm_end, PMD_SIZE));
	bool cow = is_cow_mapping(cf->prev->vm_flags);
	int err;

	if (cf->refused)
		err = copy_range(cf, cf->base, edge);
	else
		err = share_range(cf, cf->base, edge, cf->cow);
	if (!err && edge < end && cf->shareable)
		err = share_range(cf, edge, end, cow);

	/* The last region may reach into the table at @limit. */
	cf->base = limit;
	cf->cow = cow && cf->prev->vm_end > limit;
	cf->refused = !cf->shareable && cf->prev->vm_end > limit;
	return err;
}

/**
 * __cohort_fork_begin() - decide whether a fork shares tables
 * @cf: filled in; all else here is only for forks that share
 * @mm: the child
 * @oldmm: the parent; both are locked for writing
 */
void __cohort_fork_begin(struct cohort_fork *cf, struct mm_struct *mm,
			 struct mm_struct *oldmm)
{
	if (!fork_shares(oldmm))
		return;
	memset(cf, 0, sizeof(*cf));
	cf->sharing = true;
	cf->mm = mm;
	cf->oldmm = oldmm;
	if (!oldmm->cohort.id)
		oldmm->cohort.id = cohort_new_id();
	mm->cohort.id = oldmm->cohort.id;
}

/**
 * __cohort_fork_next() - share the tables that a fork has no more regions for
 * @cf: the fork
 * @vma: the parent's region that is duplicated next, write-locked, or NULL; all
 *       before it have been
 *
 * A table may serve several regions. It is shared once all of them are locked,
 * so that no fault fills it meanwhile, and are known to the child; the holes
 * between them stay holes under the parent's mmap_lock (invariant 1).
 *
 * Return: 0 or -ENOMEM.
 */
int __cohort_fork_next(struct cohort_fork *cf, struct vm_area_struct *vma)
{
	unsigned long limit = (vma ? vma->vm_start : ULONG_MAX) & PMD_MASK;
	int err;

	if (!cf->prev) {
		cf->base = limit;
	} else if (cf->base < limit) {
		err = finish_tables(cf, limit);
		if (err)
			return err;
	}
	if (!vma)
		return 0;
	cf->prev = vma;
	cf->shareable = vma_shareable(vma);
	cf->refused |= !cf->shareable;
	cf->cow |= is_cow_mapping(vma->vm_flags);
	return 0;
}

/**
 * __cohort_leave_timens() - before a process changes its time namespace
 * @mm: whose
 *
 * What [vvar] maps depends on the namespace: see vdso_join_timens(), which
 * cannot fail.
 *
 * Return: 0 or -ENOMEM.
 */
int __cohort_leave_timens(struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	int err = 0;

	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		if (!arch_vma_is_vdso(vma))
			continue;
		err = cohort_unshare_range(mm, vma->vm_start, vma->vm_end,
					   COHORT_CHANGE);
		if (err)
			break;
	}
	mmap_read_unlock(mm);
	return err;
}
