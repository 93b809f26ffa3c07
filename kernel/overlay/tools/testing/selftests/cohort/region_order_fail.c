// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region, with failing allocations: each allocation of a
 * call or a fault fails in turn. A call then does all of its work, or reports an
 * error and changes nothing. A fault always succeeds, with a page of the order or
 * a smaller one; with WAIT, with one of the order.
 *
 * Needs fault injection (CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and debugfs).
 */
#include "region_order/order.h"

enum where { ANONYM, TMPFS, IMAGE };

static const char * const where_names[] = { "anonymous", "tmpfs", "erofs" };

/* the argument of a case: an operation, an order, a policy, and whose memory it is */
#define ARG(op, order, policy, where) \
	((long)(op) | (order) << 8 | (policy) << 16 | (long)(where) << 24)
#define ARG_OP(arg)		((arg) & 0xff)
#define ARG_ORDER(arg)		((int)((arg) >> 8 & 0xff))
#define ARG_POLICY(arg)		((int)((arg) >> 16 & 0xff))
#define ARG_WHERE(arg)		((enum where)((arg) >> 24 & 0xff))

static struct {
	char *base;
	size_t len;		/* bytes */
	size_t block;		/* bytes of one page of the order */
	int order, policy;
	enum where where;
	int fd;
	bool filled;
	char *elsewhere;	/* free addresses of the same length */
	char *made;		/* what the operation has mapped */
} mem;

static size_t nr_pages(void)
{
	return mem.len / page_size;
}

/* the second quarter, shifted by a page: its ends are within large pages */
static char *part(void)
{
	return mem.base + mem.len / 4 + page_size;
}

static size_t part_len(void)
{
	return mem.len / 4;
}

static bool in_part(size_t page)
{
	char *p = mem.base + page * page_size;

	return p >= part() && p < part() + part_len();
}

/* The content of a page that was not written since it was mapped or filled. */
static unsigned int tag_of(size_t page)
{
	if (mem.filled)
		return TAG(page);
	return mem.where == IMAGE ? FILE_TAG(page) : 0;
}

static bool private_memory(void)
{
	return mem.where != TMPFS;
}

static void fill(void)
{
	for (size_t i = 0; i < nr_pages(); i++)
		page_fill(mem.base + i * page_size, TAG(i));
	mem.filled = true;
}

static void check_pages(const char *base, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		sees(page_is(base + i * page_size, tag_of(i)), "page %zu is not what it was", i);
}

static long child_check(long unused, long unused2)
{
	check_pages(mem.base, 0, nr_pages());
	return 0;
}

/* --- the operations -------------------------------------------------------- */

/* Each returns -1 with errno if it failed. */

static int other_order(void)
{
	return mem.order == 2 ? 3 : 2;
}

static long do_order(void)
{
	return madvise(part(), part_len(), advice(other_order(), mem.policy ^ WAIT));
}

static void see_order(bool done)
{
	must_have(mem.base, mem.order, mem.policy);
	must_have(mem.base + mem.len - 1, mem.order, mem.policy);
	for (size_t off = 0; off < part_len(); off += part_len() - 1)
		if (done)
			must_have(part() + off, other_order(), mem.policy ^ WAIT);
		else
			must_have(part() + off, mem.order, mem.policy);
	check_pages(mem.base, 0, nr_pages());
}

static long do_none(void)
{
	return madvise(part(), part_len(), MADV_ORDER | MADV_ORDER_NONE);
}

static void see_none(bool done)
{
	must_have(mem.base, mem.order, mem.policy);
	if (done) {
		must_have_none(part());
		must_have_none(part() + part_len() - 1);
	} else {
		must_have(part(), mem.order, mem.policy);
	}
	check_pages(mem.base, 0, nr_pages());
}

static long do_default(void)
{
	return prctl(PR_SET_REGION_ORDER, PR_ORDER_ANON, advice(mem.order, mem.policy), 0, 0);
}

static void see_default(bool done)
{
	long want = done ? advice(mem.order, mem.policy) : MADV_ORDER | MADV_ORDER_NONE;
	long got = prctl(PR_GET_REGION_ORDER, PR_ORDER_ANON, 0, 0, 0);

	must(got == want, "the default is %lx, not %lx", got, want);
	must_call(prctl(PR_SET_REGION_ORDER, PR_ORDER_ANON, MADV_ORDER | MADV_ORDER_NONE, 0, 0));
}

