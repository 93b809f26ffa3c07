// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A zygote of real libraries, and what its children cost.
 *
 *   zygote fork    [OPTIONS]   40 forks: instructions, tables, entries (Table 4)
 *   zygote inherit [OPTIONS]   code entries that applications find (Table 3)
 *   zygote launch  [OPTIONS]   fork to the application's first own code (Figures 7, 9)
 *
 *   --zygote          ask the kernel to share page tables
 *   --layout shipped  libraries as the dynamic linker places them (default)
 *   --layout 2mb      code and data of a library in 2 MB ranges of their own
 *   --rounds N        default 40, launch 100
 *   --code N          code entries to populate before the first fork (5900)
 *   --copied N        entries that a stock fork has to copy (3900)
 *
 * It loads the list in libraries.h, reads code pages until so many of their
 * entries are populated, and fills the heap until so many entries are there
 * that a stock fork copies. Both numbers are the paper's zygote's.
 */
#include "../lib/mark.h"
#include "parts.h"

#define MAX_ROUNDS 200
#define MAX_CODE_PAGES 65536
#define LIBRARIES_NEEDED 88

struct options {
	const char *what;
	bool zygote;
	bool separate;
	int rounds;
	size_t code, copied;
};

/* What is written while a child is alive; fork leaves it out. */
struct scratch {
	struct counter_reader reader;
	struct counters before, forked, after;
	struct {
		uint64_t fork, libc_fork, launch, fork_launch;
		uint64_t faults, shared, tables;
		struct counters in_fork, in_libc_fork, in_launch;
	} round[MAX_ROUNDS];
	unsigned char finds[MAX_CODE_PAGES];
	struct regions regions;
};

static struct options opt;
static struct scratch *s;

/* --- the zygote's memory ------------------------------------------------------- */

static void read_page(uintptr_t at)
{
	(void)*(volatile char *)at;
}

/*
 * Populate the same part of every library's code, in all @want entries. The
 * kernel maps the pages around a fault along; entries beyond the part are
 * dropped again, so that the number is right whatever the kernel does.
 */
static void populate_code(size_t want)
{
	struct regions *rs = &s->regions;
	size_t all = 0, done = 0, seen = 0;

	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++)
		if (is_code(&rs->r[i]))
			all += (rs->r[i].end - rs->r[i].start) / PAGE;
	if (all < want)
		die("%zu pages of code, %zu wanted: more libraries are needed", all, want);
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];
		size_t pages = (r->end - r->start) / PAGE, quota;

		if (!is_code(r))
			continue;
		seen += pages;
		/* Rounding carries over: the sum is exactly @want. */
		quota = (size_t)((double)want * seen / all + 0.5) - done;
		if (quota > pages)
			quota = pages;
		done += quota;
		madvise((void *)r->start, r->end - r->start, MADV_DONTNEED);
		for (size_t k = 0; k < quota; k++)
			read_page(r->start + k * PAGE);
		if (quota < pages)
			madvise((void *)(r->start + quota * PAGE), (pages - quota) * PAGE,
				MADV_DONTNEED);
	}
}

/*
 * The same, and what this program runs meanwhile: the first try tells how much
 * that is.
 */
static void populate_code_about(size_t want)
{
	struct footprint fp;

	populate_code(want);
	footprint_read(&fp, &s->regions, s);
	if (fp.code > want)
		populate_code(want - (fp.code - want));
}

/*
 * What a zygote makes of its own: many small objects, written once. The heap
 * grows until the entries that fork copies are @want.
 */
static void populate_heap(size_t want)
{
	struct footprint fp;

	footprint_read(&fp, &s->regions, s);
	while (fp.copied < want) {
		size_t missing = want - fp.copied;

		for (size_t bytes = 0; bytes < missing * PAGE; bytes += 256)
			memset(malloc(240), 1, 240);
		footprint_read(&fp, &s->regions, s);
	}
}

static void print_zygote(const struct loader *l)
{
	struct footprint fp;

	footprint_read(&fp, &s->regions, s);
	metric("libraries", objects_loaded(), "libraries");
	metric("libraries-separated", l->separated, "libraries");
	metric("regions", fp.regions, "regions");
	metric("code-entries", fp.code, "PTEs");
	metric("copied-by-stock", fp.copied, "PTEs");
	metric("zygote-table-kb", proc_field(getpid(), "status", "VmPTE"), "KB");
	fflush(stdout);
}

