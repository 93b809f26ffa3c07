// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: what the kernel does for BabelFish's hardware (ISCA 2020).
 *
 * Its TLBs hold entries that all processes with one CCID may use, those without a bit in the
 * entry's bitmask. Page tables stay right for plain hardware. Beside them stands who may use
 * what: the bits S (the paper's O, inverted) and ORPC in entries that point to shared tables,
 * and MaskPages. Without the hardware they change nothing.
 *
 * A CCID belongs to a group or, outside groups, to a family. At a group address A, an aligned
 * 2 MB, the translations of one table T may be shared, and of no other. Then there is a
 * &struct cohort_range, and these hold:
 *
 * a) A member's entry has S if and only if it points to T at A, and the member is counted.
 * b) Any other member that has a region at A has a bit there in the MaskPage, and ORPC is set
 *    in the entries of a).
 * c) No processor that runs such a member has a shared entry for A that lacks its bit.
 * d) No processor has a shared entry for an A that has no range.
 *
 * So no member finds a translation in a TLB that is not its own. All of it changes under T's
 * lock. S and ORPC are set and cleared in other processes' entries under T's lock alone: an
 * entry that points to T stays while the lock is held (invariant 12), and each of these
 * stores is atomic. Whoever joins, leaves or shares T by fork therefore writes its whole
 * entry under T's lock, before it is counted or after.
 *
 * - b), before a member maps something at A: it says so (cohort_bf_claim()), then looks for a
 *   range. Whoever makes a range looks at the regions of all members, and at what they have
 *   said. The CCID's lock orders the two.
 * - c): a member that leaves T gets a bit, and has all processors that may hold shared
 *   entries drop those of A, all 512, before its entry points to another table. The paper
 *   drops the one that was written, and one more at each later write of this member in its
 *   copy. To drop all at once needs no code where private tables change: not at faults, nor
 *   at mprotect() and the like. A member that maps something, or is new, does the same once
 *   for each A where others share. What is shared elsewhere stays. So a program whose
 *   libraries others share drops their entries at its start, before it joins their tables.
 * - d): a range ends with such a drop on all processors: when its last member leaves T or
 *   takes it back. One alone may be left; to end it then would cost a drop for each table
 *   that a child shared, at the child's exit.
 *
 * When T itself changes (reclaim, truncation, ...), processors that run a user of T flush.
 * Others may hold shared entries, run a user later whose own generation says nothing about
 * these, or run a member that has nothing at A, and no bit there: what they hold is dropped,
 * too, before the pages are used for something else.
 *
 * Such a member finds translations where it maps nothing, as in the paper. So all members
 * have one user, who may map the same files: a cohort with keep-ids has no CCID.
 *
 * A 33rd process that leaves a table, and needs a bit, ends sharing in the gigabyte. The paper
 * gives each process private tables then. That would be other processes' locks and memory in
 * a fault that must not fail (invariant 8). Here S is cleared; tables stay shared. That lasts
 * until there are no more members than places. One that has not come to share a range, and
 * needs a bit, ends this range alone: most will share it.
 *
 * Nothing of this can make a call fail: without memory translations are not shared.
 */
#define pr_fmt(fmt) "cohort: " fmt

#include <linux/cohort_babelfish.h>
#include <linux/hashtable.h>
#include <linux/idr.h>
#include <linux/init.h>
#include <linux/log2.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <asm/cohort_babelfish.h>
#include <asm/cohort_tlb.h>

#include "babelfish.h"
#include "group.h"

#define CCID_MAX	4095
/* The first ones are for groups that a cgroup's label names: any user may begin others. */
#define CCID_OTHERS	1024

/* To share translations is optional, and some of its memory is asked for under locks. */
#define GFP_BABELFISH	(GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN)

DEFINE_STATIC_KEY_FALSE(cohort_bf_key);
static bool cohort_bf_on __read_mostly;

static DEFINE_HASHTABLE(ccids, 8);
static DEFINE_SPINLOCK(ccids_lock);
static DEFINE_IDA(ccid_numbers);
static DEFINE_IDA(space_numbers);
static struct kmem_cache *space_cache __ro_after_init;

static void ccid_put(struct cohort_ccid *set);

/* --- processors ------------------------------------------------------------ */

/**
 * cohort_bf_do_switch() - tell the hardware which process runs
 * @next: its address space, which the processor has loaded; interrupts are off
 *
 * The processor is in @cpus before it walks, or sees what was changed before @cpus was
 * read: both sides have a full barrier in between.
 */
