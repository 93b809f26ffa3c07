// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: whole PMD tables, each for a gigabyte of addresses.
 *
 * M is such a table, T a last-level one in it. M may be shared if all regions in
 * its range are shared mappings of files or of shared memory. M then maps no
 * private page, so no fault ever needs a table of its own, and faults bring back
 * from the page cache what a user loses by leaving. Therefore:
 *
 * - Leaving M never copies or allocates: the process's entry is cleared, and its
 *   TLB flushed. A process leaves before any region in M's range changes, holes
 *   included (invariant 1).
 * - All users fill M together. A new T in it, made by a fault of any user, is at
 *   once a table of all of them; each page is faulted in once.
 * - An entry in M for a T has the mark of a shared table, and T's record is that
 *   of M: its users are M's. What M maps is charged to an account of its own,
 *   which belongs to no process, so nothing is counted at fork and handed over
 *   at exit.
 * - Huge pages are not mapped in M: with them there would be no T to save. M is
 *   not shared if a region in its range may have them.
 *
 * Walkers without a lock rely on entries of the level above not being cleared. So
 * a process leaves M only with its mmap_lock held for writing and all regions in
 * M's range locked, or when no thread runs on it any more. The last user waits for
 * walkers that only keep interrupts off. A walker of the reverse map may still be in M when
 * the process through which it came leaves; what it does there reaches all users.
 * So the last user waits for such walkers before it clears the marks. M itself
 * stays until the last user's regions are off the reverse map, as any table does.
 *
 * The list of M's users changes under M's own lock, which nests in the lock of
 * each T.
 */
#include <linux/compat.h>
#include <linux/mm.h>
#include <linux/memcontrol.h>
#include <linux/mman.h>
#include <linux/pgalloc.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>

#include <asm/cohort_tlb.h>
#include <asm/tlb.h>

#include <trace/events/cohort.h>

#include "group.h"

/*
 * Share M only if its range holds at least this much memory: for less, sharing the
 * few last-level tables is cheaper.
 */
#define COHORT_UPPER_MIN	(32 * PMD_SIZE)

/*
 * The most PMD tables that a process shares. They are shared even if empty, so
 * each terabyte of untouched memory would cost megabytes of tables.
 */
#define COHORT_UPPER_MAX	1024

/* Random bits that the address of shared memory keeps: as many as Android has left. */
#define COHORT_RANDOM_MIN	6

static bool may_be_huge(struct vm_area_struct *vma)
{
	return IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) &&
	       thp_vma_allowable_order(vma, vma->vm_flags, TVA_ENFORCE_SYSFS,
				       PMD_ORDER);
}

/*
 * M is joined empty and filled by all, so no process can look at its entries for code that
 * a processor's instruction cache may have as it was (arch_cohort_sync_exec()).
 */
static bool may_run_stale(struct vm_area_struct *vma)
{
	return ARCH_COHORT_SYNC_EXEC && vma->vm_flags & VM_EXEC;
}

static bool covers(struct vm_area_struct *vma, unsigned long base)
{
	return vma->vm_start <= base && vma->vm_end >= base + PUD_SIZE;
}

/*
 * True if all regions in the range of a PMD table may be shared through it. They are
 * locked then, which waits for faults under a region's lock.
 */
static noinline bool range_shareable(struct cohort_fork *cf, unsigned long base)
{
	VMA_ITERATOR(vmi, cf->oldmm, base);
	unsigned long end = base + PUD_SIZE, mapped = 0;
	struct vm_area_struct *vma, *whole = NULL;

	for_each_vma_range(vmi, vma, end) {
		vma_start_write(vma);
		/* [vvar] too: changing the time namespace changes its entries. */
		if (is_cow_mapping(vma->vm_flags) || vma->anon_vma ||
		    !cohort_vma_shareable(vma->vm_flags) || vma_is_dax(vma) ||
		    may_be_huge(vma) || may_run_stale(vma))
			return false;
		mapped += min(vma->vm_end, end) - max(vma->vm_start, base);
		if (covers(vma, base))
			whole = vma;
	}
	cf->whole = whole;
	return mapped >= COHORT_UPPER_MIN;
}

/* Lock all regions of a gigabyte: waits for faults under a region's lock. */
static void lock_regions(struct mm_struct *mm, unsigned long base)
{
	VMA_ITERATOR(vmi, mm, base);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, base + PUD_SIZE)
		vma_start_write(vma);
}

