// SPDX-License-Identifier: GPL-2.0-only
/* Races with pages that are looked up without a lock, reclaimed and replaced. */
#include "race/race.h"

#include <sched.h>
#include <sys/uio.h>

/* --- pages that are looked up without a lock ------------------------------ */

static void *lender(void *arg)
{
	char *page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	int fds[2];

	must_call(pipe(fds));
	while (!stopping()) {
		const struct spot *s = any_spot();
		struct iovec iov = { s->addr, page_size };
		size_t got = 0;

		/* the fast path of GUP: interrupts off, no lock */
		must(vmsplice(fds[1], &iov, 1, 0) == (ssize_t)page_size, "vmsplice: %s",
		     strerror(errno));
		while (got < page_size) {
			ssize_t n = read(fds[0], page + got, page_size - got);

			must(n > 0, "the pipe is short");
			got += n;
		}
		sees(page_is(page, s->tag), "a page lent to a pipe is not as it was");
	}
	return NULL;
}

static void test_gup_fast(long arg)
{
	int forked = 0;

	area_make(&area, ARG_KIND(arg));
	become_zygote();
	for (int i = 0; i < 2; i++)
		start_thread(lender, NULL);
	start_clock();
	while (time_left()) {
		fork_one(any(20));
		forked++;
		if (forked % 4 == 0)
			reap(4);
	}
	stop_and_join();
	reap(forked % 4);
	note("%d forks", forked);
}

/* A device writes into our pages while we fork: we must see what it wrote. */
static int direct_fd = -1;

static void *direct_reader(void *arg)
{
	struct spot *s = arg;

	while (!stopping()) {
		unsigned int index = any(64);

		must(pread(direct_fd, s->addr, page_size, index * page_size) ==
		     (ssize_t)page_size, "direct read: %s", strerror(errno));
		sees(page_is(s->addr, FILE_TAG(index)), "what the disk gave went elsewhere");
	}
	return NULL;
}

static void test_direct_io(long arg)
{
	struct spot *used[2] = { };
	int forked = 0, n = 0;

	direct_fd = open_direct(make_file("disk", 64), O_RDONLY);
	area_make(&area, ARG_KIND(arg));
	/* the device gets the last two writable pages, the children the rest */
	for (int i = area.nspots - 1; i >= 0 && n < 2; i--)
		if (may_write(&area.spot[i]))
			used[n++] = &area.spot[i];
	must(n == 2, "too few pages");
	become_zygote();
	for (int i = 0; i < 2; i++)
		start_thread(direct_reader, used[i]);
	start_clock();
	while (time_left()) {
		pid_t pid = fork();

		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid) {
			/* the child's snapshot must not change */
			for (int i = 0; i < 2; i++) {
				char *addr = used[i]->addr, *copy = malloc(page_size);

				memcpy(copy, addr, page_size);
				for (int round = 0; round < 10; round++) {
					sched_yield();
					sees(!memcmp(copy, addr, page_size),
					     "the device writes into a child's page");
				}
				page_fill(addr, 1);
				sees(page_is(addr, 1), "a child lost its write");
			}
			_exit(0);
		}
		if (++forked % 4 == 0)
			reap(4);
	}
	stop_and_join();
	reap(forked % 4);
	note("%d forks", forked);
}

static void *other_reader(void *arg)
{
	char *page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	int fd;

	while (!stopping()) {
		const struct spot *s = any_spot();

		/* read our own memory through /proc */
		fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
		if (pread(fd, page, page_size, (off_t)(uintptr_t)s->addr) == (ssize_t)page_size)
			sees(page_is(page, s->tag), "/proc/self/mem has another page");
		close(fd);
		spots_intact((long)&area, 0);
		pagemap_entry(0, s->addr);
		proc_field(0, "smaps_rollup", "Rss");
	}
	return NULL;
}

static void test_walkers(long arg)
{
	int forked = 0;

	/* the parent only reads, while children fork and exit in the same tables */
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	for (int i = 0; i < 2; i++)
		start_thread(other_reader, NULL);
	start_clock();
	while (time_left()) {
		pid_t pid = fork_one(any(40));

		/* read the files of a process that is about to exit */
		shared_tables(pid);
		proc_field(pid, "smaps_rollup", "Pss");
		proc_field(pid, "status", "VmRSS");
		forked++;
		if (forked % 4 == 0)
			reap(4);
	}
	stop_and_join();
	reap(forked % 4);
	note("%d forks", forked);
}

/* --- pages that are taken meanwhile --------------------------------------- */

static long press_on(long a, long b)
{
	for (;;) {
		press();
		sched_yield();
	}
	return 0;
}

