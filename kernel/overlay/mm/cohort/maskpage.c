// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: BabelFish's MaskPages (ISCA 2020, appendix), and the addresses of a
 * group.
 *
 * A process has a place in the pid_list of a MaskPage while any of its bitmasks has the
 * process's bit. The paper does not say when a place is free again: here when the last bit
 * is cleared. A processor may hold a bitmask from before. A bit that is set too long makes
 * its new owner miss, no more; a bit that is set later is not in it, so whoever sets one has
 * all processors drop what they hold, see mm/cohort/babelfish.c.
 *
 * The caller holds the CCID's lock. The hardware reads at any time, so a place is in the
 * pid_list before a bit of it is set, and until after the last was cleared.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "babelfish.h"

/**
 * cohort_mask_place() - a process's place in a MaskPage
 * @g: the MaskPage
 * @pid: &cohort_bf_space.pid
 *
 * Return: its place, or -1 if it has none.
 */
int cohort_mask_place(struct cohort_gigabyte *g, u32 pid)
{
	int i;

	for (i = 0; i < COHORT_BF_PIDS; i++)
		if (g->mask->pid_list[i] == pid)
			return i;
	return -1;
}

/* True if a process has its bit in a bitmask. */
bool cohort_mask_has(struct cohort_gigabyte *g, unsigned int index, u32 pid)
{
	int place = cohort_mask_place(g, pid);

	return place >= 0 && g->mask->mask[index] & BIT(place);
}

/**
 * cohort_mask_set() - set a process's bit
 * @g: the MaskPage
 * @index: in which bitmask
 * @pid: &cohort_bf_space.pid
 *
 * Return: false if 32 others have all places.
 */
bool cohort_mask_set(struct cohort_gigabyte *g, unsigned int index, u32 pid)
{
	struct cohort_bf_mask *mask = g->mask;
	int place = cohort_mask_place(g, pid);

	if (place < 0) {
		place = cohort_mask_place(g, 0);
		if (place < 0)
			return false;
		WRITE_ONCE(mask->pid_list[place], pid);
		WRITE_ONCE(mask->nr, mask->nr + 1);
		smp_wmb();	/* the place before its bit */
	}
	if (mask->mask[index] & BIT(place))
		return true;
	g->bits[place]++;
	WRITE_ONCE(mask->mask[index], mask->mask[index] | BIT(place));
	return true;
}

static void clear_place(struct cohort_gigabyte *g, unsigned int index, int place)
{
	struct cohort_bf_mask *mask = g->mask;

	if (!(mask->mask[index] & BIT(place)))
		return;
	WRITE_ONCE(mask->mask[index], mask->mask[index] & ~BIT(place));
	if (--g->bits[place])
		return;
	smp_wmb();	/* the last bit before its place */
	WRITE_ONCE(mask->pid_list[place], 0);
	WRITE_ONCE(mask->nr, mask->nr - 1);
	bitmap_zero(g->full, COHORT_BF_MASKS);
}

/**
 * cohort_mask_clear() - clear a process's bit
 * @g: the MaskPage
 * @index: in which bitmask
 * @pid: &cohort_bf_space.pid
 *
 * Return: true if it was the last in this bitmask.
 */
bool cohort_mask_clear(struct cohort_gigabyte *g, unsigned int index, u32 pid)
{
	int place = cohort_mask_place(g, pid);

	if (place < 0 || !(g->mask->mask[index] & BIT(place)))
		return false;
	clear_place(g, index, place);
	return !g->mask->mask[index];
}

/* Nothing is shared any more in the 2 MB of a bitmask. */
void cohort_mask_end(struct cohort_gigabyte *g, unsigned int index)
{
	int place;

	for (place = 0; place < COHORT_BF_PIDS; place++)
		clear_place(g, index, place);
}

/* A process ends: its bits are cleared, and its place is free. */
void cohort_mask_forget(struct cohort_gigabyte *g, u32 pid)
{
	int place = cohort_mask_place(g, pid);
	unsigned int index;

	for (index = 0; place >= 0 && g->bits[place] &&
	     index < COHORT_BF_MASKS; index++)
		clear_place(g, index, place);
}

struct cohort_gigabyte *cohort_gigabyte_alloc(gfp_t gfp)
{
	struct cohort_gigabyte *g = kzalloc(sizeof(*g), gfp);

	BUILD_BUG_ON(sizeof(*g->mask) > PAGE_SIZE);
	if (!g)
		return NULL;
	g->mask = (struct cohort_bf_mask *)get_zeroed_page(gfp);
	if (!g->mask) {
		kfree(g);
		return NULL;
	}
	return g;
}

void cohort_gigabyte_free(struct cohort_gigabyte *g)
{
	free_page((unsigned long)g->mask);
	kfree(g);
}

/**
 * cohort_dir_add() - let the hardware find a MaskPage
 * @dir: the directory of its CCID
 * @base: the first address of its gigabyte
 * @g: the MaskPage
 *
 * Return: false if the directory is full.
 */
bool cohort_dir_add(struct cohort_bf_group *dir, unsigned long base,
		    struct cohort_gigabyte *g)
{
	unsigned int room = (PAGE_SIZE - sizeof(*dir)) / sizeof(*dir->dir);
	unsigned int nr = dir->nr;

	if (nr == room)
		return false;
	WRITE_ONCE(dir->seq, dir->seq + 1);
	smp_wmb();	/* odd while it changes */
	dir->dir[nr].base = base;
	dir->dir[nr].mask = __pa(g->mask);
	WRITE_ONCE(dir->nr, nr + 1);
	smp_wmb();	/* and even afterwards */
	WRITE_ONCE(dir->seq, dir->seq + 1);
	return true;
}

unsigned long cohort_group_addr(const struct cohort_bf_space *space,
				unsigned long addr)
{
	const struct cohort_bf_segment *s = space->segment;
	unsigned long end = addr + PMD_SIZE;

	for (; s < space->segment + space->nr_segments; s++) {
		if (!s->diff || !cohort_overlap(addr, end, s->start, s->end))
			continue;
		if (addr < s->start || end > s->end)
			return COHORT_BF_ADDR_END;
		addr += s->diff;
		break;
	}
	return addr < COHORT_BF_ADDR_END ? addr : COHORT_BF_ADDR_END;
}

/**
 * cohort_own_addr() - where a process has a range of the group
 * @space: the process
 * @addr: the group's address
 *
 * Return: the process's address. A part of the range may lie behind the end of a segment.
 */
unsigned long cohort_own_addr(const struct cohort_bf_space *space,
			      unsigned long addr)
{
	const struct cohort_bf_segment *s = space->segment;

	for (; s < space->segment + space->nr_segments; s++) {
		unsigned long own = addr - s->diff;

		if (s->diff && cohort_overlap(own, own + PMD_SIZE, s->start, s->end))
			return own;
	}
	return addr;
}

#include "tests/babelfish-kunit.h"
