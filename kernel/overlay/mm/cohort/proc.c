// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared page tables: /proc/PID/cohort.
 */
#include <linux/mm.h>
#include <linux/prctl.h>
#include <linux/proc_fs.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>

#include "internal.h"

/**
 * proc_pid_cohort() - show what a process shares
 * @m: where to
 * @ns: unused
 * @pid: unused
 * @task: the process
 *
 * Return: 0, also for a kernel thread, which shows nothing.
 */
int proc_pid_cohort(struct seq_file *m, struct pid_namespace *ns,
		    struct pid *pid, struct task_struct *task)
{
	struct mm_struct *mm = get_task_mm(task);
	struct cohort_look l;
	u8 flags;

	if (!mm)
		return 0;
	flags = READ_ONCE(mm->cohort.flags);
	cohort_count_tables(mm, &l);
	seq_printf(m, "Cohort:\t%llu\n", mm->cohort.id);
	seq_printf(m, "Zygote:\t%d\n", !!(flags & PR_COHORT_ZYGOTE));
	seq_printf(m, "KeepExec:\t%d\n", !!(flags & PR_COHORT_KEEP_EXEC));
	seq_printf(m, "KeepIds:\t%d\n", !!(flags & PR_COHORT_KEEP_IDS));
	cohort_group_show(m, mm);
	cohort_bf_show(m, mm);
	if (IS_ENABLED(CONFIG_COHORT_TLB))
		seq_printf(m, "TlbGroup:\t%d\n", cohort_tlb_held(mm));
	seq_printf(m, "SharedTables:\t%u\n", l.shared);
	seq_printf(m, "OwnedTables:\t%u\n", l.owned);
	if (IS_ENABLED(CONFIG_COHORT_GROUPS))
		seq_printf(m, "OpenTables:\t%u\n", l.open);
	seq_printf(m, "SharedPmdTables:\t%u\n", l.upper);
	seq_printf(m, "BorrowedAnon:\t%lu kB\n",
		   l.borrowed[MM_ANONPAGES] << (PAGE_SHIFT - 10));
	seq_printf(m, "BorrowedFile:\t%lu kB\n",
		   l.borrowed[MM_FILEPAGES] << (PAGE_SHIFT - 10));
	seq_printf(m, "BorrowedShmem:\t%lu kB\n",
		   l.borrowed[MM_SHMEMPAGES] << (PAGE_SHIFT - 10));
	seq_printf(m, "BorrowedSwap:\t%lu kB\n",
		   l.borrowed[MM_SWAPENTS] << (PAGE_SHIFT - 10));
	mmput(mm);
	return 0;
}
