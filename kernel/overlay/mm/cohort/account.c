// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: who is charged, and what a process uses in all.
 *
 * Each table has one owner, which is charged for the table and all its entries.
 * So fork counts nothing, and the charge moves when the owner leaves (invariant 7).
 * What the other users borrow counts for them in full, as it would if they had
 * tables of their own (invariant 14): killing one of them frees nothing of it, as
 * on a stock kernel, where the others still map the pages.
 *
 * A process keeps the sum of what it borrows. The sum has, of each table, what the
 * process last saw there: at fork or when it joins, when it fills an entry itself, and
 * when somebody reads its /proc files, which looks at all its tables. What its siblings
 * fill is seen at the next such look; until then a process that has read such a page, without
 * a fault, does not count it, which a stock kernel would (see Limits). What is
 * reclaimed from a table is seen then too: until then it counts still, so nobody
 * gains. Whoever must not wait, as the OOM killer, or the tick, takes the sum as it
 * is, with an estimate of what nobody has counted yet (invariant 13). Its total is known:
 * a child counts for what its parent did at the fork, less what fork does not copy. A
 * high-water mark has no estimate: a process that ends, or unmaps a table, counts first.
 */
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/rcupdate_wait.h>
#include <linux/sched/mm.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include "internal.h"

/* Add one entry to the counter in @counts that it is charged to. */
void cohort_count_entry(pte_t pte, unsigned long *counts)
{
	swp_entry_t entry;

	if (pte_none(pte))
		return;
	if (pte_present(pte)) {
		if (!arch_cohort_pte_special(pte))
			counts[mm_counter(page_folio(pte_page(pte)))]++;
		return;
	}
	entry = pte_to_swp_entry(pte);
	if (!non_swap_entry(entry))
		counts[MM_SWAPENTS]++;
	else if (is_migration_entry(entry) || is_device_private_entry(entry))
		counts[mm_counter(pfn_swap_entry_folio(entry))]++;
}

static void count_every(pte_t *ptep, int step, unsigned long *counts)
{
	int i;

	for (i = 0; i < PTRS_PER_PTE; i += step) {
		pte_t pte = ptep_get(ptep + i);

		if (!pte_none(pte))
			cohort_count_entry(pte, counts);
	}
}

/* Add all entries of a last-level table to @counts. */
void cohort_count_ptes(pte_t *ptep, unsigned long *counts)
{
	count_every(ptep, 1, counts);
}

/**
 * cohort_estimate_ptes() - about what a last-level table maps
 * @ptep: its first entry
 * @counts: NR_MM_COUNTERS numbers of pages, set from every eighth entry
 */
void cohort_estimate_ptes(pte_t *ptep, unsigned long *counts)
{
	int i;

	memset(counts, 0, NR_MM_COUNTERS * sizeof(*counts));
	count_every(ptep, 8, counts);
	for (i = 0; i < NR_MM_COUNTERS; i++)
		counts[i] *= 8;
}

/* Bring @ct->counts up to date. cohort_table_lock(@ct) is held. */
void __cohort_count(struct cohort_table *ct)
{
	unsigned long counts[NR_MM_COUNTERS] = {};
	int i;

	if (ct->is_upper) {
		for (i = 0; i < NR_MM_COUNTERS; i++)
			ct->counts[i] = get_mm_counter_sum(ct->owner, i);
		return;
	}
	if (ct->counted)
		return;
	cohort_count_ptes(cohort_ptes(ct), counts);
	for (i = 0; i < NR_MM_COUNTERS; i++)
		WRITE_ONCE(ct->counts[i], counts[i]);
	__cohort_set_maps(ct);
	/* Pairs with the load in look(): the counts before the word for it. */
	smp_store_release(&ct->counted, true);
}

/*
 * Let the sum of a process have what @maps says of a table, whose lock is held, and which
 * is no estimate.
 */
