/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: processes that were not forked from one another.
 *
 * See mm/cohort/group.c and mm/cohort/join.c.
 */
#ifndef _LINUX_COHORT_GROUP_H
#define _LINUX_COHORT_GROUP_H

#ifndef _LINUX_COHORT_H
#error "include <linux/cohort.h> instead"
#endif

#ifdef CONFIG_COHORT

#include <linux/sizes.h>

#include <uapi/linux/prctl.h>

struct cgroup_taskset;
struct mem_cgroup;
struct task_struct;

/* A smaller piece of a file is not placed as in other processes of the group. */
#define COHORT_PLACE_MIN	SZ_1M

#endif /* CONFIG_COHORT */

#ifdef CONFIG_COHORT_GROUPS

bool cohort_places(struct mm_struct *mm);
void cohort_do_layout(struct mm_struct *mm);
unsigned long cohort_do_place(struct file *file, unsigned long len,
			      unsigned long pgoff, unsigned long flags);
unsigned long cohort_do_image_place(unsigned long place, const void *headers,
				    unsigned int nr, size_t size);
void cohort_label_free(struct mem_cgroup *memcg);
void cohort_do_move(struct cgroup_taskset *tset);
void cohort_do_born(struct task_struct *child);
long cohort_prctl_group(const char __user *name);

/* Tasks have moved to other cgroups: they leave what groups of the old ones share. */
static inline void cohort_move(struct cgroup_taskset *tset)
{
	if (cohort_active())
		cohort_do_move(tset);
}

/* A child has a cgroup, maybe another than its parent. */
static inline void cohort_born(struct task_struct *child)
{
	if (cohort_active())
		cohort_do_born(child);
}

/*
 * Where to map a file, so that its pages lie in 2 MB as in other processes of the group; 0
 * for anywhere.
 */
static inline unsigned long cohort_place(struct file *file, unsigned long len,
					 unsigned long pgoff,
					 unsigned long flags)
{
	if (!file || likely(!cohort_group(current->mm)))
		return 0;
	return cohort_do_place(file, len, pgoff, flags);
}

/* The layout of a new program is chosen: let libraries lie in 2 MB as in others. */
static inline void cohort_layout(struct mm_struct *mm)
{
	if (cohort_active() && unlikely(cohort_group(mm)))
		cohort_do_layout(mm);
}

/* As cohort_layout(), for the alignment of the program itself. */
static inline unsigned long cohort_image_align(unsigned long align, bool program)
{
	if (program && cohort_active() && unlikely(cohort_group(current->mm)) &&
	    cohort_places(current->mm))
		return max(align, PMD_SIZE);
	return align;
}

/*
 * Where the program is to begin instead of at such an address, so that what is never written
 * of it has tables of its own. @size is that of one of the @nr headers.
 */
static inline unsigned long cohort_image_place(unsigned long place,
					       const void *headers,
					       unsigned int nr, size_t size)
{
	if (cohort_active() && unlikely(cohort_group(current->mm)) &&
	    cohort_places(current->mm))
		return cohort_do_image_place(place, headers, nr, size);
	return place;
}

void cohort_do_exec(struct mm_struct *mm);
void cohort_do_set_group(struct mm_struct *mm, struct cohort_group *group);
vm_fault_t cohort_do_attach(struct vm_fault *vmf);
vm_fault_t cohort_do_attach_upper(struct vm_fault *vmf);

/* Put a process into a group, or with NULL into none. Its mmap_lock is held for writing. */
static inline void cohort_set_group(struct mm_struct *mm,
				    struct cohort_group *group)
{
	if (unlikely(mm->cohort.group != group))
		cohort_do_set_group(mm, group);
}

void cohort_do_hide(struct mm_struct *mm, unsigned long dumpable);

/* Before the calling process changes who may look into it: it may leave its group. */
static inline void cohort_hide(struct mm_struct *mm, unsigned long dumpable)
{
	if (cohort_active() && unlikely(cohort_group(mm)))
		cohort_do_hide(mm, dumpable);
}

/* The calling process executes another program: find its group. */
static inline void cohort_exec(struct mm_struct *mm, bool secure)
{
	if (!cohort_active() || secure)
		return;
	cohort_do_exec(mm);
	if (unlikely(mm->cohort.flags & PR_COHORT_TLB))
		cohort_tlb_lead(mm);
}

/**
 * cohort_attach() - let a fault find a table that a member of its group has
 * @mm: the process
 * @vmf: the fault, in a range that has no table; either the mmap_lock or the region's
 *	 lock is held
 *
 * Return: 0 to go on as in stock, also without memory; VM_FAULT_FALLBACK if there is a
 * table now, so the entries must be read again; VM_FAULT_RETRY.
 */
static inline vm_fault_t cohort_attach(struct mm_struct *mm,
				       struct vm_fault *vmf)
{
	if (!cohort_active() || likely(!cohort_group(mm)))
		return 0;
	return cohort_do_attach(vmf);
}

/* As cohort_attach(), for a PMD table. Then there is one, or none is to be joined. */
static inline vm_fault_t cohort_attach_upper(struct mm_struct *mm, pud_t *pud,
					     struct vm_fault *vmf)
{
	if (!IS_ENABLED(CONFIG_COHORT_UPPER) || !cohort_active() ||
	    likely(!pud_none(*pud)) || !cohort_group(mm))
		return 0;
	return cohort_do_attach_upper(vmf);
}

/*
 * True if a fault that is about to map a private copy has lost its table to a thread
 * that joined another in its place. The table's lock is held.
 */
static inline bool cohort_lost_table(struct mm_struct *mm, pmd_t *pmd)
{
	return cohort_active() && unlikely(cohort_group(mm)) &&
	       pmd_cohort(*pmd);
}

#else /* !CONFIG_COHORT_GROUPS */

#define cohort_set_group(...)		do { } while (0)
#define cohort_label_free(...)		do { } while (0)
#define cohort_move(...)		do { } while (0)
#define cohort_born(...)		do { } while (0)
#define cohort_prctl_group(...)		(-EINVAL)
#define cohort_place(...)		0
#define cohort_layout(...)		do { } while (0)
#define cohort_image_align(align, ...)	(align)
#define cohort_image_place(place, ...)	(place)
#define cohort_hide(...)		do { } while (0)
#define cohort_attach(...)		0
#define cohort_attach_upper(...)	0
#define cohort_lost_table(...)		false

#ifdef CONFIG_COHORT
static inline void cohort_exec(struct mm_struct *mm, bool secure)
{
	if (cohort_active() && !secure && (mm->cohort.flags & PR_COHORT_TLB))
		cohort_tlb_lead(mm);
}
#else
#define cohort_exec(...)		do { } while (0)
#endif

#endif /* CONFIG_COHORT_GROUPS */
#endif /* _LINUX_COHORT_GROUP_H */
