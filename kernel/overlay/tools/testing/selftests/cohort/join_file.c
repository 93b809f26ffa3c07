// SPDX-License-Identifier: GPL-2.0-only
/* Joining tables at faults, among all processes of one user. */
#include "join/join.h"

#include <grp.h>
#include <sched.h>

#define PRIVATE_TAG(who)	(500u + (unsigned int)(who))

/* --- who joins ------------------------------------------------------------ */

static int other_file = -1;

static void test_join(long arg)
{
	long joined, faults, shared;

	start_prot(3, arg);
	/* Writeback looks for the file's mappings: who comes meanwhile does not join. */
	must_call(fsync(file));
	spawn_all(3);
	map_and_read(1);
	joined = vm_event("cohort_ptp_joined");
	ask(2, map_view, 2, 0);
	faults = ask(2, read_view, 2, 1);
	ask(2, view_right, 2, -1);
	if (joining()) {
		joined = vm_event("cohort_ptp_joined") - joined;
		must(joined >= TABLES, "%ld tables were joined, not %d", joined, TABLES);
		must(faults <= TABLES + 4, "the second process takes %ld faults for %d tables",
		     faults, TABLES);
		shared = shared_tables(pid_of(2));
		ask(2, unmap_view, 2, 0);
		shared -= shared_tables(pid_of(2));
		must(shared == TABLES, "it shares %ld of the tables, not %d", shared, TABLES);
		map_and_read(2);
	}
	map_and_read(3);
	quit(1);
	ask(2, view_right, 2, -1);
	quit(2);
	ask(3, view_right, 3, -1);
	map_and_read(SELF);
}

/* a page that one of them brings in is there for all */
static void test_fill(long arg)
{
	long faults;

	start_prot(2, arg);
	spawn_all(2);
	for (int i = 1; i <= 2; i++) {
		ask(i, map_view, i, 0);
		ask(i, read_page, (long)page_at(i, 0), 0);
		ask(i, read_page, (long)page_at(i, table_pages), 0);
	}
	ask(1, read_view, 1, 1);
	faults = ask(2, read_view, 2, 1);
	if (joining())
		must(!faults, "%ld faults on pages that another process has mapped", faults);
	ask(2, view_right, 2, -1);
}

/* --- who does not --------------------------------------------------------- */

enum {
	OTHER_PROT, OTHER_WRITE, OTHER_OFFSET, OTHER_HOLE, OTHER_SHARING, OTHER_FILE,
	OTHER_KIND_BESIDE, OTHER_FILE_BESIDE, NOT_CONGRUENT, OTHER_LOCK, NR_OTHERS
};

