// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: the life of a shared table.
 *
 * T is a table, U the number of its users. The invariants that comments name
 * by number are in Documentation/mm/cohort.rst. In short:
 *
 * A process's entry begins to point to T when it is forked, under its
 * mmap_lock, or at a fault that joins T, see mm/cohort/join.c; it turns away
 * under the lock of the entry and T's lock together (12). In that one critical
 * section U drops, the accounts are handed over and the process's own TLB is
 * flushed (5), so at any moment: every process that could reach T through its TLB
 * is a user; T has a user through which the reverse map finds its pages; and a
 * process that sees U == 1 under T's lock is the only user and may take T back as
 * an ordinary table.
 *
 * One exception saves a flush per table at exit: a process without threads left
 * flushes once before it leaves its tables. Nothing can bring its translations
 * back to a TLB after that, see cohort_do_exit_mmap().
 *
 * Lock order: mmap_lock, VMA lock, folio lock, i_mmap_rwsem, anon_vma lock, the
 * entry's lock (pmd_lock), T's lock, then mmlist_lock or a lock of the index
 * of open tables. No other process's entry lock is ever taken under T's lock.
 */
#define pr_fmt(fmt) "cohort: " fmt

#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/pgalloc.h>
#include <linux/prctl.h>
#include <linux/slab.h>

#include <asm/cohort_tlb.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "internal.h"

#define CREATE_TRACE_POINTS
#include <trace/events/cohort.h>

DEFINE_STATIC_KEY_FALSE(cohort_key);
DEFINE_STATIC_KEY_FALSE(cohort_copy_files_key);

enum cohort_mode cohort_mode __read_mostly = COHORT_OPTIN;
enum cohort_copy cohort_copy __read_mostly = COHORT_COPY_REFERENCED;
enum cohort_protect cohort_protect __ro_after_init = COHORT_PROTECT_TABLE;

static struct kmem_cache *table_cache __ro_after_init;
static atomic64_t next_id = ATOMIC64_INIT(0);

u64 cohort_new_id(void)
{
	return atomic64_inc_return(&next_id);
}

/* For the key, the mode, and whether anybody has asked for sharing. */
static DEFINE_MUTEX(activate_lock);
static bool requested;

static void __cohort_activate(void)
{
	static bool done;

	lockdep_assert_held(&activate_lock);
	if (done)
		return;
	static_branch_enable(&cohort_key);
	synchronize_rcu();
	done = true;
}

/**
 * cohort_activate() - let hooks on hot paths look for shared tables
 *
 * Call it before the first table can be shared. A reverse map walker that is in a
 * table holds the RCU read lock, so when this returns, all walkers see the key in
 * cohort_left_table(). Never undone, because tables stay shared when the mode
 * changes.
 */
void cohort_activate(void)
{
	mutex_lock(&activate_lock);
	__cohort_activate();
	mutex_unlock(&activate_lock);
}

/**
 * cohort_request() - a process, or a label, asks for sharing
 *
 * In mode "never" nobody shares, so nobody else is to pay for the request (invariant 10):
 * then cohort_set_mode() activates the hooks.
 */
void cohort_request(void)
{
	mutex_lock(&activate_lock);
	requested = true;
	if (cohort_mode != COHORT_NEVER)
		__cohort_activate();
	mutex_unlock(&activate_lock);
}

void cohort_set_mode(enum cohort_mode mode)
{
	mutex_lock(&activate_lock);
	/* Before anybody can share: see cohort_activate(). */
	if (mode == COHORT_ALWAYS || (mode != COHORT_NEVER && requested))
		__cohort_activate();
	WRITE_ONCE(cohort_mode, mode);
	mutex_unlock(&activate_lock);
}

/**
 * cohort_do_hint() - see cohort_hint()
 * @file: a file, or NULL
 * @len: bytes
 * @pgoff: where in the file
 * @flags: MAP_*
 *
 * Return: an address that is free, or 0 for anywhere.
 */
