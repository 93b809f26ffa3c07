// SPDX-License-Identifier: GPL-2.0-only
/*
 * What user space can ask of Cohort, and what it is told: the files in sysfs,
 * the prctl, /proc/PID/cohort, the counters, and that `never` means never.
 */
#include "common.h"

#include <sched.h>
#include <spawn.h>
#include <time.h>

static struct area area;

static const struct knob {
	const char *file;
	const char *words[4];
} knobs[] = {
	{ COHORT_SYSFS "enabled", { "always", "optin", "never" } },
	{ COHORT_SYSFS "unshare_copy", { "all", "referenced" } },
	{ COHORT_SYSFS "fork_copy", { "stock", "file" } },
};

static char original[ARRAY_SIZE(knobs)][32];

static void need_cohort(void)
{
	if (cohort_mode == MODE_STOCK)
		skip("this kernel has no Cohort");
}

/* the word in brackets; dies if the line is not the right words, one in brackets */
static void knob_get(const struct knob *k, char *word, size_t size)
{
	char buf[128], line[128], *w, *save;
	int found = 0, chosen = 0, known = 0;

	must(read_text(k->file, buf, sizeof(buf)) > 0, "%s cannot be read", k->file);
	memcpy(line, buf, sizeof(line));
	for (w = strtok_r(line, "\n ", &save); w; w = strtok_r(NULL, "\n ", &save)) {
		if (*w == '[' && w[strlen(w) - 1] == ']') {
			w[strlen(w) - 1] = 0;
			snprintf(word, size, "%s", ++w);
			chosen++;
		}
		found++;
		for (int i = 0; k->words[i]; i++)
			known += !strcmp(w, k->words[i]);
	}
	must(chosen == 1 && known == found && !k->words[found], "%s reads '%s'", k->file, buf);
}

static void knob_set(const struct knob *k, const char *word)
{
	char now[32];
	int ret = write_text(k->file, word);

	if (ret == -EACCES || ret == -EPERM || ret == -EROFS)
		skip("%s cannot be written: %s", k->file, strerror(-ret));
	must(!ret, "writing %s to %s: %s", word, k->file, strerror(-ret));
	knob_get(k, now, sizeof(now));
	must(!strcmp(now, word), "%s was told %s and reads %s", k->file, word, now);
}

static void set_mode(const char *word)
{
	need_cohort();
	knob_set(&knobs[0], word);
	cohort_mode = !strcmp(word, "never") ? MODE_NEVER :
		      !strcmp(word, "optin") ? MODE_OPTIN : MODE_ALWAYS;
}

static void test_round_trip(long index)
{
	const struct knob *k = &knobs[index];
	char line[40];

	need_cohort();
	for (int round = 0; round < 2; round++)
		for (int i = 0; k->words[i]; i++) {
			knob_set(k, k->words[i]);
			/* as echo writes it */
			snprintf(line, sizeof(line), "%s\n", k->words[i]);
			must(!write_text(k->file, line), "%s with a newline is refused",
			     k->words[i]);
		}
	knob_set(k, original[index]);
}

static void test_bad_words(long index)
{
	static const char * const bad[] = {
		"bogus", "nevermore", "alway", "al", "0", "1", "-1", " ", "\n", "[never]",
		"always never", "always\nnever", "ALWAYS", "all referenced", "stocks",
	};
	const struct knob *k = &knobs[index];
	char before[32], after[32], large[4000];
	int ret;

	need_cohort();
	knob_get(k, before, sizeof(before));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ret = write_text(k->file, bad[i]);
		if (ret == -EACCES || ret == -EROFS)
			skip("%s cannot be written", k->file);
		must(ret == -EINVAL, "'%s' gives %s", bad[i], ret ? strerror(-ret) : "no error");
		knob_get(k, after, sizeof(after));
		must(!strcmp(before, after), "'%s' changed %s to %s", bad[i], before, after);
	}
	memset(large, 'a', sizeof(large) - 1);
	large[sizeof(large) - 1] = 0;
	must(write_text(k->file, large) == -EINVAL, "a word of 4000 letters is taken");
}

