// SPDX-License-Identifier: GPL-2.0-only
/* The prctl and /proc/PID/cohort: over fork, exec and namespaces. */
#include "common.h"

#include <sched.h>
#include <spawn.h>
#include <time.h>

static void test_prctl_stock(long arg)
{
	if (cohort_mode != MODE_STOCK)
		skip("this kernel has Cohort");
	must(set_flags(PR_COHORT_ZYGOTE, 0) == -EINVAL, "PR_SET_COHORT without Cohort");
	must(get_flags(0, 0) == -EINVAL, "PR_GET_COHORT without Cohort");
}

static void test_prctl_flags(long arg)
{
	static const unsigned long good[] = {
		PR_COHORT_ZYGOTE, PR_COHORT_ZYGOTE | PR_COHORT_KEEP_EXEC, 0, PR_COHORT_ZYGOTE, 0,
	};

	need_cohort();
	must(get_flags(0, 0) == 0, "a plain process has flags %ld", get_flags(0, 0));
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		must(!set_flags(good[i], 0), "PR_SET_COHORT %lu: %s", good[i], strerror(errno));
		must(get_flags(0, 0) == (long)good[i], "set %lu, got %ld", good[i],
		     get_flags(0, 0));
	}
}

static void test_prctl_bad(long arg)
{
	static const unsigned long bad[] = { 2, 4, 6, 9, 15, 16, ~0UL, 1UL << 31 };

	need_cohort();
	must(!set_flags(PR_COHORT_ZYGOTE, 0), "PR_SET_COHORT: %s", strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		must(set_flags(bad[i], 0) == -EINVAL, "flags %lx are taken", bad[i]);
	if (sizeof(long) == 8)
		must(set_flags((long)(1ULL << 32 | 1), 0) == -EINVAL, "the upper half is ignored");
	for (int i = 0; i < 3; i++) {
		must(prctl(PR_SET_COHORT, 1, i == 0, i == 1, i == 2) == -1 && errno == EINVAL,
		     "PR_SET_COHORT takes argument %d", i + 3);
		must(prctl(PR_GET_COHORT, 0, i == 0, i == 1, i == 2) == -1 && errno == EINVAL,
		     "PR_GET_COHORT takes argument %d", i + 3);
	}
	must(prctl(PR_GET_COHORT, 1, 0, 0, 0) == -1 && errno == EINVAL,
	     "PR_GET_COHORT takes argument 2");
	must(get_flags(0, 0) == PR_COHORT_ZYGOTE, "a refused call changed the flags to %ld",
	     get_flags(0, 0));
}

static void test_prctl_inherit(long arg)
{
	need_cohort();
	for (long flags = 0; flags <= 3; flags += 1 + (flags == 1)) {
		must(!set_flags(flags, 0), "PR_SET_COHORT: %s", strerror(errno));
		spawn(1);
		spawn_from(1, 2);
		must(ask(1, get_flags, 0, 0) == flags, "the child has other flags than %ld", flags);
		must(ask(2, get_flags, 0, 0) == flags, "the grandchild has other flags than %ld",
		     flags);
		/* a child's change stays with the child */
		must(!ask(1, set_flags, flags ? 0 : 1, 0), "a child cannot set flags");
		must(get_flags(0, 0) == flags, "the child's flags came to the parent");
		must(ask(2, get_flags, 0, 0) == flags, "the child's flags came to its child");
		quit(2);
		quit(1);
	}
}

/* With this argument the program exits with 64 plus its flags. */
#define REPORT_FLAGS	"--report-flags"

static void test_prctl_exec(long arg)
{
	static char self[256];
	static char *const argv[] = { self, REPORT_FLAGS, NULL };
	static char *const envp[] = { NULL };
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	need_cohort();
	must(n > 0, "readlink: %s", strerror(errno));
	for (long flags = 0; flags <= 3; flags += 1 + (flags == 1)) {
		long expected = flags & PR_COHORT_KEEP_EXEC ? flags : 0;
		int status, ways;
		pid_t pid;

		must(!set_flags(flags, 0), "PR_SET_COHORT: %s", strerror(errno));
		for (ways = 0; ways < 2; ways++) {
			if (ways) {
				must(!posix_spawn(&pid, self, NULL, NULL, argv, envp),
				     "posix_spawn fails");
			} else {
				pid = fork();
				must(pid >= 0, "fork: %s", strerror(errno));
				if (!pid) {
					execve(self, argv, envp);
					_exit(127);
				}
			}
			must(waitpid(pid, &status, 0) == pid && WIFEXITED(status),
			     "exec: status %x", status);
			must(WEXITSTATUS(status) - 64 == expected,
			     "flags %ld are %d after %s, not %ld", flags,
			     WEXITSTATUS(status) - 64, ways ? "posix_spawn" : "exec", expected);
		}
		must(get_flags(0, 0) == flags, "a child's exec changed the parent's flags");
	}
}

/* With this argument the program exits with the number of tables it shares. */
#define REPORT_TABLES	"--report-tables"

static void test_exec_leaves(long arg)
{
	static char self[256];
	static char *const argv[] = { self, REPORT_TABLES, NULL };
	static char *const envp[] = { NULL };
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	need_cohort();
	must(n > 0, "readlink: %s", strerror(errno));
	for (long flags = 1; flags <= 3; flags += 2) {
		int status;
		pid_t pid;

		must(!set_flags(flags, 0), "PR_SET_COHORT: %s", strerror(errno));
		pid = fork();
		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid) {
			execve(self, argv, envp);
			_exit(127);
		}
		must(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "exec: status %x",
		     status);
		must(!WEXITSTATUS(status), "another program shares %d tables", WEXITSTATUS(status));
	}
}

