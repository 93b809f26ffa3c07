// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who is a member: cgroups' labels (memory.cohort) and PR_COHORT_GROUP name groups, and
 * only programs of one group join each other's tables.
 */
#include "join/join.h"
#include "join/label.h"

#include <grp.h>
#include <sched.h>

#define FORMER	1	/* the peer whose program stays and keeps tables */
#define NEWER	2

static int held = -1;

static long move_program(long pid, long dir)
{
	char path[192], text[16];

	snprintf(path, sizeof(path), "%s/cgroup.procs", (const char *)dir);
	snprintf(text, sizeof(text), "%ld", pid);
	return write_text(path, text);
}

/* write a label from another cgroup namespace */
static long write_elsewhere(long path, long unused)
{
	if (unshare(CLONE_NEWCGROUP))
		return -errno;
	return write_text((const char *)path, "web");
}

/* A program that stays, then another: how many tables does the second share? */
static long second_shares(int in_first, int in_second, long user_first, long user_second)
{
	long shared;

	start(4, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(2);
	if (in_first >= 0)
		must(!ask(FORMER, enter, in_first, 0), "cannot enter a cgroup");
	if (in_second >= 0)
		must(!ask(NEWER, enter, in_second, 0), "cannot enter a cgroup");
	held = ask(FORMER, hold_program, 3, user_first);
	must(held > 0, "the first program: %d", held);
	shared = ask(NEWER, run_program, 4, user_second);
	must(shared >= 0, "the second program says %ld", shared);
	return shared;
}

static void end(void)
{
	ask(FORMER, end_program, held, 0);
	quit(FORMER);
	quit(NEWER);
	drop_groups();
}

static void expect(long shared, bool joined)
{
	if (joined)
		must(shared >= TABLES, "it shares %ld tables, not %d", shared, TABLES);
	else
		must(!shared, "it shares %ld tables", shared);
}

static void test_same(long arg)
{
	long shared;

	need_groups();
	label(groups[0], "web");
	label(groups[1], "web");
	shared = second_shares(0, arg, 0, 0);
	end();
	expect(shared, true);
}

static void test_inherited(long arg)
{
	long shared;

	need_groups();
	label(group, "web");
	shared = second_shares(0, 1, 0, 0);
	end();
	expect(shared, true);
}

static void test_name(long arg)
{
	long shared;

	need_groups();
	label(groups[0], "web");
	if (arg)
		label(groups[1], arg == 1 ? "shop" : "web aslr=process");
	shared = second_shares(0, 1, 0, 0);
	end();
	expect(shared, false);
}

static void test_removed(long arg)
{
	long shared;

	need_groups();
	label(groups[0], "web");
	label(groups[1], "web");
	label(groups[1], "\n");
	shared = second_shares(0, 1, 0, 0);
	end();
	expect(shared, false);
}

static void test_users(long keep)
{
	long shared;

	need_groups();
	label(group, keep ? "web keep-ids" : "web");
	shared = second_shares(0, 1, 0, NOBODY);
	end();
	expect(shared, keep);
}

static void test_scope(long arg)
{
	char path[192];
	long shared;

	need_groups();
	label(groups[0], "web");
	/* the same name, written by somebody in another cgroup namespace */
	snprintf(path, sizeof(path), "%s/memory.cohort", groups[1]);
	spawn(5);
	must(!ask(5, enter, 1, 0), "cannot enter a cgroup");
	if (ask(5, write_elsewhere, (long)path, 0))
		skip("no cgroup namespace");
	quit(5);
	shared = second_shares(0, 1, 0, 0);
	end();
	expect(shared, false);
}

static long name_group(long name, long unused)
{
	return prctl(PR_SET_COHORT, PR_COHORT_GROUP, name, 0, 0) ? -errno : 0;
}

static void test_prctl(long other)
{
	long shared;

	need_cohort();
	start(4, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(2);
	if (ask(FORMER, name_group, (long)"web", 0) == -EINVAL)
		skip("no PR_COHORT_GROUP");
	must(!ask(NEWER, name_group, (long)(other ? "shop" : "web"), 0), "prctl");
	held = ask(FORMER, hold_program, 3, 0);
	must(held > 0, "the first program: %d", held);
	shared = ask(NEWER, run_program, 4, 0);
	ask(FORMER, end_program, held, 0);
	must(shared >= 0, "the second program says %ld", shared);
	expect(shared, !other);
}

static void test_prctl_bad(long arg)
{
	char longest[64];

	need_cohort();
	if (name_group((long)"web", 0) == -EINVAL)
		skip("no PR_COHORT_GROUP");
	memset(longest, 'a', sizeof(longest));
	longest[31] = 0;
	must(!name_group((long)longest, 0), "31 letters");
	longest[31] = 'a';
	longest[32] = 0;
	must(name_group((long)longest, 0) == -EINVAL, "32 letters");
	must(name_group((long)"two words", 0) == -EINVAL, "two words");
	must(name_group((long)"aslr=process", 0) == -EINVAL, "a word of a label");
	must(name_group((long)"line\n", 0) == -EINVAL, "a line");
	must(name_group(0, 0) == -EFAULT, "no name");
	must(!name_group((long)"", 0), "the empty name");
	must(prctl(PR_SET_COHORT, PR_COHORT_GROUP | PR_COHORT_ZYGOTE, "web", 0, 0) == -1 &&
	     errno == EINVAL, "with another flag");
	must(prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, "web", 0, 0) == -1 && errno == EINVAL,
	     "a name for a zygote");
}

static long try_label(long text, long unused)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/memory.cohort", groups[0]);
	return write_text(path, (const char *)text);
}

