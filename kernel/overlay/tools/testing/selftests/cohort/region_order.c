// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region: does a region get pages of the size that it asks
 * for, and is its memory what it was, whatever else happens to it?
 *
 * The machine's own switches for large pages are at `never` meanwhile. What a
 * page's size is comes from /proc/kpageflags, not from what the kernel says of
 * itself in smaps or vmstat.
 */
#include "region_order.h"

#include <dirent.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/uio.h>

#ifndef __NR_pidfd_open
#define __NR_pidfd_open		434
#define __NR_process_madvise	440
#endif
#ifndef __NR_memfd_secret
#define __NR_memfd_secret	447
#endif
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup	425
#endif

/* the argument of a case: an order and a policy */
#define ARG(order, policy)	((order) | (policy) << 8)
#define ARG_ORDER(arg)		((int)((arg) & 0xff))
#define ARG_POLICY(arg)		((int)((arg) >> 8 & 0xff))
/* ... and for files, where they are */
#define ON(arg, fs)		((arg) | (long)(fs) << 16 | 1L << 24)
#define ARG_FS(arg)		((enum fs)((arg) >> 16 & 0xff))
#define IS_FILE(arg)		((arg) >> 24)

enum fs { TMPFS, IMAGE };
static const char * const fs_names[] = { "tmpfs", "erofs" };

#define REPORT	"--report"	/* run as a program: what it finds in itself */

/* --- the switches of the machine ----------------------------------------- */

#define THP	"/sys/kernel/mm/transparent_hugepage/"

#define UNEVICTABLE	"/proc/sys/vm/compact_unevictable_allowed"
static char unevictable[8] = "1";

#define MAX_SWITCHES	16
static char switch_path[MAX_SWITCHES][128];
static char switch_was[MAX_SWITCHES][16];
static int nr_switches;

static void add_switch(const char *path)
{
	char text[64], *from, *to;

	if (nr_switches == MAX_SWITCHES || read_text(path, text, sizeof(text)) <= 0)
		return;
	from = strchr(text, '[');
	to = from ? strchr(from, ']') : NULL;
	if (!to)
		return;
	*to = '\0';
	snprintf(switch_path[nr_switches], sizeof(switch_path[0]), "%s", path);
	snprintf(switch_was[nr_switches], sizeof(switch_was[0]), "%s", from + 1);
	nr_switches++;
}

static void find_switches(void)
{
	struct dirent *entry;
	char path[128];
	DIR *dir = opendir(THP);

	add_switch(THP "enabled");
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "hugepages-", 10)) {
			snprintf(path, sizeof(path), THP "%.64s/enabled", entry->d_name);
			add_switch(path);
		}
	if (dir)
		closedir(dir);
}

static void switch_all(const char *to)
{
	for (int i = 0; i < nr_switches; i++)
		write_text(switch_path[i], to);
}

static void switch_off(void)
{
	switch_all("never");
}

/* Cases may have changed these, and ended in the middle. */
static void after_case(void)
{
	switch_off();
	write_text(UNEVICTABLE, unevictable);
}

static void restore_switches(void)
{
	for (int i = 0; i < nr_switches; i++)
		write_text(switch_path[i], switch_was[i]);
}

/* --- what is mapped ------------------------------------------------------ */

/* How many regions are there from addr on? */
static int regions(const char *addr, size_t len)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char text[512];
	int n = 0;

	must(file, "/proc/self/maps: %s", strerror(errno));
	while (fgets(text, sizeof(text), file))
		if (sscanf(text, "%lx-%lx", &from, &to) == 2 && to > (uintptr_t)addr &&
		    from < (uintptr_t)addr + len)
			n++;
	fclose(file);
	return n;
}

/* --- the memory of a case ------------------------------------------------ */

static struct {
	char *base;
	size_t len;		/* bytes */
	size_t block;		/* bytes of one page of the order */
	int order, policy;
} mem;

static size_t nr_pages(void)
{
	return mem.len / page_size;
}

static char *page_at(size_t i)
{
	return mem.base + i * page_size;
}

static void compact(void)
{
	write_text("/proc/sys/vm/compact_memory", "1");
}

/* Map four pages of the order (two of the largest), aligned, and ask for it. */
static void map_mem(long arg)
{
	int err;

	need_orders();
	mem.order = ARG_ORDER(arg);
	mem.policy = ARG_POLICY(arg);
	mem.block = page_size << mem.order;
	mem.len = mem.block * (mem.order == pmd_order() ? 2 : 4);
	if (mem.order == 0)
		mem.len = 16 * page_size;
	compact();
	mem.base = map_at(arena(5), mem.len, RW, ANONYMOUS, -1, 0);
	err = set_order(mem.base, mem.len, mem.order, mem.policy);
	must(!err, "MADV_ORDER: %s", strerror(-err));
	must_have(mem.base, mem.order, mem.policy);
}

static void fill(unsigned int shift)
{
	for (size_t i = 0; i < nr_pages(); i++)
		page_fill(page_at(i), TAG(i) + shift);
}

static void check(unsigned int shift)
{
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), TAG(i) + shift), "page %zu is not what was written", i);
}

/* Are all blocks from an address on mapped by pages of that order? */
static void must_map(char *from, size_t len, int order)
{
	for (size_t off = 0; off < len; off += mem.block) {
		int got = mapped_order(from + off);

		must(got == order, "block %zu: a page of order %d, not %d", off / mem.block, got,
		     order);
	}
}

/* Is there nothing larger than the order asked for? */
static void must_map_at_most(char *from, size_t len, int order)
{
	size_t off = 0;

	while (off < len) {
		int got = mapped_order(from + off);

		must(got <= order, "page %zu: order %d, which is more than %d", off / page_size,
		     got, order);
		off += page_size << (got > 0 ? got : 0);
	}
}

/*
 * The largest order once there has been a base page: a table of entries stays
 * where it is, and is not replaced by an entry of the level above.
 */
static int order_in_table(void)
{
	return mem.order == pmd_order() ? mem.order - 1 : mem.order;
}

static void must_map_in_table(char *from, size_t len)
{
	for (size_t off = 0; off < len; off += page_size << order_in_table()) {
		int got = mapped_order(from + off);

		must(got == order_in_table(), "page %zu: order %d, not %d", off / page_size, got,
		     order_in_table());
	}
}

/* --- faults -------------------------------------------------------------- */

static void test_write(long arg)
{
	long asked, got, fell_back;
	char name[32];

	map_mem(arg);
	snprintf(name, sizeof(name), "order_got_%d", mem.order);
	asked = vm_event("order_asked");
	got = vm_event(name);
	fell_back = vm_event("order_fell_back");
	for (size_t off = 0; off < mem.len; off += mem.block)
		mem.base[off + mem.block / 2 + 5] = 1;
	must_map(mem.base, mem.len, mem.order);
	must(vm_event("order_asked") - asked == (long)(mem.len / mem.block), "vmstat: %ld asked",
	     vm_event("order_asked") - asked);
	must(vm_event(name) - got == (long)(mem.len / mem.block), "vmstat: %ld got",
	     vm_event(name) - got);
	must(vm_event("order_fell_back") == fell_back, "vmstat: fell back");
	for (size_t i = 0; i < mem.len; i++)
		must(mem.base[i] == (i % mem.block == mem.block / 2 + 5), "byte %zu is not 0", i);
	fill(0);
	check(0);
	must_map(mem.base, mem.len, mem.order);
}

static void test_read(long arg)
{
	map_mem(arg);
	for (size_t off = 0; off < mem.len; off += mem.block)
		must(!touch(mem.base + off), "byte %zu is not 0", off);
	if (mem.order)
		must_map(mem.base, mem.len, mem.order);
	fill(0);
	must_map(mem.base, mem.len, mem.order);
	check(0);
}

/* Where the region ends nothing larger fits than what is left. */
static void test_edges(long arg)
{
	map_mem(arg);
	must_call(munmap(mem.base, page_size));
	must_call(munmap(mem.base + mem.len - page_size, page_size));
	for (size_t i = 1; i < nr_pages() - 1; i++)
		page_fill(page_at(i), TAG(i));
	must_map(mem.base + mem.block, mem.len - 2 * mem.block, mem.order);
	must_map_at_most(mem.base + page_size, mem.block - page_size,
			 mem.order ? mem.order - 1 : 0);
	if (mem.order > 3)
		must(mapped_order(mem.base + mem.block / 2) == mem.order - 1,
		     "the other half of the first block is not a page of half the size, but %d",
		     mapped_order(mem.base + mem.block / 2));
	for (size_t i = 1; i < nr_pages() - 1; i++)
		must(page_is(page_at(i), TAG(i)), "page %zu is not what was written", i);
}

/* A page that is there already is kept; around it are smaller ones. */
static void test_late(long arg)
{
	map_mem(arg);
	must(!set_order(mem.base, mem.len, 0, 0), "order 0 is refused");
	page_fill(page_at(1), TAG(1));
	must(!set_order(mem.base, mem.len, mem.order, mem.policy), "the order is refused");
	must(page_is(page_at(1), TAG(1)), "page 1 is not what was written");
	must(!mapped_order(page_at(1)), "page 1 is a large one");
	fill(0);
	check(0);
	must_map(mem.base + mem.block, mem.len - mem.block, mem.order);
}