static void test_permissions(long arg)
{
	struct stat st;

	need_cohort();
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		must_call(stat(knobs[i].file, &st));
		must((st.st_mode & 0777) == 0644 && !st.st_uid, "%s has mode %o, owner %d",
		     knobs[i].file, st.st_mode & 0777, st.st_uid);
	}
}

/* --- what the modes do ---------------------------------------------------- */

static long nothing(long a, long b)
{
	return 0;
}

static long unmap(long a, long b)
{
	area_unmap(&area);
	return 0;
}

/* how many tables of the area a new child has in common with us */
static long fork_shares(void)
{
	long before, after;

	spawn(6);
	spawn(7);
	ask(6, nothing, 0, 0);
	ask(7, nothing, 0, 0);
	before = shared_tables(pid_of(6));
	ask(6, unmap, 0, 0);
	after = shared_tables(pid_of(6));
	quit(6);
	quit(7);
	return before - after;
}

static void test_mode_never(long arg)
{
	long events;

	set_mode("never");
	area_make(&area, ANON);
	become_zygote();
	events = vm_event("cohort_ptp_shared");
	must(!fork_shares(), "tables are shared although the mode is never");
	must(vm_event("cohort_ptp_shared") == events, "cohort_ptp_shared moved");
	/* what was recorded takes effect when the mode allows it */
	set_mode("optin");
	must(fork_shares() == 1, "PR_SET_COHORT under never was not recorded");
}

static void test_mode_optin(long arg)
{
	set_mode("optin");
	area_make(&area, ANON);
	must(!fork_shares(), "a process that did not opt in shares tables");
	become_zygote();
	must(fork_shares() == 1, "a zygote does not share its table");
	must_call(prctl(PR_SET_COHORT, 0, 0, 0, 0));
	must(!fork_shares(), "a process that opted out shares tables");
}

static void test_mode_always(long arg)
{
	set_mode("always");
	area_make(&area, ANON);
	must(fork_shares() == 1, "always does not share the table of a plain process");
}

static void test_switch_while_shared(long arg)
{
	static const char * const words[] = { "never", "always", "optin", "never" };

	set_mode("optin");
	area_make(&area, MIXED);
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	for (int i = 0; i <= 3; i++)
		model_init(&board->model[i], &area);
	for (int i = 0; i <= 3; i++) {
		set_mode(words[i]);
		model_check_all(4);
		ask(i, model_scribble, i, 4);
		model_check_all(4);
	}
}

static void test_booted_never(long arg)
{
	const char *env = getenv("COHORT_MODE");
	char cmdline[4096];

	if (cohort_mode != MODE_NEVER)
		skip("the mode is not never");
	if (!env)
		read_text("/proc/cmdline", cmdline, sizeof(cmdline));
	/* nobody has ever shared anything, if it was so from the start */
	if (env || strstr(cmdline, "cohort=never"))
		must(!vm_event("cohort_ptp_shared"), "%ld tables were shared since boot",
		     vm_event("cohort_ptp_shared"));
	area_make(&area, MIXED);
	become_zygote();
	must(!fork_shares(), "tables are shared although the mode is never");
	spawn(1);
	must(shared_tables(pid_of(1)) == 0, "the child shares %ld tables",
	     shared_tables(pid_of(1)));
}

static void test_unshare_copy(long arg)
{
	static const char * const words[] = { "all", "referenced" };
	long copied[2];

	set_mode("optin");
	become_zygote();
	for (int i = 0; i < 2; i++) {
		knob_set(&knobs[1], words[i]);
		for (enum kind kind = ANON; kind <= MIXED; kind++) {
			/* a file system that is not there ends the case otherwise */
			if (kind == PRIV_DISK || kind == SHARED_DISK || kind == SYSV)
				continue;
			area_make(&area, kind);
			spawn(1);
			spawn(2);
			for (int p = 0; p <= 2; p++)
				model_init(&board->model[p], &area);
			copied[i] = vm_event("cohort_pte_copied_unshare");
			ask(1, model_scribble, 1, 3);
			copied[i] = vm_event("cohort_pte_copied_unshare") - copied[i];
			must(kind != ANON || copied[i] >= 1, "unsharing copied no entry");
			model_check_all(3);
			model_scribble_all(3);
			model_check_all(3);
			quit(1);
			quit(2);
		}
	}
	knob_set(&knobs[1], original[1]);
}

