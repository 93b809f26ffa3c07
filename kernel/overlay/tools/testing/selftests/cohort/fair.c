// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nobody gains by sharing, and nobody pays for it: the OOM killer, high-water marks and
 * memory cgroups must see what they would see if each process had tables of its own.
 */
#include "common.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

static size_t len;
static char *memory;

/* an eighth of the machine's memory, but no more than a debug kernel can touch soon */
static void choose_size(void)
{
	char text[256];
	long kb = 0;

	must(read_text("/proc/meminfo", text, sizeof(text)) > 0 &&
	     sscanf(text, "MemTotal: %ld", &kb) == 1, "no MemTotal");
	len = (size_t)kb * 1024 / 8 / table_size * table_size;
	if (len > (64UL << 20))
		len = 64UL << 20;
}

static void map_memory(void)
{
	memory = mmap(NULL, len + table_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	memory = (char *)(((uintptr_t)memory + table_size - 1) / table_size * table_size);
	madvise(memory, len, MADV_NOHUGEPAGE);
}

static void touch_memory(void)
{
	choose_size();
	map_memory();
	for (size_t at = 0; at < len; at += page_size)
		memory[at] = 1;
}

#define SPARSE_TABLES	512

/* the first page of each table */
static void touch_first(void)
{
	len = SPARSE_TABLES * table_size;
	map_memory();
	for (size_t at = 0; at < len; at += table_size)
		memory[at] = 1;
}

/* some pages of each table, none where an estimate of what it maps might look */
static void touch_others(void)
{
	static const int page[] = { 1, 3, 5, 7 };

	len = SPARSE_TABLES * table_size;
	map_memory();
	for (size_t at = 0; at < len; at += table_size)
		for (unsigned int i = 0; i < ARRAY_SIZE(page); i++)
			memory[at + page[i] * page_size] = 1;
}

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

/* --- limits ----------------------------------------------------------------------- */

/* From now on the group may use @more bytes more than it does. */
static void limit_group(long more)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", group_number("memory.current", NULL) + more);
	group_put("memory.max", text);
}

/* Wait for a byte of each of @n processes, which may be killed before. */
static void wait_for(int fd, int n)
{
	char c;

	while (n--)
		must(read(fd, &c, 1) == 1, "a process ended too soon");
}

static void report(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(1);
}

/* A zygote in the group, with @n children that map the memory it touches and do @what. */
static pid_t start_group(int n, void (*touch)(void), void (*what)(int said), int said,
			 int go)
{
	pid_t pid = fork();
	char c;

	must(pid >= 0, "fork: %s", strerror(errno));
	if (pid)
		return pid;
	group_put("cgroup.procs", "0");
	touch();
	become_zygote();
	for (int i = 0; i < n; i++) {
		if (fork())
			continue;
		/* Its page is the child's own before the limit is reached. */
		*(volatile char *)&c = 0;
		report(said);
		if (read(go, &c, 1) != 1)
			_exit(1);
		what(said);
		pause();
	}
	report(said);
	pause();
	_exit(0);
}

static void end_group(void)
{
	group_put("cgroup.kill", "1");
	while (wait(NULL) > 0 || errno == EINTR)
		;
	remove_group();
}