static void test_switched_on(long arg)
{
	char *none;

	map_mem(arg);
	/* ended by after_each_case */
	switch_all("always");
	fill(0);
	must_map(mem.base, mem.len, mem.order);
	must_map_at_most(mem.base, mem.len, mem.order);
	check(0);
	none = map_at(arena(1), table_size, RW, ANONYMOUS, -1, 0);
	none[0] = 1;
	must(mapped_order(none) == pmd_order(), "a region without an order has one of %d",
	     mapped_order(none));
}

static void test_no_hugepage(long arg)
{
	map_mem(arg);
	must_call(madvise(mem.base, mem.len, MADV_NOHUGEPAGE));
	page_fill(page_at(0), 1);
	must(!mapped_order(page_at(0)), "a large page, in spite of MADV_NOHUGEPAGE");
	must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
	must(!set_order(mem.base, mem.len, mem.order, mem.policy), "the order is refused");
	fill(0);
	must_map_in_table(mem.base, mem.block);
	must_map(mem.base + mem.block, mem.len - mem.block, mem.order);
	check(0);
}

/* --- processes ----------------------------------------------------------- */

static long child_check(long shift, long unused)
{
	check(shift);
	return 0;
}

static long child_fill(long shift, long unused)
{
	fill(shift);
	check(shift);
	if (mem.policy & COPY)
		must_map(mem.base, mem.len, mem.order);
	else
		must_map(mem.base, mem.len, 0);
	return 0;
}

/* How many tables of entries map the memory; a page of 2 MB has none to share. */
static long tables(void)
{
	if (!sharing_possible() || mem.order == pmd_order())
		return 0;
	return (mem.len + table_size - 1) / table_size;
}

static long child_forget(long unused, long unused2)
{
	must_call(munmap(mem.base, mem.len));
	return 0;
}

/*
 * Does the first child share all tables of the memory? A second one, forked from
 * the same, forgets the memory, and shares as many tables less. What other
 * memory has is the same before and after: both have looked at everything.
 */
static long must_share_tables(void)
{
	long before, after;

	spawn(2);
	ask(1, child_check, 0, 0);
	ask(2, child_check, 0, 0);
	before = shared_tables(pid_of(2));
	ask(2, child_forget, 0, 0);
	after = shared_tables(pid_of(2));
	quit(2);
	must(!tables() || before - after == tables(), "%ld tables are shared, not %ld",
	     before - after, tables());
	return shared_tables(pid_of(1));
}

/* The child has written to so many of them: it shares at least as many less. */
static void must_have_left(long before, long nr)
{
	long after = shared_tables(pid_of(1));

	must(!tables() || before - after >= nr, "%ld tables are shared, after %ld", after,
	     before);
}

/* The child writes all, the parent goes on with what it has. */
static void test_fork(long arg)
{
	long reused, shared;

	map_mem(arg);
	become_zygote();
	fill(0);
	spawn(1);
	must_have(mem.base, mem.order, mem.policy);
	shared = must_share_tables();
	ask(1, child_fill, 1000, 0);
	must_have_left(shared, tables());
	check(0);
	reused = vm_event("order_reused");
	fill(2000);
	check(2000);
	ask(1, child_check, 1000, 0);
	if (mem.policy & COPY) {
		must_map(mem.base, mem.len, mem.order);
		if (mem.order && mem.order < pmd_order())
			must(vm_event("order_reused") > reused, "copied, not taken over");
	}
	quit(1);
	check(2000);
}

static long child_write_one(long page, long unused)
{
	int got;

	page_fill(page_at(page), 5);
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), i == (size_t)page ? 5 : TAG(i)),
		     "page %zu is not what it was", i);
	got = mapped_order(page_at(page));
	must(got == (mem.policy & COPY ? mem.order : 0), "the page written has order %d", got);
	must_have(mem.base, mem.order, mem.policy);
	return 0;
}

/* One page written: the copy is as large as the region says. */
static void test_cow(long arg)
{
	long copied, shared;

	map_mem(arg);
	become_zygote();
	fill(0);
	spawn(1);
	shared = must_share_tables();
	copied = vm_event("order_copied");
	ask(1, child_write_one, 3, 0);
	must_have_left(shared, 1);
	check(0);
	must((vm_event("order_copied") > copied) == (mem.order && (mem.policy & COPY)),
	     "%ld large pages copied", vm_event("order_copied") - copied);
}

static long grandchild_check(long shift, long unused)
{
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), i == 3 ? 5 : TAG(i)), "page %zu is not what it was", i);
	page_fill(page_at(0), 6);
	must(page_is(page_at(0), 6) && page_is(page_at(3), 5), "the grandchild's pages");
	return 0;
}

static void test_generations(long arg)
{
	map_mem(arg);
	become_zygote();
	fill(0);
	spawn(1);
	ask(1, child_write_one, 3, 0);
	spawn_from(1, 2);
	ask(2, grandchild_check, 0, 0);
	/* the one in the middle goes first */
	quit(1);
	must(page_is(page_at(3), TAG(3)), "the first generation's page");
	fill(500);
	check(500);
}

static int pipe_fd[2];

static long child_splice(long page, long unused)
{
	struct iovec iov = { .iov_base = page_at(page), .iov_len = page_size };

	must(vmsplice(pipe_fd[1], &iov, 1, 0) == (ssize_t)page_size, "vmsplice: %s",
	     strerror(errno));
	return 0;
}

/* A page lent to a pipe by a child that is gone is not written by the parent. */
/* where nothing was when the zygote forked */
static void must_be_zero(void)
{
	for (size_t off = mem.block; off < mem.len; off += page_size)
		must(!touch(mem.base + off), "byte %zu is not 0", off);
}

static long child_read_rest(long unused, long unused2)
{
	must_be_zero();
	return 0;
}

static long child_write_all(long shift, long unused)
{
	fill(shift);
	check(shift);
	return 0;
}

/* Large pages that a table of entries maps, as it is after a part was protected. */
static void test_cow_split(long arg)
{
	map_mem(arg);
	become_zygote();
	fill(0);
	for (size_t off = 0; off < mem.len; off += mem.block) {
		must_call(mprotect(mem.base + off, page_size, PROT_READ));
		must_call(mprotect(mem.base + off, page_size, RW));
	}
	must(regions(mem.base, mem.len) == 1, "the region is not one again");
	spawn(1);
	fill(10);
	ask(1, child_check, 0, 0);
	check(10);
	ask(1, child_write_all, 20, 0);
	check(10);
	ask(1, child_check, 20, 0);
	must_map_at_most(mem.base, mem.len, mem.order);
}

/*
 * A read may bring pages where nothing was. They are the reader's, and gone with
 * it, so that nobody else's table may hold them.
 */
static void test_fork_read(long arg)
{
	map_mem(arg);
	become_zygote();
	page_fill(mem.base, TAG(0));
	for (int who = 1; who <= 3; who++)
		spawn(who);
	ask(1, child_read_rest, 0, 0);
	must(memory_byte(pid_of(2), mem.base + mem.block) == 0, "a sibling's page is not 0");
	ask(2, child_read_rest, 0, 0);
	ask(1, child_write_all, 1000, 0);
	must_be_zero();
	quit(1);
	ask(2, child_read_rest, 0, 0);
	ask(3, child_read_rest, 0, 0);
	quit(2);
	compact();
	madvise(mem.base, mem.len, MADV_PAGEOUT);
	must_be_zero();
	must(page_is(mem.base, TAG(0)), "the zygote's page is not what it wrote");
	fill(0);
	check(0);
	ask(3, child_read_rest, 0, 0);
}

static void test_lent(long arg)
{
	char *buf = map_at(arena(1), page_size, RW, ANONYMOUS, -1, 0);

	map_mem(arg);
	must_call(pipe(pipe_fd));
	become_zygote();
	fill(0);
	spawn(1);
	ask(1, child_splice, 2, 0);
	quit(1);
	fill(3000);
	must(read(pipe_fd[0], buf, page_size) == (ssize_t)page_size, "read: %s", strerror(errno));
	must(page_is(buf, TAG(2)), "what the child lent was changed by the parent");
	check(3000);
}

/* --- changes of the region ----------------------------------------------- */