static void __set_seen(struct cohort_run *run, unsigned int i, u32 maps)
{
	struct cohort_mm *cohort = &run->mm->cohort;
	u32 seen = run->seen[i];
	bool guess = seen & COHORT_MAPS_GUESS;

	if (maps == seen)
		return;
	atomic_long_sub(cohort_maps_resident(seen),
			guess ? &cohort->guess : &cohort->rss);
	atomic_long_sub(cohort_maps_swap(seen),
			guess ? &cohort->guess_swap : &cohort->swap);
	atomic_long_add(cohort_maps_resident(maps), &cohort->rss);
	atomic_long_add(cohort_maps_swap(maps), &cohort->swap);
	WRITE_ONCE(run->seen[i], maps);
}

/* What a process maps, and has in swap, in tables that it is charged for. */
static long own_pages(struct mm_struct *mm)
{
	return get_mm_counter_sum(mm, MM_ANONPAGES) +
	       get_mm_counter_sum(mm, MM_FILEPAGES) +
	       get_mm_counter_sum(mm, MM_SHMEMPAGES) +
	       get_mm_counter_sum(mm, MM_SWAPENTS);
}

/* The same in tables that others are charged for, and that somebody has counted. */
static long borrowed_pages(struct mm_struct *mm)
{
	return cohort_rss(mm) + atomic_long_read(&mm->cohort.swap);
}

static long maps_pages(u32 maps)
{
	return cohort_maps_resident(maps) + cohort_maps_swap(maps);
}

/* By how much a child has seen more than its parent in the tables of a run. */
static long newer_in_run(struct cohort_run *run, struct cohort_run *old)
{
	unsigned long used = run->used & old->used;
	unsigned int i;
	long sum = 0;

	for_each_set_bit(i, &used, COHORT_RUN_TABLES) {
		struct cohort_table *ct = READ_ONCE(old->sharers[i].table);
		u32 maps = READ_ONCE(run->seen[i]), seen = READ_ONCE(old->seen[i]);

		if (!ct || READ_ONCE(ct->charged) == &old->sharers[i] ||
		    ((maps | seen) & COHORT_MAPS_GUESS))
			continue;
		sum += max(maps_pages(maps) - maps_pages(seen), 0L);
	}
	return sum;
}

/*
 * What a child has seen in tables that the parent borrows, too, beyond what the parent last
 * saw there: siblings have filled it.
 */
static long newer_pages(struct mm_struct *mm, struct mm_struct *oldmm)
{
	struct cohort_uses *uses = mm->cohort.uses, *olduses = oldmm->cohort.uses;
	struct cohort_upper_sharer *us, *oldus;
	struct cohort_run *run, *old;
	unsigned long index, at;
	long sum = 0;

	/* A parent that owns all its tables, as a zygote, knows what is in them. */
	if (!atomic_long_read(&oldmm->cohort.borrowed))
		return 0;
	rcu_read_lock();
	for (index = 0; (us = cohort_next_record(&uses->uppers, &index)); index++) {
		at = index;
		oldus = cohort_next_record(&olduses->uppers, &at);
		if (oldus && at == index)
			sum += max(atomic_long_read(&us->rss) + atomic_long_read(&us->swap) -
				   atomic_long_read(&oldus->rss) -
				   atomic_long_read(&oldus->swap), 0L);
		cond_resched_rcu();
	}
	for (index = 0; (run = cohort_next_run(uses, &index)); index++) {
		at = index;
		old = cohort_next_run(olduses, &at);
		if (old && at == index)
			sum += newer_in_run(run, old);
		cond_resched_rcu();
	}
	rcu_read_unlock();
	return sum;
}

/**
 * cohort_scale_guess() - correct what a child's uncounted tables are estimated to map
 * @cf: the fork, which has duplicated all regions or has failed
 *
 * Fork copies or shares what the parent maps, and the parent knows how much that is, as a
 * stock kernel does, whose child adds up what is copied. So the child's tables that nobody
 * has counted map what is left of the parent's sum (invariant 14). How much is in regions
 * of which fork copies nothing is not known, but for a bound: within it the estimate
 * decides. The correction is a factor, and gone when all tables are counted.
 */
