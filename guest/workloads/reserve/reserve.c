// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Large pages on a fragmented machine: who gets them, and how long does it take?
 *
 *   reserve --fragment none|movable|kernel --ask now|wait|thp [--blocks N] [--limit MS]
 *
 * First memory is fragmented. `movable`: all of it is filled with base pages, of
 * which every second one is given back. `kernel`: before that the kernel takes all
 * that it may use for pipes, and gives seven pages of eight back; nobody can move the
 * others. What is still there of whole blocks of 2 MB is taken away.
 *
 * Then a region of --blocks blocks is written, a byte in each: with the largest
 * order and no policy (now), with the policy of waiting (wait), or with
 * MADV_HUGEPAGE (thp), for which the machine compacts as `defrag` has it. A block
 * that is not there after --limit milliseconds is given up.
 *
 * Metrics: of the machine before the region is written, free-memory and
 * free-blocks, and kernel-pages that cannot be moved; for each block, elapsed and
 * instructions (of this program alone: under `icount` a nanosecond each), and got: 1
 * if it is one large page; and gave-up and waits of all.
 */
#include "../lib/counters.h"

#include <setjmp.h>
#include <sys/time.h>


#define DEFRAG	"/sys/kernel/mm/transparent_hugepage/defrag"
#define ENABLED	"/sys/kernel/mm/transparent_hugepage/enabled"
#define LARGE	MB(2)
#define LARGE_ORDER	9
#define MAX_PIPES	256

static void put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die_errno(path);
	close(fd);
}

static const char *get_text(const char *path)
{
	static char text[KB(64)];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		die_errno(path);
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += n;
	close(fd);
	text[len] = '\0';
	return text;
}

/* A counter that only one of the kernels has is 0 on the other. */
static uint64_t event(const char *name)
{
	int64_t value = vmstat_value(get_text("/proc/vmstat"), name);

	return value < 0 ? 0 : value;
}

/* Blocks of 2 MB or more that are free. */
static long free_blocks(void)
{
	const char *line = get_text("/proc/buddyinfo");
	long sum = 0;

	/* Node 0, zone   Normal  12  3 ... */
	for (; line && *line; line = strchr(line, '\n'), line += !!line) {
		const char *p = strstr(line, "zone");
		char *end;

		if (!p)
			break;
		p += 4 + strspn(p + 4, " ");
		p += strcspn(p, " ");
		for (int order = 0; *p != '\n'; order++, p = end) {
			long n = strtol(p, &end, 10);

			if (end == p || memchr(p, '\n', end - p))
				break;
			if (order >= LARGE_ORDER)
				sum += n << (order - LARGE_ORDER);
		}
	}
	return sum;
}

/* Free pages of all zones, or of those alone that the kernel's own pages come from. */
static size_t free_pages(bool kernel)
{
	const char *p = get_text("/proc/zoneinfo");
	size_t sum = 0;

	while ((p = strstr(p, "zone "))) {
		bool movable;
		const char *pages;

		p += 5 + strspn(p + 5, " ");
		movable = !strncmp(p, "Movable", 7);
		pages = strstr(p, "pages free");
		if (pages && !(kernel && movable))
			sum += strtoul(pages + 10, NULL, 10);
	}
	return sum;
}

/* Above what the kernel keeps for itself: it has more than usual for large pages. */
#define LEFT	(MB(48) / PAGE)

/* Base pages of ours all over the memory: how many there were for us. */
static size_t fill(char *all, size_t pages)
{
	for (size_t i = 0; i < pages; i++) {
		if (!(i % 256) && (!free_blocks() || free_pages(false) < LEFT))
			return i;
		*(volatile char *)(all + i * PAGE) = 1;
	}
	die("there is more memory than was foreseen");
}

static void give_back(char *all, size_t pages, size_t first, size_t every)
{
	for (size_t i = first; i < pages; i += every)
		if (madvise(all + i * PAGE, PAGE, MADV_DONTNEED))
			die_errno("madvise(MADV_DONTNEED)");
}

#define TURNS	8

/*
 * Pages of the kernel's own all over the memory that it may use: it takes nearly
 * all of it for pipes, and gives seven pages of eight back.
 */
static size_t fill_kernel(void)
{
	static char page[PAGE];
	static int fds[MAX_PIPES][2];
	size_t pages = 0, kept = 0;
	int n = 0, i;

	while (free_pages(true) > LEFT) {
		if (n + TURNS > MAX_PIPES)
			die("there is more memory than was foreseen");
		for (i = n; i < n + TURNS; i++) {
			if (pipe2(fds[i], O_NONBLOCK | O_CLOEXEC))
				die_errno("pipe2");
			/* as many slots as pages */
			if (fcntl(fds[i][1], F_SETPIPE_SZ, (int)MB(4)) < 0)
				die_errno("F_SETPIPE_SZ");
		}
		for (i = n; write(fds[i][1], page, PAGE) == PAGE; i = n + ++pages % TURNS) {
			kept += i == n;
			if (!(pages % 256) && free_pages(true) <= LEFT)
				break;
		}
		n += TURNS;
	}
	for (i = 0; i < n; i++)
		while (i % TURNS && read(fds[i][0], page, PAGE) > 0)
			;
	return kept;
}

