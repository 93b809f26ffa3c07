// SPDX-License-Identifier: GPL-2.0-only
/* A page size for each region, after a fork. */
#include "region_order/matrix.h"

#include <sys/uio.h>

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

/* The last-level tables that map the memory; 2 MB pages have none. */
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
 * Check that the first child shares all tables of the memory: a second child
 * unmaps it, and its number of shared tables must fall by as many. Both have read
 * all memory before, so that nothing else changes.
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

/* The child has written to nr tables: it must share at least that many fewer. */
static void must_have_left(long before, long nr)
{
	long after = shared_tables(pid_of(1));

	must(!tables() || before - after >= nr, "%ld tables are shared, after %ld", after,
	     before);
}

/* The child writes all pages, then the parent writes its own. */
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
		sees(page_is(page_at(i), i == (size_t)page ? 5 : TAG(i)),
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
		sees(page_is(page_at(i), i == 3 ? 5 : TAG(i)), "page %zu is not what it was", i);
	page_fill(page_at(0), 6);
	sees(page_is(page_at(0), 6) && page_is(page_at(3), 5), "the grandchild's pages");
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
	/* the middle generation exits first */
	quit(1);
	sees(page_is(page_at(3), TAG(3)), "the first generation's page");
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

/* where nothing was when the zygote forked */
static void must_be_zero(void)
{
	for (size_t off = mem.block; off < mem.len; off += page_size)
		sees(!touch(mem.base + off), "byte %zu is not 0", off);
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

/* Large pages that a last-level table maps, as after mprotect() of a part. */
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
 * With an order a read fault may allocate pages. They belong to the reader and
 * are freed with it, so no shared table may hold them.
 */
static void test_fork_read(long arg)
{
	map_mem(arg);
	become_zygote();
	page_fill(mem.base, TAG(0));
	for (int who = 1; who <= 3; who++)
		spawn(who);
	ask(1, child_read_rest, 0, 0);
	sees(memory_byte(pid_of(2), mem.base + mem.block) == 0, "a sibling's page is not 0");
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
	sees(page_is(mem.base, TAG(0)), "the zygote's page is not what it wrote");
	fill(0);
	check(0);
	ask(3, child_read_rest, 0, 0);
}

/* A page lent to a pipe by a child that is gone is not written by the parent. */
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
	sees(page_is(buf, TAG(2)), "what the child lent was changed by the parent");
	check(3000);
}

static const struct question questions[] = {
	{ "After a fork each process sees its own writes", test_fork, true,
	  .guards = INVARIANT(2) | REGION_ORDER },
	{ "One page written after a fork", test_cow, true, .guards = INVARIANT(2) | REGION_ORDER },
	{ "Large pages mapped by entries, written after a fork", test_cow_split, true,
	  .guards = INVARIANT(2) | REGION_ORDER },
	{ "Pages that were read first after a fork", test_fork_read, true,
	  .guards = INVARIANT(6) | REGION_ORDER },
	{ "Two generations, the first of which exits first", test_generations, true,
	  .guards = INVARIANT(2) | REGION_ORDER },
	{ "A page lent to a pipe is not written by others", test_lent, true,
	  .guards = INVARIANT(2) | REGION_ORDER },
};

int main(int argc, char **argv)
{
	read_options(argc, argv);
	add_questions(questions, ARRAY_SIZE(questions));
	return run_orders(argc, argv);
}
