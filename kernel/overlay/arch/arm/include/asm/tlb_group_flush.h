/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared TLB entries: how a gather is flushed. See arch/arm/mm/tlb_global.c. For <asm/tlb.h>
 * alone, behind <asm-generic/tlb.h>.
 */
#ifndef __ASM_ARM_TLB_GROUP_FLUSH_H
#define __ASM_ARM_TLB_GROUP_FLUSH_H

#ifdef CONFIG_COHORT_TLB

/*
 * Flush what a gather has collected, as the generic function. A flush by address removes
 * entries of all address spaces too; one of a whole address space does not (G3).
 */
static inline void tlb_flush(struct mmu_gather *tlb)
{
	if (tlb->fullmm || tlb->need_flush_all) {
		if (cohort_tlb_owns(tlb->mm))
			flush_tlb_all();
		else
			flush_tlb_mm(tlb->mm);
	} else if (tlb->end) {
		struct vm_area_struct vma = {
			.vm_mm = tlb->mm,
			.vm_flags = tlb->vma_exec ? VM_EXEC : 0,
		};

		flush_tlb_range(&vma, tlb->start, tlb->end);
	}
}

#endif /* CONFIG_COHORT_TLB */

#endif /* __ASM_ARM_TLB_GROUP_FLUSH_H */
