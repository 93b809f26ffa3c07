// SPDX-License-Identifier: GPL-2.0-only
/*
 * BabelFish's kernel half: who shares translations, says /proc/PID/cohort, and does each
 * process still see what it would see. What the hardware does with it only a model shows.
 */
#include "common.h"

#define TABLES		2
#define STARTED		"COHORT_BABELFISH_STARTED"
#define SWITCH		COHORT_SYSFS "babelfish"
#define PLACES		32	/* of a pid_list */
#define REPORT		"--report-ccid"

static char *at;
static int file = -1;

static long number(int who, const char *key)
{
	long value = proc_field(who == SELF ? getpid() : pid_of(who), "cohort", key);

	must(value >= 0, "no %s of peer %d", key, who);
	return value;
}

static long tables(int who)
{
	return number(who, "TlbTables");
}

static size_t pages(void)
{
	return TABLES * (table_size / page_size);
}

/* Make a file, and peers that have none of it yet. */
static void start(int peers)
{
	if (proc_field(0, "cohort", "Ccid") < 0)
		skip("this kernel keeps nothing for BabelFish");
	at = arena(TABLES);
	file = make_file("tmpfs", pages());
	need_peers(peers);
	for (int i = 1; i <= peers; i++) {
		spawn(i);
		ask(i, nothing, 0, 0);
	}
	/* programs of a group have a CCID when they are executed, and so have their children */
	if (!number(1, "Ccid"))
		skip("this process has no CCID");
}

static long map_only(long prot, long flags)
{
	map_at(at, pages() * page_size, prot, flags, file, 0);
	return 0;
}

static long read_all(long unused, long unused2)
{
	for (size_t i = 0; i < pages(); i++)
		touch(at + i * page_size);
	return 0;
}

/* for peers: map the file and read all of it */
static long map_file(long prot, long flags)
{
	map_only(prot, flags);
	return read_all(0, 0);
}

static long map_other(long unused, long unused2)
{
	map_at(at, pages() * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	       -1, 0);
	return 0;
}

static long unmap_file(long unused, long unused2)
{
	must_call(munmap(at, pages() * page_size));
	return 0;
}

/* for peers: does each page hold what the file has, but the first ones those of @tag? */
static long has_file(long tag, long tagged)
{
	for (long i = 0; i < (long)pages(); i++)
		sees(page_is(at + i * page_size, i < tagged ? tag : FILE_TAG(i)),
		     "page %ld is not what it must be", i);
	return 0;
}

/* for peers: does a page hold @tag? */
static long has_first(long tag, long page)
{
	sees(page_is(at + page * page_size, tag), "page %ld is not what was written", page);
	return 0;
}

static long has_zeros(long unused, long unused2)
{
	for (size_t i = 0; i < pages(); i++)
		sees(page_is(at + i * page_size, 0), "page %zu is not empty", i);
	return 0;
}

static long write_page(long tag, long page)
{
	page_fill(at + page * page_size, tag);
	return 0;
}

static long protect(long prot, long unused)
{
	must_call(mprotect(at, page_size, prot));
	return 0;
}

static long read_first(long unused, long unused2)
{
	return probe_read(at);
}

static void map_all(int peers, int prot)
{
	for (int i = 1; i <= peers; i++)
		ask(i, map_file, prot, MAP_PRIVATE);
}

static void end(int peers)
{
	for (int i = 1; i <= peers; i++)
		if (!is_gone(pid_of(i)))
			quit(i);
}

static void test_share(long arg)
{
	long before[4];

	start(3);
	for (int i = 1; i <= 3; i++)
		before[i] = tables(i);
	ask(1, map_file, PROT_READ, MAP_PRIVATE);
	must(tables(1) == before[1], "one process shares %ld translations", tables(1));
	ask(2, map_file, PROT_READ, MAP_PRIVATE);
	ask(3, map_file, PROT_READ, MAP_PRIVATE);
	for (int i = 1; i <= 3; i++) {
		must(tables(i) >= before[i] + TABLES, "peer %d shares %ld tables, %ld before",
		     i, tables(i), before[i]);
		must(number(i, "Ccid") == number(1, "Ccid"), "peer %d has another CCID", i);
		must(i == 1 || number(i, "TlbPid") != number(1, "TlbPid"),
		     "peer %d has another's number", i);
		ask(i, has_file, 0, 0);
	}
	end(3);
}