static void test_mremap(long arg)
{
	char *old, *to;

	map_mem(arg);
	fill(0);
	/* aligned: whole pages move */
	old = mem.base;
	to = arena(3);
	must(mremap(old, mem.len, mem.len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap: %s",
	     strerror(errno));
	mem.base = to;
	check(0);
	must_map(mem.base, mem.len, mem.order);
	must_have(mem.base, mem.order, mem.policy);
	must(!regions(old, mem.len), "the old place is still mapped");

	/* by one base page: the same memory, in no large page of the new place */
	to = arena(3) + page_size;
	must(mremap(mem.base, mem.len, mem.len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	     "mremap: %s", strerror(errno));
	mem.base = to;
	check(0);
	fill(100);
	check(100);
	must_have(mem.base, mem.order, mem.policy);

	/* and back, growing */
	to = arena(5);
	must(mremap(mem.base, mem.len, 2 * mem.len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	     "mremap: %s", strerror(errno));
	mem.base = to;
	check(100);
	must_have(mem.base + mem.len, mem.order, mem.policy);
	memset(mem.base + mem.len, 1, mem.len);
	must_map(mem.base + mem.len, mem.len, mem.order);
	/* what is left behind keeps its order as well */
	to = arena(5);
	must(mremap(mem.base, mem.len, mem.len,
		    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to,
	     "mremap: %s", strerror(errno));
	must_have(mem.base, mem.order, mem.policy);
	must(!touch(mem.base), "what moved away is still there");
	mem.base = to;
	check(100);
}

static void test_mprotect(long arg)
{
	size_t half = mem.len / 2;

	map_mem(arg);
	half = mem.len / 2 + page_size;
	fill(0);
	must_call(mprotect(mem.base, half, PROT_READ));
	must(regions(mem.base, mem.len) == 2, "%d regions", regions(mem.base, mem.len));
	check(0);
	must(probe_write(mem.base) == SIGSEGV, "a write to read-only memory");
	must_have(mem.base, mem.order, mem.policy);
	must_have(mem.base + half, mem.order, mem.policy);
	must_call(mprotect(mem.base, half, PROT_NONE));
	must(probe_read(mem.base) == SIGSEGV, "a read of memory without rights");
	must_call(mprotect(mem.base, half, RW));
	must(regions(mem.base, mem.len) == 1, "they do not merge again");
	check(0);
	fill(50);
	check(50);
	must_map(mem.base, mem.len, mem.order);
}

static unsigned int own_tag(size_t page)
{
	return TAG(page);
}

/*
 * Unmap a page in the middle of every other block: the others are as they were.
 * Where in a block it was.
 */
static size_t unmap_middles(unsigned int (*tag)(size_t page))
{
	size_t hole = mem.block / 2 / page_size * page_size;

	for (size_t off = 0; off < mem.len; off += 2 * mem.block)
		must_call(munmap(mem.base + off + hole, page_size));
	for (size_t i = 0; i < nr_pages(); i++)
		if (i * page_size % (2 * mem.block) == hole)
			must(probe_read(page_at(i)) == SIGSEGV, "page %zu is still there", i);
		else
			must(page_is(page_at(i), tag(i)), "page %zu has changed", i);
	return hole;
}

static void test_unmap_part(long arg)
{
	size_t hole;

	map_mem(arg);
	fill(0);
	hole = unmap_middles(own_tag);
	/* a new region in the hole is of no order, and merges with nobody */
	map_at(mem.base + hole, page_size, RW, ANONYMOUS, -1, 0);
	must_have_none(mem.base + hole);
	must(!touch(mem.base + hole), "the hole is not empty");
	must_have(mem.base + hole + page_size, mem.order, mem.policy);
}

static void test_dontneed(long arg)
{
	map_mem(arg);
	fill(0);
	for (size_t off = 0; off < mem.len; off += mem.block)
		must_call(madvise(mem.base + off, page_size, MADV_DONTNEED));
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), i * page_size % mem.block ? TAG(i) : 0),
		     "page %zu is not what was written", i);
	fill(10);
	check(10);
	/* all of a block: a large page again */
	must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
	fill(20);
	must_map_in_table(mem.base, mem.len);
	check(20);
}

static void test_free(long arg)
{
	map_mem(arg);
	fill(0);
	must_call(madvise(mem.base, mem.len, MADV_FREE));
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), TAG(i)) || page_is(page_at(i), 0), "page %zu", i);
	fill(10);
	check(10);
}

static void test_merge(long arg)
{
	map_mem(arg);
	must(regions(mem.base, mem.len) == 1, "not one region");
	must(!set_order(mem.base, mem.block, 3, 0), "order 3 is refused");
	must(regions(mem.base, mem.len) == (mem.order == 3 && !mem.policy ? 1 : 2),
	     "%d regions of two orders", regions(mem.base, mem.len));
	must_have(mem.base, 3, 0);
	must_have(mem.base + mem.block, mem.order, mem.policy);
	must(!set_order(mem.base, mem.block, mem.order, mem.policy), "the order is refused");
	must(regions(mem.base, mem.len) == 1, "they do not merge again");
	/* in the middle */
	must(!madvise(mem.base + mem.block, page_size, MADV_ORDER | MADV_ORDER_NONE),
	     "none: %s", strerror(errno));
	must(regions(mem.base, mem.len) == 3, "%d regions", regions(mem.base, mem.len));
	must_have_none(mem.base + mem.block);
	/* a new neighbour is of no order */
	map_at(mem.base + mem.len, page_size, RW, ANONYMOUS, -1, 0);
	must(regions(mem.base, mem.len + page_size) == 4, "the neighbour merged");
	must(!set_order(mem.base, mem.len + page_size, mem.order, mem.policy), "refused");
	must(regions(mem.base, mem.len + page_size) == 1, "they do not merge");
	must(!madvise(mem.base, mem.len + page_size, MADV_ORDER | MADV_ORDER_NONE), "none");
	must_have_none(mem.base);
	fill(0);
	must_map_at_most(mem.base, mem.len, 0);
	check(0);
}

/* --- reclaim ------------------------------------------------------------- */

/* How many base pages are in swap, not in memory? */
static size_t pages_out(void)
{
	size_t out = 0;

	for (size_t i = 0; i < nr_pages(); i++)
		out += !!(pagemap_entry(0, page_at(i)) & PM_SWAP);
	return out;
}

/* At least a half: others may hold a few pages for a moment, say to count them. */
static size_t must_page_out(void)
{
	size_t out = 0;

	for (int i = 0; i < 10 && out < nr_pages(); i++) {
		/* New pages may wait in a list of another processor's; this empties all. */
		if (i)
			compact();
		must_call(madvise(mem.base, mem.len, MADV_PAGEOUT));
		out = pages_out();
	}
	must(out >= nr_pages() / 2, "%zu of %zu pages are swapped out", out, nr_pages());
	return out;
}

static void test_swap(long arg)
{
	long written;
	size_t out;

	map_mem(arg);
	need_swap();
	fill(0);
	written = vm_event("pswpout");
	out = must_page_out();
	must(vm_event("pswpout") - written >= (long)out, "%ld pages are written to swap, of %zu",
	     vm_event("pswpout") - written, out);
	check(0);
	must(!pages_out(), "%zu pages that were read are in swap", pages_out());
	must_map_at_most(mem.base, mem.len, mem.order);
	must_page_out();
	fill(10);
	check(10);
	must_map_at_most(mem.base, mem.len, mem.order);
	must_have(mem.base, mem.order, mem.policy);
}

static void test_swap_fork(long arg)
{
	map_mem(arg);
	need_swap();
	become_zygote();
	fill(0);
	must_page_out();
	spawn(1);
	check(0);
	ask(1, child_check, 0, 0);
	must_call(madvise(mem.base, mem.len, MADV_PAGEOUT));
	fill(10);
	ask(1, child_check, 0, 0);
	check(10);
}

/* Reclaim until pages are gone: the first time it may only see that they were used. */
static void must_press_out(void)
{
	for (int i = 0; i < 10 && !pages_out(); i++)
		press();
	must(pages_out(), "no page is reclaimed");
}

static void test_pressure(long arg)
{
	long written, stolen;

	need_orders();
	need_swap();
	need_cgroup();
	map_mem(arg);
	fill(0);
	written = vm_event("pswpout");
	stolen = vm_event("pgsteal_anon");
	must_press_out();
	must(vm_event("pswpout") > written, "vmstat: nothing is written to swap");
	must(vm_event("pgsteal_anon") > stolen, "vmstat: nothing is reclaimed");
	check(0);
	must_press_out();
	fill(10);
	must_press_out();
	check(10);
}

/* A memory cgroup too small for a large page serves base pages. */
static void test_limit(long arg)
{
	char text[32];

	need_orders();
	need_cgroup();
	map_mem(arg);
	need_swap();
	snprintf(text, sizeof(text), "%zu", (size_t)2 << 20);
	if (write_text(CGROUP "memory.max", text))
		skip("no limit can be set");
	fill(0);
	check(0);
	write_text(CGROUP "memory.max", "max");
	fill(10);
	check(10);
}

/* --- fragmented memory --------------------------------------------------- */

/* blocks of an order or more that the buddy allocator has */
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

/* Take all blocks of an order that there still are. */
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

/* Base pages all over the memory, of which every second one is given back. */
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

