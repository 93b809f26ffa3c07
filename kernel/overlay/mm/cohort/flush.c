// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: flushing the users of a table, and no other process.
 */
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/percpu.h>

#include <asm/cohort_tlb.h>

#include "internal.h"

/* Begin to flush one user, and wait for all that have begun. */
#ifndef arch_cohort_flush_begin
#define arch_cohort_flush_begin	arch_cohort_flush_user
#define arch_cohort_flush_wait()	do { } while (0)
#endif

/*
 * Flush few users one by one, the range alone; more of them if all that takes few
 * invalidations. Else flush whole TLBs: to keep the rest of them is not worth it.
 */
static bool flush_singly(unsigned int users, unsigned long start,
			 unsigned long end)
{
	return users <= ARCH_COHORT_FLUSH_USERS ||
	       users * ((end - start) >> PAGE_SHIFT) <= ARCH_COHORT_FLUSH_PAGES;
}

/* How many bytes a table maps. */
static unsigned long table_size(struct cohort_table *ct)
{
	return ct->is_upper ? PUD_SIZE : PMD_SIZE;
}

/*
 * Visit up to this many users to find the processors that run them. More users are
 * likely to have run everywhere, and to visit 10,000 under T's lock would take too
 * long (invariant 13): flush every processor instead.
 */
#define COHORT_FLUSH_USERS	128

#ifdef ARCH_COHORT_BATCH
/* Too large for the stack. Used under T's lock, so without preemption. */
static DEFINE_PER_CPU(struct arch_tlbflush_unmap_batch, flush_batch);

/*
 * Let a batch flush all users. A processor is interrupted only if it runs a user
 * now; users that run nowhere flush by their generation when switched to.
 */
static void add_users(struct arch_tlbflush_unmap_batch *batch,
		      struct cohort_table *ct)
{
	struct cohort_sharer *sharer;

	list_for_each_entry(sharer, &ct->sharers, in_table)
		arch_cohort_add_flush(batch, cohort_user(ct, sharer));
}

static void flush_batched(struct cohort_table *ct)
{
	struct arch_tlbflush_unmap_batch *batch = get_cpu_ptr(&flush_batch);

	add_users(batch, ct);
	arch_tlbbatch_flush(batch);
	put_cpu_ptr(&flush_batch);
}
#else
static void flush_batched(struct cohort_table *ct)
{
	flush_tlb_all();
}
#endif

/*
 * Begin to flush a range for all users, each at its own addresses. The table's lock is
 * held, which protects the list, and interrupts are on.
 */
static void begin_flush(struct cohort_table *ct, unsigned long start,
			unsigned long end)
{
	unsigned long offset = start & (table_size(ct) - 1);
	struct cohort_sharer *sharer;

	if (cohort_bf_active())
		__cohort_bf_flush(ct, start, end);
	if (!ct->spread && arch_cohort_flush_wide(ct->users, start, end))
		return;
	if (flush_singly(ct->users, start, end)) {
		list_for_each_entry(sharer, &ct->sharers, in_table) {
			unsigned long at = cohort_user_addr(ct, sharer) + offset;

			arch_cohort_flush_begin(cohort_user(ct, sharer), at,
						at + (end - start));
		}
		return;
	}
	if (ct->users > COHORT_FLUSH_USERS) {
		flush_tlb_all();
		return;
	}
	flush_batched(ct);
}

/* As begin_flush(); no user's TLB has the range any more when it returns. */
static void flush_sharers(struct cohort_table *ct, unsigned long start,
			  unsigned long end)
{
	begin_flush(ct, start, end);
	arch_cohort_flush_wait();
}

static void flush_table(struct cohort_table *ct, unsigned long start,
			unsigned long end)
{
	if (!ct->is_upper) {
		flush_sharers(ct, start, end);
		return;
	}
	/*
	 * Pairs with the barrier in cohort_share_upper(): a child that is not on
	 * the list yet finds the entries as they are now.
	 */
	smp_mb();
	spin_lock(&ct->upper_lock);
	flush_sharers(ct, start, end);
	spin_unlock(&ct->upper_lock);
}

/*
 * Flush a range for all users of the table under @pmd, whose own lock (that of
 * the last-level table) is held: invariant 4.
 */
