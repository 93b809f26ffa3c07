/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what the files of mm/cohort/ share with each other.
 */
#ifndef _MM_COHORT_INTERNAL_H
#define _MM_COHORT_INTERNAL_H

#include <linux/cohort.h>
#include <linux/mm.h>
#include <linux/swap.h>

/**
 * struct cohort_table - a page table used by several processes
 * @pt: the table's page; its lock protects all fields of a last-level table
 * @addr: the first address that the table maps, the same in all users
 * @users: how many processes' upper-level entries point to it
 * @is_upper: a PMD table, see mm/cohort/upper.c; a pointer to the record of one
 *	      is named "upper", to any other "ct"
 * @upper_lock: protects @users and @sharers of a PMD table
 * @owner: the user that is charged for the table and all it maps; for a PMD table
 *	   an account of its own
 * @counts: what @owner is charged for its entries; valid if @counted
 * @counted: no entry has changed since @counts were taken
 * @copied: a user has copied the table, so none of its pages is exclusive
 * @scanned: the user through which KSM scans the table, NULL if not scanned yet
 * @sharers: a &struct cohort_sharer per user
 * @rcu: for readers of an mm's list of tables, which may hold a pointer
 *
 * Lives as long as any entry carries the mark. @pt->pt_cohort points to it, and may
 * be used after the mark was seen under the table's lock.
 */
struct cohort_table {
	struct ptdesc *pt;
	unsigned long addr;
	unsigned int users;
	bool is_upper;
	bool counted;
	bool copied;
	spinlock_t upper_lock; /* last-level tables use @pt's */
	struct mm_struct *owner;
	struct mm_struct *scanned;
	unsigned long counts[NR_MM_COUNTERS];
	struct list_head sharers;
	struct rcu_head rcu;
};

/**
 * struct cohort_sharer - one process's use of one shared table
 * @table: the table
 * @mm: the process
 * @pmd: its upper-level entry for a last-level table
 * @pud: its upper-level entry for a PMD table
 * @in_table: in @table->sharers, under the table's lock; empty once it has left
 * @in_mm: in @mm->cohort.tables or uppers, under @mm->cohort.lock; read under RCU
 * @rcu: for readers of @in_mm
 */
struct cohort_sharer {
	struct cohort_table *table;
	struct mm_struct *mm;
	union {
		pmd_t *pmd;
		pud_t *pud;
	};
	struct list_head in_table;
	struct list_head in_mm;
	struct rcu_head rcu;
};

enum cohort_mode {
	COHORT_ALWAYS,
	COHORT_OPTIN,
	COHORT_NEVER,
};

/* Which entries of a table a process copies when it unshares. */
enum cohort_copy {
	COHORT_COPY_ALL,
	COHORT_COPY_REFERENCED,
};

extern enum cohort_mode cohort_mode;
extern enum cohort_copy cohort_copy;

void cohort_set_mode(enum cohort_mode mode);
void cohort_activate(void);
u64 cohort_new_id(void);

void cohort_mark_table(struct ptdesc *pt, struct cohort_table *ct);
struct cohort_table *cohort_table_alloc(void);
void cohort_table_free(struct cohort_table *ct);
struct cohort_sharer *cohort_sharer_alloc(void);
unsigned int cohort_sharers_alloc(unsigned int nr, struct cohort_sharer **into);
void cohort_sharer_free(struct cohort_sharer *sharer);

void __cohort_join(struct cohort_table *ct, struct cohort_sharer *sharer,
		   struct mm_struct *mm, pmd_t *pmd);
void cohort_join_mm(struct mm_struct *mm, struct cohort_sharer **sharers,
		    unsigned int nr);
void __cohort_leave(struct cohort_table *ct, struct cohort_sharer *sharer);
void __cohort_adopt(struct cohort_table *ct, struct cohort_sharer *sharer,
		    bool dying);

void __cohort_count(struct cohort_table *ct);
void cohort_count_entry(pte_t pte, unsigned long *counts);
void cohort_count_ptes(pte_t *ptep, unsigned long *counts);
void cohort_count_tables(struct mm_struct *mm, unsigned int *shared,
			 unsigned int *owned, unsigned int *upper);
void cohort_unlink_sharer(struct cohort_sharer *sharer);

/*
 * The first half of __cohort_join(), under the same lock; cohort_join_mm() is the
 * other.
 */
static inline void __cohort_join_table(struct cohort_table *ct,
				       struct cohort_sharer *sharer,
				       struct mm_struct *mm, pmd_t *pmd)
{
	sharer->table = ct;
	sharer->mm = mm;
	sharer->pmd = pmd;
	list_add_tail(&sharer->in_table, &ct->sharers);
	ct->users++;
}

static inline struct ptdesc *cohort_ptdesc(pmd_t pmd)
{
	return page_ptdesc(pmd_page(pmd));
}

static inline pte_t *cohort_ptes(struct cohort_table *ct)
{
	return (pte_t *)ptdesc_address(ct->pt);
}

/* The lock that protects @users and @sharers of a table. */
static inline spinlock_t *cohort_table_lock(struct cohort_table *ct)
{
	return ct->is_upper ? &ct->upper_lock : ptlock_ptr(ct->pt);
}

struct cohort_sharer *__cohort_find(struct cohort_table *ct,
				    struct mm_struct *mm);

/**
 * struct cohort_locked - a process's entry and its table, both locked
 * @ct: the shared table
 * @sharer: the process's use of it
 * @pml: the lock of the entry
 * @ptl: the lock of the table
 */
struct cohort_locked {
	struct cohort_table *ct;
	struct cohort_sharer *sharer;
	spinlock_t *pml;	/* taken first */
	spinlock_t *ptl;	/* nested in it */
};

pmd_t *cohort_find_pmd(struct mm_struct *mm, unsigned long addr,
		       unsigned long end, unsigned long *next);
bool cohort_lock(struct mm_struct *mm, pmd_t *pmd, struct cohort_locked *l);
void cohort_unlock(struct cohort_locked *l);

int cohort_unshare(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
		   enum cohort_cause cause);
pte_t cohort_swp_shared(pte_t pte);
bool cohort_vma_shareable(vm_flags_t flags);
bool cohort_region_shareable(struct vm_area_struct *vma);

int cohort_share_upper(struct mm_struct *mm, struct mm_struct *oldmm,
		       unsigned long addr);
void __cohort_leave_upper(struct cohort_sharer *sharer, bool flush);
void __cohort_leave_range(struct mm_struct *mm, unsigned long start,
			  unsigned long end);
void __cohort_flush(pmd_t *pmd, unsigned long start, unsigned long end);
bool cohort_pte_wanted(pte_t pte, bool anon, enum cohort_copy copy);

#ifdef CONFIG_KSM
bool __cohort_merged_zeros(struct mm_struct *mm, struct ptdesc *pt);

/* True if ksmd has scanned pages of this process. */
static inline bool cohort_has_items(struct mm_struct *mm)
{
	return READ_ONCE(mm->ksm_rmap_items);
}
#else
static inline bool cohort_has_items(struct mm_struct *mm)
{
	return false;
}

static inline bool __cohort_merged_zeros(struct mm_struct *mm,
					 struct ptdesc *pt)
{
	return false;
}
#endif

#endif /* _MM_COHORT_INTERNAL_H */