void cohort_bf_do_switch(struct mm_struct *next)
{
	/* With interrupts off this is an RCU reader. */
	struct cohort_space *space = READ_ONCE(next->cohort.bf);
	unsigned int cpu = smp_processor_id();
	struct cohort_ccid *set;

	if (!space) {
		arch_cohort_mark(COHORT_BF_MARK_SPACE, 0);
		return;
	}
	set = space->set;
	if (!cpumask_test_cpu(cpu, &set->cpus))
		cpumask_set_cpu(cpu, &set->cpus);
	smp_mb();	/* pairs with those of who changes something */
	if (cohort_ccid_behind(this_cpu_ptr(set->seen),
			       atomic64_read(&set->clock),
			       READ_ONCE(set->stale)))
		arch_cohort_mark(COHORT_BF_MARK_CCID, set->ccid);
	arch_cohort_mark(COHORT_BF_MARK_SPACE, __pa(&space->abi));
}

static void drop_on_cpu(void *arg)
{
	arch_cohort_mark(COHORT_BF_MARK_SHARED, (unsigned long)arg);
}

/* Have processors drop shared entries of a CCID. Interrupts are on. */
static void drop_pages(struct cohort_ccid *set, unsigned long addr,
		       unsigned int order, const struct cpumask *cpus)
{
	unsigned long arg = COHORT_BF_PAGES(set->ccid, addr, order);

	smp_mb();	/* pairs with the barrier in cohort_bf_do_switch() */
	on_each_cpu_mask(cpus, drop_on_cpu, (void *)arg, true);
}

/* The same for all entries of a range. Its table's lock is held. */
static void drop_entries(struct cohort_range *r, const struct cpumask *cpus)
{
	drop_pages(r->set, r->addr, PMD_SHIFT - PAGE_SHIFT, cpus);
}

/**
 * __cohort_bf_flush() - entries of a shared table have changed
 * @ct: the table, whose lock is held
 * @start: the first address that changed, in any process
 * @end: the first address behind
 *
 * Users are flushed by the caller. But other members may run, too, or be the next that a
 * processor runs, and find what it has kept.
 */
void __cohort_bf_flush(struct cohort_table *ct, unsigned long start,
		       unsigned long end)
{
	struct cohort_range *r = ct->bf;

	if (!r)
		return;
	if (end - start == PAGE_SIZE)
		drop_pages(r->set, r->addr + (start & ~PMD_MASK), 0,
			   &r->set->cpus);
	else
		drop_entries(r, &r->set->cpus);
}

/* --- who shares a range ---------------------------------------------------- */

/* A member's use of @ct at a group address, or NULL. The table's lock is held. */
static struct cohort_sharer *find_use(struct cohort_space *space,
				      unsigned long addr,
				      struct cohort_table *ct)
{
	unsigned long own = cohort_own_addr(&space->abi, addr);
	struct cohort_sharer *sharer;

	if (cohort_group_addr(&space->abi, own) != addr)
		return NULL;
	sharer = cohort_find_sharer(space->mm, own);
	return sharer && READ_ONCE(sharer->table) == ct ? sharer : NULL;
}

/* True if a use of a table is counted in the table's range: its entry has S. */
static bool is_counted(struct cohort_sharer *sharer)
{
	struct cohort_run *run = cohort_run_of(sharer);

	return test_bit(sharer - run->sharers, &run->bf);
}

/* The entry of a member that is counted in a range, or NULL. */
static pmd_t *find_counted(struct cohort_range *r, struct cohort_space *space)
{
	struct cohort_sharer *sharer = find_use(space, r->addr, r->ct);

	return sharer && is_counted(sharer) ? cohort_user_pmd(sharer) : NULL;
}

/* Set or clear ORPC in the entries of all that are counted. The CCID's lock is held, too. */
static void set_orpc(struct cohort_range *r, bool set)
{
	struct cohort_space *space;
	pmd_t *pmd;

	list_for_each_entry(space, &r->set->members, list) {
		pmd = find_counted(r, space);
		if (pmd)
			arch_pmd_change_orpc(pmd, set);
	}
}

/* True if a member has a region in a range, or is about to. The CCID's lock is held. */
static bool has_region(struct cohort_space *space, unsigned long addr)
{
	unsigned long own = cohort_own_addr(&space->abi, addr);
	struct ma_state mas;
	bool found;

	mas_init(&mas, &space->mm->mm_mt, own);
	if (space->claim_start < addr + PMD_SIZE && addr < space->claim_end)
		return true;
	/* Nobody holds the mmap_lock: as in lock_vma_under_rcu(). */
	rcu_read_lock();
	found = mas_find(&mas, own + PMD_SIZE - 1);
	rcu_read_unlock();
	return found;
}

