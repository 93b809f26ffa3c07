/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what the rest of the kernel calls.
 *
 * Every hook starts with a test that fails for a process outside a cohort; the
 * work is in mm/cohort/. See Documentation/mm/cohort.rst for the invariants,
 * which comments name by number.
 */
#ifndef _LINUX_COHORT_H
#define _LINUX_COHORT_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>
#include <linux/page-flags.h>
#include <linux/pgtable.h>

struct file;
struct mmu_gather;
struct pid;
struct pid_namespace;
struct seq_file;
struct task_struct;
struct zap_details;

/**
 * enum cohort_cause - why a process stops to share a table
 * @COHORT_FAULT: a page fault that must not be served through the table
 * @COHORT_MAP: a new region, or one that grows, in a hole of the table
 * @COHORT_UNMAP: a part of the table is unmapped or thrown away
 * @COHORT_CHANGE: protection, place, locking or another quality changes
 */
enum cohort_cause {
	COHORT_FAULT,
	COHORT_MAP,
	COHORT_UNMAP,
	COHORT_CHANGE,
};

unsigned long cohort_get_unmapped_area(struct file *file, unsigned long addr,
				       unsigned long len, unsigned long pgoff,
				       unsigned long flags);

#ifdef CONFIG_COHORT

#include <asm/cohort.h>

/**
 * struct cohort_fork - a fork on its way through the parent's regions
 * @sharing: this fork shares tables; all else is only valid then
 * @shareable: the tables of @prev may be shared
 * @refused: a region in the table at @base may not
 * @cow: a region in the table at @base is private memory
 * @mm: the child
 * @oldmm: the parent
 * @prev: the parent's region at hand
 * @base: below this address all tables are shared or copied
 */
struct cohort_fork {
	bool sharing;
	bool shareable;
	bool refused;
	bool cow;
	struct mm_struct *mm;
	struct mm_struct *oldmm;
	struct vm_area_struct *prev;
	unsigned long base;
};

/* On as soon as any process may share tables. */
DECLARE_STATIC_KEY_FALSE(cohort_key);
/* On while fork copies entries of file code too (the papers' Copied PTEs). */
DECLARE_STATIC_KEY_FALSE(cohort_copy_files_key);

static inline bool pmd_cohort(pmd_t pmd)
{
	return arch_pmd_cohort(pmd);
}

/* Count what also happens outside a cohort, to compare with. */
#define cohort_count_table()		count_vm_event(COHORT_PTP_ALLOC)
#define cohort_count_copied(nr)		count_vm_events(COHORT_PTE_COPIED_FORK, nr)
#define cohort_count_file_fault()	count_vm_event(COHORT_FAULT_FILE)

static inline bool cohort_active(void)
{
	return static_branch_unlikely(&cohort_key);
}

static inline bool cohort_copy_files(void)
{
	return static_branch_unlikely(&cohort_copy_files_key);
}

/* Does @mm use any shared PMD table? Callers hold its mmap_lock. */
static inline bool mm_cohort_upper(struct mm_struct *mm)
{
	return unlikely(READ_ONCE(mm->cohort.nr_upper));
}

/* Does @mm use any shared table? Callers hold its mmap_lock. */
static inline bool mm_cohort(struct mm_struct *mm)
{
	return unlikely(READ_ONCE(mm->cohort.nr_tables));
}

/* Life of an address space (mm/cohort/core.c). */
void cohort_mm_init(struct mm_struct *mm);
void __cohort_exit_mmap(struct mm_struct *mm);

static inline void cohort_exit_mmap(struct mm_struct *mm)
{
	if (mm_cohort(mm))
		__cohort_exit_mmap(mm);
}

void __cohort_fork_failed(struct mm_struct *mm);

/* A child that will not have all regions; the parent is still locked. */
static inline void cohort_fork_failed(struct mm_struct *mm)
{
	if (mm_cohort_upper(mm))
		__cohort_fork_failed(mm);
}

/* Fork (mm/cohort/share.c). */
void __cohort_fork_begin(struct cohort_fork *cf, struct mm_struct *mm,
			 struct mm_struct *oldmm);
