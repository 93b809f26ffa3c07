/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what the rest of the kernel calls.
 *
 * Every hook starts with a test that fails for a process outside a cohort; the
 * work is in mm/cohort/. See Documentation/mm/cohort.rst for the invariants,
 * which comments name by number.
 *
 * Without the option objects are those of the stock kernel, byte for byte: each hook is a
 * macro that evaluates no argument, and nothing is declared here. An inline function reads
 * its arguments, which lets a compiler arrange the code around it in another way. For the
 * same reason a hook that may fail stands in a condition or before ?:, where a constant
 * removes it, and no hook adds a variable.
 */
#ifndef _LINUX_COHORT_H
#define _LINUX_COHORT_H

#ifdef CONFIG_COHORT

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
 * @COHORT_CHANGE: protection, address or another property changes
 * @COHORT_MLOCK: its pages are locked: those that are mapped now, if no others
 */
enum cohort_cause {
	COHORT_FAULT,
	COHORT_MAP,
	COHORT_UNMAP,
	COHORT_CHANGE,
	COHORT_MLOCK,
};

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

/*
 * No entry has the mark before cohort_activate(): others pay a nop (invariant 10). A macro,
 * so that they do not even read the entry.
 */
#define pmd_cohort(pmd)	(cohort_active() && arch_pmd_cohort(pmd))

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

#define cohort_count_table(...)		do { } while (0)
#define cohort_count_copied(...)	do { } while (0)
#define cohort_count_file_fault(...)	do { } while (0)
#define pmd_cohort(...)			false
#define cohort_active(...)		false
#define cohort_copy_files(...)		false
#define cohort_member(...)		false
#define cohort_mm_init(...)		do { } while (0)

#endif /* CONFIG_COHORT */

#ifdef CONFIG_COHORT_UPPER

/*
 * Read the entry for a PMD table once, also into *@entry for cohort_pmd_offset(): a process
 * may leave a shared table while somebody walks it without its mmap_lock.
 */
static inline pud_t cohort_read_pud(pud_t *pud, pud_t *entry)
{
	return *entry = READ_ONCE(*pud);
}

static inline pmd_t *cohort_pmd_offset(pud_t *pud, unsigned long addr, pud_t entry)
{
	return pmd_offset_lockless(pud, entry, addr);
}

/* True if a caller that has found the entry for a PMD table present has lost it. */
static inline bool cohort_lost_pmds(pud_t *pud, pud_t *entry)
{
	return unlikely(pud_none(cohort_read_pud(pud, entry)));
}

/* pud_none_or_clear_bad() of one value: an entry that goes meanwhile is not bad. */
static inline bool cohort_none_or_clear_bad(pud_t *pud)
{
	pud_t entry = READ_ONCE(*pud);

	if (pud_none(entry))
		return true;
	if (unlikely(pud_bad(entry))) {
		pud_clear_bad(pud);
		return true;
	}
	return false;
}

#define DECLARE_COHORT_PUD(entry)	pud_t entry

#else /* !CONFIG_COHORT_UPPER */

/* A level that is folded has no entry to read once: its table is the entry above. */
#define DECLARE_COHORT_PUD(...)
#define cohort_read_pud(pud, ...)	(*(pud))
#define cohort_pmd_offset(pud, addr, ...) \
	pmd_offset(pud, addr)
#define cohort_lost_pmds(...)		false
#define cohort_none_or_clear_bad(pud)	pud_none_or_clear_bad(pud)

#endif /* CONFIG_COHORT_UPPER */

#include <linux/cohort_account.h>
#include <linux/cohort_babelfish.h>
#include <linux/cohort_fault.h>
#include <linux/cohort_tlb_group.h>
#include <linux/cohort_group.h>
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

#define cohort_hint(...)		do { } while (0)

#endif /* CONFIG_COHORT */

#endif /* _LINUX_COHORT_H */