/* Count a member in a range. The table's lock and the CCID's are held. */
static void add_member(struct cohort_range *r, struct cohort_space *space,
		       struct cohort_sharer *sharer)
{
	unsigned int index = cohort_mask_index(r->addr);
	struct cohort_gigabyte *g = r->gigabyte;
	struct cohort_run *run = cohort_run_of(sharer);
	pmd_t *pmd = cohort_user_pmd(sharer);

	if (cohort_mask_clear(g, index, space->abi.pid))
		set_orpc(r, false);
	/* The hardware never sees S without an ORPC that belongs to it. */
	arch_pmd_change_orpc(pmd, g->mask->mask[index]);
	arch_pmd_change_shared(pmd, true);
	set_bit(sharer - run->sharers, &run->bf);
	r->nr++;
}

/*
 * False if a range would need places that there are not. Where it did before, all members
 * are asked again if those that use the table are twice as many, or nearly all. The CCID's
 * lock is held.
 */
static bool has_room(struct cohort_ccid *set, unsigned long addr,
		     unsigned int users)
{
	struct cohort_gigabyte *g = xa_load(&set->gigabytes, addr >> PUD_SHIFT);

	if (!g)
		return true;
	if (g->mask->flags & COHORT_BF_OVERFLOW)
		return false;
	return !test_bit(cohort_mask_index(addr), g->full) ||
	       is_power_of_2(users) || set->nr <= users + COHORT_BF_PIDS;
}

/* The MaskPage for an address; NULL without memory. */
static struct cohort_gigabyte *find_gigabyte(struct cohort_ccid *set,
					     unsigned long addr)
{
	struct cohort_gigabyte *g = xa_load(&set->gigabytes, addr >> PUD_SHIFT);

	if (g)
		return g;
	g = cohort_gigabyte_alloc(GFP_BABELFISH);
	if (!g)
		return NULL;
	if (xa_err(xa_store(&set->gigabytes, addr >> PUD_SHIFT, g,
			    GFP_BABELFISH))) {
		cohort_gigabyte_free(g);
		return NULL;
	}
	if (!cohort_dir_add(set->dir, addr & PUD_MASK, g)) {
		xa_erase(&set->gigabytes, addr >> PUD_SHIFT);
		cohort_gigabyte_free(g);
		return NULL;
	}
	return g;
}

/* Give all others that have something in a range a bit. Returns false if it is too many. */
static bool mask_others(struct cohort_range *r)
{
	unsigned int index = cohort_mask_index(r->addr);
	struct cohort_space *space;

	list_for_each_entry(space, &r->set->members, list) {
		if (space->closing || find_use(space, r->addr, r->ct) ||
		    !has_region(space, r->addr))
			continue;
		if (!cohort_mask_set(r->gigabyte, index, space->abi.pid)) {
			cohort_mask_end(r->gigabyte, index);
			/* Not again at each join. */
			set_bit(index, r->gigabyte->full);
			return false;
		}
	}
	return true;
}

/*
 * A member, @own, uses a table at a group address. If another does, too, their translations
 * are shared from here on. The table's lock and the CCID's are held.
 */
static void begin_range(struct cohort_ccid *set, struct cohort_table *ct,
			unsigned long addr, struct cohort_space *own)
{
	struct cohort_sharer *sharer;
	struct cohort_space *space;
	struct cohort_range *r;
	bool other = false;

	/* One table for each address: the hardware tells them apart by CCID and address. */
	if (xa_load(&set->ranges, addr >> PMD_SHIFT) ||
	    !has_room(set, addr, ct->users))
		return;
	list_for_each_entry(space, &set->members, list) {
		other = space != own && !space->closing &&
			find_use(space, addr, ct);
		if (other)
			break;
	}
	if (!other)
		return;
	r = kzalloc(sizeof(*r), GFP_BABELFISH);
	if (!r)
		return;
	r->set = set;
	r->addr = addr;
	r->ct = ct;
	r->gigabyte = find_gigabyte(set, addr);
	if (!r->gigabyte ||
	    xa_err(xa_store(&set->ranges, addr >> PMD_SHIFT, r, GFP_BABELFISH))) {
		kfree(r);
		return;
	}
	if (!mask_others(r)) {
		xa_erase(&set->ranges, addr >> PMD_SHIFT);
		kfree_rcu(r, rcu);
		return;
	}
	ct->bf = r;
	list_for_each_entry(space, &set->members, list) {
		sharer = space->closing ? NULL : find_use(space, addr, ct);
		if (sharer)
			add_member(r, space, sharer);
	}
}

