// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: sharing at fork (EuroSys'16, sections 3.1.1 and 3.1.3).
 *
 * A table is shared if every region in its range may be shared, whatever their
 * kind and number: code and data of files, private writable memory, shared memory.
 * Sharing costs the same whether the table holds one entry or 512, if the entry above
 * can deny writing; if it cannot, the first share of a table protects each entry. All
 * other tables are copied, or left to faults, as in stock.
 */
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
 * VM_SPECIAL        drivers may write their tables at any time
 * VM_HUGETLB        has its own sharing
 * VM_LOCKED_MASK    mlock counts each page for its region; not inherited
 * VM_UFFD_*         what an entry means depends on this process's monitor
 * VM_DONTCOPY       the child has no such region
 * VM_WIPEONFORK     the child has the region, but empty
 * VM_DROPPABLE      ditto, and pages may vanish at any time
 * VM_GROWSDOWN      the stack: written at once after fork (section 4.2.1)
 * VM_SHADOW_STACK   every access is a write fault
 */
#define COHORT_NEVER_SHARED						\
	(VM_SPECIAL | VM_HUGETLB | VM_LOCKED_MASK | VM_UFFD_MISSING |	\
	 VM_UFFD_WP | VM_UFFD_MINOR | VM_DONTCOPY | VM_WIPEONFORK |	\
	 VM_DROPPABLE | VM_GROWSDOWN | VM_GROWSUP | VM_SHADOW_STACK)

bool cohort_vma_shareable(vm_flags_t flags)
{
	return !(flags & COHORT_NEVER_SHARED);
}

/* As cohort_vma_shareable(), with what the flags of a region do not say. */
bool cohort_region_shareable(struct vm_area_struct *vma)
{
	vm_flags_t flags = vma->vm_flags;

	/*
	 * [vdso] and [vvar] are the exception among special regions: they lie
	 * next to libraries, and their pages differ only between time
	 * namespaces, see
	 * cohort_do_leave_timens().
	 */
	if ((flags & VM_SPECIAL) && arch_vma_is_vdso(vma))
		flags &= ~VM_SPECIAL;
	return cohort_vma_shareable(flags) && !vma_is_dax(vma);
}

/**
 * cohort_do_fork_shares() - find out whether forks of a process share tables
 * @oldmm: the process; unless it is locked for writing, this may change
 *
 * Return: true if they do.
 */
bool cohort_do_fork_shares(struct mm_struct *oldmm)
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
	/* A thread has become another user: see mm/cohort/ids.c. */
	if (READ_ONCE(oldmm->cohort.leaving) || READ_ONCE(oldmm->cohort.apart))
		return false;
	/* A notifier must see every change, but other users' changes have none. */
	return !mm_has_notifiers(oldmm);
}

/*
 * True if a table maps a page that a device may write to. Fork copies such a page,
 * so that device and parent keep the same one (invariant 9). T's lock is held.
 */
static bool __maybe_pinned(struct ptdesc *pt)
{
	pte_t *ptep = ptdesc_address(pt);
	int i;

	for (i = 0; i < PTRS_PER_PTE; i++) {
		pte_t pte = ptep_get(ptep + i);
		struct folio *folio;

		if (!pte_present(pte) || arch_cohort_pte_special(pte))
			continue;
		folio = page_folio(pte_page(pte));
		if (folio_test_anon(folio) && folio_maybe_dma_pinned(folio))
			return true;
	}
	return false;
}

/**
 * struct share - the state of sharing the tables of a range
 * @cf: the fork
 * @cow: a region in the range is private memory
 * @pinned: a page of the parent may be pinned
 * @sampled: of how many tables of the run entries were read
 * @most: resident pages in the fuller of them
 * @counts: all that it maps, as estimated
 * @src: the parent's record of the tables that are shared next
 * @dst: the child's
 * @src_place: where cohort_run_make() looks for the parent's next record
 * @dst_place: for the child's
 * @rss: what the child sees in the tables of this round: resident pages
 * @swap: swap entries
 * @guess: resident pages in those that nobody has counted
 * @guess_swap: swap entries in those
 * @pooled: how many records @pool holds
 * @pool: records for tables that are not shared yet
 */
