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
 */
#include <linux/capability.h>
#include <linux/cohort.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/smp.h>
#include <linux/vmstat.h>

#include <asm/bug.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>

#include "fault.h"

DEFINE_STATIC_KEY_FALSE(cohort_tlb_key);

/* Whether others stay out of the group's range (G5); the paper's scheme does without. */
static bool tlb_window __ro_after_init = true;

static int __init setup_window(char *arg)
{
	return !kstrtobool(arg, &tlb_window);
}
__setup("cohort_tlb_window=", setup_window);

/* The one group. */
static struct {
	/* protects all but @members; taken below a mmap_lock */
	struct mutex lock;
	/* how many processes; 0 if there is no group */
	atomic_t members;
	/* grows with the group's code: a process of another number may be anywhere */
	unsigned int number;
	/* the code lies in these ranges of 2 MB */
	DECLARE_BITMAP(ranges, TASK_SIZE >> PMD_SHIFT);
} group = {
	.lock = __MUTEX_INITIALIZER(group.lock),
};

static bool apart(struct mm_struct *mm)
{
	if (mm == &init_mm || !atomic_read(&group.members))
		return false;
	return (READ_ONCE(mm->context.tlb_flags) & TLB_APART) ||
	       (tlb_window &&
		mm->context.tlb_group != READ_ONCE(group.number));
}

/* Atomic: a fault sets TLB_OWN while another thread leaves. */
static void set_flags(struct mm_struct *mm, unsigned int set, unsigned int clear)
{
	unsigned int flags = READ_ONCE(mm->context.tlb_flags);

	while (!try_cmpxchg(&mm->context.tlb_flags, &flags,
			    (flags & ~clear) | set))
		;
}

/* A thread that uses @mm may reach this much of it. */
static void open_domains(struct task_struct *tsk, struct mm_struct *mm)
{
	task_thread_info(tsk)->cpu_domain =
		READ_ONCE(mm->context.tlb_flags) & TLB_OPEN ?
		DACR_UACCESS_ZYGOTE : DACR_UACCESS_ENABLE;
}

/* A processor turns from one address space to another. Interrupts are off, or @tsk runs. */
void __cohort_tlb_switch(struct mm_struct *prev, struct mm_struct *next,
			 struct task_struct *tsk)
{
	if (prev != next && (apart(prev) || apart(next)))
		local_flush_tlb_all();
	/* On the way back to user mode, and at uaccess (G4). */
	open_domains(tsk ?: current, next);
}

void __cohort_tlb_init(struct mm_struct *mm)
{
	/* Pairs with new_number(). */
	mm->context.tlb_group = smp_load_acquire(&group.number);
}

/* Its tables are gone, and what TLBs held of them for all. */
void cohort_tlb_do_exit(struct mm_struct *mm)
{
	if (!(mm->context.tlb_flags & TLB_COUNTED))
		return;
	set_flags(mm, 0, TLB_COUNTED);
	atomic_dec(&group.members);
}

/* Entries for all are in a table that the process may be the only one to have. */
void __cohort_tlb_own(struct mm_struct *mm)
{
	if (!(READ_ONCE(mm->context.tlb_flags) & TLB_OWN))
		set_flags(mm, TLB_OWN, 0);
}

/*
 * A page of a file: an anonymous one may be another in each process, after it was swapped.
 * Whether a shared table is the group's does not depend on who writes to it, which may be a
 * process on its way out, or the reverse map on its behalf (G5).
 */
bool __cohort_tlb_anybody(struct mm_struct *mm, pte_t pte, pte_t *ptep)
{
	unsigned long pfn = pte_pfn(pte);
	bool of_group;

	if (!pfn_valid(pfn) || PageAnon(pfn_to_page(pfn)))
		return false;
	if (ptep && cohort_table_group(ptep, &of_group))
		return of_group;
	if (!cohort_tlb_member(mm))
		return false;
	__cohort_tlb_own(mm);
	return true;
}

