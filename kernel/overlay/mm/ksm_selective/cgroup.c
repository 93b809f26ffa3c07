// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: memory.ksm_dormant, which says of all processes that are
 * now in a cgroup what /proc/PID/ksm_dormant says of one.
 */
#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/string.h>

#include "internal.h"

static ssize_t dormant_write(struct kernfs_open_file *of, char *buf,
			     size_t nbytes, loff_t off)
{
	struct css_task_iter it;
	struct task_struct *task;
	bool dormant;
	int err;

	err = kstrtobool(strstrip(buf), &dormant);
	if (err)
		return err;
	css_task_iter_start(of_css(of), CSS_TASK_ITER_PROCS, &it);
	while ((task = css_task_iter_next(&it)))
		ksm_selective_set_written(task, dormant);
	css_task_iter_end(&it);
	return nbytes;
}

static struct cftype dormant_files[] = {
	{
		.name = "ksm_dormant",
		.flags = CFTYPE_NOT_ON_ROOT,
		.write = dormant_write,
	},
	{ }
};

static int __init ksm_selective_cgroup_init(void)
{
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, dormant_files);
}
late_initcall(ksm_selective_cgroup_init);