static long try_label_unprivileged(long text, long unused)
{
	must(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY), "setuid");
	return try_label(text, 0);
}

static void test_label_bad(long arg)
{
	char path[192], text[256];

	need_groups();
	label(groups[0], "web");
	must(try_label((long)"web nonsense", 0) == -EINVAL, "a word that there is not");
	must(try_label((long)"aslr=process", 0) == -EINVAL, "no name");
	must(try_label((long)"web places=1", 0) == -EINVAL, "a word with a value");
	must(try_label((long)"web aslr=process places", 0) == -EINVAL,
	     "places at addresses of stock");
	must(try_label((long)"places", 0) == 0, "a group whose name is a word");
	must(try_label((long)"aname-of-thirty-two-letters-12345", 0) == -EINVAL, "a long name");
	must(!try_label((long)"  shop  keep-ids  aslr=process\n", 0), "spaces");
	snprintf(path, sizeof(path), "%s/memory.cohort", groups[0]);
	must(read_text(path, text, sizeof(text)) > 0, "cannot read %s", path);
	must(!strcmp(text, "shop aslr=process keep-ids\n"), "it says '%s'", text);
	must_call(chmod(path, 0666));
	spawn(1);
	must(ask(1, try_label_unprivileged, (long)"web keep-ids", 0) == -EPERM,
	     "a process without privilege lets members have different users");
	must(!ask(1, try_label, (long)"web", 0), "a label without privilege");
	quit(1);
	label(groups[0], "\n");
	must(!read_text(path, text, sizeof(text)), "an empty label says '%s'", text);
	drop_groups();
}

/* A process that moves to a cgroup with another label leaves all tables. */
static void test_move(long arg)
{
	long shared, before;
	pid_t pid;

	need_groups();
	label(groups[0], "web");
	label(groups[1], arg ? "web" : "shop");
	shared = second_shares(0, 0, 0, 0);
	must(shared >= TABLES, "it shares %ld tables", shared);
	/* a second holder, so that the first shares; then the first moves */
	shared = ask(NEWER, hold_program, 4, 0);
	pid = held;
	before = shared_tables(pid);
	must(before >= TABLES, "the first program shares %ld tables", before);
	ask(FORMER, move_program, pid, (long)groups[1]);
	/* it leaves its tables, then the group */
	for (int i = 0; i < 500 && !arg && proc_field(pid, "cohort", "Group"); i++)
		usleep(10000);
	must(arg ? shared_tables(pid) == before : !shared_tables(pid),
	     "after it has moved it shares %ld tables", shared_tables(pid));
	must(!proc_field(pid, "cohort", "Group") == !arg, "its group is %ld",
	     proc_field(pid, "cohort", "Group"));
	ask(NEWER, end_program, shared, 0);
	end();
}

