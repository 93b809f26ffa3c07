// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nobody gains by sharing, and nobody pays for it: what the kernel says of a process, and what
 * its high-water marks remember, is what it would be with tables of its own.
 */
#include "fair/group.h"

#include <sys/resource.h>

static long number_in(pid_t pid, const char *file)
{
	char path[64], text[64];
	long value;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	must(read_text(path, text, sizeof(text)) > 0 && sscanf(text, "%ld", &value) == 1,
	     "%s cannot be read", path);
	return value;
}

/* the sum of a child is right at once, and stays right when all have been looked at */
static void check_scores(pid_t *pid, int n, long alone)
{
	for (int round = 0; round < 2; round++) {
		long own = number_in(getpid(), "oom_score");

		must(labs(own - alone) <= 1, "oom_score %ld alone, %ld with %d sharers", alone,
		     own, n);
		for (int i = 0; i < n; i += n / 8 + 1) {
			long child = number_in(pid[i], "oom_score");

			must(labs(child - alone) <= 1,
			     "oom_score %ld alone, child %d of %d has %ld", alone, i, n, child);
		}
	}
}

static void test_oom_score(long n)
{
	pid_t *pid = calloc(n, sizeof(*pid));
	long alone, kb;
	int fd[2];

	must(pid, "no memory");
	if (quick && n > 40)
		n = 40;
	/* the kernel needs some 100 kB for each, and without sharing the tables */
	kb = sharing_possible() ? 120 : 300;
	if (sysconf(_SC_AVPHYS_PAGES) * (page_size / 1024) < n * kb)
		skip("too little memory for %ld children", n);
	touch_memory();
	alone = number_in(getpid(), "oom_score");
	become_zygote();
	must_call(pipe(fd));
	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		must(pid[i] >= 0, "fork: %s", strerror(errno));
		if (!pid[i]) {
			char c;

			close(fd[1]);
			_exit(read(fd[0], &c, 1) ? 1 : 0);
		}
	}
	check_scores(pid, n, alone);
	/* the first of them, then the owner of all tables, have a sibling's place */
	kill(pid[0], SIGKILL);
	must_call(waitpid(pid[0], NULL, 0));
	if (n > 1)
		check_scores(pid + 1, n - 1, alone);
	close(fd[1]);
	while (wait(NULL) > 0)
		;
	must(labs(number_in(getpid(), "oom_score") - alone) <= 1, "the score has changed");
}

/* what a child's marks say before and after it gives the memory up */
static void test_high_water(long unmap)
{
	long mark[2], kb;
	struct rusage usage;
	int fd[2];

	touch_memory();
	kb = len / 1024;
	become_zygote();
	must_call(pipe(fd));
	if (!fork()) {
		mark[0] = proc_field(0, "status", "VmHWM");
		if (unmap)
			munmap(memory, len);
		else
			madvise(memory, len, MADV_DONTNEED);
		mark[1] = proc_field(0, "status", "VmHWM");
		_exit(write(fd[1], mark, sizeof(mark)) != sizeof(mark));
	}
	must(read(fd[0], mark, sizeof(mark)) == sizeof(mark), "the child said nothing");
	wait(NULL);
	must(mark[0] >= kb, "VmHWM of a child is %ld kB, it maps %ld kB", mark[0], kb);
	/* a stock kernel's counters are per processor, and read without their parts */
	must(mark[1] >= mark[0] - 64 * (long)page_size / 1024 * sysconf(_SC_NPROCESSORS_CONF),
	     "VmHWM fell from %ld kB to %ld kB", mark[0], mark[1]);
	getrusage(RUSAGE_CHILDREN, &usage);
	must(usage.ru_maxrss >= kb, "ru_maxrss of a child is %ld kB, it mapped %ld kB",
	     usage.ru_maxrss, kb);
}

static void test_max_rss(long unmap)
{
	struct rusage usage;

	touch_memory();
	become_zygote();
	if (!fork()) {
		if (unmap)
			munmap(memory, len);
		_exit(0);
	}
	wait(NULL);
	getrusage(RUSAGE_CHILDREN, &usage);
	must((size_t)usage.ru_maxrss * 1024 >= len,
	     "ru_maxrss of a child that did nothing is %ld kB, it mapped %zu kB",
	     usage.ru_maxrss, len / 1024);
}

/*
 * A child gives its memory up table by table, each far from the others: its mark is what it
 * mapped at once.
 */
