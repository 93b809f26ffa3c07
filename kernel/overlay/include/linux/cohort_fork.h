/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: fork, and the end of an address space.
 */
#ifndef _LINUX_COHORT_FORK_H
#define _LINUX_COHORT_FORK_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

#include <linux/cohort_tlb_group.h>

#include <linux/cohort_babelfish.h>
#include <linux/cohort_group.h>

struct cohort_batch;
struct kmem_cache;

/* What a fork allocates for each region. */
enum cohort_object {
	COHORT_VMA,
	COHORT_VMA_LOCK,
	COHORT_ANON_VMA,
	COHORT_ANON_VMA_CHAIN,
	COHORT_NR_OBJECTS,
};

/**
 * struct cohort_fork - the state of a fork that duplicates the parent's regions
 * @sharing: this fork shares tables; the other fields are valid only then
 * @alone: nobody else needs the lock of a region
 * @shareable: the tables of @prev may be shared
 * @refused: a region in the table at @base may not be shared
 * @cow: a region in the table at @base is private memory
 * @mm: the child
 * @oldmm: the parent
 * @prev: the parent's region that is being duplicated
 * @batch: what it has allocated for regions to come; NULL without memory
 * @whole: a region for which PMD tables may be shared that hold nothing else, or NULL
 * @slot: where the child's tree holds the current region
 * @base: below this address all tables are shared or copied
 * @unpaid: pages of regions that it has duplicated and not committed yet
 * @uncopied: pages of which the child gets none if they are a file's
 * @wiped: pages of which the child gets none
 */
struct cohort_fork {
	bool sharing;
	bool alone;
	bool shareable;
	bool refused;
	bool cow;
	struct mm_struct *mm;
	struct mm_struct *oldmm;
	struct vm_area_struct *prev;
	struct vm_area_struct *whole;
	struct cohort_batch *batch;
	void __rcu **slot;
	unsigned long base;
	unsigned long refused_upper;
	unsigned long unpaid;
	unsigned long uncopied;
	unsigned long wiped;
};

/* Declare @name: the state of a fork that shares, else NULL, so that its calls do nothing. */
#define DECLARE_COHORT_FORK(name, shares)				\
	struct cohort_fork state_of_##name, *const name =		\
		(shares) ? &state_of_##name : NULL

#define COHORT_BATCH	28

/*
 * What a fork may leave unpaid, in pages: small enough that overcommit_memory=0, which
 * refuses a region that is larger than RAM and swap, refuses no sum of smaller ones.
 */
#define COHORT_UNPAID	1024

/**
 * struct cohort_pool - objects of one kind
 * @cache: where they come from; NULL before the first
 * @nr: how many are left in @object
 * @want: how many to allocate next
 * @object: the objects
 */
struct cohort_pool {
	struct kmem_cache *cache;
	unsigned int nr;
	int want;
	void *object[COHORT_BATCH];
};

/**
 * struct cohort_batch - what a fork has allocated and not used yet
 * @parent: the process that forks
 * @child: the one that it makes
 * @pool: by &enum cohort_object
 */
struct cohort_batch {
	struct mm_struct *parent;
	struct mm_struct *child;
	struct cohort_pool pool[COHORT_NR_OBJECTS];
};

void cohort_do_exit_mmap(struct mm_struct *mm);
void cohort_do_fork_failed(struct mm_struct *mm);
bool cohort_do_fork_shares(struct mm_struct *mm);
void cohort_do_fork_begin(struct cohort_fork *cf, struct mm_struct *mm,
			  struct mm_struct *oldmm);
int cohort_do_fork_next(struct cohort_fork *cf, struct vm_area_struct *vma);
int cohort_do_fork_pay(struct cohort_fork *cf);
void cohort_do_fork_end(struct cohort_fork *cf);
void *cohort_do_batched(struct cohort_batch *batch, struct cohort_pool *pool,
			struct kmem_cache *cache, gfp_t gfp);
void cohort_do_anon_vma(struct anon_vma *anon_vma);