/*
 * True if the last member of a CCID is about to leave it. Whoever comes next drops all shared
 * entries: there is nobody to interrupt processors for. The CCID's lock is held.
 */
static bool is_abandoned(struct cohort_ccid *set)
{
	struct cohort_space *space;

	space = list_first_entry(&set->members, struct cohort_space, list);
	if (!list_is_singular(&set->members) || !space->closing)
		return false;
	WRITE_ONCE(set->stale, atomic64_inc_return(&set->clock));
	return true;
}

/* Translations of a range are not shared any more. The table's lock is held. */
static void end_range(struct cohort_range *r)
{
	struct cohort_ccid *set = r->set;
	struct cohort_sharer *sharer;
	struct cohort_space *space;
	bool abandoned;

	spin_lock(&set->lock);
	list_for_each_entry(space, &set->members, list) {
		sharer = find_use(space, r->addr, r->ct);
		if (!sharer || !is_counted(sharer))
			continue;
		arch_pmd_change_shared(cohort_user_pmd(sharer), false);
		arch_pmd_change_orpc(cohort_user_pmd(sharer), false);
		clear_bit(sharer - cohort_run_of(sharer)->sharers,
			  &cohort_run_of(sharer)->bf);
	}
	abandoned = is_abandoned(set);
	spin_unlock(&set->lock);
	/* Whoever maps something there meanwhile finds the range, and waits for us. */
	if (!abandoned)
		drop_entries(r, &set->cpus);
	spin_lock(&set->lock);
	cohort_mask_end(r->gigabyte, cohort_mask_index(r->addr));
	xa_erase(&set->ranges, r->addr >> PMD_SHIFT);
	spin_unlock(&set->lock);
	r->ct->bf = NULL;
	kfree_rcu(r, rcu);
}

/* More processes need a bit than there are: end sharing in the whole gigabyte. */
static void end_gigabyte(struct cohort_range *r)
{
	struct cohort_ccid *set = r->set;

	spin_lock(&set->lock);
	r->gigabyte->mask->flags |= COHORT_BF_OVERFLOW;
	spin_unlock(&set->lock);
	/*
	 * No member depends on when the other ranges end: it shares them or has a bit there.
	 * They need other tables' locks.
	 */
	refcount_inc(&set->refs);
	if (!schedule_work(&set->work))
		refcount_dec(&set->refs);
	end_range(r);
}

enum masked {
	MASKED_NEW,		/* entries without its bit must be dropped */
	MASKED_ALREADY,
	MASKED_FULL,		/* there is no place for it: the range must end */
};

/* A member that does not share a range has something there. The table's lock is held. */
static enum masked mask_member(struct cohort_range *r,
			       struct cohort_space *space)
{
	unsigned int index = cohort_mask_index(r->addr);
	struct cohort_gigabyte *g = r->gigabyte;
	bool first, had, full;

	spin_lock(&r->set->lock);
	first = !g->mask->mask[index];
	had = cohort_mask_has(g, index, space->abi.pid);
	full = !cohort_mask_set(g, index, space->abi.pid);
	if (first && !full)
		set_orpc(r, true);
	spin_unlock(&r->set->lock);
	if (full)
		return MASKED_FULL;
	return had ? MASKED_ALREADY : MASKED_NEW;
}

/**
 * __cohort_bf_join() - a process's entry points to a table
 * @ct: the table; its lock and that of the entry are held
 * @sharer: the process's use of it
 */
void __cohort_bf_join(struct cohort_table *ct, struct cohort_sharer *sharer)
{
	struct cohort_space *space = cohort_run_of(sharer)->mm->cohort.bf;
	struct cohort_range *r = ct->bf;
	struct cohort_ccid *set;
	unsigned long addr;

	if (!space || ct->users < 2)
		return;
	set = space->set;
	addr = cohort_group_addr(&space->abi, cohort_user_addr(ct, sharer));
	if (addr == COHORT_BF_ADDR_END)
		return;
	spin_lock(&set->lock);
	if (!space->closing && !is_counted(sharer)) {
		if (!r)
			begin_range(set, ct, addr, space);
		else if (r->set == set && r->addr == addr)
			add_member(r, space, sharer);
	}
	spin_unlock(&set->lock);
}

/**
 * __cohort_bf_leave() - a process's entry will not point to a table any more
 * @ct: the table; its lock and that of the entry are held
 * @sharer: the process's use of it
 *
 * It may have anything there as soon as this returns, but not before: other threads use a
 * new table at once. It goes on if it alone is left, until it takes the table back.
 */
