// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB flushes: which processors are interrupted when entries of a shared table
 * are cleared, and does any process use a stale translation?
 *
 * The lower half of the processors runs the processes that share, the upper half
 * processes that do not ("bystanders"). Interrupts of the upper half for flushes
 * of the lower are waste.
 */
#include "common.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#define SHARERS		64
#define BYSTANDERS	200
#define GIGABYTE	(1UL << 30)
#define UPPER_LENGTH	(128UL << 20)

/* What the processes tell each other, on the board. */
enum { STOP, BYSTANDERS_STOP, READY, PLACED, LEVEL };

static long *word(int which)
{
	return &board->word[which];
}

static int nr_cpus;

static void need_cpus(int n)
{
	nr_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (nr_cpus < n)
		skip("%d processors are too few", nr_cpus);
	/* count() reads eight columns of /proc/interrupts */
	if (nr_cpus > 8)
		nr_cpus = 8;
}

static int bystander_cpu(int i)
{
	int half = nr_cpus / 2;

	return half + i % (nr_cpus - half);
}

static void run_on(int from, int to)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu = from; cpu <= to; cpu++)
		CPU_SET(cpu, &set);
	must_call(sched_setaffinity(0, sizeof(set), &set));
}

/* --- memory: pages far apart or side by side ------------------------------ */

enum { LOWER, UPPER };		/* what the memory shares: its table, or the one above */

static const char * const level_name[] = { "a table", "a PMD table" };

static struct {
	char *base;
	size_t len, step;
	int fd;
} memories[2];
static int cleared;		/* entries, in each way of clearing them */

#define MEMORY	memories[*word(LEVEL)]

static char *page_at(int i)
{
	return MEMORY.base + i * MEMORY.step;
}

static void fill_memory(void)
{
	for (int i = 0; i < cleared; i++)
		page_fill(page_at(i), 500 + i);
}

/* map a table, or enough to share a PMD table, with @entries pages in it, and select it */
static void map_entries(enum kind kind, int level, int entries)
{
	static uintptr_t gigabyte = (uintptr_t)0x3800000000ULL;

	cleared = entries;
	*word(LEVEL) = level;
	MEMORY.len = table_size;
	MEMORY.step = 3 * page_size;
	if (level == UPPER) {
		if (sizeof(long) < 8)
			skip("no gigabyte to spare");
		gigabyte += 2 * GIGABYTE;
		MEMORY.base = (char *)gigabyte + GIGABYTE / 4;
		MEMORY.len = UPPER_LENGTH;
		/* each step is another page in another table */
		MEMORY.step = (UPPER_LENGTH / (cleared + 1) / page_size - 3) * page_size;
	} else {
		MEMORY.base = arena(1);
	}
	if (kind == MEMFD)
		MEMORY.fd = memfd_create("tlb", MFD_CLOEXEC);
	else
		MEMORY.fd = make_file(kind == SHARED_DISK ? "disk" : "tmpfs", 0);
	must(MEMORY.fd >= 0, "memfd_create: %s", strerror(errno));
	must_call(ftruncate(MEMORY.fd, MEMORY.len));
	map_at(MEMORY.base, MEMORY.len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
	       MEMORY.fd, 0);
	madvise(MEMORY.base, MEMORY.len, MADV_NOHUGEPAGE);
	fill_memory();
}

static void map_memory(enum kind kind, int level)
{
	map_entries(kind, level, quick ? 16 : 64);
}

/* --- counting interrupts -------------------------------------------------- */

struct counts {
	long received[8];	/* flushes that a processor was interrupted for */
	long sent;		/* rounds of them, -1 if nobody counts */
};

/* false if this kernel has no such row */
static bool count(struct counts *c)
{
	static char buf[65536];
	char *p;

	must(read_text("/proc/interrupts", buf, sizeof(buf)) > 0, "/proc/interrupts");
	p = strstr(buf, "TLB:");
	if (!p)
		return false;
	p += 4;
	for (int cpu = 0; cpu < nr_cpus; cpu++)
		c->received[cpu] = strtol(p, &p, 10);
	c->sent = vm_event("nr_tlb_remote_flush");
	return true;
}