static long map_other(long who, long other)
{
	struct view *v = &view[who];
	char *hole = v->at + 8 * page_size;

	switch (other) {
	case OTHER_PROT:
		v->prot |= PROT_EXEC;
		break;
	case OTHER_WRITE:
		v->prot |= PROT_WRITE;
		break;
	case OTHER_OFFSET:
		v->at -= page_size;	/* all but one page of the range are others */
		v->first = 1;
		v->pages -= 1;
		break;
	case OTHER_SHARING:
		v->flags = MAP_SHARED;
		break;
	case OTHER_FILE:
		v->fd = other_file;
		break;
	case NOT_CONGRUENT:
		v->at += 16 * page_size;
		v->pages -= 16;
		break;
	}
	map_view(who, 0);
	for (int i = 0; i < TABLES; i++, hole += table_size)
		switch (other) {
		case OTHER_HOLE:
			must_call(munmap(hole, page_size));
			break;
		case OTHER_KIND_BESIDE:
			must_call(munmap(hole, page_size));
			map_at(hole, page_size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			page_fill(hole, 1);
			break;
		case OTHER_FILE_BESIDE:
			must_call(munmap(hole, page_size));
			map_at(hole, page_size, v->prot, v->flags, other_file,
			       (hole - v->at) / page_size * page_size);
			break;
		case OTHER_LOCK:
			must_call(mlock(hole, page_size));
			break;
		}
	return 0;
}

static void test_other(long other)
{
	bool hole = other >= OTHER_HOLE && other != OTHER_SHARING &&
		    other != OTHER_FILE && other != NOT_CONGRUENT;
	long before;

	start(3, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	other_file = make_file("tmpfs", TABLES * table_pages);
	spawn_all(3);
	map_and_read(1);
	before = shared_tables(pid_of(2));
	ask(2, map_other, 2, other);
	switch (other) {
	case OTHER_OFFSET:
		view[2].at -= page_size;
		view[2].first = 1;
		view[2].pages -= 1;
		break;
	case NOT_CONGRUENT:
		view[2].at += 16 * page_size;
		view[2].pages -= 16;
		break;
	}
	for (size_t i = view[2].first; i < view[2].first + view[2].pages; i++) {
		if (hole && i % table_pages == 8) {
			if (other == OTHER_KIND_BESIDE)
				sees(ask(2, has_page, (long)page_at(2, i), 1),
				     "its own page is not as it wrote it");
			if (other == OTHER_HOLE)
				sees(ask(2, read_page, (long)page_at(2, i), 0) == SIGSEGV,
				     "a hole can be read");
			continue;
		}
		ask(2, read_page, (long)page_at(2, i), 0);
	}
	for (size_t i = view[2].first; i < view[2].first + view[2].pages; i += 7)
		if (!hole || i % table_pages != 8)
			sees(ask(2, has_page, (long)page_at(2, i), FILE_TAG(i)),
			     "page %zu is not the file's", i);
	ask(1, view_right, 1, -1);
	if (joining())
		must(shared_tables(pid_of(2)) <= before, "it joins a table of another kind");
	/* one of the first kind still does */
	map_and_read(3);
	if (joining())
		must(shared_tables(pid_of(1)) >= TABLES, "the first table is not shared");
}

/* --- what one of them does ------------------------------------------------ */

enum change {
	WRITE_PAGE, UNMAP_PART, UNMAP_ALL, MAP_OVER, MAP_BESIDE, PROTECT, MOVE, LOCK,
	THROW_AWAY, THROW_PART, PAGE_OUT, COLD, BECOME, NEW_NS, HIDE, FORK, CRASH, EXEC,
	NR_CHANGES
};

static long unmap_part(long addr, long unused)
{
	must_call(munmap((char *)addr, 64 * page_size));
	return 0;
}

static long do_change(long who, long change)
{
	char *at = view[who].at, *mid = at + table_size + 16 * page_size;
	size_t len = 32 * page_size;
	pid_t pid;
	int status;

	switch (change) {
	case WRITE_PAGE:
		page_fill(at, PRIVATE_TAG(who));
		page_fill(mid, PRIVATE_TAG(who));
		break;
	case UNMAP_PART:
		must_call(munmap(mid, len));
		break;
	case UNMAP_ALL:
		must_call(munmap(at, TABLES * table_size));
		break;
	case MAP_OVER:
		must(mmap(mid, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == mid, "mmap");
		page_fill(mid, PRIVATE_TAG(who));
		break;
	case MAP_BESIDE:
		must_call(munmap(mid, len));
		map_at(mid, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
		page_fill(mid, PRIVATE_TAG(who));
		break;
	case PROTECT:
		must_call(mprotect(mid, len, PROT_NONE));
		break;
	case MOVE:
		must(mremap(mid, len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
			    at + (TABLES + 1) * table_size) != MAP_FAILED, "mremap");
		break;
	case LOCK:
		must_call(mlock(mid, len));
		break;
	case THROW_AWAY:
		must_call(madvise(at, TABLES * table_size, MADV_DONTNEED));
		break;
	case THROW_PART:
		must_call(madvise(mid, len, MADV_DONTNEED));
		break;
	case PAGE_OUT:
		madvise(at, TABLES * table_size, MADV_PAGEOUT);
		break;
	case COLD:
		madvise(at, TABLES * table_size, MADV_COLD);
		break;
	case BECOME:
		if (geteuid())
			return 1;
		must(!setgroups(0, NULL) && !setgid(NOBODY) && !setuid(NOBODY), "setuid");
		break;
	case NEW_NS:
		if (unshare(CLONE_NEWNS))
			return 1;
		break;
	case HIDE:
		must_call(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
		break;
	case FORK:
		pid = fork();
		if (!pid) {
			view_right(who, -1);
			page_fill(mid, PRIVATE_TAG(who));
			_exit(!page_is(mid, PRIVATE_TAG(who)));
		}
		must(waitpid(pid, &status, 0) == pid && !status, "its child: %x", status);
		break;
	}
	return 0;
}

static bool leaves_group(enum change change)
{
	return change == BECOME || change == NEW_NS || change == HIDE;
}

/* what peer `who` must see after do_change() */
static void check_changed(int who, enum change change)
{
	size_t mid = table_pages + 16;

	for (size_t i = 0; i < TABLES * table_pages; i += i % 16 ? 1 : 15) {
		bool in = i >= mid && i < mid + 32;
		char *page = page_at(who, i);

		if (change == UNMAP_ALL || (in && (change == UNMAP_PART || change == PROTECT ||
						   change == MOVE)) ||
		    (change == MAP_BESIDE && in && i != mid))
			sees(ask(who, read_page, (long)page, 0) == SIGSEGV,
			     "page %zu is still there", i);
		else if ((change == WRITE_PAGE && (!i || i == mid)) ||
			 ((change == MAP_OVER || change == MAP_BESIDE) && i == mid))
			sees(ask(who, has_page, (long)page, PRIVATE_TAG(who)),
			     "page %zu is not its own", i);
		else if (change == MAP_OVER && in)
			sees(ask(who, has_page, (long)page, 0), "page %zu is not empty", i);
		else
			sees(ask(who, has_page, (long)page, FILE_TAG(i)),
			     "page %zu is not the file's", i);
	}
}

static void test_change(long arg)
{
	enum change change = arg >> 8;

	start_prot(4, (arg & 0xf0) | WRITABLE);
	spawn_all(4);
	for (int i = 1; i <= 3; i++)
		map_and_read(i);
	if (change == CRASH) {
		kill_peer(2);
	} else if (change == EXEC) {
		tell(2, exec_sleep, 0, 0);
		wait_exec(2);
	} else {
		if (ask(2, do_change, 2, change))
			skip("not permitted");
		if (joining() && leaves_group(change))
			must(!shared_tables(pid_of(2)), "it shares %ld tables",
			     shared_tables(pid_of(2)));
		check_changed(2, change);
	}
	ask(1, view_right, 1, -1);
	ask(3, view_right, 3, -1);
	map_and_read(4);
	ask(1, do_change, 1, WRITE_PAGE);
	check_changed(1, WRITE_PAGE);
	ask(3, view_right, 3, -1);
	ask(4, view_right, 4, -1);
	if (leaves_group(change)) {
		/* nor does it join one again */
		ask(2, unmap_view, 2, 0);
		map_and_read(2);
		if (joining())
			must(!shared_tables(pid_of(2)), "it has joined a table again");
	}
}

/* the only user takes its table back by writing: nobody may join it after that */
static void test_only_user(long arg)
{
	start_prot(2, arg);
	spawn_all(2);
	map_and_read(1);
	ask(1, do_change, 1, WRITE_PAGE);
	map_and_read(2);
	check_changed(1, WRITE_PAGE);
}

static void test_write_shared(long arg)
{
	char *text = aligned_alloc(page_size, page_size);
	long page = table_pages + 3;

	start_prot(3, (arg & 0xf0) | SHARED);
	spawn_all(3);
	map_and_read(1);
	map_and_read(2);
	ask(1, fill_page, (long)page_at(1, page), PRIVATE_TAG(1));
	sees(ask(2, has_page, (long)page_at(2, page), PRIVATE_TAG(1)),
	     "a store to shared memory is not seen");
	ask(2, fill_page, (long)page_at(2, page + 1), PRIVATE_TAG(2));
	ask(3, map_view, 3, 0);
	for (int i = 1; i <= 3; i++)
		for (int j = 0; j < 2; j++)
			sees(ask(i, has_page, (long)page_at(i, page + j), PRIVATE_TAG(1 + j)),
			     "peer %d does not see store %d", i, j);
	must_call(fsync(file));
	must(pread(file, text, page_size, page * page_size) == (ssize_t)page_size, "pread");
	sees(page_is(text, PRIVATE_TAG(1)), "the file has not got the store");
	/* written back: each store must mark the page again */
	ask(3, fill_page, (long)page_at(3, page), PRIVATE_TAG(3));
	must_call(fsync(file));
	for (int i = 1; i <= 3; i++)
		sees(ask(i, has_page, (long)page_at(i, page), PRIVATE_TAG(3)),
		     "peer %d does not see the store after a write-back", i);
	free(text);
}

static void test_truncate(long arg)
{
	size_t left = table_pages + 100;

	start_prot(3, arg);
	spawn_all(3);
	for (int i = 1; i <= 3; i++)
		map_and_read(i);
	must_call(ftruncate(file, left * page_size));
	for (int i = 1; i <= 3; i++)
		for (size_t j = left - 2; j < left + 2; j++)
			sees(ask(i, read_page, (long)page_at(i, j), 0) ==
			     (j < left ? 0 : SIGBUS), "peer %d, page %zu of %zu", i, j, left);
	must_call(ftruncate(file, TABLES * table_size));
	for (int i = 1; i <= 3; i++) {
		sees(ask(i, has_page, (long)page_at(i, left - 1), FILE_TAG(left - 1)),
		     "peer %d: a page that stayed is gone", i);
		sees(ask(i, has_page, (long)page_at(i, left), 0),
		     "peer %d: a new page is not empty", i);
	}
}

static void test_move_page(long arg)
{
	start_prot(3, arg);
	spawn_all(3);
	for (int i = 1; i <= 3; i++)
		map_and_read(i);
	for (int i = 0; i < 8; i++)
		if (ask(1, poison, (long)page_at(1, 5 + 40 * i), 1) == -EINVAL)
			skip("no MADV_HWPOISON");
	for (size_t i = 0; i < TABLES * table_pages; i += 5)
		for (int j = 2; j <= 3; j++) {
			int sig = ask(j, read_page, (long)page_at(j, i), 0);

			sees(!sig || sig == SIGBUS, "signal %d", sig);
			if (!sig)
				sees(ask(j, has_page, (long)page_at(j, i), FILE_TAG(i)),
				     "peer %d, page %zu", j, i);
		}
}

/* --- PMD tables ------------------------------------------------------------ */

#define LARGE	(128UL << 20)
#define GIGABYTE (1UL << 30)
#define LARGE_AT ((char *)(uintptr_t)0x5000000000ULL + GIGABYTE / 4)

/* Large shared memory, alone in a gigabyte of each process, at the same offset in it. */
static void start_large(int peers)
{
	if (sizeof(long) < 8)
		skip("no gigabyte to spare");
	file = make_file("tmpfs", 16);
	must_call(ftruncate(file, LARGE));
	for (int i = 0; i <= peers; i++)
		view[i] = (struct view){ LARGE_AT + i * 2 * GIGABYTE, 0, LARGE / page_size,
					 PROT_READ | PROT_WRITE, MAP_SHARED, file };
	spawn_all(peers);
}

static long pmd_tables(int who)
{
	return proc_field(pid_of(who), "cohort", "SharedPmdTables");
}

static long large_right(long who, long unused)
{
	for (size_t i = 0; i < 16; i++)
		sees(page_is(page_at(who, i), FILE_TAG(i)), "page %zu is not the file's", i);
	for (size_t i = 16; i < LARGE / page_size; i += 1111)
		sees(page_is(page_at(who, i), 0), "page %zu is not empty", i);
	return 0;
}

static void test_large(long change)
{
	const long page = LARGE / page_size / 2 + 7;
	char *cut = page_at(2, LARGE / page_size / 2);

	start_large(4);
	for (int i = 1; i <= 3; i++) {
		ask(i, map_view, i, 0);
		ask(i, large_right, i, 0);
	}
	if (joining() && shares_pmd_tables())
		for (int i = 1; i <= 3; i++)
			must(pmd_tables(i) == 1, "peer %d shares %ld PMD tables", i, pmd_tables(i));
	ask(1, fill_page, (long)page_at(1, page), PRIVATE_TAG(1));
	for (int i = 2; i <= 3; i++)
		sees(ask(i, has_page, (long)page_at(i, page), PRIVATE_TAG(1)),
		     "peer %d does not see a store", i);
	switch (change) {
	case UNMAP_PART:
		ask(2, unmap_part, (long)cut, 0);
		sees(ask(2, read_page, (long)cut, 0) == SIGSEGV, "what was unmapped is there");
		break;
	case CRASH:
		kill_peer(2);
		break;
	case FORK:
		spawn_from(2, 5);
		sees(ask(5, has_page, (long)page_at(2, page), PRIVATE_TAG(1)),
		     "a child does not see a store");
		ask(5, fill_page, (long)page_at(2, page + 1), PRIVATE_TAG(5));
		sees(ask(3, has_page, (long)page_at(3, page + 1), PRIVATE_TAG(5)),
		     "a child's store is not seen");
		break;
	case UNMAP_ALL:
		for (int i = 1; i <= 3; i++)
			ask(i, unmap_view, i, 0);
		for (int i = 1; i <= 3; i++)
			ask(i, map_view, i, 0);
		break;
	}
	for (int i = 1; i <= 3; i += 2) {
		ask(i, large_right, i, 0);
		sees(ask(i, has_page, (long)page_at(i, page), PRIVATE_TAG(1)),
		     "peer %d: a store is gone", i);
	}
	must_call(ftruncate(file, LARGE / 4));
	for (int i = 1; i <= 3; i += 2)
		sees(ask(i, read_page, (long)page_at(i, page), 0) == SIGBUS,
		     "peer %d reads behind the end of the file", i);
	ask(4, map_view, 4, 0);
	for (size_t i = 0; i < 16; i++)
		sees(ask(4, has_page, (long)page_at(4, i), FILE_TAG(i)), "page %zu", i);
}

/* --- races ---------------------------------------------------------------- */

#define OWN_TAG	777u

static double race_end;

/* private stores beside reads, in a range that has no table yet: see cohort_lost_table() */
static void *store_pages(void *arg)
{
	char *at = arg;

	for (size_t i = 0; i < table_pages; i += 61)
		page_fill(at + i * page_size, OWN_TAG);
	return NULL;
}

static void *read_pages(void *arg)
{
	char *at = arg;

	for (size_t i = 1; i < table_pages; i += 7)
		touch(at + i * page_size);
	return NULL;
}

static long store_and_read(long who, long unused)
{
	while (now() < race_end) {
		char *at = mmap(view[who].at, table_size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_FIXED, file, 0);

		must(at == view[who].at, "mmap: %s", strerror(errno));
		start_thread(read_pages, at);
		start_thread(store_pages, at);
		start_thread(read_pages, at);
		stop_and_join();
		for (size_t i = 0; i < table_pages; i++)
			sees(page_is(at + i * page_size, i % 61 ? FILE_TAG(i) : OWN_TAG),
			     "peer %ld: page %zu", who, i);
		must_call(munmap(at, table_size));
	}
	return 0;
}

static long read_again(long who, long unused)
{
	while (now() < race_end) {
		map_view(who, 0);
		view_right(who, -1);
		unmap_view(who, 0);
	}
	return 0;
}

static long change_again(long who, long unused)
{
	static const enum change some[] = {
		WRITE_PAGE, UNMAP_PART, MAP_OVER, PROTECT, MOVE, LOCK, THROW_AWAY, THROW_PART,
		PAGE_OUT, FORK
	};

	for (unsigned int n = 0; now() < race_end; n++) {
		enum change change = some[n % ARRAY_SIZE(some)];

		map_view(who, 0);
		read_view(who, 3);
		do_change(who, change);
		munmap(view[who].at, (TABLES + 2) * table_size);
	}
	return 0;
}

/* join and leave a table without a copy, again and again */
static long throw_again(long who, long unused)
{
	map_view(who, 0);
	while (now() < race_end) {
		view_right(who, -1);
		must_call(madvise(view[who].at, TABLES * table_size, MADV_DONTNEED));
	}
	unmap_view(who, 0);
	return 0;
}

/* writes past the page cache: the kernel must find all that map the old page */
static long write_again(long who, long unused)
{
	char *page = aligned_alloc(page_size, page_size);
	int fd = open_direct(file, O_RDWR);

	must(page, "out of memory");
	for (size_t i = 0; now() < race_end; i = (i + 37) % (TABLES * table_pages)) {
		page_fill(page, FILE_TAG(i));
		must(pwrite(fd, page, page_size, i * page_size) == (ssize_t)page_size,
		     "a direct write: %s", strerror(errno));
	}
	close(fd);
	free(page);
	return 0;
}

static long exit_again(long who, long unused)
{
	while (now() < race_end) {
		pid_t pid = fork();
		int status;

		if (!pid) {
			map_view(who, 0);
			read_view(who, 5);
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && !status, "a child: %x", status);
	}
	return 0;
}

static void test_race(long arg)
{
	static const peer_fn fns[] = {
		NULL, store_and_read, store_and_read, read_again, change_again, exit_again
	};
	bool tmpfs = !(arg & DISK);

	start_prot(5, arg);
	race_end = now() + race_seconds;
	spawn_all(5);
	for (int i = 1; i <= 5; i++)
		tell(i, fns[i], i, 0);
	/* pages leave the tables meanwhile */
	while (now() < race_end) {
		if (!tmpfs)
			posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
		usleep(20000);
	}
	for (int i = 1; i <= 5; i++)
		answer(i);
}

static void test_exec(long user)
{
	long shared;

	if (user && geteuid())
		skip("not root");
	start(3, PROT_READ, MAP_PRIVATE, "tmpfs", true);
	spawn_all(2);
	map_and_read(1);
	shared = ask(2, run_program, 3, user);
	must(shared >= 0, "the program says %ld", shared);
	if (!joining())
		return;
	if (user)
		must(!shared, "a program of another user shares %ld tables", shared);
	else
		must(shared >= TABLES, "a program shares %ld tables, not %d", shared, TABLES);
}

/* the sum of what all are charged for is what is mapped */
static void test_account(long arg)
{
	long rss, own, pages = TABLES * (table_size / 1024);

	start_prot(3, arg);
	spawn_all(3);
	for (int i = 1; i <= 3; i++) {
		rss = proc_field(pid_of(i), "status", "VmRSS");
		map_and_read(i);
		own = proc_field(pid_of(i), "status", "VmRSS") - rss;
		must(own >= pages && own <= pages + 256,
		     "peer %d has %ld kB more resident for %ld kB of the file", i, own, pages);
	}
	quit(1);
	rss = proc_field(pid_of(2), "status", "VmRSS");
	ask(2, unmap_view, 2, 0);
	own = rss - proc_field(pid_of(2), "status", "VmRSS");
	must(own >= pages - 256 && own <= pages + 256,
	     "unmapping %ld kB lowers what is resident by %ld kB", pages, own);
	ask(3, view_right, 3, -1);
}

/* tables join and leave while the reverse map of the file is walked */
static void test_walk(long arg)
{
	start_prot(4, arg);
	race_end = now() + race_seconds;
	spawn_all(4);
	for (int i = 1; i <= 3; i++)
		tell(i, throw_again, i, 0);
	if (arg & DISK)
		tell(4, write_again, 4, 0);
	while (now() < race_end) {
		/* what is in the page cache moves to another page */
		if (!(arg & DISK) && write_text("/proc/sys/vm/compact_memory", "1"))
			skip("no compaction");
		usleep(50000);
	}
	for (int i = 1; i <= 3 + !!(arg & DISK); i++)
		answer(i);
}

/* One process maps the file twice, so that it uses one table at two addresses. */
static void test_twice(long arg)
{
	long rss, own, pages = TABLES * (table_size / 1024);

	start_prot(3, arg);
	spawn_all(2);
	map_and_read(1);
	/* peer 2 has views 2 and 3 */
	ask(2, map_view, 2, 0);
	ask(2, read_view, 2, 1);
	rss = proc_field(pid_of(2), "status", "VmRSS");
	for (int i = 0; i < 20; i++) {
		ask(2, map_view, 3, 0);
		ask(2, read_view, 3, 1);
		ask(2, view_right, 3, -1);
		own = proc_field(pid_of(2), "status", "VmRSS") - rss;
		must(own >= pages - 256 && own <= pages + 512,
		     "the second mapping adds %ld kB to what is resident, of %ld kB", own, pages);
		/* leave by the first address, or by the second */
		ask(2, unmap_view, i % 2 ? 2 : 3, 0);
		ask(2, view_right, i % 2 ? 3 : 2, -1);
		if (i % 2) {
			ask(2, unmap_view, 3, 0);
			ask(2, map_view, 2, 0);
			ask(2, read_view, 2, 1);
		}
		own = proc_field(pid_of(2), "status", "VmRSS") - rss;
		must(own >= -256 && own <= 512, "%ld kB more are resident after round %d", own, i);
	}
	ask(1, view_right, 1, -1);
	quit(1);
	ask(2, view_right, 2, -1);
}

#define JOIN(prot, how) (long)((prot) | (how))
#define CHANGE(change, how) (long)((change) << 8 | (how))

static const struct test_case cases[] = {
	{ "read-only pages of one file, same addresses", test_join, JOIN(READ_ONLY, 0),
	  .guards = POLICY | INVARIANT(1) },
	{ "read-only pages of one file, other addresses", test_join, JOIN(READ_ONLY, APART),
	  .guards = POLICY | INVARIANT(1) },
	{ "code on a disk, other addresses", test_join, JOIN(CODE, DISK | APART),
	  .guards = POLICY | INVARIANT(1) },
	{ "private memory that nobody has written", test_join, JOIN(WRITABLE, APART),
	  .guards = POLICY | INVARIANT(6) },
	{ "shared memory", test_join, JOIN(SHARED, APART), .guards = POLICY | INVARIANT(1) },
	{ "shared memory on a disk", test_join, JOIN(SHARED, DISK), .guards = POLICY },
	{ "what one brings in is there for all", test_fill, JOIN(READ_ONLY, APART),
	  .guards = POLICY | INVARIANT(6) },
	{ "what one brings in is there for all, code on a disk", test_fill,
	  JOIN(CODE, DISK | APART), .guards = POLICY | INVARIANT(6) },

	{ "no table of another protection", test_other, OTHER_PROT, .guards = INVARIANT(1) },
	{ "no table of memory that may not be written", test_other, OTHER_WRITE,
	  .guards = INVARIANT(1) },
	{ "no table of other pages", test_other, OTHER_OFFSET, .guards = INVARIANT(1) },
	{ "no table of a range without the hole", test_other, OTHER_HOLE,
	  .guards = INVARIANT(1) },
	{ "no table of private memory for shared", test_other, OTHER_SHARING,
	  .guards = INVARIANT(1) },
	{ "no table of another file", test_other, OTHER_FILE, .guards = INVARIANT(1) },
	{ "no table with anonymous memory in its range", test_other, OTHER_KIND_BESIDE,
	  .guards = INVARIANT(6) },
	{ "no table of a range with less of another file", test_other, OTHER_FILE_BESIDE,
	  .guards = INVARIANT(1) },
	{ "no table at another place in 2 MB", test_other, NOT_CONGRUENT,
	  .guards = INVARIANT(1) },
	{ "no table of locked memory", test_other, OTHER_LOCK, .guards = INVARIANT(1) },

	{ "one writes private memory", test_change, CHANGE(WRITE_PAGE, APART),
	  .guards = INVARIANT(2) },
	{ "one writes private memory, same addresses", test_change, CHANGE(WRITE_PAGE, 0),
	  .guards = INVARIANT(2) },
	{ "one writes private memory of a disk", test_change, CHANGE(WRITE_PAGE, DISK | APART),
	  .guards = INVARIANT(2) },
	{ "the only user writes private memory", test_only_user, JOIN(WRITABLE, APART),
	  .guards = INVARIANT(6) | INVARIANT(12) },
	{ "one unmaps a part", test_change, CHANGE(UNMAP_PART, APART), .guards = INVARIANT(1) },
	{ "one unmaps all", test_change, CHANGE(UNMAP_ALL, APART), .guards = INVARIANT(5) },
	{ "one maps memory over a part", test_change, CHANGE(MAP_OVER, APART),
	  .guards = INVARIANT(1) },
	{ "one maps memory in a hole", test_change, CHANGE(MAP_BESIDE, APART),
	  .guards = INVARIANT(1) },
	{ "one protects a part", test_change, CHANGE(PROTECT, APART), .guards = INVARIANT(1) },
	{ "one moves a part", test_change, CHANGE(MOVE, APART), .guards = INVARIANT(1) },
	{ "one locks a part", test_change, CHANGE(LOCK, APART), .guards = INVARIANT(1) },
	{ "one throws all away", test_change, CHANGE(THROW_AWAY, APART),
	  .guards = INVARIANT(8) },
	{ "one throws a part away", test_change, CHANGE(THROW_PART, DISK | APART),
	  .guards = INVARIANT(8) },
	{ "one pages out", test_change, CHANGE(PAGE_OUT, DISK | APART), .guards = INVARIANT(4) },
	{ "one does not need it soon", test_change, CHANGE(COLD, APART), .guards = INVARIANT(4) },
	{ "one becomes another user", test_change, CHANGE(BECOME, APART), .guards = PRIVILEGE },
	{ "one enters another namespace", test_change, CHANGE(NEW_NS, APART),
	  .guards = PRIVILEGE },
	{ "one may no longer be looked into", test_change, CHANGE(HIDE, APART),
	  .guards = PRIVILEGE },
	{ "one forks", test_change, CHANGE(FORK, APART), .guards = INVARIANT(2) },
	{ "one is killed", test_change, CHANGE(CRASH, APART), .guards = INVARIANT(5) },
	{ "one executes a program", test_change, CHANGE(EXEC, APART), .guards = INVARIANT(5) },

	{ "stores to shared memory", test_write_shared, APART, .guards = INVARIANT(4) },
	{ "stores to shared memory of a disk", test_write_shared, DISK | APART,
	  .guards = INVARIANT(4) },
	{ "the file is cut, private", test_truncate, JOIN(READ_ONLY, APART),
	  .guards = INVARIANT(4) },
	{ "the file is cut, shared, on a disk", test_truncate, JOIN(SHARED, DISK | APART),
	  .guards = INVARIANT(4) },
	{ "a page breaks", test_move_page, JOIN(READ_ONLY, DISK | APART),
	  .guards = INVARIANT(4) },
	{ "each counts what it has mapped", test_account, JOIN(READ_ONLY, APART),
	  .guards = INVARIANT(7) | INVARIANT(14) },
	{ "each counts what it has mapped, shared", test_account, JOIN(SHARED, APART),
	  .guards = INVARIANT(7) | INVARIANT(14) },
	{ "a program that was executed joins", test_exec, 0, .guards = POLICY },
	{ "another user's program does not", test_exec, NOBODY, .guards = PRIVILEGE },

	{ "a gigabyte's table", test_large, WRITE_PAGE, .guards = POLICY | INVARIANT(1) },
	{ "a gigabyte's table, one unmaps a part", test_large, UNMAP_PART,
	  .guards = INVARIANT(1) },
	{ "a gigabyte's table, all unmap it", test_large, UNMAP_ALL, .guards = INVARIANT(5) },
	{ "a gigabyte's table, one is killed", test_large, CRASH, .guards = INVARIANT(5) },
	{ "a gigabyte's table, one forks", test_large, FORK, .guards = INVARIANT(1) },

	{ "one maps the file twice", test_twice, JOIN(READ_ONLY, APART),
	  .guards = INVARIANT(7) | INVARIANT(14) },
	{ "pages move while tables join and leave", test_walk, JOIN(READ_ONLY, APART),
	  .guards = INVARIANT(4) },
	{ "pages are written past the cache while tables join and leave", test_walk,
	  JOIN(READ_ONLY, DISK | APART), .guards = INVARIANT(4) },
	{ "all at once", test_race, JOIN(WRITABLE, APART), .guards = INVARIANT(12) },
	{ "all at once, on a disk", test_race, JOIN(WRITABLE, DISK | APART),
	  .guards = INVARIANT(12) },
	{ "all at once, same addresses", test_race, JOIN(WRITABLE, 0),
	  .guards = INVARIANT(12) },
};

int main(int argc, char **argv)
{
	return join_main(argc, argv, "user", cases, ARRAY_SIZE(cases));
}