void __cohort_bf_leave(struct cohort_table *ct, struct cohort_sharer *sharer)
{
	struct cohort_range *r = ct->bf;
	struct cohort_run *run;
	pmd_t *pmd;

	/* A PMD table has no range, and its users no run. */
	if (!r)
		return;
	run = cohort_run_of(sharer);
	if (!test_and_clear_bit(sharer - run->sharers, &run->bf))
		return;
	pmd = cohort_user_pmd(sharer);
	/* Where all is thrown away the entry is empty already. */
	if (pmd_cohort(*pmd)) {
		arch_pmd_change_shared(pmd, false);
		arch_pmd_change_orpc(pmd, false);
	}
	if (!--r->nr) {
		end_range(r);
		return;
	}
	if (READ_ONCE(run->mm->cohort.bf->closing))
		return;
	switch (mask_member(r, run->mm->cohort.bf)) {
	case MASKED_NEW:
		drop_entries(r, &r->set->cpus);
		break;
	case MASKED_FULL:
		end_gigabyte(r);
		break;
	case MASKED_ALREADY:
		break;
	}
}

/* Lock the table of a range that was found under RCU; false if the range has ended. */
static bool lock_range(struct cohort_ccid *set, struct cohort_range *r)
{
	spinlock_t *ptl = ptlock_ptr(r->ct->pt);

	spin_lock(ptl);
	if (xa_load(&set->ranges, r->addr >> PMD_SHIFT) == r) {
		__release(ptl);
		return true;
	}
	spin_unlock(ptl);
	return false;
}

static void unlock_range(spinlock_t *ptl)
{
	__acquire(ptl);
	spin_unlock(ptl);
}

static void end_overflowed(struct work_struct *work)
{
	struct cohort_ccid *set = container_of(work, struct cohort_ccid, work);
	unsigned long index = 0;
	struct cohort_range *r;

	for (;; index++) {
		rcu_read_lock();
		r = xa_find(&set->ranges, &index, ULONG_MAX, XA_PRESENT);
		if (r && r->gigabyte->mask->flags & COHORT_BF_OVERFLOW &&
		    lock_range(set, r)) {
			/* It stays while it is locked, and is freed by RCU. */
			spinlock_t *ptl = ptlock_ptr(r->ct->pt);

			end_range(r);
			unlock_range(ptl);
		}
		rcu_read_unlock();
		if (!r)
			break;
		cond_resched();
	}
	ccid_put(set);
}

/*
 * A member has something in a range, and has not come to share it. If there is no place for
 * it, the range ends: it begins again when enough others have joined. The table's lock is
 * held.
 */
static void mask_newcomer(struct cohort_range *r, struct cohort_space *space)
{
	switch (mask_member(r, space)) {
	case MASKED_NEW:
		drop_entries(r, &r->set->cpus);
		break;
	case MASKED_FULL:
		end_range(r);
		break;
	case MASKED_ALREADY:
		break;
	}
}

/*
 * A member has regions in a range of group addresses: give it a bit wherever it does not
 * share. @look: only where it has one.
 */
static void claim(struct cohort_space *space, unsigned long start,
		  unsigned long end, bool look)
{
	unsigned long index = start >> PMD_SHIFT, last = (end - 1) >> PMD_SHIFT;
	struct cohort_ccid *set = space->set;
	struct cohort_range *r;

	for (;; index++) {
		rcu_read_lock();
		r = xa_find(&set->ranges, &index, last, XA_PRESENT);
		if (r && lock_range(set, r)) {
			spinlock_t *ptl = ptlock_ptr(r->ct->pt);

			if (!find_counted(r, space) &&
			    (!look || has_region(space, r->addr)))
				mask_newcomer(r, space);
			unlock_range(ptl);
		}
		rcu_read_unlock();
		if (!r)
			break;
		cond_resched();
	}
}

/* --- CCIDs ----------------------------------------------------------------- */

static void ccid_free(struct cohort_ccid *set)
{
	free_percpu(set->seen);
	free_page((unsigned long)set->dir);
	kfree(set);
}

static void ccid_free_rcu(struct rcu_head *head)
{
	ccid_free(container_of(head, struct cohort_ccid, rcu));
}

static void ccid_put(struct cohort_ccid *set)
{
	struct cohort_gigabyte *g;
	unsigned long index;

	if (!refcount_dec_and_lock(&set->refs, &ccids_lock))
		return;
	hash_del(&set->node);
	spin_unlock(&ccids_lock);
	/* No member is left, so no range. A processor may still be in cohort_bf_do_switch(). */
	WARN_ON_ONCE(!xa_empty(&set->ranges));
	xa_destroy(&set->ranges);
	xa_for_each(&set->gigabytes, index, g)
		cohort_gigabyte_free(g);
	xa_destroy(&set->gigabytes);
	/* All processors drop its entries before they run a process of its next owner. */
	ida_free(&ccid_numbers, set->ccid);
	call_rcu(&set->rcu, ccid_free_rcu);
}

