// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions at fork: a fork that shares tables walks and allocates them in its own way. The
 * child must have the parent's regions all the same, and nothing may be left behind.
 */
#include "common.h"

#include <sys/wait.h>

#define MANY	700

static char *region[MANY];
static bool left_out[MANY];	/* the child lacks it */

static void *place(char *at, int prot)
{
	return map_at(at, page_size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/*
 * @n regions of one page, with holes of all kinds between them: none, a page, a part of
 * a table, whole tables. Every @every-th one is not for children.
 */
static void make_regions(int n, int every)
{
	char *at = arena(n * 5 / 12 + 4);

	for (int i = 0; i < n; i++) {
		region[i] = place(at, PROT_READ | PROT_WRITE);
		no_huge_pages(at, page_size);
		page_fill(at, i + 1);
		/* neighbours that differ do not become one region */
		if (i & 1)
			must_call(mprotect(at, page_size, PROT_READ));
		left_out[i] = every && i % every == every - 1;
		if (left_out[i])
			must_call(madvise(at, page_size, MADV_DONTFORK));
		at += page_size;
		if (i % 5 == 4)
			at += page_size;
		if (i % 7 == 6)
			at += 11 * page_size;
		if (i % 60 == 59)
			at += 3 * table_size;
	}
}

static char maps[2][512 << 10];

/* the lines of /proc/self/maps, without those of regions that the child lacks */
static void read_maps(char *text, size_t size, int n)
{
	char *from = text, *to = text;
	ssize_t len, got = 0;
	int fd = open("/proc/self/maps", O_RDONLY);

	must(fd >= 0, "no maps");
	do {
		must(got < (ssize_t)size - 1, "too many regions");
		len = read(fd, text + got, size - 1 - got);
		got += len;
	} while (len > 0);
	close(fd);
	text[got] = 0;
	while (*from) {
		char *end = strchr(from, '\n') + 1;
		char *start = (char *)(uintptr_t)strtoul(from, NULL, 16);
		bool lacks = false;

		for (int i = 0; i < n && !lacks; i++)
			lacks = left_out[i] && region[i] == start;
		if (!lacks) {
			memmove(to, from, end - from);
			to += end - from;
		}
		from = end;
	}
	*to = 0;
}

/* in the child */
static void check_regions(int n)
{
	read_maps(maps[1], sizeof(maps[1]), 0);
	sees(!strcmp(maps[0], maps[1]), "the child has\n%s\nand not\n%s", maps[1], maps[0]);
	for (int i = 0; i < n; i++) {
		if (left_out[i])
			continue;
		sees(page_is(region[i], i + 1), "the child sees another page in region %d", i);
		if (i & 1)
			sees(probe_write(region[i]) == SIGSEGV, "region %d can be written", i);
		else
			page_fill(region[i], 2 * MANY + i);
	}
}

static void test_regions(long arg)
{
	const int n = arg >> 8, every = arg & 0xff;
	int status;
	pid_t pid;

	become_zygote();
	make_regions(n, every);
	/* the second child's tables are shared already */
	for (int round = 0; round < 2; round++) {
		read_maps(maps[0], sizeof(maps[0]), n);
		pid = fork();
		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid) {
			check_regions(n);
			/* and its own children */
			pid = fork();
			if (!pid) {
				for (int i = 0; i < n; i += 2)
					sees(left_out[i] || page_is(region[i], 2 * MANY + i),
					     "a grandchild sees another page");
				_exit(0);
			}
			must(pid > 0 && waitpid(pid, &status, 0) == pid && !status,
			     "the grandchild ended with %x", status);
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && !status,
		     "the child ended with %x", status);
		for (int i = 0; i < n; i++)
			sees(page_is(region[i], i + 1), "region %d has changed", i);
	}
}

/* --- what a fork allocates ---------------------------------------------------- */

static long slab_bytes(void)
{
	return group_number("memory.stat", "slab_unreclaimable");
}

/* in the group: forks, every one or none of which lacks some allocation */
static void many_forks(int rounds, bool failing)
{
	int failed = 0;

	for (int i = 0; i < rounds; i++) {
		bool injected = false;
		int status;
		pid_t pid;

		if (failing)
			arm(i + 1);
		pid = fork();
		if (!pid)
			_exit(0);
		if (failing)
			injected = disarm();
		must(pid > 0 || injected, "fork: %s", strerror(errno));
		failed += pid < 0;
		must(pid < 0 || (waitpid(pid, &status, 0) == pid && !status),
		     "the child ended with %x", status);
	}
	must(failed || !failing, "no fork failed");
}

/*
 * Regions without private pages and regions that children lack come last: a fork has
 * allocated for them before it finds that out.
 */
static void test_left(long failing)
{
	const int rounds = quick ? 150 : 400;
	long before, after;
	int status;
	char text[16];
	pid_t pid;

	if (failing)
		need_injection();
	make_group();
	pid = fork();
	if (!pid) {
		char *last;

		snprintf(text, sizeof(text), "%d", getpid());
		group_put("cgroup.procs", text);
		become_zygote();
		make_regions(40, 0);
		last = arena(4);
		for (int i = 0; i < 40; i++, last += 2 * page_size) {
			place(last, PROT_READ | PROT_WRITE);
			if (i > 20)
				must_call(madvise(last, page_size, MADV_DONTFORK));
		}
		/* caches of the allocator fill up */
		many_forks(rounds / 3, false);
		before = slab_bytes();
		many_forks(rounds, failing);
		/* what waits for RCU, and counters that are kept per processor */
		for (int i = 0; i < 100; i++) {
			after = slab_bytes();
			if (after < before + rounds * 100)
				_exit(0);
			usleep(50000);
		}
		fail("%d forks have left %ld bytes", rounds, after - before);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "it ended with %x", status);
	must(remove_group(), "the group stays");
}

/* --- what a fork commits ------------------------------------------------------- */

static long committed_kb(void)
{
	char text[8192], *line;

	must(read_text("/proc/meminfo", text, sizeof(text)) > 0, "no meminfo");
	line = strstr(text, "Committed_AS:");
	must(line, "no Committed_AS in meminfo");
	return strtol(line + strlen("Committed_AS:"), NULL, 10);
}

/* when what has just ended no longer counts */
static long settled_kb(void)
{
	long kb = committed_kb(), last;

	do {
		last = kb;
		usleep(200000);
		kb = committed_kb();
	} while (kb != last);
	return kb;
}

/* what the regions of a process count for */
static long regions_kb(pid_t pid)
{
	char path[32], line[512];
	long size = 0, kb = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	f = fopen(path, "r");
	must(f, "no %s", path);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "Size:", 5))
			size = strtol(line + 5, NULL, 10);
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, " ac"))
			kb += size;
	}
	fclose(f);
	return kb;
}

