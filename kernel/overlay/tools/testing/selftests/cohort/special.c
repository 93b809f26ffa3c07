// SPDX-License-Identifier: GPL-2.0-only
/*
 * Special memory: mappings of drivers, locked, secret, droppable and broken
 * memory, and core dumps.
 */
#include "common.h"

#include <elf.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <linux/aio_abi.h>
#include <linux/perf_event.h>

/* --- memory that is never shared ------------------------------------------ */

#define ORDINARY	16	/* pages of private memory in the table */

static char *table;		/* its first address */

/* map private memory at the begin of a table; special memory comes later in it */
static void make_table(void)
{
	table = arena(1);
	map_at(table, ORDINARY * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	       -1, 0);
	madvise(table, ORDINARY * page_size, MADV_NOHUGEPAGE);
	for (int i = 0; i < ORDINARY; i++)
		page_fill(table + i * page_size, 40 + i);
}

static long ordinary_intact(long a, long b)
{
	for (int i = 0; i < ORDINARY; i++)
		sees(page_is(table + i * page_size, 40 + i), "page %d is another", i);
	return 0;
}

static long write_ordinary(long tag, long b)
{
	for (int i = 0; i < ORDINARY; i++)
		page_fill(table + i * page_size, tag + i);
	for (int i = 0; i < ORDINARY; i++)
		sees(page_is(table + i * page_size, tag + i), "page %d is another", i);
	return 0;
}

static long forget_table(long a, long b)
{
	must_call(munmap(table, table_size));
	return 0;
}

/* Count the table if a new child shares it: the child unmaps it, another keeps it. */
static long is_shared(void)
{
	long before;

	need_peers(8);
	spawn(6);
	spawn(7);
	ask(6, ordinary_intact, 0, 0);
	ask(7, ordinary_intact, 0, 0);
	before = shared_tables(pid_of(6));
	ask(6, forget_table, 0, 0);
	before -= shared_tables(pid_of(6));
	quit(6);
	ask(7, ordinary_intact, 0, 0);
	quit(7);
	return before;
}

enum special { RING, PERF_BUFFER, SECRET, DROPPABLE };

static char *map_special(enum special what, char *at)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
	};
	int flags = MAP_SHARED | MAP_FIXED_NOREPLACE, prot = PROT_READ | PROT_WRITE, fd = -1;
	aio_context_t context = 0;
	size_t len = page_size;
	char *p;

	switch (what) {
	case RING:
		/* asynchronous I/O chooses the place, and lets it be changed */
		if (syscall(__NR_io_setup, 1, &context))
			skip("no asynchronous I/O in this kernel: %s", strerror(errno));
		p = mremap((void *)context, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at);
		if (p == MAP_FAILED)
			skip("the ring cannot be moved: %s", strerror(errno));
		return p;
	case PERF_BUFFER:
		fd = syscall(__NR_perf_event_open, &attr, 0, -1, -1, 0);
		len = 2 * page_size;
		break;
	case SECRET:
		fd = syscall(__NR_memfd_secret, 0);
		if (fd >= 0)
			must_call(ftruncate(fd, page_size));
		break;
	case DROPPABLE:
		flags = MAP_DROPPABLE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
		break;
	default:
		flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	}
	if (fd < 0 && !(flags & MAP_ANONYMOUS))
		skip("not in this kernel: %s", strerror(errno));
	p = mmap(at, len, prot, flags, fd, 0);
	if (p == MAP_FAILED)
		skip("cannot be mapped: %s", strerror(errno));
	must(p == at, "mapped elsewhere");
	return p;
}

static long word_at(long addr, long unused)
{
	return __atomic_load_n((unsigned int *)addr, __ATOMIC_ACQUIRE);
}

