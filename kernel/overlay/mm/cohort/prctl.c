// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: PR_SET_COHORT and PR_GET_COHORT.
 */
#include <linux/mm.h>
#include <linux/prctl.h>
#include <linux/sched.h>

#include "internal.h"

/**
 * cohort_prctl_set() - make the caller a zygote, or end that
 * @flags: PR_COHORT_ZYGOTE, and with it PR_COHORT_KEEP_EXEC, PR_COHORT_KEEP_IDS,
 *	   PR_COHORT_TLB;
 *	   0 ends sharing at later forks; or PR_COHORT_GROUP alone
 * @name: with PR_COHORT_GROUP the group of programs that the caller and its children
 *	  will execute, empty for none; else NULL
 *
 * Recorded in every mode, has effect in mode "optin". Needs no privilege: it changes how
 * the caller's own children are forked, and with PR_COHORT_KEEP_IDS whether the caller
 * keeps tables when it becomes another user, which it was before.
 *
 * Return: 0; -EINVAL for unknown flags, flags without PR_COHORT_ZYGOTE, PR_COHORT_TLB
 * without PR_COHORT_KEEP_EXEC or in a kernel without it, or a name that no group may
 * have; -EPERM for PR_COHORT_TLB without CAP_SYS_ADMIN; -EFAULT; -EINTR.
 */
long cohort_prctl_set(unsigned long flags, const char __user *name)
{
	struct mm_struct *mm = current->mm;
	long err;

	if (flags == PR_COHORT_GROUP)
		return cohort_prctl_group(name);
	if (name)
		return -EINVAL;
	if (flags & ~(PR_COHORT_ZYGOTE | PR_COHORT_KEEP_EXEC |
		      PR_COHORT_KEEP_IDS | PR_COHORT_TLB))
		return -EINVAL;
	if (flags && !(flags & PR_COHORT_ZYGOTE))
		return -EINVAL;
	/* It begins at an exec, when nothing of the program is mapped. */
	if (flags & PR_COHORT_TLB) {
		if (!(flags & PR_COHORT_KEEP_EXEC))
			return -EINVAL;
		err = cohort_tlb_enable();
		if (err)
			return err;
	}
	if (flags)
		cohort_request();
	if (mmap_write_lock_killable(mm))
		return -EINTR;
	if (flags && !mm->cohort.flags)
		mm->cohort.id = cohort_new_id();
	/* Members of a CCID have one user, and this process may become another now. */
	if ((flags & ~mm->cohort.flags) & PR_COHORT_KEEP_IDS)
		cohort_bf_exit(mm);
	/* It may have become another user, so it begins a cohort of its own. */
	if ((mm->cohort.flags & ~flags) & PR_COHORT_KEEP_IDS)
		mm->cohort.id = cohort_new_id();
	WRITE_ONCE(mm->cohort.flags, flags);
	mmap_write_unlock(mm);
	return 0;
}

long cohort_prctl_get(void)
{
	return READ_ONCE(current->mm->cohort.flags);
}