static void test_pieces(long unmap)
{
	/* a process's use of so many tables has a record of its own */
	const size_t step = 32 * table_size;
	const int pieces = 4;
	struct rusage usage;
	char *p[4];

	for (int i = 0; i < pieces; i++) {
		p[i] = map_at(arena(32), table_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		no_huge_pages(p[i], table_size);
		memset(p[i], 1, table_size);
		must(!i || p[i] >= p[i - 1] + step || p[i] + step <= p[i - 1],
		     "the pieces are too near");
	}
	become_zygote();
	if (!fork()) {
		for (int i = 0; i < pieces; i++)
			if (unmap)
				munmap(p[i], table_size);
			else
				madvise(p[i], table_size, MADV_DONTNEED);
		_exit(0);
	}
	wait(NULL);
	getrusage(RUSAGE_CHILDREN, &usage);
	must((size_t)usage.ru_maxrss * 1024 >= pieces * table_size,
	     "ru_maxrss of a child is %ld kB, it mapped %zu kB", usage.ru_maxrss,
	     pieces * table_size / 1024);
}

/*
 * One table of many is full, the others have one page each. A fork does not count them, but
 * what it takes them to map must not be in a mark: neither of a child that looks, nor of one
 * that does not.
 */
static void test_estimate(long looks)
{
	const int tables = sizeof(long) < 8 ? 64 : 128;
	long mark, most;
	struct rusage usage;
	int fd[2];
	char *p;

	p = map_at(arena(tables), tables * table_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	no_huge_pages(p, tables * table_size);
	memset(p, 1, table_size);
	for (int i = 1; i < tables; i++)
		p[i * table_size] = 1;
	/* what the processors hold back, which stock reads too late */
	most = proc_field(0, "status", "VmRSS") +
	       64 * (long)page_size / 1024 * sysconf(_SC_NPROCESSORS_CONF);
	become_zygote();
	must_call(pipe(fd));
	if (!fork()) {
		mark = looks ? proc_field(0, "status", "VmHWM") : 0;
		_exit(write(fd[1], &mark, sizeof(mark)) != sizeof(mark));
	}
	must(read(fd[0], &mark, sizeof(mark)) == sizeof(mark), "the child said nothing");
	wait(NULL);
	must(mark <= most, "VmHWM of a child is %ld kB, it maps %ld kB at most", mark, most);
	getrusage(RUSAGE_CHILDREN, &usage);
	must(usage.ru_maxrss <= most, "ru_maxrss of a child is %ld kB, it maps %ld kB at most",
	     usage.ru_maxrss, most);
}

/* a child fills a shared table: what it touches is its own, whoever is charged */
static void test_fill(long arg)
{
	/* With larger pages 16 tables map more than the guest has. */
	size_t size = (table_size > 2 << 20 ? 2 : 16) * table_size;
	long before, after;
	int fd, to[2];
	char *p;

	fd = make_file("tmpfs", size / page_size);
	p = map_at(arena(16), size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* one page in each table, so that all are shared */
	for (size_t at = 0; at < size; at += table_size)
		p[at] = 1;
	become_zygote();
	must_call(pipe(to));
	if (!fork()) {
		long kb[2];

		kb[0] = proc_field(0, "status", "VmRSS");
		for (size_t at = 0; at < size; at += page_size)
			(void)*(volatile char *)(p + at);
		kb[1] = proc_field(0, "status", "VmRSS");
		_exit(write(to[1], kb, sizeof(kb)) != sizeof(kb));
	}
	must(read(to[0], &before, sizeof(before)) == sizeof(before), "no answer");
	must(read(to[0], &after, sizeof(after)) == sizeof(after), "no answer");
	wait(NULL);
	must(after - before >= (long)size / 1024 / 10 * 9,
	     "VmRSS grew from %ld to %ld kB by %zu kB of a shared file", before, after,
	     size / 1024);
}

/*
 * A child fills shared tables, of which the parent is the owner: then its sibling, which
 * maps the same pages, must not count less than the parent.
 */
static void test_sibling(long arg)
{
	long owner, child;
	int said[2], go[2];
	pid_t pid[2];
	char *p, c;
	int fd;

	choose_size();
	fd = make_file("tmpfs", len / page_size);
	p = map_at(arena(len / table_size), len, PROT_READ, MAP_PRIVATE, fd, 0);
	for (size_t at = 0; at < len; at += table_size)
		(void)*(volatile char *)(p + at);
	become_zygote();
	must_call(pipe(said));
	must_call(pipe(go));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		if (i)
			for (size_t at = 0; at < len; at += page_size)
				(void)*(volatile char *)(p + at);
		if (write(said[1], "", 1) != 1)
			_exit(1);
		_exit(read(go[0], &c, 1) != 1);
	}
	for (int i = 0; i < 2; i++)
		must(read(said[0], &c, 1) == 1, "a child ended too soon");
	owner = number_in(getpid(), "oom_score");
	/* without sharing, the first child maps nothing yet */
	for (int i = sharing_possible() ? 0 : 1; i < 2; i++) {
		child = number_in(pid[i], "oom_score");
		/* on a stock kernel a child that has faulted counts more than the parent */
		must(child >= owner - 1, "oom_score of the owner is %ld, of child %d %ld",
		     owner, i, child);
	}
	must(write(go[1], "go", 2) == 2, "the children are gone");
	while (wait(NULL) > 0)
		;
}

/* The kernel's log from now on; lines are read one by one. */
static int open_log(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		skip("the kernel's log cannot be read");
	must_call(lseek(fd, 0, SEEK_END));
	return fd;
}

/*
 * The OOM killer prints all processes of a group that is full before it kills one: each
 * sharer with all pages that it maps.
 */
static void test_dump(long n)
{
	const char *asked = "/proc/sys/vm/oom_dump_tasks";
	/* Per-CPU counters lag by up to 64 pages each; the program takes less than 1,024. */
	long slack = 64 * sysconf(_SC_NPROCESSORS_CONF), program = 1024;
	long pages, found = 0, others = 0;
	char line[1024], was[16];
	bool printed = false;
	pid_t zygote;
	ssize_t got;
	int log;

	choose_size();
	pages = len / page_size;
	must(read_text(asked, was, sizeof(was)) > 0, "%s cannot be read", asked);
	must(!write_text(asked, "1"), "%s cannot be written", asked);
	log = open_log();
	fill_group(n, touch_memory, len / 2, len / 8, &zygote);
	write_text(asked, was);
	while ((got = read(log, line, sizeof(line) - 1)) > 0 || errno == EPIPE) {
		unsigned long vm, rss;
		int pid, uid, tgid;
		char *text;

		line[got > 0 ? got : 0] = 0;
		printed |= !!strstr(line, "invoked oom-killer");
		/* Read the first dump only: it lists all sharers. */
		if (strstr(line, "oom-kill:"))
			break;
		text = strchr(line, ';');
		if (!text || sscanf(text, ";[%d] %d %d %lu %lu", &pid, &uid, &tgid, &vm, &rss) != 5)
			continue;
		if ((long)rss >= pages - slack && (long)rss <= pages + program + slack)
			found++;
		else
			others = rss;
	}
	close(log);
	if (!printed)
		skip("the OOM killer has printed too much in the last seconds");
	must(found == n + 1,
	     "of %ld sharers that map %ld pages the OOM killer says so of %ld, others have %ld",
	     n + 1, pages, found, others);
	end_group();
}

static const struct test_case cases[] = {
	{ "Is oom_score with one child what it is alone?", test_oom_score, 1,
	  .guards = INVARIANT(14) },
	{ "Is oom_score with two children what it is alone?", test_oom_score, 2,
	  .guards = INVARIANT(14) },
	{ "Is oom_score with 600 children what it is alone?", test_oom_score, 600,
	  .guards = INVARIANT(13) | INVARIANT(14) },
	{ "Is oom_score with 5,000 children what it is alone?", test_oom_score, 5000,
	  .guards = INVARIANT(13) | INVARIANT(14) },
	{ "Does VmHWM never fall, by munmap?", test_high_water, 1, .guards = INVARIANT(14) },
	{ "Does VmHWM never fall, by MADV_DONTNEED?", test_high_water, 0,
	  .guards = INVARIANT(14) },
	{ "Does ru_maxrss count what a child borrowed?", test_max_rss, 0,
	  .guards = INVARIANT(14) },
	{ "Does ru_maxrss count what a child borrowed and unmapped?", test_max_rss, 1,
	  .guards = INVARIANT(14) },
	{ "Does ru_maxrss count what a child unmapped table by table?", test_pieces, 1,
	  .guards = INVARIANT(14) },
	{ "Does ru_maxrss count what a child gave back by MADV_DONTNEED, table by table?",
	  test_pieces, 0, .guards = INVARIANT(14) },
	{ "Is no estimate in VmHWM?", test_estimate, 1, .guards = INVARIANT(14) },
	{ "Is no estimate in ru_maxrss?", test_estimate, 0, .guards = INVARIANT(14) },
	{ "Does VmRSS count what a child reads through a shared table?", test_fill,
	  .guards = INVARIANT(7) | INVARIANT(14) },
	{ "Does oom_score count what a sibling has filled?", test_sibling,
	  .guards = INVARIANT(14) },
	{ "Does the OOM killer's table of processes say what each of four sharers maps?",
	  test_dump, 3, .guards = INVARIANT(14) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
