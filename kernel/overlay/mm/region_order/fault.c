// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region: faults that find no page of that size.
 */
#include <linux/cpuset.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/region_order.h>
#include <linux/sched/signal.h>
#include <linux/shmem_fs.h>
#include <linux/vmstat.h>

/* it needs what is above */
#include <linux/compaction.h>

/**
 * region_order_do_gfp() - how hard to try for a large page
 * @flags: the flags of a region that has an order
 *
 * Opportunistic regions take what is free. Those that wait compact and reclaim,
 * but call no OOM killer: the page is wanted, not needed.
 *
 * Return: what to give to the allocator.
 */
gfp_t region_order_do_gfp(vm_flags_t flags)
{
	if (flags & VM_ORDER_WAIT)
		return GFP_TRANSHUGE_LIGHT | __GFP_RECLAIM |
		       __GFP_RETRY_MAYFAIL;
	return GFP_TRANSHUGE_LIGHT;
}

#ifdef CONFIG_NUMA
/* The policy by which the fault's page is allocated, with a reference. */
static struct mempolicy *fault_policy(struct vm_fault *vmf, int order,
				      pgoff_t *ilx)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mempolicy *pol;

	/* The page cache knows that of the task alone. */
	if (!vma_is_anonymous(vma) && !vma_is_shmem(vma)) {
		*ilx = NO_INTERLEAVE_INDEX;
		pol = get_task_policy(current);
	} else {
		pol = get_vma_policy(vma, vmf->address, order, ilx);
	}
	/* A shared one comes with a reference. */
	if (!mpol_needs_cond_ref(pol))
		mpol_get(pol);
	return pol;
}
#else
static struct mempolicy *fault_policy(struct vm_fault *vmf, int order,
				      pgoff_t *ilx)
{
	*ilx = 0;
	return NULL;
}
#endif

/*
 * See that there is memory at all, be it scattered, by the rules of a base
 * page: reclaim and, if nothing else helps, the OOM killer. Otherwise a task
 * would wait for ever for a page that no compaction can make.
 *
 * One task at a time: what it holds meanwhile counts as no process's and no
 * control group's, and must not be what others are killed for.
 */
static void have_memory(int order, struct mempolicy *pol, pgoff_t ilx)
{
	static DEFINE_MUTEX(lock);
	struct page *page = NULL, *next;
	LIST_HEAD(pages);
	int i;

	if (!mutex_trylock(&lock))
		return;
	for (i = 0; i < 1 << order; i++) {
		page = alloc_pages_mpol(GFP_HIGHUSER_MOVABLE, 0, pol, ilx,
					numa_node_id());
		if (!page || fatal_signal_pending(current))
			break;
		list_add(&page->lru, &pages);
		cond_resched();
	}
	if (page && i < 1 << order)
		__free_page(page);
	list_for_each_entry_safe(page, next, &pages, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
	mutex_unlock(&lock);
}

/*
 * Where compaction has failed it is put off, for up to 64 attempts, and passes over
 * the blocks that it could not empty: good for those who have something to fall
 * back to. Who waits has not, and memory changes meanwhile; so ten times a second,
 * for all who wait, the next attempt is one from the start.
 */
static void insist(int order)
{
	static unsigned long next = INITIAL_JIFFIES;
	unsigned long then = READ_ONCE(next);
	gfp_t gfp = GFP_HIGHUSER_MOVABLE;
	struct zonelist *zonelist;
	struct zoneref *z;
	struct zone *zone;

	if (time_before(jiffies, then) ||
	    cmpxchg(&next, then, jiffies + max(HZ / 10, 1)) != then)
		return;
	zonelist = node_zonelist(numa_node_id(), gfp);
	for_each_zone_zonelist(zone, z, zonelist, gfp_zone(gfp)) {
		if (!cpuset_zone_allowed(zone, gfp))
			continue;
		compaction_defer_reset(zone, order, true);
		reset_isolation_suitable(zone->zone_pgdat);
	}
}

/**
 * region_order_do_wait() - wait until the fault should be tried again
 * @vmf: a fault in a region that waits
 * @order: of the page that was not to be had
 *
 * Nobody who needs the region's locks waits with us: they are dropped. A system
 * call may hold others, a directory's for instance, and pins of pages for devices
 * cannot always drop the region's: they get smaller pages. User space answers any
 * signal and faults again afterwards.
 *
 * Return: if the fault's lock was dropped, so that it must be tried again.
 */
bool region_order_do_wait(struct vm_fault *vmf, int order)
{
	unsigned int flags = vmf->flags;
	struct mempolicy *pol;
	pgoff_t ilx;

	if (!(flags & FAULT_FLAG_USER) || !(flags & FAULT_FLAG_ALLOW_RETRY) ||
	    (flags & FAULT_FLAG_RETRY_NOWAIT) || fatal_signal_pending(current))
		return false;

	pol = fault_policy(vmf, order, &ilx);
	release_fault_lock(vmf);
	count_vm_event(ORDER_WAITED);
	have_memory(order, pol, ilx);
	mpol_put(pol);
	insist(order);
	schedule_timeout_interruptible(max(HZ / 50, 1));
	return true;
}

/* A fault in a region that has an order was served by a page of this one. */
void region_order_do_got(vm_flags_t flags, int order)
{
	count_vm_event(ORDER_ASKED);
	count_vm_event(ORDER_GOT_0 + order);
	if (order < region_order(flags))
		count_vm_event(ORDER_FELL_BACK);
}