/* --- bystanders ----------------------------------------------------------- */

static __noreturn void bystander(int i)
{
	char *own;

	run_on(bystander_cpu(i), bystander_cpu(i));
	own = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(own != MAP_FAILED, "mmap: %s", strerror(errno));
	*own = 1;
	__atomic_add_fetch(word(READY), 1, __ATOMIC_SEQ_CST);
	/* run in turn, so that the last process on each processor is a bystander */
	while (!__atomic_load_n(word(BYSTANDERS_STOP), __ATOMIC_RELAXED)) {
		__atomic_add_fetch(own, 1, __ATOMIC_RELAXED);
		usleep(200000 + i * 1000);
	}
	_exit(0);
}

static void make_bystanders(void)
{
	for (int i = 0; i < BYSTANDERS; i++) {
		pid_t pid = fork();

		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid)
			bystander(i);
	}
	while (__atomic_load_n(word(READY), __ATOMIC_SEQ_CST) < BYSTANDERS)
		usleep(10000);
}

static void end_bystanders(void)
{
	__atomic_store_n(word(BYSTANDERS_STOP), 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < BYSTANDERS; i++)
		must(wait(NULL) > 0, "a bystander is lost");
}

/* --- sharers -------------------------------------------------------------- */

/*
 * Keep a processor in this address space: an idle one is not interrupted. Read a
 * page that is not cleared, or it would be faulted in again. With @aside read none, because
 * reclaim would take that page again and again, each time with a flush.
 */
static long spin(long cpu, long aside)
{
	run_on(cpu, cpu);
	for (int i = 0; i < cleared; i++)
		touch(page_at(i));
	__atomic_add_fetch(word(READY), 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(word(STOP), __ATOMIC_RELAXED))
		if (!aside)
			probe_read(page_at(cleared));
	return 0;
}

static void start_spinner(int who, int cpu, bool aside)
{
	long ready = *word(READY);

	*word(STOP) = 0;
	tell(who, spin, cpu, aside);
	while (__atomic_load_n(word(READY), __ATOMIC_SEQ_CST) == ready)
		usleep(1000);
	usleep(20000);
}

static void stop_spinner(int who)
{
	__atomic_store_n(word(STOP), 1, __ATOMIC_SEQ_CST);
	must(!answer(who), "process %d does not stop", who);
}

static long holds(long from, long tag)
{
	for (int i = from; i < cleared; i++)
		sees(page_is(page_at(i), tag ? tag + i : 0), "page %d is not as it must be", i);
	return 0;
}

static long raises(long signal, long unused)
{
	for (int i = 0; i < cleared; i++)
		sees(probe_read(page_at(i)) == signal, "page %d can be read", i);
	return 0;
}

enum how { PUNCH, CUT, WRITE_BACK, RECLAIM };

static const char * const how_name[] = {
	"holes punched", "the file cut", "write-back", "reclaim",
};

static void clear_entries(enum how how)
{
	switch (how) {
	case PUNCH:
		for (int i = 0; i < cleared; i++)
			must_call(fallocate(MEMORY.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					    page_at(i) - MEMORY.base, page_size));
		break;
	case CUT:
		must_call(ftruncate(MEMORY.fd, 0));
		break;
	case WRITE_BACK:
		must_call(msync(MEMORY.base, MEMORY.len, MS_SYNC));
		break;
	case RECLAIM:
		press();
		break;
	}
}

static void restore(void)
{
	must_call(ftruncate(MEMORY.fd, MEMORY.len));
	fill_memory();
}

static void check_cleared(int who, enum how how)
{
	if (how == CUT)
		ask(who, raises, SIGBUS, 0);
	else
		ask(who, holds, 0, how == PUNCH ? 0 : 500);
}

/*
 * Rounds of flushes that @how may take: one per entry, fewer where entries are
 * cleared together.
 */
static long rounds_allowed(enum how how)
{
	/* truncation clears several entries under one hold of the table's lock */
	return 4 + (how == CUT && *word(LEVEL) == LOWER ? cleared / 8 : cleared);
}

