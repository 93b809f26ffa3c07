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

#include <uapi/linux/mman.h>

struct file;
struct mmu_gather;
struct pid;
struct pid_namespace;
struct seq_file;
struct task_struct;
struct zap_details;

/**
 * enum cohort_cause - why a process stops sharing a table
 * @COHORT_FAULT: a page fault that must not be served through the table
 * @COHORT_MAP: a new region, or one that grows, in a hole of the table
 * @COHORT_UNMAP: a part of the table is unmapped or thrown away
 * @COHORT_CHANGE: protection, address, locking or another property changes
 */
enum cohort_cause {
	COHORT_FAULT,
	COHORT_MAP,
	COHORT_UNMAP,
	COHORT_CHANGE,
};

#ifdef CONFIG_COHORT

#include <asm/cohort.h>

/* On as soon as any process may share tables. */
DECLARE_STATIC_KEY_FALSE(cohort_key);
/* On while fork copies entries of file code too (the papers' Copied PTEs). */
DECLARE_STATIC_KEY_FALSE(cohort_copy_files_key);

/* On while somebody compares: these are counted for every process then. */
DECLARE_STATIC_KEY_FALSE(cohort_count_key);

#define cohort_count(event, nr)						\
	do {								\
		if (static_branch_unlikely(&cohort_count_key))		\
			count_vm_events(event, nr);			\
	} while (0)
#define cohort_count_table()		cohort_count(COHORT_PTP_ALLOC, 1)
#define cohort_count_copied(nr)		cohort_count(COHORT_PTE_COPIED_FORK, nr)
#define cohort_count_file_fault()	cohort_count(COHORT_FAULT_FILE, 1)

/* True if all users reach the table through one shared PMD table. */
static inline bool pmd_cohort_upper(pmd_t pmd)
{
#ifdef CONFIG_COHORT_UPPER
	return arch_pmd_cohort_upper(pmd);
#else
	return false;
#endif
}

static inline bool cohort_active(void)
{
	return static_branch_unlikely(&cohort_key);
}

/* No entry has the mark before cohort_activate(): others pay a nop (invariant 10). */
static inline bool pmd_cohort(pmd_t pmd)
{
	return cohort_active() && arch_pmd_cohort(pmd);
}

static inline bool cohort_copy_files(void)
{
	return static_branch_unlikely(&cohort_copy_files_key);
}

/* Whose tables a process may join at faults, or NULL. */
static inline struct cohort_group *cohort_group(struct mm_struct *mm)
{
#ifdef CONFIG_COHORT_GROUPS
	return READ_ONCE(mm->cohort.group);
#else
	return NULL;
#endif
}

static inline bool cohort_member(struct mm_struct *mm)
{
	/* One branch: faults ask for processes outside all cohorts, too. */
	return mm->cohort.id | mm->cohort.flags |
	       (unsigned long)cohort_group(mm);
}

/* True if @mm uses any shared PMD table. Callers hold its mmap_lock. */
static inline bool mm_cohort_upper(struct mm_struct *mm)
{
	return IS_ENABLED(CONFIG_COHORT_UPPER) && cohort_active() &&
	       unlikely(READ_ONCE(mm->cohort.nr_upper));
}

/* True if @mm uses any shared table. Callers hold its mmap_lock. */
static inline bool mm_cohort(struct mm_struct *mm)
{
	return cohort_active() && unlikely(atomic_read(&mm->cohort.nr_tables));
}

void cohort_mm_init(struct mm_struct *mm);

long cohort_prctl_set(unsigned long flags, const char __user *name);
long cohort_prctl_get(void);
int proc_pid_cohort(struct seq_file *m, struct pid_namespace *ns,
		    struct pid *pid, struct task_struct *task);

#else /* !CONFIG_COHORT */

static inline void cohort_count_table(void) { }
static inline void cohort_count_copied(unsigned long nr) { }
static inline void cohort_count_file_fault(void) { }

static inline bool pmd_cohort(pmd_t pmd) { return false; }
static inline bool cohort_active(void) { return false; }
static inline bool cohort_copy_files(void) { return false; }
static inline bool cohort_member(struct mm_struct *mm) { return false; }

static inline void cohort_mm_init(struct mm_struct *mm) { }

static inline long cohort_prctl_set(unsigned long flags,
				    const char __user *name)
{
	return -EINVAL;
}

static inline long cohort_prctl_get(void) { return -EINVAL; }

#endif /* CONFIG_COHORT */

#ifdef CONFIG_COHORT_UPPER

/*
 * The PMD table that maps an address, or NULL. The entry above is read once: a
 * process may leave a shared table while somebody walks it without its mmap_lock.
 */
static inline pmd_t *cohort_pmd_offset(pud_t *pud, unsigned long addr)
{
	pud_t entry = READ_ONCE(*pud);

	return pud_present(entry) ? pmd_offset_lockless(pud, entry, addr) : NULL;
}

/*
 * As cohort_pmd_offset(), for a caller that has found the entry above present and may
 * lose it. Returns false if it has.
 */
static inline bool cohort_enter_pmds(pud_t *pud, unsigned long addr,
				     pmd_t **pmd)
{
	pud_t entry = READ_ONCE(*pud);

	if (unlikely(pud_none(entry)))
		return false;
	*pmd = pmd_offset_lockless(pud, entry, addr);
	return true;
}

#else /* !CONFIG_COHORT_UPPER */

/*
 * Stock code. A level that is folded has no entry of its own to read once: its table
 * is the entry above.
 */
static inline pmd_t *cohort_pmd_offset(pud_t *pud, unsigned long addr)
{
	return pud_present(*pud) ? pmd_offset(pud, addr) : NULL;
}

static inline bool cohort_enter_pmds(pud_t *pud, unsigned long addr,
				     pmd_t **pmd)
{
	*pmd = pmd_offset(pud, addr);
	return true;
}

#endif /* CONFIG_COHORT_UPPER */

#include <linux/cohort_account.h>
#include <linux/cohort_babelfish.h>
#include <linux/cohort_fault.h>
#include <linux/cohort_fork.h>
#include <linux/cohort_merge.h>
#include <linux/cohort_rmap.h>
#include <linux/cohort_unshare.h>

#ifdef CONFIG_COHORT

unsigned long cohort_do_hint(struct file *file, unsigned long len,
			     unsigned long pgoff, unsigned long flags);

/*
 * Choose the address of a new region, unless the caller has. The mmap_lock is held for
 * writing, so a place that is free stays free: a file's own get_unmapped_area(), which may
 * move it to another place in 2 MB, is to leave it.
 */
static inline void cohort_hint(struct mm_struct *mm, struct file *file,
			       unsigned long *addr, unsigned long len,
			       unsigned long pgoff, unsigned long *flags)
{
	unsigned long place;

	if (!cohort_active() ||
	    (likely(!cohort_group(mm)) && likely(len < PUD_SIZE)) || *addr)
		return;
	place = cohort_do_hint(file, len, pgoff, *flags);
	if (place) {
		*addr = place;
		*flags |= MAP_FIXED;
	}
}

#else /* !CONFIG_COHORT */

static inline void cohort_hint(struct mm_struct *mm, struct file *file,
			       unsigned long *addr, unsigned long len,
			       unsigned long pgoff, unsigned long *flags)
{
}

#endif /* CONFIG_COHORT */

#endif /* _LINUX_COHORT_H */