/*
 * Flush what a gather has collected, as the generic function. A flush by address removes
 * entries of all address spaces too; one of a whole address space does not (G3).
 */
void cohort_tlb_flush(struct mmu_gather *tlb)
{
	if ((tlb->fullmm || tlb->need_flush_all) && cohort_tlb_owns(tlb->mm)) {
		flush_tlb_all();
	} else if (tlb->fullmm || tlb->need_flush_all) {
		flush_tlb_mm(tlb->mm);
	} else if (tlb->end) {
		struct vm_area_struct vma = {
			.vm_mm = tlb->mm,
			.vm_flags = tlb->vma_exec ? VM_EXEC : 0,
		};

		flush_tlb_range(&vma, tlb->start, tlb->end);
	}
}

/* Called at the prctl() that asks for a group at the next exec. */
int cohort_tlb_enable(void)
{
	/* Flushes by address must reach all processors (G3), and all address spaces at once. */
	if (!arch_cohort_supported())
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (atomic_read(&group.members))
		return -EBUSY;
	static_branch_enable(&cohort_tlb_key);
	return 0;
}

static void set_domain_of(pmd_t *pmd, pmdval_t clear, pmdval_t set)
{
	arch_cohort_set_pmd(pmd, __pmd((pmd_val(*pmd) & ~clear) | set));
	flush_pmd_entry(pmd);
}

static void take_in(struct mm_struct *mm, pmd_t *pmd)
{
	spinlock_t *pml = pmd_lock(mm, pmd);

	if (!pmd_none(*pmd))
		set_domain_of(pmd, 0, PMD_TLB_MEMBER);
	spin_unlock(pml);
}

/*
 * Whoever was made before this may be where the group's code is, or is about to be: from
 * here on nobody finds what it has left in a TLB (G5, G6).
 */
static void new_number(struct mm_struct *leader)
{
	/* Who sees the number sees the ranges. */
	smp_store_release(&group.number, group.number + 1);
	leader->context.tlb_group = group.number;
	flush_tlb_all();
}

void cohort_tlb_do_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	unsigned int flags = oldmm->context.tlb_flags;

	mm->context.tlb_group = oldmm->context.tlb_group;
	set_flags(mm, flags & (TLB_MEMBER | TLB_OPEN | TLB_COUNTED | TLB_APART |
			       TLB_OWN), 0);
	/* The parent keeps the group alive. */
	if (flags & TLB_COUNTED)
		atomic_inc(&group.members);
	/* What the parent maps from here on, this child does not have (G1). */
	if (flags & TLB_LEADER)
		set_flags(oldmm, 0, TLB_LEADER);
}

/* The first range of the group's code that a range of addresses meets, or past the last. */
static unsigned long first_met(unsigned long addr, unsigned long len)
{
	unsigned long end = DIV_ROUND_UP(addr + len, PMD_SIZE);

	return find_next_bit(group.ranges, end, addr >> PMD_SHIFT);
}

static bool meets(unsigned long addr, unsigned long len)
{
	return atomic_read(&group.members) &&
	       first_met(addr, len) < DIV_ROUND_UP(addr + len, PMD_SIZE);
}

/*
 * The mmap_lock is held for writing. The program itself lies where all programs lie, which
 * would all be kept apart: its code is not the group's.
 */
vm_flags_t cohort_tlb_do_vm_flags(struct mm_struct *mm, struct file *file,
				  unsigned long addr, unsigned long len,
				  unsigned long flags, vm_flags_t vm_flags)
{
	unsigned long first = addr >> PMD_SHIFT;

	/* Not of a device: its driver may leave the mapping out of a child. */
	if (!(mm->context.tlb_flags & TLB_LEADER) || !file ||
	    !S_ISREG(file_inode(file)->i_mode) || addr < TASK_UNMAPPED_BASE ||
	    (flags & MAP_TYPE) != MAP_PRIVATE ||
	    !cohort_tlb_region(vm_flags | VM_TLB_GROUP))
		return 0;
	mutex_lock(&group.lock);
	bitmap_set(group.ranges, first,
		   DIV_ROUND_UP(addr + len, PMD_SIZE) - first);
	new_number(mm);
	mutex_unlock(&group.lock);
	return VM_TLB_GROUP;
}

