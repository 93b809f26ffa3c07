// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: which processes are dormant.
 *
 * A process is dormant for as long as there is a reason: it was written to
 * /proc/PID/ksm_dormant, all its threads are frozen by cgroup v2's freezer, or
 * its oom_score_adj has reached a threshold. ksmd scans it once, and not again
 * before it has been active:
 *
 *	active --reason--> waiting --begin--> scanning --end--> scanned
 *	   ^                  |                   |                |
 *	   +----- last reason goes, or thawed ----+----------------+
 *
 * Reasons and states are hints: nothing here stops a process from running. ksmd
 * compares pages after it has write-protected them, as in stock. A wrong hint costs
 * time or a merge.
 *
 * States are part of KSM's slots: a process without one has no mergeable memory.
 * They change under ksm_mmlist_lock, and the sources of the reasons are read under
 * it too, so that the later of two updates is right. ksmd reads the states of slots
 * at the cursor without the lock.
 */
#define pr_fmt(fmt) "ksm: " fmt

#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "internal.h"

DEFINE_STATIC_KEY_FALSE(ksm_selective_key);
/* Changed under ksm_thread_mutex. */
bool ksm_selective_on;

/* A process waits to be scanned, or has exited. */
static unsigned int work;	/* not a bool, for xchg() */

/* Dormant from this value on; by default above any oom_score_adj. */
int ksm_dormant_oom_score_adj = OOM_SCORE_ADJ_MAX + 1;

/* Written by ksmd alone. */
unsigned long ksm_dormant_scans;
unsigned long ksm_dormant_scans_left;

/* --- the states ----------------------------------------------------------- */

/* Add a reason. Returns true if the process must be scanned (again). */
static bool state_set(unsigned int *state, unsigned int reason)
{
	bool again = !(*state & KSM_DORMANT);

	if (*state & reason)
		return false;
	/* A process that gets frozen was running, whatever other reasons it has. */
	if (reason == KSM_DORMANT_FROZEN)
		again = true;
	if (again)
		*state &= ~(KSM_SCANNING | KSM_SCANNED);
	*state |= reason;
	return again;
}

/* Take a reason away. Returns true if the process must be scanned again. */
static bool state_clear(unsigned int *state, unsigned int reason)
{
	if (!(*state & reason))
		return false;
	*state &= ~reason;
	if (reason == KSM_DORMANT_FROZEN || !(*state & KSM_DORMANT))
		*state &= ~(KSM_SCANNING | KSM_SCANNED);
	return (*state & KSM_DORMANT) &&
	       !(*state & (KSM_SCANNING | KSM_SCANNED));
}

static bool state_begin(unsigned int *state)
{
	if (!(*state & KSM_DORMANT) || (*state & KSM_SCANNED))
		return false;
	*state |= KSM_SCANNING;
	return true;
}

/* Returns false if the process woke meanwhile, even if it is dormant again. */
static bool state_end(unsigned int *state)
{
	if (!(*state & KSM_SCANNING))
		return false;
	*state ^= KSM_SCANNING | KSM_SCANNED;
	return true;
}

/* Scan again after pages were unmerged, or to learn. */
static bool state_forget(unsigned int *state)
{
	*state &= ~(KSM_SCANNING | KSM_SCANNED);
	return *state & KSM_DORMANT;
}

/* --- for ksmd; __ksm_selective_*() are called under ksm_mmlist_lock ------- */

/* Start a scan if the process waits for one. */
bool __ksm_selective_begin(struct ksm_selective *s)
{
	return state_begin(&s->state);
}

/* End a scan; false if the process has woken. */
bool __ksm_selective_end(struct ksm_selective *s)
{
	return state_end(&s->state);
}

/* Scan it again if it is dormant. */
void __ksm_selective_forget(struct ksm_selective *s)
{
	if (state_forget(&s->state))
		WRITE_ONCE(work, 1);
}

void ksm_selective_poke(void)
{
	/*
	 * ksmd clears it and then reads the states; here the state was changed
	 * before. xchg() is a full barrier on both sides: one sees the other.
	 */
	xchg(&work, 1);
	ksm_selective_wake();
}

bool ksm_selective_work(void)
{
	return READ_ONCE(work);
}

void ksm_selective_begin_round(void)
{
	xchg(&work, 0);
}

/* --- reasons -------------------------------------------------------------- */

/*
 * The caller is in an RCU read-side critical section, and @task has not exited. Each
 * thread that freezes looks here. Threads mostly freeze in the order of the list, so the
 * one behind @task still runs and ends the walk. A walk from the beginning of the list
 * would pass all that are frozen already, each time (invariant 13).
 */
static bool group_frozen(struct task_struct *task)
{
	struct task_struct *t = task;

	if (!test_bit(CGRP_FREEZE, &task_dfl_cgroup(task)->flags))
		return false;
	do {
		if (!cgroup_task_frozen(t) && !(t->flags & PF_EXITING))
			return false;
		t = next_thread(t);
	} while (t != task);
	return true;
}

