// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size per region: faults that find no page of that size.
 */
#include <linux/capability.h>
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

/* needs the includes above */
#include <linux/compaction.h>

/**
 * region_order_do_gfp() - how hard to try for a large page
 * @flags: the flags of a region that has an order
 *
 * Regions that wait compact and reclaim, without the OOM killer, because a smaller
 * page would do. Other regions take what is free.
 *
 * Return: the gfp mask.
 */
gfp_t region_order_do_gfp(vm_flags_t flags)
{
	if (flags & VM_ORDER_WAIT)
		return GFP_TRANSHUGE_LIGHT | __GFP_RECLAIM |
		       __GFP_RETRY_MAYFAIL;
	return GFP_TRANSHUGE_LIGHT;
}

#ifdef CONFIG_NUMA
/* The memory policy of the fault's page, with a reference. */
static struct mempolicy *fault_policy(struct vm_fault *vmf, int order,
				      pgoff_t *ilx)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mempolicy *pol;

	/* The page cache uses the task's policy alone. */
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
 * True if enough memory is free, perhaps scattered. Otherwise a task could wait for
 * ever for a page that compaction cannot make.
 *
 * The base pages are charged to the task's control group while it holds them, and
 * are reclaimed for as far as a large page would be: neither the machine's OOM killer
 * nor the group's is called. One task at a time, so that all waiters together hold
 * no more than one large page. Without @reclaim it does not sleep for memory, so that
 * the caller may hold the fault's lock.
 */
static bool have_memory(int order, struct mempolicy *pol, pgoff_t ilx,
			bool reclaim)
{
	gfp_t gfp = GFP_HIGHUSER_MOVABLE | __GFP_ACCOUNT | __GFP_RETRY_MAYFAIL |
		    __GFP_NOWARN;
	static DEFINE_MUTEX(lock);
	struct page *page, *next;
	LIST_HEAD(pages);
	int i;

	if (!reclaim)
		gfp &= ~(__GFP_DIRECT_RECLAIM | __GFP_RETRY_MAYFAIL);
	/* Another waiter looks: the next try of this one may. */
	if (!mutex_trylock(&lock))
		return true;
	for (i = 0; i < 1 << order && !fatal_signal_pending(current); i++) {
		page = alloc_pages_mpol(gfp, 0, pol, ilx, numa_node_id());
		if (!page)
			break;
		list_add(&page->lru, &pages);
		cond_resched();
	}
	list_for_each_entry_safe(page, next, &pages, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
	mutex_unlock(&lock);
	return i == 1 << order;
}

/*
 * Reset compaction's back-off, at most ten times a second for all waiters. After a
 * failure compaction is deferred for up to 64 attempts and skips blocks that it
 * could not empty. This suits callers with a fallback; a waiter has none, and memory
 * changes meanwhile.
 *
 * The back-off is the whole machine's, so the task must have the privilege itself. One
 * that has inherited the policy without it waits for compaction at stock's pace.
 */
static void insist(int order)
{
	static unsigned long next = INITIAL_JIFFIES;
	unsigned long then = READ_ONCE(next);
	gfp_t gfp = GFP_HIGHUSER_MOVABLE;
	struct zonelist *zonelist;
	struct zoneref *z;
	struct zone *zone;

	if (!has_capability_noaudit(current, CAP_SYS_NICE))
		return;
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
 * region_order_do_wait() - wait before the fault is retried
 * @vmf: a fault in a region that waits
 * @order: the order of the page that could not be allocated
 *
 * Drops the region's lock, so that no other task waits with this one. A system call
 * may hold other locks, for example a directory's, and pinning cannot always drop
 * the region's lock: both get smaller pages. So does a task for which there is not
 * enough memory even in base pages, on the machine or in its control group. Any signal
 * ends the wait.
 *
 * Return: true if the fault's lock was dropped and the fault must be retried.
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
	/*
	 * What an earlier round of this fault has reclaimed is free now. If it is not
	 * enough, the wait is in vain.
	 */
	if ((flags & FAULT_FLAG_TRIED) && !have_memory(order, pol, ilx, false)) {
		mpol_put(pol);
		return false;
	}
	release_fault_lock(vmf);
	count_vm_event(ORDER_WAITED);
	have_memory(order, pol, ilx, true);
	mpol_put(pol);
	insist(order);
	schedule_timeout_interruptible(max(HZ / 50, 1));
	return true;
}

/* Count a fault in a region with an order that was served by a page of @order. */
void region_order_do_got(vm_flags_t flags, int order)
{
	count_vm_event(ORDER_ASKED);
	count_vm_event(ORDER_GOT_0 + order);
	if (order < region_order(flags))
		count_vm_event(ORDER_FELL_BACK);
}
