// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: who is charged, and what a process uses in all.
 *
 * Each table has one owner, which is charged for the table and all its entries.
 * So fork counts nothing. What the others use through it is summed when somebody
 * asks, and the charge moves when the owner leaves (invariant 7).
 */
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include "internal.h"

/* Add what one entry is charged as to @counts. */
void cohort_count_entry(pte_t pte, unsigned long *counts)
{
	swp_entry_t entry;

	if (pte_none(pte))
		return;
	if (pte_present(pte)) {
		if (!pte_special(pte))
			counts[mm_counter(page_folio(pte_page(pte)))]++;
		return;
	}
	entry = pte_to_swp_entry(pte);
	if (!non_swap_entry(entry))
		counts[MM_SWAPENTS]++;
	else if (is_migration_entry(entry))
		counts[mm_counter(pfn_swap_entry_folio(entry))]++;
}

/* Bring @ct->counts up to date. T's lock is held. */
void __cohort_count(struct cohort_table *ct)
{
	pte_t *ptep = cohort_ptes(ct);
	int i;

	if (ct->counted)
		return;
	memset(ct->counts, 0, sizeof(ct->counts));
	for (i = 0; i < PTRS_PER_PTE; i++)
		cohort_count_entry(ptep_get(ptep + i), ct->counts);
	ct->counted = true;
}

struct mm_struct *__cohort_payer(pmd_t *pmd)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;

	ct->counted = false;
	return ct->owner;
}

struct mm_struct *__cohort_filler(pmd_t *pmd, unsigned long nr)
{
	count_vm_events(COHORT_FAULT_FILLED, nr);
	return __cohort_payer(pmd);
}

unsigned int __cohort_users(pmd_t *pmd)
{
	return cohort_ptdesc(*pmd)->pt_cohort->users;
}

bool __cohort_charged(struct mm_struct *mm, pmd_t *pmd)
{
	return cohort_ptdesc(*pmd)->pt_cohort->owner == mm;
}

typedef void (*table_fn)(struct cohort_table *ct, bool owned, void *arg);

/*
 * Call @fn for each shared table that @mm uses, with the table's lock held and
 * its counts up to date.
 */
static void walk_tables(struct mm_struct *mm, table_fn fn, void *arg)
{
	struct cohort_sharer *sharer;

	rcu_read_lock();
	list_for_each_entry_rcu(sharer, &mm->cohort.tables, in_mm) {
		struct cohort_table *ct = sharer->table;
		spinlock_t *ptl = ptlock_ptr(ct->pt);

		/* RCU keeps record, table and lock; the lock tells if in use. */
		spin_lock(ptl);
		if (!list_empty(&sharer->in_table)) {
			__cohort_count(ct);
			fn(ct, ct->owner == mm, arg);
		}
		spin_unlock(ptl);
	}
	rcu_read_unlock();
}

static void add_borrowed(struct cohort_table *ct, bool owned, void *arg)
{
	unsigned long *counts = arg;
	int i;

	for (i = 0; i < NR_MM_COUNTERS && !owned; i++)
		counts[i] += ct->counts[i];
}

void __cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
	walk_tables(mm, add_borrowed, counts);
}

unsigned long __cohort_borrowed_rss(struct mm_struct *mm)
{
	unsigned long counts[NR_MM_COUNTERS] = {};

	__cohort_borrowed(mm, counts);
	return counts[MM_FILEPAGES] + counts[MM_ANONPAGES] +
	       counts[MM_SHMEMPAGES];
}

static void add_part(struct cohort_table *ct, bool owned, void *arg)
{
	unsigned long sum = 0;
	long *points = arg;
	int i;

	for (i = 0; i < NR_MM_COUNTERS; i++)
		sum += ct->counts[i];
	*points += sum / ct->users;
	if (owned)
		*points -= sum;
}

long __cohort_badness(struct mm_struct *mm)
{
	long points = 0;

	walk_tables(mm, add_part, &points);
	return points;
}

static void add_table(struct cohort_table *ct, bool owned, void *arg)
{
	unsigned int *tables = arg;

	if (ct->users < 2)
		return;
	tables[0]++;
	tables[1] += owned;
}

/**
 * cohort_count_tables() - how many tables a process shares now
 * @mm: the process
 * @shared: tables that have other users
 * @owned: those of them that @mm is charged for
 *
 * A table whose last other user has left is not shared, though its entry keeps
 * the mark until the process touches it.
 */
void cohort_count_tables(struct mm_struct *mm, unsigned int *shared,
			 unsigned int *owned)
{
	unsigned int tables[2] = {};

	walk_tables(mm, add_table, tables);
	*shared = tables[0];
	*owned = tables[1];
}

/*
 * A swap entry was put into the table. Each of its users may be the one through
 * which swapoff must find it; the last swapoff has emptied the list. T's lock
 * is held.
 */
void __cohort_list_sharers(pmd_t *pmd)
{
#ifdef CONFIG_SWAP
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;
	struct cohort_sharer *sharer;

	list_for_each_entry(sharer, &ct->sharers, in_table) {
		if (!list_empty(&sharer->mm->mmlist))
			continue;
		spin_lock(&mmlist_lock);
		if (list_empty(&sharer->mm->mmlist))
			list_add(&sharer->mm->mmlist, &init_mm.mmlist);
		spin_unlock(&mmlist_lock);
	}
#endif
}
