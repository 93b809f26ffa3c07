// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whole PMD tables: gigabytes in which all memory is shared.
 */
#include "common.h"
#include "lib/uffd.h"

#include <sched.h>

#define GIGABYTE	(1UL << 30)
#define LENGTH		(128UL << 20)
#define PAGES		(LENGTH / page_size)
#define STEP		509	/* distance of the checked pages */

static char *base;	/* begin of the gigabyte that holds the memory */
static char *memory;
static int memory_fd;

/* Page @n of the memory. Cases use a few, spread over the tables. */
static char *page_at(long n)
{
	return memory + n % PAGES * page_size;
}

/* A new empty gigabyte at each call. */
static char *gigabyte(void)
{
	static uintptr_t next = (uintptr_t)0x3000000000ULL;

	if (sizeof(long) < 8)
		skip("no room for it in 32 bits");
	next += 2 * GIGABYTE;
	return (char *)next;
}

static void map_memory(enum kind kind)
{
	int flags = MAP_SHARED | MAP_NORESERVE;

	base = gigabyte();
	memory = base + GIGABYTE / 4;
	memory_fd = -1;
	switch (kind) {
	case SHARED_ANON:
		flags |= MAP_ANONYMOUS;
		break;
	case MEMFD:
		memory_fd = memfd_create("upper", MFD_CLOEXEC);
		break;
	default:
		memory_fd = make_file(kind == SHARED_DISK ? "disk" : "tmpfs", 0);
	}
	if (memory_fd >= 0)
		must_call(ftruncate(memory_fd, LENGTH));
	map_at(memory, LENGTH, PROT_READ | PROT_WRITE, flags, memory_fd, 0);
	for (long n = 0; n < 16; n++)
		page_fill(page_at(n * STEP), 100 + n);
}

static long upper_tables(pid_t pid)
{
	return proc_field(pid, "cohort", "SharedPmdTables");
}

static long ask_upper(long a, long b)
{
	return upper_tables(0);
}

static void expect_upper(int who, long wanted, const char *when)
{
	long found;

	if (!sharing_possible())
		return;
	found = ask(who, ask_upper, 0, 0);
	if (!shares_pmd_tables())
		wanted = 0;
	must(found == wanted, "%s: process %d shares %ld PMD tables, not %ld", when, who,
	     found, wanted);
}

/* What counts pages and faults does so for shared PMD tables. */
static void need_pmd_tables(void)
{
	if (!shares_pmd_tables())
		skip("no PMD tables are shared here");
}

static void begin(enum kind kind)
{
	map_memory(kind);
	become_zygote();
	spawn(1);
	spawn(2);
	for (int who = 0; who <= 2; who++)
		expect_upper(who, 1, "after fork");
}

static long fill(long n, long tag)
{
	page_fill(page_at(n), tag);
	return 0;
}

static long holds(long n, long tag)
{
	return page_is(page_at(n), tag);
}

static long reads(long n, long unused)
{
	return probe_read(page_at(n));
}

static long writes(long n, long unused)
{
	return probe_write(page_at(n));
}

static void all_hold(int nr, long n, long tag, const char *when)
{
	for (int who = 0; who < nr; who++)
		sees(ask(who, holds, n, tag), "%s: process %d does not see %ld on page %ld",
		     when, who, tag, n);
}

/* What the zygote filled before it forked. */
static void all_intact(int nr, const char *when)
{
	for (long n = 0; n < 16; n++)
		all_hold(nr, n * STEP, 100 + n, when);
}

/* --- who sees what -------------------------------------------------------- */

static void test_visible(long arg)
{
	begin(ARG_KIND(arg));
	spawn_from(2, 3);
	expect_upper(3, 1, "a child of a child");
	all_intact(4, "after fork");
	for (int who = 0; who <= 3; who++) {
		/* one present page, one in a table that no process has yet */
		ask(who, fill, 0, 200 + who);
		ask(who, fill, 20000 + who * 600, 300 + who);
		all_hold(4, 0, 200 + who, "after a write");
		all_hold(4, 20000 + who * 600, 300 + who, "after a first write");
	}
	quit(1);
	all_hold(1, 20000 + 600, 301, "after its writer has gone");
	quit(3);
	quit(2);
	all_hold(1, 20000 + 3 * 600, 303, "after all have gone");
	fill(0, 100);
	all_intact(1, "alone again");
}

static long faults_for(long from, long nr)
{
	long before = minor_faults();

	for (long i = 0; i < nr; i++)
		touch(page_at(from + i * STEP));
	return minor_faults() - before;
}