/* Map new memory in a process with a default. */
static void before_map(void)
{
	must_call(do_default());
}

static long do_map(void)
{
	mem.made = mmap(NULL, mem.len, RW, ANONYMOUS, -1, 0);
	return mem.made == MAP_FAILED ? -1 : 0;
}

static void see_map(bool done)
{
	must_call(prctl(PR_SET_REGION_ORDER, PR_ORDER_ANON, MADV_ORDER | MADV_ORDER_NONE, 0, 0));
	check_pages(mem.base, 0, nr_pages());
	if (!done)
		return;
	must_have(mem.made, mem.order, mem.policy);
	must(!((uintptr_t)mem.made % mem.block), "%p is not aligned to the order", mem.made);
	must_call(munmap(mem.made, mem.len));
}

static long do_read(void)
{
	for (size_t off = mem.block / 2; off < mem.len; off += mem.block)
		touch(mem.base + off);
	return 0;
}

/* Check that no page is larger than the order, and with WAIT none smaller. */
static void see_pages(bool done)
{
	for (size_t off = mem.block / 2; off < mem.len; off += mem.block) {
		int got = mapped_order(mem.base + off);

		must(got != ABSENT, "the page of block %zu is not there", off / mem.block);
		must(got <= mem.order, "block %zu: a page of order %d", off / mem.block, got);
		if (mem.policy & WAIT && !mem.filled)
			must(got == mem.order, "block %zu: a page of order %d, and it waits",
			     off / mem.block, got);
	}
	check_pages(mem.base, 0, nr_pages());
}

/* write without changing the content */
static long do_write(void)
{
	for (size_t off = mem.block / 2; off < mem.len; off += mem.block)
		__atomic_fetch_add(mem.base + off, 0, __ATOMIC_RELAXED);
	return 0;
}

/*
 * Write to one page of each block; another process maps all of them and must keep
 * them.
 */
static size_t written(size_t block)
{
	return (block * mem.block + mem.block / 2) / page_size;
}

#define WRITTEN(page)	(900000u + (unsigned int)(page))

static void before_cow(void)
{
	if (mem.where == ANONYM)
		fill();
	else
		check_pages(mem.base, 0, nr_pages());
	spawn(1);
}

static long do_cow(void)
{
	for (size_t block = 0; block < mem.len / mem.block; block++)
		page_fill(mem.base + written(block) * page_size, WRITTEN(written(block)));
	return 0;
}

static void see_cow(bool done)
{
	size_t block = 0;

	for (size_t i = 0; i < nr_pages(); i++) {
		unsigned int tag = tag_of(i);

		if (block < mem.len / mem.block && i == written(block)) {
			tag = WRITTEN(i);
			block++;
		}
		sees(page_is(mem.base + i * page_size, tag), "page %zu is wrong after a write", i);
	}
	ask(1, child_check, 0, 0);
	for (size_t off = 0; off < mem.len; off += mem.block / 4)
		must(mapped_order(mem.base + off) <= mem.order, "a page that is too large");
	quit(1);
}

/* The same after the other process has exited: pages may be reused. */
static void before_reuse(void)
{
	before_cow();
	quit(1);
}

static void see_reuse(bool done)
{
	size_t block = 0;

	for (size_t i = 0; i < nr_pages(); i++) {
		bool mine = block < mem.len / mem.block && i == written(block);

		block += mine;
		sees(page_is(mem.base + i * page_size, mine ? WRITTEN(i) : tag_of(i)),
		     "page %zu is wrong after a write", i);
	}
}

static void before_fork(void)
{
	if (mem.where == IMAGE)
		check_pages(mem.base, 0, nr_pages());
	else
		fill();
}

static long do_fork(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (!pid) {
		check_pages(mem.base, 0, nr_pages());
		must_have(mem.base, mem.order, mem.policy);
		if (private_memory())
			for (size_t i = 0; i < nr_pages(); i++)
				page_fill(mem.base + i * page_size, 5);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "the child ended with %x", status);
	return 0;
}