void cohort_scale_guess(struct cohort_fork *cf)
{
	struct mm_struct *mm = cf->mm, *oldmm = cf->oldmm;
	long guess, most, least, files;
	u64 scale;

	guess = atomic_long_read(&mm->cohort.guess) +
		atomic_long_read(&mm->cohort.guess_swap);
	if (!guess)
		return;
	/* The parent's first: what somebody counts meanwhile is in both, not in neither. */
	most = cohort_guess(oldmm) + cohort_guess_swap(oldmm);
	most += borrowed_pages(oldmm) + own_pages(oldmm) -
		borrowed_pages(mm) - own_pages(mm) + newer_pages(mm, oldmm);
	most = max(most, 0L);
	/* No more than the parent has of files. */
	files = get_mm_counter(oldmm, MM_FILEPAGES) +
		get_mm_counter(oldmm, MM_SHMEMPAGES) + borrowed_pages(oldmm);
	least = most - min_t(unsigned long, cf->uncopied, files) - cf->wiped -
		(oldmm->total_vm - mm->total_vm);
	scale = (u64)clamp(guess, max(least, 0L), most) * COHORT_GUESS_ONE;
	/* No table maps more than it has entries. */
	mm->cohort.guess_scale = min_t(u64, div64_ul(scale, guess),
				       PTRS_PER_PTE * COHORT_GUESS_ONE);
}

/**
 * __cohort_see() - let a process's sum have what a last-level table maps now
 * @ct: the table; its lock is held, and its counts are exact
 * @sharer: the process's use of it
 */
void __cohort_see(struct cohort_table *ct, struct cohort_sharer *sharer)
{
	struct cohort_run *run = cohort_run_of(sharer);

	if (ct->charged != sharer)
		__set_seen(run, sharer - run->sharers, ct->maps);
}

/**
 * cohort_see_upper() - let a process's sum have so much of a PMD table
 * @us: the process's use of it
 * @rss: resident pages
 * @swap: swap entries
 * @borrowed: page-table pages
 *
 * Needs no lock: what two callers do at once adds up.
 */
void cohort_see_upper(struct cohort_upper_sharer *us, long rss, long swap,
		      long borrowed)
{
	struct cohort_mm *cohort = &us->mm->cohort;

	atomic_long_add(rss - atomic_long_xchg(&us->rss, rss), &cohort->rss);
	atomic_long_add(swap - atomic_long_xchg(&us->swap, swap),
			&cohort->swap);
	atomic_long_add(borrowed - atomic_long_xchg(&us->borrowed, borrowed),
			&cohort->borrowed);
}

/* Let a process's sum have all of a PMD table, whose lock is held, exactly. */
void __cohort_see_account(struct cohort_table *upper,
			  struct cohort_upper_sharer *us)
{
	__cohort_count(upper);
	cohort_see_upper(us, cohort_resident(upper), upper->counts[MM_SWAPENTS],
			 mm_pgtables_bytes(upper->owner) / PAGE_SIZE);
}

/* Let a process's sum have so much more, or less, of a PMD table. */
void cohort_see_more(struct cohort_upper_sharer *us, long rss, long swap,
		     long borrowed)
{
	struct cohort_mm *cohort = &us->mm->cohort;

	atomic_long_add(rss, &us->rss);
	atomic_long_add(swap, &us->swap);
	atomic_long_add(borrowed, &us->borrowed);
	atomic_long_add(rss, &cohort->rss);
	atomic_long_add(swap, &cohort->swap);
	atomic_long_add(borrowed, &cohort->borrowed);
}

/**
 * __cohort_unsee() - a process borrows a table no more
 * @ct: the table; its lock is held
 * @sharer: the process's use of it
 *
 * Call it when the process leaves, or before it becomes the owner.
 */
void __cohort_unsee(struct cohort_table *ct, struct cohort_sharer *sharer)
{
	struct cohort_run *run = cohort_run_of(sharer);

	if (ct->is_upper) {
		cohort_see_upper(cohort_upper_of(sharer), 0, 0, 0);
		return;
	}
	if (ct->charged == sharer)
		return;
	__set_seen(run, sharer - run->sharers, 0);
	atomic_long_dec(&run->mm->cohort.borrowed);
}