static inline void cohort_exit_mmap(struct mm_struct *mm)
{
	cohort_bf_exit(mm);
	/* Its records stay until here, even if it has left all tables. */
	if (unlikely(mm->cohort.uses))
		cohort_do_exit_mmap(mm);
	cohort_set_group(mm, NULL);
}

/*
 * Where a process is listed for swapoff that gets swap entries of @mm: behind it, where a
 * swapoff that walks the list comes next; or first, as @mm need not be listed if the
 * entries are in a table that another process owns. The caller holds mmlist_lock.
 */
static inline struct list_head *cohort_mmlist(struct mm_struct *mm)
{
	return unlikely(list_empty(&mm->mmlist)) ? &init_mm.mmlist : &mm->mmlist;
}

/* The fork has failed: @mm lacks regions. The parent is still locked. */
static inline void cohort_fork_failed(struct mm_struct *mm)
{
	if (mm_cohort_upper(mm))
		cohort_do_fork_failed(mm);
}

/* True if a fork of @mm, which need not be locked, is likely to share. */
static inline bool cohort_fork_shares(struct mm_struct *mm)
{
	return cohort_active() && cohort_do_fork_shares(mm);
}

/* Other calls for a fork do nothing if @cf is NULL, as for one that does not share. */
static inline void cohort_fork_begin(struct cohort_fork *cf,
				     struct mm_struct *mm,
				     struct mm_struct *oldmm)
{
	if (cf)
		cf->sharing = false;
	/* dup_mm() copied these before it took the parent's lock. */
	mm->cohort.apart = READ_ONCE(oldmm->cohort.apart);
	mm->cohort.watched = READ_ONCE(oldmm->cohort.watched);
	if (!cohort_active())
		return;
	cohort_tlb_fork(mm, oldmm);
	cohort_do_fork_begin(cf, mm, oldmm);
}

static inline bool cohort_forking(struct cohort_fork *cf)
{
	return cf && likely(cf->sharing);
}

/*
 * The next region to duplicate. The child's tree has no other readers yet, so the next
 * entry of the same node is found without what mas_find() does for them.
 */
static inline struct vm_area_struct *cohort_fork_region(struct vma_iterator *vmi,
							struct cohort_fork *cf)
{
	struct vm_area_struct *vma;

	if (!cohort_forking(cf))
		return mas_find(&vmi->mas, ULONG_MAX);
	vma = mas_next_in_node(&vmi->mas, &cf->slot);
	if (!vma) {
		vma = mas_find(&vmi->mas, ULONG_MAX);
		if (vma)
			cf->slot = mas_entry_slot(&vmi->mas);
	}
	return vma;
}

/*
 * Mark a region of the parent as vma_start_write() would, if there is no reader to wait for:
 * nobody does anything with it who has only its lock.
 */
static inline bool cohort_fork_locked(struct cohort_fork *cf,
				      struct vm_area_struct *vma)
{
	if (!cohort_forking(cf) || !cf->alone)
		return false;
#ifdef CONFIG_PER_VMA_LOCK
	WRITE_ONCE(vma->vm_lock_seq, cf->oldmm->mm_lock_seq.sequence);
#endif
	return true;
}

/* Call for each region of the parent before it is duplicated, then for NULL. */
static inline int cohort_fork_next(struct cohort_fork *cf,
				   struct vm_area_struct *vma)
{
	return cohort_forking(cf) ? cohort_do_fork_next(cf, vma) : 0;
}

/* True if cohort_fork_next() shares or copies the current region's tables. */
static inline bool cohort_fork_copies(struct cohort_fork *cf)
{
	return cohort_forking(cf) && cf->shareable;
}

/*
 * As cohort_fork_copies(), for a child's region that nobody can find yet. It counts as
 * locked for writing from here on, as vma_start_write() would leave it.
 */
static inline bool cohort_fork_dup(struct cohort_fork *cf,
				   struct vm_area_struct *vma)
{
	if (!cohort_fork_copies(cf))
		return false;
#ifdef CONFIG_PER_VMA_LOCK
	vma->vm_lock_seq = vma->vm_mm->mm_lock_seq.sequence;
#endif
	return true;
}