struct share {
	struct cohort_fork *cf;
	bool cow;
	bool pinned;
	unsigned int sampled;
	unsigned long most;
	unsigned long counts[NR_MM_COUNTERS];
	struct cohort_run *src;
	struct cohort_run *dst;
	unsigned int src_place;
	unsigned int dst_place;
	unsigned long rss;
	unsigned long swap;
	unsigned long guess;
	unsigned long guess_swap;
	unsigned int pooled;
	struct cohort_table *pool[16];
};

/*
 * Allocate what sharing the tables of @nr entries from @pmd on needs: records of
 * both processes, and of tables if the first is not shared yet.
 */
static int prepare(struct share *s, pmd_t *pmd, unsigned long addr,
		   unsigned int nr)
{
	/* All its entries are read, with preemption off (invariant 13). */
	bool slow = (s->cow && cohort_protect == COHORT_PROTECT_PTE) ||
		    test_bit(MMF_HAS_PINNED, &s->cf->oldmm->flags);
	unsigned int want = 0, most = slow ? 1 : ARRAY_SIZE(s->pool), i;
	struct cohort_run *last = s->src;

	s->src = cohort_run_make(s->cf->oldmm, addr, &s->src_place,
				 GFP_KERNEL_ACCOUNT);
	if (!s->src)
		return -ENOMEM;
	if (s->src != last)
		s->sampled = 0;
	if (!cohort_uses_like(s->cf->mm, s->cf->oldmm))
		return -ENOMEM;
	s->dst = cohort_run_make(s->cf->mm, addr, &s->dst_place,
				 GFP_KERNEL_ACCOUNT);
	if (!s->dst)
		return -ENOMEM;
	if (s->pooled || pmd_cohort(pmdp_get_lockless(pmd)))
		return 0;
	for (i = 0; i < nr && want < most; i++) {
		pmd_t entry = pmdp_get_lockless(pmd + i);

		want += pmd_present(entry) && !pmd_leaf(entry) &&
			!pmd_cohort(entry);
	}
	/* The first has gone meanwhile: share_run() finds that out. */
	if (!want)
		return 0;
	s->pooled = cohort_tables_alloc(want, s->pool, GFP_KERNEL_ACCOUNT);
	return s->pooled ? 0 : -ENOMEM;
}

static void drop_pool(struct share *s)
{
	while (s->pooled)
		cohort_table_free(s->pool[--s->pooled]);
}

/*
 * What a table maps is counted when somebody first asks, as fork has no time for it
 * (invariant 7). The OOM killer must not wait, so until then an estimate stands in: some
 * entries of two tables of a run are read, and the others are taken to be as full as
 * the fuller of these. No estimate is 0, so that cohort_scale_guess() can correct the sum.
 */
static void estimate(struct share *s, struct cohort_table *ct)
{
	if (s->sampled == 2) {
		memcpy(ct->counts, s->counts, sizeof(s->counts));
	} else {
		cohort_estimate_ptes(ptdesc_address(ct->pt), ct->counts);
		if (!s->sampled++ || cohort_resident(ct) >= s->most) {
			s->most = cohort_resident(ct);
			memcpy(s->counts, ct->counts, sizeof(s->counts));
		}
	}
	__cohort_set_maps(ct);
	ct->maps = max(ct->maps, 1U) | COHORT_MAPS_GUESS;
}

/*
 * Do to the entries of private memory what fork does to those that it copies: no page
 * is exclusive any more, no entry allows writing, and the entry above need not deny it.
 * A writable entry of a file's page belongs to a shared mapping, and stays. T's lock is
 * held, and GUP-fast kept out.
 */
static noinline void cohort_protect_entries(struct cohort_table *ct,
					    struct mm_struct *mm)
{
	pte_t *ptep = cohort_ptes(ct);
	unsigned long addr = ct->addr;
	int i, j, nr;

	for (i = 0; i < PTRS_PER_PTE; i += nr, addr += nr * PAGE_SIZE) {
		pte_t pte = ptep_get(ptep + i), shared;
		struct page *page;

		nr = 1;
		if (pte_none(pte))
			continue;
		if (!pte_present(pte)) {
			shared = cohort_swp_shared(pte);
			if (!pte_same(shared, pte))
				set_pte_at(mm, addr, ptep + i, shared);
			continue;
		}
		if (arch_cohort_pte_special(pte))
			continue;
		page = pte_page(pte);
		if (!folio_test_anon(page_folio(page)))
			continue;
		/* Entries that the architecture holds together are of one folio. */
		nr = pte_batch_hint(ptep + i, pte);
		for (j = 0; j < nr; j++)
			if (PageAnonExclusive(page + j))
				ClearPageAnonExclusive(page + j);
		if (pte_write(pte))
			wrprotect_ptes(mm, addr, ptep + i, nr);
	}
	ct->copied = true;
}

