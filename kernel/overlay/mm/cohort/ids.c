// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: a process changes its user or its namespaces.
 *
 * A process joins tables only at fork, those of its parent. So it can share with a
 * process of another user, or in another namespace, only if one of them changes
 * these. It unshares all its tables then.
 */
#include <linux/cohort_ids.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "internal.h"

/* The namespaces that a child may be made into. */
#define COHORT_CLONE_NEW						\
	(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID |	\
	 CLONE_NEWNET | CLONE_NEWCGROUP | CLONE_NEWUSER | CLONE_NEWTIME)

static int leave_all(struct mm_struct *mm)
{
	int err;

	if (READ_ONCE(mm->cohort.flags) & PR_COHORT_KEEP_IDS)
		return 0;
	mmap_write_lock(mm);
	err = cohort_unshare_range(mm, 0, TASK_SIZE_MAX, COHORT_CHANGE);
	/* Its later children belong to another cohort. */
	if (!err && mm->cohort.id)
		mm->cohort.id = cohort_new_id();
	mmap_write_unlock(mm);
	return err;
}

/* For a change that cannot fail: kills the process if there is no memory. */
static void leave_or_die(struct mm_struct *mm)
{
	if (leave_all(mm))
		force_fatal_sig(SIGKILL);
}

int cohort_do_fork_namespaces(struct mm_struct *mm, unsigned long flags)
{
	struct nsproxy *ns = current->nsproxy;

	if (flags & CLONE_VM)
		return 0;
	/* unshare() and setns() may have set other namespaces for children. */
	if (!(flags & COHORT_CLONE_NEW) &&
	    ns->pid_ns_for_children == task_active_pid_ns(current) &&
	    ns->time_ns_for_children == ns->time_ns)
		return 0;
	return leave_all(mm);
}

void cohort_do_new_creds(struct mm_struct *mm, const struct cred *old,
			 const struct cred *new)
{
	if (!uid_eq(new->uid, old->uid) || !uid_eq(new->euid, old->euid) ||
	    new->user_ns != old->user_ns)
		leave_or_die(mm);
}

void cohort_do_new_namespaces(struct mm_struct *mm)
{
	leave_or_die(mm);
}