/*
 * True if a region's @pages are committed later, small regions together. If what is owed
 * cannot be paid now, the end of the fork tries again, and regions until then pay at once.
 */
static inline bool cohort_fork_owes(struct cohort_fork *cf, unsigned long pages)
{
	if (!cohort_forking(cf) || pages > COHORT_UNPAID)
		return false;
	if (cf->unpaid + pages > COHORT_UNPAID && cohort_do_fork_pay(cf))
		return false;
	cf->unpaid += pages;
	return true;
}

/* Call when all regions are duplicated. Return: 0, or -ENOMEM if they commit too much. */
static inline int cohort_fork_paid(struct cohort_fork *cf)
{
	return cohort_forking(cf) ? cohort_do_fork_pay(cf) : 0;
}

/* False if anon_vma_fork() has nothing to do for the parent's region, and need not run. */
static inline bool cohort_fork_anon(struct cohort_fork *cf,
				    struct vm_area_struct *vma)
{
	return !cohort_forking(cf) || vma->anon_vma;
}

/* Put the child's region in the parent's place, which cohort_fork_region() found, if sharing. */
static inline bool cohort_fork_store(struct cohort_fork *cf,
				     struct vm_area_struct *vma)
{
	if (!cohort_forking(cf))
		return false;
	rcu_assign_pointer(*cf->slot, vma);
	return true;
}

/* All regions are duplicated, or the fork has failed. */
static inline void cohort_fork_end(struct cohort_fork *cf)
{
	if (cohort_forking(cf))
		cohort_do_fork_end(cf);
}

static inline struct cohort_batch *cohort_fork_batch(struct cohort_fork *cf)
{
	return cohort_forking(cf) ? cf->batch : NULL;
}

/* The batch of a fork of @mm, whose mmap_lock is held for writing, or NULL. */
static inline struct cohort_batch *cohort_batch(struct mm_struct *mm)
{
	return cohort_active() ? mm->cohort.batch : NULL;
}

/* An object for a copy of a region, or NULL if the caller is to allocate it. */
static inline void *cohort_batched(struct cohort_batch *batch,
				   enum cohort_object what,
				   struct kmem_cache *cache, gfp_t gfp)
{
	struct cohort_pool *pool;

	if (likely(!batch))
		return NULL;
	pool = &batch->pool[what];
	if (likely(pool->nr))
		return pool->object[--pool->nr];
	return cohort_do_batched(batch, pool, cache, gfp);
}

/* As cohort_batched(), for what anon_vma_alloc() returns. */
static inline struct anon_vma *
cohort_batched_anon_vma(struct cohort_batch *batch, struct kmem_cache *cache)
{
	struct anon_vma *anon_vma;

	anon_vma = cohort_batched(batch, COHORT_ANON_VMA, cache, GFP_KERNEL);
	if (anon_vma)
		cohort_do_anon_vma(anon_vma);
	return anon_vma;
}

#else /* !CONFIG_COHORT */

#define cohort_mmlist(mm)		(&(mm)->mmlist)

#define DECLARE_COHORT_FORK(...)
#define cohort_batched(...)		NULL
#define cohort_batched_anon_vma(...)	NULL
#define cohort_exit_mmap(...)		do { } while (0)
#define cohort_fork_failed(...)		do { } while (0)
#define cohort_fork_begin(...)		do { } while (0)
#define cohort_fork_next(...)		0
#define cohort_fork_region(vmi, ...)	vma_next(vmi)
#define cohort_fork_locked(...)		false
#define cohort_fork_owes(...)		false
#define cohort_fork_paid(...)		0
#define cohort_fork_anon(...)		true
#define cohort_fork_copies(...)		false
#define cohort_fork_dup(...)		false
#define cohort_fork_end(...)		do { } while (0)
#define cohort_fork_store(...)		false

#endif /* CONFIG_COHORT */
#endif /* _LINUX_COHORT_FORK_H */