/* Parent and child map one ring: the child must see a driver's writes. */
static void check_ring(char *ring)
{
	/* identity, size, head, tail: how many requests are done */
	long tail = (long)(ring + 12), before = word_at(tail, 0);
	struct iocb request = {
		.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = make_file("tmpfs", 1),
		.aio_buf = (uintptr_t)table, .aio_nbytes = page_size,
	}, *list = &request;

	spawn(1);
	sees(ask(1, word_at, tail, 0) == before, "parent and child have two rings");
	must(syscall(__NR_io_submit, (aio_context_t)ring, 1, &list) == 1, "io_submit: %s",
	     strerror(errno));
	for (int i = 0; i < 500 && word_at(tail, 0) == before; i++)
		usleep(10000);
	must(word_at(tail, 0) == before + 1, "the request is not done");
	sees(page_is(table, FILE_TAG(0)), "something else was read");
	sees(ask(1, word_at, tail, 0) == before + 1, "the child has an old ring");
	ask(1, ordinary_intact, 0, 0);
	quit(1);
	page_fill(table, 40);
}

static long fill_page(long addr, long tag)
{
	page_fill((char *)addr, tag);
	return 0;
}

static long page_holds(long addr, long tag)
{
	return page_is((char *)addr, tag);
}

/* Secret memory is not mapped by the kernel; parent and child share it. */
static void check_secret(char *secret)
{
	struct iovec local = { table, page_size }, remote = { secret, page_size };

	spawn(1);
	spawn(2);
	ask(1, fill_page, (long)secret, 61);
	for (int i = 0; i <= 2; i++)
		sees(ask(i, page_holds, (long)secret, 61), "process %d does not see the secret", i);
	must(process_vm_readv(pid_of(2), &local, 1, &remote, 1, 0) < 0,
	     "a secret can be read from outside");
	quit(1);
	fill_page((long)secret, 62);
	sees(ask(2, page_holds, (long)secret, 62), "a child does not see the secret");
	quit(2);
}

static void test_special(long what)
{
	char *special;
	long shared;

	make_table();
	become_zygote();
	if (sharing_possible()) {
		shared = is_shared();
		must(shared == 1, "an ordinary table is not shared");
	}
	special = map_special(what, table + 64 * page_size);
	touch(special);
	if (what == SECRET || what == DROPPABLE)
		page_fill(special, 4);
	if (sharing_possible() && what != SECRET) {
		shared = is_shared();
		must(!shared, "a table with such memory in it is shared");
	}
	ordinary_intact(0, 0);
	if (what == RING)
		check_ring(special);
	if (what == SECRET)
		check_secret(special);
	spawn(1);
	spawn(2);
	if (what != PERF_BUFFER)	/* children do not inherit a perf buffer */
		sees(!ask(1, read_page, (long)special, 0), "the child cannot read it");
	ask(1, write_ordinary, 700, 0);
	write_ordinary(800, 0);
	ask(2, ordinary_intact, 0, 0);
	quit(1);
	ask(2, ordinary_intact, 0, 0);
}

static long map_in_hole(long what, long b)
{
	char *special = map_special(what, table + 64 * page_size);

	touch(special);
	ordinary_intact(0, 0);
	return 0;
}

/* Map it in a hole of a shared table: the process must unshare. */
static void test_special_in_hole(long what)
{
	char *hole;

	make_table();
	become_zygote();
	hole = table + 64 * page_size;
	need_peers(8);
	for (int i = 1; i <= 2; i++)
		spawn(i);
	ask(1, map_in_hole, what, 0);
	sees(probe_read(hole) == SIGSEGV, "the parent has what its child mapped");
	sees(ask(2, read_page, (long)hole, 0) == SIGSEGV, "a sibling has what a child mapped");
	ask(2, ordinary_intact, 0, 0);
	ask(1, write_ordinary, 700, 0);
	ask(2, ordinary_intact, 0, 0);
	ordinary_intact(0, 0);
	quit(1);
	sees(ask(2, read_page, (long)hole, 0) == SIGSEGV,
	     "a sibling has what a child had mapped");
	ask(2, ordinary_intact, 0, 0);
}