static void test_fork_copy(long arg)
{
	static const char * const words[] = { "stock", "file" };
	char *last;

	set_mode("never");
	area_make(&area, PRIV_FILE_RO);
	last = area.spot[1].addr;
	must(pagemap_entry(0, last) & PM_PRESENT, "a page just read is not there");
	for (int i = 0; i < 2; i++) {
		bool there;

		knob_set(&knobs[2], words[i]);
		spawn(i + 1);
		there = pagemap_entry(pid_of(i + 1), last) & PM_PRESENT;
		must(there == i, "%s: the child %s the file's entry", words[i],
		     there ? "has" : "lacks");
		ask(i + 1, spots_intact, (long)&area, 0);
	}
	knob_set(&knobs[2], original[2]);
}

/* --- prctl ---------------------------------------------------------------- */

static long get_flags(long a, long b)
{
	int ret = prctl(PR_GET_COHORT, 0, 0, 0, 0);

	return ret < 0 ? -errno : ret;
}

static long set_flags(long flags, long b)
{
	return prctl(PR_SET_COHORT, flags, 0, 0, 0) ? -errno : 0;
}

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
	static const unsigned long bad[] = { 2, 4, 6, 8, 9, 15, ~0UL, 1UL << 31 };

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
		/* a child's change is its own */
		must(!ask(1, set_flags, flags ? 0 : 1, 0), "a child cannot set flags");
		must(get_flags(0, 0) == flags, "the child's flags came to the parent");
		must(ask(2, get_flags, 0, 0) == flags, "the child's flags came to its child");
		quit(2);
		quit(1);
	}
}

/* We are started anew with this argument to say what is left of the flags. */
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

/* ... or with this one, to say whether it shares anything */
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
	ask(1, unmap, 0, 0);
	must(shared_tables(pid_of(1)) == shared[1] - 1, "a table less: %ld of %ld",
	     shared_tables(pid_of(1)), shared[1]);
	quit(1);
	quit(2);
	/* in the mode always there is the process that forked us, too */
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

static long write_page(long addr, long b)
{
	page_fill((char *)addr, 7);
	return vm_event("cohort_pte_copied_unshare");
}