static void give_back(int said)
{
	/* A page of each table: the rest of the table is still wanted. */
	for (size_t at = 0; at < len; at += table_size)
		if (madvise(memory + at, page_size, MADV_DONTNEED))
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
static void test_give_back(long arg)
{
	int said[2], go[2], n = 8;
	long tables = 0;

	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	start_group(n, touch_memory, give_back, said[1], go[0]);
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

static void do_nothing(int said)
{
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

/* In the group, but not of the cohort: of this size, and growing. */
static void grow(size_t size, size_t more, int said, int go)
{
	char *p, c;

	group_put("cgroup.procs", "0");
	p = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, size);
	report(said);
	if (read(go, &c, 1) != 1)
		_exit(1);
	memset(p + size, 1, more);
	_exit(0);
}

/*
 * Fill the memory of a group with a zygote, its @n children and another process of @size
 * bytes that grows by @more, which ends with the status that it returns.
 */
static int fill_group(int n, void (*touch)(void), size_t size, size_t more, pid_t *zygote)
{
	int said[2], go[2], never[2], status;
	pid_t other;

	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	must_call(pipe(never));
	*zygote = start_group(n, touch, do_nothing, said[1], never[0]);
	wait_for(said[0], n + 1);
	other = fork();
	if (!other)
		grow(size, more, said[1], go[0]);
	wait_for(said[0], 1);
	limit_group(page_size * 64);
	must(write(go[1], "", 1) == 1, "the other process is gone");
	must(waitpid(other, &status, 0) == other, "waitpid: %s", strerror(errno));
	must(group_number("memory.events", "oom_kill") > 0, "nobody was killed");
	return status;
}

static void check_victim(int n, void (*touch)(void), size_t size, size_t more)
{
	pid_t zygote;
	int status = fill_group(n, touch, size, more, &zygote);

	/* The last sharer may count as gone before all its memory is free, as on stock. */
	must((WIFEXITED(status) && !WEXITSTATUS(status)) ||
	     group_number("memory.events", "oom_kill") == n + 2,
	     "a process smaller than each of %d sharers was killed before one of them", n + 1);
	must(waitpid(zygote, NULL, 0) == zygote, "waitpid: %s", strerror(errno));
	end_group();
}

/* On a stock kernel each of the sharers is the largest process. */
static void test_victim(long n)
{
	choose_size();
	check_victim(n, touch_memory, len / 2, len / 8);
}

/* What processors have charged ahead must not be enough for another process to grow. */
static void need_few_cpus(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) > 6)
		skip("too many processors for a group of little memory");
}

/*
 * The same where each sharer maps four pages of each of its tables, which nobody has
 * counted: it is as large as these and the tables.
 */
static void test_victim_sparse(long n)
{
	need_few_cpus();
	check_victim(n, touch_others, SPARSE_TABLES * 3 * page_size,
		     SPARSE_TABLES * page_size);
}

/* The other way round: one page of each table, and the other process is the largest. */
static void test_larger(long n)
{
	pid_t zygote;
	int status;

	need_few_cpus();
	status = fill_group(n, touch_first, SPARSE_TABLES * 4 * page_size,
			    SPARSE_TABLES * page_size, &zygote);
	must(WIFSIGNALED(status),
	     "%ld sharers half as large as another process were killed before it",
	     group_number("memory.events", "oom_kill"));
	must(group_number("memory.events", "oom_kill") == 1, "others were killed, too");
	end_group();
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
	{ "Does MADV_DONTNEED at the limit of memory succeed and kill nobody?", test_give_back,
	  .guards = INVARIANT(8) | INVARIANT(13) },
	{ "Is a group charged for the tables that another process copies for it?", test_charge,
	  .guards = INVARIANT(14) },
	{ "Is a group charged for the tables of a child in a user namespace of its own?",
	  test_charge_child, .guards = INVARIANT(14) },
	{ "Does a process forget the places where it has shared tables?", test_forgets,
	  .guards = INVARIANT(13) },
	{ "Does the OOM killer's table of processes say what each of four sharers maps?",
	  test_dump, 3, .guards = INVARIANT(14) },
	{ "Does the OOM killer take one of two sharers before a smaller process?", test_victim, 1,
	  .guards = INVARIANT(14) },
	{ "Does the OOM killer take one of eight sharers before a smaller process?", test_victim, 7,
	  .guards = INVARIANT(14) },
	{ "Does the OOM killer take one of four sharers of sparse tables before a smaller process?",
	  test_victim_sparse, 3, .guards = INVARIANT(14) },
	{ "Does the OOM killer take a larger process before four sharers of sparse tables?",
	  test_larger, 3, .guards = INVARIANT(14) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
