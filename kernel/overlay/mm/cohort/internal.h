/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what the files of mm/cohort/ share with each other.
 */
#ifndef _MM_COHORT_INTERNAL_H
#define _MM_COHORT_INTERNAL_H

#include <linux/cohort.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/swap.h>

/**
 * struct cohort_table - a page table used by several processes
 * @pt: the table's page; its lock protects all fields of a last-level table
 * @addr: the first address that the table maps in the process that made it
 * @users: how many processes' upper-level entries point to it
 * @is_upper: a PMD table, see mm/cohort/upper.c; a pointer to the record of one
 *	      is named "upper", to any other "ct"
 * @upper_lock: protects @users and @sharers of a PMD table
 * @owner: the process that is charged for the table and all it maps; for a PMD table
 *	   an account of its own
 * @charged: its use of the table, as a process may use one at two addresses; NULL for a
 *	     PMD table
 * @counts: what @owner is charged for its entries; if not @counted, an estimate.
 *	    Changed under the table's lock, read without
 * @maps: of a last-level table, its @counts in short: see cohort_maps(). With
 *	  COHORT_MAPS_GUESS until somebody has counted
 * @counted: @counts are exact
 * @spread: its users map it at different addresses
 * @open: what a process must have there to join at a fault, see mm/cohort/join.c; NULL
 *	  if processes join at fork only
 * @bf: who shares its translations, see mm/cohort/babelfish.c; NULL if nobody
 * @tlb_group: TLBs may keep its entries for all members of a TLB group; does not change
 * @deferred: a batch of reclaim or migration has cleared entries, and may not have
 *	      flushed yet; of a PMD table under @upper_lock
 * @copied: a user has copied the table, or its entries were protected one by one, so
 *	    none of its pages is exclusive
 * @scanned: the user through which KSM scans the table, NULL if not scanned yet
 * @sharers: a &struct cohort_sharer per user
 * @rcu: for readers of an mm's records, which may hold a pointer
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
	bool deferred;
	bool spread;
	spinlock_t upper_lock; /* last-level tables use @pt's */
	struct mm_struct *owner;
	struct cohort_sharer *charged;
	struct mm_struct *scanned;
	unsigned long counts[NR_MM_COUNTERS];
	u32 maps;
	struct list_head sharers;
	struct cohort_open *open;
#ifdef CONFIG_COHORT_BABELFISH
	struct cohort_range *bf;
#endif
#ifdef CONFIG_COHORT_TLB
	bool tlb_group;
#endif
	struct rcu_head rcu;
};

/* The table's record is new; @pmd is the first user's entry, locked. */
static inline void cohort_begin_group(struct cohort_table *ct, pmd_t pmd)
{
#ifdef CONFIG_COHORT_TLB
	ct->tlb_group = pmd_val(pmd) & PMD_TLB_MEMBER;
#endif
}

/**
 * struct cohort_sharer - one process's use of one shared table
 * @table: the table, NULL if the process uses none here; changes under the table's
 *	   lock and that of the process's entry
 * @in_table: in @table->sharers, under the table's lock
 *
 * Part of a &struct cohort_run, or of a &struct cohort_upper_sharer.
 */
struct cohort_sharer {
	struct cohort_table *table;
	struct list_head in_table;
};

#define COHORT_RUN_SHIFT	(PMD_SHIFT + 5)
#define COHORT_RUN_TABLES	(1UL << (COHORT_RUN_SHIFT - PMD_SHIFT))
/* A run is aligned to its size, so that a sharer leads to it. */
#define COHORT_RUN_BYTES	1024UL
/* A process keeps so many runs without a table: to look for them costs more. */
#define COHORT_RUNS_KEPT	64U

/**
 * struct cohort_run - a process's use of the tables of one aligned 64 MB
 * @mm: the process
 * @base: the first address of the range
 * @pmd: its entry for the first of the tables; valid while any of them is shared
 * @used: a bit for each table that it uses, under the lock of its entries
 * @bf: a bit for each table whose translations it shares, under the table's lock
 * @seen: of each table, what @mm->cohort.rss and .swap, or .guess and .guess_swap,
 *	  include for it, as cohort_maps() has it; under the table's lock
 * @sharers: one per table
 *
 * One record for many tables: a fork allocates and finds it once, and any table
 * leads to its record in few steps however many users it has (invariant 13). A run
 * is made by fork, or by a fault that joins a table, and lives as long as its address
 * space, or until cohort_uses_trim() finds that it has no table.
 */