static struct cohort_ccid *ccid_find(u64 id)
{
	struct cohort_ccid *set;

	hash_for_each_possible(ccids, set, node, id)
		if (set->id == id) {
			refcount_inc(&set->refs);
			return set;
		}
	return NULL;
}

static struct cohort_ccid *ccid_alloc(u64 id)
{
	struct cohort_ccid *set = kzalloc(sizeof(*set), GFP_COHORT_JOIN);

	if (!set)
		return NULL;
	set->id = id;
	refcount_set(&set->refs, 1);
	spin_lock_init(&set->lock);
	INIT_LIST_HEAD(&set->members);
	xa_init_flags(&set->ranges, XA_FLAGS_ACCOUNT);
	xa_init_flags(&set->gigabytes, XA_FLAGS_ACCOUNT);
	INIT_WORK(&set->work, end_overflowed);
	atomic64_set(&set->clock, 1);
	set->stale = 1;
	set->seen = alloc_percpu_gfp(u64, GFP_COHORT_JOIN);
	set->dir = (struct cohort_bf_group *)get_zeroed_page(GFP_COHORT_JOIN);
	if (!set->seen || !set->dir) {
		ccid_free(set);
		return NULL;
	}
	set->dir->magic = COHORT_BF_GROUP_MAGIC;
	set->dir->version = COHORT_BF_VERSION;
	return set;
}

/* The CCID of a group or a family, with a reference; NULL without memory or numbers. */
static struct cohort_ccid *ccid_get(u64 id, struct cohort_group *group)
{
	struct cohort_ccid *set, *new;
	int ccid, first = CCID_OTHERS;

	spin_lock(&ccids_lock);
	set = ccid_find(id);
	spin_unlock(&ccids_lock);
	if (set)
		return set;
	new = ccid_alloc(id);
	if (!new)
		return NULL;
	if (group && group->key.flags & COHORT_GROUP_LABEL)
		first = 1;
	ccid = ida_alloc_range(&ccid_numbers, first, CCID_MAX,
			       GFP_COHORT_JOIN);
	if (ccid < 0) {
		ccid_free(new);
		return NULL;
	}
	new->ccid = ccid;
	spin_lock(&ccids_lock);
	set = ccid_find(id);
	if (!set)
		hash_add(ccids, &new->node, id);
	spin_unlock(&ccids_lock);
	if (!set)
		return new;
	ida_free(&ccid_numbers, ccid);
	ccid_free(new);
	return set;
}

/* --- processes ------------------------------------------------------------- */

static void space_free(struct cohort_space *space)
{
	if (space->abi.pid)
		ida_free(&space_numbers, space->abi.pid);
	kmem_cache_free(space_cache, space);
}

static void space_free_rcu(struct rcu_head *head)
{
	space_free(container_of(head, struct cohort_space, rcu));
}

static struct cohort_space *space_alloc(struct mm_struct *mm,
					struct cohort_ccid *set)
{
	struct cohort_space *space;
	int pid;

	BUILD_BUG_ON(sizeof(space->abi) != 256);
	space = kmem_cache_zalloc(space_cache, GFP_COHORT_JOIN);
	if (!space)
		return NULL;
	/* Not the tgid, as processes that share an address space have several. */
	pid = ida_alloc_min(&space_numbers, 1, GFP_COHORT_JOIN);
	if (pid < 0) {
		space_free(space);
		return NULL;
	}
	space->abi.magic = COHORT_BF_SPACE_MAGIC;
	space->abi.version = COHORT_BF_VERSION;
	space->abi.pid = pid;
	space->abi.group = __pa(set->dir);
	space->mm = mm;
	space->set = set;
	cohort_set_segments(&space->abi, mm);
	return space;
}

/*
 * True if the hardware could not tell a range of a process from another, which a segment
 * moves to the same group addresses.
 */
static bool collides(const struct cohort_bf_space *space, unsigned long start,
		     unsigned long end)
{
	const struct cohort_bf_segment *s = space->segment;
	bool hit = false;

	for (; s < space->segment + space->nr_segments; s++) {
		if (!s->diff)
			continue;
		if (start >= s->start && end <= s->end)
			return false;
		hit |= start < s->end + s->diff && s->start + s->diff < end;
	}
	return hit;
}

