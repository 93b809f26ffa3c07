// SPDX-License-Identifier: GPL-2.0-or-later
/* Forks, and the state of the process that measures them. */
#include "pages.h"
#include "process.h"

#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>

void become_zygote(int flags)
{
	if (prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE | flags, 0, 0, 0))
		die("prctl(PR_SET_COHORT): %s (a kernel without Cohort?)", strerror(errno));
}

void lead_tlb_group(char **argv)
{
	if (getenv("COHORT_TLB_LEADER")) {
		if (proc_field(getpid(), "cohort", "TlbGroup") != 1)
			die("this process leads no TLB group: is there another?");
		return;
	}
	become_zygote(PR_COHORT_KEEP_EXEC | PR_COHORT_TLB);
	setenv("COHORT_TLB_LEADER", "1", 1);
	if (personality(personality(0xffffffff) | ADDR_NO_RANDOMIZE) < 0)
		die_errno("personality");
	execv("/proc/self/exe", argv);
	die_errno("exec of /proc/self/exe");
}

void fixed_layout(char **argv)
{
	int old = personality(0xffffffff);

	if (old < 0 || (old & ADDR_NO_RANDOMIZE))
		return;
	if (personality(old | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
	die_errno("exec of /proc/self/exe");
}

void take_processor(void)
{
	struct sched_param sp = { .sched_priority = 1 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu() < 0 ? 0 : sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	if (sched_setscheduler(0, SCHED_FIFO, &sp))
		fprintf(stderr, "no real-time priority: %s\n", strerror(errno));
}

void bare_exit(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

void bare_wait(pid_t pid)
{
	int status;

	while (syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
		if (errno != EINTR)
			die_errno("wait4");
	if (status)
		die("child ended with wait status 0x%x", status);
}