/* --- fork: Table 4 ----------------------------------------------------------------- */

/* One fork of the kind given: what it took in @took and @in_fork. */
static void fork_round(pid_t (*forks)(void), uint64_t *took, struct counters *in_fork)
{
	uint64_t t0, t1;
	pid_t pid;

	counters_read(&s->reader, &s->before);
	t0 = ticks();
	pid = forks();
	if (!pid)
		bare_exit(0);
	t1 = ticks();
	counters_read(&s->reader, &s->forked);
	bare_wait(pid);
	counters_sub(&s->forked, &s->before);
	*took = t1 - t0;
	*in_fork = s->forked;
}

static void run_fork(void)
{
	if (opt.zygote)
		become_zygote(0);
	/* Unreported: it warms the kernel's caches. */
	for (int i = -1; i < opt.rounds; i++) {
		int at = i < 0 ? 0 : i;

		fork_round(bare_fork, &s->round[at].fork, &s->round[at].in_fork);
	}
	/* The C library's, with the writes that it makes in the parent. */
	for (int i = -1; i < opt.rounds; i++) {
		int at = i < 0 ? 0 : i;

		fork_round(fork, &s->round[at].libc_fork, &s->round[at].in_libc_fork);
	}
	for (int i = 0; i < opt.rounds; i++) {
		metric("fork-instructions", s->round[i].fork, "instructions");
		counters_print(&s->reader, &s->round[i].in_fork, "fork", "");
		metric("libc-fork-instructions", s->round[i].libc_fork, "instructions");
		counters_print(&s->reader, &s->round[i].in_libc_fork, "libc-fork", "");
	}
}

/* --- inherit: Table 3 ------------------------------------------------------------------ */

/*
 * Which code an application uses is seen in a child that may not execute or read
 * any page of a library: each first use is a signal, upon which the page is noted
 * and opened. The handler must not call a library itself, hence the system calls
 * spelled out; its return goes through one page of the C library, noted along.
 */
struct watch {
	size_t pages;
	uintptr_t page[MAX_CODE_PAGES];
	unsigned char used[MAX_CODE_PAGES];
};

/* Shared with the child that is watched, so that it can leave the answer there. */
static struct watch *watch;

#if defined(__x86_64__)
static long bare_syscall(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static long bare_syscall(long nr, long a, long b, long c)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
#else
#error "write bare_syscall() for this architecture"
#endif

static void on_use(int sig, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(PAGE - 1);
	size_t low = 0, high = watch->pages;

	(void)context;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (watch->page[middle] < page)
			low = middle + 1;
		else
			high = middle;
	}
	/* Not the watch's doing, or opening the page failed: a real crash. */
	if (low == watch->pages || watch->page[low] != page || watch->used[low] ||
	    bare_syscall(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC)) {
		bare_syscall(SYS_exit_group, 128 + sig, 0, 0);
	}
	watch->used[low] = 1;
}

/* The code pages of the zygote, this program's own left out: it is the handler. */
static void watch_code(void)
{
	struct regions *rs = &s->regions;
	uintptr_t own = (uintptr_t)on_use;

	watch = map_own_tables(sizeof(*watch), PROT_READ | PROT_WRITE, MAP_SHARED);
	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];

		if (!is_code(r) || (own >= r->start && own < r->end))
			continue;
		for (uintptr_t at = r->start; at < r->end; at += PAGE) {
			if (watch->pages == MAX_CODE_PAGES)
				die("more than %d pages of code", MAX_CODE_PAGES);
			watch->page[watch->pages++] = at;
		}
	}
}

/* Note in @bit which of the watched pages application @a uses. */
static void application_uses(size_t a, unsigned char *bit)
{
	pid_t pid;

	memset(watch->used, 0, watch->pages);
	fflush(stdout);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		struct sigaction act = { .sa_sigaction = on_use, .sa_flags = SA_SIGINFO | SA_NODEFER };

		if (sigaction(SIGSEGV, &act, NULL))
			bare_exit(1);
		for (size_t i = 0; i < watch->pages; i++)
			if (bare_syscall(SYS_mprotect, watch->page[i], PAGE, PROT_NONE))
				bare_syscall(SYS_exit_group, 1, 0, 0);
		application_run(a);
		bare_exit(0);
	}
	bare_wait(pid);
	memcpy(bit, watch->used, watch->pages);
}