static bool any_collides(struct cohort_space *space)
{
	VMA_ITERATOR(vmi, space->mm, 0);
	struct vm_area_struct *vma;

	for_each_vma(vmi, vma)
		if (collides(&space->abi, vma->vm_start, vma->vm_end))
			return true;
	return false;
}

/* Share the translations of all tables that a process uses, if it @enters, or of none. */
static void change_tables(struct mm_struct *mm, bool enters)
{
	struct cohort_uses *uses = mm->cohort.uses;
	struct cohort_locked l;
	struct cohort_run *run;
	unsigned long index;
	unsigned int i;

	if (!uses)
		return;
	for (index = 0; (run = cohort_next_run(uses, &index)); index++) {
		unsigned long used = READ_ONCE(run->used);

		for_each_set_bit(i, &used, COHORT_RUN_TABLES) {
			if (cohort_lock(mm, cohort_user_pmd(&run->sharers[i]),
					run->base + i * PMD_SIZE, &l)) {
				if (enters)
					__cohort_bf_join(l.ct, l.sharer);
				else
					__cohort_bf_leave(l.ct, l.sharer);
				cohort_unlock(&l);
			}
			cond_resched();
		}
	}
}

/* Give a process the CCID of its group or family. Its mmap_lock is held for writing. */
static void enter(struct mm_struct *mm)
{
	struct cohort_group *group = cohort_group(mm);
	struct cohort_space *space;
	struct cohort_ccid *set;
	bool room = false;

	/* Who hits another's translation has its rights to that page: no other user's. */
	if (mm->cohort.bf || !READ_ONCE(cohort_bf_on) || cohort_keeps_ids(mm))
		return;
	set = ccid_get(group ? group->id : mm->cohort.id, group);
	if (!set)
		return;
	space = space_alloc(mm, set);
	if (!space)
		goto put;
	if (any_collides(space))
		goto free;
	spin_lock(&set->lock);
	if (set->nr < COHORT_BF_MEMBERS) {
		room = true;
		set->nr++;
		WRITE_ONCE(mm->cohort.bf, space);
		list_add_tail(&space->list, &set->members);
	}
	spin_unlock(&set->lock);
	if (!room)
		goto free;
	change_tables(mm, true);
	claim(space, 0, COHORT_BF_ADDR_END, true);
	/* From here on it may use what others' walks have found. */
	WRITE_ONCE(space->abi.ccid, set->ccid);
	arch_cohort_reload(mm);
	return;
free:
	space_free(space);
put:
	ccid_put(set);
}

void cohort_bf_do_exec(struct mm_struct *mm)
{
	mmap_write_lock(mm);
	if (cohort_group(mm))
		enter(mm);
	mmap_write_unlock(mm);
}

void cohort_bf_do_fork(struct mm_struct *mm, struct mm_struct *oldmm)
{
	if (cohort_group(mm) ||
	    (mm_cohort(mm) && !cohort_group(oldmm) && mm->cohort.id)) {
		enter(oldmm);
		enter(mm);
	}
}

/**
 * cohort_bf_do_claim() - see cohort_bf_claim()
 * @mm: the process
 * @start: the first address that it maps
 * @end: the first address behind
 */
void cohort_bf_do_claim(struct mm_struct *mm, unsigned long start,
			unsigned long end)
{
	struct cohort_space *space = mm->cohort.bf;
	unsigned long first, last;

	if (collides(&space->abi, start, end)) {
		cohort_bf_do_exit(mm);
		return;
	}
	/* A segment ends where tables do, and what is mapped lies in one or in none. */
	start &= PMD_MASK;
	end = ALIGN(end, PMD_SIZE);
	first = cohort_group_addr(&space->abi, start);
	last = cohort_group_addr(&space->abi, end - PMD_SIZE);
	if (first == COHORT_BF_ADDR_END || last == COHORT_BF_ADDR_END ||
	    last - first != end - PMD_SIZE - start) {
		/* It does not: nobody else has such a region. */
		cohort_bf_do_exit(mm);
		return;
	}
	spin_lock(&space->set->lock);
	space->claim_start = first;
	space->claim_end = last + PMD_SIZE;
	spin_unlock(&space->set->lock);
	claim(space, first, last + PMD_SIZE, false);
}

/**
 * cohort_bf_do_exit() - see cohort_bf_exit()
 * @mm: the process; its mmap_lock is held for writing, or nobody but the OOM reaper uses it
 */
