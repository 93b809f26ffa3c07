// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: giving a process its own copy (EuroSys'16, section 3.1.2).
 *
 * The copy is made under the table's lock before anything points to it, and does
 * to pages what fork does: both tables map them read-only afterwards, and no page
 * is exclusive any more. arch_cohort_replace() makes it visible, and no walker sees
 * an empty entry. The last user copies nothing.
 *
 * No region is read, because a fault that holds only one region's lock may not
 * read the others in the table's range. The entries suffice: special ones have no
 * struct page, and a writable entry of a file page belongs to a shared mapping.
 */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/pgalloc.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include <linux/uaccess.h>

#include <asm/cohort_tlb.h>

#include <trace/events/cohort.h>

#include "internal.h"

/**
 * cohort_pte_wanted() - whether a process copies an entry when it unshares
 * @pte: a present entry
 * @anon: does it map an anonymous page?
 * @copy: the policy
 *
 * Section 3.1.3: entries that were referenced, or that fork would have copied. A
 * fault brings back any other.
 */
bool cohort_pte_wanted(pte_t pte, bool anon, enum cohort_copy copy)
{
	return copy == COHORT_COPY_ALL || anon || pte_young(pte);
}

/* One process's attempt to copy a table. */
struct copy {
	struct mm_struct *mm;
	unsigned long base;		/* first address of the table */
	unsigned long addr;		/* of the current entry */
	unsigned long counts[NR_MM_COUNTERS];
	unsigned long left[NR_MM_COUNTERS];	/* in the table, not copied */
	unsigned long copied;
	swp_entry_t full;		/* its count needs another page */
	enum cohort_copy policy;
};

static pte_t copy_present(struct copy *c, pte_t *src, pte_t pte, bool old)
{
	struct page *page;
	struct folio *folio;
	bool anon;

	if (arch_cohort_pte_special(pte)) {
		/* The zero page; a dirty one would count as KSM's. */
		return pte_mkclean(pte_wrprotect(pte));
	}

	page = pte_page(pte);
	folio = page_folio(page);
	/* Asked once: for each entry of the table it counts. */
	anon = folio_test_anon(folio);
	if (!anon && !cohort_pte_wanted(pte, false, c->policy)) {
		c->left[mm_counter_file(folio)]++;
		return __pte(0);
	}

	folio_get(folio);
	folio_dup_file_rmap_pte(folio, page);
	if (anon) {
		/*
		 * The page is not pinned: cohort_gup_check() allows no pin through
		 * a shared table, and fork checked before it shared this one.
		 */
		if (PageAnonExclusive(page))
			ClearPageAnonExclusive(page);
		if (pte_write(pte)) {
			/*
			 * The entries above deny writing: no TLB allows it. Entries
			 * that the architecture holds together are of one folio.
			 */
			wrprotect_ptes(c->mm, c->addr, src,
				       pte_batch_hint(src, pte));
			pte = pte_wrprotect(pte);
		}
		c->counts[MM_ANONPAGES]++;
	} else {
		/* A shared mapping: as after fork, only one entry stays dirty. */
		if (pte_write(pte))
			pte = pte_mkclean(pte);
		c->counts[mm_counter_file(folio)]++;
	}
	return old ? pte_mkold(pte) : pte;
}

/**
 * cohort_swp_shared() - a non-present entry as fork leaves it
 * @pte: not present and not none
 *
 * Return: the entry without the exclusive mark.
 */
pte_t cohort_swp_shared(pte_t pte)
{
	swp_entry_t entry = pte_to_swp_entry(pte);
	pte_t new;

	if (!non_swap_entry(entry))
		return pte_swp_clear_exclusive(pte);
	if (!is_migration_entry(entry) || is_readable_migration_entry(entry) ||
	    !folio_test_anon(pfn_swap_entry_folio(entry)))
		return pte;
	new = swp_entry_to_pte(make_readable_migration_entry(swp_offset(entry)));
	return pte_swp_soft_dirty(pte) ? pte_swp_mksoft_dirty(new) : new;
}

/*
 * A page in a device's memory, inherited read-only from a process that has a
 * notifier and itself shares nothing. Such a page cannot be pinned.
 */