static bool oom_dormant(struct task_struct *task)
{
	return task->signal->oom_score_adj >= READ_ONCE(ksm_dormant_oom_score_adj);
}

static bool change(struct ksm_selective *s, struct task_struct *task,
		   unsigned int reason, bool dormant)
{
	if (!dormant)
		return state_clear(&s->state, reason);
	/* A name that changes meanwhile may be cut, but is terminated. */
	strscpy_pad(s->app.name, task->group_leader->comm);
	/* The real one: a program that runs with another's rights keeps it. */
	s->app.user = task_uid(task->group_leader);
	s->state &= ~KSM_FORKED;
	if (task->group_leader->flags & PF_FORKNOEXEC)
		s->state |= KSM_FORKED;
	return state_set(&s->state, reason);
}

/*
 * Update @reasons of a task that uses @mm and cannot lose it. KSM_DORMANT_WRITTEN
 * becomes @written.
 */
static int look(struct mm_struct *mm, struct task_struct *task,
		unsigned int reasons, bool written)
{
	struct ksm_selective *s = ksm_selective_lock(mm);
	bool again = false;

	if (!s)
		return -EINVAL;
	rcu_read_lock();
	if (reasons & KSM_DORMANT_WRITTEN)
		again |= change(s, task, KSM_DORMANT_WRITTEN, written);
	if (reasons & KSM_DORMANT_FROZEN)
		again |= change(s, task, KSM_DORMANT_FROZEN, group_frozen(task));
	/*
	 * A child of vfork() uses its parent's memory until it executes a
	 * program. Its own oom_score_adj says nothing about that memory.
	 */
	if ((reasons & KSM_DORMANT_OOM) && !task->vfork_done)
		again |= change(s, task, KSM_DORMANT_OOM, oom_dormant(task));
	rcu_read_unlock();
	ksm_selective_unlock();
	if (again && ksm_selective())
		ksm_selective_poke();
	return 0;
}

static int look_at_task(struct task_struct *task, unsigned int reasons,
			bool written)
{
	struct task_struct *t = find_lock_task_mm(task);
	int err = -EINVAL;

	if (!t)
		return -ESRCH;
	if (!(t->flags & PF_KTHREAD))
		err = look(t->mm, t, reasons, written);
	task_unlock(t);
	return err;
}

void ksm_selective_do_frozen(void)
{
	struct mm_struct *mm = current->mm;

	/* Most processes have nothing to merge: skip the walk of their threads. */
	if (mm && test_bit(MMF_VM_MERGEABLE, &mm->flags))
		look(mm, current, KSM_DORMANT_FROZEN, false);
}

void ksm_selective_do_oom(struct task_struct *task)
{
	look_at_task(task, KSM_DORMANT_OOM, false);
}

/**
 * ksm_selective_set_written() - mark a process as dormant, or take the mark away
 * @task: the process
 * @dormant: the mark
 *
 * Return: 0; -ESRCH if it has exited; -EINVAL if none of its pages may be merged.
 */
int ksm_selective_set_written(struct task_struct *task, bool dormant)
{
	return look_at_task(task, KSM_DORMANT_WRITTEN, dormant);
}

bool ksm_selective_written(struct mm_struct *mm)
{
	struct ksm_selective *s = ksm_selective_lock(mm);
	bool written;

	if (!s)
		return false;
	written = s->state & KSM_DORMANT_WRITTEN;
	ksm_selective_unlock();
	return written;
}

/* Find reasons that are older than the policy or the threshold. */
void ksm_selective_look_again(void)
{
	struct task_struct *p;

	rcu_read_lock();
	for_each_process(p)
		if (!(p->flags & PF_KTHREAD))
			look_at_task(p, KSM_DORMANT_FROZEN | KSM_DORMANT_OOM, false);
	rcu_read_unlock();
}

void ksm_selective_do_stat(struct seq_file *m, struct mm_struct *mm)
{
	struct ksm_selective *found = ksm_selective_lock(mm), s;

	if (!found)
		return;
	s = *found;
	ksm_selective_unlock();
	seq_printf(m, "ksm_dormant_written %d\n", !!(s.state & KSM_DORMANT_WRITTEN));
	seq_printf(m, "ksm_dormant_frozen %d\n", !!(s.state & KSM_DORMANT_FROZEN));
	seq_printf(m, "ksm_dormant_oom %d\n", !!(s.state & KSM_DORMANT_OOM));
	seq_printf(m, "ksm_scanned %d\n", !!(s.state & KSM_SCANNED));
	seq_printf(m, "ksm_scans %lu\n", s.scans);
	seq_printf(m, "ksm_scans_left %lu\n", s.scans_left);
	seq_printf(m, "ksm_pages_scanned %lu\n", s.pages_scanned);
}

#include "tests/state-kunit.h"
