// SPDX-License-Identifier: GPL-2.0-only
/*
 * Selective merging: forks, exec, exit and unmerging of a process in each state.
 */
#include "ksm_selective/selective.h"

static long exec_mergeable(long unused, long unused2)
{
	/* PR_SET_MEMORY_MERGE makes KSM know the new program */
	prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0);
	return exec_sleep(0, 0);
}

enum reason { WRITTEN, FROZEN, OOM };
enum state { ACTIVE, WAITING, SCANNING, SCANNED };
enum event { FORK, EXEC, EXIT, KILL, UNMERGE };

#define REASON_CASE(reason, state, event) \
	((reason) << 16 | (state) << 8 | (event))
#define STATE_CASE(state, event)	REASON_CASE(WRITTEN, state, event)

static const char * const reason_keys[] = {
	"ksm_dormant_written", "ksm_dormant_frozen", "ksm_dormant_oom",
};

static void go_dormant(int who, enum reason reason)
{
	switch (reason) {
	case WRITTEN:
		dormant(who, true);
		break;
	case FROZEN:
		set_frozen(who, true);
		break;
	case OOM:
		set_oom(who, "900");
	}
	/* a process is frozen when all its threads have stopped */
	for (int i = 0; i < 500 && !of(who, reason_keys[reason]); i++)
		usleep(2000);
	must(of(who, reason_keys[reason]) == 1, "not dormant");
}

/* Let ksmd scan fast from here on. */
static void at_once(void)
{
	ksm_set("pages_to_scan", "10000");
	ksm_set("sleep_millisecs", "1");
	ksm_set("run", "1");
}

/* Bring peer 1 into a state, with ksmd scanning slowly. */
static void bring_into(enum state state, enum reason reason)
{
	start("all");
	ksm_set("dormant_oom_score_adj", "800");
	ksm_set("pages_to_scan", "16");
	ksm_set("sleep_millisecs", "100");
	switch (state) {
	case ACTIVE:
		return;
	case WAITING:
		ksm_set("run", "0");
		go_dormant(1, reason);
		return;
	case SCANNING:
		go_dormant(1, reason);
		for (int i = 0; i < 1000 && of(1, "ksm_pages_scanned") < 32; i++)
			usleep(2000);
		must(of(1, "ksm_pages_scanned") >= 32 && !of(1, "ksm_scans"),
		     "not in the middle of its scan");
		return;
	case SCANNED:
		at_once();
		go_dormant(1, reason);
		wait_scans(1, 1);
	}
}

/* A child and an executed program begin as active. */
static void test_states(long arg)
{
	enum reason reason = arg >> 16;
	enum state state = arg >> 8 & 0xff;
	enum event event = arg & 0xff;
	const char *key = reason_keys[reason];
	const long pages = 1024;
	bool stays;

	setup(2, pages);
	bring_into(state, reason);
	switch (event) {
	case FORK:
		spawn_from(1, 3);
		must(of(1, key) == (state != ACTIVE), "the parent has changed");
		must(!of(3, key), "a child is born dormant");
		must(!of(3, "ksm_scanned"), "a child is born scanned");
		ask(3, fill, RANGE(0, pages), 1000);
		at_once();
		dormant(1, true);
		wait_scans(1, 1);
		must(!of(3, "ksm_scans"), "an active child was scanned");
		dormant(3, true);
		wait_scans(3, 1);
		must(of(3, "ksm_merging_pages") == pages, "%ld merged",
		     of(3, "ksm_merging_pages"));
		ask(3, intact, RANGE(0, pages), 1000);
		ask(1, intact, RANGE(0, pages), 1000);
		break;
	case EXEC:
		tell(1, exec_mergeable, 0, 0);
		wait_exec(1);
		/* oom_score_adj is kept over exec */
		stays = reason == OOM && state != ACTIVE;
		for (int i = 0; stays && i < 500 && !of(1, key); i++)
			usleep(2000);
		must(of(1, key) == stays, "exec left it %s", stays ? "active" : "dormant");
		must(stays || !of(1, "ksm_scans"), "scanned while active");
		at_once();
		if (!stays)
			dormant(1, true);
		wait_scans(1, 1);
		kill(pid_of(1), SIGKILL);
		for (int i = 0; i < 500 && !is_gone(pid_of(1)); i++)
			usleep(10000);
		forgotten();
		break;
	case EXIT:
	case KILL:
		if (event == EXIT)
			quit(1);
		else
			kill_peer(1);
		at_once();
		forgotten();
		break;
	case UNMERGE:
		ksm_set("run", "2");
		must(!of(1, "ksm_merging_pages"), "merged");
		must(!ksm("pages_unshared"), "%ld are indexed", ksm("pages_unshared"));
		if (reason != FROZEN)
			ask(1, intact, RANGE(0, pages), 1000);
		at_once();
		if (state == ACTIVE) {
			leave_time();
			must(!of(1, "ksm_scans"), "an active process was scanned");
		} else {
			wait_scans(1, state == SCANNED ? 2 : 1);
		}
		if (reason == FROZEN) {
			set_frozen(1, false);
			ask(1, intact, RANGE(0, pages), 1000);
			quit(1);
		}
		break;
	}
	at_once();
	dormant(2, true);
	wait_scans(2, 1);
	ask(2, intact, RANGE(0, pages), 1000);
}