struct cohort_run {
	struct mm_struct *mm;
	unsigned long base;
	pmd_t *pmd;
	u32 used;
#ifdef CONFIG_COHORT_BABELFISH
	unsigned long bf;
#endif
	u32 seen[COHORT_RUN_TABLES];
	struct cohort_sharer sharers[COHORT_RUN_TABLES];
};

/**
 * struct cohort_upper_sharer - one process's use of one shared PMD table
 * @sharer: its use of the table; must be first
 * @mm: the process
 * @addr: the first address that the table maps in the process
 * @pud: its entry for the table
 * @rss: resident pages that @mm->cohort.rss includes for the table
 * @swap: the same for swap entries and @mm->cohort.swap
 * @borrowed: the same for page-table pages and @mm->cohort.borrowed
 *
 * Made as a run is, and lives as long as its address space: there are few, as one takes
 * large shared memory in a gigabyte of its own.
 */
struct cohort_upper_sharer {
	struct cohort_sharer sharer;
	struct mm_struct *mm;
	unsigned long addr;
	pud_t *pud;
	atomic_long_t rss;
	atomic_long_t swap;
	atomic_long_t borrowed;
};

/**
 * struct cohort_records - a process's records of one kind in the order of addresses
 * @rcu: for readers of an array that was replaced by a larger
 * @nr: number of records
 * @room: so many have room
 * @at: the records, each with its address in steps of a record's range
 */
struct cohort_records {
	struct rcu_head rcu;
	unsigned int nr;
	unsigned int room;
	struct {
		unsigned long index;
		void *record;
	} at[];
};

/**
 * struct cohort_uses - all shared tables that a process uses
 * @runs: a &struct cohort_run per aligned 64 MB; NULL if there is none
 * @uppers: a &struct cohort_upper_sharer per gigabyte, likewise
 * @forced: tables that it got beyond the limit of its memory cgroup
 * @lock: taken by whoever adds a record while it holds the mmap_lock for reading
 */
struct cohort_uses {
	struct cohort_records __rcu *runs;
	struct cohort_records __rcu *uppers;
	unsigned int forced;
	struct mutex lock;	/* see above */
};

/**
 * struct cohort_look - what a look at all tables of a process finds
 * @borrowed: NR_MM_COUNTERS counts of what tables map that others are charged for
 * @bytes: bytes of PMD tables, and of the tables in them, that count as its own
 * @shared: last-level tables that have other users
 * @owned: those of them that are charged to the process, or counted for it
 * @open: tables that others of its group may join, whether they have or not
 * @upper: PMD tables that have other users
 */