static int report_flags(void)
{
	return 64 + get_flags(0, 0);
}

/* --- /proc/PID/cohort and the counters ------------------------------------ */

static const char * const keys[] = {
	"Cohort", "Zygote", "KeepExec", "KeepIds", "SharedTables", "OwnedTables",
	"SharedPmdTables",
	"BorrowedAnon", "BorrowedFile", "BorrowedShmem", "BorrowedSwap",
};

static void check_format(pid_t pid)
{
	char path[64], buf[1024], *line, *save;
	size_t i = 0;

	snprintf(path, sizeof(path), "/proc/%d/cohort", pid);
	must(read_text(path, buf, sizeof(buf)) > 0, "%s cannot be read", path);
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save), i++) {
		size_t len = i < ARRAY_SIZE(keys) ? strlen(keys[i]) : 0;
		char *value, *end;

		/* options of their own have these: see join_group.c and babelfish.c */
		if (!strncmp(line, "Group", 5) || !strncmp(line, "OpenTables:", 11) ||
		    !strncmp(line, "Ccid:", 5) || !strncmp(line, "Tlb", 3)) {
			i--;
			continue;
		}
		must(len && !strncmp(line, keys[i], len) && line[len] == ':' &&
		     line[len + 1] == '\t', "%s: line %zu is '%s'", path, i + 1, line);
		value = line + len + 2;
		strtoul(value, &end, 10);
		while (*value == ' ')
			value++;
		must(*value >= '0' && *value <= '9' && (!*end || !strcmp(end, " kB")),
		     "%s: '%s' is no number", path, line);
	}
	must(i == ARRAY_SIZE(keys), "%s has %zu lines, not %zu", path, i, ARRAY_SIZE(keys));
}

static void test_proc_format(long arg)
{
	if (cohort_mode == MODE_STOCK) {
		must(access("/proc/self/cohort", F_OK), "/proc/self/cohort without Cohort");
		return;
	}
	check_format(getpid());
	check_format(1);
	area_make(&area, MIXED);
	become_zygote();
	spawn(1);
	check_format(getpid());
	check_format(pid_of(1));
	must(proc_field(0, "cohort", "Zygote") == 1, "a zygote is not shown as one");
	must(proc_field(0, "cohort", "KeepExec") == 0, "KeepExec is shown as set");
	must(!set_flags(3, 0), "PR_SET_COHORT: %s", strerror(errno));
	must(proc_field(0, "cohort", "KeepExec") == 1, "KeepExec is not shown");
	must(proc_field(pid_of(1), "cohort", "KeepExec") == 0, "KeepExec is shown for the child");
	must(!set_flags(0, 0), "PR_SET_COHORT: %s", strerror(errno));
	must(proc_field(0, "cohort", "Zygote") == 0, "Zygote is still shown");
}