static void test_faults(long arg)
{
	long first;

	need_pmd_tables();
	if (!sharing_possible())
		skip("this kernel shares no tables now");
	begin(ARG_KIND(arg));
	/* fault in the code that counts */
	ask(1, faults_for, 0, 1);
	ask(2, faults_for, 0, 1);
	first = ask(1, faults_for, 3, 32);
	must(first >= 32, "%ld faults for 32 pages that nobody had", first);
	first = ask(2, faults_for, 3, 32);
	must(first <= 2, "%ld faults for 32 pages that another process had", first);
}

/* --- leaving -------------------------------------------------------------- */

enum change {
	UNMAP, UNMAP_ALL, PROTECT, MAP_OVER, MAP_HOLE, MAP_BEHIND, MOVE, GROW, SHRINK, LOCK,
	DONTNEED, FREE_ADVICE, COLLAPSE, REGISTER,
};

static const char * const change_name[] = {
	"munmap of a page", "munmap of all", "mprotect", "a private mapping over it",
	"a private mapping in a hole", "a private mapping at the end", "mremap elsewhere",
	"mremap growing", "mremap shrinking", "mlock", "MADV_DONTNEED", "MADV_COLD",
	"MADV_COLLAPSE", "userfaultfd",
};

static long change(long what, long unused)
{
	char *page = page_at(5 * STEP), *hole = base + GIGABYTE / 8;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *addr;

	switch (what) {
	case UNMAP:
		must_call(munmap(page, page_size));
		sees(probe_read(page) == SIGSEGV, "an unmapped page can be read");
		break;
	case UNMAP_ALL:
		must_call(munmap(memory, LENGTH));
		sees(probe_read(page) == SIGSEGV, "an unmapped page can be read");
		return 0;
	case PROTECT:
		must_call(mprotect(page, page_size, PROT_READ));
		sees(probe_write(page) == SIGSEGV, "a read-only page can be written");
		sees(page_is(page, 105), "a read-only page has lost its content");
		break;
	case MAP_OVER:
		addr = mmap(page, page_size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
		must(addr == page, "mmap: %s", strerror(errno));
		sees(page_is(page, 0), "new memory is not empty");
		page_fill(page, 999);
		break;
	case MAP_HOLE:
		map_at(hole, page_size, PROT_READ | PROT_WRITE, flags, -1, 0);
		page_fill(hole, 999);
		break;
	case MAP_BEHIND:
		hole = base + GIGABYTE - page_size;
		map_at(hole, page_size, PROT_READ | PROT_WRITE, flags, -1, 0);
		page_fill(hole, 999);
		break;
	case MOVE:
		addr = mremap(page, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, hole);
		must(addr == hole, "mremap: %s", strerror(errno));
		sees(page_is(hole, 105), "a page that was moved has another content");
		sees(probe_read(page) == SIGSEGV, "a page that was moved is still there");
		break;
	case GROW:
		must_call(mremap(memory, LENGTH, LENGTH + page_size, 0));
		break;
	case SHRINK:
		must_call(mremap(memory, LENGTH, LENGTH - page_size, 0));
		break;
	case LOCK:
		must_call(mlock(page, page_size));
		break;
	case DONTNEED:
		must_call(madvise(page, page_size, MADV_DONTNEED));
		break;
	case FREE_ADVICE:
		must_call(madvise(memory, LENGTH, MADV_COLD));
		break;
	case COLLAPSE:
		/* fails where huge pages are off: then nothing may have changed */
		madvise(base + GIGABYTE / 4, 2 * table_size, MADV_COLLAPSE);
		break;
	case REGISTER: {
		struct uffdio_api api = { .api = UFFD_API };
		struct uffdio_register reg = {
			.range = { (unsigned long)memory + LENGTH / 2, page_size },
			.mode = UFFDIO_REGISTER_MODE_MISSING,
		};
		int fd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

		must(fd >= 0, "userfaultfd: %s", strerror(errno));
		must_call(ioctl(fd, UFFDIO_API, &api));
		must_call(ioctl(fd, UFFDIO_REGISTER, &reg));
		break;
	}
	}
	for (long n = 0; n < 16; n++)
		sees(n == 5 || page_is(page_at(n * STEP), 100 + n),
		     "page %ld has changed with %s", n, change_name[what]);
	return 0;
}

/* All programs are one group: who leaves joins again where no region has changed. */
static bool comes_back(long what)
{
	char mode[64];

	return (what == DONTNEED || what == COLLAPSE) &&
	       read_text(COHORT_SYSFS "join", mode, sizeof(mode)) > 0 &&
	       strstr(mode, "[user]");
}

static void test_leaving(long arg)
{
	long what = ARG_ARG(arg);
	bool stays = what == FREE_ADVICE;

	if (what == REGISTER) {
		int fd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

		if (fd < 0)
			skip("no userfaultfd");
		close(fd);
	}
	begin(ARG_KIND(arg));
	spawn(3);
	ask(1, change, what, 0);
	if (!comes_back(what))
		expect_upper(1, stays, change_name[what]);
	expect_upper(2, 1, change_name[what]);
	for (int who = 0; who <= 3; who++) {
		if (who == 1)
			continue;
		for (long n = 0; n < 16; n++)
			sees(ask(who, holds, n * STEP, 100 + n),
			     "page %ld of process %d has changed", n, who);
		must(!ask(who, writes, 5 * STEP, 0), "process %d may not write any more", who);
	}
	/* the zygote does the same, the others still share */
	change(what, 0);
	for (int who = 2; who <= 3; who++)
		for (long n = 0; n < 16; n++)
			sees(ask(who, holds, n * STEP, 100 + n),
			     "page %ld of process %d has changed", n, who);
	ask(2, fill, 7 * STEP, 777);
	sees(ask(3, holds, 7 * STEP, 777), "a write is not seen by who still shares");
	if (what != UNMAP_ALL)
		sees(page_is(page_at(7 * STEP), 777), "a write is not seen by who has left");
	ask(2, fill, 7 * STEP, 107);
	/* the last but one leaves too, then the last does */
	ask(3, change, MAP_HOLE, 0);
	sees(ask(2, holds, 7 * STEP, 107), "the last one has lost a page");
	if (!comes_back(what))
		expect_upper(2, stays, "alone");
}

static void test_hole_is_private(long arg)
{
	char *hole;

	begin(ARG_KIND(arg));
	hole = base + GIGABYTE / 8;
	ask(1, change, MAP_HOLE, 0);
	sees(probe_read(hole) == SIGSEGV, "the zygote sees a child's private memory");
	ask(2, change, MAP_HOLE, 0);
	sees(probe_read(hole) == SIGSEGV, "the zygote sees a child's private memory");
	all_intact(1, "after both children have left");
}

/* --- the file changes ----------------------------------------------------- */

static void test_truncate(long arg)
{
	long last = PAGES - 1;

	begin(ARG_KIND(arg));
	fill(last, 55);
	all_hold(3, last, 55, "before");
	must_call(fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			    5 * STEP * page_size, page_size));
	all_hold(3, 5 * STEP, 0, "in a hole");
	must_call(ftruncate(memory_fd, LENGTH - page_size));
	for (int who = 0; who <= 2; who++)
		sees(ask(who, reads, last, 0) == SIGBUS,
		     "process %d can read behind the end of the file", who);
	must_call(ftruncate(memory_fd, LENGTH));
	all_hold(3, last, 0, "behind the old end");
	for (int who = 0; who <= 2; who++)
		expect_upper(who, 1, "after the file has changed");
}

