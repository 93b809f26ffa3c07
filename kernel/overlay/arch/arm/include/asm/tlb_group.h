/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared TLB entries: a zygote and its children map the same code at the same addresses,
 * and use the same TLB entries for it. See arch/arm/mm/tlb_group.c.
 */
#ifndef __ASM_ARM_TLB_GROUP_H
#define __ASM_ARM_TLB_GROUP_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>

struct mmu_gather;
struct task_struct;
struct vm_unmapped_area_info;

#ifdef CONFIG_COHORT_TLB

/* What mm->context.tlb_flags says. */
#define TLB_MEMBER	BIT(0)	/* new tables and entries are the group's */
#define TLB_OPEN	BIT(1)	/* its threads may use entries of the group */
#define TLB_LEADER	BIT(2)	/* the code that it maps is the group's */
#define TLB_COUNTED	BIT(3)	/* it is one of those that keep the group alive */
#define TLB_APART	BIT(4)	/* no entry may stay when it comes or goes */
#define TLB_OWN		BIT(5)	/* it alone may have a table with global entries */

/* Code that the leader has mapped before it had children. */
#define VM_TLB_GROUP	VM_ARCH_1
/*
 * In an entry of Linux: it is of such a region. One more bit of the memory type, of which
 * cpu_v7_set_pte_ext() looks at the lower ones.
 */
#define L_PTE_ANYBODY	(_AT(pteval_t, 1) << 5)
/* In a first-level entry of a member: makes DOMAIN_ZYGOTE of DOMAIN_USER, and so on. */
#define PMD_TLB_MEMBER	PMD_DOMAIN(DOMAIN_ZYGOTE & ~DOMAIN_USER)

/* On as soon as there is a group. */
DECLARE_STATIC_KEY_FALSE(cohort_tlb_key);

static inline bool cohort_tlb_active(void)
{
	return static_branch_unlikely(&cohort_tlb_key);
}

static inline bool cohort_tlb_member(struct mm_struct *mm)
{
	return cohort_tlb_active() &&
	       (READ_ONCE(mm->context.tlb_flags) & TLB_MEMBER);
}

/*
 * True if it may use global entries: also on its way out of the group, until all its
 * threads have closed the domains.
 */
static inline bool cohort_tlb_held(struct mm_struct *mm)
{
	return cohort_tlb_active() &&
	       (READ_ONCE(mm->context.tlb_flags) & (TLB_OPEN | TLB_COUNTED));
}

/* True if its end may free what processors hold for all. */
static inline bool cohort_tlb_owns(struct mm_struct *mm)
{
	return cohort_tlb_held(mm) &&
	       (READ_ONCE(mm->context.tlb_flags) & TLB_OWN);
}

/* True if a region's flags say that its code is the group's. */
#define cohort_tlb_region(vm_flags)					\
	(((vm_flags) & (VM_TLB_GROUP | VM_EXEC | VM_WRITE | VM_SHARED)) == \
	 (VM_TLB_GROUP | VM_EXEC))

bool __cohort_tlb_anybody(struct mm_struct *mm, pte_t pte, pte_t *ptep);
void __cohort_tlb_own(struct mm_struct *mm);

/*
 * True if processors may use an entry for all: @ptep is where it is to be, in a table whose
 * lock is held, or NULL for a table that nothing points to yet.
 */
static inline bool cohort_tlb_anybody(struct mm_struct *mm, pte_t pte,
				      pte_t *ptep)
{
	return cohort_tlb_active() && (pte_val(pte) & L_PTE_ANYBODY) &&
	       __cohort_tlb_anybody(mm, pte, ptep);
}

pmdval_t __cohort_tlb_domain(struct mm_struct *mm);
void __cohort_tlb_init(struct mm_struct *mm);
void __cohort_tlb_switch(struct mm_struct *prev, struct mm_struct *next,
			 struct task_struct *tsk);
bool __cohort_tlb_taken(struct mm_struct *mm, unsigned long addr,
			unsigned long len);
unsigned long __cohort_tlb_area(struct vm_unmapped_area_info *info);

/* What to add to an entry that points to a new table, so that its domain is right. */
static inline pmdval_t cohort_tlb_domain(struct mm_struct *mm)
{
	return mm && cohort_tlb_active() ? __cohort_tlb_domain(mm) : 0;
}

static inline void cohort_tlb_init(struct mm_struct *mm)
{
	mm->context.tlb_flags = 0;
	mm->context.tlb_group = 0;
	/* Also of one that a group begins with later, and never one that is held. */
	mutex_init(&mm->context.tlb_leave);
	if (cohort_tlb_active())
		__cohort_tlb_init(mm);
}

static inline void cohort_tlb_switch(struct mm_struct *prev,
				     struct mm_struct *next,
				     struct task_struct *tsk)
{
	if (cohort_tlb_active())
		__cohort_tlb_switch(prev, next, tsk);
}

/* True if a process that is no member should not map this range. */
static inline bool cohort_tlb_taken(struct mm_struct *mm, unsigned long addr,
				    unsigned long len)
{
	return cohort_tlb_active() && __cohort_tlb_taken(mm, addr, len);
}

/* As vm_unmapped_area(), but a process that is no member stays out, if there is room. */
#define cohort_tlb_area(info)						\
({									\
	struct vm_unmapped_area_info *__info = (info);			\
									\
	cohort_tlb_active() ? __cohort_tlb_area(__info) :		\
			      vm_unmapped_area(__info);			\
})

#else /* !CONFIG_COHORT_TLB */

#include <linux/cohort_tlb_group.h>

#define PMD_TLB_MEMBER	0

static inline bool cohort_tlb_owns(struct mm_struct *mm) { return false; }
static inline pmdval_t cohort_tlb_domain(struct mm_struct *mm) { return 0; }
static inline void __cohort_tlb_own(struct mm_struct *mm) { }

static inline bool cohort_tlb_anybody(struct mm_struct *mm, pte_t pte,
				      pte_t *ptep)
{
	return false;
}

static inline void cohort_tlb_init(struct mm_struct *mm) { }

static inline void cohort_tlb_switch(struct mm_struct *prev,
				     struct mm_struct *next,
				     struct task_struct *tsk)
{
}

static inline bool cohort_tlb_taken(struct mm_struct *mm, unsigned long addr,
				    unsigned long len)
{
	return false;
}

#define cohort_tlb_area(info)	vm_unmapped_area(info)

#endif /* CONFIG_COHORT_TLB */

#endif /* __ASM_ARM_TLB_GROUP_H */