/*
 * Give the parent's own table a record, so that others may join. The entry's lock
 * and T's are held; the record is in @s.
 */
static void begin_table(struct share *s, struct ptdesc *pt, pmd_t *src_pmd,
			unsigned long base)
{
	struct mm_struct *mm = s->cf->oldmm;
	struct cohort_table *ct = s->pool[--s->pooled];

	ct->pt = pt;
	ct->addr = base;
	ct->owner = mm;
	ct->charged = &s->src->sharers[cohort_run_index(base)];
	cohort_begin_group(ct, *src_pmd);
	estimate(s, ct);
	/* KSM's items for this table stay valid, so go on scanning through it. */
	if (cohort_has_items(mm))
		ct->scanned = mm;
	cohort_mark_table(pt, ct);
	/*
	 * From here no store goes through this entry, or those below it; what TLBs
	 * still allow ends with the flush at the end of dup_mmap(), before the child
	 * can run.
	 */
	if (s->cow && cohort_protect == COHORT_PROTECT_PTE)
		cohort_protect_entries(ct, mm);
	arch_pmd_set_cohort(src_pmd,
			    s->cow && cohort_protect == COHORT_PROTECT_TABLE);
	__cohort_join(ct, ct->charged);
	s->src->used |= BIT(cohort_run_index(base));
	atomic_inc(&mm->cohort.nr_tables);
}

/*
 * Make the table of one entry, whose lock is held, one that others may join. Returns 1
 * if it is one; 0 if its entries must be copied as in stock; -EAGAIN if a record must
 * be allocated first.
 */
static noinline int make_shareable(struct share *s, pmd_t *src_pmd,
				   unsigned long base)
{
	pmd_t entry = *src_pmd;
	struct ptdesc *pt;
	spinlock_t *ptl;
	int ret = 0;

	/* File collapse takes none of these locks, and may have freed the table. */
	if (pmd_none(entry) || pmd_leaf(entry) || pmd_bad(entry))
		return 0;
	/* A table in a shared PMD table that this child cannot use. */
	if (pmd_cohort(entry))
		return 0;
	if (!s->pooled)
		return -EAGAIN;

	pt = cohort_ptdesc(entry);
	ptl = ptlock_ptr(pt);
	spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	if (!(s->pinned && __maybe_pinned(pt)) &&
	    !__cohort_merged_zeros(s->cf->oldmm, pt)) {
		begin_table(s, pt, src_pmd, base);
		ret = 1;
	}
	spin_unlock(ptl);
	return ret;
}

/* The parent's entries for one run, and the child's; the first of each. */
struct entries {
	pmd_t *src;
	pmd_t *dst;
	unsigned long base;
	unsigned long end;
};

/* Sum up what the child sees in tables of a run, of which some have not been counted. */
static noinline void sum_guesses(struct share *s, unsigned int first,
				 unsigned int end)
{
	unsigned int i;

	s->rss = 0;
	s->swap = 0;
	for (i = first; i < end; i++) {
		u32 maps = s->dst->seen[i];

		if (maps & COHORT_MAPS_GUESS) {
			s->guess += cohort_maps_resident(maps);
			s->guess_swap += cohort_maps_swap(maps);
		} else {
			s->rss += cohort_maps_resident(maps);
			s->swap += cohort_maps_swap(maps);
		}
	}
}

/*
 * Let the child use the tables of neighbouring entries, whose lock is held. The shortest
 * loop of fork: it is run for each table of the parent. Returns how many were shared, and
 * @stop as share_run().
 */