static void test_write(long arg)
{
	long before[4], bits;

	start(3);
	map_all(3, PROT_READ | PROT_WRITE);
	for (int i = 1; i <= 3; i++)
		before[i] = tables(i);
	bits = number(2, "TlbPrivate");
	ask(2, write_page, 7, 0);
	must(tables(2) == before[2] - 1, "the writer shares %ld tables, %ld before", tables(2),
	     before[2]);
	must(number(2, "TlbPrivate") == bits + 1, "it has %ld bits, %ld before",
	     number(2, "TlbPrivate"), bits);
	must(tables(1) == before[1] && tables(3) == before[3], "others do not share any more");
	/* the second page of its own table: nothing more to note */
	ask(2, write_page, 8, 1);
	must(number(2, "TlbPrivate") == bits + 1, "a second write sets a bit");
	ask(1, has_file, 0, 0);
	ask(3, has_file, 0, 0);
	/* when the third writes, too, the first is left alone, until it takes its table back */
	ask(3, write_page, 9, 0);
	must(number(2, "TlbPrivate") == bits + 1, "a bit is gone while a process shares");
	ask(1, write_page, 10, 1);
	must(tables(1) == before[1] - 1, "a process shares what it has taken back");
	must(number(2, "TlbPrivate") == bits, "a bit stays where nobody shares");
	ask(1, has_first, 10, 1);
	ask(2, has_first, 8, 1);
	ask(3, has_file, 9, 1);
	end(3);
}