/* A system call may hold locks that others need: it takes what there is. */
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
 * Take those too that are there when what is in them has been moved, until one
 * does not come for a while. Compaction for others is to leave them alone.
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
 * Single pages of the kernel's, which nobody can move, all over the memory:
 * those of pipes, in turn from one that is emptied and from one that is not.
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
 * Change the policy of a peer's memory again and again, while a fault of its
 * waits there: that takes the locks that the fault has while it tries. If it kept
 * them while it waits, this would come in between two tries at best.
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
		/* an even number: it ends as it began */
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

/* Memory in single pages that cannot be moved: signals end the wait. */
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
	/* what the children need is there before memory is short */
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

	/* a handler runs, and the wait goes on */
	kill(board->word[1], SIGUSR1);
	waited = vm_event("order_waited");
	for (int i = 0; i < 500 && vm_event("order_waited") < waited + 5; i++)
		usleep(20000);
	must(vm_event("order_waited") >= waited + 5, "the fault does not wait any more");

	/* others of its kind are not held up: its locks are free */
	must_get_locks(1);

	tell(3, child_reads, 0, 0);
	for (int i = 0; i < 500 && !board->word[4]; i++)
		usleep(20000);
	must(board->word[4] == (long)page_size, "a system call waits");
	answer(3);

	/* and a fatal signal ends it */
	start = now();
	tell(2, child_waits, 0, 0);
	usleep(200000);
	kill_peer(2);
	must(now() - start < 20, "it took %d seconds to die", (int)(now() - start));

	/* as does memory */
	release_pipes();
	compact();
	answer(1);
	must(board->word[2] == 1, "the handler ran %ld times", board->word[2]);
	must(board->word[3] == mem.order, "a page of order %ld came", board->word[3]);
}

/* --- what is refused ----------------------------------------------------- */

static void must_refuse(void *addr, size_t len, int what, int error, const char *why)
{
	int ret = madvise(addr, len, what) ? errno : 0;

	must(ret == error, "%s: %s, not %s", why, ret ? strerror(ret) : "done", strerror(error));
}

static void test_refused(long arg)
{
	int fd = make_file("tmpfs", 4);
	size_t len = 4 * page_size;
	static char ring[256];	/* struct io_uring_params, or more */
	char *p;

	map_mem(ARG(2, 0));
	must_refuse(mem.base, len, advice(1, 0), EINVAL, "order 1");
	must_refuse(mem.base, len, advice(pmd_order() + 1, 0), EINVAL, "an order too large");
	must_refuse(mem.base, len, advice(15, 0), EINVAL, "order 15");
	must_refuse(mem.base, len, advice(0x7fff, 0), EINVAL, "the largest number");
	must_refuse(mem.base, len, (int)(0x80000000u | MADV_ORDER), EINVAL, "a negative order");
	must_refuse(mem.base, len, advice(0, WAIT), EINVAL, "to wait for a base page");
	must_refuse(mem.base, len, advice(4, 0x04), EINVAL, "an unknown policy");
	must_refuse(mem.base, len, advice(4, MADV_ORDER_NONE), EINVAL, "none of order 4");
	must_refuse(mem.base, len, 4 << MADV_ORDER_SHIFT | MADV_NORMAL, EINVAL,
		    "an order with other advice");
	must_refuse(mem.base + 1, len, advice(4, 0), EINVAL, "an address between pages");
	must_have(mem.base, 2, 0);

	p = map_at(arena(1), len, RW, MAP_PRIVATE, fd, 0);
	must_refuse(p, len, advice(4, COPY), EINVAL, "whole pages copied, of a file");
	must_have_none(p);
	must_call(mlock(p, page_size));
	must_refuse(p, len, advice(4, 0), EPERM, "a locked file");
	must_have_none(p);
	p = mmap(NULL, table_size, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE,
		 -1, 0);
	if (p != MAP_FAILED)
		must_refuse(p, table_size, advice(4, 0), EINVAL, "shared hugetlb");
	fd = syscall(__NR_memfd_secret, 0);
	if (fd >= 0) {
		must_call(ftruncate(fd, len));
		p = map_at(arena(1), len, RW, MAP_SHARED, fd, 0);
		must_refuse(p, len, advice(4, 0), EOPNOTSUPP, "secret memory");
	}
	fd = syscall(__NR_io_uring_setup, 4, ring);
	if (fd >= 0) {
		p = mmap(NULL, page_size, RW, MAP_SHARED, fd, 0);
		must(p != MAP_FAILED, "ring: %s", strerror(errno));
		must_refuse(p, page_size, advice(4, 0), EINVAL, "pages of the kernel's");
	}
	p = map_at(arena(1), len, RW, ANONYMOUS, -1, 0);
	must_call(mlock(p, page_size));
	must_refuse(p, len, advice(4, 0), EPERM, "locked memory");
	must_have_none(p);
	must_call(munlock(p, page_size));
	must_refuse(p, len, advice(4, 0), 0, "memory locked no more");
	must_call(munmap(p + page_size, page_size));
	must_refuse(p, len, advice(4, 0), ENOMEM, "a hole");
	p = (char *)getauxval(AT_SYSINFO_EHDR);
	if (p)
		must_refuse(p, page_size, advice(4, 0), EINVAL, "the vDSO");
	p = mmap(NULL, table_size, RW, ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED)
		must_refuse(p, table_size, advice(4, 0), EINVAL, "hugetlb");
}

/* --- from outside, and by default ---------------------------------------- */

static long child_fill_outside(long unused, long unused2)
{
	must_have(mem.base, mem.order, mem.policy);
	fill(0);
	check(0);
	must_map(mem.base, mem.len, mem.order);
	return 0;
}

static void test_process_madvise(long arg)
{
	struct iovec iov;
	int fd;

	map_mem(arg);
	must(!madvise(mem.base, mem.len, MADV_ORDER | MADV_ORDER_NONE), "none");
	spawn(1);
	fd = syscall(__NR_pidfd_open, pid_of(1), 0);
	must(fd >= 0, "pidfd_open: %s", strerror(errno));
	iov.iov_base = mem.base;
	iov.iov_len = mem.len;
	must(syscall(__NR_process_madvise, fd, &iov, 1, advice(mem.order, mem.policy), 0) ==
	     (long)mem.len, "process_madvise: %s", strerror(errno));
	ask(1, child_fill_outside, 0, 0);
	must_have_none(mem.base);
	must(syscall(__NR_process_madvise, fd, &iov, 1, advice(1, 0), 0) == -1 &&
	     errno == EINVAL, "order 1 is not refused");
}

static long set_default(unsigned long kinds, int what)
{
	return prctl(PR_SET_REGION_ORDER, kinds, what, 0, 0) ? -errno : 0;
}

static long child_maps(long order, long policy)
{
	char *p = mmap(NULL, table_size, RW, ANONYMOUS, -1, 0);

	must(p != MAP_FAILED, "mmap: %s", strerror(errno));
	must_have(p, order, policy);
	return 0;
}

static void test_default(long arg)
{
	int order = ARG_ORDER(arg), policy = ARG_POLICY(arg), fd = make_file("tmpfs", 4);
	int what = advice(order, policy);
	char *p, *q, *end;

	need_orders();
	compact();
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_ANON, 0, 0, 0) == (MADV_ORDER | MADV_ORDER_NONE),
	     "there is a default");
	p = map_at(arena(2), table_size, RW, ANONYMOUS, -1, 0);
	must(!set_default(PR_ORDER_ANON, what), "prctl: %s", strerror(errno));
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_ANON, 0, 0, 0) == what, "it is not kept");
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_HEAP, 0, 0, 0) ==
	     (MADV_ORDER | MADV_ORDER_NONE), "it is kept for the heap");
	must_have_none(p);

	q = map_at(arena(2), table_size, RW, ANONYMOUS, -1, 0);
	must_have(q, order, policy);
	q[12345] = 1;
	must(mapped_order(q + 12345) == order, "a page of order %d", mapped_order(q + 12345));
	p = map_at(arena(1), page_size, RW, MAP_PRIVATE, fd, 0);
	must_have_none(p);
	p = map_at(arena(1), page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must_have_none(p);
	p = map_at(arena(1), page_size, RW, ANONYMOUS | MAP_STACK, -1, 0);
	must_have_none(p);
	spawn(1);
	ask(1, child_maps, order, policy);

	must(!set_default(PR_ORDER_STACK, what), "prctl: %s", strerror(errno));
	p = map_at(arena(1), page_size, RW, ANONYMOUS | MAP_STACK, -1, 0);
	must_have(p, order, policy);

	must(!set_default(PR_ORDER_HEAP, what), "prctl: %s", strerror(errno));
	end = sbrk(0);
	must(sbrk(4 * table_size) != (void *)-1, "sbrk: %s", strerror(errno));
	p = (char *)(((uintptr_t)end / table_size + 1) * table_size);
	must_have(p, order, policy);
	p[4321] = 1;
	must(mapped_order(p + 4321) == order, "a page of order %d in the heap",
	     mapped_order(p + 4321));
	must(brk(end) == 0, "the heap does not shrink");

	must(!set_default(PR_ORDER_ANON | PR_ORDER_STACK, MADV_ORDER | MADV_ORDER_NONE), "none");
	p = map_at(arena(1), page_size, RW, ANONYMOUS, -1, 0);
	must_have_none(p);
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_HEAP, 0, 0, 0) == what, "the heap's is gone");
}

