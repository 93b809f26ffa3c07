// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: who is charged, and what a process uses in all.
 *
 * Each table has one owner, which is charged for the table and all its entries.
 * So fork counts nothing. What other users map through it is summed when it is
 * read, and the charge moves when the owner leaves (invariant 7).
 */
#include <linux/mm.h>
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
		if (!pte_special(pte))
			counts[mm_counter(page_folio(pte_page(pte)))]++;
		return;
	}
	entry = pte_to_swp_entry(pte);
	if (!non_swap_entry(entry))
		counts[MM_SWAPENTS]++;
	else if (is_migration_entry(entry) || is_device_private_entry(entry))
		counts[mm_counter(pfn_swap_entry_folio(entry))]++;
}

/* Add all entries of a last-level table to @counts. */
void cohort_count_ptes(pte_t *ptep, unsigned long *counts)
{
	int i;

	for (i = 0; i < PTRS_PER_PTE; i++)
		cohort_count_entry(ptep_get(ptep + i), counts);
}

/* Bring @ct->counts up to date. cohort_table_lock(@ct) is held. */
void __cohort_count(struct cohort_table *ct)
{
	int i;

	if (ct->is_upper) {
		for (i = 0; i < NR_MM_COUNTERS; i++)
			ct->counts[i] = get_mm_counter_sum(ct->owner, i);
		return;
	}
	if (ct->counted)
		return;
	memset(ct->counts, 0, sizeof(ct->counts));
	cohort_count_ptes(cohort_ptes(ct), ct->counts);
	ct->counted = true;
}

struct mm_struct *cohort_do_payer(pmd_t *pmd)
{
	struct cohort_table *ct = cohort_ptdesc(*pmd)->pt_cohort;

	ct->counted = false;
	return ct->owner;
}

struct mm_struct *cohort_do_filler(pmd_t *pmd, unsigned long nr)
{
	count_vm_events(COHORT_FAULT_FILLED, nr);
	return cohort_do_payer(pmd);
}

unsigned int cohort_do_users(pmd_t *pmd)
{
	return READ_ONCE(cohort_ptdesc(*pmd)->pt_cohort->users);
}

/* True if @mm is the first in the table's list, whose lock is held. */
static bool is_first(struct cohort_table *ct, struct mm_struct *mm)
{
	return list_first_entry(&ct->sharers, struct cohort_sharer,
				in_table)->mm == mm;
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

typedef void (*table_fn)(struct cohort_table *ct, struct mm_struct *mm,
			 void *arg);

static void walk_list(struct list_head *list, struct mm_struct *mm,
		      table_fn fn, void *arg)
{
	struct cohort_sharer *sharer;

	list_for_each_entry_rcu(sharer, list, in_mm) {
		struct cohort_table *ct = sharer->table;
		spinlock_t *lock = cohort_table_lock(ct);

		/* RCU keeps record, table and lock; the lock shows if still used. */
		spin_lock(lock);
		if (!list_empty(&sharer->in_table)) {
			__cohort_count(ct);
			fn(ct, mm, arg);
		}
		spin_unlock(lock);
	}
}

/*
 * Call @fn for each shared table that @mm uses, with the table's lock held and
 * its counts up to date.
 */
static void walk_tables(struct mm_struct *mm, table_fn fn, void *arg)
{
	rcu_read_lock();
	walk_list(&mm->cohort.uppers, mm, fn, arg);
	walk_list(&mm->cohort.tables, mm, fn, arg);
	rcu_read_unlock();
}

static void add_borrowed(struct cohort_table *ct, struct mm_struct *mm,
			 void *arg)
{
	unsigned long *counts = arg;
	int i;

	for (i = 0; i < NR_MM_COUNTERS && ct->owner != mm; i++)
		counts[i] += ct->counts[i];
}

void cohort_do_borrowed(struct mm_struct *mm, unsigned long *counts)
{
	walk_tables(mm, add_borrowed, counts);
}

unsigned long cohort_do_borrowed_rss(struct mm_struct *mm)
{
	unsigned long counts[NR_MM_COUNTERS] = {};

	cohort_do_borrowed(mm, counts);
	return counts[MM_FILEPAGES] + counts[MM_ANONPAGES] +
	       counts[MM_SHMEMPAGES];
}

static void add_part(struct cohort_table *ct, struct mm_struct *mm, void *arg)
{
	unsigned long sum = 0;
	long *points = arg;
	int i;

	for (i = 0; i < NR_MM_COUNTERS; i++)
		sum += ct->counts[i];
	if (ct->is_upper)
		sum += mm_pgtables_bytes(ct->owner) / PAGE_SIZE;
	*points += sum / ct->users;
	if (ct->owner == mm)
		*points -= sum;
}

long cohort_do_badness(struct mm_struct *mm)
{
	long points = 0;

	walk_tables(mm, add_part, &points);
	return points;
}

static void add_bytes(struct cohort_table *ct, struct mm_struct *mm, void *arg)
{
	unsigned long *bytes = arg;

	if (ct->is_upper && is_first(ct, mm))
		*bytes += mm_pgtables_bytes(ct->owner);
}

/*
 * A PMD table, with the tables in it, counts for the first of its users, so that
 * the sum over all processes is right.
 */
unsigned long cohort_do_pgtables_bytes(struct mm_struct *mm)
{
	unsigned long bytes = 0;

	walk_tables(mm, add_bytes, &bytes);
	return bytes;
}

struct tables {
	unsigned int shared, owned, upper;
};

static void add_table(struct cohort_table *ct, struct mm_struct *mm, void *arg)
{
	struct tables *tables = arg;
	unsigned int nr = 1;

	if (ct->users < 2)
		return;
	if (ct->is_upper) {
		/* All but the PMD table itself. */
		nr = mm_pgtables_bytes(ct->owner) / PAGE_SIZE - 1;
		tables->upper++;
	}
	tables->shared += nr;
	if (ct->is_upper ? is_first(ct, mm) : ct->owner == mm)
		tables->owned += nr;
}

/**
 * cohort_count_tables() - how many tables a process shares now
 * @mm: the process
 * @shared: last-level tables that have other users
 * @owned: those of them that are charged to @mm, or counted for it
 * @upper: PMD tables that have other users
 *
 * A table whose other users have all left is not shared, though its entry keeps
 * the mark until the process next writes or unshares.
 */
void cohort_count_tables(struct mm_struct *mm, unsigned int *shared,
			 unsigned int *owned, unsigned int *upper)
{
	struct tables tables = {};

	walk_tables(mm, add_table, &tables);
	*shared = tables.shared;
	*owned = tables.owned;
	*upper = tables.upper;
}

/*
 * A swap entry was put into the table. Put all users on swapoff's list, because
 * swapoff may have to find the entry through any of them, and the last swapoff has
 * emptied the list. T's lock is held.
 */
void cohort_do_list_sharers(pmd_t *pmd)
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