static void test_again(long arg)
{
	long before, bits;

	start(3);
	map_all(3, PROT_READ | PROT_WRITE);
	/* count the second turn: the first one also takes back other tables */
	for (int i = 0; i < 2; i++) {
		before = tables(2);
		bits = number(2, "TlbPrivate");
		ask(2, write_page, 7, 0);
		ask(2, unmap_file, 0, 0);
		ask(2, map_file, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	}
	must(tables(2) == before, "it shares %ld tables, %ld before", tables(2), before);
	must(number(2, "TlbPrivate") == bits, "it has %ld bits, %ld before",
	     number(2, "TlbPrivate"), bits);
	ask(2, has_file, 0, 0);
	end(3);
}

static void test_other(long arg)
{
	long bits, before;

	start(3);
	map_all(2, PROT_READ);
	before = tables(1);
	bits = number(3, "TlbPrivate");
	ask(3, map_other, 0, 0);
	must(number(3, "TlbPrivate") == bits + TABLES, "it has %ld bits, %ld before",
	     number(3, "TlbPrivate"), bits);
	must(tables(1) == before, "others do not share any more");
	ask(3, has_zeros, 0, 0);
	ask(3, write_page, 5, 0);
	ask(1, has_file, 0, 0);
	end(3);
}

/* a region that is there before the others begin to share */
static void test_before(long arg)
{
	long bits;

	start(3);
	/* run the others once: tables that they take back at first end bits of peer 3 */
	map_all(2, PROT_READ);
	for (int i = 1; i <= 2; i++)
		ask(i, unmap_file, 0, 0);
	bits = number(3, "TlbPrivate");
	ask(3, map_other, 0, 0);
	must(number(3, "TlbPrivate") <= bits, "it has a bit where nobody shares");
	/* what it runs may come to share other tables, whose bits go */
	ask(3, has_zeros, 0, 0);
	bits = number(3, "TlbPrivate");
	map_all(2, PROT_READ);
	must(number(3, "TlbPrivate") == bits + TABLES, "it has %ld bits, %ld before",
	     number(3, "TlbPrivate"), bits);
	ask(3, has_zeros, 0, 0);
	end(3);
}

static void test_protect(long arg)
{
	long bits;

	start(3);
	map_all(3, PROT_READ);
	bits = number(2, "TlbPrivate");
	ask(2, protect, PROT_NONE, 0);
	must(number(2, "TlbPrivate") == bits + 1, "no bit is set");
	sees(ask(2, read_first, 0, 0) == SIGSEGV, "it reads what it may not");
	sees(!ask(1, read_first, 0, 0), "another process cannot read");
	end(3);
}

static void test_exit(long arg)
{
	long places, before;

	start(4);
	map_all(4, PROT_READ | PROT_WRITE);
	before = tables(1);
	places = number(1, "TlbPlaces");
	ask(2, write_page, 7, 0);
	must(number(1, "TlbPlaces") > places, "the writer has no place");
	kill_peer(2);
	must(number(1, "TlbPlaces") <= places, "a place is taken by nobody");
	must(tables(1) == before, "others do not share any more");
	kill_peer(3);
	must(tables(1) == before, "two processes do not share");
	kill_peer(4);
	ask(1, has_file, 0, 0);
	/* it alone is left: it may share on, but not what it has unmapped */
	ask(1, unmap_file, 0, 0);
	must(tables(1) <= before - TABLES, "a process shares what it has unmapped");
	end(1);
}

static void test_overflow(long arg)
{
	int peers = PLACES + 4, writer;
	long before, overflows;

	start(peers);
	overflows = number(1, "TlbOverflows");
	map_all(peers, PROT_READ | PROT_WRITE);
	before = tables(1);
	must(before >= TABLES, "nobody shares");
	for (writer = 2; writer <= PLACES + 1; writer++)
		ask(writer, write_page, writer, 0);
	must(number(1, "TlbOverflows") == overflows, "%d writers are too many", PLACES);
	must(tables(1) == before, "it shares %ld tables, %ld before", tables(1), before);
	ask(writer, write_page, writer, 0);
	must(number(1, "TlbOverflows") == overflows + 1, "a writer without a place shares");
	/* the other table of the gigabyte ends a little later */
	for (int i = 0; i < 1000 && tables(1) > before - TABLES; i++)
		usleep(1000);
	must(tables(1) == before - TABLES, "it shares %ld tables, %ld before", tables(1), before);
	must(shared_tables(pid_of(1)) >= TABLES, "tables are not shared any more");
	ask(1, has_file, 0, 0);
	for (int i = 2; i <= writer; i++)
		ask(i, has_file, i, 1);
	end(peers);
	/* so few processes cannot be without a place */
	must(!number(SELF, "TlbOverflows"), "nobody shares in %ld gigabytes any more",
	     number(SELF, "TlbOverflows"));
}

/* more have the file and no table yet than there are places: these join, too, in time */
static void test_many(long arg)
{
	int peers = PLACES + 8;
	long before;

	start(peers);
	before = tables(1);
	for (int i = 1; i <= peers; i++)
		ask(i, map_only, PROT_READ, MAP_PRIVATE);
	ask(1, read_all, 0, 0);
	ask(2, read_all, 0, 0);
	must(tables(1) == before, "it shares with %d others that have no place", peers - 2);
	for (int i = 3; i <= peers; i++)
		ask(i, read_all, 0, 0);
	for (int i = 1; i <= peers; i++) {
		must(tables(i) >= TABLES, "peer %d shares %ld tables", i, tables(i));
		must(!number(i, "TlbPrivate"), "peer %d has a bit", i);
	}
	end(peers);
}

static void test_fork(long arg)
{
	long before, bits;

	start(2);
	map_all(2, PROT_READ | PROT_WRITE);
	before = tables(1);
	spawn_from(2, 3);
	ask(3, nothing, 0, 0);
	must(number(3, "Ccid") == number(1, "Ccid"), "a child has another CCID");
	bits = number(3, "TlbPrivate") + tables(3);
	must(bits >= TABLES, "a child neither shares nor has a bit: %ld", bits);
	ask(3, has_file, 0, 0);
	ask(3, write_page, 7, 0);
	ask(3, has_file, 7, 1);
	ask(2, has_file, 0, 0);
	must(tables(1) == before, "others do not share any more");
	quit(3);
	end(2);
}

/* More flags for a child that has a CCID: it keeps its cohort when it becomes another user. */
#define KEEP_LATER	(PR_COHORT_KEEP_IDS << 8)
/* The child leaves all its tables, then becomes another user. */
#define BECOME		(PR_COHORT_KEEP_IDS << 9)
/* It becomes one while it may keep its cohort, and then leads one of its own. */
#define LEAD		(PR_COHORT_KEEP_IDS << 10)

/* Does a child have a CCID, after what @flags say? */
static int child_ccid(long flags, long before)
{
	if (flags & KEEP_LATER && prctl(PR_SET_COHORT, flags >> 8 | PR_COHORT_ZYGOTE, 0, 0, 0))
		return 5;
	if (flags & BECOME) {
		if (write_text("/proc/self/clear_refs", "1") || setuid(65534))
			return 6;
		return proc_field(0, "cohort", "Ccid") == before;
	}
	if (flags & LEAD) {
		int status;
		pid_t pid;

		if (prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE | PR_COHORT_KEEP_IDS, 0, 0, 0) ||
		    setuid(65534) || prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0))
			return 7;
		/* its fork gives it a CCID, which is not that of whom it was forked from */
		pid = fork();
		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 8;
		return proc_field(0, "cohort", "Ccid") == before;
	}
	return proc_field(0, "cohort", "Ccid") > 0;
}

