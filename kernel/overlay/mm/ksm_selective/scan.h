/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: the part of ksmd. Included by mm/ksm.c alone, of whose
 * cursor, trees and items it makes use.
 *
 * As long as the policy is in force there are no full scans. A round visits
 * all processes, and scans those that wait for it; ksmd sleeps when nobody
 * does. Nothing ends that could throw away the unstable tree, so it is kept:
 * its pages belong to processes that do not run. Whatever is met in it whose
 * process has woken (even if it has gone dormant again) or whose page is gone
 * is taken out there and then, and the search begins again. What is met and
 * stays is as it was put in, so the tree is in order for all who search it.
 *
 * Since the number of full scans does not change, every item of the unstable
 * tree counts as one of the current scan, which remove_rmap_item_from_tree()
 * relies on. The policy is switched with no item in the tree.
 */
#ifndef _MM_KSM_SELECTIVE_SCAN_H
#define _MM_KSM_SELECTIVE_SCAN_H

#ifdef CONFIG_KSM_SELECTIVE

#define KSM_NICE		5	/* as ever */
#define KSM_SELECTIVE_NICE	15	/* what the paper found best */

static struct task_struct *ksmd;
static bool ksmd_nice_chosen;

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

static void selective_ksmd_starts(void)
{
	ksmd = current;
}

int ksm_selective_nice(void)
{
	return ksmd ? task_nice(ksmd) : KSM_NICE;
}

int ksm_selective_set_nice(int nice)
{
	if (!ksmd || nice < MIN_NICE || nice > MAX_NICE)
		return -EINVAL;
	mutex_lock(&ksm_thread_mutex);
	ksmd_nice_chosen = true;
	set_user_nice(ksmd, nice);
	mutex_unlock(&ksm_thread_mutex);
	return 0;
}

/* In the middle of a round there is always something to do. */
static bool selective_should_run(void)
{
	return !ksm_selective() || ksm_selective_work() ||
	       READ_ONCE(ksm_scan.mm_slot) != &ksm_mm_head;
}

/* Has the process of this item run since the item was put into the tree? */
static bool selective_stale(struct ksm_rmap_item *rmap_item)
{
	struct ksm_selective *s;
	bool stale;

	if (!ksm_selective())
		return false;
	s = ksm_selective_lock(rmap_item->mm);
	if (!s)
		return true;
	stale = !ksm_selective_settled(s);
	ksm_selective_unlock();
	return stale;
}

/*
 * A slot is made for a process: by a fork or an exec, which are not of the
 * current mm, or by its own wish. Memory is there already only in a fork.
 */
static void selective_enter(struct ksm_mm_slot *mm_slot, struct mm_struct *mm)
{
	if (mm != current->mm && mm->map_count)
		mm_slot->selective.state = KSM_FORKED;
}

static void drop_unstable(struct ksm_mm_slot *mm_slot)
{
	struct ksm_rmap_item *rmap_item;

	for (rmap_item = mm_slot->rmap_list; rmap_item;
	     rmap_item = rmap_item->rmap_list)
		if (rmap_item->address & UNSTABLE_FLAG)
			remove_rmap_item_from_tree(rmap_item);
}

static void selective_left(struct ksm_mm_slot *mm_slot)
{
	mm_slot->selective.scans_left++;
	ksm_dormant_scans_left++;
}

/* The profile goes by the name that the process had when its scan began. */
static char scan_app[KSM_APP_LEN];

/*
 * Is the process at the cursor to be scanned (or its slot to be freed)? It may
 * have been scanned in part, and may have woken since.
 */