bool __cohort_tlb_taken(struct mm_struct *mm, unsigned long addr,
			unsigned long len)
{
	return tlb_window && !cohort_tlb_member(mm) && meets(addr, len);
}

/* Give up after so many ranges, and be kept apart (invariant 13). */
#define TLB_TRIES	64

/* As vm_unmapped_area(), but a process that is no member stays out, if there is room. */
unsigned long cohort_tlb_area(struct vm_unmapped_area_info *info)
{
	struct vm_unmapped_area_info next = *info;
	unsigned long addr = vm_unmapped_area(info), other = addr;
	int i;

	if (!cohort_tlb_active())
		return addr;
	for (i = 0; i < TLB_TRIES; i++) {
		if (IS_ERR_VALUE(other))
			return addr;
		if (!__cohort_tlb_taken(current->mm, other, info->length))
			return other;
		if (info->flags & VM_UNMAPPED_AREA_TOPDOWN)
			next.high_limit = first_met(other, info->length) << PMD_SHIFT;
		else
			next.low_limit = (first_met(other, info->length) + 1) << PMD_SHIFT;
		if (next.high_limit <= next.low_limit)
			return addr;
		other = vm_unmapped_area(&next);
	}
	return addr;
}

/* True if a process has a region where the group's code lies. Its mmap_lock is held. */
static bool in_ranges(struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	for_each_vma(vmi, vma) {
		if (meets(vma->vm_start, vma->vm_end - vma->vm_start))
			return true;
		cond_resched();
	}
	return false;
}

/*
 * A process that is no member is about to have a region; its mmap_lock is held for
 * writing. If it lies among the group's code, the process's entries and the global ones
 * are kept apart from its next switch on; until then, it meets only global entries that a
 * domain fault removes. One that is older than the code, and was kept apart for this,
 * need not be if it has nothing there.
 */
void cohort_tlb_do_claim(struct mm_struct *mm, unsigned long start,
			 unsigned long end)
{
	/* Pairs with new_number(). */
	unsigned int number = smp_load_acquire(&group.number);

	if (cohort_tlb_held(mm) || !tlb_window)
		return;
	if (meets(start, end - start)) {
		set_flags(mm, TLB_APART, 0);
	} else if (mm->context.tlb_group != number &&
		   !(READ_ONCE(mm->context.tlb_flags) & TLB_APART)) {
		if (in_ranges(mm))
			set_flags(mm, TLB_APART, 0);
		else
			WRITE_ONCE(mm->context.tlb_group, number);
	}
}

/* An entry, valid in hardware or not, that may be for all. */
static bool of_group(pte_t pte)
{
	return (pte_val(pte) & (L_PTE_PRESENT | L_PTE_ANYBODY)) ==
	       (L_PTE_PRESENT | L_PTE_ANYBODY);
}

