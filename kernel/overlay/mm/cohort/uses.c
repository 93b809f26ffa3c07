// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: which shared tables a process uses.
 *
 * A record for each aligned 64 MB (&struct cohort_run), and one for each gigabyte whose
 * PMD table is shared (&struct cohort_upper_sharer), in arrays that are sorted by
 * address. A fork goes through its parent in this order, so it only appends.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "internal.h"

static struct kmem_cache *run_cache __ro_after_init;
static struct kmem_cache *upper_cache __ro_after_init;

/* The place of the first record from @index on. */
static unsigned int lower_bound(struct cohort_records *records,
				unsigned long index)
{
	/* Pairs with the release in make(): so many records are there. */
	unsigned int low = 0, high = smp_load_acquire(&records->nr);

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (records->at[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct cohort_records *
records_of(struct cohort_records __rcu *const *where)
{
	/*
	 * Only a holder of the mmap_lock for writing replaces the array, or of that for
	 * reading and of the lock of the records. Others hold the former, the lock of a
	 * table or of an entry, which keeps RCU waiting, or the RCU read lock.
	 */
	return rcu_dereference_check(*where, true);
}

/**
 * cohort_next_record() - the first record of a process from a place on
 * @where: its records of one kind
 * @index: the place, in steps of a record's range; set to that of the record
 *
 * Return: the record, or NULL if there is none.
 */
void *cohort_next_record(struct cohort_records __rcu *const *where,
			 unsigned long *index)
{
	struct cohort_records *records = records_of(where);
	unsigned int i = records ? lower_bound(records, *index) : 0;

	/* As in lower_bound(). */
	if (!records || i >= smp_load_acquire(&records->nr))
		return NULL;
	*index = records->at[i].index;
	return records->at[i].record;
}

/* As cohort_next_record(), for the next PMD table that the process uses now. */
struct cohort_upper_sharer *cohort_next_upper(struct cohort_uses *uses,
					      unsigned long *index)
{
	struct cohort_upper_sharer *us;

	while ((us = cohort_next_record(&uses->uppers, index))) {
		if (READ_ONCE(us->sharer.table))
			break;
		++*index;
	}
	return us;
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

/* What a process uses, made if there is nothing yet; NULL without memory. */
struct cohort_uses *cohort_uses_make(struct mm_struct *mm, gfp_t gfp)
{
	struct cohort_uses *uses = READ_ONCE(mm->cohort.uses), *old;

	if (uses)
		return uses;
	uses = kzalloc(sizeof(*uses), gfp);
	if (!uses)
		return NULL;
	mutex_init(&uses->lock);
	/* Pairs with the dependency in look_at_all(). Another thread may be faster. */
	old = cmpxchg_release(&mm->cohort.uses, NULL, uses);
	if (!old)
		return uses;
	kfree(uses);
	return old;
}

static struct cohort_records *records_alloc(unsigned int room, gfp_t gfp)
{
	struct cohort_records *records;

	records = kvmalloc(struct_size(records, at, room), gfp);
	if (records) {
		records->room = room;
		records->nr = 0;
	}
	return records;
}

/* A larger array, with the records of @old and room for one more at @i. */
static struct cohort_records *grow(struct cohort_records *old, unsigned int i,
				   gfp_t gfp)
{
	unsigned int nr = old ? old->nr : 0;
	struct cohort_records *records = records_alloc(max(2 * nr, 8U), gfp);

	if (!records)
		return NULL;
	records->nr = nr;
	if (nr) {
		memcpy(records->at, old->at, i * sizeof(*old->at));
		memcpy(records->at + i + 1, old->at + i,
		       (nr - i) * sizeof(*old->at));
	}
	return records;
}

/*
 * The record for a place, made from @cache if there is none yet, or NULL without memory.
 * @place says where to look first, and is set to where the next one would be.
 */
static void *make(struct cohort_records __rcu **where, unsigned long index,
		  unsigned int *place, struct kmem_cache *cache, gfp_t gfp)
{
	struct cohort_records *old = records_of(where), *records = old;
	void *record;
	unsigned int i;

	if (old && *place < old->nr && old->at[*place].index == index)
		return old->at[(*place)++].record;
	if (old && old->nr && old->at[old->nr - 1].index < index)
		i = old->nr;
	else
		i = old ? lower_bound(old, index) : 0;
	*place = i + 1;
	if (old && i < old->nr && old->at[i].index == index)
		return old->at[i].record;
	/* Readers may be in the array: only its end may grow. */
	if (!old || i < old->nr || old->nr == old->room)
		records = grow(old, i, gfp);
	if (!records)
		return NULL;
	record = kmem_cache_alloc(cache, gfp);
	if (!record) {
		if (records != old)
			kvfree(records);
		return NULL;
	}
	records->at[i].index = index;
	records->at[i].record = record;
	/* The record before the count that shows it. */
	smp_store_release(&records->nr, records->nr + 1);
	if (records != old) {
		rcu_assign_pointer(*where, records);
		if (old)
			kvfree_rcu(old, rcu);
	}
	return record;
}

/**
 * cohort_run_make() - the record of a process's use of the tables of 64 MB
 * @mm: the process; its mmap_lock is held for writing, or for reading with the lock of
 *	its records
 * @addr: an address in the range
 * @place: where to look first, 0 or as the last call has set it
 * @gfp: how to allocate
 *
 * Return: the record, made if there is none yet, or NULL without memory.
 */
struct cohort_run *cohort_run_make(struct mm_struct *mm, unsigned long addr,
				   unsigned int *place, gfp_t gfp)
{
	struct cohort_uses *uses = cohort_uses_make(mm, gfp);
	struct cohort_run *run;

	run = uses ? make(&uses->runs, addr >> COHORT_RUN_SHIFT, place,
			  run_cache, gfp) : NULL;
	if (run) {
		run->mm = mm;
		run->base = addr & -(1UL << COHORT_RUN_SHIFT);
	}
	return run;
}

/* As cohort_run_make(), for a caller that holds the mmap_lock for reading only. */
struct cohort_run *cohort_run_make_shared(struct mm_struct *mm,
					  unsigned long addr, gfp_t gfp)
{
	struct cohort_uses *uses = cohort_uses_make(mm, gfp);
	struct cohort_run *run;
	unsigned int place = 0;

	if (!uses)
		return NULL;
	mutex_lock(&uses->lock);
	run = cohort_run_make(mm, addr, &place, gfp);
	mutex_unlock(&uses->lock);
	return run;
}

/* As cohort_run_make(), for a process's use of the PMD table of a gigabyte. */
struct cohort_upper_sharer *cohort_upper_make(struct mm_struct *mm,
					      unsigned long addr, gfp_t gfp)
{
	struct cohort_uses *uses = cohort_uses_make(mm, gfp);
	struct cohort_upper_sharer *us;
	unsigned int place = 0;

	us = uses ? make(&uses->uppers, addr >> PUD_SHIFT, &place,
			 upper_cache, gfp) : NULL;
	if (us) {
		us->mm = mm;
		us->addr = addr & PUD_MASK;
	}
	return us;
}

/* An array that was replaced, and those of its records that are not in the new one. */
struct trimmed {
	struct rcu_work work;
	struct cohort_records *old;
	unsigned long dead[];
};

static void free_trimmed(struct work_struct *work)
{
	struct trimmed *t = container_of(to_rcu_work(work), struct trimmed, work);
	unsigned int i;

	for_each_set_bit(i, t->dead, t->old->nr) {
		kmem_cache_free(run_cache, t->old->at[i].record);
		cond_resched();
	}
	kvfree(t->old);
	kvfree(t);
}

/* Fork and munmap() go on without it, and need no reclaim for it. */
#define GFP_TRIM	(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)

/**
 * cohort_uses_trim() - forget the records of runs that a process has left, if they are most
 * @mm: the process; its mmap_lock is held for writing
 *
 * So the records are at most some more than twice the tables that it uses, however many it
 * has used (invariant 13), as long as there is memory for a new array. Nobody has a record
 * without a table meanwhile: who makes one holds the mmap_lock until it has a table, and who
 * looks without it is in RCU's care.
 */
void cohort_uses_trim(struct mm_struct *mm)
{
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_records *old = uses ? records_of(&uses->runs) : NULL;
	unsigned int used = 0, i;
	struct cohort_records *new;
	struct trimmed *t;

	mmap_assert_write_locked(mm);
	if (!old || old->nr <= 2 * (unsigned int)atomic_read(&mm->cohort.nr_tables) +
			       COHORT_RUNS_KEPT)
		return;
	for (i = 0; i < old->nr; i++) {
		struct cohort_run *run = old->at[i].record;

		used += !!READ_ONCE(run->used);
		cond_resched();
	}
	/* Without memory it is for later. */
	new = records_alloc(used + COHORT_RUNS_KEPT, GFP_TRIM);
	t = kvzalloc(struct_size(t, dead, BITS_TO_LONGS(old->nr)), GFP_TRIM);
	if (!new || !t) {
		kvfree(new);
		kvfree(t);
		return;
	}
	/* A fault may leave the last table of one meanwhile, but uses no new one. */
	for (i = 0; i < old->nr; i++) {
		struct cohort_run *run = old->at[i].record;

		if (READ_ONCE(run->used))
			new->at[new->nr++] = old->at[i];
		else
			__set_bit(i, t->dead);
		cond_resched();
	}
	rcu_assign_pointer(uses->runs, new);
	t->old = old;
	INIT_RCU_WORK(&t->work, free_trimmed);
	queue_rcu_work(system_unbound_wq, &t->work);
}

static bool reserve(struct cohort_records __rcu **where,
		    struct cohort_records __rcu *const *like)
{
	struct cohort_records *old = records_of(like), *records;

	if (!old)
		return true;
	records = records_alloc(old->nr, GFP_KERNEL_ACCOUNT);
	rcu_assign_pointer(*where, records);
	return records;
}

/**
 * cohort_uses_like() - give a child room for as many records as its parent has
 * @mm: the child
 * @oldmm: the parent; both are locked for writing
 *
 * Return: false without memory.
 */
bool cohort_uses_like(struct mm_struct *mm, struct mm_struct *oldmm)
{
	struct cohort_uses *uses;

	if (mm->cohort.uses)
		return true;
	uses = cohort_uses_make(mm, GFP_KERNEL_ACCOUNT);
	return uses && reserve(&uses->runs, &oldmm->cohort.uses->runs) &&
	       reserve(&uses->uppers, &oldmm->cohort.uses->uppers);
}

static void records_free(struct cohort_records __rcu *const *where,
			 struct kmem_cache *cache)
{
	struct cohort_records *records = records_of(where);
	unsigned int i;

	for (i = 0; records && i < records->nr; i++) {
		kmem_cache_free(cache, records->at[i].record);
		cond_resched();
	}
	kvfree(records);
}

/**
 * cohort_uses_free() - a process that has left all tables forgets its records
 * @mm: the process, on which no thread runs
 */
void cohort_uses_free(struct mm_struct *mm)
{
	struct cohort_uses *uses = mm->cohort.uses;

	VM_WARN_ON_ONCE_MM(atomic_read(&mm->cohort.nr_tables) ||
			   atomic_long_read(&mm->cohort.rss) ||
			   cohort_guessed(mm) ||
			   atomic_long_read(&mm->cohort.swap) ||
			   atomic_long_read(&mm->cohort.borrowed), mm);
	mm->cohort.uses = NULL;
	records_free(&uses->runs, run_cache);
	records_free(&uses->uppers, upper_cache);
	kfree(uses);
}

/* A record is as new when all its tables have been left, so this is done once. */
static void run_init(void *run)
{
	memset(run, 0, sizeof(struct cohort_run));
}

static void upper_init(void *us)
{
	memset(us, 0, sizeof(struct cohort_upper_sharer));
}

void __init cohort_uses_init(void)
{
	/* A sharer leads to its run by the alignment: see cohort_run_of(). */
	BUILD_BUG_ON(sizeof(struct cohort_run) > COHORT_RUN_BYTES);
	/* Nor does a run go over the end of a PMD table: see cohort_user_pmd(). */
	BUILD_BUG_ON(PTRS_PER_PMD > 1 && PTRS_PER_PMD < COHORT_RUN_TABLES);
	run_cache = kmem_cache_create("cohort_run", sizeof(struct cohort_run),
				      COHORT_RUN_BYTES,
				      SLAB_PANIC | SLAB_ACCOUNT, run_init);
	upper_cache = kmem_cache_create("cohort_upper",
					sizeof(struct cohort_upper_sharer), 0,
					SLAB_PANIC | SLAB_ACCOUNT, upper_init);
}
