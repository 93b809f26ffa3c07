// SPDX-License-Identifier: GPL-2.0-or-later
/* From fork to the first code of an application (Figures 7 and 9). */
#include "../lib/mark.h"
#include "watch.h"

#include <sys/wait.h>

/* Sent by the child when its start-up is done; the parent then reads counters. */
struct launched {
	uint64_t start, end;
};

static void launch_round(int i)
{
	struct launched done;
	struct counters *d = &s->round[i].in_launch;
	int to_parent[2], to_child[2];
	long shared, pte_kb;
	char byte = 0;
	uint64_t start;
	pid_t pid;

	if (pipe(to_parent) || pipe(to_child))
		die_errno("pipe");
	counters_read(&s->reader, &s->before);
	start = ticks();
	pid = bare_fork();
	if (!pid) {
		mark(MARK_BEGIN, i);
		done.start = ticks();
		application_run(HELLO);
		done.end = ticks();
		mark(MARK_END, i);
		if (write(to_parent[1], &done, sizeof(done)) != sizeof(done) ||
		    read(to_child[0], &byte, 1) != 1)
			bare_exit(1);
		bare_exit(0);
	}
	if (pid < 0)
		die_errno("fork");
	close(to_parent[1]);
	if (read(to_parent[0], &done, sizeof(done)) != sizeof(done))
		die("the child did not start up");
	counters_read(&s->reader, &s->after);
	shared = proc_field(pid, "cohort", "SharedTables");
	pte_kb = proc_field(pid, "status", "VmPTE");
	if (write(to_child[1], &byte, 1) != 1)
		die_errno("pipe");
	{
		struct rusage_faults { struct timeval u, t; long v[14]; } ru;
		int status;

		if (syscall(SYS_wait4, pid, &status, 0, &ru) != pid || status)
			die("the child ended with wait status 0x%x", status);
		s->round[i].faults = ru.v[4];
	}
	close(to_parent[0]);
	close(to_child[0]);
	close(to_child[1]);

	s->round[i].launch = done.end - done.start;
	s->round[i].fork_launch = done.end - start;
	s->round[i].shared = shared > 0 ? shared : 0;
	s->round[i].tables = pte_kb / 4;
	*d = s->after;
	counters_sub(d, &s->before);
}

/* How many libraries a start-up runs code of; the paper's applications 21 to 46. */
static void print_invoked(void)
{
	struct regions *rs = &s->regions;
	size_t used = 0, pages = 0;
	int libraries = 0;

	watch_code();
	application_uses(HELLO, s->finds);
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];
		size_t before = used;

		if (pages == watch->pages || watch->page[pages] != r->start)
			continue;
		for (; pages < watch->pages && watch->page[pages] < r->end; pages++)
			used += s->finds[pages];
		libraries += used > before;
	}
	metric("launch-libraries-used", libraries, "libraries");
	metric("launch-code-used", used, "PTEs");
}

void run_launch(void)
{
	print_invoked();
	if (opt.zygote)
		become_zygote(0);
	/*
	 * A zygote has run most of what its children start with: what is
	 * initialized once is done here, what is done each time is done again.
	 */
	application_run(HELLO);
	for (int i = -1; i < opt.rounds; i++)
		launch_round(i < 0 ? 0 : i);
	for (int i = 0; i < opt.rounds; i++) {
		metric("launch-instructions", s->round[i].launch, "instructions");
		metric("fork-launch-instructions", s->round[i].fork_launch, "instructions");
		metric("launch-faults", s->round[i].faults, "faults");
		metric("launch-tables", s->round[i].tables, "PTPs");
		if (s->reader.present)
			metric("launch-shared-tables", s->round[i].shared, "PTPs");
		counters_print(&s->reader, &s->round[i].in_launch, "launch", "");
	}
}
