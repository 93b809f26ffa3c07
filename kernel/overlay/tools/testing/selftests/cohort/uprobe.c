// SPDX-License-Identifier: GPL-2.0-only
/* Uprobes: only the probed processes have the breakpoint in their text. */
#include "common.h"

static long close_file(long fd, long unused)
{
	return close(fd);
}

/* A breakpoint set before the fork is in the parent's private page of text. */
static void test_uprobe_before(long arg)
{
	unsigned char original;
	int fd;

	need_uprobes();
	must(ask(SELF, probed, 1, 2) == 3, "1 + 2 is not 3");
	original = memory_byte(getpid(), probed);
	fd = count_calls(0, -1);
	sees(memory_byte(getpid(), probed) != original, "the probe is not there");
	become_zygote();
	need_peers(8);
	for (int i = 1; i <= 3; i++)
		spawn(i);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i <= 3; i++)
			must(ask(i, probed, i, round) == i + round,
			     "the probe breaks process %d", i);
	must(hits(fd) == 2, "%ld hits, not 2", hits(fd));
	spawn_from(2, 4);
	/* the children inherit the file, not the count */
	for (int i = 0; i <= 4; i++)
		must(!ask(i, close_file, fd, 0), "close: %s", strerror(errno));
	for (int i = 0; i <= 4; i++) {
		must(ask(i, probed, i, 1) == i + 1, "the probe breaks process %d", i);
		sees(memory_byte(pid_of(i), probed) == original,
		     "the probe stays in process %d", i);
	}
}

/* A probe of all processes counts each call once, and forks inherit it. */
static void test_uprobe_all(long arg)
{
	int cpus = sysconf(_SC_NPROCESSORS_CONF), fd[64];
	unsigned char original;
	long n = 0;

	need_uprobes();
	original = memory_byte(getpid(), probed);
	become_zygote();
	need_peers(8);
	for (int i = 1; i <= 2; i++)
		spawn(i);
	for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
		fd[cpu] = count_calls(-1, cpu);
	/* forked with the breakpoint in its text */
	spawn(3);
	spawn_from(1, 4);
	for (int i = 0; i <= 4; i++) {
		sees(memory_byte(pid_of(i), probed) != original,
		     "the probe is not in process %d", i);
		for (int round = 0; round < 3; round++)
			must(ask(i, probed, i, round) == i + round,
			     "the probe breaks process %d", i);
	}
	for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
		n += hits(fd[cpu]);
	must(n == 15, "%ld hits, not 15", n);
	quit(3);
	for (int cpu = 0; cpu < cpus && cpu < 64; cpu++)
		close(fd[cpu]);
	for (int i = 0; i <= 4; i++) {
		if (i == 3)
			continue;
		sees(memory_byte(pid_of(i), probed) == original,
		     "the probe stays in process %d", i);
		must(ask(i, probed, i, 1) == i + 1, "the probe breaks process %d", i);
	}
}

/* A probe of one child. */
static void test_uprobe(long arg)
{
	unsigned char original;
	int fd;

	need_uprobes();
	must(ask(SELF, probed, 1, 2) == 3, "1 + 2 is not 3");
	original = memory_byte(getpid(), probed);
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	fd = count_calls(pid_of(2), -1);
	sees(memory_byte(pid_of(2), probed) != original, "the probe is not there");
	for (int i = 0; i <= 3; i++) {
		if (i != 2)
			sees(memory_byte(pid_of(i), probed) == original,
			     "a probe of process 2 is in process %d", i);
		for (int j = 0; j < 3; j++)
			must(ask(i, probed, i, j) == i + j, "the probe broke the function");
	}
	must(hits(fd) == 3, "%ld calls are counted, not 3", hits(fd));
	close(fd);
	for (int i = 0; i <= 3; i++) {
		sees(memory_byte(pid_of(i), probed) == original, "the probe stays in process %d",
		     i);
		must(ask(i, probed, 1, i) == 1 + i, "the probe broke the function");
	}
}

static const struct test_case cases[] = {
	{ "Whose calls does a probe from before the fork count?", test_uprobe_before,
	  .guards = INVARIANT(6) },
	{ "Does a probe of all processes count every call once?", test_uprobe_all,
	  .guards = INVARIANT(6) },
	{ "Is a uprobe of one child in no other process?", test_uprobe, .guards = INVARIANT(6) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