unsigned long cohort_do_hint(struct file *file, unsigned long len,
			     unsigned long pgoff, unsigned long flags)
{
	unsigned long addr = 0;

	if (len > TASK_SIZE)
		return 0;
	if (IS_ENABLED(CONFIG_COHORT_UPPER) && len >= PUD_SIZE)
		addr = cohort_upper_place(file, len, file ? pgoff : 0, flags);
	return addr ?: cohort_place(file, len, pgoff, flags);
}

/* Returns @nr, or 0 without memory. */
unsigned int cohort_tables_alloc(unsigned int nr, struct cohort_table **into,
				 gfp_t gfp)
{
	unsigned int i;

	nr = kmem_cache_alloc_bulk(table_cache, gfp, nr, (void **)into);
	for (i = 0; i < nr; i++) {
		memset(into[i], 0, sizeof(*into[i]));
		INIT_LIST_HEAD(&into[i]->sharers);
	}
	return nr;
}

struct cohort_table *cohort_table_alloc(gfp_t gfp)
{
	struct cohort_table *ct;

	return cohort_tables_alloc(1, &ct, gfp) ? ct : NULL;
}

void cohort_table_free(struct cohort_table *ct)
{
	if (ct)
		kmem_cache_free(table_cache, ct);
}

/**
 * cohort_mm_init() - prepare a new address space
 * @mm: made by fork (then a copy of its parent's) or by exec (then zeroed)
 *
 * What prctl() has set is inherited over fork, and over exec if so asked.
 */
void cohort_mm_init(struct mm_struct *mm)
{
	struct mm_struct *old = current->mm;

	mm->cohort.uses = NULL;
	atomic_long_set(&mm->cohort.rss, 0);
	atomic_long_set(&mm->cohort.swap, 0);
	atomic_long_set(&mm->cohort.guess, 0);
	atomic_long_set(&mm->cohort.guess_swap, 0);
	mm->cohort.guess_scale = COHORT_GUESS_ONE;
	atomic_long_set(&mm->cohort.borrowed, 0);
	atomic_set(&mm->cohort.nr_tables, 0);
	mm->cohort.nr_upper = 0;
	mm->cohort.leaving = false;
	mm->cohort.batch = NULL;
#ifdef CONFIG_COHORT_GROUPS
	mm->cohort.group = NULL;
#endif
#ifdef CONFIG_COHORT_BABELFISH
	mm->cohort.bf = NULL;
#endif

	if (!mm->cohort.id && old && (old->cohort.flags & PR_COHORT_KEEP_EXEC)) {
		mm->cohort.id = old->cohort.id;
		mm->cohort.flags = old->cohort.flags;
	}
#ifdef CONFIG_COHORT_GROUPS
	/* A child's is a copy already. */
	if (old && unlikely(old->cohort.name[0]))
		memcpy(mm->cohort.name, old->cohort.name, COHORT_NAME);
#endif
}

/**
 * cohort_lock() - lock an entry and the shared table it points to
 * @mm: whose entry
 * @pmd: the entry
 * @addr: an address that it maps
 * @l: filled in
 *
 * Return: true with both locks held; false with none if the entry does not
 * point to a shared table, or only as one of a shared PMD table.
 */
bool cohort_lock(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
		 struct cohort_locked *l)
{
	struct ptdesc *pt;

	l->pml = pmd_lock(mm, pmd);
	if (!pmd_cohort(*pmd) || pmd_cohort_upper(*pmd)) {
		spin_unlock(l->pml);
		return false;
	}
	pt = cohort_ptdesc(*pmd);
	l->ptl = ptlock_ptr(pt);
	spin_lock_nested(l->ptl, SINGLE_DEPTH_NESTING);
	l->ct = pt->pt_cohort;
	l->sharer = cohort_find_sharer(mm, addr);
	l->addr = addr & PMD_MASK;
	VM_WARN_ON_ONCE_MM(!l->sharer || l->sharer->table != l->ct, mm);
	/* Sparse cannot tell the two ways out apart: the caller holds both. */
	__release(l->ptl);
	__release(l->pml);
	return true;
}

/*
 * As cohort_lock(), for a process that ends, of whose tables only the OOM reaper may take it
 * off the list.
 */