struct cohort_look {
	unsigned long borrowed[NR_MM_COUNTERS];
	unsigned long bytes;
	unsigned int shared, owned, open, upper;
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

/* How a table with private regions is protected from its users. */
enum cohort_protect {
	COHORT_PROTECT_TABLE,	/* the entry above denies writing */
	COHORT_PROTECT_PTE,	/* each entry does, from the first share on */
};

/* Who may join tables at faults. */
enum cohort_join {
	COHORT_JOIN_NEVER,
	COHORT_JOIN_GROUP,	/* programs whose cgroup or prctl() names a group */
	COHORT_JOIN_USER,	/* also all others of one user */
};

extern enum cohort_mode cohort_mode;
extern enum cohort_join cohort_join;
extern enum cohort_protect cohort_protect;
extern enum cohort_copy cohort_copy;

void cohort_set_mode(enum cohort_mode mode);
void cohort_activate(void);
void cohort_request(void);
u64 cohort_new_id(void);

void cohort_mark_table(struct ptdesc *pt, struct cohort_table *ct);
struct cohort_table *cohort_table_alloc(gfp_t gfp);
unsigned int cohort_tables_alloc(unsigned int nr, struct cohort_table **into,
				 gfp_t gfp);
void cohort_table_free(struct cohort_table *ct);
struct cohort_run *cohort_run_make(struct mm_struct *mm, unsigned long addr,
				   unsigned int *place, gfp_t gfp);
struct cohort_run *cohort_run_make_shared(struct mm_struct *mm,
					  unsigned long addr, gfp_t gfp);
unsigned long cohort_upper_place(struct file *file, unsigned long len,
				 unsigned long pgoff, unsigned long flags);
struct cohort_upper_sharer *cohort_upper_make(struct mm_struct *mm,
					      unsigned long addr, gfp_t gfp);
struct cohort_uses *cohort_uses_make(struct mm_struct *mm, gfp_t gfp);
bool cohort_uses_like(struct mm_struct *mm, struct mm_struct *oldmm);
void cohort_uses_trim(struct mm_struct *mm);
void *cohort_next_record(struct cohort_records __rcu *const *where,
			 unsigned long *index);
struct cohort_upper_sharer *cohort_next_upper(struct cohort_uses *uses,
					      unsigned long *index);
struct cohort_sharer *cohort_find_sharer(struct mm_struct *mm,
					 unsigned long addr);
void cohort_uses_free(struct mm_struct *mm);
void cohort_uses_init(void);

void __cohort_leave(struct cohort_table *ct, struct cohort_sharer *sharer);
void __cohort_adopt(struct cohort_table *ct, struct cohort_sharer *sharer,
		    bool dying);

void __cohort_count(struct cohort_table *ct);
void __cohort_see(struct cohort_table *ct, struct cohort_sharer *sharer);
void __cohort_unsee(struct cohort_table *ct, struct cohort_sharer *sharer);
void cohort_see_upper(struct cohort_upper_sharer *us, long rss, long swap,
		      long borrowed);
void __cohort_see_account(struct cohort_table *upper,
			  struct cohort_upper_sharer *us);
void cohort_see_more(struct cohort_upper_sharer *us, long rss, long swap,
		     long borrowed);
void cohort_count_entry(pte_t pte, unsigned long *counts);
void cohort_count_ptes(pte_t *ptep, unsigned long *counts);
void cohort_estimate_ptes(pte_t *ptep, unsigned long *counts);
void cohort_scale_guess(struct cohort_fork *cf);
void cohort_count_tables(struct mm_struct *mm, struct cohort_look *l);
void __cohort_unlink(struct cohort_table *ct, struct cohort_sharer *sharer);

/* The record of which a sharer of a last-level table is a part. */
static inline struct cohort_run *cohort_run_of(struct cohort_sharer *sharer)
{
	return (struct cohort_run *)((unsigned long)sharer &
				     ~(COHORT_RUN_BYTES - 1));
}

/* As cohort_next_record(), for runs. */
static inline struct cohort_run *cohort_next_run(struct cohort_uses *uses,
						 unsigned long *index)
{
	return cohort_next_record(&uses->runs, index);
}

/*
 * True unless a range lies before the first or behind the last gigabyte whose PMD table a
 * process shares or has shared. It holds its mmap_lock for writing.
 */
static inline bool cohort_uppers_near(struct cohort_uses *uses,
				      unsigned long start, unsigned long end)
{
	struct cohort_records *records;

	/* Nobody adds one meanwhile, see records_of(). */
	records = rcu_dereference_check(uses->uppers, true);
	return records && records->nr &&
	       (end - 1) >> PUD_SHIFT >= records->at[0].index &&
	       start >> PUD_SHIFT <= records->at[records->nr - 1].index;
}

/* Where a table's sharer stands in its run. */
static inline unsigned int cohort_run_index(unsigned long addr)
{
	return (addr >> PMD_SHIFT) & (COHORT_RUN_TABLES - 1);
}

static inline struct cohort_upper_sharer *
cohort_upper_of(struct cohort_sharer *sharer)
{
	return container_of(sharer, struct cohort_upper_sharer, sharer);
}

/* The first address that a table maps in the process that uses it by @sharer. */
static inline unsigned long cohort_user_addr(struct cohort_table *ct,
					     struct cohort_sharer *sharer)
{
	struct cohort_run *run = cohort_run_of(sharer);

