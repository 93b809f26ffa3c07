// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: the policy, and what user space sets. Included by ksmd.c.
 */

static void selective_ksmd_starts(void)
{
	ksmd = current;
}

int ksm_selective_nice(void)
{
	return ksmd ? task_nice(ksmd) : KSM_NICE;
}

int ksm_selective_set_nice(int nice)
{
	if (!ksmd || nice < MIN_NICE || nice > MAX_NICE)
		return -EINVAL;
	mutex_lock(&ksm_thread_mutex);
	ksmd_nice_chosen = true;
	set_user_nice(ksmd, nice);
	mutex_unlock(&ksm_thread_mutex);
	return 0;
}

static void switch_locked(bool on)
{
	wait_while_offlining();
	/* Neither policy may find the other's unmerged items. */
	drop_unmerged();
	WRITE_ONCE(ksm_selective_on, on);
	WRITE_ONCE(ksm_learning, false);
	selective_forget_all();
	if (ksmd && !ksmd_nice_chosen)
		set_user_nice(ksmd, on ? KSM_SELECTIVE_NICE : KSM_NICE);
	if (on)
		ksm_selective_look_again();
}

/*
 * The key is not switched under ksm_thread_mutex: memory hotplug takes this mutex
 * inside the locks that switching takes.
 */
void ksm_selective_switch(bool on)
{
	static DEFINE_MUTEX(switch_mutex);

	mutex_lock(&switch_mutex);
	if (on == ksm_selective_on)
		goto out;
	if (on)
		static_branch_enable(&ksm_selective_key);
	mutex_lock(&ksm_thread_mutex);
	switch_locked(on);
	mutex_unlock(&ksm_thread_mutex);
	if (!on)
		static_branch_disable(&ksm_selective_key);
	/* Processes may be dormant, or have exited, already. */
	ksm_selective_poke();
out:
	mutex_unlock(&switch_mutex);
}

int ksm_selective_learn(void)
{
	int err = -EBUSY;

	mutex_lock(&ksm_thread_mutex);
	wait_while_offlining();
	if (ksm_selective()) {
		selective_forget_all();
		WRITE_ONCE(ksm_learning,
			   !list_empty(&ksm_mm_head.slot.mm_node));
		err = 0;
	}
	mutex_unlock(&ksm_thread_mutex);
	ksm_selective_poke();
	return err;
}