/*
 * With @first the process runs through whose mapping the entries are cleared.
 * When regions are unmapped it may be flushed twice: as this process and as a
 * user.
 */
static void expect_quiet(enum how how, bool first)
{
	const char *who_runs = first ? "the first process runs" : "a sharer runs";
	long allowed = rounds_allowed(how) << (first && how == PUNCH);
	long others = nr_cpus / 2 - 1;
	struct counts before, after;
	long best = -1, received = 0, sent = 0;
	int half = nr_cpus / 2;

	/* retry: something else on this machine may flush */
	for (int i = 0; i < 3 && best; i++) {
		long strangers = 0;

		restore();
		/* all map every entry now, and all but one sleep */
		for (int who = 2; who <= SHARERS; who += quick ? 7 : 1)
			ask(who, holds, 0, 500);
		usleep(20000);
		/* make the entries dirty again if write-back cleaned them */
		fill_memory();
		count(&before);
		clear_entries(how);
		count(&after);
		for (int cpu = half; cpu < nr_cpus; cpu++)
			strangers += after.received[cpu] - before.received[cpu];
		if (best >= 0 && strangers >= best)
			continue;
		best = strangers;
		received = 0;
		for (int cpu = 0; cpu < half; cpu++)
			received += after.received[cpu] - before.received[cpu];
		sent = before.sent < 0 ? -1 : after.sent - before.sent;
	}
	note("%s, %s, %s: %d entries, interrupts at sharers' processors %ld, at bystanders' %ld",
	     level_name[*word(LEVEL)], how_name[how], who_runs, cleared, received, best);
	if (sent >= 0)
		note("... in %ld rounds", sent);
	must(!best, "%s: %ld interrupts at processors that run no sharer", how_name[how], best);
	/* reclaim also takes private memory of each process: see test_reclaim_flushes() */
	if (how != RECLAIM) {
		must(received <= (others ? others : 1) * allowed, "%s: %d entries, %ld interrupts",
		     how_name[how], cleared, received);
		must(sent <= allowed, "%s: %d entries, %ld rounds", how_name[how], cleared, sent);
	}
	must(!others || received, "%s: a sharer that runs heard nothing", how_name[how]);
	for (int who = 2; who <= SHARERS; who += 21)
		check_cleared(who, how);
}

static void *spin_thread(void *cpu)
{
	spin((long)cpu, 0);
	return NULL;
}

static void expect_all_quiet(bool disk)
{
	int half = nr_cpus / 2;
	/* punching a file on disk writes it back first: two changes per entry */
	enum how how = disk ? WRITE_BACK : PUNCH;
	pthread_t thread;

	/* all other sharers sleep; this one occupies a processor */
	if (half > 1)
		start_spinner(1, half - 1, false);
	expect_quiet(how, false);
	if (!disk && !quick && swap_on())
		expect_quiet(RECLAIM, false);
	expect_quiet(CUT, false);
	if (half == 1)
		return;
	stop_spinner(1);
	if (quick && *word(LEVEL) == UPPER)
		return;
	/* a thread of the process that clears the entries */
	restore();
	*word(STOP) = 0;
	must(!pthread_create(&thread, NULL, spin_thread, (void *)(half - 1L)), "no thread");
	expect_quiet(how, true);
	*word(STOP) = 1;
	pthread_join(thread, NULL);
}

