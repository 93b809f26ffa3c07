// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/ksm_dormant: mark a process as dormant, so that ksmd scans it. See
 * mm/ksm_selective/.
 */
#include <linux/fs.h>
#include <linux/ksm_selective.h>
#include <linux/kstrtox.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>

#include "internal.h"

static ssize_t ksm_dormant_read(struct file *file, char __user *buf,
				size_t count, loff_t *ppos)
{
	struct task_struct *task = get_proc_task(file_inode(file));
	struct mm_struct *mm;
	char text[2] = "0\n";

	if (!task)
		return -ESRCH;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return 0;
	if (ksm_selective_written(mm))
		text[0] = '1';
	mmput(mm);
	return simple_read_from_buffer(buf, count, ppos, text, sizeof(text));
}

static ssize_t ksm_dormant_write(struct file *file, const char __user *buf,
				 size_t count, loff_t *ppos)
{
	struct task_struct *task;
	bool dormant;
	int err;

	err = kstrtobool_from_user(buf, count, &dormant);
	if (err)
		return err;
	task = get_proc_task(file_inode(file));
	if (!task)
		return -ESRCH;
	/* The process's credentials may have changed since the file was opened. */
	err = -EACCES;
	if (ptrace_may_access(task, PTRACE_MODE_READ_FSCREDS))
		err = ksm_selective_set_written(task, dormant);
	put_task_struct(task);
	return err ?: count;
}

const struct file_operations proc_ksm_dormant_operations = {
	.read = ksm_dormant_read,
	.write = ksm_dormant_write,
	.llseek = generic_file_llseek,
};