/* A child that is made in a cgroup with another label has no table of its parent's group. */
static void test_born(long arg)
{
	long found;
	int fd;

	need_groups();
	label(groups[0], "web");
	label(groups[1], arg ? "web" : "shop");
	fd = open(groups[1], O_RDONLY | O_DIRECTORY);
	must(fd >= 0, "%s: %s", groups[1], strerror(errno));
	start(4, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(2);
	must(!ask(FORMER, enter, 0, 0), "cannot enter a cgroup");
	found = ask(FORMER, bear_child, 3, fd);
	close(fd);
	quit(FORMER);
	drop_groups();
	must(found >= 0, "the child: %ld", found);
	must(found == arg, "the child has %s", found == 1 ? "a group" :
	     found ? "tables of a group" : "no group");
}

/* The tables of a group hold no cgroup of a process that has gone. */
static void test_dying(long arg)
{
	long before, dying = -1, shared;

	need_groups();
	label(group, "web");
	before = cgroup_number(group, "cgroup.stat", "nr_dying_descendants");
	start(4, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(2);
	must(!ask(FORMER, enter, 0, 0) && !ask(NEWER, enter, 1, 0), "cannot enter a cgroup");
	held = ask(FORMER, hold_program, 3, 0);
	must(held > 0, "the first program: %d", held);
	shared = ask(NEWER, hold_program, 4, 0);
	must(shared > 0, "the second program: %ld", shared);
	must(shared_tables(shared) >= TABLES, "it shares %ld tables", shared_tables(shared));
	/* who has made the tables goes, and its cgroup */
	ask(FORMER, end_program, held, 0);
	quit(FORMER);
	for (int i = 0; rmdir(groups[0]) && i < 500; i++)
		usleep(10000);
	for (int i = 0; i < 1000; i++) {
		dying = cgroup_number(group, "cgroup.stat", "nr_dying_descendants");
		if (dying <= before)
			break;
		/* drain the per-CPU lists of pages: they hold the cgroup, in stock too */
		if (i % 100 == 50)
			must(!write_text("/proc/sys/vm/drop_caches", "1"), "drop_caches");
		usleep(10000);
	}
	ask(NEWER, end_program, shared, 0);
	quit(NEWER);
	drop_groups();
	must(dying <= before, "%ld cgroups are dying, %ld before", dying, before);
}

#define OPENS	"--opens"
#define OPENED	31	/* too few for a table of tables */

/* a program that opens tables of a file that nobody else has, and stays */
static int open_tables(char **argv)
{
	size_t bytes;
	long opened = 0;
	char *p;
	int fd;

	page_size = sysconf(_SC_PAGESIZE);
	table_size = page_size * (page_size / 8);
	bytes = OPENED * table_size;
	fd = open("/dev/shm", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, bytes))
		return 1;
	p = mmap(NULL, bytes + 2 * table_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 1;
	p += -(uintptr_t)p % table_size;
	if (mmap(p, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != p)
		return 1;
	for (size_t i = 0; i < OPENED; i++)
		touch(p + i * table_size);
	opened = proc_field(0, "cohort", "OpenTables");
	if (write(atoi(argv[3]), &opened, sizeof(opened)) != sizeof(opened))
		return 1;
	for (;;)
		pause();
}

static long hold_tables(long unused, long unused2)
{
	char *argv[] = { "join", OPENS, "", NULL, NULL };
	long opened;
	pid_t pid;

	must(start_self(argv, 0, &opened, sizeof(opened), &pid), "the program says nothing");
	must(opened >= OPENED, "it opened %ld tables, not %d", opened, OPENED);
	return pid;
}

/* Who opens tables pays for them, and not the cgroup of whoever was first in the group. */
static void test_payer(long arg)
{
	const long least = (OPENED - 8) * page_size;
	long first, paid = 0, others = 0, pid;

	need_groups();
	label(groups[0], "web");
	label(groups[1], "web");
	start(4, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(2);
	must(!ask(FORMER, enter, 0, 0) && !ask(NEWER, enter, 1, 0), "cannot enter a cgroup");
	held = ask(FORMER, hold_program, 3, 0);
	must(held > 0, "the first program: %d", held);
	/* Wait for the flush of per-CPU counters into memory.stat, every two seconds. */
	sleep(3);
	first = cgroup_number(groups[0], "memory.stat", "pagetables");
	pid = ask(NEWER, hold_tables, 0, 0);
	for (int i = 0; i < 400 && paid < least && others < least; i++) {
		usleep(10000);
		paid = cgroup_number(groups[1], "memory.stat", "pagetables");
		others = cgroup_number(groups[0], "memory.stat", "pagetables") - first;
	}
	ask(NEWER, end_program, pid, 0);
	end();
	must(paid >= least && others < least / 2,
	     "of %d tables it pays for %ld bytes, another cgroup for %ld", OPENED, paid, others);
}

/* Do files lie alike, and are addresses still random? */
static void test_layout(long congruent)
{
	enum { RUNS = 12 };
	long place[RUNS], different = 0, bases = 0;

	if (sizeof(long) < 8)
		skip("programs of 32 bits have no places");
	if (congruent && table_size != 2 << 20)
		skip("nothing is placed for tables of other than 2 MB");
	need_groups();
	label(groups[0], congruent ? "web" : "web aslr=process");
	start(4, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(1);
	must(!ask(FORMER, enter, 0, 0), "cannot enter a cgroup");
	for (int i = 0; i < RUNS; i++)
		place[i] = ask(FORMER, place_of_file, 0, 0);
	quit(FORMER);
	drop_groups();
	for (int i = 1; i < RUNS; i++) {
		different += (place[i] ^ place[0]) % (long)table_size != 0;
		bases += place[i] / (long)table_size != place[0] / (long)table_size;
	}
	must(bases > RUNS / 2, "only %ld of %d addresses differ", bases, RUNS - 1);
	if (congruent)
		must(!different, "%ld of %d lie at another place in 2 MB", different, RUNS - 1);
}

static const struct test_case cases[] = {
	{ "two programs of one cgroup", test_same, 0, .guards = POLICY },
	{ "two cgroups with one label", test_same, 1, .guards = POLICY },
	{ "a label holds for cgroups below", test_inherited, .guards = POLICY },
	{ "no table of a program without a label", test_name, 0, .guards = PRIVILEGE },
	{ "no table of a group with another name", test_name, 1, .guards = PRIVILEGE },
	{ "no table of a group with another layout", test_name, 2, .guards = POLICY },
	{ "no table after the label was removed", test_removed, .guards = PRIVILEGE },
	{ "no table of another user", test_users, 0, .guards = PRIVILEGE },
	{ "a table of another user, if the label keeps ids", test_users, 1, .guards = POLICY },
	{ "no table of the same name in another cgroup namespace", test_scope,
	  .guards = PRIVILEGE },
	{ "two programs that prctl has put into one group", test_prctl, 0, .guards = POLICY },
	{ "no table of another group of prctl", test_prctl, 1, .guards = PRIVILEGE },
	{ "what prctl refuses", test_prctl_bad, .guards = INTERFACE },
	{ "what a label may be", test_label_bad, .guards = INTERFACE | PRIVILEGE },
	{ "a process moves to another group's cgroup", test_move, 0, .guards = PRIVILEGE },
	{ "a process moves to another cgroup of its group", test_move, 1, .guards = POLICY },
	{ "a child made in another group's cgroup", test_born, 0, .guards = PRIVILEGE },
	{ "a child made in another cgroup of its group", test_born, 1, .guards = POLICY },
	{ "who opens tables pays for them", test_payer, .guards = INVARIANT(14) },
	{ "no cgroup of a process that has gone is held", test_dying,
	  .guards = INVARIANT(14) },
	{ "files lie alike in a group, at random addresses", test_layout, 1,
	  .guards = POLICY },
	{ "files lie anywhere with aslr=process", test_layout, 0, .guards = POLICY },
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], OPENS))
		return open_tables(argv);
	return join_main(argc, argv, "group", cases, ARRAY_SIZE(cases));
}