static void test_flushes(long kind)
{
	bool disk = ARG_KIND(kind) == SHARED_DISK;
	struct counts before, after;
	double begin = now();
	long heard;
	int half;

	need_cpus(2);
	half = nr_cpus / 2;
	if (!count(&before))
		skip("nobody counts interrupts for flushes here");
	run_on(0, half - 1);
	need_peers(SHARERS);
	make_bystanders();
	if (!disk && !quick && swap_on())
		need_cgroup();
	map_memory(ARG_KIND(kind), UPPER);
	map_memory(ARG_KIND(kind), LOWER);
	become_zygote();
	for (int who = 1; who <= SHARERS; who++)
		spawn(who);
	note("%d sharers and %d bystanders made in %.1f s", SHARERS, BYSTANDERS, now() - begin);

	/* the process that clears needs a processor to itself */
	run_on(0, 0);
	expect_all_quiet(disk);
	if (!sharing_possible() || proc_field(0, "cohort", "SharedPmdTables") > 0) {
		*word(LEVEL) = UPPER;
		expect_all_quiet(disk);
	}

	/*
	 * a running sharer must be interrupted: otherwise the checks above prove
	 * nothing
	 */
	end_bystanders();
	restore();
	start_spinner(2, nr_cpus - 1, false);
	fill_memory();
	count(&before);
	clear_entries(disk ? WRITE_BACK : PUNCH);
	count(&after);
	heard = after.received[nr_cpus - 1] - before.received[nr_cpus - 1];
	stop_spinner(2);
	must(heard > 0, "a processor that runs a sharer was not interrupted");
	must(heard <= rounds_allowed(PUNCH), "%d entries, %ld interrupts", cleared, heard);
	note("where a sharer runs instead of bystanders: %ld interrupts", heard);
}

static int entries_gone(void)
{
	int gone = 0;

	for (int i = 0; i < cleared; i++)
		gone += !(pagemap_entry(0, page_at(i)) & PM_PRESENT);
	return gone;
}

/*
 * Reclaim takes pages by the batch, of 32 pages or more, and flushes at the end of each: a
 * user that runs is interrupted for the batch, not for each page.
 */
static void test_reclaim_flushes(long level)
{
	const int users = 6, entries = 160, tries = 3;
	long allowed, heard = 0, sent = 0;
	struct counts before, after;
	char babelfish[64];
	int gone = 0;

	need_cpus(2);
	if (!count(&before))
		skip("nobody counts interrupts for flushes here");
	if (read_text(COHORT_SYSFS "babelfish", babelfish, sizeof(babelfish)) > 0 &&
	    strstr(babelfish, "[on]"))
		skip("nobody counts interrupts that flush everything, as for BabelFish");
	need_cgroup();
	need_peers(users);
	map_entries(SHARED_DISK, level, entries);
	/* no readahead: it would fill the batches with pages that nobody maps */
	must_call(madvise(MEMORY.base, MEMORY.len, MADV_RANDOM));
	become_zygote();
	for (int who = 1; who <= users; who++)
		spawn(who);
	if (sharing_possible() && level == UPPER && shares_pmd_tables())
		must(proc_field(0, "cohort", "SharedPmdTables") > 0, "no PMD table is shared");
	/* reclaim runs here, one user beside it */
	run_on(0, 0);
	/* retry: something else on this machine may flush */
	for (int i = 0; i < tries; i++) {
		/* reclaim flushes before it writes a dirty page, for each: leave none */
		must_call(fsync(MEMORY.fd));
		/* what was read ahead before that advice, and nobody maps */
		must(!posix_fadvise(MEMORY.fd, 0, 0, POSIX_FADV_DONTNEED), "posix_fadvise");
		for (int who = 2; who <= users; who++)
			ask(who, holds, 0, 500);
		holds(0, 500);
		start_spinner(1, 1, true);
		must(!entries_gone(), "a page that was read is not mapped");
		count(&before);
		/* reclaim takes a page at its second visit or later */
		for (int j = 0; j < 20 && entries_gone() < entries / 2; j++)
			press_files();
		count(&after);
		gone = entries_gone();
		stop_spinner(1);
		heard = after.received[1] - before.received[1];
		sent = before.sent < 0 ? 0 : after.sent - before.sent;
		allowed = 4 + gone / 8;
		note("%s: %d of %d entries reclaimed, %ld interrupts", level_name[level], gone,
		     entries, heard);
		if (before.sent >= 0)
			note("... in %ld rounds", sent);
		if (gone >= entries / 2 && heard && heard <= allowed && sent <= allowed)
			return;
	}
	must(gone >= entries / 2, "reclaim has taken %d of %d pages", gone, entries);
	must(heard, "a processor that runs a user was not interrupted");
	fail("%d entries, %ld interrupts of a user, %ld rounds", gone, heard, sent);
}