static noinline unsigned int join_tables(struct share *s,
					 const struct entries *e, int *stop)
{
	unsigned int first = cohort_run_index(e->base), i;
	unsigned int end = first + ((e->end - e->base) >> PMD_SHIFT);
	struct cohort_run *dst = s->dst;
	/* Of the first table of the run. */
	pmd_t *src_pmd = e->src - first, *dst_pmd = e->dst - first;
	u64 seen = 0, resident = 0;
	u32 any = 0;

	*stop = -EAGAIN;
	for (i = first; i < end; i++) {
		pmd_t entry = src_pmd[i];
		struct cohort_table *ct;
		struct ptdesc *pt;

		if (unlikely(!arch_pmd_cohort_last(entry))) {
			*stop = make_shareable(s, src_pmd + i, e->base +
					       (i - first) * PMD_SIZE);
			if (*stop <= 0)
				break;
			entry = src_pmd[i];
		}
		pt = cohort_ptdesc(entry);
		spin_lock_nested(ptlock_ptr(pt), SINGLE_DEPTH_NESTING);
		VM_WARN_ON_ONCE(s->cow && arch_pmd_cohort_write(entry) &&
				cohort_protect == COHORT_PROTECT_TABLE);
		ct = pt->pt_cohort;
		__cohort_join(ct, &dst->sharers[i]);
		/* Nobody else does so: the child is not the owner, nor the next. */
		dst->seen[i] = ct->maps;
		any |= ct->maps;
		seen += ct->maps;
		resident += cohort_maps_resident(ct->maps);
		if (trace_cohort_share_enabled())
			trace_cohort_share(s->cf->oldmm, s->cf->mm, ct->addr,
					   ct->users);
		/*
		 * The child does not run yet; the reverse map only reads this entry. T's
		 * lock is still held: who is listed has an entry that points to T. What the
		 * parent's says to BabelFish's hardware is not true of the child.
		 */
		arch_cohort_set_pmd(dst_pmd + i, arch_pmd_cohort_plain(entry));
		spin_unlock(ptlock_ptr(pt));
	}
	s->rss = resident;
	s->guess = 0;
	s->guess_swap = 0;
	s->swap = (seen - resident) >> 16;
	if (any & COHORT_MAPS_GUESS)
		sum_guesses(s, first, i);
	if (i > first)
		dst->used |= GENMASK(i - 1, first);
	return i - first;
}

/*
 * Share the tables of neighbouring entries, all of one run. Returns how many were
 * shared. @stop is why the next was not: 0 if it may not be shared, -EAGAIN if it
 * needs a record or belongs to the next run.
 */
