// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nobody gains by sharing, and nobody pays for it: who is charged for a table and its pages, and
 * what happens in a memory cgroup that is full.
 */
#include "fair/group.h"

#include <poll.h>
#include <linux/sched.h>
#include <sys/uio.h>

static bool unmaps;

/*
 * A region of its own at the start of each table: munmap() of a part of a region makes a new
 * one, which needs memory on a stock kernel, too.
 */
static void divide_tables(void)
{
	for (size_t at = 0; unmaps && at < len; at += table_size)
		must_call(mprotect(memory + at, page_size, PROT_READ));
}

static void touch_divided(void)
{
	touch_memory();
	divide_tables();
}

/* A page of a table: the rest of the table is still wanted. */
static int give_page_back(size_t at)
{
	return unmaps ? munmap(memory + at, page_size) :
			madvise(memory + at, page_size, MADV_DONTNEED);
}

static void give_back(int said)
{
	for (size_t at = 0; at < len; at += table_size)
		if (give_page_back(at))
			_exit(1);
	report(said);
}

/* As wait_for(), for one of them; others keep the pipe open if it is killed. */
static void wait_unhurt(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	while (!poll(&pfd, 1, 500))
		must(!group_number("memory.events", "oom_kill"), "a process was killed");
	wait_for(fd, 1);
}

/* memory is full, and a stock kernel needs none for this */
static void test_give_back(long unmap)
{
	int said[2], go[2], n = 8;
	long tables = 0;

	unmaps = unmap;
	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	start_group(n, touch_divided, give_back, said[1], go[0]);
	close(said[1]);
	wait_for(said[0], n + 1);
	limit_group(0);
	for (int i = 0; i < n; i++) {
		must(write(go[1], "", 1) == 1, "no child is left");
		wait_unhurt(said[0]);
	}
	must(!group_number("memory.events", "oom_kill"), "a process was killed");
	/* the children's own ones now; the file says so every two seconds */
	for (int i = 0; i < 30; i++) {
		tables = group_number("memory.stat", "pagetables") / (long)page_size;
		if (tables >= n * (long)(len / table_size))
			break;
		usleep(100000);
	}
	must(tables >= n * (long)(len / table_size),
	     "%d processes with %zu tables each are charged for %ld", n, len / table_size,
	     tables);
	end_group();
}

#define BEYOND		32	/* tables that a process may get beyond the limit */

static void touch_many_divided(void)
{
	touch_many();
	divide_tables();
}

/* as much as it can */
static void give_back_many(int said)
{
	for (size_t at = 0; at < len && !give_page_back(at); at += table_size)
		board->word[DONE] = at / table_size + 1;
	__atomic_store_n(&board->word[ANSWER], 1, __ATOMIC_SEQ_CST);
}

/* The most that the group uses from now on is read through this file. */
static int reset_peak(void)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/memory.peak", group);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || write(fd, "reset", 5) != 5)
		skip("memory.peak cannot be reset: %s", strerror(errno));
	return fd;
}

static long read_peak(int fd)
{
	char text[32] = "";

	must(pread(fd, text, sizeof(text) - 1, 0) > 0, "memory.peak: %s", strerror(errno));
	close(fd);
	return strtol(text, NULL, 10);
}

/*
 * The same with more tables than may exceed the limit. Only the child may be killed: its
 * zygote is the witness of what happens to memory then.
 */
static void test_give_back_many(long unmap)
{
	int said[2], go[2];
	pid_t zygote, child;
	long limit, over;
	char path[64];
	int peak;

	if (access("/proc/self/oom_score_adj", W_OK) || geteuid())
		skip("not root: nobody can be kept from being killed");
	len = SPARSE_TABLES * table_size;
	map_memory();
	unmaps = unmap;
	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	zygote = start_group(1, touch_many_divided, give_back_many, said[1], go[0]);
	wait_for(said[0], 2);
	child = board->word[CHILD];
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", zygote);
	must(!write_text(path, "-1000"), "%s cannot be written", path);
	limit_group(0);
	limit = group_number("memory.max", NULL);
	peak = reset_peak();
	must(write(go[1], "", 1) == 1, "the child is gone");
	wait_answer();
	must(board->word[DONE] >= BEYOND, "a process at the limit gave back a page of %ld tables",
	     board->word[DONE]);
	over = (read_peak(peak) - limit) / (long)page_size;
	must(over <= BEYOND, "the limit was exceeded by %ld pages", over);
	must(group_number("memory.events", "oom_kill") <= 1 && !is_gone(zygote),
	     "others than the process that needs memory were killed");
	check_pages(zygote, "the zygote", 0);
	if (!is_gone(child))
		check_pages(child, "the child", 1);
	note("%ld tables, %ld of them beyond the limit", board->word[DONE], over);
	end_group();
}