/* others that run in the guest begin and end now and then */
static void commits(long kb, const char *when)
{
	long now;

	for (int i = 0; i < 100; i++) {
		now = committed_kb();
		if (now == kb)
			return;
		usleep(50000);
	}
	fail("%s, %ld kB are committed and not %ld", when, now, kb);
}

/* small regions, which are committed together, and some that are not small */
static void make_sizes(void)
{
	static const int pages[] = { 1, 3, 900, 2, 1023, 17, 1024, 1025, 5, 3000, 1, 1024 };
	int n = 40 * ARRAY_SIZE(pages);
	char *at = arena(40 * 8031 * page_size / table_size + 2);

	for (int i = 0; i < n; i++) {
		size_t size = pages[i % ARRAY_SIZE(pages)] * page_size;
		int prot = PROT_READ | PROT_WRITE | (i & 1 ? PROT_EXEC : 0);

		map_at(at, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		no_huge_pages(at, size);
		*at = 1;
		at += size;
	}
}

static void test_commit(long failing)
{
	long before, own;
	int status, ready[2];
	pid_t pid;
	char c;

	if (failing)
		need_injection();
	become_zygote();
	make_sizes();
	before = settled_kb();
	if (failing) {
		many_forks(quick ? 150 : 400, true);
		commits(before, "After forks that failed");
		return;
	}
	must_call(pipe(ready));
	pid = fork();
	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		close(ready[1]);
		/* ends with the parent's end of the pipe */
		_exit(read(ready[0], &c, 1));
	}
	own = regions_kb(pid);
	must(own > 40 * 8000 * (page_size >> 10), "only %ld kB are the child's", own);
	commits(before + own, "With the child");
	close(ready[1]);
	must(waitpid(pid, &status, 0) == pid && !status, "the child ended with %x", status);
	commits(before, "After the child");
}