static unsigned int share_run(struct share *s, const struct entries *e,
			      int *stop)
{
	struct mm_struct *dst_mm = s->cf->mm, *src_mm = s->cf->oldmm;
	unsigned int nr, first = cohort_run_index(e->base);
	spinlock_t *pml;

	s->dst->pmd = e->dst - first * COHORT_PMD_STEP;

	/* GUP-fast must not pin a page meanwhile (invariant 9). */
	raw_write_seqcount_begin(&src_mm->write_protect_seq);
	/*
	 * Order the increment before the test: pairs with GUP-fast, which sets
	 * the flag, then reads the sequence count.
	 */
	smp_mb();
	s->pinned = test_bit(MMF_HAS_PINNED, &src_mm->flags);

	pml = pmd_lock(src_mm, e->src);
	s->src->pmd = e->src - first * COHORT_PMD_STEP;
	nr = join_tables(s, e, stop);
	spin_unlock(pml);
	raw_write_seqcount_end(&src_mm->write_protect_seq);

	atomic_add(nr, &dst_mm->cohort.nr_tables);
	atomic_long_add(nr, &dst_mm->cohort.borrowed);
	atomic_long_add(s->rss, &dst_mm->cohort.rss);
	atomic_long_add(s->swap, &dst_mm->cohort.swap);
	if (s->guess)
		atomic_long_add(s->guess, &dst_mm->cohort.guess);
	if (s->guess_swap)
		atomic_long_add(s->guess_swap, &dst_mm->cohort.guess_swap);
	count_vm_events(COHORT_PTP_SHARED, nr);
	return nr;
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
 * Copy, as fork does, the entries of shareable regions in a range. Other regions
 * have been copied as a whole.
 */
static noinline int __copy_range(struct cohort_fork *cf, unsigned long start,
				 unsigned long end)
{
	VMA_ITERATOR(vmi, cf->mm, start);
	struct vm_area_struct *dst, *src;
	int err;

	for_each_vma_range(vmi, dst, end) {
		src = vma_lookup(cf->oldmm, dst->vm_start);
		if (!cohort_region_shareable(src))
			continue;
		err = copy_page_subrange(dst, src, max(start, src->vm_start),
					 min(end, src->vm_end));
		if (err)
			return err;
	}
	return 0;
}

static int copy_range(struct cohort_fork *cf, unsigned long start,
		      unsigned long end)
{
	return start < end ? __copy_range(cf, start, end) : 0;
}

/* Share the tables of a range in which all regions are shareable; copy the rest. */
static int share_range(struct cohort_fork *cf, unsigned long start,
		       unsigned long end, bool cow)
{
	struct share s = { .cf = cf, .cow = cow };
	unsigned long addr, next, copied = start;
	pmd_t *src_pmd, *dst_pmd;
	struct entries e;
	int ret = 0, stop;

	for (addr = start; addr < end && !ret; addr = next) {
		/* Up to the end of this table of entries. */
		unsigned long edge = cohort_table_end(addr, end);

		next = edge;
		cond_resched();
		if (!cow) {
			ret = cohort_share_upper(cf, addr);
			if (ret < 0)
				break;
			if (ret) {
				ret = copy_range(cf, copied, addr);
				copied = next;
				continue;
			}
		}
		src_pmd = cohort_find_pmd(cf->oldmm, addr, end, &next);
		dst_pmd = NULL;
		if (!src_pmd) {
			/* The next gigabyte may be shared even if it is empty. */
			if (!cow)
				next = edge;
			continue;
		}
		for (next = addr; next < edge;) {
			unsigned int i = (next - addr) >> PMD_SHIFT, nr;
			pmd_t entry = pmdp_get_lockless(src_pmd + i);
			unsigned long last;

			/* What follows may read all entries of a table (invariant 13). */
			if (s.pinned || cohort_protect == COHORT_PROTECT_PTE)
				cond_resched();
			/* Huge pages are copied, as in stock. */
			if (!pmd_present(entry) || pmd_leaf(entry)) {
				if (pmd_present(entry) && !PageAnon(pmd_page(entry)))
					cf->uncopied += PMD_SIZE / PAGE_SIZE;
				next += PMD_SIZE;
				continue;
			}
			last = min(edge, ALIGN(next + 1, 1UL << COHORT_RUN_SHIFT));
			if (!dst_pmd)
				dst_pmd = alloc_pmd(cf->mm, addr);
			ret = dst_pmd ? prepare(&s, src_pmd + i, next,
						(last - next) >> PMD_SHIFT) :
					-ENOMEM;
			if (ret)
				break;
			e = (struct entries){ src_pmd + i, dst_pmd + i, next, last };
			nr = share_run(&s, &e, &stop);
			if (nr) {
				ret = copy_range(cf, copied, next);
				if (ret)
					break;
				next += nr * PMD_SIZE;
				copied = next;
			}
			/* An empty entry, or a page that may be pinned. */
			if (!stop) {
				if (pmd_present(pmdp_get_lockless(src_pmd + i + nr)))
					cf->uncopied += PTRS_PER_PTE;
				next += PMD_SIZE;
			}
		}
	}
	drop_pool(&s);
	return ret ?: copy_range(cf, copied, end);
}

/*
 * Share or copy the tables below @limit, all of whose regions are in the child.
 * Several regions may lie in the first table; the others hold the last region only.
 */
static int finish_tables(struct cohort_fork *cf, unsigned long limit)
{
	unsigned long edge = cf->base + PMD_SIZE;
	unsigned long end = min(limit, ALIGN(cf->prev->vm_end, PMD_SIZE));
	bool cow = is_cow_mapping(cf->prev->vm_flags);
	int err;

	if (cf->refused) {
		cf->uncopied += PTRS_PER_PTE;
		err = copy_range(cf, cf->base, edge);
	} else {
		err = share_range(cf, cf->base, edge, cf->cow);
	}
	if (!err && edge < end && cf->shareable)
		err = share_range(cf, edge, end, cow);

	/* The last region may reach into the table at @limit. */
	cf->base = limit;
	cf->cow = cow && cf->prev->vm_end > limit;
	cf->refused = !cf->shareable && cf->prev->vm_end > limit;
	return err;
}

/*
 * Lock regions that fork has not reached and that may lie in the table it copies.
 * The copy maps the table before it takes the lock: a fault in such a region could
 * unshare the table meanwhile, and another process's entries would be copied
 * (invariant 12).
 */
static void lock_ahead(struct mm_struct *mm, unsigned long start,
		       unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, end)
		vma_start_write(vma);
}

/*
 * True if nobody works on a region of a process that forks with the region's lock alone, or
 * can until the fork ends. A thread of the process would count as a user. Others take the
 * mmap_lock, but for the owner of a userfaultfd elsewhere, who may move pages out of any
 * region, and BPF's iterator, which reads what fork does not change.
 */
