// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: a process changes its user or its namespaces.
 *
 * A process gets the tables of its parent at fork, and joins those of its group, whose
 * members have one user. So it can share with a process of another user, or in another
 * namespace, only if one of them changes these. It unshares all its tables then.
 *
 * Calls that change them cannot fail at that point, and hold locks. So they mark the
 * process, and the calling thread leaves before it executes another instruction in
 * user mode. Other threads of the process may run meanwhile. To them, and to everybody
 * else, it looks as if the call took longer: they have not changed (user and
 * namespaces belong to a thread), and have shared these tables before. One of them
 * may fork; while the mark is set, that fork shares nothing. After it, the process may
 * share again what it then has: the rule is about the moment of a change, not about
 * the users that its threads have. If the thread is killed before it leaves, the mark
 * stays, and another thread leaves when it next gets to this point.
 */
#include <linux/cohort_ids.h>
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/prctl.h>
#include <linux/resume_user_mode.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>

#include "internal.h"

/* The namespaces that a child may be made into. */
#define COHORT_CLONE_NEW						\
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID |	\
	 CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_NEWUSER | CLONE_NEWTIME)

static int leave_all(struct mm_struct *mm)
{
	int err;

	if (mmap_write_lock_killable(mm))
		return -EINTR;
	/* First, or each table that it leaves would get it a bit. */
	cohort_bf_exit(mm);
	err = cohort_tlb_leave(mm);
	if (!err)
		err = cohort_unshare_range(mm, 0, TASK_SIZE_MAX, COHORT_CHANGE);
	if (!err) {
		/* Its later children belong to another cohort. */
		if (mm->cohort.id)
			mm->cohort.id = cohort_new_id();
		/* Under the lock: nothing has shared a table since. */
		cohort_set_group(mm, NULL);
		WRITE_ONCE(mm->cohort.leaving, false);
		cohort_uses_trim(mm);
	}
	mmap_write_unlock(mm);
	return err;
}

/* True if a process may change its user and go on sharing. Its group decides, if any. */
bool cohort_keeps_ids(struct mm_struct *mm)
{
	if (cohort_group(mm))
		return cohort_group_keeps_ids(mm);
	return READ_ONCE(mm->cohort.flags) & PR_COHORT_KEEP_IDS;
}

static void leave_later(struct mm_struct *mm)
{
	if (cohort_keeps_ids(mm))
		return;
	WRITE_ONCE(mm->cohort.leaving, true);
	set_notify_resume(current);
}

/**
 * cohort_do_resume_user_mode() - leave all tables before a return to user mode
 * @mm: the caller's address space, which is to leave
 *
 * Copying tables needs memory. Without it the thread does what it does after a page
 * fault that gets none, which a store to one of the tables would be: it waits for the
 * OOM killer to have freed some and tries again, and may itself be chosen. It does
 * not get to user mode otherwise, because the flag is set again.
 */
void cohort_do_resume_user_mode(struct mm_struct *mm)
{
	int err;

	mem_cgroup_enter_user_fault();
	err = leave_all(mm);
	mem_cgroup_exit_user_fault();
	if (task_in_memcg_oom(current))
		mem_cgroup_oom_synchronize(err);
	if (err) {
		set_notify_resume(current);
		cond_resched();
	}
}

int cohort_do_fork_namespaces(struct mm_struct *mm, unsigned long flags)
{
	struct nsproxy *ns = current->nsproxy;
	struct mem_cgroup *memcg, *old;
	bool new_time;
	int err = 0;

	/* One that uses this memory stays in the time namespace whose [vvar] it has. */
	new_time = !(flags & CLONE_VM) &&
		   ((flags & CLONE_NEWTIME) ||
		    ns->time_ns_for_children != ns->time_ns);
	/*
	 * unshare() and setns() may have set other namespaces for children. A child that
	 * uses this memory may fork members of its own, in its namespaces.
	 */
	if (!(flags & COHORT_CLONE_NEW) && !new_time &&
	    ns->pid_ns_for_children == task_active_pid_ns(current))
		return 0;
	/* The parent pays, as for all else: the child is in no cgroup yet. */
	memcg = get_mem_cgroup_from_current();
	old = set_active_memcg(memcg);
	if (!cohort_keeps_ids(mm))
		err = leave_all(mm);
	else if (new_time)
		/* Unshare [vvar] here, because timens_on_fork() cannot fail. */
		err = cohort_leave_timens(mm);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return err;
}

void cohort_do_new_creds(struct mm_struct *mm, const struct cred *old,
			 const struct cred *new)
{
	if (!uid_eq(new->uid, old->uid) || !uid_eq(new->euid, old->euid) ||
	    new->user_ns != old->user_ns)
		leave_later(mm);
}

void cohort_do_new_namespaces(struct mm_struct *mm)
{
	leave_later(mm);
}
