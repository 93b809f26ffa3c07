// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nobody gains by sharing: the OOM killer and high-water marks must see what they
 * would see if each process had tables of its own.
 */
#include "common.h"

#include <sys/resource.h>
#include <sys/wait.h>

static size_t len;
static char *memory;

/* an eighth of the machine's memory, but no more than a debug kernel can touch soon */
static void touch_memory(void)
{
	char text[256];
	long kb = 0;

	must(read_text("/proc/meminfo", text, sizeof(text)) > 0 &&
	     sscanf(text, "MemTotal: %ld", &kb) == 1, "no MemTotal");
	len = (size_t)kb * 1024 / 8 / table_size * table_size;
	if (len > (64UL << 20))
		len = 64UL << 20;
	memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	madvise(memory, len, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < len; at += page_size)
		memory[at] = 1;
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
	long alone;
	int fd[2];

	must(pid, "no memory");
	if (quick && n > 40)
		n = 40;
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
	must(mark[1] >= mark[0], "VmHWM fell from %ld kB to %ld kB", mark[0], mark[1]);
	getrusage(RUSAGE_CHILDREN, &usage);
	must(usage.ru_maxrss >= kb, "ru_maxrss of a child is %ld kB, it mapped %ld kB",
	     usage.ru_maxrss, kb);
}

static void test_max_rss(long arg)
{
	struct rusage usage;

	touch_memory();
	become_zygote();
	if (!fork())
		_exit(0);
	wait(NULL);
	getrusage(RUSAGE_CHILDREN, &usage);
	/* Stock says the same to the page; the estimate of a fork may be a tenth less. */
	must((size_t)usage.ru_maxrss * 1024 >= len / 10 * 9,
	     "ru_maxrss of a child that did nothing is %ld kB, it mapped %zu kB",
	     usage.ru_maxrss, len / 1024);
}

/* a child fills a shared table: what it touches is its own, whoever is charged */
static void test_fill(long arg)
{
	size_t size = 16 * table_size;
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

static const struct test_case cases[] = {
	{ "Is oom_score with one child what it is alone?", test_oom_score, 1,
	  .guards = INVARIANT(14) },
	{ "Is oom_score with two children what it is alone?", test_oom_score, 2,
	  .guards = INVARIANT(14) },
	{ "Is oom_score with 600 children what it is alone?", test_oom_score, 600,
	  .guards = INVARIANT(13) | INVARIANT(14) },
	{ "Does VmHWM never fall, by munmap?", test_high_water, 1, .guards = INVARIANT(14) },
	{ "Does VmHWM never fall, by MADV_DONTNEED?", test_high_water, 0,
	  .guards = INVARIANT(14) },
	{ "Does ru_maxrss count what a child borrowed?", test_max_rss, .guards = INVARIANT(14) },
	{ "Does VmRSS count what a child reads through a shared table?", test_fill,
	  .guards = INVARIANT(7) | INVARIANT(14) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