static bool fork_is_alone(struct mm_struct *mm)
{
	return current->mm == mm && !mm->cohort.watched &&
	       atomic_read_acquire(&mm->mm_users) == 1;
}

/**
 * cohort_do_fork_begin() - decide whether a fork shares tables
 * @cf: filled in if the fork shares; NULL if it does not
 * @mm: the child
 * @oldmm: the parent; both are locked for writing
 */
void cohort_do_fork_begin(struct cohort_fork *cf, struct mm_struct *mm,
			  struct mm_struct *oldmm)
{
	/* A child of a process that is about to leave: nobody would tell it to. */
	if (!READ_ONCE(oldmm->cohort.leaving))
		cohort_set_group(mm, cohort_group(oldmm));
	if (!cf || !cohort_do_fork_shares(oldmm)) {
		if (mm_cohort(oldmm))
			lock_ahead(oldmm, 0, ULONG_MAX);
		return;
	}
	memset(cf, 0, sizeof(*cf));
	cf->sharing = true;
	cf->mm = mm;
	cf->oldmm = oldmm;
	cf->alone = fork_is_alone(oldmm);
	cohort_uses_trim(oldmm);
	cohort_batch_begin(cf);
	if (!oldmm->cohort.id)
		oldmm->cohort.id = cohort_new_id();
	mm->cohort.id = oldmm->cohort.id;
}

/* The next region is one that is never shared, or the vDSO. */
static noinline int fork_other_region(struct cohort_fork *cf,
				      struct vm_area_struct *vma)
{
	cf->shareable = cohort_region_shareable(vma);
	cf->refused |= !cf->shareable;
	if (cf->shareable)
		return 0;
	if (vma->vm_flags & VM_WIPEONFORK)
		cf->wiped += vma_pages(vma);
	else if (!vma->anon_vma)
		cf->uncopied += vma_pages(vma);
	lock_ahead(cf->oldmm, vma->vm_end, ALIGN(vma->vm_end, PMD_SIZE));
	return 0;
}

/* Called for each region, and mostly for nothing more than this: without other calls. */
static inline int fork_region(struct cohort_fork *cf, struct vm_area_struct *vma)
{
	if (!vma)
		return 0;
	cf->prev = vma;
	cf->cow |= is_cow_mapping(vma->vm_flags);
	cf->shareable = true;
	if (unlikely(!cohort_vma_shareable(vma->vm_flags) || vma_is_dax(vma)))
		return fork_other_region(cf, vma);
	return 0;
}

/* As cohort_do_fork_next(), if tables below @limit are complete. */
static noinline int fork_next_table(struct cohort_fork *cf,
				    struct vm_area_struct *vma,
				    unsigned long limit)
{
	int err;

	if (!cf->prev) {
		cf->base = limit;
	} else {
		err = finish_tables(cf, limit);
		if (err)
			return err;
	}
	return fork_region(cf, vma);
}

/**
 * cohort_do_fork_next() - share the tables that a fork has completed
 * @cf: the fork
 * @vma: the parent's next region, write-locked, or NULL at the end; all regions
 *       before it have been duplicated
 *
 * A table may serve several regions. It is shared once all of them are locked,
 * so that no fault fills it meanwhile, and are known to the child; the holes
 * between them stay holes under the parent's mmap_lock (invariant 1).
 *
 * Return: 0 or -ENOMEM.
 */
int cohort_do_fork_next(struct cohort_fork *cf, struct vm_area_struct *vma)
{
	unsigned long limit = (vma ? vma->vm_start : ULONG_MAX) & PMD_MASK;

	if (unlikely(cf->base < limit))
		return fork_next_table(cf, vma, limit);
	return fork_region(cf, vma);
}

/**
 * cohort_do_leave_timens() - unshare before a process changes its time namespace
 * @mm: the process
 *
 * What [vvar] maps depends on the namespace, and vdso_join_timens(), which changes
 * it, cannot fail.
 *
 * Return: 0 or -ENOMEM.
 */
int cohort_do_leave_timens(struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	int err = 0;

	mmap_read_lock(mm);
	for_each_vma(vmi, vma) {
		if (!arch_vma_is_vdso(vma))
			continue;
		err = cohort_unshare_tables(mm, vma->vm_start, vma->vm_end,
					    COHORT_CHANGE);
		if (err)
			break;
	}
	mmap_read_unlock(mm);
	return err;
}
