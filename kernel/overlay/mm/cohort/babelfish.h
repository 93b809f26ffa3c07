/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared page tables: what BabelFish's parts share with each other.
 */
#ifndef _MM_COHORT_BABELFISH_H
#define _MM_COHORT_BABELFISH_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <uapi/linux/cohort_babelfish.h>

#include "internal.h"

/*
 * So many processes have one CCID, at most. All of them are visited with T's lock held when
 * T's translations begin or end to be shared (invariant 13). A further one shares tables,
 * and has translations of its own.
 */
#define COHORT_BF_MEMBERS	256

/**
 * struct cohort_ccid - processes whose translations may be shared
 * @refs: one per process, and one while @work is queued
 * @id: of the group or, for a family outside groups, of the cohort
 * @ccid: its number in the hardware, 1 to 4095
 * @lock: protects @members, @nr, @ranges, @gigabytes and all that these lead to. Nested in
 *	  the lock of a table
 * @members: a &struct cohort_space per process
 * @nr: how many
 * @ranges: a &struct cohort_range per 2 MB of group addresses whose table is shared; read
 *	    under RCU
 * @gigabytes: a &struct cohort_gigabyte per MaskPage
 * @dir: where the hardware finds the MaskPages
 * @clock: counts events after which shared entries must be dropped somewhere
 * @stale: its time when all shared entries last became invalid; under @lock
 * @seen: of each processor, the time when it last dropped all shared entries
 * @cpus: processors that may hold shared entries
 * @work: ends sharing in gigabytes that have overflowed
 * @node: in the table of all
 * @rcu: for processors that switch meanwhile
 */
struct cohort_ccid {
	refcount_t refs;
	u64 id;
	u16 ccid;
	spinlock_t lock;	/* see above */
	struct list_head members;
	unsigned int nr;
	struct xarray ranges;
	struct xarray gigabytes;
	struct cohort_bf_group *dir;
	atomic64_t clock;
	u64 stale;
	u64 __percpu *seen;
	struct cpumask cpus;
	struct work_struct work;
	struct hlist_node node;
	struct rcu_head rcu;
};

/**
 * struct cohort_space - a process that has a CCID
 * @abi: what the hardware sees; must be first, as its address is told
 * @mm: the process
 * @set: the others
 * @list: in @set->members
 * @closing: it is about to have none any more; under @set->lock
 * @claim_start: the group addresses where it maps something now
 * @claim_end: and their end
 * @rcu: for processors that switch meanwhile
 */
struct cohort_space {
	struct cohort_bf_space abi;
	struct mm_struct *mm;
	struct cohort_ccid *set;
	struct list_head list;
	bool closing;
	unsigned long claim_start;
	unsigned long claim_end;
	struct rcu_head rcu;
};

/**
 * struct cohort_range - 2 MB of group addresses whose translations are shared
 * @set: by whom
 * @addr: the first address, the group's
 * @ct: the table; constant, and its lock protects all of this
 * @gigabyte: its MaskPage
 * @nr: how many members share its translations; two when it begins, one may be left
 * @rcu: for who finds it in @set->ranges
 *
 * All other members either have nothing there or a bit in the MaskPage.
 */
struct cohort_range {
	struct cohort_ccid *set;
	unsigned long addr;
	struct cohort_table *ct;
	struct cohort_gigabyte *gigabyte;
	unsigned int nr;
	struct rcu_head rcu;
};

/**
 * struct cohort_gigabyte - a MaskPage and who has which place
 * @mask: what the hardware sees
 * @bits: of each place, in how many bitmasks its bit is set; a place without is free
 * @full: where no range could begin for want of places, since one was last freed
 */
struct cohort_gigabyte {
	struct cohort_bf_mask *mask;
	u16 bits[COHORT_BF_PIDS];
	DECLARE_BITMAP(full, COHORT_BF_MASKS);
};

/* True if two ranges of addresses have one in common. */
static inline bool cohort_overlap(unsigned long a, unsigned long a_end,
				  unsigned long b, unsigned long b_end)
{
	return a < b_end && b < a_end;
}

/* Which bitmask of its MaskPage is that of an address. */
static inline unsigned int cohort_mask_index(unsigned long addr)
{
	return (addr >> PMD_SHIFT) % COHORT_BF_MASKS;
}

int cohort_mask_place(struct cohort_gigabyte *g, u32 pid);
bool cohort_mask_has(struct cohort_gigabyte *g, unsigned int index, u32 pid);
bool cohort_mask_set(struct cohort_gigabyte *g, unsigned int index, u32 pid);
bool cohort_mask_clear(struct cohort_gigabyte *g, unsigned int index, u32 pid);
void cohort_mask_end(struct cohort_gigabyte *g, unsigned int index);
void cohort_mask_forget(struct cohort_gigabyte *g, u32 pid);
struct cohort_gigabyte *cohort_gigabyte_alloc(gfp_t gfp);
void cohort_gigabyte_free(struct cohort_gigabyte *g);
bool cohort_dir_add(struct cohort_bf_group *dir, unsigned long base,
		    struct cohort_gigabyte *g);

/**
 * cohort_group_addr() - where a table lies for the hardware
 * @space: the process
 * @addr: the first address that the table maps in it
 *
 * Return: the group's address, as section IV-D has it; COHORT_BF_ADDR_END if the table lies
 * across the end of a segment, or does not begin where a table of the group would.
 */
unsigned long cohort_group_addr(const struct cohort_bf_space *space,
				unsigned long addr);
unsigned long cohort_own_addr(const struct cohort_bf_space *space,
			      unsigned long addr);

void cohort_add_segment(struct cohort_bf_space *space, unsigned long start,
			unsigned long end, unsigned long group,
			unsigned long own);
void cohort_set_segments(struct cohort_bf_space *space, struct mm_struct *mm);

/*
 * True if a processor must drop all shared entries of a CCID, as those from before @stale
 * are wrong. It has last done so at the time @seen, and does so @now.
 */
static inline bool cohort_ccid_behind(u64 *seen, u64 now, u64 stale)
{
	if (likely(*seen >= stale))
		return false;
	*seen = now;
	return true;
}

#endif /* _MM_COHORT_BABELFISH_H */
