// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared TLB entries: processes that are no members keep away from where the group's code
 * lies, or are kept apart from what is left of it in a TLB (G5). See tlb_group.c.
 */
#include <linux/bitmap.h>
#include <linux/cohort.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>

#include <asm/tlbflush.h>

#include "tlb_group.h"

/* Whether others stay out of the group's ranges; the paper's scheme does without. */
static bool tlb_window __ro_after_init = true;

static int __init setup_window(char *arg)
{
	return !kstrtobool(arg, &tlb_window);
}
__setup("cohort_tlb_window=", setup_window);

/* Written below the group's lock. */
static struct {
	/* grows with the group's code: a process of another number may be anywhere */
	unsigned int number;
	/* the code lies in these ranges of 2 MB */
	DECLARE_BITMAP(ranges, TASK_SIZE >> PMD_SHIFT);
} window;

/* True if what a TLB has of a process and of the group may not meet. */
bool cohort_tlb_apart(struct mm_struct *mm)
{
	if (mm == &init_mm || !atomic_read(&cohort_tlb_group.members))
		return false;
	return (READ_ONCE(mm->context.tlb_flags) & TLB_APART) ||
	       (tlb_window &&
		mm->context.tlb_group != READ_ONCE(window.number));
}

void cohort_tlb_window_init(struct mm_struct *mm)
{
	/* Pairs with new_number(). */
	mm->context.tlb_group = smp_load_acquire(&window.number);
}

/*
 * Whoever was made before this may be where the group's code is, or is about to be: from
 * here on nobody finds what it has left in a TLB (G5, G6).
 */
static void new_number(struct mm_struct *leader)
{
	/* Who sees the number sees the ranges. */
	smp_store_release(&window.number, window.number + 1);
	leader->context.tlb_group = window.number;
	flush_tlb_all();
}

/* A group is about to begin, and has no code yet. Its lock is held. */
void cohort_tlb_window_clear(void)
{
	bitmap_zero(window.ranges, TASK_SIZE >> PMD_SHIFT);
}

/* It has begun: it has a member. */
void cohort_tlb_window_begin(struct mm_struct *leader)
{
	new_number(leader);
}

/* The group has code in a range. */
void cohort_tlb_window_add(struct mm_struct *leader, unsigned long addr,
			   unsigned long len)
{
	unsigned long first = addr >> PMD_SHIFT;

	mutex_lock(&cohort_tlb_group.lock);
	bitmap_set(window.ranges, first,
		   DIV_ROUND_UP(addr + len, PMD_SIZE) - first);
	new_number(leader);
	mutex_unlock(&cohort_tlb_group.lock);
}

/* The first range of the group's code that a range of addresses meets, or past the last. */
static unsigned long first_met(unsigned long addr, unsigned long len)
{
	unsigned long end = DIV_ROUND_UP(addr + len, PMD_SIZE);

	return find_next_bit(window.ranges, end, addr >> PMD_SHIFT);
}

static bool meets(unsigned long addr, unsigned long len)
{
	return atomic_read(&cohort_tlb_group.members) &&
	       first_met(addr, len) < DIV_ROUND_UP(addr + len, PMD_SIZE);
}

bool __cohort_tlb_taken(struct mm_struct *mm, unsigned long addr,
			unsigned long len)
{
	return tlb_window && !cohort_tlb_member(mm) && meets(addr, len);
}

/* Give up after so many ranges, and be kept apart (invariant 13). */
#define TLB_TRIES	64

/* See cohort_tlb_area(). */
unsigned long __cohort_tlb_area(struct vm_unmapped_area_info *info)
{
	struct vm_unmapped_area_info next = *info;
	unsigned long addr = vm_unmapped_area(info), other = addr;
	int i;

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
	unsigned int number = smp_load_acquire(&window.number);

	if (cohort_tlb_held(mm) || !tlb_window)
		return;
	if (meets(start, end - start)) {
		cohort_tlb_set_flags(mm, TLB_APART, 0);
	} else if (mm->context.tlb_group != number &&
		   !(READ_ONCE(mm->context.tlb_flags) & TLB_APART)) {
		if (in_ranges(mm))
			cohort_tlb_set_flags(mm, TLB_APART, 0);
		else
			WRITE_ONCE(mm->context.tlb_group, number);
	}
}
