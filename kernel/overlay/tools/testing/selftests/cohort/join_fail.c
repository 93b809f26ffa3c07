// SPDX-License-Identifier: GPL-2.0-only
/*
 * Failing allocations at a fault that joins or opens a table: each fails in turn. To join
 * is optional, so the fault goes on without, and the process sees what the file holds.
 *
 * Needs fault injection, as the program `fail` does.
 */
#include "join/join.h"
#include "lib/inject.h"

#define ENOUGH	200

/* behind start_prot()'s: another process has the tables */
#define JOIN	0x100

/* Read the file while the n-th allocation fails; was there one? */
static long read_failing(long who, long nth)
{
	bool injected;

	arm(nth);
	read_view(who, 1);
	injected = disarm();
	view_right(who, -1);
	return injected;
}

/* How many tables of its view does a peer share, or offer? It unmaps the view. */
static long tables_of_view(int who, const char *key)
{
	long n = proc_field(pid_of(who), "cohort", key);

	ask(who, unmap_view, who, 0);
	return n - proc_field(pid_of(who), "cohort", key);
}

static void test_fail(long arg)
{
	const bool join = arg & JOIN;
	long nth, injected = 1;

	need_injection();
	start_prot(2, arg & 0xff);
	spawn_all(2);
	if (join)
		map_and_read(1);
	for (nth = 1; injected && nth < ENOUGH; nth++) {
		ask(2, map_view, 2, 0);
		injected = ask(2, read_failing, 2, nth);
		if (injected)
			ask(2, unmap_view, 2, 0);
		if (join)
			ask(1, view_right, 1, -1);
	}
	must(!injected, "the faults do not come to an end");
	must(nth > 2, "no allocation failed");
	if (joining()) {
		long n = tables_of_view(2, join ? "SharedTables" : "OpenTables");

		must(n == TABLES, "it joins or opens %ld tables", n);
	}
	note("%ld allocations failed", nth - 2);
	quit(2);
	map_and_read(SELF);
	if (join)
		ask(1, view_right, 1, -1);
}

static const struct test_case cases[] = {
	{ "Does a fault that cannot open a table of code go on?", test_fail, CODE,
	  .guards = INVARIANT(8) },
	{ "Does a fault that cannot open a table of shared memory go on?", test_fail, SHARED,
	  .guards = INVARIANT(8) },
	{ "Does a fault that cannot join a table of code go on?", test_fail, CODE | JOIN,
	  .guards = INVARIANT(8) },
	{ "Does a fault that cannot join one at another address go on?", test_fail,
	  CODE | APART | JOIN, .guards = INVARIANT(8) },
	{ "Does a fault that cannot join a table of a file on disk go on?", test_fail,
	  READ_ONLY | DISK | JOIN, .guards = INVARIANT(8) },
	{ "Does a fault that cannot join a table of shared memory go on?", test_fail,
	  SHARED | APART | JOIN, .guards = INVARIANT(8) },
};

int main(int argc, char **argv)
{
	int ret;

	save_injection();
	ret = join_main(argc, argv, "user", cases, ARRAY_SIZE(cases));
	restore_injection();
	return ret;
}