static void test_proc_dead(long arg)
{
	char buf[1024], path[64];
	pid_t pid;

	need_cohort();
	/* a kernel thread and a zombie have no memory: no crash, nothing shared */
	must(proc_field(2, "cohort", "SharedTables") <= 0, "a kernel thread shares tables");
	become_zygote();
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid)
		_exit(0);
	while (!is_gone(pid))
		usleep(1000);
	snprintf(path, sizeof(path), "/proc/%d/cohort", pid);
	read_text(path, buf, sizeof(buf));
	must(proc_field(pid, "cohort", "SharedTables") <= 0, "a zombie shares tables");
}

static void test_proc_values(long arg)
{
	long id, parts, shared[3], owned[3];

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	area_make(&area, MIXED);
	become_zygote();
	spawn(1);
	spawn(2);
	for (int i = 1; i <= 2; i++)
		ask(i, nothing, 0, 0);
	id = proc_field(0, "cohort", "Cohort");
	must(id > 0, "a zygote with children has no cohort");
	for (int i = 0; i <= 2; i++) {
		must(proc_field(pid_of(i), "cohort", "Cohort") == id,
		     "process %d is not in the zygote's cohort", i);
		shared[i] = shared_tables(pid_of(i));
		owned[i] = proc_field(pid_of(i), "cohort", "OwnedTables");
		must(shared[i] >= 1, "process %d shares %ld tables", i, shared[i]);
		must(owned[i] >= 0 && owned[i] <= shared[i], "process %d owns %ld of %ld tables",
		     i, owned[i], shared[i]);
	}
	/* the area's table has one owner, so the others borrow what is in it */
	parts = proc_field(pid_of(1), "cohort", "BorrowedAnon") +
		proc_field(pid_of(2), "cohort", "BorrowedAnon") +
		proc_field(0, "cohort", "BorrowedAnon");
	must(parts > 0, "nobody borrows anonymous memory");
	ask(1, forget_area, 0, 0);
	must(shared_tables(pid_of(1)) == shared[1] - 1, "a table less: %ld of %ld",
	     shared_tables(pid_of(1)), shared[1]);
	quit(1);
	quit(2);
	/* in mode always we still share with our parent */
	for (int i = 3; i < (int)ARRAY_SIZE(keys) && cohort_mode == MODE_OPTIN; i++)
		must(!proc_field(0, "cohort", keys[i]), "alone, but %s is %ld", keys[i],
		     proc_field(0, "cohort", keys[i]));
}

static long become_zygote_and_fork(long a, long b)
{
	become_zygote();
	spawn(a);
	return 0;
}

#define CLOCK_AHEAD	1000000	/* seconds */

/* Seconds by which the vDSO's clock is ahead of the zygote's at the case's begin. */
static long clock_ahead(long a, long b)
{
	struct timespec vdso, kernel;

	must_call(clock_gettime(CLOCK_MONOTONIC, &vdso));
	must_call(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &kernel));
	must(labs((long)(vdso.tv_sec - kernel.tv_sec)) < 100,
	     "the vDSO says %ld s, the kernel %ld s", (long)vdso.tv_sec, (long)kernel.tv_sec);
	return vdso.tv_sec - board->word[0];
}

static long make_time_namespace(long a, long b)
{
	char offset[64];

	if (unshare(CLONE_NEWTIME))
		return -errno;
	snprintf(offset, sizeof(offset), "monotonic %d 0", CLOCK_AHEAD);
	return write_text("/proc/self/timens_offsets", offset);
}

static long join_time_namespace(long pid, long b)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/ns/time", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	if (setns(fd, CLONE_NEWTIME))
		return -errno;
	return close(fd);
}