int __cohort_fork_next(struct cohort_fork *cf, struct vm_area_struct *vma);
int __cohort_leave_timens(struct mm_struct *mm);

static inline void cohort_fork_begin(struct cohort_fork *cf,
				     struct mm_struct *mm,
				     struct mm_struct *oldmm)
{
	cf->sharing = false;
	if (cohort_active())
		__cohort_fork_begin(cf, mm, oldmm);
}

static inline bool cohort_forking(struct cohort_fork *cf)
{
	return unlikely(cf->sharing);
}

/* Call for each region of the parent before it is duplicated, then for NULL. */
static inline int cohort_fork_next(struct cohort_fork *cf,
				   struct vm_area_struct *vma)
{
	return cohort_forking(cf) ? __cohort_fork_next(cf, vma) : 0;
}

/* Is the page table of the region at hand taken care of by the above? */
static inline bool cohort_fork_copies(struct cohort_fork *cf)
{
	return cohort_forking(cf) && cf->shareable;
}

/* Put the child's region where the iterator has found the parent's. */
static inline bool cohort_fork_store(struct cohort_fork *cf,
				     struct vma_iterator *vmi,
				     struct vm_area_struct *vma)
{
	if (!cohort_forking(cf))
		return false;
	mas_replace(&vmi->mas, vma);
	return true;
}

static inline bool cohort_member(struct mm_struct *mm)
{
	return mm->cohort.id || mm->cohort.flags;
}

bool __cohort_maps_old(struct vm_fault *vmf, unsigned long addr,
		       unsigned int nr);

/* Takes pointers, so that nothing is loaded before the branch, for each page. */
static inline bool cohort_maps_old(struct vm_area_struct *vma,
				   struct vm_fault *vmf, unsigned long addr,
				   unsigned int nr)
{
	return cohort_active() && cohort_member(vma->vm_mm) &&
	       __cohort_maps_old(vmf, addr, nr);
}

/* The process is to change its time namespace. Returns 0 or -ENOMEM. */
static inline int cohort_leave_timens(struct mm_struct *mm)
{
	return mm && mm_cohort(mm) ? __cohort_leave_timens(mm) : 0;
}

/* Faults and GUP (mm/cohort/fault.c). */
vm_fault_t cohort_fault(struct vm_fault *vmf);
int cohort_gup_check(pmd_t pmd, struct page *page, unsigned int flags);
bool cohort_gup_fast(unsigned int flags);

/* Whole PMD tables (mm/cohort/upper.c). */
void __cohort_leave_range(struct mm_struct *mm, unsigned long start,
			  unsigned long end);
int __cohort_madvise(struct mm_struct *mm, unsigned long start,
		     unsigned long end, int behavior);
bool __cohort_install(pmd_t *pmd, pgtable_t *pte);
bool __cohort_pmd_shared(pmd_t *pmd);

/* Advice is to come. Returns 0 or -EINTR. */
static inline int cohort_madvise(struct mm_struct *mm, unsigned long start,
				 unsigned long end, int behavior)
{
	return mm_cohort_upper(mm) ?
	       __cohort_madvise(mm, start, end, behavior) : 0;
}

/* Put a new table in an empty entry; false if it lies in a table of @mm's own. */
static inline bool cohort_install(struct mm_struct *mm, pmd_t *pmd,
				  pgtable_t *pte)
{
	return mm_cohort_upper(mm) && __cohort_install(pmd, pte);
}

/* Who finds a place for memory that has somebody to find one. */
static inline typeof(cohort_get_unmapped_area) *
cohort_area(typeof(cohort_get_unmapped_area) *get_area)
{
	return cohort_active() ? cohort_get_unmapped_area : get_area;
}

/* Does the entry lie in a shared table, in which no huge page is mapped? */
static inline bool cohort_pmd_shared(struct mm_struct *mm, pmd_t *pmd)
{
	return mm_cohort_upper(mm) && __cohort_pmd_shared(pmd);
}

/* Unsharing (mm/cohort/unshare.c). */
int __cohort_unshare_tables(struct mm_struct *mm, unsigned long start,
			    unsigned long end, enum cohort_cause cause);
int __cohort_unshare_range(struct mm_struct *mm, unsigned long start,
			   unsigned long end, enum cohort_cause cause);