#define SYSCTL	"/proc/sys/vm/"

/* as they were, to be restored; writing one of overcommit's two limits clears the other */
static struct {
	const char *path;
	char value[24];
} sysctls[] = {
	{ SYSCTL "overcommit_memory" }, { SYSCTL "overcommit_kbytes" },
	{ SYSCTL "overcommit_ratio" }, { SYSCTL "admin_reserve_kbytes" },
	{ SYSCTL "user_reserve_kbytes" },
};

static void save_sysctls(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++)
		read_text(sysctls[i].path, sysctls[i].value, sizeof(sysctls[i].value));
}

static void restore_sysctls(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(sysctls); i++)
		if (sysctls[i].value[0] && strcmp(sysctls[i].value, "0\n"))
			write_text(sysctls[i].path, sysctls[i].value);
	write_text(sysctls[0].path, sysctls[0].value);
}

static void sysctl_put(const char *path, const char *value)
{
	int ret = write_text(path, value);

	if (ret == -EACCES || ret == -EPERM || ret == -EROFS)
		skip("only root may limit what is committed");
	must(!ret, "%s to %s: %s", value, path, strerror(-ret));
}

/*
 * As much as is left for a child may be committed, or less. The kernel counts per processor,
 * which SLACK is for; regions that are not small are a half of the child's.
 */
#define SLACK	(16 << 10)

static void test_limit(long arg)
{
	long before, own, leave, swap, left[5];
	char text[8192];
	pid_t pid;

	become_zygote();
	make_sizes();
	own = regions_kb(getpid());
	left[0] = own / 4;
	left[1] = own * 3 / 4;
	left[2] = own - SLACK;
	left[3] = own + SLACK;
	left[4] = own * 2;
	must(read_text("/proc/meminfo", text, sizeof(text)) > 0, "no meminfo");
	swap = strtol(strstr(text, "SwapTotal:") + strlen("SwapTotal:"), NULL, 10);
	sysctl_put(SYSCTL "admin_reserve_kbytes", "0");
	sysctl_put(SYSCTL "user_reserve_kbytes", "0");
	for (size_t i = 0; i < ARRAY_SIZE(left); i++) {
		int status, err;

		before = settled_kb();
		leave = before + left[i] - swap;
		if (leave < 0)
			skip("swap is larger than what may be committed");
		snprintf(text, sizeof(text), "%ld", leave);
		sysctl_put(SYSCTL "overcommit_kbytes", text);
		sysctl_put(SYSCTL "overcommit_memory", "2");
		pid = fork();
		if (!pid)
			_exit(0);
		err = errno;
		sysctl_put(SYSCTL "overcommit_memory", "0");
		must(pid < 0 || (waitpid(pid, &status, 0) == pid && !status),
		     "the child ended with %x", status);
		must(left[i] < own ? pid < 0 && err == ENOMEM : pid > 0,
		     "with %ld kB left for %ld, fork: %s", left[i], own,
		     pid < 0 ? strerror(err) : "works");
		commits(before, "After a fork at the limit");
	}
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ "A child has its parent's few regions and no other", test_regions, 3 << 8,
		  .guards = INVARIANT(1) },
		{ "A child has its parent's regions and no other", test_regions, 97 << 8,
		  .guards = INVARIANT(1) },
		{ "A child has its parent's many regions and no other", test_regions, MANY << 8,
		  .guards = INVARIANT(1) },
		{ "A child lacks every other region", test_regions, 97 << 8 | 2,
		  .guards = INVARIANT(1) },
		{ "A child lacks one of 17 regions", test_regions, MANY << 8 | 17,
		  .guards = INVARIANT(1) },
		{ "Forks leave nothing behind that they have allocated", test_left, 0,
		  .guards = LIMIT },
		{ "Forks that fail leave nothing behind that they have allocated", test_left, 1,
		  .guards = INVARIANT(8) | LIMIT },
		{ "A child's regions are committed, until it ends", test_commit, 0,
		  .guards = STOCK },
		{ "Forks that fail commit nothing", test_commit, 1, .guards = STOCK },
		{ "A fork fails where no more may be committed, and only there", test_limit, 0,
		  .guards = STOCK },
	};
	int ret;

	save_injection();
	save_sysctls();
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	restore_injection();
	restore_sysctls();
	return ret;
}