/* --- locked from now on --------------------------------------------------- */

static long lock_future(long flags, long b)
{
	return mlockall(flags) ? -errno : 0;
}

static long map_more(long addr, long b)
{
	map_at((char *)addr, 4 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	       -1, 0);
	return proc_field(0, "status", "VmLck");
}

static void test_lock_future(long flags)
{
	long err, shared;
	char *hole;

	err = lock_future(flags, 0);
	if (err)
		skip("mlockall: %s", strerror(-err));
	make_table();
	must(proc_field(0, "status", "VmLck") > 0, "nothing is locked");
	become_zygote();
	if (sharing_possible())
		must(!is_shared(), "a table of locked memory is shared");
	need_peers(8);
	spawn(1);
	spawn(2);
	/* children inherit neither locks nor MCL_FUTURE */
	must(!proc_field(pid_of(1), "status", "VmLck"), "the child has locked memory");
	hole = table + 64 * page_size;
	must(!ask(1, map_more, (long)hole, 0), "what the child maps is locked");
	ask(1, write_ordinary, 700, 0);
	ask(2, ordinary_intact, 0, 0);
	ordinary_intact(0, 0);
	/* a process that shares with its own child locks its memory */
	spawn_from(2, 3);
	/* let both answer once, which unshares what answering writes */
	ask(2, ordinary_intact, 0, 0);
	ask(3, ordinary_intact, 0, 0);
	shared = shared_tables(pid_of(2));
	must(!ask(2, lock_future, flags, 0), "mlockall: %s", strerror(errno));
	if (sharing_possible())
		must(shared_tables(pid_of(2)) < shared, "memory that is locked stays shared");
	must(ask(2, map_more, (long)hole, 0) > 0, "what is mapped later is not locked");
	sees(ask(3, read_page, (long)hole, 0) == SIGSEGV,
	     "a child has what its parent mapped later");
	ask(2, write_ordinary, 900, 0);
	ask(3, ordinary_intact, 0, 0);
	must_call(munlockall());
	if (sharing_possible())
		must(is_shared() == 1, "memory that is locked no more is not shared");
	ordinary_intact(0, 0);
}

/* MLOCK_ONFAULT locks what is mapped, also what nobody has used for some time. */
static void test_lock_mapped(long arg)
{
	const long pages = 64;
	long mapped, locked;
	char *p;

	p = map_at(arena(1), pages * page_size, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (long i = 0; i < pages; i++)
		page_fill(p + i * page_size, 1);
	must(!write_text("/proc/self/clear_refs", "1"), "clear_refs");
	become_zygote();
	spawn(1);
	if (mlock2(p, pages * page_size, MLOCK_ONFAULT)) {
		must(errno == ENOSYS || errno == EPERM, "mlock2: %s", strerror(errno));
		skip("mlock2: %s", strerror(errno));
	}
	mapped = region_field(p, "Rss");
	must(mapped == pages * page_size / 1024, "%ld kB are mapped, %ld before", mapped,
	     pages * page_size / 1024);
	/* this too is divided by those that map a page */
	mapped = region_field(p, "Pss");
	locked = region_field(p, "Locked");
	must(locked == mapped, "%ld kB are locked of %ld", locked, mapped);
	munlock(p, pages * page_size);
}

/* --- memory that breaks --------------------------------------------------- */

#define UNPOISON	"/sys/kernel/debug/hwpoison/unpoison-pfn"

static void test_poison(long arg)
{
	char *addr, text[32];
	long ret;
	__u64 pfn;

	if (access(UNPOISON, W_OK))
		skip("a page taken out of use cannot be given back here");
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	need_peers(8);
	spawn_models(3, &area);
	addr = area.spot[0].addr;
	/* a process with its own copy keeps it */
	ask(3, model_scribble, 3, 4);
	for (int i = 0; i <= 3; i++) {
		ask(i, dies_late, 0, 0);
		ask(i, model_check, i, 0);
	}
	pfn = pagemap_entry(pid_of(2), addr) & PM_PFN;
	must(pfn, "the page is not there");
	for (int i = 0; i <= 3; i++)
		if ((pagemap_entry(pid_of(i), addr) & PM_PFN) == pfn)
			board->model[i].want[0].acc = BUS;
	must(board->model[0].want[0].acc == BUS, "parent and child have different pages");
	ret = ask(2, poison, (long)addr, 0);
	if (ret == -EINVAL || ret == -EPERM)
		skip("memory cannot be poisoned in this kernel");
	must(!ret, "MADV_HWPOISON: %s", strerror(-ret));
	model_check_all(4);
	/* the rest of the table is not affected */
	model_scribble_all(4);
	model_check_all(4);
	/* new children map the broken page too */
	spawn_from(1, 4);
	board->model[4] = board->model[1];
	spawn(5);
	board->model[5] = board->model[0];
	models_right(6);
	for (int i = 1; i <= 5; i++)
		quit(i);
	area_unmap(&area);
	for (int i = 0; i < area.nparts; i++)
		if (area.part[i].fd >= 0)
			close(area.part[i].fd);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)pfn);
	must(!write_text(UNPOISON, text), "the page cannot be given back");
}