static bool lock_sharer(struct cohort_sharer *sharer, struct cohort_locked *l)
{
	l->pml = pmd_lock(cohort_run_of(sharer)->mm, cohort_user_pmd(sharer));
	l->ct = sharer->table;
	if (!l->ct) {
		spin_unlock(l->pml);
		return false;
	}
	l->sharer = sharer;
	l->addr = cohort_user_addr(l->ct, sharer);
	l->ptl = ptlock_ptr(l->ct->pt);
	spin_lock_nested(l->ptl, SINGLE_DEPTH_NESTING);
	/* As in cohort_lock(). */
	__release(l->ptl);
	__release(l->pml);
	return true;
}

void cohort_unlock(struct cohort_locked *l)
{
	__acquire(l->pml);
	__acquire(l->ptl);
	spin_unlock(l->ptl);
	spin_unlock(l->pml);
}

/**
 * cohort_find_pmd() - find the entry that maps an address
 * @mm: whose
 * @addr: the address
 * @end: where the caller's range ends
 * @next: set to where to look on
 *
 * Return: the entry, which may be empty, or NULL if there is none.
 */
pmd_t *cohort_find_pmd(struct mm_struct *mm, unsigned long addr,
		       unsigned long end, unsigned long *next)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t *pud, entry;

	/* Where a level is folded, its end is that of the level above. */
	*next = pgd_addr_end(addr, end);
	if (pgd_none(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, addr);
	*next = p4d_addr_end(addr, *next);
	if (p4d_none(*p4d))
		return NULL;
	pud = pud_offset(p4d, addr);
	*next = pud_addr_end(addr, *next);
	entry = READ_ONCE(*pud);
	/* A huge page may be moved away meanwhile. */
	if (!pud_present(entry) || pud_leaf(entry))
		return NULL;
	*next = pmd_addr_end(addr, *next);
	return pmd_offset(pud, addr);
}

/* Take a user off the table's list. Its lock is held. */
void __cohort_unlink(struct cohort_table *ct, struct cohort_sharer *sharer)
{
	atomic_dec(&cohort_user(ct, sharer)->cohort.nr_tables);
	list_del(&sharer->in_table);
	WRITE_ONCE(sharer->table, NULL);
	if (!ct->is_upper) {
		struct cohort_run *run = cohort_run_of(sharer);

		WRITE_ONCE(run->used, run->used & ~BIT(sharer - run->sharers));
	}
}

/**
 * cohort_list_for_swapoff() - let swapoff find a process's swap entries
 * @mm: the process, which gets entries of a table that it has shared
 * @behind: the owner of the table until now
 *
 * swapoff finds the entries of a shared table through its owner alone, so that a swap
 * entry costs no walk of all users (invariant 13). Reclaim lists the owner, as on a
 * stock kernel. An owner that leaves lists the next, and whoever copies the table lists
 * itself: behind the owner, where a swapoff that walks the list now comes next.
 */
void cohort_list_for_swapoff(struct mm_struct *mm, struct mm_struct *behind)
{
#ifdef CONFIG_SWAP
	if (!list_empty(&mm->mmlist))
		return;
	spin_lock(&mmlist_lock);
	if (list_empty(&mm->mmlist))
		list_add(&mm->mmlist, cohort_mmlist(behind));
	spin_unlock(&mmlist_lock);
#endif
}

/* The owner leaves: charge another user (invariant 7). */
static void hand_over(struct cohort_table *ct)
{
	struct cohort_sharer *next;
	struct mm_struct *mm = ct->owner, *heir;
	int i;

	next = list_first_entry(&ct->sharers, struct cohort_sharer, in_table);
	heir = cohort_run_of(next)->mm;
	__cohort_count(ct);
	/* What the heir has seen may be more than there is now. */
	update_hiwater_rss(heir);
	__cohort_unsee(ct, next);
	for (i = 0; i < NR_MM_COUNTERS; i++) {
		if (!ct->counts[i])
			continue;
		add_mm_counter(mm, i, -(long)ct->counts[i]);
		add_mm_counter(heir, i, ct->counts[i]);
	}
	mm_dec_nr_ptes(mm);
	mm_inc_nr_ptes(heir);
	if (ct->counts[MM_SWAPENTS])
		cohort_list_for_swapoff(heir, mm);
	ct->owner = heir;
	WRITE_ONCE(ct->charged, next);
}