static bool selective_visit(struct ksm_mm_slot *mm_slot)
{
	struct ksm_selective *s = &mm_slot->selective;
	bool begin;

	if (!ksm_selective() || ksm_test_exit(mm_slot->slot.mm))
		return true;
	if (ksm_scan.address) {
		if (ksm_selective_scanning(s))
			return true;
		selective_left(mm_slot);
		ksm_scan.address = 0;
		ksm_scan.rmap_list = &mm_slot->rmap_list;
	}
	spin_lock(&ksm_mmlist_lock);
	begin = __ksm_selective_begin(s);
	memcpy(scan_app, s->app, sizeof(scan_app));
	spin_unlock(&ksm_mmlist_lock);
	if (!begin)
		return false;
	ksm_profile_begin(scan_app);
	drop_unstable(mm_slot);
	return true;
}

/* It has woken, or the cursor was reset under it. */
static bool selective_woken(struct ksm_mm_slot *mm_slot)
{
	return ksm_selective() && !ksm_selective_scanning(&mm_slot->selective);
}

/* There is no more of it. */
static void selective_end(struct ksm_mm_slot *mm_slot)
{
	bool end;

	if (!ksm_selective())
		return;
	spin_lock(&ksm_mmlist_lock);
	end = __ksm_selective_end(&mm_slot->selective);
	spin_unlock(&ksm_mmlist_lock);
	if (!end) {
		selective_left(mm_slot);
		return;
	}
	ksm_profile_end(scan_app);
	mm_slot->selective.scans++;
	ksm_dormant_scans++;
}

static void selective_forget(struct ksm_mm_slot *mm_slot)
{
	spin_lock(&ksm_mmlist_lock);
	__ksm_selective_forget(&mm_slot->selective);
	spin_unlock(&ksm_mmlist_lock);
}

/*
 * Pass over what is not scanned from @from to the cursor. Pages there that were
 * merged are still mapped: their items stay, or the reverse map would lose them.
 */
static void pass_over(struct ksm_mm_slot *mm_slot, unsigned long from)
{
	unsigned long to = ksm_scan.address, pages = (to - from) >> PAGE_SHIFT;
	struct ksm_rmap_item *rmap_item;

	mm_slot->selective.pages_left_out += pages;
	ksm_pages_left_out += pages;
	while ((rmap_item = *ksm_scan.rmap_list) &&
	       (rmap_item->address & PAGE_MASK) < to) {
		if (rmap_item->address >= from &&
		    (rmap_item->address & STABLE_FLAG)) {
			ksm_scan.rmap_list = &rmap_item->rmap_list;
			continue;
		}
		*ksm_scan.rmap_list = rmap_item->rmap_list;
		remove_rmap_item_from_tree(rmap_item);
		free_rmap_item(rmap_item);
	}
}

/*
 * Move the cursor to what is to be scanned next of the region that it is in.
 * Returns where that ends, which is where the cursor is if nothing is left.
 */
static unsigned long selective_next(struct ksm_mm_slot *mm_slot,
				    struct vm_area_struct *vma)
{
	unsigned long from = ksm_scan.address, end = vma->vm_end;
	bool forked;

	if (!ksm_selective())
		return end;
	forked = READ_ONCE(mm_slot->selective.state) & KSM_FORKED;
	if (!ksm_profile_next(vma, forked, &ksm_scan.address, &end)) {
		ksm_scan.address = vma->vm_end;
		end = vma->vm_end;
	}
	if (ksm_scan.address != from)
		pass_over(mm_slot, from);
	return end;
}

static void selective_scanned(void)
{
	if (ksm_selective())
		ksm_scan.mm_slot->selective.pages_scanned++;
}

static void selective_merged(struct ksm_rmap_item *rmap_item)
{
	struct ksm_selective *s;
	char app[KSM_APP_LEN];

	if (!ksm_selective())
		return;
	s = ksm_selective_lock(rmap_item->mm);
	if (!s)
		return;
	memcpy(app, s->app, sizeof(app));
	ksm_selective_unlock();
	ksm_profile_merged(app, rmap_item->address & PAGE_MASK);
}

/*
 * Forget all that is known of pages that did not merge, and which processes were
 * scanned. Leaves the cursor at the head. Under ksm_thread_mutex.
 */
