/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: KSM that scans a process when it has become dormant, once,
 * and only where pages are likely to merge. See mm/ksm_selective/.
 */
#ifndef _LINUX_KSM_SELECTIVE_H
#define _LINUX_KSM_SELECTIVE_H

#ifdef CONFIG_KSM_SELECTIVE

#include <linux/jump_label.h>
#include <linux/types.h>

struct mm_struct;
struct seq_file;
struct task_struct;

DECLARE_STATIC_KEY_FALSE(ksm_selective_key);
extern bool ksm_selective_on;

/*
 * True while the policy is in force; without it every hook is a branch not taken.
 * ksm_selective_on is needed beside the key, because the key is switched under
 * cpus_read_lock(), which memory hotplug holds when it takes ksm_thread_mutex.
 */
static inline bool ksm_selective(void)
{
	return static_branch_unlikely(&ksm_selective_key) &&
	       READ_ONCE(ksm_selective_on);
}

void ksm_selective_do_frozen(void);
void ksm_selective_do_oom(struct task_struct *task);
int ksm_selective_set_written(struct task_struct *task, bool dormant);
bool ksm_selective_written(struct mm_struct *mm);
extern const struct file_operations proc_ksm_dormant_operations;
void ksm_selective_do_stat(struct seq_file *m, struct mm_struct *mm);

/* The current task may have entered or left the freezer. */
static inline void ksm_selective_frozen(void)
{
	if (ksm_selective())
		ksm_selective_do_frozen();
}

/* A process's oom_score_adj was written, or its mm was replaced. */
static inline void ksm_selective_oom(struct task_struct *task)
{
	if (ksm_selective())
		ksm_selective_do_oom(task);
}

/* Append lines to /proc/PID/ksm_stat. */
static inline void ksm_selective_stat(struct seq_file *m, struct mm_struct *mm)
{
	if (ksm_selective())
		ksm_selective_do_stat(m, mm);
}

#else

#define ksm_selective(...)		false
#define ksm_selective_frozen(...)	do { } while (0)
#define ksm_selective_oom(...)		do { } while (0)
#define ksm_selective_stat(...)		do { } while (0)

#endif
#endif