/**
 * __cohort_leave() - a process stops using a table
 * @ct: the table; its lock and that of the process's entry are held
 * @sharer: the process, not the last user; its entry is turned away already
 *
 * The process's TLB must be flushed before T's lock is dropped, or before this
 * in the case of cohort_do_exit_mmap() (invariant 5).
 */
void __cohort_leave(struct cohort_table *ct, struct cohort_sharer *sharer)
{
	struct mm_struct *mm = cohort_user(ct, sharer);

	VM_WARN_ON_ONCE_MM(ct->users < 2, mm);
	if (cohort_bf_active())
		__cohort_bf_leave(ct, sharer);
	ct->users--;
	__cohort_unsee(ct, sharer);
	__cohort_unlink(ct, sharer);
	if (ct->scanned == mm)
		ct->scanned = NULL;
	if (ct->charged == sharer)
		hand_over(ct);
}

/* How many entries from @ptep on, @max at most, map pages of one folio. */
static int entries_in_row(pte_t *ptep, int max, struct folio *folio)
{
	int nr;

	for (nr = 1; nr < max; nr++) {
		pte_t pte = ptep_get(ptep + nr);

		if (!pte_present(pte) || arch_cohort_pte_special(pte) ||
		    page_folio(pte_page(pte)) != folio)
			break;
	}
	return nr;
}

/*
 * Take the exclusive mark from pages that have other references. Pages of a table
 * that nobody copied are exclusive as before it was shared, so its last user may
 * write to them in place. But a former user may have lent a page to a pipe or a
 * device (a reference without a mapping, taken before the table was shared or by
 * a read through it), whose holder must keep what it was lent. Such pages, and
 * swapped ones, are treated as if fork had copied their entries. T's lock is held.
 *
 * Each mapping has a reference. So if a folio has as many references as T has entries
 * for it, nobody else has one: T's lock keeps these mappings, hence the count is
 * never below them, and one read decides. (The folio's mapcount would be a second
 * read: what other processes map of a large folio changes between the two.) A former
 * user's reference was taken before it left under T's lock. If entries of a folio are
 * not counted because they are not in a row, it keeps no exclusive page, which is
 * what fork would have done.
 */
static void __drop_exclusive(struct cohort_table *ct, struct mm_struct *mm,
			     unsigned long addr)
{
	pte_t *ptep = cohort_ptes(ct);
	int i, nr, end;

	for (i = 0; i < PTRS_PER_PTE; i += nr) {
		pte_t pte = ptep_get(ptep + i);
		struct folio *folio;

		nr = 1;
		if (pte_none(pte) ||
		    (pte_present(pte) && arch_cohort_pte_special(pte)))
			continue;
		if (!pte_present(pte)) {
			pte_t shared = cohort_swp_shared(pte);

			if (!pte_same(shared, pte))
				set_pte_at(mm, addr + i * PAGE_SIZE, ptep + i,
					   shared);
			continue;
		}
		folio = page_folio(pte_page(pte));
		if (!folio_test_anon(folio))
			continue;
		if (folio_test_large(folio))
			nr = entries_in_row(ptep + i, PTRS_PER_PTE - i, folio);
		if (folio_ref_count(folio) == nr)
			continue;
		for (end = i + nr; i < end; i++) {
			pte = ptep_get(ptep + i);
			if (!PageAnonExclusive(pte_page(pte)))
				continue;
			/* The entry above denies writing: no TLB allows it. */
			ClearPageAnonExclusive(pte_page(pte));
			if (pte_write(pte))
				wrprotect_ptes(mm, addr + i * PAGE_SIZE, ptep + i,
					       pte_batch_hint(ptep + i, pte));
		}
		nr = 0;
	}
}