struct mm_struct *cohort_do_payer(pmd_t *pmd)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;

	ct->counted = false;
	return ct->owner;
}

struct mm_struct *cohort_do_filler(struct mm_struct *mm, pmd_t *pmd,
				   unsigned long addr, int member,
				   unsigned long nr)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_upper_sharer *us;
	struct cohort_sharer *sharer;
	unsigned long resident, seen, index;
	struct cohort_run *run;
	unsigned int i;

	count_vm_events(COHORT_FAULT_FILLED, nr);
	if (ct->is_upper) {
		rcu_read_lock();
		index = addr >> PUD_SHIFT;
		us = cohort_next_record(&uses->uppers, &index);
		if (us && us->sharer.table == ct) {
			/* Never more than the table has: what was filled may
			 * have been reclaimed, and be filled again.
			 */
			long room = get_mm_rss(ct->owner) + nr -
				    atomic_long_read(&us->rss);
			long add = clamp(room, 0L, (long)nr);

			atomic_long_add(add, &mm->cohort.rss);
			atomic_long_add(add, &us->rss);
		}
		rcu_read_unlock();
		return ct->owner;
	}
	/* The entries are there already. */
	if (ct->counted) {
		WRITE_ONCE(ct->counts[member], ct->counts[member] + nr);
		__cohort_set_maps(ct);
	} else {
		__cohort_count(ct);
	}
	sharer = cohort_find_sharer(mm, addr);
	if (ct->charged == sharer)
		return mm;
	run = cohort_run_of(sharer);
	i = sharer - run->sharers;
	if (run->seen[i] & COHORT_MAPS_GUESS) {
		__set_seen(run, i, ct->maps);
		return ct->owner;
	}
	resident = cohort_resident(ct);
	seen = cohort_maps_resident(run->seen[i]);
	if (resident < seen)
		update_hiwater_rss(mm);
	__set_seen(run, i, cohort_maps(min(seen + nr, resident),
				       cohort_maps_swap(run->seen[i])));
	return ct->owner;
}

unsigned int cohort_do_users(pmd_t *pmd)
{
	return READ_ONCE(cohort_ptdesc(*pmd)->pt_cohort->users);
}

/* True if @mm is the first in the table's list, whose lock is held. */
static bool is_first(struct cohort_table *ct, struct mm_struct *mm)
{
	return cohort_user(ct, list_first_entry(&ct->sharers,
						struct cohort_sharer,
						in_table)) == mm;
}

bool cohort_do_charged(struct mm_struct *mm, pmd_t *pmd)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;
	bool first;

	if (!ct->is_upper)
		return ct->owner == mm;
	/* No process is charged for a PMD table: choose one user. */
	spin_lock(&ct->upper_lock);
	first = is_first(ct, mm);
	spin_unlock(&ct->upper_lock);
	return first;
}

/*
 * Count one last-level table, and let the process's sum have what is there now.
 * Takes the table's lock only if an entry has changed since the last look.
 */
static void look_at(struct cohort_run *run, unsigned int i, struct cohort_look *l)
{
	struct cohort_sharer *sharer = &run->sharers[i];
	struct cohort_table *ct = READ_ONCE(sharer->table);
	bool owned;
	int j;

	if (!ct)
		return;
	owned = READ_ONCE(ct->charged) == sharer;
	/* Pairs with the release in __cohort_count(): then the counts are there. */
	if (!smp_load_acquire(&ct->counted) ||
	    (!owned && READ_ONCE(ct->maps) != READ_ONCE(run->seen[i]))) {
		/* RCU keeps record, table and lock; the lock shows if still used. */
		spin_lock(ptlock_ptr(ct->pt));
		if (sharer->table != ct) {
			spin_unlock(ptlock_ptr(ct->pt));
			return;
		}
		update_hiwater_rss(run->mm);
		__cohort_count(ct);
		__cohort_see(ct, sharer);
		owned = ct->charged == sharer;
		spin_unlock(ptlock_ptr(ct->pt));
	}
	if (!owned)
		for (j = 0; j < NR_MM_COUNTERS; j++)
			l->borrowed[j] += READ_ONCE(ct->counts[j]);
	if (READ_ONCE(ct->users) > 1) {
		l->shared++;
		l->owned += owned;
	}
	l->open += !!READ_ONCE(ct->open);
}