int __cohort_unshare_edges(struct mm_struct *mm, unsigned long start,
			   unsigned long end, enum cohort_cause cause);
int __cohort_unshare_partial(struct mm_struct *mm, unsigned long start,
			     unsigned long end);
bool cohort_zap(struct mmu_gather *tlb, pmd_t *pmd, unsigned long addr,
		unsigned long next, struct zap_details *details);

/**
 * cohort_unshare_tables() - give a process its own last-level tables in a range
 * @mm: whose; its mmap_lock is held
 * @start: first address
 * @end: address behind the last
 * @cause: why, for the counters
 *
 * For what changes entries of private memory only: that is never in a shared PMD
 * table. May sleep.
 *
 * Return: 0, or -ENOMEM; then some tables may be private by now, which changes
 * nothing that a process could see.
 */
static inline int cohort_unshare_tables(struct mm_struct *mm,
					unsigned long start, unsigned long end,
					enum cohort_cause cause)
{
	return mm_cohort(mm) ? __cohort_unshare_tables(mm, start, end, cause) :
			       0;
}

/**
 * cohort_unshare_range() - give a process its own tables in a range
 * @mm: whose; its mmap_lock is held for writing
 * @start: first address
 * @end: address behind the last
 * @cause: why, for the counters
 *
 * Call before anything is changed (invariant 8). May sleep.
 *
 * Return: as cohort_unshare_tables().
 */