static void test_default_refused(long arg)
{
	need_orders();
	must(set_default(PR_ORDER_FILE, advice(4, COPY)) == -EINVAL, "whole pages of files copied");
	must(set_default(PR_ORDER_FILE | PR_ORDER_ANON, advice(4, COPY)) == -EINVAL,
	     "whole pages of files copied, among others");
	must(set_default(0, advice(4, 0)) == -EINVAL, "no kind");
	must(set_default(1 << 4, advice(4, 0)) == -EINVAL, "an unknown kind");
	must(set_default(PR_ORDER_ANON, advice(1, 0)) == -EINVAL, "order 1");
	must(set_default(PR_ORDER_ANON, 4 << MADV_ORDER_SHIFT) == -EINVAL, "no advice of ours");
	must(prctl(PR_SET_REGION_ORDER, PR_ORDER_ANON, advice(4, 0), 1, 0) == -1, "argument 4");
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_ANON | PR_ORDER_HEAP, 0, 0, 0) == -1,
	     "two kinds");
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_ANON, 0, 0, 0) == (MADV_ORDER | MADV_ORDER_NONE),
	     "a call that is refused changed something");
}

/* As a program: exits 0 if heap, mapping and stack have their order. */
static int report(const char *order)
{
	char want[64], line[64], here;
	char *p = mmap(NULL, 1 << 20, RW, ANONYMOUS, -1, 0);
	char *end = sbrk(1 << 20);

	snprintf(want, sizeof(want), "%s", order);
	smaps_order(p, line, sizeof(line));
	if (strcmp(line, want))
		return 2;
	smaps_order(end + (1 << 20) - 1, line, sizeof(line));
	if (strcmp(line, want))
		return 3;
	smaps_order(&here, line, sizeof(line));
	if (strcmp(line, "0"))
		return 4;
	return 0;
}

static void test_exec(long arg)
{
	char want[32];
	int status;
	pid_t pid;

	need_orders();
	snprintf(want, sizeof(want), "%d%s%s", ARG_ORDER(arg),
		 ARG_POLICY(arg) & WAIT ? " wait" : "", ARG_POLICY(arg) & COPY ? " copy" : "");
	must(!set_default(PR_ORDER_ANON | PR_ORDER_HEAP, advice(ARG_ORDER(arg), ARG_POLICY(arg))),
	     "prctl");
	must(!set_default(PR_ORDER_STACK, advice(0, 0)), "prctl");
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "region_order", REPORT, want, NULL);
		_exit(9);
	}
	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "no program");
	must(WEXITSTATUS(status) != 9, "exec: it did not start");
	must(!WEXITSTATUS(status), "%s has not the order `%s`",
	     WEXITSTATUS(status) == 2 ? "a mapping" :
	     WEXITSTATUS(status) == 3 ? "the heap" : "the stack", want);
}

/* --- files --------------------------------------------------------------- */

static int file_fd;
static enum fs file_fs;

static void set_mem(long arg, int blocks)
{
	need_orders();
	mem.order = ARG_ORDER(arg);
	mem.policy = ARG_POLICY(arg);
	mem.block = page_size << mem.order;
	mem.len = mem.order ? mem.block * blocks : 32 * page_size;
	file_fs = ARG_FS(arg);
	compact();
}

/* A file of mem.len, of which nothing is in the page cache: on tmpfs a hole. */
static void make_mem_file(void)
{
	if (file_fs == IMAGE) {
		file_fd = make_image(nr_pages(), 0);
	} else {
		file_fd = make_file("tmpfs", 0);
		must_call(ftruncate(file_fd, mem.len));
	}
}

static int file_prot(long arg)
{
	return ARG_FS(arg) == TMPFS ? RW : PROT_READ;
}

/* Map the file from some page on, and ask for the order. */
static void map_fd(char *addr, size_t len, int prot, int flags, size_t first)
{
	int err;

	mem.base = map_at(addr, len, prot, flags, file_fd, first * page_size);
	err = set_order(mem.base, len, mem.order, mem.policy);
	must(!err, "MADV_ORDER: %s", strerror(-err));
	must_have(mem.base, mem.order, mem.policy);
}

/*
 * Make a file of four blocks (three of the largest) of which nothing is in the
 * page cache, and map it.
 */
static void map_file(long arg, int prot, int flags)
{
	set_mem(arg, ARG_ORDER(arg) == pmd_order() ? 3 : 4);
	make_mem_file();
	map_fd(arena(7), mem.len, prot, flags, 0);
}

static unsigned int file_tag(size_t i)
{
	return file_fs == TMPFS ? 0 : FILE_TAG(i);
}

static void check_file(char *base, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		must(page_is(base + i * page_size, file_tag(i)), "page %zu is not the file's", i);
}