static void copy_device_private(struct copy *c, struct page *page)
{
	struct folio *folio = page_folio(page);

	VM_WARN_ON_ONCE_PAGE(PageAnonExclusive(page), page);
	folio_get(folio);
	folio_dup_file_rmap_pte(folio, page);
	c->counts[mm_counter(folio)]++;
}

static int copy_nonpresent(struct copy *c, pte_t *src, pte_t pte, pte_t *new)
{
	swp_entry_t entry = pte_to_swp_entry(pte);

	if (!non_swap_entry(entry)) {
		if (swap_duplicate(entry) < 0) {
			c->full = entry;
			return -EAGAIN;
		}
		c->counts[MM_SWAPENTS]++;
	} else if (is_migration_entry(entry)) {
		c->counts[mm_counter(pfn_swap_entry_folio(entry))]++;
	} else if (is_device_private_entry(entry)) {
		copy_device_private(c, pfn_swap_entry_to_page(entry));
	} else if (WARN_ON_ONCE(is_device_exclusive_entry(entry))) {
		/* Needs a notifier, and fork does not copy it. */
		return -EFAULT;
	}
	/* Poison stays poison; no table with userfaultfd markers is shared. */
	*new = cohort_swp_shared(pte);
	if (!pte_same(*new, pte))
		set_pte_at(c->mm, c->addr, src, *new);
	return 0;
}

static void undo_page(struct page *page)
{
	struct folio *folio = page_folio(page);

	atomic_dec(&page->_mapcount);
	if (folio_test_large(folio))
		atomic_dec(&folio->_large_mapcount);
	folio_put(folio);
}

static void undo_nonpresent(swp_entry_t entry)
{
	if (!non_swap_entry(entry))
		swap_free(entry);
	else if (is_device_private_entry(entry))
		undo_page(pfn_swap_entry_to_page(entry));
}

/*
 * Drop the references of the first @nr entries of @dst. The shared table's lock was
 * held all the time, so it still has each page and swap entry, and no count
 * reaches zero.
 */
static void undo_copy(struct copy *c, pte_t *dst, int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		pte_t pte = ptep_get(dst + i);

		if (pte_none(pte))
			continue;
		if (!pte_present(pte))
			undo_nonpresent(pte_to_swp_entry(pte));
		else if (!arch_cohort_pte_special(pte))
			undo_page(pte_page(pte));
		ptep_get_and_clear(c->mm, c->addr, dst + i);
	}
}

/*
 * Copy all entries of a shared table, whose lock is held.
 *
 * Return: 0; -EAGAIN with @c->full set; or -EFAULT. Then @dst is empty again.
 */
static int copy_table(struct cohort_table *ct, pte_t *dst, struct copy *c)
{
	/*
	 * Without an accessed bit in hardware, an old entry would cost a fault. Asked
	 * once: some architectures search a table of registers for the answer.
	 */
	bool old = arch_has_hw_pte_young();
	pte_t *src = cohort_ptes(ct);
	int i, err;

	memset(c->counts, 0, sizeof(c->counts));
	memset(c->left, 0, sizeof(c->left));
	c->copied = 0;
	c->addr = c->base;

	for (i = 0; i < PTRS_PER_PTE; i++, c->addr += PAGE_SIZE) {
		pte_t pte = ptep_get(src + i);
		pte_t new;

		if (pte_none(pte))
			continue;
		if (pte_present(pte)) {
			new = copy_present(c, src + i, pte, old);
			if (pte_none(new))
				continue;
		} else {
			err = copy_nonpresent(c, src + i, pte, &new);
			if (err) {
				c->addr = c->base;
				undo_copy(c, dst, i);
				return err;
			}
		}
		arch_cohort_copy_ptes(c->mm, c->addr, dst + i, new, 1);
		c->copied++;
	}
	arch_cohort_copied(src, dst);
	/* What hand_over() charges to the next owner. */
	for (i = 0; i < NR_MM_COUNTERS; i++)
		WRITE_ONCE(ct->counts[i], c->counts[i] + c->left[i]);
	__cohort_set_maps(ct);
	/* Pairs with the acquire in look_at(): as in __cohort_count(). */
	smp_store_release(&ct->counted, true);
	ct->copied = true;
	return 0;
}