static void test_reclaim(long arg)
{
	double end;
	int rounds = 0;

	/* fork it before the zygote and the cgroup: it belongs to neither */
	spawn(7);
	need_cgroup();
	need_swap();
	tell(7, press_on, 0, 0);
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	end = now() + race_seconds;
	do {
		for (int i = 0; i < 4; i++)
			fork_one(quick ? 100 : 300);
		for (int i = 0; i < area.nspots; i++)
			look(&area.spot[i]);
		for (int i = 0; i < 4; i++) {
			struct spot *s = any_spot();

			if (may_write(s)) {
				s->tag = 9900000u + any(10000);
				page_fill(s->addr, s->tag);
			}
		}
		/* the reclaimer is a child too, and does not end by itself */
		for (int i = 0; i < 4; i++) {
			int status;

			must(waitpid(-1, &status, 0) > 0 && !status,
			     "a child ended with status %x", status);
		}
		rounds++;
	} while (now() < end);
	must(!is_gone(pid_of(7)), "the reclaimer died");
	note("%d rounds", rounds);
}

/*
 * One process truncates and extends a file, while others read and write their
 * mappings.
 */
static void test_truncate(long arg)
{
	enum kind kind = ARG_KIND(arg);
	size_t pages = table_size / page_size;
	int fd = make_file(kind == SHARED_DISK || kind == PRIV_DISK ? "disk" : "tmpfs", pages);
	bool shared = kind == SHARED_DISK || kind == SHARED_FILE;
	char *base = arena(1);
	int rounds = 0;

	map_at(base, table_size, PROT_READ | PROT_WRITE, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	for (size_t i = 0; i < pages; i += 7)
		touch(base + i * page_size);
	become_zygote();
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		must(pid >= 0, "fork: %s", strerror(errno));
		if (pid)
			continue;
		start_clock();
		while (time_left()) {
			/* leave out the last page: the parent checks it for zeros */
			char *addr = base + any(pages - 1) * page_size;
			int sig = any(4) ? probe_read(addr) : probe_write(addr);

			sees(!sig || sig == SIGBUS, "signal %d on a page of a cut file", sig);
			/* the first half is never truncated: it must keep its content */
			addr = base + any(pages / 2) * page_size;
			sees(page_is(addr, FILE_TAG((addr - base) / page_size)),
			     "a page before the cut has changed");
		}
		_exit(0);
	}
	start_clock();
	while (time_left()) {
		must_call(ftruncate(fd, table_size / 2));
		/* now no process may map a truncated page, which is freed */
		must_call(ftruncate(fd, table_size));
		/* the extended part is zeros */
		sees(page_is(base + (pages - 1) * page_size, 0), "what was cut off is there again");
		rounds++;
	}
	reap(4);
	note("%d cuts", rounds);
}

/* --- stale translations --------------------------------------------------- */

/*
 * Readers spin on a page, so that its translation stays in their TLBs, while the
 * file has that page replaced again and again by a new one with a higher number.
 * The writer says when a number is in place. A load that begins later must find
 * that number or a higher one, a page not yet written (0), or none (SIGBUS): an
 * older number, or anything else, is an old page behind a stale translation.
 */
#define MARK	0x5a5a000000000000ULL

/*
 * The kernel may write the number byte by byte, lowest first: it is complete with
 * the whole mark. Any other value in place of the mark is an error.
 */
static bool complete(__u64 word)
{
	sees(word >> 48 == 0x5a5a || word >> 48 == 0x5a || !(word >> 48),
	     "a reader finds %llx", (unsigned long long)word);
	return word >> 48 == 0x5a5a;
}

static void test_stale(long arg)
{
	int fd = make_file(ARG_KIND(arg) == SHARED_DISK ? "disk" : "tmpfs", 1);
	char *base = arena(1);
	__u64 word, n;
	int status;

	map_at(base, page_size, PROT_READ, MAP_SHARED, fd, 0);
	touch(base);
	become_zygote();
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		long placed;

		must(pid >= 0, "fork: %s", strerror(errno));
		if (pid)
			continue;
		while (!__atomic_load_n(&board->word[0], __ATOMIC_RELAXED)) {
			placed = __atomic_load_n(&board->word[1], __ATOMIC_SEQ_CST);
			if (!placed || probe_load((__u64 *)base, &word) || !complete(word))
				continue;
			sees((long)(word & ~MARK) >= placed,
			     "page %ld is in place, a reader finds %ld", placed,
			     (long)(word & ~MARK));
		}
		_exit(0);
	}
	start_clock();
	for (n = 1; time_left(); n++) {
		must_call(ftruncate(fd, 0));
		must_call(ftruncate(fd, page_size));
		word = MARK | n;
		must_call(pwrite(fd, &word, sizeof(word), 0));
		__atomic_store_n(&board->word[1], (long)n, __ATOMIC_SEQ_CST);
		sees(!probe_load((__u64 *)base, &word) && word == (MARK | n),
		     "the writer's own mapping shows %llx", (unsigned long long)word);
		if (n % 16 == 0)
			sched_yield();
	}
	board->word[0] = 1;
	for (int i = 0; i < 3; i++)
		must(wait(&status) > 0 && !status, "a reader ended with status %x", status);
	note("%llu pages", (unsigned long long)n);
}

