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
	unsigned long borrowed[NR_MM_COUNTERS] = {};
	struct mm_struct *mm = get_task_mm(task);
	unsigned int shared = 0, owned = 0, upper = 0;
	u8 flags;

	if (!mm)
		return 0;
	flags = READ_ONCE(mm->cohort.flags);
	cohort_borrowed(mm, borrowed);
	cohort_count_tables(mm, &shared, &owned, &upper);
	seq_printf(m, "Cohort:\t%llu\n", mm->cohort.id);
	seq_printf(m, "Zygote:\t%d\n", !!(flags & PR_COHORT_ZYGOTE));
	seq_printf(m, "KeepExec:\t%d\n", !!(flags & PR_COHORT_KEEP_EXEC));
	seq_printf(m, "KeepIds:\t%d\n", !!(flags & PR_COHORT_KEEP_IDS));
	seq_printf(m, "SharedTables:\t%u\n", shared);
	seq_printf(m, "OwnedTables:\t%u\n", owned);
	seq_printf(m, "SharedPmdTables:\t%u\n", upper);
	seq_printf(m, "BorrowedAnon:\t%lu kB\n",
		   borrowed[MM_ANONPAGES] << (PAGE_SHIFT - 10));
	seq_printf(m, "BorrowedFile:\t%lu kB\n",
		   borrowed[MM_FILEPAGES] << (PAGE_SHIFT - 10));
	seq_printf(m, "BorrowedShmem:\t%lu kB\n",
		   borrowed[MM_SHMEMPAGES] << (PAGE_SHIFT - 10));
	seq_printf(m, "BorrowedSwap:\t%lu kB\n",
		   borrowed[MM_SWAPENTS] << (PAGE_SHIFT - 10));
	mmput(mm);
	return 0;
}