static void count_unshared(enum cohort_cause cause)
{
	switch (cause) {
	case COHORT_FAULT:
		count_vm_event(COHORT_PTP_UNSHARED_FAULT);
		break;
	case COHORT_MAP:
		count_vm_event(COHORT_PTP_UNSHARED_MAP);
		break;
	case COHORT_UNMAP:
		count_vm_event(COHORT_PTP_UNSHARED_UNMAP);
		break;
	case COHORT_CHANGE:
	case COHORT_MLOCK:
		count_vm_event(COHORT_PTP_UNSHARED_CHANGE);
		break;
	}
}

/*
 * Point the process's entry to the finished copy and leave the shared table.
 * Both locks are held.
 */
static void publish(struct cohort_locked *l, pmd_t *pmd, pgtable_t new,
		    struct copy *c)
{
	spinlock_t *new_ptl = ptlock_ptr(page_ptdesc(new));
	struct cohort_table *ct = l->ct;
	struct mm_struct *mm = c->mm;
	int i;

	/* Entries that are not copied leave the resident size. They have been counted. */
	__cohort_see(ct, l->sharer);
	update_hiwater_rss(mm);
	/* Other threads use the copy as soon as the entry points to it. */
	if (cohort_bf_active())
		__cohort_bf_leave(ct, l->sharer);
	/* As in pmd_install(): the copy before the pointer to it. */
	smp_wmb();
	/*
	 * Invariant 4: a thread's fault may map another page where no entry was
	 * copied. No processor may then still have the shared table's entry, so such
	 * a fault waits here for the flush.
	 */
	spin_lock_nested(new_ptl, 2);
	arch_cohort_replace(mm, pmd, c->base, new);
	spin_unlock(new_ptl);

	/* Invariant 7: the copied swap entries are this process's now. */
	if (c->counts[MM_SWAPENTS])
		cohort_list_for_swapoff(mm, ct->owner);
	__cohort_leave(ct, l->sharer);
	mm_inc_nr_ptes(mm);
	for (i = 0; i < NR_MM_COUNTERS; i++)
		if (c->counts[i])
			add_mm_counter(mm, i, c->counts[i]);
}

/* So many tables may exceed the limit of a memory cgroup for each process. */
#define COHORT_FORCED_MAX	32

static int charge_beyond(pgtable_t table, gfp_t gfp)
{
	struct folio *folio = page_folio(table);
	int err;

	/* The constructor has counted it where it was charged to nobody. */
	lruvec_stat_sub_folio(folio, NR_PAGETABLE);
	err = memcg_kmem_charge_page(table, gfp | __GFP_HIGH, 0);
	lruvec_stat_add_folio(folio, NR_PAGETABLE);
	return err;
}

/*
 * A table that may exceed the limit of the memory cgroup. __GFP_HIGH lets the charge do so;
 * the allocation itself would get at the machine's reserves by it.
 */
static pgtable_t alloc_beyond(struct mm_struct *mm, gfp_t gfp)
{
	struct cohort_uses *uses = mm->cohort.uses;
	pgtable_t table;

	if (READ_ONCE(uses->forced) >= COHORT_FORCED_MAX)
		return NULL;
	table = __pte_alloc_one(mm, gfp & ~__GFP_ACCOUNT);
	if (!table)
		return NULL;
	if (charge_beyond(table, gfp)) {
		pte_free(mm, table);
		return NULL;
	}
	/* Two threads may both find room for the last. */
	WRITE_ONCE(uses->forced, uses->forced + 1);
	return table;
}

/*
 * Giving memory back must not need any (invariant 13): if the memory cgroup is at its limit
 * and can free nothing, the table exceeds the limit and nobody is killed for it. On a stock
 * kernel the process has had such a table since fork. A few for each process, as an
 * overdraft without end would be a gain (invariant 14).
 */
static pgtable_t alloc_for_unmap(struct mm_struct *mm)
{
	gfp_t gfp = GFP_PGTABLE_USER | __GFP_NORETRY | __GFP_NOWARN;

	return __pte_alloc_one(mm, gfp) ?: alloc_beyond(mm, gfp);
}

/*
 * A table for another process's copy: the process that gets it pays. For a fault, as of a
 * debugger or swapoff, that is as on a stock kernel, where the page is charged so. For a
 * change nobody of its cgroup is killed, because the caller may hold the mmap_lock that the
 * victim needs to end; as uprobes must be able to go, the table may exceed the limit. A fork
 * has said who pays, because its child is in no cgroup yet.
 */
