// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: the layouts of a group's members, for BabelFish's hardware (ISCA
 * 2020, section IV-D).
 *
 * It tells translations apart by CCID and address, so members must have the same file at the
 * same address, or say by how much theirs differ. With aslr=equal, the paper's ASLR-SW, all
 * have the layout of the group's first member. With aslr=congruent each has its own, a
 * multiple of 2 MB apart: what the paper does in ASLR-HW, without hardware, for page tables.
 * The differences are told to the hardware, segment by segment.
 *
 * The paper has seven segments. Two are enough here: what lies beside them is private.
 */
#include <linux/align.h>
#include <linux/elf.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sched/coredump.h>
#include <linux/sched/signal.h>

#include "babelfish.h"
#include "group.h"

/*
 * The first member's base for mmap is that of the group: others have the same if the
 * group's label says so, and else tell BabelFish's hardware by how much theirs differs.
 */
void cohort_use_layout(struct mm_struct *mm)
{
	struct cohort_group *group = mm->cohort.group;
	struct cohort_layout *layout = &group->layout;
	unsigned long stack = rlimit(RLIMIT_STACK), base;

	if (!test_bit(MMF_TOPDOWN, &mm->flags))
		return;
	base = READ_ONCE(layout->base);
	if (!base) {
		WRITE_ONCE(layout->stack, stack);
		/* Another may be as fast: then its limit stands, or this one. */
		base = cmpxchg(&layout->base, 0, mm->mmap_base) ?: mm->mmap_base;
	}
	/* A larger stack would not have its room. */
	if (group->key.flags & COHORT_GROUP_EQUAL &&
	    stack <= READ_ONCE(layout->stack))
		mm->mmap_base = base;
}

/* Segments reach so far below mmap's base, or behind the start of a program. */
#define SEGMENT_BELOW	(SZ_8T * 2)
#define SEGMENT_IMAGE	(SZ_8T / 8)

/**
 * cohort_add_segment() - say by what addresses differ from the group's
 * @space: the process
 * @start: the first address
 * @end: the first address behind
 * @group: what the group has
 * @own: where the process has that
 *
 * A segment may meet no other, here or among the group's addresses: each of these is that of
 * one address here. Without it the process may have nothing at the group's addresses of
 * another segment.
 */
void cohort_add_segment(struct cohort_bf_space *space, unsigned long start,
			unsigned long end, unsigned long group,
			unsigned long own)
{
	struct cohort_bf_segment *s = space->segment;
	unsigned long diff = group - own;

	/* A process of 32 bits, or a group that one began. */
	if (start >= end || start + diff >= end + diff ||
	    end + diff > COHORT_BF_ADDR_END)
		return;
	for (; s < space->segment + space->nr_segments; s++)
		if (cohort_overlap(start, end, s->start, s->end) ||
		    cohort_overlap(start + diff, end + diff,
				   s->start + s->diff, s->end + s->diff))
			return;
	s->start = start;
	s->end = end;
	s->diff = diff;
	space->nr_segments++;
}

/**
 * cohort_set_segments() - by what a process's addresses differ from its group's
 * @space: filled in: the segment that mmap() fills, and that of the program and its heap
 * @mm: the process
 *
 * Stacks, and programs that must lie where they do, are in no segment. Nor is anything
 * of a process whose files do not lie in 2 MB as the group's.
 */
void cohort_set_segments(struct cohort_bf_space *space, struct mm_struct *mm)
{
	struct cohort_group *group = mm->cohort.group;
	unsigned long image = mm->cohort.image;
	struct cohort_layout *layout;

	if (!group || !cohort_places(mm) || !test_bit(MMF_TOPDOWN, &mm->flags))
		return;
	layout = &group->layout;
	if (layout->base)
		cohort_add_segment(space,
				   ALIGN_DOWN(mm->mmap_base - SEGMENT_BELOW,
					      PMD_SIZE),
				   cohort_mmap_end(mm), layout->base,
				   mm->mmap_base);
	if (image && layout->image)
		cohort_add_segment(space, image, image + SEGMENT_IMAGE,
				   layout->image, image);
}

/* True if a program may begin at an address, says the alignment of its segments. */
static bool fits(unsigned long image, const struct elf64_phdr *header,
		 unsigned int nr, size_t size)
{
	unsigned int i;

	for (i = 0; size == sizeof(*header) && i < nr; i++)
		if (header[i].p_type == PT_LOAD &&
		    is_power_of_2(header[i].p_align) &&
		    !IS_ALIGNED(image, header[i].p_align))
			return false;
	return true;
}

/* Where a program begins, a multiple of 2 MB, as cohort_use_layout(). */
unsigned long cohort_use_image(struct mm_struct *mm, unsigned long image,
			       const void *headers, unsigned int nr,
			       size_t size)
{
	struct cohort_group *group = mm->cohort.group;
	unsigned long first;

	first = cmpxchg(&group->layout.image, 0, image) ?: image;
	if (group->key.flags & COHORT_GROUP_EQUAL &&
	    fits(first, headers, nr, size))
		image = first;
	mm->cohort.image = image;
	return image;
}