static void see_all(bool done)
{
	must_have(mem.base, mem.order, mem.policy);
	must_have(mem.base + mem.len - 1, mem.order, mem.policy);
	check_pages(mem.base, 0, nr_pages());
	if (mem.where == IMAGE)
		return;
	for (size_t i = 0; i < nr_pages(); i++)
		page_fill(mem.base + i * page_size, TAG(i));
	mem.filled = true;
	check_pages(mem.base, 0, nr_pages());
}

static long do_move(void)
{
	return mremap(part(), part_len(), part_len(), MREMAP_MAYMOVE | MREMAP_FIXED,
		      mem.elsewhere + (part() - mem.base)) == MAP_FAILED ? -1 : 0;
}

/*
 * When mremap() cannot split the region that it has emptied, it leaves it and
 * still reports success. Every kernel does this.
 */
static bool is_gone_or_new(size_t page)
{
	char *p = mem.base + page * page_size;

	if (probe_read(p) == SIGSEGV)
		return true;
	return page_is(p, mem.where == ANONYM ? 0 : tag_of(page));
}

static void see_move(bool done)
{
	must_have(mem.base, mem.order, mem.policy);
	for (size_t i = 0; i < nr_pages(); i++) {
		char *base = done && in_part(i) ? mem.elsewhere : mem.base;

		sees(page_is(base + i * page_size, tag_of(i)), "page %zu is not what it was", i);
		if (done && in_part(i))
			must(is_gone_or_new(i), "page %zu is still there", i);
	}
	if (done) {
		char *moved = mem.elsewhere + (part() - mem.base);

		must_have(moved, mem.order, mem.policy);
		must_have(moved + part_len() - 1, mem.order, mem.policy);
		must_call(munmap(moved, part_len()));
	}
}

static long do_protect(void)
{
	return mprotect(part(), part_len(), PROT_NONE);
}

static void see_protect(bool done)
{
	for (size_t i = 0; i < nr_pages(); i++)
		sees(probe_read(mem.base + i * page_size) == (done && in_part(i) ? SIGSEGV : 0),
		     "page %zu has another protection", i);
	must_have(mem.base, mem.order, mem.policy);
	must_have(part(), mem.order, mem.policy);
	if (done)
		must_call(mprotect(part(), part_len(), mem.where == IMAGE ? PROT_READ : RW));
	check_pages(mem.base, 0, nr_pages());
}

static long do_unmap(void)
{
	return munmap(part(), part_len());
}

static void see_unmap(bool done)
{
	must_have(mem.base, mem.order, mem.policy);
	for (size_t i = 0; i < nr_pages(); i++)
		if (done && in_part(i))
			sees(probe_read(mem.base + i * page_size) == SIGSEGV,
			     "page %zu is still there", i);
		else
			sees(page_is(mem.base + i * page_size, tag_of(i)),
			     "page %zu is not what it was", i);
}

static void before_swap(void)
{
	need_swap();
	fill();
	must_call(madvise(mem.base, mem.len, MADV_PAGEOUT));
}

#define ON_ANON		KIND(ANONYM)
#define ON_TMPFS	KIND(TMPFS)
#define ON_IMAGE	KIND(IMAGE)
#define ON_ALL		(ON_ANON | ON_TMPFS | ON_IMAGE)

static const struct operation {
	const char *name;
	void (*before)(void);
	long (*fn)(void);
	void (*see)(bool done);
	unsigned int where;
	bool never_fails;
	bool copies;		/* policies of copying make a difference */
} operations[] = {
	{ "MADV_ORDER of a part", before_fork, do_order, see_order, ON_ALL },
	{ "MADV_ORDER_NONE of a part", before_fork, do_none, see_none, ON_ALL },
	{ "PR_SET_REGION_ORDER", NULL, do_default, see_default, ON_ANON },
	{ "mmap with a default", before_map, do_map, see_map, ON_ANON },
	{ "a write fault", NULL, do_write, see_pages, ON_ANON | ON_TMPFS, true },
	{ "a read fault", NULL, do_read, see_pages, ON_ALL, true },
	{ "a write to what another has too", before_cow, do_cow, see_cow, ON_ANON | ON_IMAGE,
	  true, true },
	{ "a write to what another had too", before_reuse, do_cow, see_reuse, ON_ANON, true, true },
	{ "a read of what is swapped out", before_swap, do_read, see_pages, ON_ANON, true },
	{ "fork", before_fork, do_fork, see_all, ON_ALL, false, true },
	{ "mremap of a part", before_fork, do_move, see_move, ON_ALL },
	{ "mprotect of a part", before_fork, do_protect, see_protect, ON_ALL },
	{ "munmap of a part", before_fork, do_unmap, see_unmap, ON_ALL },
};

