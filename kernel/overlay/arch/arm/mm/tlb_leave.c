// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared TLB entries: the code that all members of a group have, and how a process leaves
 * that is to differ (G1). See tlb_group.c.
 */
#include <linux/cohort.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pgalloc.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

#include <asm/tlbflush.h>

#include "tlb_group.h"

/*
 * The mmap_lock is held for writing. The program itself lies where all programs lie, which
 * would all be kept apart: its code is not the group's.
 */
vm_flags_t cohort_tlb_do_vm_flags(struct mm_struct *mm, struct file *file,
				  unsigned long addr, unsigned long len,
				  unsigned long flags, vm_flags_t vm_flags)
{
	/* Not of a device: its driver may leave the mapping out of a child. */
	if (!(mm->context.tlb_flags & TLB_LEADER) || !file ||
	    !S_ISREG(file_inode(file)->i_mode) || addr < TASK_UNMAPPED_BASE ||
	    (flags & MAP_TYPE) != MAP_PRIVATE ||
	    !cohort_tlb_region(vm_flags | VM_TLB_GROUP))
		return 0;
	cohort_tlb_window_add(mm, addr, len);
	return VM_TLB_GROUP;
}

/* Let the entries of an own table be the process's alone. */
static void make_own(struct mm_struct *mm, pmd_t *pmd)
{
	spinlock_t *pml, *ptl;

	pml = pmd_lock(mm, pmd);
	if (pmd_none(*pmd) || pmd_cohort(*pmd))
		goto unlock;
	ptl = pte_lockptr(mm, pmd);
	if (ptl != pml)
		spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	cohort_tlb_withdraw((pte_t *)pmd_page_vaddr(*pmd));
	/* None is left that is global: now it may be open to all (G2). */
	cohort_tlb_set_domain(pmd, PMD_TLB_MEMBER, 0);
	if (ptl != pml)
		spin_unlock(ptl);
unlock:
	spin_unlock(pml);
}

static int turn_away(struct mm_struct *mm, pmd_t *pmd, unsigned long addr)
{
	pmd_t entry = READ_ONCE(*pmd);
	int err;

	if (!(pmd_val(entry) & PMD_TLB_MEMBER))
		return 0;
	if (pmd_cohort(entry)) {
		err = cohort_do_unshare_tables(mm, addr & PMD_MASK,
					       min((addr | ~PMD_MASK) + 1, TASK_SIZE),
					       COHORT_CHANGE);
		if (err)
			return err;
	}
	/* Also one that it has taken back as the last user. */
	make_own(mm, pmd);
	return 0;
}

/* On each processor: threads of @mm reach no global entry from here on (G4). */
static void close_domains(void *mm)
{
	if (current->mm != mm)
		return;
	cohort_tlb_open_domains(current, mm);
	local_flush_tlb_all();
}

/**
 * cohort_tlb_leave() - leave the group
 * @mm: the process; its mmap_lock is held
 *
 * What processors hold for all stays right until this returns, since nothing has changed;
 * and what they hold of the process alone comes and goes without a global entry beside it,
 * since the process is kept apart from here on (G5). May sleep.
 *
 * Return: 0, -ENOMEM or -EINTR. After an error the process is on its way out: it has its
 * old tables, or new ones, and whoever calls next goes on.
 */
int cohort_tlb_leave(struct mm_struct *mm)
{
	int err = 0;

	if (!cohort_tlb_held(mm))
		return 0;
	/* A debugger, too, may be here, and then the mmap_lock is held for reading only. */
	mutex_lock(&mm->context.tlb_leave);
	if (!cohort_tlb_held(mm))
		goto unlock;
	/*
	 * First: what faults install meanwhile is not the group's. The lock keeps an entry
	 * and the table that it points to alike.
	 */
	spin_lock(&mm->page_table_lock);
	cohort_tlb_set_flags(mm, TLB_APART, TLB_MEMBER | TLB_LEADER);
	spin_unlock(&mm->page_table_lock);
	err = cohort_tlb_each_table(mm, turn_away);
	if (err)
		goto unlock;
	/* Also what a gather has cleared and leaves to the end, which need not flush for all. */
	if (cohort_tlb_owns(mm))
		flush_tlb_all();
	cohort_tlb_set_flags(mm, 0, TLB_OPEN | TLB_OWN);
	on_each_cpu(close_domains, mm, true);
	cohort_tlb_do_exit(mm);
	count_vm_event(COHORT_TLB_LEFT);
unlock:
	mutex_unlock(&mm->context.tlb_leave);
	return err;
}

int cohort_tlb_do_diverge(struct mm_struct *mm, unsigned long start,
			  unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, end)
		if (cohort_tlb_region(vma->vm_flags))
			return cohort_tlb_leave(mm);
	return 0;
}