/* A fault maps pages beside its own, which nobody has used: they stay behind. */
static void test_unused_entries(long arg)
{
	const int pages = 64;
	long before, copied;
	char *file, *anon;

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	become_zygote();
	file = map_at(arena(1), pages * page_size, PROT_READ, MAP_PRIVATE | MAP_FIXED,
		      make_file("tmpfs", pages), 0);
	anon = map_at(file + 2 * pages * page_size, page_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	page_fill(anon, 5);
	touch(file);
	must(pagemap_entry(0, file + page_size) & PM_PRESENT,
	     "nothing was mapped beside the fault");
	spawn(1);
	ask(1, nothing, 0, 0);
	before = vm_event("cohort_pte_copied_unshare");
	copied = ask(1, write_page, (long)anon, 0) - before;
	must(copied >= 1, "the write did not unshare");
	must(copied <= 4, "%ld entries came along, but two pages were used", copied);
	must(page_is(anon, 5), "the zygote sees its child's write");
}

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME	0x00000080
#endif
#define CLOCK_AHEAD	1000000	/* seconds */

/* Seconds that the vDSO's clock is ahead of the zygote's when the case began. */
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

/* [vvar] lies among the libraries, in a table that is shared, and differs. */
static void test_time_namespace(long arg)
{
	long err, unshared;

	become_zygote();
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

	/* the clone whose namespace is another one */
	unshared = vm_event("cohort_ptp_unshared_change");
	spawn_from(1, 2);
	expect_clock(2, true);
	must(!sharing_possible() || vm_event("cohort_ptp_unshared_change") > unshared,
	     "the table with [vvar] was not shared before");
	for (int i = 0; i <= 3; i++)
		expect_clock(i, i == 2);

	/* a process that changes over */
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
	/* neither is a zygote when it is forked, so they have nothing in common */
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

static void test_counters(long arg)
{
	static const char * const names[] = {
		"cohort_ptp_alloc", "cohort_ptp_shared", "cohort_ptp_unshared_fault",
		"cohort_ptp_unshared_map", "cohort_ptp_unshared_unmap",
		"cohort_ptp_unshared_change", "cohort_ptp_left", "cohort_ptp_adopted",
		"cohort_pte_copied_fork", "cohort_pte_copied_unshare", "cohort_fault_file",
		"cohort_fault_filled",
	};
	long alloc;

	if (cohort_mode == MODE_STOCK) {
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			must(vm_event(names[i]) < 0, "%s without Cohort", names[i]);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		must(vm_event(names[i]) >= 0, "no counter %s", names[i]);
	alloc = vm_event("cohort_ptp_alloc");
	area_make(&area, BORDERS);
	must(vm_event("cohort_ptp_alloc") - alloc >= 3,
	     "three tables were made, cohort_ptp_alloc grew by %ld",
	     vm_event("cohort_ptp_alloc") - alloc);
}

static const struct test_case cases[] = {
	{ "Does `enabled` read as it was written?", test_round_trip, 0 },
	{ "Does `unshare_copy` read as it was written?", test_round_trip, 1 },
	{ "Does `fork_copy` read as it was written?", test_round_trip, 2 },
	{ "A wrong word for `enabled` gives EINVAL and changes nothing", test_bad_words, 0 },
	{ "A wrong word for `unshare_copy` gives EINVAL and changes nothing", test_bad_words, 1 },
	{ "A wrong word for `fork_copy` gives EINVAL and changes nothing", test_bad_words, 2 },
	{ "Only root may write the files in sysfs", test_permissions },
	{ "Booted with `never`, nothing is shared", test_booted_never },
	{ "`never` shares nothing, and remembers the zygote", test_mode_never },
	{ "`optin` shares what a zygote forks, nothing else", test_mode_optin },
	{ "`always` shares what anybody forks", test_mode_always },
	{ "Do tables that are shared stay right when the mode changes?", test_switch_while_shared },
	{ "Is the memory right with either `unshare_copy`?", test_unshare_copy },
	{ "`fork_copy` decides whether fork copies file entries", test_fork_copy },
	{ "A kernel without Cohort refuses the prctl", test_prctl_stock },
	{ "PR_GET_COHORT returns what PR_SET_COHORT set", test_prctl_flags },
	{ "Unknown flags and arguments give EINVAL and change nothing", test_prctl_bad },
	{ "Fork hands the flags on, and each process has its own", test_prctl_inherit },
	{ "Exec drops the flags, or keeps them with PR_COHORT_KEEP_EXEC", test_prctl_exec },
	{ "A program just started by a zygote shares nothing with it", test_exec_leaves },
	{ "/proc/PID/cohort has its lines, in order", test_proc_format },
	{ "/proc/PID/cohort of a process without memory is harmless", test_proc_dead },
	{ "/proc/PID/cohort says who shares and who owns", test_proc_values },
	{ "Two zygotes are two cohorts", test_two_cohorts },
	{ "Entries that nobody used are not taken along", test_unused_entries },
	{ "A time namespace changes the clock of those in it alone", test_time_namespace },
	{ "The counters in /proc/vmstat are there", test_counters },
};

/* what a case changed, and did not change back if it failed */
static void put_back(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (original[i][0])
			write_text(knobs[i].file, original[i]);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], REPORT_FLAGS))
		return report_flags();
	if (argc == 2 && !strcmp(argv[1], REPORT_TABLES))
		return shared_tables(getpid());

	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++) {
		char buf[128], *word;

		/* never NULL: a file that reads wrongly fails its own case */
		if (read_text(knobs[i].file, buf, sizeof(buf)) <= 0)
			continue;
		word = strchr(buf, '[');
		if (word)
			snprintf(original[i], sizeof(original[i]), "%.*s",
				 (int)strcspn(word + 1, "]"), word + 1);
	}
	after_each_case = put_back;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
