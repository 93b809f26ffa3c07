// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region of anonymous memory: does a region get pages of the
 * size that it asks for, and does its content stay right?
 */
#include "region_order/matrix.h"

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
		sees(mem.base[i] == (i % mem.block == mem.block / 2 + 5), "byte %zu is not 0", i);
	fill(0);
	check(0);
	must_map(mem.base, mem.len, mem.order);
}

static void test_read(long arg)
{
	map_mem(arg);
	for (size_t off = 0; off < mem.len; off += mem.block)
		sees(!touch(mem.base + off), "byte %zu is not 0", off);
	if (mem.order)
		must_map(mem.base, mem.len, mem.order);
	fill(0);
	must_map(mem.base, mem.len, mem.order);
	check(0);
}

/* At the ends of a region only smaller pages fit. */
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
		sees(page_is(page_at(i), TAG(i)), "page %zu is not what was written", i);
}

/* A present page is kept, with smaller pages around it. */
static void test_late(long arg)
{
	map_mem(arg);
	must(!set_order(mem.base, mem.len, 0, 0), "order 0 is refused");
	page_fill(page_at(1), TAG(1));
	must(!set_order(mem.base, mem.len, mem.order, mem.policy), "the order is refused");
	sees(page_is(page_at(1), TAG(1)), "page 1 is not what was written");
	must(!mapped_order(page_at(1)), "page 1 is a large one");
	fill(0);
	check(0);
	must_map(mem.base + mem.block, mem.len - mem.block, mem.order);
}

static void test_switched_on(long arg)
{
	char *none;

	map_mem(arg);
	/* after_each_case() resets it */
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

	/* shift by one base page: large pages do not fit any more */
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
	/* the old region keeps its order too */
	to = arena(5);
	must(mremap(mem.base, mem.len, mem.len,
		    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == to,
	     "mremap: %s", strerror(errno));
	must_have(mem.base, mem.order, mem.policy);
	sees(!touch(mem.base), "what moved away is still there");
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
	sees(probe_write(mem.base) == SIGSEGV, "a write to read-only memory");
	must_have(mem.base, mem.order, mem.policy);
	must_have(mem.base + half, mem.order, mem.policy);
	must_call(mprotect(mem.base, half, PROT_NONE));
	sees(probe_read(mem.base) == SIGSEGV, "a read of memory without rights");
	must_call(mprotect(mem.base, half, RW));
	must(regions(mem.base, mem.len) == 1, "they do not merge again");
	check(0);
	fill(50);
	check(50);
	must_map(mem.base, mem.len, mem.order);
}

static void test_unmap_part(long arg)
{
	size_t hole;

	map_mem(arg);
	fill(0);
	hole = unmap_middles(own_tag);
	/* a new region in the hole has no order and does not merge */
	map_at(mem.base + hole, page_size, RW, ANONYMOUS, -1, 0);
	must_have_none(mem.base + hole);
	sees(!touch(mem.base + hole), "the hole is not empty");
	must_have(mem.base + hole + page_size, mem.order, mem.policy);
}

static void test_dontneed(long arg)
{
	map_mem(arg);
	fill(0);
	for (size_t off = 0; off < mem.len; off += mem.block)
		must_call(madvise(mem.base + off, page_size, MADV_DONTNEED));
	for (size_t i = 0; i < nr_pages(); i++)
		sees(page_is(page_at(i), i * page_size % mem.block ? TAG(i) : 0),
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
		sees(page_is(page_at(i), TAG(i)) || page_is(page_at(i), 0), "page %zu", i);
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
	/* a new neighbour has no order */
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

/* Count base pages in swap. */
static size_t pages_out(void)
{
	size_t out = 0;

	for (size_t i = 0; i < nr_pages(); i++)
		out += !!(pagemap_entry(0, page_at(i)) & PM_SWAP);
	return out;
}

/* Swap out at least half: other users may hold a few pages for a moment. */
static size_t must_page_out(void)
{
	size_t out = 0;

	for (int i = 0; i < 10 && out < nr_pages(); i++) {
		/* compaction drains the per-CPU lists, where new pages may wait */
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

/* Reclaim until pages are gone: the first pass may only clear their referenced bits. */
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

/* A memory cgroup too small for a large page gets base pages. */
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

static const struct question questions[] = {
	{ "Writes bring pages of the order", test_write, .guards = REGION_ORDER },
	{ "Reads bring pages of the order", test_read, .guards = REGION_ORDER },
	{ "At the edges are smaller pages", test_edges, .guards = REGION_ORDER },
	{ "A page that was there is kept", test_late, .guards = REGION_ORDER },
	{ "The machine's switches at always change nothing", test_switched_on,
	  .guards = REGION_ORDER },
	{ "The later of MADV_ORDER and MADV_NOHUGEPAGE counts", test_no_hugepage,
	  .guards = REGION_ORDER },
	{ "A region that is moved, grown and left", test_mremap, .guards = REGION_ORDER },
	{ "A region that is protected in part", test_mprotect, .guards = REGION_ORDER },
	{ "Base pages unmapped out of large ones", test_unmap_part, .guards = REGION_ORDER },
	{ "Base pages of large ones given up with MADV_DONTNEED", test_dontneed,
	  .guards = REGION_ORDER },
	{ "Pages given up with MADV_FREE", test_free, .guards = REGION_ORDER },
	{ "Regions merge only if they are equal", test_merge, .guards = REGION_ORDER },
	{ "Pages swapped out and in", test_swap, .guards = REGION_ORDER },
	{ "Pages swapped out before a fork", test_swap_fork, true,
	  .guards = INVARIANT(6) | REGION_ORDER },
	{ "Pages reclaimed under pressure", test_pressure, .guards = REGION_ORDER },
	{ "A memory cgroup with little room", test_limit, .guards = REGION_ORDER },
};

int main(int argc, char **argv)
{
	read_options(argc, argv);
	add_questions(questions, ARRAY_SIZE(questions));
	return run_orders(argc, argv);
}