/* --- what is not shared --------------------------------------------------- */

static void test_not_shared(long arg)
{
	char *other;

	map_memory(ARG_KIND(arg));
	other = base + GIGABYTE - page_size;
	switch (ARG_ARG(arg)) {
	case 0:
		map_at(other, page_size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		page_fill(other, 9);
		break;
	case 1:
		must_call(mlock(memory, page_size));
		break;
	case 2:
		must_call(madvise(memory, page_size, MADV_DONTFORK));
		break;
	case 3:
		must_call(munmap(memory + (1 << 20), LENGTH - (1 << 20)));
		break;
	}
	become_zygote();
	spawn(1);
	spawn(2);
	expect_upper(1, 0, "with such a region");
	if (!ARG_ARG(arg)) {
		page_fill(other, 10);
		for (int who = 1; who <= 2; who++)
			sees(ask(who, (peer_fn)page_is, (long)other, 9),
			     "a child sees what the zygote wrote to private memory");
	}
	if (ARG_ARG(arg) == 2)
		sees(ask(1, reads, 0, 0) == SIGSEGV, "a child has a region that it should not");
	else
		sees(ask(1, holds, 0, 100), "a child does not see shared memory");
}

/* do processors see stores to code by themselves? */
#ifdef __aarch64__
#define CODE_COHERES	false
#else
#define CODE_COHERES	true
#endif

/* Who joins a table cannot clean caches for what others fill in later. */
static void test_code(long arg)
{
	map_memory(ARG_KIND(arg));
	must_call(mprotect(memory, table_size, PROT_READ | PROT_WRITE | PROT_EXEC));
	become_zygote();
	spawn(1);
	spawn(2);
	expect_upper(1, CODE_COHERES, "with code");
	all_intact(3, "with code");
}

#define RANDOM_BITS	"/proc/sys/vm/mmap_rnd_bits"

static bool lies_at_gigabyte(void)
{
	char *p = mmap(NULL, 2 * GIGABYTE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	must_call(p);
	munmap(p, 2 * GIGABYTE);
	return !((uintptr_t)p & (GIGABYTE - 1));
}

/*
 * Memory lies at a gigabyte, which takes 18 random bits of its address, unless that leaves
 * less than six.
 */
static void test_random_bits(long unused)
{
	char bits[16] = "";
	bool at_gigabyte;

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	need_pmd_tables();
	if (read_text(RANDOM_BITS, bits, sizeof(bits)) <= 0)
		skip("no " RANDOM_BITS);
	become_zygote();
	must(lies_at_gigabyte() == (atoi(bits) >= 24), "with %d random bits", atoi(bits));
	if (write_text(RANDOM_BITS, "23"))
		skip("this machine has more random bits always");
	at_gigabyte = lies_at_gigabyte();
	must(!write_text(RANDOM_BITS, bits), "cannot put back " RANDOM_BITS);
	must(!at_gigabyte, "with 23 random bits");
}

static void test_dontfork_later(long arg)
{
	begin(ARG_KIND(arg));
	/* already shared; the next child must not get the page */
	must_call(madvise(memory, page_size, MADV_DONTFORK));
	spawn(3);
	sees(ask(3, reads, 0, 0) == SIGSEGV, "a child has a region that it should not");
	sees(ask(3, holds, STEP, 101), "a child lacks a region that it should have");
	for (int who = 0; who <= 2; who++)
		sees(ask(who, holds, 0, 100), "process %d has lost a page", who);
}

/* --- accounts ------------------------------------------------------------- */

static long resident(long unused, long unused2)
{
	return proc_field(0, "status", "RssShmem") + proc_field(0, "status", "RssFile");
}

static long tables_kb(long unused, long unused2)
{
	return proc_field(0, "status", "VmPTE");
}

static long pss(long unused, long unused2)
{
	return proc_field(0, "smaps_rollup", "Pss");
}

static void test_accounts(long arg)
{
	const long nr = 400;
	long before[3], sum, alone, grown, kb = page_size / 1024;
	/* as in stock, a reader misses what each processor has yet to add */
	const long error = 64 * kb * sysconf(_SC_NPROCESSORS_CONF);

	need_pmd_tables();
	if (!sharing_possible())
		skip("this kernel shares no tables now");
	begin(ARG_KIND(arg));
	alone = ask(2, tables_kb, 0, 0);
	for (int who = 0; who <= 2; who++)
		before[who] = ask(who, resident, 0, 0);
	sum = 0;
	for (int who = 0; who <= 2; who++)
		sum += ask(who, pss, 0, 0);
	/* one process faults the pages in, all map them */
	ask(1, faults_for, 7, nr);
	for (int who = 0; who <= 2; who++) {
		grown = ask(who, resident, 0, 0) - before[who];

		must(grown >= nr * kb - error && grown <= nr * 16 * kb + error,
		     "%ld kB more are resident in process %d", grown, who);
	}
	for (int who = 0; who <= 2; who++)
		sum -= ask(who, pss, 0, 0);
	must(-sum >= nr * kb - 3 && -sum <= (nr * 16 + 64) * kb + 3,
	     "the Pss of all grew by %ld kB for %ld pages", -sum, nr);
	must(ask(2, tables_kb, 0, 0) == alone, "a table of all is charged to each");
	/* the leaver has none of it any more, the others all */
	ask(1, change, UNMAP_ALL, 0);
	grown = ask(1, resident, 0, 0) - before[1];
	must(grown <= error, "who has unmapped is still charged with %ld kB", grown);
	grown = ask(2, resident, 0, 0) - before[2];
	must(grown >= nr * kb - error, "who stays is charged with %ld kB", grown);
	quit(1);
	quit(2);
	must(resident(0, 0) >= before[0] + nr * kb - error, "the last one is not charged");
	must_call(munmap(memory, LENGTH));
	/* but for some code that has run meanwhile */
	must(resident(0, 0) <= before[0] + error, "%ld kB are charged for nothing",
	     resident(0, 0) - before[0]);
}

static long tables_of(int nr)
{
	long sum = 0;

	for (int who = 0; who < nr; who++)
		sum += proc_field(pid_of(who), "status", "VmPTE");
	return sum;
}

/* The tables in a shared PMD table are charged to no process, but one of its users counts them. */
static void test_tables_once(long arg)
{
	const long first = 20, nr = 40;	/* tables that nobody has filled yet */
	const long kb = page_size / 1024;
	long before, grown;

	need_pmd_tables();
	if (!sharing_possible())
		skip("this kernel shares no tables now");
	begin(ARG_KIND(arg));
	/* what they need to fault and to answer is their own before */
	for (int who = 0; who <= 2; who++)
		must(!ask(who, reads, 0, 0), "page 0 cannot be read");
	before = tables_of(3);
	for (long i = 0; i < nr; i++)
		must(!ask(i % 3, reads, (first + i) * (table_size / page_size), 0),
		     "table %ld cannot be read", first + i);
	grown = tables_of(3) - before;
	must(grown == nr * kb, "VmPTE of all users grew by %ld kB for %ld new tables", grown, nr);
	/* whoever has counted them leaves: the next one does */
	for (int who = 0; who <= 1; who++) {
		ask(who, change, UNMAP_ALL, 0);
		grown = tables_of(3) - before;
		must(grown == nr * kb, "it is %ld kB, not %ld, once process %d has left", grown,
		     nr * kb, who);
	}
	ask(2, change, UNMAP_ALL, 0);
	grown = tables_of(3) - before;
	must(grown < 0, "all have left, and VmPTE of all has %ld kB more than before", grown);
}

/* --- all at once ---------------------------------------------------------- */

static void *toucher(void *arg)
{
	unsigned int seed = (uintptr_t)arg;

	while (!stopping()) {
		long n = rand_r(&seed) % 16;
		char *page = page_at(n * STEP);

		sees(page_is(page, 100 + n), "page %ld has another content", n);
		touch(page_at(rand_r(&seed) % PAGES));
	}
	return NULL;
}

/* Threads fault in all regions while the others leave, fork and come back. */
static long busy(long seed, long rounds)
{
	char *hole = base + GIGABYTE / 8;

	for (int i = 0; i < 2; i++)
		start_thread(toucher, (void *)(seed * 2 + i));
	for (long r = 0; r < rounds; r++) {
		pid_t pid = fork();

		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid) {
			for (long n = 0; n < 16; n++)
				sees(page_is(page_at(n * STEP), 100 + n),
				     "page %ld has another content in a child", n);
			if (r & 1) {
				map_at(hole, page_size, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
				page_fill(hole, 4242 + r);
				touch(page_at(r * STEP));
				sees(page_is(hole, 4242 + r), "private memory has changed");
			}
			_exit(0);
		}
		switch ((seed + r) % 4) {
		case 0:
			map_at(hole, page_size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			page_fill(hole, seed + r);
			sched_yield();
			sees(page_is(hole, seed + r), "private memory has changed");
			must_call(munmap(hole, page_size));
			break;
		case 1:
			madvise(page_at(40 * STEP), 16 * page_size, MADV_DONTNEED);
			break;
		}
		while (waitpid(pid, NULL, 0) < 0)
			must(errno == EINTR, "waitpid: %s", strerror(errno));
	}
	stop_and_join();
	return 0;
}

static void test_race(long arg)
{
	long rounds = quick ? 60 : 400;

	begin(ARG_KIND(arg));
	for (int who = 1; who <= 2; who++)
		tell(who, busy, who, rounds);
	for (long r = 0; memory_fd >= 0 && r < rounds; r++) {
		long n = 17 * STEP + r % 64 * STEP;
		off_t off = page_at(n) - memory;

		must_call(fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    off, page_size));
		sees(page_is(page_at(n), 0), "a hole is not empty");
	}
	for (int who = 1; who <= 2; who++)
		answer(who);
	all_intact(3, "after all");
}

/* No process may read a page from before a hole. */
static void test_stale(long arg)
{
	long rounds = quick ? 200 : 2000;
	long page = 9 * STEP;

	begin(ARG_KIND(arg));
	for (long r = 0; r < rounds; r++) {
		tell(1, holds, page, 600 + r - 1);
		tell(2, holds, page, 600 + r - 1);
		answer(1);
		answer(2);
		must_call(fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    page * page_size, page_size));
		all_hold(3, page, 0, "after a hole");
		page_fill(page_at(page), 600 + r);
		all_hold(3, page, 600 + r, "after a write");
	}
}

static void test_swap(long arg)
{
	need_swap();
	need_cgroup();
	begin(ARG_KIND(arg));
	for (int i = 0; i < 3; i++) {
		ask(1, faults_for, 0, 500);
		press();
		all_intact(3, "after reclaim");
	}
	swap_off();
	all_intact(3, "after swapoff");
	expect_upper(1, 1, "after reclaim");
}

#define FILES	(KIND(MEMFD) | KIND(SHARED_FILE) | KIND(SHARED_DISK))
#define KINDS	(FILES | KIND(SHARED_ANON))
#define QUICK	KIND(MEMFD)
#define LEAVE(what)	test_leaving, what, KINDS, KIND(SHARED_ANON)

static const struct test_case cases[] = {
	{ "All see what one writes, also where there was no table", test_visible, 0, KINDS,
	  .guards = INVARIANT(6) },
	{ "A page is faulted in once for all", test_faults, 0, KINDS & ~KIND(SHARED_DISK), QUICK,
	  .guards = INVARIANT(6) },
	{ "Leaving: a page is unmapped", LEAVE(UNMAP), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: all is unmapped", LEAVE(UNMAP_ALL), .guards = INVARIANT(5) },
	{ "Leaving: a page becomes read-only", LEAVE(PROTECT),
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: private memory over a page", LEAVE(MAP_OVER),
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: private memory in a hole", LEAVE(MAP_HOLE),
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: private memory at the end", LEAVE(MAP_BEHIND),
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: a page is moved", LEAVE(MOVE), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: the region grows", LEAVE(GROW), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: the region shrinks", LEAVE(SHRINK), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: a page is locked", LEAVE(LOCK), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: MADV_DONTNEED", LEAVE(DONTNEED), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Staying: MADV_COLD", LEAVE(FREE_ADVICE), .guards = INVARIANT(8) },
	{ "Leaving: MADV_COLLAPSE", LEAVE(COLLAPSE), .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Leaving: userfaultfd watches a page", LEAVE(REGISTER),
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "Private memory in a hole of the gigabyte is private", test_hole_is_private, 0, KINDS,
	  QUICK, .guards = INVARIANT(1) },
	{ "What is cut off a file is gone for all", test_truncate, 0, FILES, QUICK,
	  .guards = INVARIANT(4) },
	{ "No PMD table is shared with private memory in its gigabyte", test_not_shared, 0, KINDS,
	  QUICK, .guards = INVARIANT(1) },
	{ "No PMD table is shared with locked memory", test_not_shared, 1, KINDS, QUICK,
	  .guards = INVARIANT(1) },
	{ "No PMD table is shared with MADV_DONTFORK memory", test_not_shared, 2, KINDS, QUICK,
	  .guards = INVARIANT(1) },
	{ "No PMD table is shared for a few tables", test_not_shared, 3, KINDS, QUICK,
	  .guards = POLICY },
	{ "A PMD table is shared over code if caches see stores to it", test_code, 0, KINDS, QUICK,
	  .guards = INVARIANT(4) },
	{ "An address keeps some of its random bits", test_random_bits, .guards = POLICY },
	{ "A child lacks MADV_DONTFORK memory of a table that is shared", test_dontfork_later, 0,
	  KINDS, QUICK, .guards = INVARIANT(1) },
	{ "RSS counts the pages of each process, PSS counts each page once", test_accounts, 0,
	  KIND(MEMFD) | KIND(SHARED_ANON) | KIND(SHARED_FILE), QUICK,
	  .guards = INVARIANT(3) | INVARIANT(7) },
	{ "Does VmPTE of all users count each table of a shared PMD table once?",
	  test_tables_once, 0, KIND(MEMFD) | KIND(SHARED_ANON) | KIND(SHARED_FILE), QUICK,
	  .guards = INVARIANT(7) },
	{ "Shared memory comes back from swap", test_swap, 0,
	  KIND(MEMFD) | KIND(SHARED_ANON) | KIND(SHARED_FILE), QUICK, .guards = INVARIANT(4) },
	{ "Nobody uses a stale translation", test_stale, 0, FILES, QUICK, .guards = INVARIANT(4) },
	{ "Forks, faults and leaving at once", test_race, 0, KINDS, QUICK,
	  .guards = INVARIANT(5) | INVARIANT(11) | INVARIANT(12) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