static pgtable_t alloc_for_other(struct mm_struct *mm, enum cohort_cause cause)
{
	const gfp_t change = GFP_PGTABLE_USER | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm), *old;
	pgtable_t table;

	old = set_active_memcg(memcg);
	if (old)
		set_active_memcg(old);
	if (old || cause == COHORT_FAULT)
		table = __pte_alloc_one(mm, GFP_PGTABLE_USER);
	else
		table = __pte_alloc_one(mm, change) ?: alloc_beyond(mm, change);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return table;
}

static pgtable_t alloc_copy(struct mm_struct *mm, enum cohort_cause cause)
{
	pgtable_t table = NULL;

	if (mm != current->mm)
		return alloc_for_other(mm, cause);
	if (cause == COHORT_UNMAP)
		table = alloc_for_unmap(mm);
	return table ?: pte_alloc_one(mm);
}

/**
 * cohort_unshare() - give a process its own copy of the table under an entry
 * @mm: the process; its mmap_lock or the lock of a region is held
 * @pmd: the entry
 * @addr: an address that it maps
 * @cause: why
 *
 * Also succeeds if the table is not, or no longer, shared. May sleep.
 *
 * Return: 0 or -ENOMEM; then nothing has changed.
 */
int cohort_unshare(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
		   enum cohort_cause cause)
{
	struct copy c = {
		.mm = mm,
		.base = addr & PMD_MASK,
		/* MLOCK_ONFAULT locks only mapped pages, so copy all entries. */
		.policy = cause == COHORT_MLOCK ? COHORT_COPY_ALL :
						  READ_ONCE(cohort_copy),
	};
	struct cohort_locked l;
	pgtable_t new = NULL;
	int err = 0;

	while (cohort_lock(mm, pmd, addr, &l)) {
		if (l.ct->users == 1) {
			__cohort_adopt(l.ct, l.sharer, false);
			cohort_unlock(&l);
			break;
		}
		if (!new) {
			cohort_unlock(&l);
			new = alloc_copy(mm, cause);
			if (!new)
				return -ENOMEM;
			continue;
		}
		err = copy_table(l.ct, page_address(new), &c);
		if (!err) {
			trace_cohort_unshare(mm, l.addr, cause, l.ct->users,
					     c.copied);
			publish(&l, pmd, new, &c);
			cohort_unlock(&l);
			count_unshared(cause);
			count_vm_events(COHORT_PTE_COPIED_UNSHARE, c.copied);
			cohort_count_table();
			return 0;
		}
		cohort_unlock(&l);
		if (err != -EAGAIN)
			break;
		err = add_swap_count_continuation(c.full, GFP_KERNEL);
		if (err)
			break;
	}
	if (new)
		pte_free(mm, new);
	return err ? -ENOMEM : 0;
}

/**
 * cohort_take_back() - take a table back that no other process uses any more
 * @mm: the process; its mmap_lock is held
 * @pmd: the entry
 * @addr: an address that it maps
 *
 * Return: true if the table is the process's own now.
 */
bool cohort_take_back(struct mm_struct *mm, pmd_t *pmd, unsigned long addr)
{
	struct cohort_locked l;
	bool last;

	if (!cohort_lock(mm, pmd, addr, &l))
		return !pmd_none(*pmd) && !pmd_cohort(*pmd);
	last = l.ct->users == 1;
	if (last)
		__cohort_adopt(l.ct, l.sharer, false);
	cohort_unlock(&l);
	return last;
}

int cohort_do_unshare_tables(struct mm_struct *mm, unsigned long start,
			     unsigned long end, enum cohort_cause cause)
{
	unsigned long addr, next;
	int err;

	if (start >= end)
		return 0;
	for (addr = start; addr < end; addr = next) {
		pmd_t *pmd = cohort_find_pmd(mm, addr, end, &next);

		if (!pmd || !pmd_cohort(pmdp_get_lockless(pmd)))
			continue;
		/* Of a large process these are many, and exit needs no copies. */
		if (cause == COHORT_CHANGE && fatal_signal_pending(current))
			return -EINTR;
		err = cohort_unshare(mm, pmd, addr, cause);
		if (err)
			return err;
		cond_resched();
	}
	return 0;
}