static void touch_mapped(void)
{
	for (size_t at = 0; at < len; at += table_size)
		memory[at] = 1;
}

/* Another process writes to a page of each table, from outside of the group. */
static void test_charge(long arg)
{
	int said[2], never[2];
	long before, grown;
	pid_t zygote;
	char c = 1;

	if (!sharing_possible())
		skip("no table is copied");
	len = SPARSE_TABLES * table_size;
	map_memory();
	make_group();
	must_call(pipe(said));
	must_call(pipe(never));
	zygote = start_group(1, touch_mapped, do_nothing, said[1], never[0]);
	wait_for(said[0], 2);
	before = group_number("memory.current", NULL);
	for (size_t at = 0; at < len; at += table_size) {
		struct iovec local = { &c, 1 }, remote = { memory + at, 1 };

		must(process_vm_writev(zygote, &local, 1, &remote, 1, 0) == 1,
		     "process_vm_writev: %s", strerror(errno));
	}
	grown = (group_number("memory.current", NULL) - before) / (long)page_size;
	/* a page and a table each; what is charged ahead is much less than the tables */
	must(grown >= SPARSE_TABLES * 3 / 2,
	     "%d pages and tables were copied for a group, which was charged for %ld",
	     2 * SPARSE_TABLES, grown);
	end_group();
}

/* The full group has a zygote, which has one child, and nobody of it was killed. */
static void check_spared(pid_t zygote)
{
	must(!group_number("memory.events", "oom_kill"), "a process of the group was killed");
	must(!is_gone(zygote) && !is_gone(board->word[CHILD]), "a process of the group is gone");
}

/*
 * A process outside of a full group writes @value to clear_refs of a child in it, which has
 * more tables than may exceed the limit.
 */
static void test_clear_refs(long value)
{
	char path[64], text[2] = { '0' + value, 0 };
	int said[2], never[2], ret;
	long before, after;
	pid_t zygote, child;

	len = SPARSE_TABLES * table_size;
	map_memory();
	make_group();
	must_call(pipe(said));
	must_call(pipe(never));
	zygote = start_group(1, touch_many, do_nothing, said[1], never[0]);
	wait_for(said[0], 2);
	child = board->word[CHILD];
	before = shared_tables(child);
	limit_group(0);
	snprintf(path, sizeof(path), "/proc/%d/clear_refs", child);
	ret = write_text(path, text);
	must(!ret || (value == 4 && ret == -ENOMEM), "%s to clear_refs: %s", text, strerror(-ret));
	check_spared(zygote);
	if (sharing_possible()) {
		after = shared_tables(child);
		must(before >= SPARSE_TABLES && after < before,
		     "of %ld shared tables %ld are left", before, after);
		/* or a store by a sibling would be seen as the child's */
		must(value != 4 || ret || !after, "stores are tracked in %ld shared tables",
		     after);
	}
	check_pages(zygote, "the zygote", 0);
	check_pages(child, "the child", 0);
	end_group();
}

#define PROBED_TABLES	16

/* a probe of all processes, by processor; each file that is open keeps it */
static int probe_fd[64];

static void open_probe(void)
{
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF) && cpu < 64; cpu++)
		probe_fd[cpu] = count_calls(-1, cpu);
}

static void close_probe(void)
{
	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_CONF) && cpu < 64; cpu++)
		must_call(close(probe_fd[cpu]));
}

/* A page of this program's code in each of some tables, with the probes that it has. */
static void touch_code(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	must(fd >= 0, "/proc/self/exe: %s", strerror(errno));
	for (int i = 0; i < PROBED_TABLES; i++)
		touch(map_at(memory + i * table_size, page_size, PROT_READ | PROT_EXEC,
			     MAP_PRIVATE, fd, probed_offset() / page_size * page_size));
	close(fd);
	close_probe();
}

/* in how many of these tables a process has a probe */
static int probes(pid_t pid, unsigned char original)
{
	int found = 0;

	for (int i = 0; i < PROBED_TABLES; i++)
		found += memory_byte(pid, memory + i * table_size +
				     probed_offset() % page_size) != original;
	return found;
}

/*
 * A probe is taken away from outside of a full group. It was set before: its pages are
 * charged to the group, on a stock kernel, too.
 */