/*
 * Direct writes to a file remove its pages from the page cache and from every
 * address space. The next read must return what was written.
 */
static void test_invalidate(long arg)
{
	int fd = make_file("disk", 1), direct = open_direct(fd, O_RDWR), status;
	char *base = arena(1), *buf = aligned_alloc(page_size, page_size);
	bool shared = ARG_KIND(arg) == SHARED_DISK;
	__u64 word, n;

	memset(buf, 0, page_size);
	map_at(base, page_size, PROT_READ, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	touch(base);
	become_zygote();
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		long placed;

		must(pid >= 0, "fork: %s", strerror(errno));
		if (pid)
			continue;
		while (!__atomic_load_n(&board->word[0], __ATOMIC_RELAXED)) {
			placed = __atomic_load_n(&board->word[1], __ATOMIC_SEQ_CST);
			if (!placed)
				continue;
			word = __atomic_load_n((__u64 *)base, __ATOMIC_RELAXED);
			sees(complete(word) && (long)(word & ~MARK) >= placed,
			     "%ld is on disk, a reader finds %llx", placed,
			     (unsigned long long)word);
		}
		_exit(0);
	}
	start_clock();
	for (n = 1; time_left(); n++) {
		word = MARK | n;
		memcpy(buf, &word, sizeof(word));
		must(pwrite(direct, buf, page_size, 0) == (ssize_t)page_size, "direct write: %s",
		     strerror(errno));
		__atomic_store_n(&board->word[1], (long)n, __ATOMIC_SEQ_CST);
	}
	board->word[0] = 1;
	for (int i = 0; i < 3; i++)
		must(wait(&status) > 0 && !status, "a reader ended with status %x", status);
	note("%llu pages", (unsigned long long)n);
}

/* One process collapses the memory to huge pages repeatedly, while others use it. */
static void test_collapse(long arg)
{
	int rounds = 0;

	area_make(&area, ARG_KIND(arg));
	madvise(area.base, table_size, MADV_HUGEPAGE);
	if (madvise(area.base, table_size, MADV_COLLAPSE) && errno == EINVAL)
		skip("no MADV_COLLAPSE for this memory");
	become_zygote();
	start_clock();
	while (time_left() || !rounds) {
		for (int i = 0; i < 3; i++)
			fork_one(quick ? 50 : 150);
		for (int i = 0; i < 4; i++) {
			madvise(area.base, table_size, MADV_COLLAPSE);
			look(any_spot());
			/* drop one page, so that the huge page is split */
			if (!area.part[0].shared) {
				struct spot *s = any_spot();

				madvise(s->addr, page_size, MADV_DONTNEED);
				s->tag = 9900000u + any(10000);
				page_fill(s->addr, s->tag);
			}
		}
		reap(3);
		rounds++;
	}
	note("%d rounds", rounds);
}

static const struct test_case cases[] = {
	{ "Pages lent to a pipe during forks are right", test_gup_fast, 0, KIND(ANON) |
	  KIND(PRIV_FILE_RO) | KIND(BORDERS), KIND(ANON), .guards = INVARIANT(2) | INVARIANT(9) },
	{ "What a device reads into memory during forks stays there", test_direct_io, 0, LOCKED,
	  KIND(ANON), .guards = INVARIANT(2) | INVARIANT(9) },
	{ "Readers of page tables find them whole", test_walkers, 0, ROUGH, QUICK,
	  .guards = INVARIANT(5) | INVARIANT(12) },
	{ "Memory stays right under reclaim, fork and unsharing", test_reclaim, 0, ROUGH, QUICK,
	  .guards = INVARIANT(4) | INVARIANT(6) },
	{ "Nobody keeps what is cut off a file", test_truncate, 0, FILES,
	  KIND(PRIV_FILE) | KIND(SHARED_FILE), .guards = INVARIANT(4) },
	{ "Nobody uses a stale translation", test_stale, 0, KIND(SHARED_FILE) | KIND(SHARED_DISK),
	  KIND(SHARED_FILE), .guards = INVARIANT(4) },
	{ "Everybody sees what was written to disk behind the cache", test_invalidate, 0,
	  KIND(SHARED_DISK) | KIND(PRIV_DISK), .guards = INVARIANT(4) },
	{ "Memory stays right while it becomes huge pages", test_collapse, 0,
	  KIND(ANON) | KIND(SHARED_ANON) | KIND(MEMFD), .guards = INVARIANT(6) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