static void selective_reset(void)
{
	struct ksm_mm_slot *mm_slot;
	struct mm_slot *slot;
	int nid;

	spin_lock(&ksm_mmlist_lock);
	slot = list_first_entry(&ksm_mm_head.slot.mm_node, struct mm_slot, mm_node);
	mm_slot = mm_slot_entry(slot, struct ksm_mm_slot, slot);
	ksm_scan.mm_slot = mm_slot;
	spin_unlock(&ksm_mmlist_lock);

	/* A slot under the cursor is freed by nobody else. */
	while (mm_slot != &ksm_mm_head) {
		drop_unstable(mm_slot);
		selective_forget(mm_slot);

		spin_lock(&ksm_mmlist_lock);
		slot = list_next_entry(&mm_slot->slot, mm_node);
		mm_slot = mm_slot_entry(slot, struct ksm_mm_slot, slot);
		ksm_scan.mm_slot = mm_slot;
		spin_unlock(&ksm_mmlist_lock);
		cond_resched();
	}
	/* Between two full scans it holds what is gone, and is not looked at. */
	for (nid = 0; nid < ksm_nr_node_ids; nid++)
		root_unstable_tree[nid] = RB_ROOT;
}

void ksm_selective_switch(bool on)
{
	static DEFINE_MUTEX(switch_mutex);

	mutex_lock(&switch_mutex);
	if (on == ksm_selective_on)
		goto out;
	if (on)
		static_branch_enable(&ksm_selective_key);
	mutex_lock(&ksm_thread_mutex);
	wait_while_offlining();
	selective_reset();
	WRITE_ONCE(ksm_selective_on, on);
	WRITE_ONCE(ksm_learning, false);
	if (ksmd && !ksmd_nice_chosen)
		set_user_nice(ksmd, on ? KSM_SELECTIVE_NICE : KSM_NICE);
	if (on)
		ksm_selective_look_again();
	mutex_unlock(&ksm_thread_mutex);
	if (!on)
		static_branch_disable(&ksm_selective_key);
out:
	mutex_unlock(&switch_mutex);
	/* Those who were dormant, those who have exited: see what there is. */
	ksm_selective_poke();
}

void ksm_selective_learn(void)
{
	mutex_lock(&ksm_thread_mutex);
	wait_while_offlining();
	if (ksm_selective()) {
		selective_reset();
		WRITE_ONCE(ksm_learning, true);
	}
	mutex_unlock(&ksm_thread_mutex);
	ksm_selective_poke();
}

static void selective_begin_round(void)
{
	if (ksm_selective())
		ksm_selective_begin_round();
}

/* A round is over: if it has learned, then from all who are dormant. */
static void selective_end_round(void)
{
	WRITE_ONCE(ksm_learning, false);
}

static void selective_exit(void)
{
	if (ksm_selective())
		ksm_selective_poke();
}

#else

static void selective_ksmd_starts(void) {}
static void selective_enter(struct ksm_mm_slot *mm_slot, struct mm_struct *mm) {}
static void selective_end(struct ksm_mm_slot *mm_slot) {}
static void selective_forget(struct ksm_mm_slot *mm_slot) {}
static void selective_scanned(void) {}
static void selective_merged(struct ksm_rmap_item *rmap_item) {}
static void selective_exit(void) {}
static void selective_end_round(void) {}
static void selective_begin_round(void) {}

static bool selective_should_run(void)
{
	return true;
}

static bool selective_stale(struct ksm_rmap_item *rmap_item)
{
	return false;
}

static bool selective_visit(struct ksm_mm_slot *mm_slot)
{
	return true;
}

static bool selective_woken(struct ksm_mm_slot *mm_slot)
{
	return false;
}

static unsigned long selective_next(struct ksm_mm_slot *mm_slot,
				    struct vm_area_struct *vma)
{
	return vma->vm_end;
}

#endif
#endif