void __cohort_flush(pmd_t *pmd, unsigned long start, unsigned long end)
{
	flush_table(cohort_ptdesc(*pmd)->pt_cohort, start, end);
}

bool cohort_do_flush_ptes(pte_t *ptep, unsigned long start, unsigned long end)
{
	struct cohort_table *ct = virt_to_ptdesc(ptep)->pt_cohort;

	/* Its last user has taken it back. */
	if (!ct)
		return false;
	flush_table(ct, start, end);
	return true;
}

#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
#ifdef ARCH_COHORT_BATCH
/* The batch interrupts processors at its end. */
static void batch_users(struct tlbflush_unmap_batch *ubc,
			struct cohort_table *ct, unsigned long addr)
{
	if (ct->users > COHORT_FLUSH_USERS)
		ubc->cohort_all = true;
	else if (!ubc->cohort_all)
		add_users(&ubc->arch, ct);
}
#else
/*
 * Invalidate while T's lock is held: after that, a fault may write entries that the
 * architecture holds together, which needs break before make. The batch waits at its end.
 */
static void batch_users(struct tlbflush_unmap_batch *ubc,
			struct cohort_table *ct, unsigned long addr)
{
	begin_flush(ct, addr, addr + PAGE_SIZE);
}
#endif

static void defer_users(struct cohort_table *ct, unsigned long addr)
{
	struct tlbflush_unmap_batch *ubc = &current->tlb_ubc;

	/* To flush all drops what BabelFish's TLBs share, too, on processors without users. */
	if (__cohort_bf_shares(ct))
		ubc->cohort_all = true;
	else
		batch_users(ubc, ct, addr);
	WRITE_ONCE(ct->deferred, true);
}

/*
 * Add all users to the caller's batch. Until it has flushed, a user may reach the
 * page by its TLB though the entry is clear, so T remembers it, as mm->
 * tlb_flush_batched does for an ordinary table: who next zaps entries of T, or takes
 * T back, flushes first. Whoever leaves T flushes all of it anyway.
 */
static void defer_flush(struct cohort_table *ct, unsigned long addr, pte_t pte)
{
	struct tlbflush_unmap_batch *ubc = &current->tlb_ubc;

	if (ct->is_upper) {
		/* As in __cohort_flush(). */
		smp_mb();
		spin_lock(&ct->upper_lock);
		defer_users(ct, addr);
		spin_unlock(&ct->upper_lock);
	} else {
		defer_users(ct, addr);
	}
	ubc->flush_required = true;
	if (pte_dirty(pte))
		ubc->writable = true;
}
#endif

/*
 * Clear the mark after the flush (invariant 4): code that zaps entries of another table
 * below the same PMD table reads it without the lock, and does not flush if it is clear.
 */
static void flush_deferred(struct cohort_table *ct)
{
	flush_sharers(ct, ct->addr, ct->addr + table_size(ct));
	WRITE_ONCE(ct->deferred, false);
}

/*
 * Do at once for all users what a batch may not have done yet. The lock of a table
 * whose entry was cleared is held: of a PMD table any in it, and what a batch clears in
 * another meanwhile sets the word again.
 */
void __cohort_flush_deferred(struct cohort_table *ct)
{
	if (ct->is_upper) {
		spin_lock(&ct->upper_lock);
		flush_deferred(ct);
		spin_unlock(&ct->upper_lock);
	} else {
		flush_deferred(ct);
	}
}

pte_t cohort_do_clear_flush(struct mm_struct *mm, pmd_t *pmd,
			    unsigned long addr, pte_t *ptep, bool batch)
{
	pte_t pte = ptep_get_and_clear(mm, addr, ptep);

	if (!pte_accessible(mm, pte))
		return pte;
#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
	if (batch) {
		defer_flush(cohort_ptdesc(*pmd)->pt_cohort, addr, pte);
		return pte;
	}
#endif
	__cohort_flush(pmd, addr, addr + PAGE_SIZE);
	return pte;
}

#ifdef CONFIG_ARCH_WANT_BATCHED_UNMAP_TLB_FLUSH
void cohort_do_flush_deferred(struct tlbflush_unmap_batch *ubc)
{
	ubc->cohort_all = false;
	flush_tlb_all();
}
#endif
