// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: which shared tables a process uses.
 *
 * A record for each aligned 64 MB (&struct cohort_run), in an array that is sorted by
 * address. A fork goes through its parent in this order, so it only appends.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "internal.h"

static struct kmem_cache *run_cache __ro_after_init;

/* The place of the first record from @index on. */
static unsigned int lower_bound(struct cohort_runs *runs, unsigned long index)
{
	unsigned int low = 0, high = smp_load_acquire(&runs->nr);

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (runs->at[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct cohort_runs *runs_of(struct cohort_uses *uses)
{
	/*
	 * Only a holder of the mmap_lock for writing replaces the array. Others hold
	 * that lock, the lock of a table or of an entry, which keeps RCU waiting, or the
	 * RCU read lock.
	 */
	return rcu_dereference_check(uses->runs, true);
}

/**
 * cohort_next_run() - the first record of a process from a place on
 * @uses: its records
 * @index: the place, in steps of a record's range; set to that of the record
 *
 * Return: the record, or NULL if there is none.
 */
struct cohort_run *cohort_next_run(struct cohort_uses *uses,
				   unsigned long *index)
{
	struct cohort_runs *runs = runs_of(uses);
	unsigned int i = runs ? lower_bound(runs, *index) : 0;

	if (!runs || i >= smp_load_acquire(&runs->nr))
		return NULL;
	*index = runs->at[i].index;
	return runs->at[i].run;
}

/**
 * cohort_find_sharer() - a process's place for a last-level table
 * @mm: the process
 * @addr: an address that the table maps
 *
 * Return: the place, or NULL if there is none.
 */
struct cohort_sharer *cohort_find_sharer(struct mm_struct *mm,
					 unsigned long addr)
{
	unsigned long index = addr >> COHORT_RUN_SHIFT, found = index;
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_run *run;

	run = uses ? cohort_next_run(uses, &found) : NULL;
	return run && found == index ? &run->sharers[cohort_run_index(addr)] :
				       NULL;
}

/**
 * cohort_uses_make() - give a process room for records of shared tables
 * @mm: the process; its mmap_lock is held for writing
 *
 * Return: the room, or NULL without memory.
 */
struct cohort_uses *cohort_uses_make(struct mm_struct *mm)
{
	struct cohort_uses *uses = mm->cohort.uses;

	if (uses)
		return uses;
	uses = kzalloc(sizeof(*uses), GFP_KERNEL_ACCOUNT);
	if (!uses)
		return NULL;
	xa_init_flags(&uses->uppers, XA_FLAGS_ACCOUNT);
	/* Pairs with the dependency in look_at_all(). */
	smp_store_release(&mm->cohort.uses, uses);
	return uses;
}

static struct cohort_runs *runs_alloc(unsigned int room)
{
	struct cohort_runs *runs;

	runs = kvmalloc(struct_size(runs, at, room), GFP_KERNEL_ACCOUNT);
	if (runs) {
		runs->room = room;
		runs->nr = 0;
	}
	return runs;
}

/* A larger array, with the records of @old and room for one more at @i. */
static struct cohort_runs *grow(struct cohort_runs *old, unsigned int i)
{
	unsigned int nr = old ? old->nr : 0;
	struct cohort_runs *runs = runs_alloc(max(2 * nr, 8U));

	if (!runs)
		return NULL;
	runs->nr = nr;
	if (nr) {
		memcpy(runs->at, old->at, i * sizeof(*old->at));
		memcpy(runs->at + i + 1, old->at + i,
		       (nr - i) * sizeof(*old->at));
	}
	return runs;
}

/**
 * cohort_run_make() - the record of a process's use of the tables of 64 MB
 * @mm: the process; its mmap_lock is held for writing
 * @addr: an address in the range
 * @place: where to look first, 0 or as the last call has set it
 *
 * Return: the record, made if there is none yet, or NULL without memory.
 */
struct cohort_run *cohort_run_make(struct mm_struct *mm, unsigned long addr,
				   unsigned int *place)
{
	struct cohort_uses *uses = cohort_uses_make(mm);
	unsigned long index = addr >> COHORT_RUN_SHIFT;
	struct cohort_runs *runs, *old;
	struct cohort_run *run;
	unsigned int i;

	if (!uses)
		return NULL;
	runs = runs_of(uses);
	old = runs;
	if (runs && *place < runs->nr && runs->at[*place].index == index)
		return runs->at[(*place)++].run;
	if (runs && runs->nr && runs->at[runs->nr - 1].index < index)
		i = runs->nr;
	else
		i = runs ? lower_bound(runs, index) : 0;
	*place = i + 1;
	if (runs && i < runs->nr && runs->at[i].index == index)
		return runs->at[i].run;
	/* Readers may be in the array: only its end may grow. */
	if (!runs || i < runs->nr || runs->nr == runs->room)
		runs = grow(old, i);
	if (!runs)
		return NULL;
	run = kmem_cache_alloc(run_cache, GFP_KERNEL_ACCOUNT);
	if (!run) {
		if (runs != old)
			kvfree(runs);
		return NULL;
	}
	run->mm = mm;
	runs->at[i].index = index;
	runs->at[i].run = run;
	/* The record before the count that shows it. */
	smp_store_release(&runs->nr, runs->nr + 1);
	if (runs != old) {
		rcu_assign_pointer(uses->runs, runs);
		if (old)
			kfree_rcu(old, rcu);
	}
	return run;
}

/**
 * cohort_runs_reserve() - give a child room for as many records as its parent has
 * @mm: the child, which has no record
 * @oldmm: the parent; both are locked for writing
 *
 * Return: false without memory.
 */
bool cohort_runs_reserve(struct mm_struct *mm, struct mm_struct *oldmm)
{
	struct cohort_uses *uses = cohort_uses_make(mm);
	struct cohort_runs *runs, *old = runs_of(oldmm->cohort.uses);

	runs = uses && old ? runs_alloc(old->nr) : NULL;
	if (!runs)
		return false;
	rcu_assign_pointer(uses->runs, runs);
	return true;
}

/**
 * cohort_uses_free() - a process that has left all tables forgets its records
 * @mm: the process, on which no thread runs
 */
void cohort_uses_free(struct mm_struct *mm)
{
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_runs *runs = runs_of(uses);
	unsigned int i;

	VM_WARN_ON_ONCE_MM(atomic_read(&mm->cohort.nr_tables) ||
			   atomic_long_read(&mm->cohort.rss) ||
			   atomic_long_read(&mm->cohort.swap) ||
			   atomic_long_read(&mm->cohort.borrowed), mm);
	mm->cohort.uses = NULL;
	for (i = 0; runs && i < runs->nr; i++) {
		kmem_cache_free(run_cache, runs->at[i].run);
		cond_resched();
	}
	kvfree(runs);
	xa_destroy(&uses->uppers);
	kfree(uses);
}

/* A record is as new when all its tables have been left, so this is done once. */
static void run_init(void *run)
{
	memset(run, 0, sizeof(struct cohort_run));
}

void __init cohort_runs_init(void)
{
	/* A sharer leads to its run by the alignment: see cohort_run_of(). */
	BUILD_BUG_ON(sizeof(struct cohort_run) > COHORT_RUN_BYTES);
	/* Nor does a run go over the end of a PMD table: see cohort_user_pmd(). */
	BUILD_BUG_ON(PTRS_PER_PMD > 1 && PTRS_PER_PMD < COHORT_RUN_TABLES);
	run_cache = kmem_cache_create("cohort_run", sizeof(struct cohort_run),
				      COHORT_RUN_BYTES,
				      SLAB_PANIC | SLAB_ACCOUNT, run_init);
}