/* the program alone in its cohort: does its child have a CCID? */
static int report_ccid(long flags)
{
	int status;
	pid_t pid;

	if (prctl(PR_SET_COHORT, flags & 0xff, 0, 0, 0))
		return 3;
	pid = fork();
	if (!pid)
		_exit(child_ccid(flags, proc_field(0, "cohort", "Ccid")));
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

static int has_ccid(long flags)
{
	char word[16];
	char *const argv[] = { "babelfish", REPORT, word, NULL };
	int status;
	pid_t pid;

	snprintf(word, sizeof(word), "%ld", flags);
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "exec: status %x", status);
	return WEXITSTATUS(status);
}

static void test_keep_ids(long arg)
{
	if (proc_field(0, "cohort", "Ccid") < 0)
		skip("this kernel keeps nothing for BabelFish");
	/* outside groups, a zygote's family has one */
	must(!write_text(COHORT_SYSFS "join", "never"), "joining cannot be switched off");
	must(has_ccid(PR_COHORT_ZYGOTE) == 1, "a zygote's child has none: %d",
	     has_ccid(PR_COHORT_ZYGOTE));
	must(!has_ccid(PR_COHORT_ZYGOTE | PR_COHORT_KEEP_IDS), "it has one: %d",
	     has_ccid(PR_COHORT_ZYGOTE | PR_COHORT_KEEP_IDS));
	must(!has_ccid(PR_COHORT_ZYGOTE | KEEP_LATER), "it keeps one: %d",
	     has_ccid(PR_COHORT_ZYGOTE | KEEP_LATER));
	must(!has_ccid(PR_COHORT_ZYGOTE | LEAD), "as another user it has its former one: %d",
	     has_ccid(PR_COHORT_ZYGOTE | LEAD));
	must(!has_ccid(PR_COHORT_ZYGOTE | BECOME), "it has its parent's as another user: %d",
	     has_ccid(PR_COHORT_ZYGOTE | BECOME));
	must(!write_text(COHORT_SYSFS "join", "user"), "joining cannot be switched on");
}

static void test_off(long arg)
{
	must(!write_text(SWITCH, "off"), "it cannot be switched off");
	spawn(1);
	must(!number(1, "Ccid"), "a child has a CCID");
	must(!write_text(SWITCH, "on"), "it cannot be switched on");
	quit(1);
}

static void need_switch(long arg)
{
	if (proc_field(0, "cohort", "Ccid") < 0)
		skip("this kernel keeps nothing for BabelFish");
	test_off(arg);
}

static const struct test_case cases[] = {
	{ "Processes that map a file at one address share translations", test_share,
	  .guards = POLICY },
	{ "Who writes has a bit, and others go on sharing", test_write,
	  .guards = INVARIANT(1) | INVARIANT(12) },
	{ "Who joins again has no bit", test_again, .guards = POLICY },
	{ "Who maps something else where others share has a bit", test_other,
	  .guards = INVARIANT(1) },
	{ "Who has something else when others begin to share has a bit", test_before,
	  .guards = INVARIANT(1) },
	{ "Who changes the protection has a bit", test_protect, .guards = INVARIANT(1) },
	{ "At exit bits and places are free", test_exit, .guards = INVARIANT(5) },
	{ "The 33rd writer ends sharing of translations, not of tables", test_overflow,
	  .guards = INVARIANT(8) | LIMIT },
	{ "Where many have no table yet, all share in the end", test_many, .guards = LIMIT },
	{ "A child shares translations or has bits", test_fork, .guards = INVARIANT(1) },
	{ "Who keeps its cohort as another user has no CCID", test_keep_ids,
	  .guards = INVARIANT(1) | PRIVILEGE },
	{ "Switched off, nobody gets a CCID", need_switch, .guards = INTERFACE },
};

/* A CCID is that of a group, which is found at exec: start again with both switched on. */
int main(int argc, char **argv)
{
	char join[64] = "", on[64] = "", *word, *stop;
	int ret;

	if (argc == 3 && !strcmp(argv[1], REPORT))
		return report_ccid(atol(argv[2]));
	if (!getenv(STARTED)) {
		read_text(COHORT_SYSFS "join", join, sizeof(join));
		if (read_text(SWITCH, on, sizeof(on)) > 0) {
			write_text(COHORT_SYSFS "join", "user");
			write_text(SWITCH, "on");
		}
		setenv(STARTED, join, 1);
		setenv(STARTED "_SWITCH", strstr(on, "[on]") ? "on" : "off", 1);
		execv("/proc/self/exe", argv);
	}
	all_fatal = true;
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	word = strchr(getenv(STARTED), '[');
	stop = word ? strchr(word, ']') : NULL;
	if (stop) {
		*stop = 0;
		write_text(COHORT_SYSFS "join", word + 1);
	}
	if (read_text(SWITCH, on, sizeof(on)) > 0)
		write_text(SWITCH, getenv(STARTED "_SWITCH"));
	return ret;
}