static pud_t *find_pud(struct mm_struct *mm, unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;

	if (pgd_none(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	return p4d_none(*p4d) ? NULL : pud_offset(p4d, addr);
}

static pud_t *alloc_pud(struct mm_struct *mm, unsigned long addr)
{
	p4d_t *p4d = p4d_alloc(mm, pgd_offset(mm, addr), addr);

	return p4d ? pud_alloc(mm, p4d, addr) : NULL;
}

/*
 * The record of the table under an entry, NULL if it is not shared. The caller
 * keeps the process from leaving.
 */
static struct cohort_table *upper_of(pud_t pud)
{
	struct page *page;

	if (!pud_present(pud) || pud_leaf(pud))
		return NULL;
	page = pud_page(pud);
	if (!test_bit(PG_COHORT, &page->flags))
		return NULL;
	return READ_ONCE(page_ptdesc(page)->pt_cohort);
}

/* An account for what a PMD table maps: an address space that no thread uses. */
static struct mm_struct *account_alloc(void)
{
	struct mm_struct *mm = mm_alloc();

#ifdef CONFIG_MEMCG
	if (mm)
		WRITE_ONCE(mm->owner, NULL);
#endif
	return mm;
}

/* Move what is charged for tables and pages from one account to another. */
static void move_counts(struct mm_struct *from, struct mm_struct *to,
			const unsigned long *counts)
{
	int i;

	for (i = 0; i < NR_MM_COUNTERS; i++) {
		if (!counts[i])
			continue;
		add_mm_counter(from, i, -(long)counts[i]);
		add_mm_counter(to, i, counts[i]);
	}
}

/*
 * Make @upper the record and the account of the last-level tables in a PMD table,
 * or give them back to the process of @us, which borrows them in between. One table at
 * a time: each is consistent by itself, also for who counts meanwhile.
 */
static void claim_tables(struct cohort_table *upper,
			 struct cohort_upper_sharer *us, pmd_t *pmd, bool claim)
{
	struct mm_struct *mm = us->mm;
	int i;

	for (i = 0; i < PTRS_PER_PMD; i++, pmd++) {
		unsigned long counts[NR_MM_COUNTERS] = {};
		spinlock_t *pml, *ptl;
		struct ptdesc *pt;
		long rss, swap;

		if (pmd_none(pmdp_get_lockless(pmd)))
			continue;
		pml = pmd_lock(mm, pmd);
		if (!pmd_none(*pmd)) {
			pt = cohort_ptdesc(*pmd);
			ptl = ptlock_ptr(pt);
			spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
			cohort_count_ptes(ptdesc_address(pt), counts);
			rss = counts[MM_FILEPAGES] + counts[MM_ANONPAGES] +
			      counts[MM_SHMEMPAGES];
			swap = counts[MM_SWAPENTS];
			spin_lock(&upper->upper_lock);
			if (claim) {
				cohort_mark_table(pt, upper);
				arch_pmd_set_cohort_upper(pmd);
				move_counts(mm, upper->owner, counts);
				mm_dec_nr_ptes(mm);
				mm_inc_nr_ptes(upper->owner);
				cohort_see_more(us, rss, swap, 1);
			} else {
				/*
				 * Flush what a batch has cleared here: code that
				 * zaps entries of an ordinary table does not
				 * look at the mark (invariant 4).
				 */
				if (upper->deferred) {
					arch_cohort_flush_user(mm, us->addr,
							       us->addr + PUD_SIZE);
					WRITE_ONCE(upper->deferred, false);
				}
				cohort_see_more(us, -rss, -swap, -1);
				pt->pt_cohort = NULL;
				arch_pmd_clear_cohort_upper(pmd);
				move_counts(upper->owner, mm, counts);
				mm_dec_nr_ptes(upper->owner);
				mm_inc_nr_ptes(mm);
			}
			spin_unlock(&upper->upper_lock);
			spin_unlock(ptl);
		}
		spin_unlock(pml);
		cond_resched();
	}
}

/* What a PMD table maps counts in full for each of its users. */
static void see_account(struct cohort_upper_sharer *us)
{
	struct mm_struct *account = us->sharer.table->owner;

	cohort_see_upper(us, get_mm_rss(account),
			 get_mm_counter(account, MM_SWAPENTS),
			 mm_pgtables_bytes(account) / PAGE_SIZE);
}

/* List a process as a user of a PMD table, whose lock is held. */
static void __join(struct cohort_table *upper, struct cohort_upper_sharer *us)
{
	struct cohort_mm *cohort = &us->mm->cohort;

	atomic_inc(&cohort->nr_tables);
	WRITE_ONCE(cohort->nr_upper, cohort->nr_upper + 1);
	__cohort_join(upper, &us->sharer);
}

static void join(struct cohort_table *upper, struct cohort_upper_sharer *us)
{
	spin_lock(&upper->upper_lock);
	__join(upper, us);
	spin_unlock(&upper->upper_lock);
	see_account(us);
}

/*
 * True if a PMD table has huge pages, or tables shared one by one, once those were taken
 * back that no other process uses.
 */
static bool has_other_entries(struct mm_struct *mm, unsigned long base,
			      pmd_t *pmd)
{
	int i;

	for (i = 0; i < PTRS_PER_PMD; i++) {
		pmd_t entry = pmdp_get_lockless(pmd + i);

		if (pmd_present(entry) && pmd_cohort(entry) &&
		    cohort_take_back(mm, pmd + i, base + i * PMD_SIZE))
			continue;
		if (!pmd_none(entry) &&
		    (!pmd_present(entry) || pmd_leaf(entry) || pmd_bad(entry) ||
		     pmd_cohort(entry)))
			return true;
	}
	return false;
}

/* A record of a PMD table, with its account; NULL without memory. */
static struct cohort_table *upper_alloc(unsigned long base, gfp_t gfp)
{
	struct cohort_table *upper = cohort_table_alloc(gfp);

	/* The account last: putting it would take a lock of mmap_lock's class. */
	if (upper)
		upper->owner = account_alloc();
	if (!upper || !upper->owner) {
		cohort_table_free(upper);
		return NULL;
	}
	upper->addr = base;
	upper->is_upper = true;
	spin_lock_init(&upper->upper_lock);
	return upper;
}

/*
 * Make the parent's PMD table a shared one with the parent as its only user.
 * Returns NULL if it may not be shared, or an error.
 */
static struct cohort_table *share_first(struct mm_struct *mm, unsigned long base)
{
	struct cohort_upper_sharer *us;
	struct cohort_table *upper;
	struct ptdesc *pt;
	spinlock_t *pml;
	pud_t *pud;
	pmd_t *pmd;

	pud = alloc_pud(mm, base);
	pmd = pud ? pmd_alloc(mm, pud, base) : NULL;
	if (!pmd)
		return ERR_PTR(-ENOMEM);
	if (has_other_entries(mm, base, pmd))
		return NULL;

	us = cohort_upper_make(mm, base, GFP_KERNEL_ACCOUNT);
	upper = us ? upper_alloc(base, GFP_KERNEL_ACCOUNT) : NULL;
	if (!upper)
		return ERR_PTR(-ENOMEM);
	us->pud = pud;
	pt = virt_to_ptdesc(pmd);
	upper->pt = pt;
	join(upper, us);
	mm_dec_nr_pmds(mm);
	mm_inc_nr_pmds(upper->owner);

	pml = pmd_lock(mm, pmd);
	cohort_mark_table(pt, upper);
	spin_unlock(pml);
	claim_tables(upper, us, pmd, true);
	/* The parent borrows from now on what it was charged for. */
	see_account(us);
	return upper;
}

/**
 * cohort_share_upper() - share a whole PMD table with a child
 * @cf: the fork; its child has no table for this gigabyte yet
 * @addr: an address in the gigabyte
 *
 * Return: 1 if the child uses the parent's table now; 0 if its last-level tables
 * must be shared or copied one by one; or -ENOMEM.
 */
int cohort_share_upper(struct cohort_fork *cf, unsigned long addr)
{
	struct mm_struct *mm = cf->mm, *oldmm = cf->oldmm;
	unsigned long base = addr & PUD_MASK;
	struct cohort_upper_sharer *us;
	struct cohort_table *upper;
	pud_t *src, *dst;

	dst = find_pud(mm, base);
	if (dst && !pud_none(*dst))
		return !!upper_of(*dst);
	src = find_pud(oldmm, base);
	upper = src ? upper_of(*src) : NULL;
	if (!upper && oldmm->cohort.nr_upper >= COHORT_UPPER_MAX)
		return 0;
	/* BabelFish's hardware shares translations of last-level tables. */
	if (!upper && cohort_bf_get())
		return 0;
	/* Do not walk all regions again for each of its tables (invariant 13). */
	if (cf->refused_upper == (base | 1))
		return 0;
	/* Most gigabytes lie in the region of the one before. */
	if (!(cf->whole && cf->whole == cf->prev && covers(cf->whole, base)) &&
	    !range_shareable(cf, base)) {
		cf->refused_upper = base | 1;
		return 0;
	}
	if (!upper)
		upper = share_first(oldmm, base);
	if (IS_ERR_OR_NULL(upper))
		return PTR_ERR_OR_ZERO(upper);

	dst = alloc_pud(mm, base);
	us = dst && cohort_uses_like(mm, oldmm) ?
	     cohort_upper_make(mm, base, GFP_KERNEL_ACCOUNT) : NULL;
	if (!us)
		return -ENOMEM;
	us->pud = dst;
	join(upper, us);
	/*
	 * Pairs with the barrier in __cohort_flush(): it finds the child on the
	 * list, or the child finds what was changed before.
	 */
	smp_mb();
	spin_lock(pud_lockptr(mm, dst));
	pud_populate(mm, dst, (pmd_t *)ptdesc_address(upper->pt));
	spin_unlock(pud_lockptr(mm, dst));
	count_vm_event(COHORT_PMD_SHARED);
	trace_cohort_share(oldmm, mm, base, upper->users);
	return 1;
}

/*
 * Wait for walkers of the reverse map that came through a former user and are still
 * in the table. All users map the same files, and only the last user still has an
 * entry that points to the table.
 */
static void wait_for_walkers(struct mm_struct *mm, unsigned long base)
{
	VMA_ITERATOR(vmi, mm, base);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, base + PUD_SIZE) {
		if (!vma->vm_file)
			continue;
		i_mmap_lock_write(vma->vm_file->f_mapping);
		i_mmap_unlock_write(vma->vm_file->f_mapping);
	}
}

/* The last user takes a PMD table back. No process can join meanwhile. */
static void adopt(struct cohort_table *upper, struct cohort_upper_sharer *us)
{
	struct mm_struct *mm = us->mm, *account = upper->owner;
	pmd_t *pmd = ptdesc_address(upper->pt);
	spinlock_t *pml;

	wait_for_walkers(mm, us->addr);
	/*
	 * Wait for GUP-fast of former users too: it rechecks the entries below,
	 * not the one that led it here, and private pages may come next
	 * (CVE-2025-38085). The flush when that user left may not have
	 * interrupted it: a hypervisor can flush for a processor that does not
	 * run, and on some architectures no flush interrupts anybody.
	 */
	tlb_remove_table_sync_one();
	/* Without what other users filled, the sum would fall below 0 for a moment. */
	spin_lock(&upper->upper_lock);
	__cohort_see_account(upper, us);
	spin_unlock(&upper->upper_lock);
	claim_tables(upper, us, pmd, false);
	pml = pmd_lock(mm, pmd);
	upper->pt->pt_cohort = NULL;
	spin_unlock(pml);
	mm_dec_nr_pmds(account);
	mm_inc_nr_pmds(mm);

	spin_lock(&upper->upper_lock);
	trace_cohort_adopt(mm, us->addr);
	__cohort_unsee(upper, &us->sharer);
	__cohort_unlink(upper, &us->sharer);
	spin_unlock(&upper->upper_lock);
	kfree_rcu(upper, rcu);
	/* Others use it only under upper_lock while the list has a user. */
	mmput_async(account);
}

/**
 * __cohort_leave_upper() - a process stops using a PMD table
 * @us: its use of the table; the process's mmap_lock is held for writing
 * @flush: the process may still run, or a walker may use its TLB entries
 *
 * Never fails, never allocates (invariant 8).
 */
void __cohort_leave_upper(struct cohort_upper_sharer *us, bool flush)
{
	struct cohort_table *upper = us->sharer.table;
	struct mm_struct *mm = us->mm;
	unsigned long base = us->addr;
	bool last;

	update_hiwater_rss(mm);
	spin_lock(&mm->page_table_lock);
	spin_lock(&upper->upper_lock);
	last = upper->users == 1;
	if (last) {
		/* From here on nobody joins. */
		__cohort_withdraw(upper);
	} else {
		trace_cohort_leave(mm, base, upper->users);
		pud_clear(us->pud);
		if (flush)
			arch_cohort_flush_leaver(mm, base, base + PUD_SIZE);
		__cohort_leave(upper, &us->sharer);
	}
	spin_unlock(&upper->upper_lock);
	spin_unlock(&mm->page_table_lock);

	WRITE_ONCE(mm->cohort.nr_upper, mm->cohort.nr_upper - 1);
	if (last)
		adopt(upper, us);
	else
		count_vm_event(COHORT_PMD_LEFT);
}

/**
 * cohort_do_fork_failed() - a child that lacks regions leaves its PMD tables
 * @mm: the child, whose mmap_lock is held for writing; it never ran
 *
 * A PMD table is shared before all regions of its gigabyte are duplicated. The
 * parent is still locked and a user, so the child leaves while it is not the last
 * user: the last one would need regions that the child lacks (invariants 1 and 5).
 */
void cohort_do_fork_failed(struct mm_struct *mm)
{
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_upper_sharer *us;
	unsigned long index;

	for (index = 0; (us = cohort_next_upper(uses, &index)); index++)
		__cohort_leave_upper(us, false);
}

/*
 * A shared PMD table that a process uses in a range. The answer holds while no
 * other thread has the mmap_lock for writing; callers without it look again.
 */
static struct cohort_upper_sharer *find_upper(struct mm_struct *mm,
					      unsigned long start,
					      unsigned long end)
{
	unsigned long index = start >> PUD_SHIFT, last = (end - 1) >> PUD_SHIFT;
	struct cohort_uses *uses = READ_ONCE(mm->cohort.uses);
	struct cohort_upper_sharer *us;

	/* Without the lock: a process's first table may only just be counted. */
	if (!uses)
		return NULL;
	rcu_read_lock();
	/* Not cohort_next_upper(), which looks behind the range (invariant 13). */
	while ((us = cohort_next_record(&uses->uppers, &index)) &&
	       index <= last && !READ_ONCE(us->sharer.table))
		index++;
	rcu_read_unlock();
	return us && index <= last ? us : NULL;
}

/**
 * __cohort_leave_range() - leave all PMD tables that a range touches
 * @mm: the process; its mmap_lock is held for writing
 * @start: first address
 * @end: first address behind the range
 */
void __cohort_leave_range(struct mm_struct *mm, unsigned long start,
			  unsigned long end)
{
	struct cohort_upper_sharer *us;

	mmap_assert_write_locked(mm);
	if (start >= end)
		return;
	while (start < end && (us = find_upper(mm, start, end))) {
		lock_regions(mm, us->addr);
		__cohort_leave_upper(us, true);
		/* Skip its record, which stays, when looking for the next. */
		start = us->addr + PUD_SIZE;
		cond_resched();
	}
}

#ifdef CONFIG_COHORT_GROUPS

/* True if the PMD table over a region may be shared. */
static bool region_joins(struct vm_area_struct *vma)
{
	return cohort_region_joins(vma) && !is_cow_mapping(vma->vm_flags) &&
	       !vma->anon_vma && !may_be_huge(vma) && !may_run_stale(vma);
}

static bool worth_sharing(const struct cohort_open *open)
{
	unsigned long pages = 0;
	unsigned int i;

	for (i = 0; i < open->nr; i++)
		pages += open->pieces[i].end - open->pieces[i].first;
	return pages >= COHORT_UPPER_MIN / PAGE_SIZE;
}

/**
 * struct upper_joiner - what a fault brings to the PMD table that it joins or opens
 * @us: the process's record for the gigabyte
 * @pud: its empty entry
 * @open: what it has there
 * @upper: the record of the table that it opens
 * @table: that table; NULL if used
 */
struct upper_joiner {
	struct cohort_upper_sharer *us;
	pud_t *pud;
	struct cohort_open *open;
	struct cohort_table *upper;
	pmd_t *table;
};

/* The process brings a table of its own that others may join. Its entry is locked. */
static void open_upper(struct upper_joiner *a)
{
	struct cohort_table *upper = a->upper;
	struct ptdesc *pt = virt_to_ptdesc(a->table);

	upper->pt = pt;
	mm_inc_nr_pmds(upper->owner);
	spin_lock(&upper->upper_lock);
	__join(upper, a->us);
	cohort_mark_table(pt, upper);
	cohort_publish_open(upper, a->open);
	spin_unlock(&upper->upper_lock);
	/* The table before the pointer to it. */
	smp_wmb();
	pud_populate(a->us->mm, a->pud, a->table);
	a->upper = NULL;
	a->open = NULL;
	a->table = NULL;
}

/* Join a table or open one, in an entry that must still be empty. */
static void join_or_open_upper(struct upper_joiner *a)
{
	struct mm_struct *mm = a->us->mm;
	struct cohort_table *upper;
	struct cohort_files files;
	/* If it cannot be joined now, open another. */
	bool may_join = cohort_lock_files(a->open, &files);

	spin_lock(&mm->page_table_lock);
	if (!pud_none(*a->pud))
		goto unlock;
	a->us->pud = a->pud;
	rcu_read_lock();
	upper = may_join ? cohort_find_open(a->open) : NULL;
	if (upper) {
		__acquire(&upper->upper_lock);
		if (a->us->addr != upper->addr)
			upper->spread = true;
		__join(upper, a->us);
		trace_cohort_join(mm, a->us->addr, upper->addr, upper->users);
		spin_unlock(&upper->upper_lock);
		/* As in cohort_share_upper(). */
		smp_mb();
		pud_populate(mm, a->pud, (pmd_t *)ptdesc_address(upper->pt));
		count_vm_event(COHORT_PMD_JOINED);
	} else if (a->upper) {
		open_upper(a);
	}
	rcu_read_unlock();
unlock:
	spin_unlock(&mm->page_table_lock);
	if (may_join)
		cohort_unlock_files(&files);
}

/*
 * True if the caller's cgroup has room for an account. mm_alloc() cannot be told to fail
 * instead of calling the OOM killer.
 */
static bool room_for_account(void)
{
	const size_t size = sizeof(struct mm_struct) + 4 * PAGE_SIZE;
	struct obj_cgroup *objcg = current_obj_cgroup();

	if (!objcg)
		return true;
	if (obj_cgroup_charge(objcg, GFP_COHORT_JOIN, size))
		return false;
	obj_cgroup_uncharge(objcg, size);
	return true;
}

static int prepare_upper(struct upper_joiner *a, struct mm_struct *mm,
			 unsigned long base)
{
	a->us = cohort_upper_make(mm, base, GFP_COHORT_JOIN);
	if (!a->us)
		return -ENOMEM;
	/* To join one takes no table; if it has gone meanwhile, none is opened. */
	if (cohort_has_open(a->open))
		return 0;
	a->table = room_for_account() ? pmd_alloc_one(mm, base) : NULL;
	a->upper = a->table ? upper_alloc(base, GFP_COHORT_JOIN) : NULL;
	return a->upper ? 0 : -ENOMEM;
}

/**
 * cohort_do_attach_upper() - see cohort_attach_upper()
 * @vmf: the fault
 *
 * As cohort_do_attach(), a level above. All users fill the table together, so it is
 * joined or opened empty.
 *
 * Return: 0 or VM_FAULT_RETRY.
 */
vm_fault_t cohort_do_attach_upper(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm, *unused = NULL;
	unsigned long base = vmf->address & PUD_MASK;
	bool locked = vmf->flags & FAULT_FLAG_VMA_LOCK;
	struct upper_joiner a = { .pud = vmf->pud };
	struct cohort_group *group;
	struct cohort_uses *uses;

	if (vma->vm_end - vma->vm_start < COHORT_UPPER_MIN ||
	    !region_joins(vma) || !cohort_may_join(mm) || cohort_bf_get())
		return 0;
	/* As in cohort_do_attach(). */
	if (locked && !mmap_read_trylock(mm)) {
		vma_end_read(vma);
		return VM_FAULT_RETRY;
	}
	group = mm->cohort.group;
	if (!group)
		goto unlock;
	uses = cohort_uses_make(mm, GFP_COHORT_JOIN);
	a.open = uses ? cohort_open_alloc(group) : NULL;
	if (!a.open)
		goto unlock;
	a.open->upper = true;
	mutex_lock(&uses->lock);
	/* Without memory there is no table to join, and stock's code fails if it must. */
	if (mm->cohort.nr_upper < COHORT_UPPER_MAX &&
	    cohort_describe(a.open, mm, base, region_joins) &&
	    worth_sharing(a.open) && !prepare_upper(&a, mm, base)) {
		join_or_open_upper(&a);
		if (a.us->sharer.table)
			see_account(a.us);
	}
	mutex_unlock(&uses->lock);
	if (a.table)
		pmd_free(mm, a.table);
	if (a.upper)
		unused = a.upper->owner;
	cohort_table_free(a.upper);
	cohort_open_free(a.open);
unlock:
	if (locked)
		mmap_read_unlock(mm);
	/* It takes a lock of mmap_lock's class, but not here. */
	if (unused)
		mmput_async(unused);
	return 0;
}

#endif /* CONFIG_COHORT_GROUPS */

/**
 * cohort_do_install() - put a new last-level table into a PMD table
 * @pmd: the empty entry; its lock is held
 * @pte: the new table, set to NULL when it is used
 *
 * Return: false, with nothing changed, if the PMD table is not shared.
 */
bool cohort_do_install(pmd_t *pmd, pgtable_t *pte)
{
	struct ptdesc *pt = virt_to_ptdesc(pmd);
	struct cohort_table *upper;

	if (!test_bit(PG_COHORT, &pt->__page_flags) || !pt->pt_cohort)
		return false;
	upper = pt->pt_cohort;
	mm_inc_nr_ptes(upper->owner);
	cohort_mark_table(page_ptdesc(*pte), upper);
	/* As in pmd_install(): the table before the pointer to it. */
	smp_wmb();
	set_pmd(pmd, __pmd(arch_pmd_cohort_upper_val(page_to_pfn(*pte))));
	*pte = NULL;
	cohort_count_table();
	return true;
}

/**
 * cohort_do_pmd_shared() - whether an entry lies in a shared PMD table
 * @pmd: the entry; the caller keeps the process from leaving the table
 */
bool cohort_do_pmd_shared(pmd_t *pmd)
{
	struct ptdesc *pt = virt_to_ptdesc(pmd);

	return test_bit(PG_COHORT, &pt->__page_flags) &&
	       READ_ONCE(pt->pt_cohort);
}

/**
 * cohort_do_madvise() - leave PMD tables before advice that zaps a range
 * @mm: the process
 * @start: first address
 * @end: first address behind the range
 * @behavior: the advice
 *
 * Such advice holds the mmap_lock for reading only, and leaving needs it for
 * writing, so the tables are left here.
 *
 * Return: 0 or -EINTR.
 */
int cohort_do_madvise(struct mm_struct *mm, unsigned long start,
		      unsigned long end, int behavior)
{
	unsigned long len = end - start;

	if (behavior != MADV_DONTNEED && behavior != MADV_DONTNEED_LOCKED &&
	    behavior != MADV_COLLAPSE)
		return 0;
	start = untagged_addr(start);
	if (!find_upper(mm, start, start + len))
		return 0;
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	__cohort_leave_range(mm, start, start + len);
	mmap_write_unlock(mm);
	return 0;
}

/**
 * cohort_upper_place() - where to map a large piece of shared memory
 * @file: a file, or NULL for anonymous memory
 * @len: bytes, at least a gigabyte
 * @pgoff: where in the file
 * @flags: MAP_*
 *
 * Prefers the start of a gigabyte, so that as many PMD tables as possible have
 * nothing else in their range. This takes 18 random bits from the address, so some must
 * be left; all members of a cohort have the same layout anyway.
 *
 * Return: an address that is free, or 0 for anywhere.
 */
unsigned long cohort_upper_place(struct file *file, unsigned long len,
				 unsigned long pgoff, unsigned long flags)
{
	unsigned long place;

	if (!(flags & MAP_SHARED) || (flags & MAP_FIXED) ||
	    mmap_rnd_bits < PUD_SHIFT - PAGE_SHIFT + COHORT_RANDOM_MIN ||
	    in_compat_syscall() || !cohort_member(current->mm))
		return 0;
	/* The file's huge pages must still fit. */
	if (file && !IS_ALIGNED(pgoff, PTRS_PER_PTE))
		return 0;
	/*
	 * Only files that align to huge pages, and shmem: others have their own reasons,
	 * or none to be mapped by PMD tables.
	 */
	if (file && file->f_op->get_unmapped_area != thp_get_unmapped_area &&
	    !shmem_file(file))
		return 0;
	place = mm_get_unmapped_area(current->mm, file, 0, len + PUD_SIZE,
				     pgoff, flags);
	return IS_ERR_VALUE(place) ? 0 : ALIGN(place, PUD_SIZE);
}