/* --- core dumps ----------------------------------------------------------- */

#define CORE_PATTERN	"/proc/sys/kernel/core_pattern"

/* memory of the main process, which puts back what a case has changed */
static char *old_pattern;

static long dump_core(long a, long b)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	must_call(setrlimit(RLIMIT_CORE, &limit));
	/* all kinds of memory */
	must(!write_text("/proc/self/coredump_filter", "0x1ff"), "coredump_filter");
	signal(SIGABRT, SIG_DFL);
	abort();
}

/* where in a dump an address is; -1 if it is not there */
static off_t core_offset(int fd, char *addr)
{
	Elf64_Ehdr head;
	Elf64_Phdr ph;

	must(pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	     !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_type == ET_CORE,
	     "this is no core dump");
	for (int i = 0; i < head.e_phnum; i++) {
		must(pread(fd, &ph, sizeof(ph), head.e_phoff + i * sizeof(ph)) == sizeof(ph),
		     "the dump is short");
		if (ph.p_type == PT_LOAD && (uintptr_t)addr >= ph.p_vaddr &&
		    (uintptr_t)addr + page_size <= ph.p_vaddr + ph.p_filesz)
			return ph.p_offset + ((uintptr_t)addr - ph.p_vaddr);
	}
	return -1;
}

static void test_core(long arg)
{
	static const char * const dirs[] = { "/dev/shm", "/tmp", "/var/tmp", "/run" };
	char path[96], pattern[64], *page = aligned_alloc(page_size, page_size);
	int dead = 2, fd = -1, found = 0;
	struct model *m = &board->model[dead];
	const char *dir = NULL;

	if (sizeof(long) < 8)
		skip("the dump of another class");
	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !dir; i++)
		if (!access(dirs[i], W_OK))
			dir = dirs[i];
	if (!dir || read_text(CORE_PATTERN, pattern, sizeof(pattern)) <= 0)
		skip("no place for a dump, or none is made");
	pattern[strcspn(pattern, "\n")] = 0;
	snprintf(old_pattern, sizeof(pattern), "%s", pattern);
	snprintf(path, sizeof(path), "%s/cohort-core-%%p", dir);
	if (write_text(CORE_PATTERN, path)) {
		*old_pattern = 0;
		skip("not root, so core_pattern stays");
	}
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	need_peers(8);
	spawn_models(3, &area);
	/* half of the dumped pages are inherited, half were written by the process */
	if (ARG_ARG(arg)) {
		m->n /= 2;
		ask(dead, model_scribble, dead, 4);
		m->n = board->model[0].n;
	}
	tell(dead, dump_core, 0, 0);
	wait_gone(dead);
	snprintf(path, sizeof(path), "%s/cohort-core-%d", dir, pid_of(dead));
	/* the dump may appear after the process is gone */
	for (int i = 0; i < 500 && fd < 0; i++) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			usleep(10000);
	}
	if (fd < 0)
		skip("no core dump is made here");
	unlink(path);
	for (int i = 0; i < m->n; i++) {
		off_t at = core_offset(fd, m->want[i].addr);

		must(at >= 0, "spot %d is not in the dump", i);
		must(pread(fd, page, page_size, at) == (ssize_t)page_size, "the dump is short");
		sees(page_is(page, m->want[i].tag), "spot %d is another in the dump", i);
		found++;
	}
	must(found == area.nspots, "%d of %d spots are in the dump", found, area.nspots);
	close(fd);
	free(page);
	m->n = 0;
	models_right(4);
	spawn(4);
	board->model[4] = board->model[0];
	models_right(5);
}