/* --- stale translations --------------------------------------------------- */

/*
 * Readers on all processors keep the translation of a page in use, while the file
 * replaces that page by a new one with a higher number. The owner publishes each
 * number. A later load must find that number or a higher one, a page not yet
 * written (0), or none.
 */
#define MARK	0x5a5a000000000000ULL

/* Returns how often the reader waited for a page to be read from the disk. */
static long read_on(long cpu, long unused)
{
	struct rusage before, after;
	__u64 found;

	run_on(cpu, cpu);
	getrusage(RUSAGE_SELF, &before);
	while (!__atomic_load_n(word(STOP), __ATOMIC_RELAXED)) {
		long placed = __atomic_load_n(word(PLACED), __ATOMIC_SEQ_CST);

		if (probe_load((__u64 *)page_at(0), &found) || !placed || !found)
			continue;
		sees((found & MARK) == MARK, "a reader finds %llx", (unsigned long long)found);
		sees((long)(found & ~MARK) >= placed, "page %ld is in place, a reader finds %ld",
		     placed, (long)(found & ~MARK));
	}
	getrusage(RUSAGE_SELF, &after);
	return after.ru_majflt - before.ru_majflt;
}

static long finds(long number, long unused)
{
	__u64 found;

	sees(!probe_load((__u64 *)page_at(0), &found), "the page cannot be read");
	return found == (MARK | (unsigned long)number);
}

static void test_stale_file(long arg)
{
	bool cut = false;
	double end;
	__u64 n;

	need_cpus(2);
	if (nr_cpus > 4)
		nr_cpus = 4;
	need_peers(SHARERS);
	map_memory(ARG_KIND(arg), ARG_ARG(arg));
	become_zygote();
	for (int who = 1; who <= SHARERS; who++)
		spawn(who);
	for (int cpu = 0; cpu < nr_cpus; cpu++)
		tell(1 + cpu, read_on, cpu, 0);
	end = now() + race_seconds;
	for (n = 1; now() < end || n < 20; n++) {
		__u64 new = MARK | n;
		int who = 5 + n % (SHARERS - 5);

		cut = !cut;
		if (cut) {
			must_call(ftruncate(MEMORY.fd, 0));
			must_call(ftruncate(MEMORY.fd, MEMORY.len));
		} else {
			must_call(fallocate(MEMORY.fd, FALLOC_FL_PUNCH_HOLE |
					    FALLOC_FL_KEEP_SIZE, 0, page_size));
		}
		/* one store: a reader sees the number whole or not at all */
		__atomic_store_n((__u64 *)page_at(0), new, __ATOMIC_SEQ_CST);
		__atomic_store_n(word(PLACED), (long)n, __ATOMIC_SEQ_CST);
		sees(ask(who, finds, n, 0), "process %d finds an old page", who);
	}
	*word(STOP) = 1;
	for (int cpu = 0; cpu < nr_cpus; cpu++)
		answer(1 + cpu);
	note("%llu pages", (unsigned long long)n - 1);
}

/*
 * The same where reclaim takes the page, which flushes in batches, and a write to the
 * file puts a new page in its place. A reader's translation stays in use meanwhile: it
 * does not mark the entry as young again, so reclaim takes the page at its second visit.
 */