static void expect_clock(int who, bool ahead)
{
	long by = ask(who, clock_ahead, 0, 0);

	must(ahead == (by >= CLOCK_AHEAD) && by < CLOCK_AHEAD + 1000 && by >= 0,
	     "the clock of process %d is %ld s ahead", who, by);
}

/* [vvar] is in a shared table with libraries, and differs between time namespaces. */
static void test_time_namespace(long keep_ids)
{
	long err, unshared;

	become_zygote();
	/* then the fork unshares the table with [vvar] alone */
	if (keep_ids && prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE | PR_COHORT_KEEP_IDS, 0, 0, 0))
		skip("no PR_SET_COHORT");
	board->word[0] = 0;
	board->word[0] = clock_ahead(0, 0);
	spawn(1);
	spawn(3);
	for (int i = 1; i <= 3; i += 2)
		expect_clock(i, false);
	err = ask(1, make_time_namespace, 0, 0);
	if (err == -EINVAL)
		skip("this kernel has no time namespaces");
	must(!err, "no time namespace: %s", strerror(-err));
	expect_clock(1, false);

	/* the child enters the new namespace */
	unshared = vm_event("cohort_ptp_unshared_change");
	spawn_from(1, 2);
	expect_clock(2, true);
	must(!sharing_possible() || vm_event("cohort_ptp_unshared_change") > unshared,
	     "the table with [vvar] was not shared before");
	for (int i = 0; i <= 3; i++)
		expect_clock(i, i == 2);

	/* a process that joins the namespace */
	err = ask(3, join_time_namespace, pid_of(2), 0);
	must(!err, "setns: %s", strerror(-err));
	for (int i = 0; i <= 3; i++)
		expect_clock(i, i >= 2);
	spawn_from(3, 4);
	expect_clock(4, true);
}

static void test_two_cohorts(long arg)
{
	long one, two;

	if (cohort_mode != MODE_OPTIN)
		skip("only in the mode optin");
	/* neither is forked by a zygote, so they share nothing */
	need_peers(8);
	spawn(1);
	spawn(2);
	ask(1, become_zygote_and_fork, 3, 0);
	ask(2, become_zygote_and_fork, 4, 0);
	one = proc_field(pid_of(3), "cohort", "Cohort");
	two = proc_field(pid_of(4), "cohort", "Cohort");
	must(one > 0 && two > 0 && one != two, "two zygotes, cohorts %ld and %ld", one, two);
	must(proc_field(pid_of(1), "cohort", "Cohort") == one, "the first zygote is elsewhere");
}

static const struct test_case cases[] = {
	{ "A kernel without Cohort refuses the prctl", test_prctl_stock, .guards = INTERFACE },
	{ "PR_GET_COHORT returns what PR_SET_COHORT set", test_prctl_flags, .guards = INTERFACE },
	{ "Unknown flags and arguments give EINVAL and change nothing", test_prctl_bad,
	  .guards = INTERFACE },
	{ "Fork hands the flags on, and each process has its own", test_prctl_inherit,
	  .guards = INTERFACE },
	{ "Exec drops the flags, or keeps them with PR_COHORT_KEEP_EXEC", test_prctl_exec,
	  .guards = INTERFACE },
	{ "A program just started by a zygote shares nothing with it", test_exec_leaves,
	  .guards = INVARIANT(1) },
	{ "/proc/PID/cohort has its lines, in order", test_proc_format, .guards = INTERFACE },
	{ "/proc/PID/cohort of a process without memory is harmless", test_proc_dead,
	  .guards = INTERFACE },
	{ "/proc/PID/cohort says who shares and who owns", test_proc_values,
	  .guards = INVARIANT(7) | INTERFACE },
	{ "Two zygotes are two cohorts", test_two_cohorts, .guards = POLICY },
	{ "A time namespace changes the clock of those in it alone", test_time_namespace, 0,
	  .guards = INVARIANT(1) },
	{ "A time namespace changes the clock of a family that keeps its tables",
	  test_time_namespace, 1, .guards = INVARIANT(1) },
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], REPORT_FLAGS))
		return report_flags();
	if (argc == 2 && !strcmp(argv[1], REPORT_TABLES))
		return shared_tables(getpid());
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