/* Let the entries of an own table be the process's alone. */
static void make_own(struct mm_struct *mm, pmd_t *pmd)
{
	DECLARE_BITMAP(young, PTRS_PER_PTE);
	spinlock_t *pml, *ptl;
	bool any = false;
	pte_t *table;
	int i;

	bitmap_zero(young, PTRS_PER_PTE);
	pml = pmd_lock(mm, pmd);
	if (pmd_none(*pmd) || pmd_cohort(*pmd))
		goto unlock;
	ptl = pte_lockptr(mm, pmd);
	if (ptl != pml)
		spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	table = pmd_page_vaddr(*pmd);
	/*
	 * Break before make, for all (G3): the hardware has no entry that is old, while
	 * other walkers find it as before. Who faults waits for the lock.
	 */
	for (i = 0; i < PTRS_PER_PTE; i++) {
		if (!of_group(table[i]))
			continue;
		any = true;
		if (pte_young(table[i]))
			__set_bit(i, young);
		set_pte_ext(table + i, pte_mkold(table[i]), 0);
	}
	if (any)
		flush_tlb_all();
	for (i = 0; any && i < PTRS_PER_PTE; i++) {
		pte_t pte = table[i];

		if (!of_group(pte))
			continue;
		if (test_bit(i, young))
			pte = pte_mkyoung(pte);
		set_pte_ext(table + i, pte,
			    pte_valid_user(pte) ? PTE_EXT_NG : 0);
	}
	/* None is left that is global: now it may be open to all (G2). */
	set_domain_of(pmd, PMD_TLB_MEMBER, 0);
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

/*
 * Let each table of a process be the group's, or the process's own. Tables that appear
 * meanwhile are not visited.
 */
static int convert_tables(struct mm_struct *mm, bool own)
{
	unsigned long addr, next;
	int err = 0;

	for (addr = 0; addr < TASK_SIZE && !err; addr = next) {
		pmd_t *pmd;

		/* The last table may end behind the last address of user memory. */
		next = min((addr | ~PMD_MASK) + 1, TASK_SIZE);
		pmd = pmd_off(mm, addr);
		if (pmd_none(READ_ONCE(*pmd)))
			continue;
		if (own)
			err = turn_away(mm, pmd, addr);
		else
			take_in(mm, pmd);
		cond_resched();
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
	mutex_lock(&group.lock);
	if (atomic_read(&group.members))
		goto unlock;
	/* Once: not when one of the children executes a program. */
	mm->cohort.flags &= ~PR_COHORT_TLB;
	bitmap_zero(group.ranges, TASK_SIZE >> PMD_SHIFT);
	atomic_set(&group.members, 1);
	new_number(mm);
	set_flags(mm, TLB_MEMBER | TLB_OPEN | TLB_LEADER | TLB_COUNTED,
		  TLB_APART);
	open_domains(current, mm);
	/* Its stack. What a TLB holds of it has an open domain, too. */
	convert_tables(mm, false);
unlock:
	mutex_unlock(&group.lock);
	mmap_write_unlock(mm);
}

/* On each processor: threads of @mm reach no global entry from here on (G4). */
static void close_domains(void *mm)
{
	if (current->mm != mm)
		return;
	open_domains(current, mm);
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
 * Return: 0, or -ENOMEM. The process then is on its way out: it has its old tables, or new
 * ones, and whoever calls next goes on.
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
	set_flags(mm, TLB_APART, TLB_MEMBER | TLB_LEADER);
	spin_unlock(&mm->page_table_lock);
	err = convert_tables(mm, true);
	if (err)
		goto unlock;
	set_flags(mm, 0, TLB_OPEN | TLB_OWN);
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

/**
 * cohort_tlb_do_protect() - let code of the group that gets another protection be none
 * @vma: a region of the leader, which has no children yet; or of nobody's interest
 * @start: first address
 * @end: first address behind the range
 * @flags: what the range's flags are to be
 *
 * Its pages, which are the file's, come back at the next fault, for the process alone. It
 * is never the group's again: what was written to it would be there for all (G1).
 *
 * Return: @flags, without VM_TLB_GROUP.
 */
vm_flags_t cohort_tlb_do_protect(struct vm_area_struct *vma, unsigned long start,
				 unsigned long end, vm_flags_t flags)
{
	if (cohort_tlb_region(vma->vm_flags) && !cohort_tlb_region(flags)) {
		zap_page_range_single(vma, start, end - start, NULL);
		flags &= ~VM_TLB_GROUP;
	}
	return flags;
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
	/* Never: its own table is closed to it. Do not repeat the access for ever. */
	if (WARN_ON_ONCE(pmd_val(*pmd_off(current->active_mm, addr)) & PMD_TLB_MEMBER)) {
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
