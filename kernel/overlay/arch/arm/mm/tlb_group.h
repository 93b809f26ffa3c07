/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared TLB entries: what the files of arch/arm/mm know of each other. See tlb_group.c.
 */
#ifndef __ARCH_ARM_MM_TLB_GROUP_H
#define __ARCH_ARM_MM_TLB_GROUP_H

#include <linux/atomic.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>

#include <asm/tlb_group.h>

/**
 * struct cohort_tlb_group - the one group
 * @lock: for who changes what the group is; taken below a mmap_lock
 * @members: how many processes; 0 if there is no group
 */
struct cohort_tlb_group {
	struct mutex lock;
	atomic_t members;
};

extern struct cohort_tlb_group cohort_tlb_group;

void cohort_tlb_set_flags(struct mm_struct *mm, unsigned int set,
			  unsigned int clear);
void cohort_tlb_open_domains(struct task_struct *tsk, struct mm_struct *mm);
void cohort_tlb_set_domain(pmd_t *pmd, pmdval_t clear, pmdval_t set);
int cohort_tlb_each_table(struct mm_struct *mm,
			  int (*visit)(struct mm_struct *mm, pmd_t *pmd,
				       unsigned long addr));

/* In tlb_window.c. */
bool cohort_tlb_apart(struct mm_struct *mm);
void cohort_tlb_window_init(struct mm_struct *mm);
void cohort_tlb_window_clear(void);
void cohort_tlb_window_begin(struct mm_struct *leader);
void cohort_tlb_window_add(struct mm_struct *leader, unsigned long addr,
			   unsigned long len);

/* In tlb_global.c. */
void cohort_tlb_withdraw(pte_t *table);

#endif /* __ARCH_ARM_MM_TLB_GROUP_H */
