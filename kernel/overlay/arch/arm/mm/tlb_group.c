// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared TLB entries (EuroSys'16, section 3.2): a zygote and its children use the same
 * entries for the code that the zygote has mapped before its first child. Such an entry
 * is global, so TLBs take it whatever the address space. Its domain is open to members
 * of the group alone; a process that is none gets a domain fault instead of the page.
 *
 * What must hold:
 *
 * G1 An address is the same page with the same rights for all members. Who is to differ
 *    leaves the group first: cohort_tlb_do_diverge().
 * G2 A global entry lies in a table whose domain is closed to all others.
 * G3 Who clears a global entry flushes that address for all before the page can be used
 *    again. A flush by address does so whatever the address space; one of a whole
 *    address space keeps global entries, so a member's end flushes all.
 * G4 The domains are closed whenever the kernel reaches user memory for a process that
 *    is no member.
 * G5 A TLB never holds a global entry and one of an address space for one address: what
 *    a lookup finds then is unpredictable. Others stay out of the ranges in which the
 *    group's code lies; who is in one nevertheless finds an empty TLB, and leaves one.
 * G6 There is one group at a time, and all is flushed before the next.
 *
 * Here: who is a member, and domains (G4). tlb_leave.c has the code that members share, and
 * how to leave; tlb_window.c keeps others away from it; tlb_global.c makes entries global.
 */
#include <linux/bug.h>
#include <linux/capability.h>
#include <linux/cohort.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/pgalloc.h>
#include <linux/vmstat.h>

#include <asm/tlbflush.h>

#include "fault.h"
#include "tlb_group.h"

DEFINE_STATIC_KEY_FALSE(cohort_tlb_key);

struct cohort_tlb_group cohort_tlb_group = {
	.lock = __MUTEX_INITIALIZER(cohort_tlb_group.lock),
};

/* Atomic: a fault sets TLB_OWN while another thread leaves. */
void cohort_tlb_set_flags(struct mm_struct *mm, unsigned int set, unsigned int clear)
{
	unsigned int flags = READ_ONCE(mm->context.tlb_flags);

	while (!try_cmpxchg(&mm->context.tlb_flags, &flags,
			    (flags & ~clear) | set))
		;
}

/* A thread that uses @mm may reach this much of it. */
void cohort_tlb_open_domains(struct task_struct *tsk, struct mm_struct *mm)
{
	task_thread_info(tsk)->cpu_domain =
		READ_ONCE(mm->context.tlb_flags) & TLB_OPEN ?
		DACR_UACCESS_ZYGOTE : DACR_UACCESS_ENABLE;
}

/* A processor turns from one address space to another. Interrupts are off, or @tsk runs. */
void __cohort_tlb_switch(struct mm_struct *prev, struct mm_struct *next,
			 struct task_struct *tsk)
{
	if (prev != next &&
	    (cohort_tlb_apart(prev) || cohort_tlb_apart(next)))
		local_flush_tlb_all();
	/* On the way back to user mode, and at uaccess (G4). */
	cohort_tlb_open_domains(tsk ?: current, next);
}

pmdval_t __cohort_tlb_domain(struct mm_struct *mm)
{
	return READ_ONCE(mm->context.tlb_flags) & TLB_MEMBER ? PMD_TLB_MEMBER : 0;
}

void __cohort_tlb_init(struct mm_struct *mm)
{
	cohort_tlb_window_init(mm);
}

/* Its tables are gone, and what TLBs held of them for all. */
void cohort_tlb_do_exit(struct mm_struct *mm)
{
	if (!(mm->context.tlb_flags & TLB_COUNTED))
		return;
	cohort_tlb_set_flags(mm, 0, TLB_COUNTED);
	atomic_dec(&cohort_tlb_group.members);
}

/* Called at the prctl() that asks for a group at the next exec. */
int cohort_tlb_enable(void)
{
	/* Flushes by address must reach all processors (G3), and all address spaces at once. */
	if (!arch_cohort_supported())
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (atomic_read(&cohort_tlb_group.members))
		return -EBUSY;
	static_branch_enable(&cohort_tlb_key);
	return 0;
}

void cohort_tlb_set_domain(pmd_t *pmd, pmdval_t clear, pmdval_t set)
{
	arch_cohort_set_pmd(pmd, __pmd((pmd_val(*pmd) & ~clear) | set));
	flush_pmd_entry(pmd);
}

static int take_in(struct mm_struct *mm, pmd_t *pmd, unsigned long addr)
{
	spinlock_t *pml = pmd_lock(mm, pmd);

	if (!pmd_none(*pmd))
		cohort_tlb_set_domain(pmd, 0, PMD_TLB_MEMBER);
	spin_unlock(pml);
	return 0;
}

