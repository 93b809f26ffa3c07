// SPDX-License-Identifier: GPL-2.0-only
/* The files of KSM. */
#include "../common.h"

long ksm(const char *file)
{
	char path[64], buf[64];

	snprintf(path, sizeof(path), KSM "%s", file);
	must(read_text(path, buf, sizeof(buf)) > 0, "%s cannot be read", path);
	return atol(buf);
}

void ksm_set(const char *file, const char *value)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), KSM "%s", file);
	ret = write_text(path, value);
	must(!ret, "%s to %s: %s", value, path, strerror(-ret));
}

pid_t ksmd_pid(void)
{
	char path[32], comm[32];

	for (int pid = 2; pid < 400; pid++) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (read_text(path, comm, sizeof(comm)) > 0 && !strcmp(comm, "ksmd\n"))
			return pid;
	}
	return 0;
}

void forgotten(void)
{
	for (int i = 0; i < 1000; i++) {
		if (!ksm("pages_unshared") && !ksm("pages_volatile") &&
		    !ksm("pages_shared") && !ksm("pages_sharing"))
			return;
		usleep(10000);
	}
	fail("%ld unshared, %ld volatile, %ld shared, %ld sharing", ksm("pages_unshared"),
	     ksm("pages_volatile"), ksm("pages_shared"), ksm("pages_sharing"));
}