static void test_probe_goes(long arg)
{
	unsigned char original;
	int said[2], never[2];
	pid_t zygote, child;

	need_uprobes();
	must(probed(1, 2) == 3, "1 + 2 is not 3");
	original = memory_byte(getpid(), probed);
	memory = arena(PROBED_TABLES);
	make_group();
	must_call(pipe(said));
	must_call(pipe(never));
	open_probe();
	zygote = start_group(1, touch_code, do_nothing, said[1], never[0]);
	wait_for(said[0], 2);
	child = board->word[CHILD];
	must(probes(zygote, original) == PROBED_TABLES && probes(child, original) == PROBED_TABLES,
	     "the probe is not everywhere");
	if (sharing_possible())
		must(shared_tables(child) >= PROBED_TABLES, "the child shares %ld tables",
		     shared_tables(child));
	limit_group(0);
	close_probe();
	check_spared(zygote);
	sees(!probes(zygote, original), "the probe stays in the zygote");
	sees(!probes(child, original), "the probe stays in the child");
	end_group();
}

/* A child in a user namespace of its own does not share. */
static void clone_user(int said)
{
	pid_t pid = syscall(__NR_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid < 0)
		_exit(1);
	if (pid)
		report(said);
}

static void test_charge_child(long arg)
{
	int said[2], go[2];
	long before, grown;

	if (access("/proc/self/ns/user", F_OK))
		skip("no user namespaces");
	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	start_group(1, touch_first, clone_user, said[1], go[0]);
	wait_for(said[0], 2);
	before = group_number("memory.current", NULL);
	must(write(go[1], "", 1) == 1, "the child is gone");
	wait_for(said[0], 1);
	grown = (group_number("memory.current", NULL) - before) / (long)page_size;
	must(grown >= SPARSE_TABLES * 3 / 4,
	     "a child of a group got %d tables, and the group was charged for %ld pages",
	     SPARSE_TABLES, grown);
	end_group();
}

/* Some rounds of memory in many places, shared with a child and unmapped. */
static void use_places(int rounds, int places, size_t step, char *base)
{
	for (int i = 0; i < rounds; i++) {
		pid_t pid;

		for (int k = 0; k < places; k++) {
			char *p = map_at(base + (i * places + k) * step, 8 * page_size,
					 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
					 -1, 0);

			for (int page = 0; page < 8; page++)
				p[page * page_size] = 1;
		}
		pid = fork();
		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid)
			_exit(0);
		must_call(waitpid(pid, NULL, 0));
		for (int k = 0; k < places; k++)
			munmap(base + (i * places + k) * step, 8 * page_size);
	}
}

/* What a process has shared once costs it nothing for ever. */
static void test_forgets(long arg)
{
	const int rounds = 8, places = 500;
	const size_t step = 32 * table_size;
	long before, grown = 0;
	int said[2], go[2];
	char *base, c;
	pid_t pid;

	if (sizeof(long) < 8)
		skip("too few addresses");
	base = mmap(NULL, rounds * places * step, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		skip("too few addresses");
	munmap(base, rounds * places * step);
	base = (char *)(((uintptr_t)base + step - 1) / step * step);
	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		group_put("cgroup.procs", "0");
		become_zygote();
		report(said[1]);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		use_places(rounds, places, step, base);
		report(said[1]);
		pause();
	}
	wait_for(said[0], 1);
	before = group_number("memory.current", NULL);
	must(write(go[1], "", 1) == 1, "the process is gone");
	wait_for(said[0], 1);
	/* the kernel frees some of it later, many pieces at once */
	for (int i = 0; i < 100; i++) {
		grown = group_number("memory.current", NULL) - before;
		if (grown < rounds * places * 512L)
			break;
		usleep(100000);
	}
	must(grown < rounds * places * 512L,
	     "%ld kB more are in use after %d tables were shared and unmapped", grown / 1024,
	     rounds * places);
	end_group();
}

/* --- charges ---------------------------------------------------------------------- */

/* how the owner of the tables goes away */
enum way { ENDS, MOVES, UNMAPS };

#define PAYER	"payer"		/* the group of the owner, below the case's */
#define OTHER	"other"

static int make_below(const char *name)
{
	char path[192];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	must(!mkdir(path, 0755), "%s: %s", path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

/* Waits until the processes of a group below the case's have gone. */
static void remove_below(const char *name)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", group, name);
	for (int i = 0; i < 1000 && rmdir(path); i++)
		usleep(10000);
	must(access(path, F_OK), "%s cannot be removed", path);
}

/* Touch memory in one group, make a child into another, whose directory is @into, and go. */
static void be_owner(enum way way, int into, int said, int go)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD,
				   .cgroup = into };
	pid_t pid;
	char c;

	group_put(PAYER "/cgroup.procs", "0");
	touch_many();
	become_zygote();
	pid = syscall(__NR_clone3, &args, sizeof(args));
	must(pid >= 0, "CLONE_INTO_CGROUP: %s", strerror(errno));
	if (!pid) {
		board->word[CHILD] = getpid();
		report(said);
		pause();
	}
	if (read(go, &c, 1) != 1)
		_exit(1);
	if (way == MOVES)
		group_put(OTHER "/cgroup.procs", "0");
	else if (way == UNMAPS)
		must_call(munmap(memory, len));
	else
		_exit(0);
	report(said);
	pause();
}