/* Which of the watched pages are in @pid's tables. */
static void code_present(pid_t pid, unsigned char *bit)
{
	int pagemap = pagemap_open(pid);
	size_t i = 0, n;

	for (; i < watch->pages; i += n) {
		for (n = 1; i + n < watch->pages && watch->page[i + n] == watch->page[i] + n * PAGE; n++)
			;
		pages_present(pagemap, watch->page[i], watch->page[i] + n * PAGE, bit + i, NULL);
	}
	close(pagemap);
}

static size_t count_both(const unsigned char *a, const unsigned char *b)
{
	size_t n = 0;

	for (size_t i = 0; i < watch->pages; i++)
		n += a[i] && b[i];
	return n;
}

/*
 * Start application @a in a child, note in @bit what of the watched code its
 * tables hold before its first step, and let it run.
 */
static void application_finds(size_t a, unsigned char *bit)
{
	int to_child[2], to_parent[2];
	char byte = 0;
	pid_t pid;

	if (pipe(to_child) || pipe(to_parent))
		die_errno("pipe");
	/* An interpreter flushes what the child has of standard output. */
	fflush(stdout);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
			bare_exit(1);
		application_run(a);
		bare_exit(0);
	}
	close(to_parent[1]);
	if (read(to_parent[0], &byte, 1) != 1)
		die("application %s did not start", application[a].name);
	code_present(pid, bit);
	if (write(to_child[1], &byte, 1) != 1)
		die_errno("pipe");
	bare_wait(pid);
	close(to_child[0]);
	close(to_child[1]);
	close(to_parent[0]);
}

static void print_entries(const char *what, size_t a, size_t n)
{
	char name[64];

	snprintf(name, sizeof(name), "%s-%s", what, application[a].name);
	metric(name, n, "PTEs");
	metric(what, n, "PTEs");
}

/*
 * "Inherited" is an entry that the application uses and finds populated when it
 * starts. What it finds is read from the tables of a child of the zygote: cold,
 * of a zygote as it was before any fork, and warm, after the same application
 * has run in another child.
 */
static void run_inherit(void)
{
	size_t apps = ARRAY_SIZE(application);
	unsigned char (*uses)[MAX_CODE_PAGES];

	uses = scratch_map(apps * sizeof(*uses));
	watch_code();
	for (size_t a = 0; a < apps; a++)
		application_uses(a, uses[a]);
	if (opt.zygote)
		become_zygote(0);
	for (size_t a = 0; a < apps; a++) {
		/* As before any fork. */
		populate_code_about(opt.code);
		application_finds(a, s->finds);
		print_entries("inherited-cold", a, count_both(uses[a], s->finds));
		application_finds(a, s->finds);
		print_entries("inherited-warm", a, count_both(uses[a], s->finds));
		print_entries("code-used", a, count_both(uses[a], uses[a]));
		fflush(stdout);
	}
}

/* --- launch: Figures 7 and 9 --------------------------------------------------------------- */

/* Sent by the child when its start-up is done; the parent then reads counters. */
struct launched {
	uint64_t start, end;
};

static void launch_round(int i)
{
	struct launched done;
	struct counters *d = &s->round[i].in_launch;
	int to_parent[2], to_child[2];
	long shared, pte_kb;
	char byte = 0;
	uint64_t start;
	pid_t pid;

	if (pipe(to_parent) || pipe(to_child))
		die_errno("pipe");
	counters_read(&s->reader, &s->before);
	start = ticks();
	pid = bare_fork();
	if (!pid) {
		mark(MARK_BEGIN, i);
		done.start = ticks();
		application_run(HELLO);
		done.end = ticks();
		mark(MARK_END, i);
		if (write(to_parent[1], &done, sizeof(done)) != sizeof(done) ||
		    read(to_child[0], &byte, 1) != 1)
			bare_exit(1);
		bare_exit(0);
	}
	if (pid < 0)
		die_errno("fork");
	close(to_parent[1]);
	if (read(to_parent[0], &done, sizeof(done)) != sizeof(done))
		die("the child did not start up");
	counters_read(&s->reader, &s->after);
	shared = proc_field(pid, "cohort", "SharedTables");
	pte_kb = proc_field(pid, "status", "VmPTE");
	if (write(to_child[1], &byte, 1) != 1)
		die_errno("pipe");
	{
		struct rusage_faults { struct timeval u, t; long v[14]; } ru;
		int status;

		if (syscall(SYS_wait4, pid, &status, 0, &ru) != pid || status)
			die("the child ended with wait status 0x%x", status);
		s->round[i].faults = ru.v[4];
	}
	close(to_parent[0]);
	close(to_child[0]);
	close(to_child[1]);

	s->round[i].launch = done.end - done.start;
	s->round[i].fork_launch = done.end - start;
	s->round[i].shared = shared > 0 ? shared : 0;
	s->round[i].tables = pte_kb / 4;
	*d = s->after;
	counters_sub(d, &s->before);
}

