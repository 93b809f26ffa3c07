// SPDX-License-Identifier: GPL-2.0-only
/* Two cgroups below that of the case, whose labels name groups. */
#include "join.h"
#include "label.h"

char groups[2][160];

void label(const char *dir, const char *text)
{
	char path[192];
	int ret;

	snprintf(path, sizeof(path), "%s/memory.cohort", dir);
	ret = write_text(path, text);
	if (ret == -ENOENT)
		skip("no memory.cohort");
	must(!ret, "'%s' to %s: %s", text, path, strerror(-ret));
}

void need_groups(void)
{
	need_cohort();
	if (geteuid())
		skip("not root");
	make_group();
	group_put("cgroup.subtree_control", "+memory");
	for (int i = 0; i < 2; i++) {
		snprintf(groups[i], sizeof(groups[i]), "%s/%d", group, i);
		must_call(mkdir(groups[i], 0755));
	}
}

void drop_groups(void)
{
	for (int i = 0; i < 2; i++)
		for (int n = 0; rmdir(groups[i]) && n < 500; n++)
			usleep(10000);
	remove_group();
}

long enter(long i, long unused)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/cgroup.procs", groups[i]);
	return write_text(path, "0");
}