	return ct->is_upper ? cohort_upper_of(sharer)->addr :
			      run->base + (sharer - run->sharers) * PMD_SIZE;
}

/* The process that uses a table by @sharer. */
static inline struct mm_struct *cohort_user(struct cohort_table *ct,
					    struct cohort_sharer *sharer)
{
	return ct->is_upper ? cohort_upper_of(sharer)->mm :
			      cohort_run_of(sharer)->mm;
}

/*
 * From one entry of a process to the next. Where PMD tables are folded, an entry is the
 * first word of what is one entry to the level above.
 */
#define COHORT_PMD_STEP	\
	(PTRS_PER_PMD > 1 ? 1 : sizeof(pgd_t) / sizeof(pmd_t))

/* Its entry for a last-level table. */
static inline pmd_t *cohort_user_pmd(struct cohort_sharer *sharer)
{
	struct cohort_run *run = cohort_run_of(sharer);

	return run->pmd + (sharer - run->sharers) * COHORT_PMD_STEP;
}

/**
 * cohort_span_end() - where the aligned span around an address ends
 * @addr: the address
 * @size: the span's size, a power of two
 * @end: where the caller's range ends; 0 for the end of all addresses
 *
 * Return: the first address behind the span, or @end if that comes first.
 */
static inline unsigned long cohort_span_end(unsigned long addr,
					    unsigned long size,
					    unsigned long end)
{
	unsigned long edge = (addr + size) & ~(size - 1);

	return edge - 1 < end - 1 ? edge : end;
}

/*
 * Where the PMD table that maps @addr ends, or @end if that comes first. Not what
 * pud_addr_end() says: where PUD tables are folded, that is @end. A folded PMD table
 * has one entry.
 */
static inline unsigned long cohort_table_end(unsigned long addr,
					     unsigned long end)
{
	return cohort_span_end(addr, PTRS_PER_PMD * PMD_SIZE, end);
}

/**
 * __cohort_join() - add a user to a table
 * @ct: the table; its lock is held
 * @sharer: a record that has no table
 *
 * The process's entry points to the table already, or will before the process can
 * run. The caller counts @nr_tables of the process and what it borrows.
 */
static inline void __cohort_join(struct cohort_table *ct,
				 struct cohort_sharer *sharer)
{
	/* The record before the pointer to it: look_at() takes no lock. */
	smp_store_release(&sharer->table, ct);
	list_add_tail(&sharer->in_table, &ct->sharers);
	ct->users++;
}

/* Resident pages that a table's counts have. */
static inline unsigned long cohort_resident(struct cohort_table *ct)
{
	return READ_ONCE(ct->counts[MM_FILEPAGES]) +
	       READ_ONCE(ct->counts[MM_ANONPAGES]) +
	       READ_ONCE(ct->counts[MM_SHMEMPAGES]);
}

/*
 * Resident pages and swap entries of a last-level table in one word, and whether they
 * are an estimate. A sum of such words over a run needs 64 bits.
 */
#define COHORT_MAPS_GUESS	BIT(31)

static inline u32 cohort_maps(unsigned long resident, unsigned long swap)
{
	BUILD_BUG_ON(PTRS_PER_PTE > S16_MAX);
	return resident | swap << 16;
}

static inline unsigned int cohort_maps_resident(u32 maps)
{
	return maps & U16_MAX;
}

static inline unsigned int cohort_maps_swap(u32 maps)
{
	return (maps & ~COHORT_MAPS_GUESS) >> 16;
}

/* The exact counts of a last-level table, whose lock is held, have changed. */
static inline void __cohort_set_maps(struct cohort_table *ct)
{
	WRITE_ONCE(ct->maps, cohort_maps(cohort_resident(ct),
					 ct->counts[MM_SWAPENTS]));
}

/*
 * Count the tables of a process that nobody has counted, before it may leave some without a
 * copy: its high-water mark is to have all that it borrowed at once, and no mark has an
 * estimate. Its mmap_lock is held. At most once after a fork, as at exit.
 */
static inline void cohort_count_guessed(struct mm_struct *mm)
{
	if (unlikely(cohort_guessed(mm)))
		cohort_do_look(mm);
}

/* The table that a present entry points to. */
static inline struct ptdesc *cohort_ptdesc(pmd_t pmd)
{
	return page_ptdesc(arch_pmd_table_page(pmd));
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

/**
 * struct cohort_locked - a process's entry and its table, both locked
 * @ct: the shared table
 * @sharer: the process's use of it
 * @addr: the first address that the table maps in this process
 * @pml: the lock of the entry
 * @ptl: the lock of the table
 */
struct cohort_locked {
	struct cohort_table *ct;
	struct cohort_sharer *sharer;
	unsigned long addr;
	spinlock_t *pml;	/* taken first */
	spinlock_t *ptl;	/* nested in it */
};

pmd_t *cohort_find_pmd(struct mm_struct *mm, unsigned long addr,
		       unsigned long end, unsigned long *next);
bool cohort_lock(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
		 struct cohort_locked *l);
void cohort_unlock(struct cohort_locked *l);

int cohort_unshare(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
		   enum cohort_cause cause);
pte_t cohort_swp_shared(pte_t pte);
bool cohort_vma_shareable(vm_flags_t flags);
bool cohort_region_shareable(struct vm_area_struct *vma);
void cohort_batch_begin(struct cohort_fork *cf);

#ifdef CONFIG_COHORT_UPPER
int cohort_share_upper(struct cohort_fork *cf, unsigned long addr);
#else
static inline int cohort_share_upper(struct cohort_fork *cf,
				     unsigned long addr)
{
	return 0;
}
#endif
#ifdef CONFIG_COHORT_GROUPS
void __cohort_withdraw(struct cohort_table *ct);
void cohort_set_join(enum cohort_join join);
void cohort_group_show(struct seq_file *m, struct mm_struct *mm);
bool cohort_group_keeps_ids(struct mm_struct *mm);
#else
static inline bool cohort_group_keeps_ids(struct mm_struct *mm)
{
	return false;
}

static inline void __cohort_withdraw(struct cohort_table *ct) { }

static inline void cohort_group_show(struct seq_file *m, struct mm_struct *mm)
{
}
#endif
bool cohort_keeps_ids(struct mm_struct *mm);

#ifdef CONFIG_COHORT_BABELFISH
/* True if translations of a table, whose lock is held, are shared. */
static inline bool __cohort_bf_shares(struct cohort_table *ct)
{
	return cohort_bf_active() && ct->bf;
}

void __cohort_bf_flush(struct cohort_table *ct, unsigned long start,
		       unsigned long end);
void __cohort_bf_join(struct cohort_table *ct, struct cohort_sharer *sharer);
void __cohort_bf_leave(struct cohort_table *ct, struct cohort_sharer *sharer);
void cohort_bf_set(bool on);
bool cohort_bf_get(void);
void cohort_bf_show(struct seq_file *m, struct mm_struct *mm);
#else
static inline bool cohort_bf_get(void) { return false; }
static inline bool __cohort_bf_shares(struct cohort_table *ct)
{
	return false;
}

static inline void __cohort_bf_flush(struct cohort_table *ct,
				     unsigned long start, unsigned long end)
{
}

static inline void __cohort_bf_join(struct cohort_table *ct,
				    struct cohort_sharer *sharer)
{
}

static inline void __cohort_bf_leave(struct cohort_table *ct,
				     struct cohort_sharer *sharer)
{
}

static inline void cohort_bf_show(struct seq_file *m, struct mm_struct *mm) { }
#endif
void __cohort_leave_upper(struct cohort_upper_sharer *us, bool flush);
void __cohort_leave_range(struct mm_struct *mm, unsigned long start,
			  unsigned long end);
void __cohort_flush(pmd_t *pmd, unsigned long start, unsigned long end);
void __cohort_flush_deferred(struct cohort_table *ct);
void cohort_list_for_swapoff(struct mm_struct *mm, struct mm_struct *behind);
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