static const struct test_case cases[] = {
	{ "Is the child of an active process active?", test_states,
	  STATE_CASE(ACTIVE, FORK), .guards = KSM_SELECTIVE },
	{ "Is the child of a waiting process active?", test_states,
	  STATE_CASE(WAITING, FORK), .guards = KSM_SELECTIVE },
	{ "Is the child of a half-scanned process active?", test_states,
	  STATE_CASE(SCANNING, FORK), .guards = KSM_SELECTIVE },
	{ "Is the child of a scanned process active?", test_states,
	  STATE_CASE(SCANNED, FORK), .guards = KSM_SELECTIVE },
	{ "Is a program active that an active process executes?", test_states,
	  STATE_CASE(ACTIVE, EXEC), .guards = KSM_SELECTIVE },
	{ "Is a program active that a waiting process executes?", test_states,
	  STATE_CASE(WAITING, EXEC), .guards = KSM_SELECTIVE },
	{ "Is a program active that a half-scanned process executes?", test_states,
	  STATE_CASE(SCANNING, EXEC), .guards = KSM_SELECTIVE },
	{ "Is a program active that a scanned process executes?", test_states,
	  STATE_CASE(SCANNED, EXEC), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that exits while active?", test_states,
	  STATE_CASE(ACTIVE, EXIT), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that exits while waiting?", test_states,
	  STATE_CASE(WAITING, EXIT), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that exits while being scanned?", test_states,
	  STATE_CASE(SCANNING, EXIT), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that exits while scanned?", test_states,
	  STATE_CASE(SCANNED, EXIT), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while active?", test_states,
	  STATE_CASE(ACTIVE, KILL), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while waiting?", test_states,
	  STATE_CASE(WAITING, KILL), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while being scanned?", test_states,
	  STATE_CASE(SCANNING, KILL), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while scanned?", test_states,
	  STATE_CASE(SCANNED, KILL), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while active?", test_states,
	  STATE_CASE(ACTIVE, UNMERGE), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while waiting?", test_states,
	  STATE_CASE(WAITING, UNMERGE), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while being scanned?", test_states,
	  STATE_CASE(SCANNING, UNMERGE), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while scanned?", test_states,
	  STATE_CASE(SCANNED, UNMERGE), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while frozen and waiting?",
	  test_states, REASON_CASE(FROZEN, WAITING, KILL), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while frozen and being scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNING, KILL), .guards = KSM_SELECTIVE },
	{ "Is nothing left of a process that is killed while frozen and scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNED, KILL), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while frozen and waiting?",
	  test_states, REASON_CASE(FROZEN, WAITING, UNMERGE), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while frozen and being scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNING, UNMERGE), .guards = KSM_SELECTIVE },
	{ "Is a process unmerged, and scanned again, while frozen and scanned?",
	  test_states, REASON_CASE(FROZEN, SCANNED, UNMERGE), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is the child of a waiting process active?",
	  test_states, REASON_CASE(OOM, WAITING, FORK), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is the child of a half-scanned process active?",
	  test_states, REASON_CASE(OOM, SCANNING, FORK), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is the child of a scanned process active?",
	  test_states, REASON_CASE(OOM, SCANNED, FORK), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is a program dormant that a waiting process executes?",
	  test_states, REASON_CASE(OOM, WAITING, EXEC), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is a program dormant that a half-scanned process executes?",
	  test_states, REASON_CASE(OOM, SCANNING, EXEC), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is a program dormant that a scanned process executes?",
	  test_states, REASON_CASE(OOM, SCANNED, EXEC), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is nothing left of a process that exits while waiting?",
	  test_states, REASON_CASE(OOM, WAITING, EXIT), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is nothing left of a process that exits while being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, EXIT), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is nothing left of a process that exits while scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, EXIT), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is nothing left of a process that is killed while waiting?",
	  test_states, REASON_CASE(OOM, WAITING, KILL), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is nothing left of a process that is killed while being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, KILL), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is nothing left of a process that is killed while scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, KILL), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is a process unmerged, and scanned again, while waiting?",
	  test_states, REASON_CASE(OOM, WAITING, UNMERGE), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is a process unmerged, and scanned again, while being scanned?",
	  test_states, REASON_CASE(OOM, SCANNING, UNMERGE), .guards = KSM_SELECTIVE },
	{ "By oom_score_adj: is a process unmerged, and scanned again, while scanned?",
	  test_states, REASON_CASE(OOM, SCANNED, UNMERGE), .guards = KSM_SELECTIVE },
};

int main(int argc, char **argv)
{
	after_each_case = all_off;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