/**
 * __cohort_adopt() - the last user takes a table back
 * @ct: the table with U == 1; its lock and that of the entry are held
 * @sharer: the last user
 * @dying: the process will only throw the entries away
 *
 * All former users flushed when they left, so no other process can see the pages
 * through T, or begin to: GUP-fast rechecks the entry through which it came. The
 * entry allows writing again. Where a TLB combines the rights of all levels that needs
 * no flush: a CPU that still has what the entry denied takes one more fault, see
 * cohort_fix_spurious(). Elsewhere arch_cohort_take_back() flushes, since an entry of T
 * that was protected without a flush may still allow writing.
 *
 * Context: frees @ct by RCU; the caller then drops both locks.
 */
void __cohort_adopt(struct cohort_table *ct, struct cohort_sharer *sharer,
		    bool dying)
{
	unsigned long addr = cohort_user_addr(ct, sharer);
	struct mm_struct *mm = cohort_run_of(sharer)->mm;

	VM_WARN_ON_ONCE_MM(ct->users != 1 || ct->owner != mm, mm);
	trace_cohort_adopt(mm, addr);
	count_vm_event(COHORT_PTP_ADOPTED);
	__cohort_withdraw(ct);
	if (cohort_bf_active())
		__cohort_bf_leave(ct, sharer);
	if (!dying && ct->deferred)
		arch_cohort_flush_user(mm, addr, addr + PMD_SIZE);
	if (!dying && !ct->copied)
		__drop_exclusive(ct, mm, addr);
	ct->pt->pt_cohort = NULL;
	arch_cohort_take_back(mm, cohort_user_pmd(sharer), dying);
	__cohort_unlink(ct, sharer);
	kfree_rcu(ct, rcu);
}

/* Leave a table; @flush if a processor may still walk the process's tables. */
static void leave_at_exit(struct cohort_sharer *sharer, bool flush)
{
	struct mm_struct *mm = cohort_run_of(sharer)->mm;
	struct cohort_locked l;

	if (!lock_sharer(sharer, &l))
		return;
	if (l.ct->users == 1) {
		__cohort_adopt(l.ct, sharer, true);
	} else {
		trace_cohort_leave(mm, l.addr, l.ct->users);
		count_vm_event(COHORT_PTP_LEFT);
		pmd_clear(cohort_user_pmd(sharer));
		if (flush)
			arch_cohort_exit_flush(mm, l.addr, l.addr + PMD_SIZE);
		__cohort_leave(l.ct, sharer);
	}
	cohort_unlock(&l);
}

/* The OOM reaper may run at the same time, and leave some of them first. */
static void leave_all_at_exit(struct mm_struct *mm)
{
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_upper_sharer *us;
	struct cohort_run *run;
	unsigned long index;
	unsigned int i;
	bool flush;

	flush = arch_cohort_exit_begin(mm);

	if (mm_cohort_upper(mm)) {
		/* The OOM reaper reads mappings of files under mmap_lock. */
		mmap_write_lock(mm);
		for (index = 0; (us = cohort_next_upper(uses, &index)); index++)
			__cohort_leave_upper(us, flush);
		mmap_write_unlock(mm);
	}

	for (index = 0; (run = cohort_next_run(uses, &index)); index++) {
		unsigned long used = READ_ONCE(run->used);

		for_each_set_bit(i, &used, COHORT_RUN_TABLES) {
			leave_at_exit(&run->sharers[i], flush);
			cond_resched();
		}
		cond_resched();
	}
}

/**
 * cohort_do_exit_mmap() - a process without threads leaves all its tables
 * @mm: its address space, on which no thread runs any more (mm_users is 0)
 *
 * Called before the regions are unlinked from the reverse map (invariant 5).
 */
void cohort_do_exit_mmap(struct mm_struct *mm)
{
	if (mm_cohort(mm))
		leave_all_at_exit(mm);
	/* The reaper holds this lock until it needs no record any more. */
	mmap_write_lock(mm);
	mmap_write_unlock(mm);
	cohort_uses_free(mm);
}

struct zap_details *cohort_reap_details(void)
{
	/* Not const, because callees take a pointer that is not; they only read. */
	static struct zap_details details = {
		.even_cows = true,
		.zap_flags = ZAP_FLAG_REAP,
	};

