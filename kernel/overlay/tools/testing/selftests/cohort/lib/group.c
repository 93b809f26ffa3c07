// SPDX-License-Identifier: GPL-2.0-only
/* A memory cgroup for one case. */
#include "../common.h"

#include <sys/stat.h>

#define ROOT	"/sys/fs/cgroup/"

char group[128];

void make_group(void)
{
	char path[192];

	snprintf(group, sizeof(group), ROOT "cohort-case-%d", getpid());
	write_text(ROOT "cgroup.subtree_control", "+memory");
	if (access(ROOT "cgroup.procs", F_OK) || mkdir(group, 0755))
		skip("no cgroup v2 to make a group in");
	snprintf(path, sizeof(path), "%s/memory.max", group);
	if (access(path, F_OK)) {
		rmdir(group);
		skip("no memory cgroups");
	}
}

bool remove_group(void)
{
	for (int i = 0; i < 1000; i++) {
		if (!rmdir(group))
			return true;
		usleep(10000);
	}
	return false;
}

void group_put(const char *file, const char *text)
{
	char path[192];
	int ret;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	ret = write_text(path, text);
	must(!ret, "%s to %s: %s", text, path, strerror(-ret));
}

long cgroup_number(const char *dir, const char *file, const char *key)
{
	char path[192], text[8192], *line = text;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	must(read_text(path, text, sizeof(text)) > 0, "cannot read %s", path);
	if (!key)
		return strtol(text, NULL, 10);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ')
			return strtol(line + strlen(key), NULL, 10);
	fail("no %s in %s", key, path);
	return -1;
}

long group_number(const char *file, const char *key)
{
	return cgroup_number(group, file, key);
}
