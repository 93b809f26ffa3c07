/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared TLB entries: what the rest of the kernel tells the architecture. On one without
 * CONFIG_COHORT_TLB, nothing.
 */
#ifndef _LINUX_COHORT_TLB_GROUP_H
#define _LINUX_COHORT_TLB_GROUP_H

#ifdef CONFIG_COHORT_TLB

#include <linux/mm_types.h>

#include <asm/tlb_group.h>

int cohort_tlb_do_diverge(struct mm_struct *mm, unsigned long start,
			  unsigned long end);
void cohort_tlb_do_claim(struct mm_struct *mm, unsigned long start,
			 unsigned long end);
vm_flags_t cohort_tlb_do_vm_flags(struct mm_struct *mm, struct file *file,
				  unsigned long addr, unsigned long len,
				  unsigned long flags, vm_flags_t vm_flags);
vm_flags_t cohort_tlb_do_protect(struct vm_area_struct *vma, unsigned long start,
				 unsigned long end, vm_flags_t flags);
int cohort_tlb_enable(void);
void cohort_tlb_lead(struct mm_struct *mm);
int cohort_tlb_leave(struct mm_struct *mm);
void cohort_tlb_do_exit(struct mm_struct *mm);
void cohort_tlb_do_fork(struct mm_struct *mm, struct mm_struct *oldmm);

/**
 * cohort_tlb_change() - leave the group if a range of its code is to differ
 * @mm: the process; its mmap_lock is held
 * @start: first address
 * @end: first address behind the range
 *
 * Call it before anything is changed: a member's code is that of all members. May sleep.
 *
 * Return: 0, or an error with nothing changed that a process can see.
 */
static inline int cohort_tlb_change(struct mm_struct *mm, unsigned long start,
				    unsigned long end)
{
	return cohort_tlb_held(mm) ? cohort_tlb_do_diverge(mm, start, end) : 0;
}

/*
 * As cohort_tlb_change(), where a region goes, another takes its place, or its protection
 * changes: the flush that follows is by address, and removes what is there for all. The
 * leader may do so as long as nobody else has its code: program loaders do.
 */
static inline int cohort_tlb_diverge(struct mm_struct *mm, unsigned long start,
				     unsigned long end)
{
	if (!cohort_tlb_held(mm) || (mm->context.tlb_flags & TLB_LEADER))
		return 0;
	return cohort_tlb_do_diverge(mm, start, end);
}

/* The flags of a part of a region whose protection is about to change. */
static inline vm_flags_t cohort_tlb_protect(vm_flags_t flags,
					    struct vm_area_struct *vma,
					    unsigned long start,
					    unsigned long end)
{
	return cohort_tlb_held(vma->vm_mm) ?
	       cohort_tlb_do_protect(vma, start, end, flags) : flags;
}

/*
 * Code is read or written through its pages: a store by force, and a pin for long, give the
 * process a page of its own there.
 */
static inline int cohort_tlb_gup(struct vm_area_struct *vma,
				 unsigned long gup_flags)
{
	if (!(gup_flags & (FOLL_WRITE | FOLL_LONGTERM)))
		return 0;
	return cohort_tlb_change(vma->vm_mm, vma->vm_start, vma->vm_end);
}

/* True if it is leaving and may still have tables of the group. */
static inline bool cohort_tlb_leaving(struct mm_struct *mm)
{
	return cohort_tlb_held(mm) && !cohort_tlb_member(mm);
}

/* Its tables are gone. */
static inline void cohort_tlb_exit(struct mm_struct *mm)
{
	if (cohort_tlb_active())
		cohort_tlb_do_exit(mm);
}

/* A region is about to be there. */
static inline void cohort_tlb_claim(struct mm_struct *mm, unsigned long start,
				    unsigned long end)
{
	if (cohort_tlb_active())
		cohort_tlb_do_claim(mm, start, end);
}

/* What else the flags of a new region say. */
static inline vm_flags_t cohort_tlb_vm_flags(struct mm_struct *mm,
					     struct file *file,
					     unsigned long addr,
					     unsigned long len,
					     unsigned long flags,
					     vm_flags_t vm_flags)
{
	return cohort_tlb_active() ?
	       cohort_tlb_do_vm_flags(mm, file, addr, len, flags, vm_flags) : 0;
}

/* A child is about to get its parent's regions; the parent's mmap_lock is held. */
static inline void cohort_tlb_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	if (cohort_tlb_active())
		cohort_tlb_do_fork(mm, oldmm);
}

#else /* !CONFIG_COHORT_TLB */

#define cohort_tlb_member(...)		false
#define cohort_tlb_held(...)		false
#define cohort_tlb_leave(...)		0
#define cohort_tlb_leaving(...)		false
#define cohort_tlb_exit(...)		do { } while (0)
#define cohort_tlb_change(...)		0
#define cohort_tlb_diverge(...)		0
#define cohort_tlb_protect(flags, ...)	(flags)
#define cohort_tlb_gup(...)		0
#define cohort_tlb_claim(...)		do { } while (0)
#define cohort_tlb_vm_flags(...)	0
#define cohort_tlb_enable(...)		(-EINVAL)
#define cohort_tlb_lead(...)		do { } while (0)
#define cohort_tlb_fork(...)		do { } while (0)

#endif /* CONFIG_COHORT_TLB */

#endif /* _LINUX_COHORT_TLB_GROUP_H */