void cohort_tlb_do_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	unsigned int flags = oldmm->context.tlb_flags;

	mm->context.tlb_group = oldmm->context.tlb_group;
	cohort_tlb_set_flags(mm, flags & (TLB_MEMBER | TLB_OPEN | TLB_COUNTED | TLB_APART |
			       TLB_OWN), 0);
	/* The parent keeps the group alive. */
	if (flags & TLB_COUNTED)
		atomic_inc(&cohort_tlb_group.members);
	/* What the parent maps from here on, this child does not have (G1). */
	if (flags & TLB_LEADER)
		cohort_tlb_set_flags(oldmm, 0, TLB_LEADER);
}

static int visit_table(struct mm_struct *mm, unsigned long addr,
		       int (*visit)(struct mm_struct *mm, pmd_t *pmd,
				    unsigned long addr))
{
	pmd_t *pmd = pmd_off(mm, addr);

	return pmd_none(READ_ONCE(*pmd)) ? 0 : visit(mm, pmd, addr);
}

/**
 * cohort_tlb_each_table() - call a function for each table of a process
 * @mm: the process; its mmap_lock is held
 * @visit: gets the process, the entry that points to the table and an address of it
 *
 * Tables that appear meanwhile are not visited, nor those without a region: munmap() frees
 * these with the mmap_lock held for reading. But for the first: as it reaches below
 * FIRST_USER_ADDRESS, it stays until the process ends.
 *
 * Return: 0, or what @visit returned that was not 0.
 */
int cohort_tlb_each_table(struct mm_struct *mm,
			  int (*visit)(struct mm_struct *mm, pmd_t *pmd,
				       unsigned long addr))
{
	unsigned long addr, next = PMD_SIZE;
	VMA_ITERATOR(vmi, mm, PMD_SIZE);
	struct vm_area_struct *vma;
	int err = visit_table(mm, 0, visit);

	for_each_vma(vmi, vma) {
		if (err)
			break;
		addr = max(vma->vm_start & PMD_MASK, next);
		for (; addr < vma->vm_end && !err; addr += PMD_SIZE) {
			err = visit_table(mm, addr, visit);
			cond_resched();
		}
		next = addr;
	}
	return err;
}

/**
 * cohort_tlb_lead() - make the caller's new address space the first of a group
 * @mm: the caller's, in which nothing of the program is mapped yet
 *
 * Without effect while there is a group, or without CAP_SYS_ADMIN.
 */
void cohort_tlb_lead(struct mm_struct *mm)
{
	if (!capable(CAP_SYS_ADMIN))
		return;
	mmap_write_lock(mm);
	mutex_lock(&cohort_tlb_group.lock);
	if (atomic_read(&cohort_tlb_group.members))
		goto unlock;
	/* Once: not when one of the children executes a program. */
	mm->cohort.flags &= ~PR_COHORT_TLB;
	cohort_tlb_window_clear();
	atomic_set(&cohort_tlb_group.members, 1);
	cohort_tlb_window_begin(mm);
	cohort_tlb_set_flags(mm, TLB_MEMBER | TLB_OPEN | TLB_LEADER | TLB_COUNTED,
			     TLB_APART);
	cohort_tlb_open_domains(current, mm);
	/* Its stack. What a TLB holds of it has an open domain, too. */
	cohort_tlb_each_table(mm, take_in);
unlock:
	mutex_unlock(&cohort_tlb_group.lock);
	mmap_write_unlock(mm);
}

/*
 * A process that is no member has met a global entry. Remove it here; what the process
 * itself has at the address is walked next (section 3.2.3).
 */
static int domain_fault(unsigned long addr, unsigned int fsr,
			struct pt_regs *regs)
{
	if (addr >= TASK_SIZE || !cohort_tlb_active())
		return 1;
	/* In the kernel: at uaccess only. */
	if (!user_mode(regs) &&
	    !(to_svc_pt_regs(regs)->dacr & domain_mask(DOMAIN_USER)))
		return 1;
	/* A thread of the kernel reads memory of who was here last, for a tracer. */
	if (!current->mm) {
		do_bad_area(addr, fsr, regs);
		return 0;
	}
	/*
	 * Its own table is closed to it: munmap() in another thread is about to free it, see
	 * cohort_tlb_each_table(). There is no region any more.
	 */
	if (pmd_val(*pmd_off(current->active_mm, addr)) & PMD_TLB_MEMBER) {
		do_bad_area(addr, fsr, regs);
		return 0;
	}
	asm volatile("mcr p15, 0, %0, c8, c7, 3" : : "r" (addr & PAGE_MASK));
	dsb(nsh);
	isb();
	count_vm_event(COHORT_TLB_DOMAIN_FAULT);
	return 0;
}

static int __init tlb_group_init(void)
{
	/* The hardware tells the domain of a section from that of a page. */
	hook_fault_code(9, domain_fault, SIGSEGV, SEGV_ACCERR,
			"section domain fault");
	hook_fault_code(11, domain_fault, SIGSEGV, SEGV_ACCERR,
			"page domain fault");
	hook_ifault_code(9, domain_fault, SIGSEGV, SEGV_ACCERR,
			 "section domain fault");
	hook_ifault_code(11, domain_fault, SIGSEGV, SEGV_ACCERR,
			 "page domain fault");
	return 0;
}
arch_initcall(tlb_group_init);
