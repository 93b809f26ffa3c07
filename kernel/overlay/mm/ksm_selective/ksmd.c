// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: the part of ksmd. Included by mm/ksm.c alone, of whose
 * cursor, items and stable tree it makes use; it includes index.c, twin.c, scan.c
 * and switch.c.
 *
 * While the policy is in force ksmd does no full scans. In a round it goes through
 * the slots once and scans the processes that wait for it; it sleeps when none
 * waits. New slots are added behind the cursor, and each step moves the cursor to
 * the next page or the next slot. So a round ends whatever processes do.
 *
 * The unstable tree is not used. Stock discards it after each full scan, because
 * its pages may change. Here the pages belong to processes that do not run and are
 * scanned once, and a page must still be found when an equal one comes, perhaps
 * days later. So pages are kept in an index, a tree ordered by the checksum that
 * the page had, which later changes of the page cannot put out of order. An item
 * is removed when it is met and its process has woken (even if it is dormant
 * again), its page is gone, or the content differs.
 *
 * An item is in the unstable tree, in the stable tree, in the index, or in none.
 * ksm_thread_mutex protects all of this, except the states in the slots.
 */
#ifdef CONFIG_KSM_SELECTIVE

#define INDEXED_FLAG		0x400	/* is a node of the index */

/*
 * Bound the comparisons per checksum: collisions can be forged. By chance at most
 * two pages have the same one.
 */
#define MAX_COMPARED		8

#define KSM_NICE		5	/* as in stock */
#define KSM_SELECTIVE_NICE	15	/* the paper's best value */

static struct task_struct *ksmd;
static bool ksmd_nice_chosen;

/* Pages that were scanned and have not merged. */
static struct rb_root selective_index = RB_ROOT;

/* What the application that is scanned was at the start of the scan. */
static struct ksm_app scan_app;

/* ksmd has looked for pages since it last slept. */
static bool scanned;

/* The page that ksmd is working on. */
static struct page *scan_page;
/*
 * The item of @scan_page has its index checksum. It is computed only after the
 * stable tree was searched, because most pages in a profile are found there.
 */
static bool summed;

/*
 * Twins: a page that several processes have mapped since their fork is merged for
 * one of them at a time; the items of the others may wait in the index, under this
 * checksum and node.
 */
static u64 twin_key;
static bool twin_wanted;
/* The twin that was tried last. */
static struct ksm_rmap_item *twin;
/* Number of twins that were put back into the index. */
static int twins_back;
/* A twin could not be merged now: the others wait for the next scan. */
static bool twins_later;

/* The state of an address space, with ksm_mmlist_lock held, or NULL without it. */
struct ksm_selective *ksm_selective_lock(struct mm_struct *mm)
{
	struct mm_slot *slot;

	spin_lock(&ksm_mmlist_lock);
	slot = mm_slot_lookup(mm_slots_hash, mm);
	if (slot) {
		/* The caller's from here on: sparse does not follow it. */
		__release(&ksm_mmlist_lock);
		return &mm_slot_entry(slot, struct ksm_mm_slot, slot)->selective;
	}
	spin_unlock(&ksm_mmlist_lock);
	return NULL;
}

void ksm_selective_unlock(void)
{
	__acquire(&ksm_mmlist_lock);
	spin_unlock(&ksm_mmlist_lock);
}

void ksm_selective_wake(void)
{
	wake_up_interruptible(&ksm_thread_wait);
}

static bool selective_has_work(void)
{
	return ksm_selective_work() ||
	       READ_ONCE(ksm_scan.mm_slot) != &ksm_mm_head;
}

static bool selective_do_rest(void)
{
	bool rest = scanned;

	scanned = false;
	return rest;
}

/* True if the process of this item has not been active since it was scanned. */
static bool settled(struct ksm_rmap_item *rmap_item)
{
	struct ksm_selective *s = ksm_selective_lock(rmap_item->mm);
	bool yes;

	if (!s)
		return false;
	yes = ksm_selective_settled(s);
	ksm_selective_unlock();
	return yes;
}

/* Start a new round that scans all dormant processes again. */
static void selective_forget_all(void)
{
	struct mm_slot *slot;

	twin_wanted = false;
	twin = NULL;
	spin_lock(&ksm_mmlist_lock);
	list_for_each_entry(slot, &ksm_mm_head.slot.mm_node, mm_node)
		__ksm_selective_forget(&mm_slot_entry(slot, struct ksm_mm_slot,
						      slot)->selective);
	ksm_scan.mm_slot = &ksm_mm_head;
	spin_unlock(&ksm_mmlist_lock);
}

#include "index.c"
#include "twin.c"
#include "scan.c"
#include "switch.c"

#include "tests/ksmd-kunit.h"

#endif /* CONFIG_KSM_SELECTIVE */