static void look_at_upper(struct cohort_upper_sharer *us, struct cohort_look *l)
{
	struct cohort_table *upper;
	struct mm_struct *account;
	long tables;
	int i;

	upper = READ_ONCE(us->sharer.table);
	if (!upper)
		return;
	spin_lock(&upper->upper_lock);
	if (us->sharer.table != upper)
		goto unlock;
	update_hiwater_rss(us->mm);
	__cohort_see_account(upper, us);
	account = upper->owner;
	tables = mm_pgtables_bytes(account) / PAGE_SIZE;
	for (i = 0; i < NR_MM_COUNTERS; i++)
		l->borrowed[i] += upper->counts[i];
	if (is_first(upper, us->mm))
		l->bytes += mm_pgtables_bytes(account);
	if (upper->users > 1) {
		/* All but the PMD table itself. */
		l->shared += tables - 1;
		l->owned += is_first(upper, us->mm) ? tables - 1 : 0;
		l->upper++;
	}
unlock:
	spin_unlock(&upper->upper_lock);
}

/*
 * Look at all tables of a process, without its mmap_lock. The caller holds a
 * reference to its users, so those of its records that have tables stay, and RCU keeps
 * the others. May sleep: between two runs it lets others have the processor
 * (invariant 13).
 */
static void look_at_all(struct mm_struct *mm, struct cohort_look *l)
{
	struct cohort_uses *uses = READ_ONCE(mm->cohort.uses);
	struct cohort_upper_sharer *us;
	struct cohort_run *run;
	unsigned long index;
	unsigned int i;

	memset(l, 0, sizeof(*l));
	if (!uses)
		return;
	rcu_read_lock();
	for (index = 0; (us = cohort_next_record(&uses->uppers, &index)); index++) {
		look_at_upper(us, l);
		cond_resched_rcu();
	}
	for (index = 0; (run = cohort_next_run(uses, &index)); index++) {
		unsigned long used = READ_ONCE(run->used);

		for_each_set_bit(i, &used, COHORT_RUN_TABLES)
			look_at(run, i, l);
		cond_resched_rcu();
	}
	rcu_read_unlock();
}

void cohort_do_borrowed(struct mm_struct *mm, unsigned long *counts)
{
	struct cohort_look l;
	int i;

	look_at_all(mm, &l);
	for (i = 0; i < NR_MM_COUNTERS; i++)
		counts[i] += l.borrowed[i];
}

void cohort_do_look(struct mm_struct *mm)
{
	struct cohort_look l;

	look_at_all(mm, &l);
}

void cohort_do_look_task(struct task_struct *task)
{
	struct task_struct *thread = find_lock_task_mm(task);
	struct mm_struct *mm;

	if (!thread)
		return;
	mm = thread->mm;
	mmget(mm);
	task_unlock(thread);
	cohort_look(mm);
	mmput(mm);
}

/*
 * A PMD table, with the tables in it, counts for the first of its users, so that
 * the sum over all processes is right.
 */
unsigned long cohort_do_pgtables_bytes(struct mm_struct *mm)
{
	struct cohort_look l;

	look_at_all(mm, &l);
	return l.bytes;
}

/**
 * cohort_count_tables() - how many tables a process shares now
 * @mm: the process
 * @l: filled in
 *
 * A table whose other users have all left is not shared, though its entry keeps
 * the mark until the process next writes or unshares.
 */
void cohort_count_tables(struct mm_struct *mm, struct cohort_look *l)
{
	look_at_all(mm, l);
}