/* Drop the file from the page cache; what is mapped stays. */
static void drop_cache(void)
{
	must_call(posix_fadvise(file_fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* A fault in the middle of each block: the whole block is there at once. */
static void touch_blocks(char *base, size_t len, int order)
{
	for (size_t off = 0; off < len; off += mem.block) {
		touch(base + off + mem.block / 2);
		if (order)
			must_map(base + off, mem.block, order);
	}
}

static void test_file_read(long arg)
{
	long asked, got, fell_back, blocks;
	char name[32];

	map_file(arg, PROT_READ, MAP_SHARED);
	blocks = mem.len / mem.block;
	snprintf(name, sizeof(name), "order_got_%d", mem.order);
	asked = vm_event("order_asked");
	got = vm_event(name);
	fell_back = vm_event("order_fell_back");
	touch_blocks(mem.base, mem.len, mem.order);
	asked = vm_event("order_asked") - asked;
	got = vm_event(name) - got;
	/* faults map 64 kB around them of what there is: more than a small block */
	if (mem.block < 65536)
		must(asked && asked <= (long)nr_pages(), "vmstat: %ld asked", asked);
	else
		must(asked == blocks, "vmstat: %ld asked, of %ld blocks", asked, blocks);
	must(got == asked, "vmstat: %ld got, of %ld", got, asked);
	must(vm_event("order_fell_back") == fell_back, "vmstat: fell back");
	check_file(mem.base, nr_pages());
	must_map(mem.base, mem.len, mem.order);
}

/* Backwards, with no readahead but the block's own, and after all is dropped. */
static void test_file_random(long arg)
{
	map_file(arg, PROT_READ, MAP_PRIVATE);
	must_call(madvise(mem.base, mem.len, MADV_RANDOM));
	for (size_t off = mem.len; off; off -= mem.block) {
		touch(mem.base + off - 1);
		must_map(mem.base + off - mem.block, mem.block, mem.order);
		if (mem.order && off > mem.block && file_fs == IMAGE) {
			unsigned char there;

			must_call(mincore(mem.base + off - mem.block - page_size, page_size,
					  &there));
			must(!there, "the block before was read as well");
		}
	}
	check_file(mem.base, nr_pages());
	must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
	if (file_fs == IMAGE) {
		drop_cache();
		must_call(madvise(mem.base, mem.len, MADV_SEQUENTIAL));
	}
	touch_blocks(mem.base, mem.len, mem.order);
	check_file(mem.base, nr_pages());
}

/* Shared memory of tmpfs that is written: one fault a block. */
static void test_file_write(long arg)
{
	static char page[65536];

	map_file(arg, RW, MAP_SHARED);
	for (size_t off = 0; off < mem.len; off += mem.block) {
		mem.base[off + mem.block / 2] = 1;
		must_map(mem.base + off, mem.block, mem.order);
	}
	for (size_t i = 0; i < mem.len; i++)
		must(mem.base[i] == (i % mem.block == mem.block / 2), "byte %zu is not 0", i);
	fill(0);
	check(0);
	for (size_t i = 0; i < nr_pages(); i++) {
		must(pread(file_fd, page, page_size, i * page_size) == (ssize_t)page_size, "read");
		must(page_is(page, TAG(i)), "page %zu of the file is not what was written", i);
	}
	must_map(mem.base, mem.len, mem.order);
}

/* Shared memory without a file. */
static void test_shared_anon(long arg)
{
	int err;

	set_mem(arg, 2);
	mem.base = map_at(arena(5), mem.len, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = set_order(mem.base, mem.len, mem.order, mem.policy);
	must(!err, "MADV_ORDER: %s", strerror(-err));
	spawn(1);
	for (size_t off = 0; off < mem.len; off += mem.block) {
		mem.base[off] = 1;
		must_map(mem.base + off, mem.block, mem.order);
	}
	fill(0);
	ask(1, child_check, 0, 0);
	must_map(mem.base, mem.len, mem.order);
}

/* A page that is in the cache is used as it is, and smaller ones around it. */
static void test_file_late(long arg)
{
	static char page[65536];
	size_t there;

	set_mem(arg, 3);
	there = 3 * (mem.block / page_size) / 2;
	if (file_fs == TMPFS) {
		file_fd = make_file("tmpfs", 0);
		must_call(ftruncate(file_fd, mem.len));
		page_fill(page, FILE_TAG(there));
		put(file_fd, page, page_size, there * page_size);
	} else {
		file_fd = make_image(nr_pages(), 0);
		must_call(posix_fadvise(file_fd, 0, 0, POSIX_FADV_RANDOM));
		must(pread(file_fd, page, page_size, there * page_size) == (ssize_t)page_size,
		     "read: %s", strerror(errno));
	}
	must(page_is(page, FILE_TAG(there)), "the page read is not the file's");
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	touch(mem.base + mem.block / 2);
	touch(mem.base + mem.block);
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), i == there ? FILE_TAG(i) : file_tag(i)),
		     "page %zu is not the file's", i);
	must(!mapped_order(page_at(there)), "the page that was there is of order %d",
	     mapped_order(page_at(there)));
	must_map(mem.base, mem.block, mem.order);
	must_map(mem.base + 2 * mem.block, mem.block, mem.order);
	must_map_at_most(mem.base + mem.block, mem.block, mem.order ? mem.order - 1 : 0);
	/* what is before it fits a page of half the order */
	if (mem.order > 2)
		must(mapped_order(mem.base + mem.block) == mem.order - 1,
		     "the first half of the block is of order %d",
		     mapped_order(mem.base + mem.block));
}

/* Are these pages by themselves, or in pages of up to an order that are all mapped? */
static void must_map_whole(char *from, size_t len, int most)
{
	for (size_t off = 0; off < len; off += page_size) {
		int got = mapped_order(from + off);

		must(got >= 0 && got <= most, "page %zu is of order %d", off / page_size, got);
	}
}

/* Behind the last page is nothing, and no large page reaches there. */
static void test_file_end(long arg)
{
	size_t pages, more = 100;

	set_mem(arg, 2);
	pages = nr_pages() + 3;
	if (file_fs == TMPFS) {
		file_fd = make_file("tmpfs", 0);
		must_call(ftruncate(file_fd, pages * page_size + more));
	} else {
		file_fd = make_image(pages, more);
	}
	map_fd(arena(7), mem.len + 8 * mem.block + 8 * page_size, PROT_READ, MAP_SHARED, 0);
	touch(page_at(pages - 1));
	check_file(mem.base, pages);
	for (size_t i = more; i < page_size; i++)
		must(!page_at(pages)[i], "byte %zu behind the end is not 0", i);
	must(probe_read(page_at(pages + 1)) == SIGBUS, "there is a page behind the end");
	must_map(mem.base, mem.len, mem.order);
	must_map_whole(mem.base + mem.len, 4 * page_size, mem.order < 2 ? mem.order : 2);
}

/* Where addresses and file differ in alignment, no large page fits. */
static void test_file_askew(long arg)
{
	set_mem(arg, 2);
	make_mem_file();
	map_fd(arena(7) + page_size, mem.len, PROT_READ, MAP_SHARED, 0);
	check_file(mem.base, nr_pages());
	must_map_whole(mem.base, mem.len, 0);
	must_call(munmap(mem.base, mem.len));
	/* but one of half the order does where they differ by that */
	if (mem.order < 3)
		return;
	if (file_fs == TMPFS)
		must_call(fallocate(file_fd, 3, 0, mem.len));	/* a hole again */
	else
		drop_cache();
	map_fd(arena(7) + mem.block / 2, mem.len, PROT_READ, MAP_SHARED, 0);
	check_file(mem.base, nr_pages());
	for (size_t off = 0; off < mem.len; off += mem.block / 2)
		must(mapped_order(mem.base + off) == mem.order - 1, "offset %zu: order %d", off,
		     mapped_order(mem.base + off));
}

/* A part of a file: what is in the region, and no page of what is not. */
static void test_file_part(long arg)
{
	size_t block, first;

	map_file(arg, PROT_READ, MAP_SHARED);
	must_call(munmap(mem.base, mem.len));
	block = mem.block / page_size;
	first = block - 1;
	map_fd(arena(7) + first * page_size, mem.block + 2 * page_size, PROT_READ, MAP_SHARED,
	       first);
	for (size_t i = 0; i < block + 2; i++)
		must(page_is(page_at(i), file_tag(first + i)), "page %zu is not the file's", i);
	must_map(mem.base + page_size, mem.block, mem.order);
	must(!mapped_order(mem.base), "before the first whole block: order %d",
	     mapped_order(mem.base));
	must(!mapped_order(page_at(block + 1)), "behind the last whole block: order %d",
	     mapped_order(page_at(block + 1)));
}

static long child_cow(long page, long tag)
{
	page_fill(page_at(page), tag);
	must(page_is(page_at(page), tag), "page %ld is not what was written", page);
	return 0;
}

/* A private write copies one page; the file and the others see nothing of it. */
static void test_file_cow(long arg)
{
	static char page[65536];
	size_t block;

	map_file(arg, RW, MAP_PRIVATE);
	block = mem.block / page_size;
	become_zygote();
	touch_blocks(mem.base, mem.len, mem.order);
	spawn(1);
	for (size_t i = 0; i < nr_pages(); i += block)
		page_fill(page_at(i), TAG(i));
	ask(1, child_cow, nr_pages() - 1, 77);
	for (size_t i = 0; i < nr_pages(); i++) {
		must(page_is(page_at(i), i % block ? file_tag(i) : TAG(i)),
		     "page %zu is not what it was", i);
		must(pread(file_fd, page, page_size, i * page_size) == (ssize_t)page_size, "read");
		must(page_is(page, file_tag(i)), "page %zu of the file has changed", i);
	}
	if (mem.order)
		must(!mapped_order(mem.base), "the copy is of order %d", mapped_order(mem.base));
	quit(1);
	/* a write before any read */
	must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
	fill(0);
	check(0);
	must(pread(file_fd, page, page_size, 0) == (ssize_t)page_size, "read");
	must(page_is(page, file_tag(0)), "the file has changed");
}

static long child_file(long unused, long unused2)
{
	must_have(mem.base, mem.order, mem.policy);
	check_file(mem.base, nr_pages());
	must_map(mem.base, mem.len, mem.order);
	return 0;
}

/* Children see the file, and what others write to it, in pages of the order. */
static void test_file_fork(long arg)
{
	map_file(arg, file_prot(arg), MAP_SHARED);
	become_zygote();
	touch(mem.base);
	spawn(1);
	ask(1, child_file, 0, 0);
	spawn_from(1, 2);
	ask(2, child_file, 0, 0);
	if (file_fs == TMPFS) {
		fill(3);
		ask(1, child_check, 3, 0);
		ask(2, child_check, 3, 0);
	}
	quit(1);
	touch_blocks(mem.base, mem.len, mem.order);
	if (file_fs == TMPFS)
		check(3);
	else
		check_file(mem.base, nr_pages());
}

static void move(char *to, size_t len)
{
	must(mremap(mem.base, mem.len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap: %s",
	     strerror(errno));
	mem.base = to;
}

static void test_file_mremap(long arg)
{
	map_file(arg, PROT_READ, MAP_SHARED);
	touch_blocks(mem.base, mem.len, mem.order);
	move(arena(7), mem.len);
	check_file(mem.base, nr_pages());
	must_map(mem.base, mem.len, mem.order);
	must_have(mem.base, mem.order, mem.policy);
	/* by one base page */
	move(arena(7) + page_size, mem.len);
	check_file(mem.base, nr_pages());
	must_have(mem.base, mem.order, mem.policy);
	if (file_fs == IMAGE) {
		must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
		drop_cache();
		check_file(mem.base, nr_pages());
		must_map_at_most(mem.base, mem.len, 0);
	}
	/* and back, beyond the end of the file */
	move(arena(7), 2 * mem.len);
	check_file(mem.base, nr_pages());
	must(probe_read(mem.base + mem.len) == SIGBUS, "there is a page behind the end");
}

static void test_file_mprotect(long arg)
{
	size_t half;

	map_file(arg, file_prot(arg), MAP_SHARED);
	half = mem.len / 2 + page_size;
	touch(mem.base + mem.len / 2);
	must_call(mprotect(mem.base, half, PROT_NONE));
	must(probe_read(mem.base) == SIGSEGV, "a read of memory without rights");
	must_have(mem.base, mem.order, mem.policy);
	must_have(mem.base + half, mem.order, mem.policy);
	must_call(mprotect(mem.base, half, PROT_READ));
	must(probe_write(mem.base) == SIGSEGV, "a write to read-only memory");
	check_file(mem.base, nr_pages());
	must_call(mprotect(mem.base, half, file_prot(arg)));
	must(regions(mem.base, mem.len) == 1, "they do not merge again");
	if (file_fs == TMPFS) {
		fill(5);
		check(5);
	}
	must_map(mem.base, mem.len, mem.order);
}

static void test_file_unmap(long arg)
{
	map_file(arg, PROT_READ, MAP_SHARED);
	touch_blocks(mem.base, mem.len, mem.order);
	unmap_middles(file_tag);
	if (mem.order)
		must_map(mem.base + mem.block, mem.block, mem.order);
}

/* Truncated in the middle of a large page, and made longer again. */
static void test_file_truncate(long arg)
{
	size_t cut;

	map_file(arg, RW, MAP_SHARED);
	fill(0);
	must_map(mem.base, mem.len, mem.order);
	cut = nr_pages() - mem.block / page_size / 2 - 1;
	must_call(ftruncate(file_fd, cut * page_size + 100));
	for (size_t i = 0; i < cut; i++)
		must(page_is(page_at(i), TAG(i)), "page %zu is not what was written", i);
	for (size_t i = 100; i < page_size; i++)
		must(!page_at(cut)[i], "byte %zu behind the end is not 0", i);
	for (size_t i = cut + 1; i < nr_pages(); i++)
		must(probe_read(page_at(i)) == SIGBUS, "page %zu is still there", i);
	must_call(ftruncate(file_fd, mem.len));
	for (size_t i = cut + 1; i < nr_pages(); i++)
		must(page_is(page_at(i), 0), "page %zu is not empty", i);
	fill(10);
	check(10);
	must_map(mem.base, mem.len - mem.block, mem.order);
	/* and a new file in the same place has large pages again */
	must_call(ftruncate(file_fd, 0));
	must(probe_read(mem.base) == SIGBUS, "an empty file has a page");
	must_call(ftruncate(file_fd, mem.len));
	fill(20);
	check(20);
	must_map(mem.base, mem.len, mem.order);
}

static void punch(size_t page, size_t pages)
{
	/* FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE */
	must(!fallocate(file_fd, 3, page * page_size, pages * page_size), "fallocate: %s",
	     strerror(errno));
}

static void test_file_punch(long arg)
{
	size_t block;

	map_file(arg, RW, MAP_SHARED);
	block = mem.block / page_size;
	fill(0);
	for (size_t i = block / 2; i < nr_pages(); i += block)
		punch(i, 1);
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), i % block == block / 2 ? 0 : TAG(i)),
		     "page %zu is not what it was", i);
	fill(10);
	check(10);
	punch(0, nr_pages());
	for (size_t i = 0; i < nr_pages(); i++)
		must(page_is(page_at(i), 0), "page %zu is not empty", i);
	must_map_at_most(mem.base, mem.len, mem.order);
	check_file(mem.base, nr_pages());
}