/* Map four pages of the order (two of the largest), not yet faulted in. */
static void set_up(const struct operation *op, long arg)
{
	int prot = RW, flags = MAP_SHARED;

	mem.order = ARG_ORDER(arg);
	mem.policy = ARG_POLICY(arg);
	mem.where = ARG_WHERE(arg);
	mem.block = page_size << mem.order;
	mem.len = mem.block * (mem.order == pmd_order() ? 2 : 4);
	mem.filled = false;
	mem.base = arena(5);
	mem.elsewhere = arena(5);
	if (mem.where == ANONYM) {
		mem.fd = -1;
		flags = ANONYMOUS;
	} else if (mem.where == TMPFS) {
		mem.fd = make_file("tmpfs", 0);
		must_call(ftruncate(mem.fd, mem.len));
	} else {
		if (mem.fd <= 0)
			mem.fd = make_image(nr_pages(), 0);
		must_call(posix_fadvise(mem.fd, 0, 0, POSIX_FADV_DONTNEED));
		prot = op->copies ? RW : PROT_READ;
		flags = MAP_PRIVATE;
	}
	map_at(mem.base, mem.len, prot, flags, mem.fd, 0);
	must(!set_order(mem.base, mem.len, mem.order, mem.policy), "the order is refused");
	if (op->before)
		op->before();
}

static void take_down(void)
{
	must_call(munmap(mem.base, mem.len));
	if (mem.where == TMPFS)
		close(mem.fd);
}

static void test_fail(long arg)
{
	const struct operation *op = &operations[ARG_OP(arg)];
	int failed = 0, anyway = 0;
	bool injected = true;
	long nth, ret;

	need_orders();
	need_injection();
	need_peers(8);
	become_zygote();
	/* after the first ones, allocations repeat in a loop: try fewer of them */
	for (nth = 1; nth < 2000 && injected; nth += quick && nth > 24 ? nth / 8 : 1) {
		set_up(op, arg);
		arm(nth);
		ret = op->fn();
		injected = disarm();
		must(!ret || injected, "%s: %s", op->name, strerror(errno));
		must(!ret || !op->never_fails, "%s failed: %s", op->name, strerror(errno));
		op->see(!ret);
		failed += !!ret;
		anyway += !ret && injected;
		take_down();
	}
	must(!injected, "%s does not come to an end", op->name);
	note("%s: %d failed it, %d did not", op->name, failed, anyway);
}

#define MAX_CASES	1000

int main(int argc, char **argv)
{
	static const int policies[] = { 0, WAIT, COPY, WAIT | COPY };
	static const char * const names[] = { "", ", wait", ", copy", ", wait, copy" };
	static struct test_case cases[MAX_CASES];
	int n = 0, ret;

	read_options(argc, argv);

	for (size_t op = 0; op < ARRAY_SIZE(operations); op++)
		for (int where = ANONYM; where <= IMAGE; where++)
			for (int order = 2; order <= pmd_order(); order++)
				for (size_t p = 0; p < ARRAY_SIZE(policies); p++) {
					char *desc;

					if (!(operations[op].where & KIND(where)) ||
					    ((policies[p] & COPY) &&
					     (where != ANONYM || !operations[op].copies)))
						continue;
					if (order != 2 && order != 4 && order != pmd_order())
						continue;
					/* the largest order takes most of the time */
					if (quick && (order == 2 || policies[p] == WAIT + COPY ||
						      (order == pmd_order() && policies[p])))
						continue;
					if (asprintf(&desc, "%s: %s, order %d%s",
						     operations[op].name, where_names[where],
						     order, names[p]) < 0)
						return KSFT_FAIL;
					cases[n].desc = desc;
					cases[n].fn = test_fail;
					cases[n].guards = REGION_ORDER | INVARIANT(8);
					cases[n++].arg = ARG(op, order, policies[p], where);
				}
	save_injection();
	ret = run_cases(argc, argv, cases, n);
	restore_injection();
	return ret;
}
