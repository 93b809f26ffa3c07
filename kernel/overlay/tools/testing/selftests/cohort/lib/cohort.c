// SPDX-License-Identifier: GPL-2.0-only
/* The flags of a process, and which tables it shares. */
#include "../common.h"

void need_cohort(void)
{
	if (cohort_mode == MODE_STOCK)
		skip("this kernel has no Cohort");
}

bool all_join(void)
{
	char buf[64];

	return read_text(COHORT_SYSFS "join", buf, sizeof(buf)) > 0 && strstr(buf, "[user]");
}

long get_flags(long unused, long unused2)
{
	int ret = prctl(PR_GET_COHORT, 0, 0, 0, 0);

	return ret < 0 ? -errno : ret;
}

long set_flags(long flags, long unused)
{
	return prctl(PR_SET_COHORT, flags, 0, 0, 0) ? -errno : 0;
}

/*
 * Count the tables of the area that a new child shares: by how many does its
 * number of shared tables fall when it unmaps the area? A second child keeps them
 * shared meanwhile, whatever the zygote itself unshares.
 */
long tables_shared_with(int child, int other)
{
	long before, after;

	spawn(child);
	spawn(other);
	ask(child, nothing, 0, 0);
	ask(other, nothing, 0, 0);
	before = shared_tables(pid_of(child));
	must(before >= 0, "/proc/PID/cohort has no SharedTables");
	ask(child, forget_area, 0, 0);
	after = shared_tables(pid_of(child));
	quit(child);
	quit(other);
	return before - after;
}

void expect_shared(long wanted)
{
	long events = vm_event("cohort_ptp_shared");
	long found;

	if (!sharing_possible())
		return;
	found = tables_shared_with(6, 7);
	must(found == wanted, "%s: %ld tables are shared, not %ld",
	     kind_name(area.kind), found, wanted);
	events = vm_event("cohort_ptp_shared") - events;
	must(events >= 2 * wanted, "cohort_ptp_shared grew by %ld for %ld tables and two children",
	     events, wanted);
}