/* Memory that is free in whole blocks now. */
static void eat_blocks(void)
{
	size_t len = MB(256);
	char *p = map_own_tables(len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);

	put_text(DEFRAG, "never");
	if (madvise(p, len, MADV_HUGEPAGE))
		die_errno("madvise(MADV_HUGEPAGE)");
	for (size_t at = 0; at < len && free_blocks(); at += LARGE) {
		uint64_t had = event("thp_fault_alloc");

		*(volatile char *)(p + at) = 1;
		if (event("thp_fault_alloc") == had)
			break;
	}
	put_text(DEFRAG, "madvise");
}

static void fragment(const char *how)
{
	size_t pages = (size_t)sysconf(_SC_PHYS_PAGES), kernel = 0;
	char *all;

	if (!strcmp(how, "none"))
		return;
	if (strcmp(how, "movable") && strcmp(how, "kernel"))
		die("--fragment %s: none, movable or kernel", how);
	put_text("/proc/sys/vm/drop_caches", "3");
	all = map_own_tables(pages * PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_NORESERVE);
	if (!strcmp(how, "kernel"))
		kernel = fill_kernel();
	pages = fill(all, pages);
	give_back(all, pages, 0, 2);
	metric("touched", pages, "pages");
	metric("whole-blocks", free_blocks(), "blocks");
	eat_blocks();
	metric("kernel-pages", kernel, "pages");
}

static sigjmp_buf too_long;

static void on_alarm(int sig)
{
	siglongjmp(too_long, sig);
}

/* Write to a block: false if it was given up. */
static bool write_block(volatile char *block, long limit)
{
	struct itimerval timer = {
		.it_value = { .tv_sec = limit / 1000, .tv_usec = limit % 1000 * 1000 },
	};
	struct itimerval off = {};

	if (sigsetjmp(too_long, 1))
		return false;
	setitimer(ITIMER_REAL, &timer, NULL);
	block[LARGE / 2] = 1;
	setitimer(ITIMER_REAL, &off, NULL);
	return true;
}

static uint64_t own_time(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts))
		die_errno("CLOCK_THREAD_CPUTIME_ID");
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	const char *how = "none", *ask = "now";
	unsigned long blocks = 32, waits, gave_up = 0;
	unsigned long advice = MADV_ORDER | LARGE_ORDER << MADV_ORDER_SHIFT;
	long limit = 500;
	char *region;

	for (int i = 1; i < argc; i++) {
		if (i + 1 == argc)
			die("%s: no value", argv[i]);
		if (!strcmp(argv[i], "--fragment"))
			how = argv[++i];
		else if (!strcmp(argv[i], "--ask"))
			ask = argv[++i];
		else if (!strcmp(argv[i], "--blocks"))
			blocks = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--limit"))
			limit = parse_size(argv[++i]);
		else
			die("%s: unknown option", argv[i]);
	}
	if (!strcmp(ask, "thp"))
		advice = MADV_HUGEPAGE;
	else if (!strcmp(ask, "wait"))
		advice |= MADV_ORDER_WAIT;
	else if (strcmp(ask, "now"))
		die("--ask %s: now, wait or thp", ask);
	signal(SIGALRM, on_alarm);

	/* nobody compacts meanwhile but who asks */
	put_text("/proc/sys/vm/compaction_proactiveness", "0");
	put_text(ENABLED, "madvise");
	put_text(DEFRAG, "madvise");
	region = map_own_tables(blocks * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	if (madvise(region, blocks * LARGE, advice))
		die("madvise: %s", strerror(errno));
	fragment(how);
	metric("free-memory", free_pages(false) * PAGE >> 20, "MB");
	metric("free-blocks", free_blocks(), "blocks");

	waits = event("order_waited");
	for (unsigned long i = 0; i < blocks; i++) {
		uint64_t had = event("thp_fault_alloc"), cpu = own_time(), start = ticks();
		bool there = write_block(region + i * LARGE, limit);

		start = ticks() - start;
		cpu = own_time() - cpu;
		gave_up += !there;
		metric("elapsed", start, "ns");
		metric("instructions", cpu, "instructions");
		metric("got", event("thp_fault_alloc") - had, "pages");
	}
	metric("gave-up", gave_up, "blocks");
	metric("waits", event("order_waited") - waits, "waits");
	return 0;
}
