// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the operations that Cohort hooks into cost a process that has not asked
 * for it: instructions of one fork, exit, exec, fault, mmap, munmap, mprotect,
 * madvise, reclaim and mremap, in a small process and in a large one. The same program
 * runs on a pristine kernel and on ours, and the least of many rounds is
 * compared: under instruction counting it is the path without interrupts.
 *
 *   off-cost [--rounds N] [--touched SIZE] [--regions N] [--only OPERATION] [--orders]
 *            [--beside]
 *
 * --only runs one operation, which shows in what functions its instructions are when
 * an emulator counts them.
 *
 * With --beside two other processes share tables meanwhile.
 *
 * With --orders a region has had a page size of its own before, so that the kernel
 * looks for those of all others from then on.
 *
 *   off-cost --member [--zygote] --tables N | --shared SIZE [...]
 *
 * measures a child of a process that has touched a page in each of N tables (2 MB
 * each), or that maps so much shared memory, which covers PMD tables: what members of
 * a cohort pay for calls that have nothing to do with what they share. The same
 * program without --zygote is what they are compared with.
 *
 *   off-cost --ksmd
 *
 * lets KSM scan pages of which no two are equal, and tells what ksmd spends on one.
 *
 * Metrics: OPERATION-small and OPERATION-large, or OPERATION-member, a round each;
 * ksmd-page.
 */
#include "../lib/process.h"
#include <dirent.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#define MAX_ROUNDS 400
/* Pages of the regions that a round maps, touches, protects and unmaps. */
#define BATCH 64

/* The work of `off-cost --exit`, the program that the exec test executes. */
static int leave_at_once(void)
{
	bare_exit(0);
}

struct context {
	/* A file whose pages are in the page cache, mapped privately. */
	int fd;
	size_t file_size;
	char *self;
};