static void test_stale_reclaim(long users)
{
	int readers, gone = 0;
	pid_t sleeper[200];
	double end;
	__u64 n;

	need_cpus(2);
	if (nr_cpus > 4)
		nr_cpus = 4;
	readers = nr_cpus - 1;
	need_cgroup();
	need_peers(readers + 1);
	map_memory(SHARED_DISK, LOWER);
	become_zygote();
	for (int who = 1; who <= readers + 1; who++)
		spawn(who);
	/* users that only map the memory */
	for (int i = readers + 2; i < users; i++) {
		sleeper[i] = fork();
		must(sleeper[i] >= 0, "fork: %s", strerror(errno));
		while (!sleeper[i])
			pause();
	}
	run_on(0, 0);
	for (int who = 1; who <= readers; who++)
		tell(who, read_on, who, 0);
	end = now() + race_seconds;
	for (n = 1; now() < end || n < 20; n++) {
		__u64 new = MARK | n;

		press_files();
		must(pwrite(MEMORY.fd, &new, sizeof(new), 0) == sizeof(new), "pwrite: %s",
		     strerror(errno));
		__atomic_store_n(word(PLACED), (long)n, __ATOMIC_SEQ_CST);
		sees(ask(readers + 1, finds, n, 0), "a process finds an old page");
		/* reclaim takes clean pages only */
		must_call(fsync(MEMORY.fd));
	}
	*word(STOP) = 1;
	/* a reader maps the page again before anybody could see that it was gone */
	for (int who = 1; who <= readers; who++)
		gone += answer(who);
	for (int i = readers + 2; i < users; i++)
		kill(sleeper[i], SIGKILL);
	note("%llu pages; readers waited for the disk %d times", (unsigned long long)n - 1, gone);
	must(gone, "reclaim has taken no page");
}

/*
 * A process with several threads leaves or unshares: no thread may use an old
 * translation of the shared table after the call or fault.
 */
static int stage;		/* of this process: 0, 1: written, 2: unmapped */
static long seen[8];
static unsigned int new_tag;