static void put_back(void)
{
	if (*old_pattern)
		write_text(CORE_PATTERN, old_pattern);
	*old_pattern = 0;
}

#define BROKEN	(KIND(ANON) | KIND(HEAP) | KIND(SHARED_FILE) | KIND(PRIV_FILE_RO) | \
		 KIND(MEMFD) | KIND(ALONE))
#define MOST	(KIND(ANON) | KIND(HEAP) | KIND(PRIV_FILE) | KIND(PRIV_FILE_RO) | \
		 KIND(SHARED_FILE) | KIND(SHARED_ANON) | KIND(MIXED) | KIND(BORDERS) | \
		 KIND(ALONE))
#define QUICK	KIND(MIXED)

static const struct test_case cases[] = {
	{ "A table with a driver's ring in it is not shared", test_special, RING,
	  .guards = INVARIANT(1) },
	{ "A table with a tracing buffer in it is not shared", test_special, PERF_BUFFER,
	  .guards = INVARIANT(1) },
	{ "Who sees secret memory?", test_special, SECRET, .guards = STOCK },
	{ "A table with droppable memory in it is not shared", test_special, DROPPABLE,
	  .guards = INVARIANT(1) },
	{ "Who has a driver's ring that a child maps in a hole?", test_special_in_hole, RING,
	  .guards = INVARIANT(1) },
	{ "Who has a tracing buffer that a child maps in a hole?", test_special_in_hole,
	  PERF_BUFFER, .guards = INVARIANT(1) },
	{ "Who has secret memory that a child maps in a hole?", test_special_in_hole, SECRET,
	  .guards = INVARIANT(1) },
	{ "Who has droppable memory that a child maps in a hole?", test_special_in_hole,
	  DROPPABLE, .guards = INVARIANT(1) },
	{ "Who has what after mlockall(MCL_CURRENT | MCL_FUTURE)?", test_lock_future,
	  MCL_CURRENT | MCL_FUTURE, .guards = INVARIANT(1) },
	{ "Who has what after mlockall() with MCL_ONFAULT?", test_lock_future,
	  MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT, .guards = INVARIANT(1) },
	{ "Does MLOCK_ONFAULT lock all that is mapped?", test_lock_mapped, .guards = INVARIANT(1) },
	{ "Do all users of a broken page get SIGBUS, and of others none?", test_poison, 0,
	  BROKEN, KIND(ANON) | KIND(SHARED_FILE) | KIND(ALONE), .guards = INVARIANT(4) },
	{ "Does a core dump hold what the process had?", test_core, 0, MOST, QUICK,
	  .guards = INVARIANT(2) },
	{ "Does a core dump hold what the process wrote last?", test_core, 1, MOST, QUICK,
	  .guards = INVARIANT(2) },
};

int main(int argc, char **argv)
{
	old_pattern = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (old_pattern == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	after_each_case = put_back;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