	return &details;
}

/**
 * cohort_zap() - a process throws away a range that a shared table maps
 * @tlb: the gather of the process
 * @pmd: an entry with the mark
 * @addr: first address of the range in this table
 * @next: address behind the range in this table
 * @details: who asks
 *
 * Never allocates (invariant 8). A caller that unmaps a part of a table has
 * unshared it (cohort_unshare_edges(), cohort_unshare_partial()).
 *
 * Return: true if nothing is left to do for this table; false if its entries must
 * be zapped, because the process is the only user, or because a file is being
 * truncated, which changes the entries for all users.
 */
bool cohort_zap(struct mmu_gather *tlb, pmd_t *pmd, unsigned long addr,
		unsigned long next, struct zap_details *details)
{
	zap_flags_t flags = details ? details->zap_flags : 0;
	unsigned long base = addr & PMD_MASK;
	struct mm_struct *mm = tlb->mm;
	struct cohort_locked l;

	if (flags & ZAP_FLAG_MAPPING)
		return false;
	/*
	 * munmap has left the PMD table before. Only advice comes here, when
	 * a fork or a fault shared a table again meanwhile: it may be skipped,
	 * as the pages are shared memory.
	 */
	if (pmd_cohort_upper(*pmd))
		return true;
	if (!cohort_lock(mm, pmd, addr, &l))
		return pmd_none(*pmd);
	if (l.ct->users == 1) {
		/*
		 * The reaper takes no table back, because its victim's threads may
		 * run. Who joins meanwhile loses entries that a fault brings back, and
		 * is flushed for them.
		 */
		if (!(flags & ZAP_FLAG_REAP))
			__cohort_adopt(l.ct, l.sharer, false);
		cohort_unlock(&l);
		return false;
	}
	/*
	 * The victim of the OOM reaper leaves the whole table, of which it needs nothing
	 * any more: if all users are victims, and none can end, the last that is reaped
	 * frees the pages. Copies would need memory.
	 */
	if (!(flags & (ZAP_FLAG_UNMAP | ZAP_FLAG_REAP)) &&
	    next - addr != PMD_SIZE) {
		/*
		 * The caller has unshared what was there. A fault has joined a table
		 * since, as if it came after the caller: skip.
		 */
		WARN_ON_ONCE(!l.ct->open);
		cohort_unlock(&l);
		return true;
	}
	trace_cohort_leave(mm, base, l.ct->users);
	count_vm_event(COHORT_PTP_LEFT);
	pmd_clear(pmd);
	arch_cohort_flush_leaver(mm, base, base + PMD_SIZE);
	__cohort_leave(l.ct, l.sharer);
	cohort_unlock(&l);
	return true;
}

/*
 * Entries of a shared table were zapped, up to @addr. Flush them for all users
 * before T's lock is dropped (invariant 4), unless the gather has cleared none
 * that a TLB may hold, and change the owner's account.
 */
void cohort_do_zapped(struct mmu_gather *tlb, pmd_t *pmd, unsigned long addr,
		      int *rss)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;
	unsigned long base = (addr - 1) & PMD_MASK;
	int i;

	update_hiwater_rss(ct->owner);
	for (i = 0; i < NR_MM_COUNTERS; i++) {
		if (!rss[i])
			continue;
		add_mm_counter(ct->owner, i, rss[i]);
		if (ct->counted)
			WRITE_ONCE(ct->counts[i], ct->counts[i] + rss[i]);
	}
	if (ct->counted && !ct->is_upper)
		__cohort_set_maps(ct);
	if (READ_ONCE(ct->deferred))
		__cohort_flush_deferred(ct);
	else if (tlb->end > base)
		__cohort_flush(pmd, max(tlb->start, base), addr);
}

/**
 * cohort_do_pte_free_tlb() - free an empty table that was shared once
 * @tlb: the gather of its last user
 * @page: the table
 *
 * Walkers that entered through former users' entries hold only the RCU read
 * lock, and take the table's lock before they recheck the entry. So memory,
 * lock and destructor wait for RCU on every configuration, also on bare metal,
 * where x86 frees tables without RCU.
 */