static void *watch(void *cpu_of)
{
	long cpu = (long)cpu_of;
	__u64 want, found, old;

	run_on(cpu, cpu);
	old = __atomic_load_n((__u64 *)page_at(1), __ATOMIC_RELAXED);
	while (!stopping()) {
		int s = __atomic_load_n(&stage, __ATOMIC_SEQ_CST);
		int sig = probe_load((__u64 *)page_at(0), &found);

		want = 0x1000000000000000ULL + new_tag;
		if (s == 2)
			sees(sig, "a thread reads a page that is unmapped");
		else if (s == 1 && !sig)
			sees(found == want, "a thread reads %llx, the page holds %llx",
			     (unsigned long long)found, (unsigned long long)want);
		if (!sig && s < 2 && !probe_load((__u64 *)page_at(1), &found))
			sees(found == old, "the page beside has changed");
		__atomic_add_fetch(&seen[cpu], 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* every thread has looked at least twice since */
static void let_look(void)
{
	long then[8];

	for (int cpu = 1; cpu < nr_cpus; cpu++)
		then[cpu] = __atomic_load_n(&seen[cpu], __ATOMIC_SEQ_CST);
	for (int cpu = 1; cpu < nr_cpus; cpu++)
		while (__atomic_load_n(&seen[cpu], __ATOMIC_SEQ_CST) < then[cpu] + 2)
			sched_yield();
}

static long part(long who, long leave)
{
	run_on(0, 0);
	new_tag = who;
	for (int cpu = 1; cpu < nr_cpus; cpu++)
		start_thread(watch, (void *)(long)cpu);
	let_look();
	if (!leave) {
		__atomic_store_n((__u64 *)page_at(0), 0x1000000000000000ULL + who,
				 __ATOMIC_SEQ_CST);
		__atomic_store_n(&stage, 1, __ATOMIC_SEQ_CST);
		let_look();
	}
	must_call(munmap(MEMORY.base, MEMORY.len));
	__atomic_store_n(&stage, 2, __ATOMIC_SEQ_CST);
	let_look();
	stop_and_join();
	return 0;
}

static void test_stale_threads(long arg)
{
	int sharers = quick ? 8 : SHARERS;

	need_cpus(2);
	if (nr_cpus > 4)
		nr_cpus = 4;
	need_peers(sharers);
	cleared = 64;
	MEMORY.len = table_size;
	MEMORY.step = 3 * page_size;
	MEMORY.base = map_at(arena(1), table_size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(MEMORY.base, table_size, MADV_NOHUGEPAGE);
	fill_memory();
	become_zygote();
	for (int who = 1; who <= sharers; who++)
		spawn(who);
	for (int who = 1; who <= sharers; who++) {
		ask(who, part, who, who & 1 ? 0 : arg);
		holds(0, 500);
		if (who < sharers)
			ask(sharers, holds, 0, 500);
		quit(who);
	}
}

/* --- stores that a stale entry denies -------------------------------------- */

/* does a fault itself remove the entry that a processor has for its address? */
#ifdef __aarch64__
#define FAULT_REMOVES	false
#else
#define FAULT_REMOVES	true
#endif

/* Store to each page at the same time as the other process; how often does it fault? */
static long store_together(long cpu, long pages)
{
	long faults;

	run_on(cpu, cpu);
	for (long i = 0; i < pages; i++)
		probe_read(page_at(i));
	faults = minor_faults();
	for (long i = 0; i < pages; i++) {
		__atomic_add_fetch(word(READY), 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(word(READY), __ATOMIC_SEQ_CST) < 2 * (i + 1))
			;
		((volatile char *)page_at(i))[cpu] = 1;
	}
	return minor_faults() - faults;
}

/*
 * Two processes have read a page of a table that they share. Now both store to it, and
 * the second to be served finds the entry as it wants it: its processor may still have
 * the old one, which no flush of the first has reached. An emulator forgets it anyway,
 * so only the kernel's counter shows that it is removed.
 */
static void test_spurious(long unused)
{
	long faults, removed, pages = table_size / page_size;

	need_cpus(2);
	if (!sharing_possible())
		skip("this kernel shares no tables now");
	if (FAULT_REMOVES)
		skip("a fault removes a stale entry on this architecture");
	MEMORY.len = table_size;
	MEMORY.step = page_size;
	MEMORY.base = arena(1);
	MEMORY.fd = make_file("tmpfs", pages);
	map_at(MEMORY.base, MEMORY.len, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY.fd, 0);
	madvise(MEMORY.base, MEMORY.len, MADV_NOHUGEPAGE);
	/* so that there is a table to share */
	probe_read(page_at(0));
	become_zygote();
	spawn(1);
	spawn(2);
	for (int who = 1; who <= 2; who++)
		ask(who, nothing, 0, 0);
	removed = vm_event("cohort_fault_spurious");
	tell(1, store_together, 0, pages);
	tell(2, store_together, 1, pages);
	faults = answer(1) + answer(2);
	removed = vm_event("cohort_fault_spurious") - removed;
	note("%ld faults for stores to %ld pages, %ld of them too late", faults, pages, removed);
	if (faults < pages)
		skip("processors note first stores themselves");
	must(removed > 0, "no store too late removed a stale entry");
}

#define FILES	(KIND(MEMFD) | KIND(SHARED_DISK))

static const struct test_case cases[] = {
	{ "Cleared entries interrupt no bystander, and sharers once", test_flushes, 0, FILES,
	  KIND(SHARED_DISK), .guards = INVARIANT(4) },
	{ "Is a user of a shared table flushed once for many pages that reclaim takes?",
	  test_reclaim_flushes, LOWER, .guards = INVARIANT(4) | STOCK },
	{ "Is a user of a shared PMD table flushed once for many pages that reclaim takes?",
	  test_reclaim_flushes, UPPER, .guards = INVARIANT(4) | STOCK },
	{ "No reader on any processor has a page that the file has lost", test_stale_file, LOWER,
	  FILES | KIND(SHARED_FILE), KIND(MEMFD), .guards = INVARIANT(4) },
	{ "No reader of a shared PMD table has a page that the file has lost", test_stale_file,
	  UPPER, FILES, KIND(MEMFD), .guards = INVARIANT(4) },
	{ "No reader has a page that reclaim has taken from a few users", test_stale_reclaim, 6,
	  .guards = INVARIANT(4) },
	{ "No reader has a page that reclaim has taken from 150 users", test_stale_reclaim, 150,
	  .guards = INVARIANT(4) | INVARIANT(13) },
	{ "No thread has a page that its process has left or copied", test_stale_threads, 1,
	  .guards = INVARIANT(4) | INVARIANT(5) },
	{ "A store that a stale entry denies is let through", test_spurious,
	  .guards = INVARIANT(4) },
};

int main(int argc, char **argv)
{
	/* hundreds of processes on shared processors take long */
	case_seconds = 400;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
