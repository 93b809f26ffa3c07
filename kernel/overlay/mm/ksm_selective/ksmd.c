// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: the part of ksmd. Included by mm/ksm.c alone, of whose
 * cursor, items and stable tree it makes use; it includes index.c, twin.c, scan.c
 * and switch.c.
 *
 * As long as the policy is in force ksmd does no full scans. In a round it goes
 * through the slots once, and scans the processes that wait for it; it sleeps
 * when nobody does. Slots are added behind the cursor, so a round has an end,
 * whatever processes do meanwhile: the cursor goes on with each step, in a
 * process to the next page or to the next slot.
 *
 * The unstable tree is not used. It is thrown away after each full scan since
 * its pages may change; here they are of processes that do not run, each is
 * scanned once only, and what has not found its like must be there when that
 * comes, maybe days later. So they are kept in an index, a tree by the checksum
 * that the page had, which nothing can put out of order: an item of which the
 * process has woken (even if it is dormant again), the page is gone or the
 * content is another one is taken out when it is met.
 *
 * An item is in the unstable tree, in the stable tree, in the index, or in none.
 * All of this is protected by ksm_thread_mutex, but for the states in the slots.
 */
#ifdef CONFIG_KSM_SELECTIVE

#define INDEXED_FLAG		0x400	/* is a node of the index */

/*
 * So many pages with one checksum are compared and no more: checksums are easily
 * made to be alike. Those that are alike by chance are two at most.
 */
#define MAX_COMPARED		8

#define KSM_NICE		5	/* as ever */
#define KSM_SELECTIVE_NICE	15	/* what the paper found best */

static struct task_struct *ksmd;
static bool ksmd_nice_chosen;

/* Pages that were scanned and have not merged. */
static struct rb_root selective_index = RB_ROOT;

/* The application that is scanned, by the name it had when its scan began. */
static char scan_app[KSM_APP_LEN];

/* The page that was found last. */
static struct page *scan_page;
/*
 * Its item has the checksum that the index goes by. That is not taken before the
 * stable tree was searched, as most pages that a profile names have their like
 * there.
 */
static bool summed;

/*
 * Twins: a page that was mapped by several processes since their fork merges with
 * the first of them only; the items of others may wait in the index, under this
 * checksum and node.
 */
static u64 twin_key;
static bool twin_wanted;
/* The last of them that was looked at. */
static struct ksm_rmap_item *twin;
/* So many were put into the index again. */
static int twins_back;
/* One could not be merged at once: the others wait for the next scan. */
static bool twins_later;

/* Find the state of an address space, and hold on to it. */
struct ksm_selective *ksm_selective_lock(struct mm_struct *mm)
{
	struct mm_slot *slot;

	spin_lock(&ksm_mmlist_lock);
	slot = mm_slot_lookup(mm_slots_hash, mm);
	if (slot)
		return &mm_slot_entry(slot, struct ksm_mm_slot, slot)->selective;
	spin_unlock(&ksm_mmlist_lock);
	return NULL;
}

void ksm_selective_unlock(void)
{
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

/* Has the process of this item not run since it was scanned? */
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

/* Scan all who are dormant again, from a round's beginning. */
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
