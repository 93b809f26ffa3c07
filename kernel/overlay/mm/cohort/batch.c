// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: what fork allocates and commits per region, in batches.
 *
 * A fork that shares tables still makes a region for each of its parent's, with a lock, an
 * anon_vma and links of it. With no entries to copy, calls of the allocator are a fifth of
 * what is left. So such a fork takes these objects from the allocator by the batch.
 *
 * The batch belongs to the parent while its mmap_lock is held for writing, so nobody else
 * makes regions from this address space's. It must not make a fork fail, or have
 * a process killed, that would have got its objects one by one: it is never larger than
 * what remains to be duplicated, does not insist on its memory, and without a batch the
 * object itself is asked for as before (invariants 8 and 14).
 */
#include <linux/mman.h>
#include <linux/rmap.h>
#include <linux/security.h>
#include <linux/slab.h>

#include "internal.h"

/* Begin a fork that shares. Without memory it allocates as any other. */
void cohort_batch_begin(struct cohort_fork *cf)
{
	struct cohort_batch *batch;
	int i;

	batch = kmalloc(sizeof(*batch), GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN);
	if (!batch)
		return;
	batch->parent = cf->oldmm;
	batch->child = cf->mm;
	for (i = 0; i < COHORT_NR_OBJECTS; i++) {
		batch->pool[i].cache = NULL;
		batch->pool[i].nr = 0;
		batch->pool[i].want = COHORT_BATCH;
	}
	/* Not every region has one: begin with few. */
	batch->pool[COHORT_ANON_VMA].want = 4;
	batch->pool[COHORT_ANON_VMA_CHAIN].want = 4;
	cf->batch = batch;
	cf->oldmm->cohort.batch = batch;
}

/**
 * cohort_do_batched() - begin a new batch
 * @batch: the batches of a fork; both processes are locked for writing
 * @pool: that of @batch which is empty
 * @cache: the cache of this kind of object
 * @gfp: as for kmem_cache_alloc()
 *
 * Return: an object, or NULL if the caller must allocate it.
 */
void *cohort_do_batched(struct cohort_batch *batch, struct cohort_pool *pool,
			struct kmem_cache *cache, gfp_t gfp)
{
	int left = batch->parent->map_count - batch->child->map_count;
	int want = min(left, pool->want);

	if (want < 2)
		return NULL;
	pool->cache = cache;
	pool->nr = kmem_cache_alloc_bulk(cache, gfp | __GFP_NORETRY | __GFP_NOWARN,
					 want, pool->object);
	if (!pool->nr) {
		/* Memory is short: do not reclaim for a batch at each object. */
		if (gfpflags_allow_blocking(gfp))
			pool->want = 0;
		return NULL;
	}
	pool->want = min(pool->want * 2, COHORT_BATCH);
	return pool->object[--pool->nr];
}

/* Initialise an anon_vma as anon_vma_alloc() does: keep the two alike. */
void cohort_do_anon_vma(struct anon_vma *anon_vma)
{
	atomic_set(&anon_vma->refcount, 1);
	anon_vma->num_children = 0;
	anon_vma->num_active_vmas = 0;
	anon_vma->parent = anon_vma;
	anon_vma->root = anon_vma;
}

static noinline void cohort_batch_free(struct cohort_batch *batch)
{
	int i;

	for (i = 0; i < COHORT_NR_OBJECTS; i++) {
		struct cohort_pool *pool = &batch->pool[i];

		if (pool->nr)
			kmem_cache_free_bulk(pool->cache, pool->nr, pool->object);
	}
	kfree(batch);
}

/**
 * cohort_do_fork_pay() - commit what a fork owes for the child's regions
 * @cf: the fork; both processes are locked for writing
 *
 * Paying later or for several regions at once does not change what may be committed: with
 * overcommit_memory=2 the sum counts, and no sum is as large as what 0 refuses.
 *
 * Return: 0, or -ENOMEM and it is owed as before.
 */
int cohort_do_fork_pay(struct cohort_fork *cf)
{
	if (cf->unpaid && security_vm_enough_memory_mm(cf->oldmm, cf->unpaid))
		return -ENOMEM;
	cf->unpaid = 0;
	return 0;
}

/**
 * cohort_do_fork_end() - let the child count for what it got, and free what is left over
 * @cf: the fork; both processes are locked for writing
 */
void cohort_do_fork_end(struct cohort_fork *cf)
{
	/* The fork has failed: what frees the child's regions takes this off. */
	if (cf->unpaid)
		vm_acct_memory(cf->unpaid);
	cohort_scale_guess(cf);
	cf->oldmm->cohort.batch = NULL;
	if (cf->batch)
		cohort_batch_free(cf->batch);
}
