// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region when memory is fragmented: a fault with WAIT gets
 * its page, and the wait can be ended. These cases fill the memory of the machine
 * page by page.
 */
#include "region_order/matrix.h"

#include <setjmp.h>
#include <sys/mount.h>
#include <sys/uio.h>

/* --- fragmented memory --------------------------------------------------- */

/* count free blocks of at least this order */
static long free_blocks(int order)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	char text[512], *p, *end;
	long sum = 0;

	must(file, "/proc/buddyinfo: %s", strerror(errno));
	while (fgets(text, sizeof(text), file)) {
		/* Node 0, zone   Normal  12  3 ... */
		p = strstr(text, "zone");
		must(p, "/proc/buddyinfo: `%s`", text);
		p += 4 + strspn(p + 4, " ");
		p += strcspn(p, " ");
		for (int o = 0;; o++, p = end) {
			long n = strtol(p, &end, 10);

			if (end == p)
				break;
			if (o >= order)
				sum += n;
		}
	}
	fclose(file);
	return sum;
}

/* Allocate all free blocks of an order. */
static void eat_blocks(int order)
{
	size_t len = (size_t)256 << 20;
	char *p = mmap(NULL, len, RW, ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(p != MAP_FAILED, "mmap: %s", strerror(errno));
	must(!set_order(p, len, order, 0), "the order is refused");
	for (size_t off = 0; off < len && free_blocks(order); off += page_size << order)
		p[off] = 1;
}

static long mem_kb(const char *key)
{
	char buf[4096], *p;

	must(read_text("/proc/meminfo", buf, sizeof(buf)) > 0, "/proc/meminfo");
	p = strstr(buf, key);
	must(p, "no %s in /proc/meminfo", key);
	return strtol(p + strlen(key), NULL, 10);
}

/* Fill the memory with base pages and free every second one. */
static void fragment(int order)
{
	size_t size, len, used = 0;
	char *all;

	write_text("/proc/sys/vm/drop_caches", "3");
	size = (size_t)mem_kb("MemAvailable:") << 10;
	if (size > (size_t)2 << 30)
		skip("more memory than this test wants to fill");
	len = size / page_size * page_size;
	all = mmap(NULL, len, RW, ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(all != MAP_FAILED, "mmap: %s", strerror(errno));
	must(!set_order(all, len, 0, 0), "order 0 is refused");
	while (used < len && free_blocks(order) > 0 && mem_kb("MemFree:") > 24 << 10) {
		size_t step = (size_t)1 << 20;

		for (size_t end = used + step; used < len && used < end; used += page_size)
			all[used] = 1;
	}
	for (size_t off = 0; off < used; off += 2 * page_size)
		must_call(madvise(all + off, page_size, MADV_DONTNEED));
	eat_blocks(order);
	note("%zu MB touched, %ld free blocks of order %d", used >> 20, free_blocks(order),
	     order);
}

static int signals;

static void on_signal(int sig)
{
	__atomic_fetch_add(&signals, 1, __ATOMIC_SEQ_CST);
}

static long child_waits(long unused, long unused2)
{
	struct sigaction act = { .sa_handler = on_signal };

	sigaction(SIGUSR1, &act, NULL);
	board->word[1] = getpid();
	mem.base[0] = 1;
	board->word[2] = __atomic_load_n(&signals, __ATOMIC_SEQ_CST);
	board->word[3] = mapped_order(mem.base);
	return 0;
}

/* A fault in a system call must not wait: the call may hold locks. */
static long child_reads(long unused, long unused2)
{
	int fd = open("/dev/zero", O_RDONLY);

	board->word[4] = read(fd, mem.base + mem.block, page_size);
	return 0;
}

static sigjmp_buf tired;

static void on_alarm(int sig)
{
	siglongjmp(tired, 1);
}

/*
 * Also allocate blocks that compaction can empty, until one takes too long. Lock
 * them, so that compaction for others leaves them alone.
 */
static void eat_movable_blocks(int order)
{
	struct sigaction act = { .sa_handler = on_alarm };
	size_t len = (size_t)1 << 30;
	static size_t off;
	static char *p;

	swap_off();
	write_text(UNEVICTABLE, "0");
	p = mmap(NULL, len, RW, ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(p != MAP_FAILED, "mmap: %s", strerror(errno));
	must(!set_order(p, len, order, WAIT), "the order is refused");
	must_call(mlock2(p, len, MLOCK_ONFAULT));
	must_call(sigaction(SIGALRM, &act, NULL));
	if (!sigsetjmp(tired, 1))
		for (; off < len && mem_kb("MemFree:") > 64 << 10; off += page_size << order) {
			alarm(3);
			p[off] = 1;
		}
	alarm(0);
	note("%zu MB of blocks that were emptied", off >> 20);
}

#define PIPES	128

static int odd[PIPES][2], even[PIPES][2];

/*
 * Fill the memory with unmovable pages of pipes, alternating between pipes that
 * are emptied afterwards and pipes that are not.
 */
static void fragment_for_good(int order)
{
	static char page[65536];
	int size = 4 << 20, n;
	long pages = 0;

	write_text("/proc/sys/vm/drop_caches", "3");
	if (mem_kb("MemAvailable:") > 2 << 20)
		skip("more memory than this test wants to fill");
	memset(page, 1, sizeof(page));
	for (n = 0; n < PIPES; n++) {
		must_call(pipe2(odd[n], O_NONBLOCK | O_CLOEXEC));
		must_call(pipe2(even[n], O_NONBLOCK | O_CLOEXEC));
		/* as many slots as pages of `size` bytes */
		if (fcntl(odd[n][1], F_SETPIPE_SZ, size) < 0 ||
		    fcntl(even[n][1], F_SETPIPE_SZ, size) < 0)
			skip("pipes cannot be made so large: %s", strerror(errno));
		while (write(odd[n][1], page, page_size) > 0 &&
		       write(even[n][1], page, page_size) > 0)
			if (!(++pages % 256) &&
			    (mem_kb("MemFree:") < 24 << 10 || !free_blocks(order)))
				goto full;
	}
full:
	for (int i = 0; i < PIPES && i <= n; i++)
		while (read(even[i][0], page, sizeof(page)) > 0)
			;
	eat_blocks(order);
	eat_movable_blocks(order);
	note("%ld pages of pipes, %ld free blocks of order %d", pages, free_blocks(order), order);
}

static void release_pipes(void)
{
	static char page[65536];

	for (int i = 0; i < PIPES; i++)
		while (odd[i][0] > 0 && read(odd[i][0], page, sizeof(page)) > 0)
			;
}

/*
 * Change the policy of a peer's region repeatedly while a fault waits in it. Each
 * change needs the locks of the fault's tries. If the fault kept them while it
 * waits, a change would succeed at most once per try.
 */
static void must_get_locks(int who)
{
	struct iovec iov = { .iov_base = mem.base, .iov_len = mem.len };
	int fd = syscall(__NR_pidfd_open, pid_of(who), 0);
	long waited, tries = 0, calls = 0;
	double end = now() + 20;

	must(fd >= 0, "pidfd_open: %s", strerror(errno));
	for (waited = vm_event("order_waited"); tries < 10 && now() < end;
	     tries = vm_event("order_waited") - waited)
		/* an even number, so that the policy ends as it began */
		for (int i = 0; i < 4; i++, calls++) {
			int what = advice(mem.order, calls % 2 ? WAIT : WAIT | COPY);

			must(syscall(__NR_process_madvise, fd, &iov, 1, what, 0) ==
			     (long)mem.len, "process_madvise: %s", strerror(errno));
		}
	close(fd);
	note("%ld changes of the region in %ld tries", calls, tries);
	must(tries >= 10, "the fault does not wait any more");
	must(calls >= 10 * tries, "the region was changed %ld times in %ld tries", calls, tries);
}

/* Unmovable fragmented memory: signals end the wait. */
static void test_wait_ends(long arg)
{
	double start;
	long waited;

	need_orders();
	need_peers(8);
	mem.order = ARG_ORDER(arg);
	mem.block = page_size << mem.order;
	mem.len = 2 * mem.block;
	mem.base = map_at(arena(2), mem.len, RW, ANONYMOUS, -1, 0);
	must(!set_order(mem.base, mem.len, mem.order, WAIT), "the order is refused");
	/* fork the children before memory is short */
	for (int who = 1; who <= 3; who++)
		spawn(who);
	fragment_for_good(mem.order);
	waited = vm_event("order_waited");
	tell(1, child_waits, 0, 0);
	for (int i = 0; i < 500 && vm_event("order_waited") < waited + 5; i++)
		usleep(20000);
	if (board->word[3])
		skip("a page of order %ld was there after all", board->word[3]);
	must(vm_event("order_waited") >= waited + 5, "the fault does not wait");

	/* a signal handler runs, and the wait goes on */
	kill(board->word[1], SIGUSR1);
	waited = vm_event("order_waited");
	for (int i = 0; i < 500 && vm_event("order_waited") < waited + 5; i++)
		usleep(20000);
	must(vm_event("order_waited") >= waited + 5, "the fault does not wait any more");

	/* the waiting fault holds no locks */
	must_get_locks(1);

	tell(3, child_reads, 0, 0);
	for (int i = 0; i < 500 && !board->word[4]; i++)
		usleep(20000);
	must(board->word[4] == (long)page_size, "a system call waits");
	answer(3);

	/* a fatal signal ends the wait */
	start = now();
	tell(2, child_waits, 0, 0);
	usleep(200000);
	kill_peer(2);
	must(now() - start < 20, "it took %d seconds to die", (int)(now() - start));

	/* free memory ends the wait */
	release_pipes();
	compact();
	answer(1);
	must(board->word[2] == 1, "the handler ran %ld times", board->word[2]);
	must(board->word[3] == mem.order, "a page of order %ld came", board->word[3]);
}

static long child_is_limited(long unused, long unused2)
{
	need_cgroup();
	return 0;
}

static void must_wait_on(long tries)
{
	long waited = vm_event("order_waited");

	for (int i = 0; i < 500 && vm_event("order_waited") < waited + tries; i++)
		usleep(20000);
	if (board->word[3])
		skip("a page of order %ld was there after all", board->word[3]);
	must(vm_event("order_waited") >= waited + tries, "the fault does not wait");
}

static long child_waits_unprivileged(long unused, long unused2)
{
	must_call(setresuid(65534, 65534, 65534));
	return child_waits(0, 0);
}

#define TRACE	"/sys/kernel/tracing/"

/* How often a task has reset compaction's back-off while the fault waited. */
static long resets_by(pid_t pid)
{
	static char text[1 << 20];
	char who[32], *p = text;
	long n = 0;

	write_text(TRACE "trace", "");
	must_wait_on(20);
	must(read_text(TRACE "trace", text, sizeof(text)) >= 0, "the trace cannot be read");
	/* " region_order_wa-123     [000] ..... 12.3: mm_compaction_defer_reset: ..." */
	snprintf(who, sizeof(who), "-%d ", pid);
	while ((p = strstr(p, who))) {
		char *end = strchrnul(p, '\n'), was = *end;

		*end = 0;
		n += !!strstr(p, "mm_compaction_defer_reset");
		*end = was;
		p = end;
	}
	return n;
}

/*
 * What a wait costs others: the memory it holds meanwhile is charged, nobody is killed
 * for it, and only with the privilege it resets compaction's back-off.
 */
static void test_wait_is_bounded(long arg)
{
	const char *event = TRACE "events/compaction/mm_compaction_defer_reset/enable";
	long killed, peak, resets;

	need_orders();
	need_peers(8);
	mem.order = ARG_ORDER(arg);
	mem.block = page_size << mem.order;
	mem.len = 2 * mem.block;
	mem.base = map_at(arena(2), mem.len, RW, ANONYMOUS, -1, 0);
	must(!set_order(mem.base, mem.len, mem.order, WAIT), "the order is refused");
	/* fork the children before memory is short */
	for (int who = 1; who <= 3; who++)
		spawn(who);
	ask(1, child_is_limited, 0, 0);
	ask(3, child_is_limited, 0, 0);
	fragment_for_good(mem.order);

	killed = vm_event("oom_kill");
	tell(1, child_waits, 0, 0);
	must_wait_on(5);
	peak = cgroup_number(CGROUP, "memory.peak", NULL);
	must(peak >= (long)mem.block, "the group's peak is %ld bytes", peak);

	mount("tracefs", TRACE, "tracefs", 0, NULL);
	if (!write_text(event, "1")) {
		resets = resets_by(pid_of(1));
		must(resets > 0, "a wait with the privilege resets nothing");
		kill_peer(1);
		tell(2, child_waits_unprivileged, 0, 0);
		must_wait_on(2);
		resets = resets_by(pid_of(2));
		must(!resets, "a wait without the privilege resets %ld times", resets);
		write_text(event, "0");
		kill_peer(2);
	} else {
		note("no trace of compaction");
		kill_peer(1);
	}

	/* a group that has no room for the page: no wait for it, and nobody is killed */
	must(!write_text(CGROUP "memory.max", "1048576"), "no limit");
	tell(3, child_waits, 0, 0);
	usleep(2000000);
	must(!is_gone(pid_of(3)), "the waiting task was killed");
	must(!cgroup_number(CGROUP, "memory.events", "oom_kill"),
	     "the group's OOM killer was called");
	must(vm_event("oom_kill") == killed, "the machine's OOM killer was called");
	release_pipes();
	kill_peer(3);
}

/* Movable fragmented memory: a fault with WAIT gets its page. */
static void test_fragmented(long arg)
{
	long before, fell_back;

	need_orders();
	write_text("/proc/sys/vm/compaction_proactiveness", "0");
	need_peers(8);
	set_mem(arg, ARG_ORDER(arg) > 8 ? 8 : 16);
	if (!IS_FILE(arg)) {
		mem.base = map_at(arena(20), mem.len, RW, ANONYMOUS, -1, 0);
		must(!set_order(mem.base, mem.len, mem.order, mem.policy), "the order is refused");
	} else {
		make_mem_file();
		map_fd(arena(20), mem.len, file_prot(arg), MAP_SHARED, 0);
	}
	fragment(mem.order);
	before = vm_event("order_fell_back");
	/*
	 * With WAIT check each block at once: compaction for the next block may
	 * split it, as in mainline, and reclaim may take parts of it.
	 */
	if (mem.policy & WAIT)
		touch_blocks(mem.base, mem.len, mem.order);
	fell_back = vm_event("order_fell_back") - before;
	if (IS_FILE(arg) && file_fs == IMAGE) {
		check_file(mem.base, nr_pages());
	} else {
		fill(0);
		check(0);
	}
	if (!(mem.policy & WAIT))
		fell_back = vm_event("order_fell_back") - before;
	write_text("/proc/sys/vm/compaction_proactiveness", "20");
	if (mem.policy & WAIT)
		must(!fell_back, "%ld faults fell back", fell_back);
	else
		must(fell_back > 0, "memory was not fragmented, or an allocation waited");
}

static long child_waits_for_file(long unused, long unused2)
{
	touch(mem.base);
	board->word[3] = 1 + mapped_order(mem.base);
	return 0;
}

/*
 * A fault that waits counts as one miss however often it is retried, so that a
 * mapping of the file without an order keeps its read-around.
 */
static void test_file_wait_misses(long arg)
{
	/* more than the misses after which there is no read-around */
	const long many = 120;
	unsigned char there = 0;
	size_t far;
	char *none;
	long waited;

	need_peers(8);
	set_mem(arg, 2);
	make_mem_file();
	drop_cache();
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	none = map_at(arena(7), mem.len, PROT_READ, MAP_SHARED, file_fd, 0);
	far = mem.block + mem.block / 2;
	spawn(1);
	fragment_for_good(mem.order);
	waited = vm_event("order_waited");
	tell(1, child_waits_for_file, 0, 0);
	for (int i = 0; i < 2000 && vm_event("order_waited") < waited + many; i++)
		usleep(20000);
	if (board->word[3])
		skip("a page of order %ld was there after all", board->word[3] - 1);
	must(vm_event("order_waited") >= waited + many, "the fault does not wait");
	touch(none + far);
	/* read-around may complete later */
	for (int i = 0; i < 100 && !(there & 1); i++) {
		must_call(mincore(none + far + page_size, page_size, &there));
		usleep(20000);
	}
	must(there & 1, "the page behind was not read as well");
	must(!board->word[3], "the fault did not wait all the while");
	release_pipes();
	compact();
	answer(1);
	sees(page_is(mem.base, file_tag(0)), "the page is not the file's");
	must(board->word[3] == 1 + mem.order, "a page of order %ld came", board->word[3] - 1);
}

/* These fill the machine's memory page by page: only without -q. */
static const struct test_case slow[] = {
	{ "Fragmented memory: order 9 if it is free", test_fragmented, ARG(9, 0),
	  .guards = REGION_ORDER },
	{ "Fragmented memory: order 9 is waited for", test_fragmented, ARG(9, WAIT),
	  .guards = REGION_ORDER },
	{ "Fragmented memory: order 4 is waited for", test_fragmented, ARG(4, WAIT),
	  .guards = REGION_ORDER },
	{ "Fragmented memory: a file of order 9 if it is free", test_fragmented,
	  ON(ARG(9, 0), TMPFS), .guards = REGION_ORDER },
	{ "Fragmented memory: a file of order 9 is waited for", test_fragmented,
	  ON(ARG(9, WAIT), TMPFS), .guards = REGION_ORDER },
	{ "Fragmented memory: a file of erofs of order 9 if it is free", test_fragmented,
	  ON(ARG(9, 0), IMAGE), .guards = REGION_ORDER },
	{ "Fragmented memory: a file of erofs of order 9 is waited for", test_fragmented,
	  ON(ARG(9, WAIT), IMAGE), .guards = REGION_ORDER },
	{ "Fragmented memory: a file of erofs of order 4 is waited for", test_fragmented,
	  ON(ARG(4, WAIT), IMAGE), .guards = REGION_ORDER },
	{ "A wait ends by signals and by memory", test_wait_ends, ARG(9, WAIT),
	  .guards = REGION_ORDER },
	{ "A wait is charged, kills nobody, and insists by privilege", test_wait_is_bounded,
	  ARG(9, WAIT), .guards = REGION_ORDER | PRIVILEGE },
	{ "A fault that waits for a file counts as one miss", test_file_wait_misses, ON(ARG(9,
	  WAIT), IMAGE), .guards = REGION_ORDER },
};

int main(int argc, char **argv)
{
	read_options(argc, argv);
	if (!quick)
		add_cases(slow, ARRAY_SIZE(slow));
	return run_orders(argc, argv);
}