static char *map_batch(int prot, int flags, int fd)
{
	char *p = mmap(NULL, BATCH * PAGE, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		die_errno("mmap");
	return p;
}

static char *map_anon_touched(void)
{
	char *p = map_batch(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	for (int i = 0; i < BATCH; i++)
		*(volatile char *)(p + i * PAGE) = 1;
	return p;
}

static uint64_t op_fork(struct context *c)
{
	uint64_t t = ticks();
	pid_t pid = bare_fork();

	(void)c;
	if (!pid)
		bare_exit(0);
	t = ticks() - t;
	bare_wait(pid);
	return t;
}

static uint64_t op_exit(struct context *c)
{
	pid_t pid = bare_fork();
	uint64_t t = ticks();

	(void)c;
	if (!pid)
		bare_exit(0);
	bare_wait(pid);
	return ticks() - t;
}

/* vfork, so that no table is copied: exec of a static program, its exit, wait. */
static uint64_t op_exec(struct context *c)
{
	char *const argv[] = { c->self, "--exit", NULL };
	char *const envp[] = { NULL };
	uint64_t t = ticks();
	pid_t pid = vfork();

	if (!pid) {
		execve(c->self, argv, envp);
		_exit(127);
	}
	bare_wait(pid);
	return ticks() - t;
}

static uint64_t op_fault_anon(struct context *c)
{
	char *p = map_batch(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint64_t t;

	(void)c;
	/* The first fault may have to allocate a table; time the others. */
	*(volatile char *)p = 1;
	t = ticks();
	for (int i = 1; i < BATCH; i++)
		*(volatile char *)(p + i * PAGE) = 1;
	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t / (BATCH - 1);
}

/* A read fault, with the pages around it that the kernel maps along. */
static uint64_t op_fault_file(struct context *c)
{
	char *p = map_batch(PROT_READ, MAP_PRIVATE, c->fd);
	uint64_t t;

	(void)*(volatile char *)p;
	t = ticks();
	(void)*(volatile char *)(p + BATCH / 2 * PAGE);
	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t;
}

/* A write to a private file page that was read before: copied. */
static uint64_t op_fault_cow_file(struct context *c)
{
	char *p = map_batch(PROT_READ | PROT_WRITE, MAP_PRIVATE, c->fd);
	uint64_t t;

	(void)*(volatile char *)p;
	t = ticks();
	*(volatile char *)p = 1;
	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t;
}

/* A write to an anonymous page that a living child shares: copied. */
static uint64_t op_fault_cow(struct context *c)
{
	char *p = map_anon_touched();
	uint64_t t;
	pid_t pid;

	(void)c;
	pid = bare_fork();
	if (!pid)
		bare_exit(0);
	/* The child has not run: take_processor() holds it back. */
	*(volatile char *)p = 2;
	t = ticks();
	for (int i = 1; i < BATCH; i++)
		*(volatile char *)(p + i * PAGE) = 2;
	t = ticks() - t;
	bare_wait(pid);
	munmap(p, BATCH * PAGE);
	return t / (BATCH - 1);
}

static uint64_t op_mmap(struct context *c)
{
	uint64_t t = ticks();
	char *p = mmap(NULL, BATCH * PAGE, PROT_READ, MAP_PRIVATE, c->fd, 0);

	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t;
}

static uint64_t op_munmap(struct context *c)
{
	char *p = map_batch(PROT_READ, MAP_PRIVATE, c->fd);
	uint64_t t = ticks();

	munmap(p, BATCH * PAGE);
	return ticks() - t;
}

static uint64_t op_munmap_touched(struct context *c)
{
	char *p = map_anon_touched();
	uint64_t t = ticks();

	(void)c;
	munmap(p, BATCH * PAGE);
	return ticks() - t;
}

/* The middle of a touched region: two splits, and the entries between them. */
static uint64_t op_mprotect(struct context *c)
{
	char *p = map_anon_touched();
	uint64_t t = ticks();

	(void)c;
	if (mprotect(p + BATCH / 4 * PAGE, BATCH / 2 * PAGE, PROT_READ))
		die_errno("mprotect");
	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t;
}

static uint64_t op_madvise(struct context *c)
{
	char *p = map_anon_touched();
	uint64_t t = ticks();

	(void)c;
	if (madvise(p, BATCH * PAGE, MADV_DONTNEED))
		die_errno("madvise");
	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t;
}

/*
 * Reclaim looks at each page through the reverse map, twice, and takes its entry away. The
 * file is in memory and there is no swap, so the pages themselves stay.
 */
static uint64_t op_reclaim(struct context *c)
{
	char *p = map_batch(PROT_READ, MAP_SHARED, c->fd);
	uint64_t t;

	for (int i = 0; i < BATCH; i++)
		(void)*(volatile char *)(p + i * PAGE);
	t = ticks();
	if (madvise(p, BATCH * PAGE, MADV_PAGEOUT))
		die_errno("madvise(MADV_PAGEOUT)");
	t = ticks() - t;
	munmap(p, BATCH * PAGE);
	return t;
}

static uint64_t op_mremap(struct context *c)
{
	char *p = map_anon_touched();
	char *q = map_batch(PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint64_t t = ticks();

	(void)c;
	if (mremap(p, BATCH * PAGE, BATCH * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q) != q)
		die_errno("mremap");
	t = ticks() - t;
	munmap(q, BATCH * PAGE);
	return t;
}

static uint64_t op_brk(struct context *c)
{
	char *old = sbrk(0);
	uint64_t t = ticks();

	(void)c;
	if (sbrk(BATCH * PAGE) != old)
		die_errno("sbrk");
	t = ticks() - t;
	sbrk(-(intptr_t)(BATCH * PAGE));
	return t;
}

static uint64_t read_whole(const char *path)
{
	static char text[KB(64)];
	uint64_t t = ticks();
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die_errno(path);
	while ((n = read(fd, text, sizeof(text))) > 0)
		;
	close(fd);
	if (n < 0)
		die_errno(path);
	return ticks() - t;
}

/* Reads what /proc says of each region. */
static uint64_t op_smaps(struct context *c)
{
	(void)c;
	return read_whole("/proc/self/smaps");
}

/* Reads what /proc says of the whole process: of a member it looks at all that it shares. */
static uint64_t op_stat(struct context *c)
{
	(void)c;
	return read_whole("/proc/self/stat");
}

static uint64_t op_oom_score(struct context *c)
{
	(void)c;
	return read_whole("/proc/self/oom_score");
}

static const struct {
	const char *name;
	uint64_t (*run)(struct context *c);
} operation[] = {
	{ "fork", op_fork },
	{ "exit", op_exit },
	{ "exec", op_exec },
	{ "fault-anon", op_fault_anon },
	{ "fault-file", op_fault_file },
	{ "fault-cow-file", op_fault_cow_file },
	{ "fault-cow", op_fault_cow },
	{ "mmap", op_mmap },
	{ "munmap", op_munmap },
	{ "munmap-touched", op_munmap_touched },
	{ "mprotect", op_mprotect },
	{ "madvise", op_madvise },
	{ "reclaim", op_reclaim },
	{ "mremap", op_mremap },
	{ "brk", op_brk },
	{ "smaps", op_smaps },
	{ "stat", op_stat },
	{ "oom-score", op_oom_score },
};

static void run_all(struct context *c, uint64_t *took, int rounds, const char *only,
		    const char *size)
{
	for (size_t k = 0; k < ARRAY_SIZE(operation); k++) {
		char name[64];

		snprintf(name, sizeof(name), "%s-%s", operation[k].name, size);
		if (only && strcmp(only, name))
			continue;
		/* Two unreported rounds warm the allocators' per-CPU lists. */
		for (int i = -2; i < rounds; i++) {
			uint64_t t = operation[k].run(c);

			if (i >= 0)
				took[i] = t;
		}
		for (int i = 0; i < rounds; i++)
			metric(name, took[i], "instructions");
		fflush(stdout);
	}
}

/* --- ksmd ------------------------------------------------------------------- */

#define KSM	"/sys/kernel/mm/ksm/"
/* At least as many as are scanned between two reads of the counters. */
#define KSM_PAGES 4096

static void write_number(const char *path, int n)
{
	FILE *f = fopen(path, "w");

	if (!f || fprintf(f, "%d", n) < 0 || fclose(f))
		die_errno(path);
}

/* The clock of ksmd's time on the processor. */
static clockid_t ksmd_clock(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	clockid_t clock;

	while (d && (e = readdir(d))) {
		char path[300], comm[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%31s", comm) != 1)
			comm[0] = 0;
		fclose(f);
		if (strcmp(comm, "ksmd"))
			continue;
		if (clock_getcpuclockid(atoi(e->d_name), &clock))
			die("off-cost: ksmd has no clock");
		closedir(d);
		return clock;
	}
	die("off-cost: there is no ksmd");
}

/* Under instruction counting a nanosecond is an instruction. */
static uint64_t time_of(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		die_errno("clock_gettime");
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/*
 * ksmd's instructions for each page scanned, when no page merges: a walk to the page, its
 * checksum and a search of the trees. The first two scans are not counted, in which pages
 * are seen for the first time.
 */
static void ksmd_scans(void)
{
	clockid_t clock = ksmd_clock();
	uint64_t *p = mmap(NULL, KSM_PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t first, pages, spent;

	if (p == MAP_FAILED || madvise(p, KSM_PAGES * PAGE, MADV_MERGEABLE))
		die_errno("memory for KSM");
	/* A kernel without huge pages does not know it. */
	madvise(p, KSM_PAGES * PAGE, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < KSM_PAGES; i++)
		p[i * PAGE / sizeof(*p)] = (i + 1) * 0x9e3779b97f4a7c15;
	write_number(KSM "pages_to_scan", 256);
	write_number(KSM "sleep_millisecs", 1);
	/* or pages that do not merge are left out after a while */
	write_number(KSM "smart_scan", 0);
	first = read_number(KSM "full_scans") + 3;
	write_number(KSM "run", 1);
	while (read_number(KSM "full_scans") < first)
		usleep(1000);
	pages = read_number(KSM "pages_scanned");
	spent = time_of(clock);
	while (read_number(KSM "full_scans") < first + 8)
		usleep(1000);
	pages = read_number(KSM "pages_scanned") - pages;
	spent = time_of(clock) - spent;
	write_number(KSM "run", 0);
	if (pages < 7 * KSM_PAGES)
		die("off-cost: only %llu pages were scanned", (unsigned long long)pages);
	metric("ksmd-page", spent / pages, "instructions");
}

/* Regions of one page that cannot merge, as a program of many libraries has. */
static void add_regions(int n)
{
	for (int i = 0; i < n; i++) {
		char *p = mmap(NULL, PAGE, i & 1 ? PROT_READ : PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			die_errno("mmap");
		if (!(i & 1))
			*(volatile char *)p = 1;
	}
}

#define TABLE	MB(2)

/* What a member shares: private memory with a page in each table, or shared memory. */
static void map_to_share(size_t tables, size_t shared)
{
	size_t size = tables ? tables * TABLE : shared;
	int flags = tables ? MAP_PRIVATE : MAP_SHARED;
	char *p;

	if (!size)
		return;
	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 flags | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		die_errno("mmap");
	if (madvise(p, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		die_errno("madvise(MADV_NOHUGEPAGE)");
	for (size_t i = 0; i < size; i += TABLE)
		*(volatile char *)(p + i) = 1;
}

/* The work of `off-cost --hold FD`: two processes that share tables, and sleep. */
static int hold_cohort(int ready)
{
	become_zygote(0);
	map_to_share(32, 0);
	if (!bare_fork() && write(ready, "", 1) != 1)
		bare_exit(1);
	for (;;)
		pause();
}

/*
 * Two other processes share tables while this one measures. They run a copy of this
 * program, as they would otherwise stand beside it in the trees of its file and of its
 * anonymous memory, where their cost would not be that of sharing tables.
 */
static void start_cohort(void)
{
	int ready[2], copy = memfd_create("other", 0), self = open("/proc/self/exe", O_RDONLY);
	char fd[16], c;
	struct stat st;

	if (copy < 0 || self < 0 || fstat(self, &st) || pipe(ready))
		die_errno("a copy of this program");
	if (sendfile(copy, self, NULL, st.st_size) != st.st_size)
		die_errno("sendfile");
	close(self);
	snprintf(fd, sizeof(fd), "%d", ready[1]);
	if (!bare_fork()) {
		fexecve(copy, (char *[]){ "other", "--hold", fd, NULL }, environ);
		bare_exit(1);
	}
	close(copy);
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		die("off-cost: no cohort");
	close(ready[0]);
}

/* One region of this machine gets pages of 64 KB. */
static void ask_for_an_order(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || madvise(p, PAGE, MADV_ORDER | 4 << MADV_ORDER_SHIFT))
		die_errno("madvise");
	munmap(p, PAGE);
}

/* --- members ------------------------------------------------------------------ */

/* The child measures; the parent lives on, so that what they share stays shared. */
static void run_as_member(struct context *c, int rounds, const char *only)
{
	pid_t pid = bare_fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		uint64_t *took;

		/* The parent's notes are not inherited. */
		took = scratch_map(sizeof(*took) * MAX_ROUNDS);
		run_all(c, took, rounds, only, "member");
		fflush(stdout);
		bare_exit(0);
	}
	bare_wait(pid);
}

int main(int argc, char **argv)
{
	struct context c = { .file_size = BATCH * PAGE };
	size_t touched = MB(64);
	int rounds = 60, regions = 300;
	const char *only = NULL;
	bool orders = false, beside = false, member = false, zygote = false;
	size_t tables = 0, shared = 0;
	uint64_t *took;
	char *p;

	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--exit"))
			return leave_at_once();
		else if (!strcmp(argv[i], "--hold") && more)
			return hold_cohort(atoi(argv[++i]));
		else if (!strcmp(argv[i], "--ksmd"))
			return ksmd_scans(), 0;
		else if (!strcmp(argv[i], "--rounds") && more)
			rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--touched") && more)
			touched = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--regions") && more)
			regions = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--only") && more)
			only = argv[++i];
		else if (!strcmp(argv[i], "--orders"))
			orders = true;
		else if (!strcmp(argv[i], "--beside"))
			beside = true;
		else if (!strcmp(argv[i], "--member"))
			member = true;
		else if (!strcmp(argv[i], "--zygote"))
			zygote = true;
		else if (!strcmp(argv[i], "--tables") && more)
			tables = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--shared") && more)
			shared = parse_size(argv[++i]);
		else
			die("off-cost: what is %s?", argv[i]);
	}
	if (rounds < 1 || rounds > MAX_ROUNDS)
		die("off-cost: one to %d rounds", MAX_ROUNDS);

	fixed_layout(argv);
	if (orders)
		ask_for_an_order();
	if (beside)
		start_cohort();
	c.self = "/proc/self/exe";
	c.fd = memfd_create("off-cost", MFD_CLOEXEC);
	if (c.fd < 0 || ftruncate(c.fd, c.file_size))
		die_errno("memfd_create");
	p = mmap(NULL, c.file_size, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
	if (p == MAP_FAILED)
		die_errno("mmap");
	memset(p, 1, c.file_size);
	munmap(p, c.file_size);
	took = scratch_map(sizeof(*took) * MAX_ROUNDS);
	if (zygote)
		become_zygote(0);
	if (member)
		map_to_share(tables, shared);
	take_processor();
	if (member) {
		run_as_member(&c, rounds, only);
		return 0;
	}

	run_all(&c, took, rounds, only, "small");

	p = mmap(NULL, touched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		die_errno("mmap");
	madvise(p, touched, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < touched; i += PAGE)
		*(volatile char *)(p + i) = 1;
	add_regions(regions);
	run_all(&c, took, rounds, only, "large");
	return 0;
}