void cohort_bf_do_exit(struct mm_struct *mm)
{
	struct cohort_space *space = mm->cohort.bf;
	struct cohort_ccid *set = space->set;
	struct cohort_gigabyte *g;
	unsigned long index;

	/* It uses no shared entry from here on, so nobody need know what it has. */
	WRITE_ONCE(space->abi.ccid, 0);
	if (atomic_read(&mm->mm_users))
		arch_cohort_reload(mm);
	spin_lock(&set->lock);
	space->closing = true;
	spin_unlock(&set->lock);
	change_tables(mm, false);

	/* It gets no more bits. One MaskPage at a time: there may be many. */
	xa_for_each(&set->gigabytes, index, g) {
		spin_lock(&set->lock);
		cohort_mask_forget(g, space->abi.pid);
		spin_unlock(&set->lock);
		cond_resched();
	}
	spin_lock(&set->lock);
	list_del(&space->list);
	/* As many as there are places: nobody can be without one. */
	if (--set->nr == COHORT_BF_PIDS)
		xa_for_each(&set->gigabytes, index, g)
			g->mask->flags &= ~COHORT_BF_OVERFLOW;
	spin_unlock(&set->lock);
	WRITE_ONCE(mm->cohort.bf, NULL);
	call_rcu(&space->rcu, space_free_rcu);
	ccid_put(set);
}

/* --- interface ------------------------------------------------------------- */

/* Let processes have CCIDs, those that are forked or execute a program later; or no more. */
void cohort_bf_set(bool on)
{
	if (on) {
		cohort_activate();
		static_branch_enable(&cohort_bf_key);
	}
	WRITE_ONCE(cohort_bf_on, on);
}

bool cohort_bf_get(void)
{
	return READ_ONCE(cohort_bf_on);
}

/* Tables whose translations a process shares. */
static unsigned int count_tables(struct mm_struct *mm)
{
	struct cohort_uses *uses = READ_ONCE(mm->cohort.uses);
	unsigned long index = 0;
	struct cohort_run *run;
	unsigned int nr = 0;

	for (; uses; index++) {
		/* cohort_uses_trim() may free it afterwards. */
		rcu_read_lock();
		run = cohort_next_run(uses, &index);
		if (run)
			nr += hweight_long(READ_ONCE(run->bf));
		rcu_read_unlock();
		if (!run)
			break;
		cond_resched();
	}
	return nr;
}

/* Bits of a process; places that are taken, and gigabytes without sharing, of its CCID. */
static void count_places(struct cohort_space *space, unsigned int *bits,
			 unsigned int *places, unsigned int *overflows)
{
	struct cohort_gigabyte *g;
	unsigned long index;
	int place;

	xa_for_each(&space->set->gigabytes, index, g) {
		place = cohort_mask_place(g, space->abi.pid);
		if (place >= 0)
			*bits += g->bits[place];
		*places += g->mask->nr;
		*overflows += !!(g->mask->flags & COHORT_BF_OVERFLOW);
	}
}

/* Lines of /proc/PID/cohort. */
void cohort_bf_show(struct seq_file *m, struct mm_struct *mm)
{
	unsigned int ccid = 0, pid = 0, bits = 0, places = 0, overflows = 0;
	struct cohort_space *space;

	rcu_read_lock();
	space = READ_ONCE(mm->cohort.bf);
	if (space) {
		spin_lock(&space->set->lock);
		/* If it is about to leave, there may be no other member, and no MaskPage. */
		if (!space->closing) {
			ccid = space->abi.ccid;
			pid = space->abi.pid;
			count_places(space, &bits, &places, &overflows);
		}
		spin_unlock(&space->set->lock);
	}
	rcu_read_unlock();
	seq_printf(m, "Ccid:\t%u\n", ccid);
	seq_printf(m, "TlbPid:\t%u\n", pid);
	seq_printf(m, "TlbTables:\t%u\n", count_tables(mm));
	seq_printf(m, "TlbPrivate:\t%u\n", bits);
	seq_printf(m, "TlbPlaces:\t%u\n", places);
	seq_printf(m, "TlbOverflows:\t%u\n", overflows);
}

static int __init setup_cohort_babelfish(char *arg)
{
	if (!strcmp(arg, "on"))
		cohort_bf_on = true;
	else if (strcmp(arg, "off"))
		pr_warn("cohort_babelfish=%s: not one of off, on\n", arg);
	return 1;
}
__setup("cohort_babelfish=", setup_cohort_babelfish);

static int __init cohort_bf_init(void)
{
	space_cache = kmem_cache_create("cohort_space",
					sizeof(struct cohort_space),
					sizeof(struct cohort_bf_space),
					SLAB_PANIC | SLAB_ACCOUNT, NULL);
	if (cohort_bf_on && arch_cohort_supported())
		cohort_bf_set(true);
	else
		cohort_bf_on = false;
	return 0;
}
core_initcall(cohort_bf_init);