/* Reclaim drops and swaps out; what comes again is what it was. */
static void test_file_pressure(long arg)
{
	need_orders();
	need_swap();
	need_cgroup();
	map_file(arg, file_prot(arg), MAP_SHARED);
	if (file_fs == TMPFS)
		fill(0);
	for (int i = 0; i < 3; i++) {
		press();
		if (file_fs == TMPFS)
			check(0);
		else
			check_file(mem.base, nr_pages());
	}
	must_have(mem.base, mem.order, mem.policy);
}

/* A cgroup that has no room for the block: smaller pages, and no wait for ever. */
static void test_file_limit(long arg)
{
	need_orders();
	/* the image lies in a file of tmpfs: whose pages are not the group's */
	map_file(arg, file_prot(arg), MAP_SHARED);
	need_cgroup();
	need_swap();
	if (write_text(CGROUP "memory.max", file_fs == TMPFS ? "2M" : "8M"))
		skip("no limit can be set");
	if (file_fs == TMPFS) {
		fill(0);
		check(0);
	} else {
		check_file(mem.base, nr_pages());
	}
	write_text(CGROUP "memory.max", "max");
	check_file(mem.base, file_fs == TMPFS ? 0 : nr_pages());
}

static long child_race(long how, long seconds)
{
	static char page[65536];
	double end = now() + seconds;
	unsigned int seed = how;

	while (now() < end) {
		size_t at = rand_r(&seed) % nr_pages();

		if (file_fs == IMAGE) {
			posix_fadvise(file_fd, at * page_size, 0, POSIX_FADV_DONTNEED);
			madvise(page_at(at), page_size, MADV_DONTNEED);
			must(page_is(page_at(at), file_tag(at)), "page %zu is not the file's", at);
		} else if (how == 1) {
			must_call(ftruncate(file_fd, at * page_size));
			must_call(ftruncate(file_fd, mem.len));
		} else if (how == 2) {
			punch(at, 1 + rand_r(&seed) % (nr_pages() - at));
		} else {
			page_fill(page, TAG(at));
			put(file_fd, page, page_size, at * page_size);
		}
	}
	return 0;
}

/* Others truncate, punch, write and drop while it is read and written. */
static void test_file_race(long arg)
{
	int seconds = quick ? 1 : 3;
	unsigned int seed = 9;
	double end;

	map_file(arg, file_prot(arg), MAP_SHARED);
	for (int who = 1; who <= 3; who++)
		spawn(who);
	for (int who = 1; who <= 3; who++)
		tell(who, child_race, who, seconds);
	for (end = now() + seconds; now() < end;) {
		size_t at = rand_r(&seed) % nr_pages();
		static __u64 tagged[65536 / sizeof(__u64)];
		__u64 word;
		int sig;

		page_fill(tagged, file_fs == TMPFS ? TAG(at) : file_tag(at));
		sig = probe_load((__u64 *)page_at(at), &word);
		must(!sig || (sig == SIGBUS && file_fs == TMPFS), "signal %d", sig);
		/* a write may be half done */
		for (int bits = 0; bits < 64 && !sig; bits += 8) {
			__u64 byte = word & 0xffULL << bits;

			must(byte == (tagged[0] & 0xffULL << bits) || (file_fs == TMPFS && !byte),
			     "page %zu has %llx", at, word);
		}
		if (rand_r(&seed) % 4 == 0)
			must_call(madvise(page_at(at), page_size, MADV_DONTNEED));
		/* a byte that nobody looks at */
		if (file_fs == TMPFS)
			probe_write(page_at(at) + page_size - 1);
	}
	for (int who = 1; who <= 3; who++)
		answer(who);
	must_map_at_most(mem.base, mem.len, mem.order);
}

/* The same file in a region with an order, in a smaller one, and in one without. */
static void test_file_others(long arg)
{
	char *large, *none;

	map_file(arg, PROT_READ, MAP_SHARED);
	touch_blocks(mem.base, mem.len, mem.order);
	large = mem.base;
	none = map_at(arena(7), mem.len, PROT_READ, MAP_SHARED, file_fd, 0);
	check_file(none, nr_pages());
	must_have_none(none);
	if (mem.order == pmd_order()) {
		must(huge_mapped(large), "a block is not mapped as one");
		must(huge_mapped(none), "a region without an order does not map it as one");
	}
	mem.order = mem.order > 4 ? 4 : 2;
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	check_file(mem.base, nr_pages());
	must(!huge_mapped(mem.base), "a page larger than the region's is mapped as one");
}

/* A file system without large folios: base pages, counted. */
static void test_file_small(long arg)
{
	long fell_back;

	set_mem(arg, 2);
	file_fd = make_file("disk", nr_pages());
	file_fs = IMAGE;
	must_call(fsync(file_fd));
	drop_cache();
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	fell_back = vm_event("order_fell_back");
	check_file(mem.base, nr_pages());
	must(vm_event("order_fell_back") > fell_back, "vmstat: none fell back");
	must_map_at_most(mem.base, mem.len, 0);
}

static void test_file_default(long arg)
{
	int order = ARG_ORDER(arg), policy = ARG_POLICY(arg), what = advice(order, policy);
	char *p;

	set_mem(arg, 2);
	make_mem_file();
	must(!set_default(PR_ORDER_FILE, what), "prctl: %s", strerror(errno));
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_FILE, 0, 0, 0) == what, "it is not kept");
	p = map_at(arena(1), page_size, RW, ANONYMOUS, -1, 0);
	must_have_none(p);
	p = map_at(arena(1), page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must_have(p, order, policy);
	/* placed where pages of the order fit */
	for (int i = 0; i < 3; i++) {
		p = mmap(NULL, mem.len, PROT_READ, MAP_PRIVATE, file_fd, 0);
		must(p != MAP_FAILED, "mmap: %s", strerror(errno));
		must(!((uintptr_t)p % mem.block), "mmap placed it at %p", p);
		must_have(p, order, policy);
		must(mmap(NULL, page_size, PROT_READ, MAP_PRIVATE, file_fd, 0) != MAP_FAILED,
		     "mmap: %s", strerror(errno));
	}
	mem.base = map_at(arena(7), mem.len, PROT_READ, MAP_SHARED, file_fd, 0);
	must_have(mem.base, order, policy);
	touch_blocks(mem.base, mem.len, order);
	check_file(mem.base, nr_pages());
	must(!set_default(PR_ORDER_FILE, MADV_ORDER | MADV_ORDER_NONE), "none");
	p = map_at(arena(1), page_size, PROT_READ, MAP_SHARED, file_fd, 0);
	must_have_none(p);
}