static inline int cohort_unshare_range(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return mm_cohort(mm) ? __cohort_unshare_range(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_edges() - prepare a range to be unmapped or mapped anew
 * @mm: whose; its mmap_lock is held for writing
 * @start: first address
 * @end: address behind the last
 * @cause: why, for the counters
 *
 * Unshares the tables that the range shares with regions outside of it. Tables
 * of which the process uses nothing outside the range are left alone: zapping
 * leaves them without a copy.
 *
 * Return: 0 or -ENOMEM.
 */
static inline int cohort_unshare_edges(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return mm_cohort(mm) ? __cohort_unshare_edges(mm, start, end, cause) : 0;
}

/**
 * cohort_unshare_partial() - prepare a range whose pages are thrown away
 * @mm: whose; its mmap_lock is held
 * @start: first address
 * @end: address behind the last
 *
 * Unshares the tables of which only a part lies in the range.
 *
 * Return: 0 or -ENOMEM.
 */
static inline int cohort_unshare_partial(struct mm_struct *mm,
					 unsigned long start, unsigned long end)
{
	return mm_cohort(mm) ? __cohort_unshare_partial(mm, start, end) : 0;
}

/* Accounting and flushing (mm/cohort/account.c, mm/cohort/flush.c). */
struct mm_struct *__cohort_payer(pmd_t *pmd);
void __cohort_flush(pmd_t *pmd, unsigned long start, unsigned long end);
void __cohort_list_sharers(pmd_t *pmd);
unsigned int __cohort_users(pmd_t *pmd);
void __cohort_borrowed(struct mm_struct *mm, unsigned long *counts);
unsigned long __cohort_borrowed_rss(struct mm_struct *mm);
unsigned long __cohort_pgtables_bytes(struct mm_struct *mm);
long __cohort_badness(struct mm_struct *mm);
bool __cohort_charged(struct mm_struct *mm, pmd_t *pmd);

/**
 * cohort_payer() - who is charged for the pages of a table
 * @mm: the process through which the table was reached
 * @pmd: its entry for the table, or NULL; the table's lock is held
 *
 * Return: the owner of a shared table, else @mm (invariant 7). Whoever asks is
 * about to change the table's counts, so cached ones are dropped.
 */
static inline struct mm_struct *cohort_payer(struct mm_struct *mm, pmd_t *pmd)
{
	if (pmd && unlikely(pmd_cohort(*pmd)))
		return __cohort_payer(pmd);
	return mm;
}

/* The same for a read fault that puts @nr entries into the table. */
struct mm_struct *__cohort_filler(pmd_t *pmd, unsigned long nr);

static inline struct mm_struct *cohort_filler(struct mm_struct *mm, pmd_t *pmd,
					      unsigned long nr)
{
	if (unlikely(pmd_cohort(*pmd)))
		return __cohort_filler(pmd, nr);
	return mm;
}

pte_t __cohort_clear_flush(struct mm_struct *mm, pmd_t *pmd,
			   unsigned long addr, pte_t *ptep);

/**
 * cohort_clear_flush() - clear an entry and flush all who may know it
 * @vma: the region through which the reverse map came
 * @pmd: the entry above; the lock of the table is held
 * @addr: the address
 * @ptep: the entry
 *
 * The users of a shared table, this process among them, are flushed at once
 * (invariant 4).
 *
 * Return: the entry as it was.
 */
static inline pte_t cohort_clear_flush(struct vm_area_struct *vma, pmd_t *pmd,
				       unsigned long addr, pte_t *ptep)
{
	if (unlikely(pmd_cohort(*pmd)))
		return __cohort_clear_flush(vma->vm_mm, pmd, addr, ptep);
	return ptep_clear_flush(vma, addr, ptep);
}

void __cohort_zapped(struct mmu_gather *tlb, pmd_t *pmd, unsigned long addr,
		     int *rss);

/* Entries up to @addr were zapped; false if the table is the process's own. */
static inline bool cohort_zapped(struct mmu_gather *tlb, pmd_t *pmd,
				 unsigned long addr, int *rss)
{
	if (likely(!pmd_cohort(*pmd)))
		return false;
	__cohort_zapped(tlb, pmd, addr, rss);
	return true;
}

/* A swap entry enters the table: swapoff must find every sharer. */
static inline void cohort_list_sharers(pmd_t *pmd)
{
	if (pmd && unlikely(pmd_cohort(*pmd)))
		__cohort_list_sharers(pmd);
}

/* How many processes use the table; its lock is held. */
static inline unsigned int cohort_users(pmd_t *pmd)
{
	return unlikely(pmd_cohort(*pmd)) ? __cohort_users(pmd) : 1;
}

/**
 * cohort_borrowed() - pages mapped through tables that others are charged for
 * @mm: whose
 * @counts: NR_MM_COUNTERS counts in pages; added to
 *
 * Exact, and takes the lock of each such table: not for the tick.
 */
static inline void cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
	if (mm_cohort(mm))
		__cohort_borrowed(mm, counts);
}

/* The resident pages among them. */
static inline unsigned long cohort_borrowed_rss(struct mm_struct *mm)
{
	return mm_cohort(mm) ? __cohort_borrowed_rss(mm) : 0;
}

/* Page tables that no process is charged for but this one is to answer for. */
static inline unsigned long cohort_pgtables_bytes(struct mm_struct *mm)
{
	return mm_cohort_upper(mm) ? __cohort_pgtables_bytes(mm) : 0;
}

/*
 * For the OOM killer: what to add to the pages that @mm is charged for, so that
 * each user of a table bears an equal part.
 */
static inline long cohort_badness(struct mm_struct *mm)
{
	return mm_cohort(mm) ? __cohort_badness(mm) : 0;
}

/*
 * Is @mm charged for the table? True for one user of each table, so that whoever
 * walks all mappings of a page can count each once. The table's lock is held.
 */
static inline bool cohort_charged(struct mm_struct *mm, pmd_t *pmd)
{
	return !pmd || likely(!pmd_cohort(*pmd)) || __cohort_charged(mm, pmd);
}

/*
 * The mark of a table that was ever shared. It outlives the sharing, since a
 * walker that came through a former user's entry may still stand in the table:
 * such a table is freed in its own way. The bit means "pinned" to Xen PV, where
 * no table is shared.
 */
#define PG_COHORT	PG_owner_priv_1

void __cohort_pte_free_tlb(struct mmu_gather *tlb, struct page *page);
void __cohort_pmd_free_tlb(struct mmu_gather *tlb, struct page *page);
void __cohort_free_table(struct page *page);

/* A table is given to the gather; false if it was never shared. */
static inline bool cohort_pte_free_tlb(struct mmu_gather *tlb,
				       struct page *page)
{
	if (likely(!test_bit(PG_COHORT, &page->flags)))
		return false;
	__cohort_pte_free_tlb(tlb, page);
	return true;
}

static inline bool cohort_pmd_free_tlb(struct mmu_gather *tlb,
				       struct page *page)
{
	if (likely(!test_bit(PG_COHORT, &page->flags)))
		return false;
	__cohort_pmd_free_tlb(tlb, page);
	return true;
}

/* A table of any level may go; false if it is to be freed at once. */
static inline bool cohort_free_table(struct page *page)
{
	if (likely(!test_bit(PG_COHORT, &page->flags)))
		return false;
	__cohort_free_table(page);
	return true;
}

/* Merging (mm/cohort/merge.c). */
bool __cohort_scans(struct mm_struct *mm, pmd_t *pmd);
int __cohort_merge_region(struct vm_area_struct *vma, unsigned long start,
			  unsigned long end);
int __cohort_merge_any(struct mm_struct *mm);
bool __cohort_maps_merged(struct vm_area_struct *vma, unsigned long addr,
			  struct folio *folio);

/* Is a table scanned through @mm? The table's lock is held. */
static inline bool cohort_scans(struct mm_struct *mm, pmd_t *pmd)
{
	return likely(!pmd_cohort(*pmd)) || __cohort_scans(mm, pmd);
}

/* A region is to be mergeable, or not any more. Returns 0 or -ENOMEM. */
static inline int cohort_merge_region(struct vm_area_struct *vma,
				      unsigned long start, unsigned long end)
{
	return mm_cohort(vma->vm_mm) ?
	       __cohort_merge_region(vma, start, end) : 0;
}

/* All regions are to be mergeable. Returns 0 or -ENOMEM. */
static inline int cohort_merge_any(struct mm_struct *mm)
{
	return mm_cohort(mm) ? __cohort_merge_any(mm) : 0;
}

/*
 * The reverse map has come to a region of another process than the one through
 * which a page was merged: is the page there? Assumed to be without us. The
 * region may be anybody's whom the root of the anon_vmas leads to, a member or not.
 */
static inline bool cohort_maps_merged(struct vm_area_struct *vma,
				      unsigned long addr, struct folio *folio)
{
	return !cohort_active() || __cohort_maps_merged(vma, addr, folio);
}

/* Interfaces (mm/cohort/sysfs.c, mm/cohort/prctl.c, mm/cohort/proc.c). */
long cohort_prctl_set(unsigned long flags);
long cohort_prctl_get(void);
int proc_pid_cohort(struct seq_file *m, struct pid_namespace *ns,
		    struct pid *pid, struct task_struct *task);

#else /* !CONFIG_COHORT */

struct cohort_fork { };

static inline void cohort_count_table(void) { }
static inline void cohort_count_copied(unsigned long nr) { }
static inline void cohort_count_file_fault(void) { }

static inline bool pmd_cohort(pmd_t pmd) { return false; }

static inline bool cohort_active(void) { return false; }
static inline bool cohort_member(struct mm_struct *mm) { return false; }
static inline bool cohort_copy_files(void) { return false; }
static inline void cohort_mm_init(struct mm_struct *mm) { }
static inline void cohort_exit_mmap(struct mm_struct *mm) { }
static inline void cohort_fork_failed(struct mm_struct *mm) { }
static inline void cohort_fork_begin(struct cohort_fork *cf,
				     struct mm_struct *mm,
				     struct mm_struct *oldmm)
{
}

static inline int cohort_fork_next(struct cohort_fork *cf,
				   struct vm_area_struct *vma)
{
	return 0;
}

static inline bool cohort_fork_copies(struct cohort_fork *cf) { return false; }
static inline bool cohort_fork_store(struct cohort_fork *cf,
				     struct vma_iterator *vmi,
				     struct vm_area_struct *vma)
{
	return false;
}

static inline bool cohort_maps_old(struct vm_area_struct *vma,
				   struct vm_fault *vmf, unsigned long addr,
				   unsigned int nr)
{
	return false;
}

static inline int cohort_leave_timens(struct mm_struct *mm) { return 0; }
static inline vm_fault_t cohort_fault(struct vm_fault *vmf) { return 0; }
static inline int cohort_gup_check(pmd_t pmd, struct page *page,
				   unsigned int flags)
{
	return 0;
}

static inline bool cohort_gup_fast(unsigned int flags)
{
	return true;
}

static inline int cohort_madvise(struct mm_struct *mm, unsigned long start,
				 unsigned long end, int behavior)
{
	return 0;
}

static inline bool cohort_install(struct mm_struct *mm, pmd_t *pmd,
				  pgtable_t *pte)
{
	return false;
}

static inline bool cohort_pmd_shared(struct mm_struct *mm, pmd_t *pmd)
{
	return false;
}

static inline typeof(cohort_get_unmapped_area) *
cohort_area(typeof(cohort_get_unmapped_area) *get_area)
{
	return get_area;
}

static inline int cohort_unshare_tables(struct mm_struct *mm,
					unsigned long start, unsigned long end,
					enum cohort_cause cause)
{
	return 0;
}

static inline int cohort_unshare_range(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return 0;
}

static inline int cohort_unshare_edges(struct mm_struct *mm,
				       unsigned long start, unsigned long end,
				       enum cohort_cause cause)
{
	return 0;
}

static inline int cohort_unshare_partial(struct mm_struct *mm,
					 unsigned long start, unsigned long end)
{
	return 0;
}

static inline bool cohort_zap(struct mmu_gather *tlb, pmd_t *pmd,
			      unsigned long addr, unsigned long next,
			      struct zap_details *details)
{
	return false;
}

static inline struct mm_struct *cohort_payer(struct mm_struct *mm, pmd_t *pmd)
{
	return mm;
}

static inline struct mm_struct *cohort_filler(struct mm_struct *mm, pmd_t *pmd,
					      unsigned long nr)
{
	return mm;
}

#ifdef CONFIG_MMU
static inline pte_t cohort_clear_flush(struct vm_area_struct *vma, pmd_t *pmd,
				       unsigned long addr, pte_t *ptep)
{
	return ptep_clear_flush(vma, addr, ptep);
}
#endif

static inline bool cohort_zapped(struct mmu_gather *tlb, pmd_t *pmd,
				 unsigned long addr, int *rss)
{
	return false;
}

static inline void cohort_list_sharers(pmd_t *pmd) { }
static inline unsigned int cohort_users(pmd_t *pmd) { return 1; }
static inline void cohort_borrowed(struct mm_struct *mm, unsigned long *counts)
{
}

static inline unsigned long cohort_borrowed_rss(struct mm_struct *mm)
{
	return 0;
}

static inline unsigned long cohort_pgtables_bytes(struct mm_struct *mm)
{
	return 0;
}

static inline long cohort_badness(struct mm_struct *mm) { return 0; }
static inline bool cohort_charged(struct mm_struct *mm, pmd_t *pmd)
{
	return true;
}

static inline bool cohort_pte_free_tlb(struct mmu_gather *tlb,
				       struct page *page)
{
	return false;
}

static inline bool cohort_pmd_free_tlb(struct mmu_gather *tlb,
				       struct page *page)
{
	return false;
}

static inline bool cohort_free_table(struct page *page) { return false; }
static inline bool cohort_scans(struct mm_struct *mm, pmd_t *pmd)
{
	return true;
}

static inline int cohort_merge_region(struct vm_area_struct *vma,
				      unsigned long start, unsigned long end)
{
	return 0;
}

static inline int cohort_merge_any(struct mm_struct *mm) { return 0; }
static inline bool cohort_maps_merged(struct vm_area_struct *vma,
				      unsigned long addr, struct folio *folio)
{
	return true;
}

static inline long cohort_prctl_set(unsigned long flags) { return -EINVAL; }
static inline long cohort_prctl_get(void) { return -EINVAL; }

#endif /* CONFIG_COHORT */

/*
 * The PMD table that maps an address, or NULL. Whoever walks without the mmap_lock
 * reads the entry above once: its process may leave a shared table at any moment.
 */
static inline pmd_t *cohort_pmd_offset(pud_t *pud, unsigned long addr)
{
	pud_t entry = READ_ONCE(*pud);

	return pud_present(entry) ? pmd_offset_lockless(pud, entry, addr) : NULL;
}

#endif /* _LINUX_COHORT_H */