static bool range_has_vma(struct mm_struct *mm, unsigned long start,
			  unsigned long end)
{
	return start < end && find_vma_intersection(mm, start, end);
}

/*
 * True if the table that maps @addr may be shared. Cheaper than to look for regions, and
 * part of every mmap() of a member: nothing here asks for the key, which is on.
 */
static __always_inline bool maybe_shared(struct mm_struct *mm,
					 unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	p4d_t *p4d;
	pud_t pud;

	if (pgd_none(*pgd))
		return false;
	p4d = p4d_offset(pgd, addr);
	if (p4d_none(*p4d))
		return false;
	pud = READ_ONCE(*pud_offset(p4d, addr));
	/* A huge page may be moved away meanwhile. */
	if (!pud_present(pud) || pud_leaf(pud))
		return false;
	return arch_pmd_cohort(pmdp_get_lockless(pmd_offset(&pud, addr)));
}

/*
 * True if a look at one entry shows that a call has no work. What is not in one table is
 * left to the callers.
 */
static __always_inline bool not_shared(struct mm_struct *mm,
				       unsigned long start, unsigned long end)
{
	if (unlikely((start ^ (end - 1)) & PMD_MASK))
		return false;
	if (unlikely(READ_ONCE(mm->cohort.nr_upper)) &&
	    cohort_uppers_near(mm->cohort.uses, start, end))
		return false;
	return !maybe_shared(mm, start);
}

static noinline int unshare_range(struct mm_struct *mm, unsigned long start,
				  unsigned long end, enum cohort_cause cause)
{
	if (mm_cohort_upper(mm))
		__cohort_leave_range(mm, start, end);
	return cohort_do_unshare_tables(mm, start, end, cause);
}

int cohort_do_unshare_range(struct mm_struct *mm, unsigned long start,
			    unsigned long end, enum cohort_cause cause)
{
	if (not_shared(mm, start, end))
		return 0;
	return unshare_range(mm, start, end, cause);
}

int cohort_clear_refs(struct mm_struct *mm, bool soft)
{
	if (cohort_unshare_range(mm, 0, TASK_SIZE_MAX, COHORT_CHANGE))
		return soft ? -ENOMEM : 0;
	if (IS_ENABLED(CONFIG_MEM_SOFT_DIRTY) && soft)
		cohort_keep_apart(mm);
	return 0;
}

static noinline int unshare_edges(struct mm_struct *mm, unsigned long start,
				  unsigned long end, enum cohort_cause cause)
{
	unsigned long base = start & PMD_MASK, top;
	int err;

	cohort_uses_trim(mm);
	/* Tables between the ends are left as a whole. */
	cohort_count_guessed(mm);
	if (mm_cohort_upper(mm))
		__cohort_leave_range(mm, start, end);
	/* The table of the first page, then that of the last if another. */
	top = base + PMD_SIZE;
	if (maybe_shared(mm, start) &&
	    (range_has_vma(mm, base, start) || range_has_vma(mm, end, top))) {
		err = cohort_do_unshare_tables(mm, start, min(end, top), cause);
		if (err)
			return err;
	}
	base = end & PMD_MASK;
	if (base >= top && base < end && maybe_shared(mm, base) &&
	    range_has_vma(mm, end, base + PMD_SIZE))
		return cohort_do_unshare_tables(mm, base, end, cause);
	return 0;
}

int cohort_do_unshare_edges(struct mm_struct *mm, unsigned long start,
			    unsigned long end, enum cohort_cause cause)
{
	if (not_shared(mm, start, end))
		return 0;
	return unshare_edges(mm, start, end, cause);
}

int cohort_do_unshare_partial(struct mm_struct *mm, unsigned long start,
			      unsigned long end)
{
	unsigned long first = ALIGN(start, PMD_SIZE), last = end & PMD_MASK;
	int err;

	cohort_count_guessed(mm);
	if (first >= last)
		return cohort_do_unshare_tables(mm, start, end, COHORT_UNMAP);
	err = cohort_do_unshare_tables(mm, start, first, COHORT_UNMAP);
	if (err)
		return err;
	return cohort_do_unshare_tables(mm, last, end, COHORT_UNMAP);
}

#include "tests/cohort-kunit.h"