/* How many libraries a start-up runs code of; the paper's applications 21 to 46. */
static void print_invoked(void)
{
	struct regions *rs = &s->regions;
	size_t used = 0, pages = 0;
	int libraries = 0;

	watch_code();
	application_uses(HELLO, s->finds);
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];
		size_t before = used;

		if (pages == watch->pages || watch->page[pages] != r->start)
			continue;
		for (; pages < watch->pages && watch->page[pages] < r->end; pages++)
			used += s->finds[pages];
		libraries += used > before;
	}
	metric("launch-libraries-used", libraries, "libraries");
	metric("launch-code-used", used, "PTEs");
}

static void run_launch(void)
{
	print_invoked();
	if (opt.zygote)
		become_zygote(0);
	/*
	 * A zygote has run most of what its children start with: what is
	 * initialized once is done here, what is done each time is done again.
	 */
	application_run(HELLO);
	for (int i = -1; i < opt.rounds; i++)
		launch_round(i < 0 ? 0 : i);
	for (int i = 0; i < opt.rounds; i++) {
		metric("launch-instructions", s->round[i].launch, "instructions");
		metric("fork-launch-instructions", s->round[i].fork_launch, "instructions");
		metric("launch-faults", s->round[i].faults, "faults");
		metric("launch-tables", s->round[i].tables, "PTPs");
		if (s->reader.present)
			metric("launch-shared-tables", s->round[i].shared, "PTPs");
		counters_print(&s->reader, &s->round[i].in_launch, "launch", "");
	}
}

/* ---------------------------------------------------------------------------------------------- */

static void options_parse(int argc, char **argv)
{
	if (argc < 2)
		die("usage: zygote fork|inherit|launch [OPTIONS]");
	opt = (struct options){ .what = argv[1], .code = 5900, .copied = 3900 };
	opt.rounds = !strcmp(opt.what, "launch") ? 100 : 40;
	for (int i = 2; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote"))
			opt.zygote = true;
		else if (!strcmp(argv[i], "--layout") && more && !strcmp(argv[i + 1], "shipped"))
			i++;
		else if (!strcmp(argv[i], "--layout") && more && !strcmp(argv[i + 1], "2mb"))
			opt.separate = ++i;
		else if (!strcmp(argv[i], "--rounds") && more)
			opt.rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--code") && more)
			opt.code = atol(argv[++i]);
		else if (!strcmp(argv[i], "--copied") && more)
			opt.copied = atol(argv[++i]);
		else
			die("zygote: what is %s?", argv[i]);
	}
	if (opt.rounds < 1 || opt.rounds > MAX_ROUNDS)
		die("zygote: one to %d rounds", MAX_ROUNDS);
}

int main(int argc, char **argv)
{
	struct loader l = { 0 };

	options_parse(argc, argv);
	fixed_layout(argv);
	l.separate = opt.separate;
	s = scratch_map(sizeof(*s));
	libraries_load(&l, &s->regions);
	if (objects_loaded() < LIBRARIES_NEEDED)
		die("%d shared libraries here, %d needed", objects_loaded(), LIBRARIES_NEEDED);
	if (!parts_find())
		die("none of the parts is here");
	if (!strcmp(opt.what, "launch")) {
		if (!application_whole(HELLO))
			die("the application to launch lacks parts");
		/* Before the heap is filled up: what it allocates counts. */
		application_run(HELLO);
	}
	populate_heap(opt.copied);
	populate_code_about(opt.code);
	print_zygote(&l);

	counters_open(&s->reader);
	take_processor();
	if (!strcmp(opt.what, "fork"))
		run_fork();
	else if (!strcmp(opt.what, "inherit"))
		run_inherit();
	else if (!strcmp(opt.what, "launch"))
		run_launch();
	else
		die("zygote: %s is not fork, inherit or launch", opt.what);
	return 0;
}