/*
 * Pages and tables stay charged to the group whose process touched them, wherever the
 * processes go that use them. When that group is removed its parent bears them.
 */
static void test_bearer(long way)
{
	const long pages = SPARSE_TABLES * KEPT * page_size, tables = SPARSE_TABLES * page_size;
	long anon, paid, left = 0;
	int said[2], go[2], into;
	pid_t owner;

	len = SPARSE_TABLES * table_size;
	map_memory();
	make_group();
	group_put("cgroup.subtree_control", "+memory");
	close(make_below(PAYER));
	into = make_below(OTHER);
	must_call(pipe(said));
	must_call(pipe(go));
	owner = fork();
	must(owner >= 0, "fork: %s", strerror(errno));
	if (!owner)
		be_owner(way, into, said[1], go[0]);
	wait_for(said[0], 1);
	must(write(go[1], "", 1) == 1, "the owner is gone");
	if (way == ENDS)
		must(waitpid(owner, NULL, 0) == owner, "waitpid: %s", strerror(errno));
	else
		wait_for(said[0], 1);
	/* The file is brought up to date every two seconds. */
	sleep(3);
	anon = group_number(PAYER "/memory.stat", "anon");
	paid = group_number(PAYER "/memory.stat", "pagetables");
	must(anon >= pages && paid >= tables,
	     "who touched %ld kB in %d tables is charged for %ld kB and %ld tables", pages / 1024,
	     SPARSE_TABLES, anon / 1024, paid / (long)page_size);
	anon = group_number(OTHER "/memory.stat", "anon");
	paid = group_number(OTHER "/memory.stat", "pagetables");
	must(anon < pages / 2 && paid < tables / 2,
	     "the child's group is charged for %ld kB and %ld tables", anon / 1024,
	     paid / (long)page_size);
	if (way == UNMAPS) {
		kill(owner, SIGKILL);
		must(waitpid(owner, NULL, 0) == owner, "waitpid: %s", strerror(errno));
	}
	remove_below(PAYER);
	must(group_number("memory.current", NULL) >= pages + tables,
	     "of %ld kB the parent bears %ld kB", (pages + tables) / 1024,
	     group_number("memory.current", NULL) / 1024);
	check_pages(board->word[CHILD], "the child", 0);
	group_put("cgroup.kill", "1");
	remove_below(OTHER);
	/* Tables are freed late. */
	for (int i = 0; i < 100; i++) {
		left = group_number("memory.current", NULL);
		if (left < tables)
			break;
		usleep(100000);
	}
	must(left < tables, "nobody is left, but %ld kB are charged", left / 1024);
	end_group();
}

static const struct test_case cases[] = {
	{ "Does MADV_DONTNEED at the limit of memory succeed and kill nobody?", test_give_back, 0,
	  .guards = INVARIANT(8) | INVARIANT(13) },
	{ "Does munmap of a part of each table at the limit of memory succeed and kill nobody?",
	  test_give_back, 1, .guards = INVARIANT(8) | INVARIANT(13) },
	{ "How many tables does MADV_DONTNEED get beyond the limit of memory?",
	  test_give_back_many, 0, .guards = INVARIANT(13) | INVARIANT(14) },
	{ "How many tables does munmap get beyond the limit of memory?",
	  test_give_back_many, 1, .guards = INVARIANT(13) | INVARIANT(14) },
	{ "Does clear_refs of accessed bits kill nobody in a full group of another?",
	  test_clear_refs, 1, .guards = INVARIANT(14) },
	{ "Does clear_refs of soft-dirty bits kill nobody in a full group of another?",
	  test_clear_refs, 4, .guards = INVARIANT(14) },
	{ "Does a uprobe that goes kill nobody in a full group?", test_probe_goes,
	  .guards = INVARIANT(14) },
	{ "Is a group charged for the tables that another process copies for it?", test_charge,
	  .guards = INVARIANT(14) },
	{ "Is a group charged for the tables of a child in a user namespace of its own?",
	  test_charge_child, .guards = INVARIANT(14) },
	{ "Who bears memory when its owner ends and the group is removed?", test_bearer, ENDS,
	  .guards = INVARIANT(14) },
	{ "Who bears memory when its owner moves and the group is removed?", test_bearer, MOVES,
	  .guards = INVARIANT(14) },
	{ "Who bears memory when its owner unmaps it and the group is removed?", test_bearer,
	  UNMAPS, .guards = INVARIANT(14) },
	{ "Does a process forget the places where it has shared tables?", test_forgets,
	  .guards = INVARIANT(13) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