void cohort_do_pte_free_tlb(struct mmu_gather *tlb, struct page *page)
{
	arch_cohort_release_pte(page);
	tlb_remove_table(tlb, page);
}

/* Tells free_table_rcu() that this was a PMD table; its record is gone. */
#define COHORT_WAS_UPPER	((struct cohort_table *)1UL)

/**
 * cohort_do_pmd_free_tlb() - free an empty PMD table that was shared once
 * @tlb: the gather of its last user
 * @page: the table
 */
void cohort_do_pmd_free_tlb(struct mmu_gather *tlb, struct page *page)
{
	arch_cohort_release_pmd(page);
	page_ptdesc(page)->pt_cohort = COHORT_WAS_UPPER;
	tlb_remove_table(tlb, page);
}

static void free_table_rcu(struct rcu_head *head)
{
	struct ptdesc *pt = container_of(head, struct ptdesc, pt_rcu_head);

	clear_bit(PG_COHORT, &pt->__page_flags);
	if (pt->pt_cohort == COHORT_WAS_UPPER) {
		pt->pt_cohort = NULL;
		pagetable_pmd_dtor(pt);
	} else {
		pagetable_pte_dtor(pt);
	}
	pagetable_free(pt);
}

/**
 * cohort_do_free_table() - free a table by RCU after the gather has flushed
 * @page: a table that was shared once
 */
void cohort_do_free_table(struct page *page)
{
	struct ptdesc *pt = page_ptdesc(page);

	call_rcu(&pt->pt_rcu_head, free_table_rcu);
}

#ifdef CONFIG_COHORT_TLB
/**
 * cohort_table_group() - whether a shared table is that of a TLB group
 * @ptep: an entry of a last-level table, whose lock is held
 * @of_group: set if it is shared: true if TLBs may keep its entries for all members
 *
 * Return: false if the table is not shared.
 */
bool cohort_table_group(pte_t *ptep, bool *of_group)
{
	struct ptdesc *pt = virt_to_ptdesc(ptep);

	if (!test_bit(PG_COHORT, &pt->__page_flags) || !pt->pt_cohort)
		return false;
	*of_group = pt->pt_cohort->tlb_group;
	return true;
}
#endif

/* Called when a table gets its record, before its second user. */
void cohort_mark_table(struct ptdesc *pt, struct cohort_table *ct)
{
	pt->pt_cohort = ct;
	set_bit(PG_COHORT, &pt->__page_flags);
}

static int __init setup_cohort(char *arg)
{
	if (!strcmp(arg, "never"))
		cohort_mode = COHORT_NEVER;
	else if (!strcmp(arg, "optin"))
		cohort_mode = COHORT_OPTIN;
	else if (!strcmp(arg, "always"))
		cohort_mode = COHORT_ALWAYS;
	else
		pr_warn("cohort=%s: not one of never, optin, always\n", arg);
	return 1;
}
__setup("cohort=", setup_cohort);

static int __init setup_cohort_protect(char *arg)
{
	if (!strcmp(arg, "pte"))
		cohort_protect = COHORT_PROTECT_PTE;
	else if (strcmp(arg, "table"))
		pr_warn("cohort_protect=%s: not one of table, pte\n", arg);
	return 1;
}
__setup("cohort_protect=", setup_cohort_protect);

static int __init cohort_init(void)
{
	/* Each table has a lock, the same for all users (invariant 11). */
	BUILD_BUG_ON(!IS_ENABLED(CONFIG_SPLIT_PTE_PTLOCKS));
	table_cache = KMEM_CACHE(cohort_table, SLAB_PANIC | SLAB_ACCOUNT);
	cohort_uses_init();

	if (!arch_cohort_table_protect())
		cohort_protect = COHORT_PROTECT_PTE;
	if (!arch_cohort_supported())
		cohort_mode = COHORT_NEVER;
	if (cohort_mode == COHORT_ALWAYS)
		cohort_activate();
	return 0;
}
core_initcall(cohort_init);