/* Memory in single pages that can be moved: who waits gets what it asks for. */
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
	 * Who waits looks at once: compaction for the next block may split this one,
	 * as in mainline, and what is reclaimed of it leaves no room for another.
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
 * A fault that waits is one miss, however often it is tried: who maps the file
 * without an order goes on to have read-around.
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
	/* what is read around it has not to be there at once */
	for (int i = 0; i < 100 && !(there & 1); i++) {
		must_call(mincore(none + far + page_size, page_size, &there));
		usleep(20000);
	}
	must(there & 1, "the page behind was not read as well");
	must(!board->word[3], "the fault did not wait all the while");
	release_pipes();
	compact();
	answer(1);
	must(page_is(mem.base, file_tag(0)), "the page is not the file's");
	must(board->word[3] == 1 + mem.order, "a page of order %ld came", board->word[3] - 1);
}

/* --- all of them --------------------------------------------------------- */

/* once for each order and policy */
static const struct {
	const char *desc;
	void (*fn)(long arg);
	bool copies;		/* a policy of copying matters */
} questions[] = {
	{ "Writes bring pages of the order", test_write },
	{ "Reads bring pages of the order", test_read },
	{ "At the edges are smaller pages", test_edges },
	{ "A page that was there is kept", test_late },
	{ "The machine's switches at always change nothing", test_switched_on },
	{ "The last word of order and MADV_NOHUGEPAGE counts", test_no_hugepage },
	{ "After a fork each process sees its own writes", test_fork, true },
	{ "One page written after a fork", test_cow, true },
	{ "Large pages mapped by entries, written after a fork", test_cow_split, true },
	{ "Pages that were read first after a fork", test_fork_read, true },
	{ "Two generations, of which the first goes first", test_generations, true },
	{ "A page lent to a pipe is not written by others", test_lent, true },
	{ "A region that is moved, grown and left", test_mremap },
	{ "A region that is protected in part", test_mprotect },
	{ "Base pages unmapped out of large ones", test_unmap_part },
	{ "Base pages thrown out of large ones", test_dontneed },
	{ "Pages given up with MADV_FREE", test_free },
	{ "Regions merge only if they are equal", test_merge },
	{ "Pages swapped out and in", test_swap },
	{ "Pages swapped out before a fork", test_swap_fork, true },
	{ "Pages reclaimed under pressure", test_pressure },
	{ "A memory cgroup with little room", test_limit },
	{ "Another process's region", test_process_madvise },
	{ "A default for new regions", test_default },
	{ "A default kept over exec", test_exec },
};

#define ON_TMPFS	KIND(TMPFS)
#define ON_IMAGE	KIND(IMAGE)

/* once for each order, each policy that files have, and each of these file systems */
static const struct {
	const char *desc;
	void (*fn)(long arg);
	unsigned int where;
} files[] = {
	{ "A file read in pages of the order", test_file_read, ON_TMPFS | ON_IMAGE },
	{ "A file read backwards, and again", test_file_random, ON_TMPFS | ON_IMAGE },
	{ "A shared file written in pages of the order", test_file_write, ON_TMPFS },
	{ "Shared memory without a file", test_shared_anon, ON_TMPFS },
	{ "A page in the cache is used as it is", test_file_late, ON_TMPFS | ON_IMAGE },
	{ "The end of a file", test_file_end, ON_TMPFS | ON_IMAGE },
	{ "A file that is aligned otherwise than its region", test_file_askew,
	  ON_TMPFS | ON_IMAGE },
	{ "A part of a file", test_file_part, ON_TMPFS | ON_IMAGE },
	{ "Private writes to a file", test_file_cow, ON_TMPFS | ON_IMAGE },
	{ "A file after forks", test_file_fork, ON_TMPFS | ON_IMAGE },
	{ "A file that is moved and grown", test_file_mremap, ON_TMPFS | ON_IMAGE },
	{ "A file that is protected in part", test_file_mprotect, ON_TMPFS | ON_IMAGE },
	{ "Base pages unmapped out of a file", test_file_unmap, ON_TMPFS | ON_IMAGE },
	{ "A file truncated under its large pages", test_file_truncate, ON_TMPFS },
	{ "Holes under a file's large pages", test_file_punch, ON_TMPFS },
	{ "A file's pages reclaimed", test_file_pressure, ON_TMPFS | ON_IMAGE },
	{ "A file in a cgroup with little room", test_file_limit, ON_TMPFS | ON_IMAGE },
	{ "A file read while others change it", test_file_race, ON_TMPFS | ON_IMAGE },
	{ "A file in regions of several orders", test_file_others, ON_TMPFS | ON_IMAGE },
	{ "A file system without large pages", test_file_small, ON_IMAGE },
	{ "A default for files", test_file_default, ON_TMPFS | ON_IMAGE },
};

static const struct test_case others[] = {
	{ "What cannot be is refused, and changes nothing", test_refused },
	{ "A default that cannot be is refused", test_default_refused },
};

/* These fill the machine's memory page by page: only without -q. */
static const struct test_case slow[] = {
	{ "Fragmented memory: order 9 now, or not", test_fragmented, ARG(9, 0) },
	{ "Fragmented memory: order 9 is waited for", test_fragmented, ARG(9, WAIT) },
	{ "Fragmented memory: order 4 is waited for", test_fragmented, ARG(4, WAIT) },
	{ "Fragmented memory: a file of order 9 now, or not", test_fragmented,
	  ON(ARG(9, 0), TMPFS) },
	{ "Fragmented memory: a file of order 9 is waited for", test_fragmented,
	  ON(ARG(9, WAIT), TMPFS) },
	{ "Fragmented memory: a file of erofs of order 9, now or not", test_fragmented,
	  ON(ARG(9, 0), IMAGE) },
	{ "Fragmented memory: a file of erofs of order 9 is waited for", test_fragmented,
	  ON(ARG(9, WAIT), IMAGE) },
	{ "Fragmented memory: a file of erofs of order 4 is waited for", test_fragmented,
	  ON(ARG(4, WAIT), IMAGE) },
	{ "A wait ends by signals and by memory", test_wait_ends, ARG(9, WAIT) },
	{ "A wait for a file is one miss", test_file_wait_misses, ON(ARG(9, WAIT), IMAGE) },
};

#define MAX_CASES	2000

int main(int argc, char **argv)
{
	static const char * const policies[] = { "", ", wait", ", copy", ", wait, copy" };
	static struct test_case cases[MAX_CASES];
	int n = 0, ret;
	bool short_run = false;

	if (argc == 3 && !strcmp(argv[1], REPORT))
		return report(argv[2]);
	page_size = sysconf(_SC_PAGESIZE);
	table_size = page_size * (page_size / sizeof(long));
	for (int i = 1; i < argc; i++)
		short_run |= !strcmp(argv[i], "-q");

	for (size_t q = 0; q < ARRAY_SIZE(questions); q++)
		for (int order = 0; order <= pmd_order(); order++)
			for (int policy = 0; policy <= (WAIT | COPY); policy++) {
				char *desc;

				if (order == 1 || (!order && policy))
					continue;
				if (short_run && ((order != 0 && order != 2 && order != 4 &&
						   order != pmd_order()) ||
						  ((policy & COPY) && !questions[q].copies) ||
						  ((policy & WAIT) && order == 2)))
					continue;
				if (asprintf(&desc, "%s: order %d%s", questions[q].desc, order,
					     policies[policy]) < 0)
					return KSFT_FAIL;
				cases[n].desc = desc;
				cases[n].fn = questions[q].fn;
				cases[n++].arg = ARG(order, policy);
			}
	for (size_t q = 0; q < ARRAY_SIZE(files); q++)
		for (int order = 0; order <= pmd_order(); order++)
			for (int pick = 0; pick < 4; pick++) {
				int policy = pick & 1 ? WAIT : 0;
				enum fs fs = pick & 2 ? IMAGE : TMPFS;
				char *desc;

				if (order == 1 || (!order && policy) ||
				    !(files[q].where & KIND(fs)))
					continue;
				if (files[q].fn == test_file_small && !order)
					continue;
				if (short_run && ((order != 0 && order != 2 && order != 6 &&
						   order != pmd_order()) ||
						  (policy && order != 6)))
					continue;
				if (asprintf(&desc, "%s: %s, order %d%s", files[q].desc,
					     files[q].fn == test_file_small ? "disk" : fs_names[fs],
					     order, policies[policy]) < 0)
					return KSFT_FAIL;
				cases[n].desc = desc;
				cases[n].fn = files[q].fn;
				cases[n++].arg = ON(ARG(order, policy), fs);
			}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		cases[n++] = others[i];
	for (size_t i = 0; i < ARRAY_SIZE(slow) && !short_run; i++)
		cases[n++] = slow[i];

	find_switches();
	read_text(UNEVICTABLE, unevictable, sizeof(unevictable));
	switch_off();
	atexit(restore_switches);
	after_each_case = after_case;
	ret = run_cases(argc, argv, cases, n);
	return ret;
}
