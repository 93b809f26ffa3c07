// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: memory.ksm_dormant, which does for all processes now in a
 * cgroup, or in one below it, what /proc/PID/ksm_dormant does for one.
 */
#include <linux/cgroup.h>
#include <linux/init.h>
#include <linux/kstrtox.h>
#include <linux/memcontrol.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "internal.h"

static void set_group(struct cgroup_subsys_state *css, bool dormant)
{
	struct css_task_iter it;
	struct task_struct *task;

	css_task_iter_start(css, CSS_TASK_ITER_PROCS, &it);
	while ((task = css_task_iter_next(&it)))
		ksm_selective_set_written(task, dormant);
	css_task_iter_end(&it);
}

static ssize_t dormant_write(struct kernfs_open_file *of, char *buf,
			     size_t nbytes, loff_t off)
{
	struct mem_cgroup *root = mem_cgroup_from_css(of_css(of)), *memcg;
	bool dormant;
	int err;

	err = kstrtobool(strstrip(buf), &dormant);
	if (err)
		return err;
	/*
	 * A cgroup below without this controller (a threaded one) counts as part
	 * of the one above. No lock is held for the whole walk: it may miss a
	 * process that is moved, or a cgroup that is made, meanwhile.
	 */
	for (memcg = mem_cgroup_iter(root, NULL, NULL); memcg;
	     memcg = mem_cgroup_iter(root, memcg, NULL)) {
		set_group(&memcg->css, dormant);
		cond_resched();
	}
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
