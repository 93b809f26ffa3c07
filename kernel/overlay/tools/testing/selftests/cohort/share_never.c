// SPDX-License-Identifier: GPL-2.0-only
/* Regions that are never shared at fork, and sparse memory of terabytes. */
#include "common.h"
#include "lib/uffd.h"

#include <time.h>

/* A table of anonymous memory, every 32nd page of it written. */
static void plain_table(int extra_flags)
{
	memset(&area, 0, sizeof(area));
	area.tables = 1;
	area.base = arena(1);
	area.nparts = 1;
	area.part[0] = (struct part){ .addr = area.base, .len = table_size,
				      .prot = PROT_READ | PROT_WRITE, .fd = -1 };
	map_at(area.base, table_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
	madvise(area.base, table_size, MADV_NOHUGEPAGE);
	area_spots(&area, 0, 16);
}

static char *odd_page(void)
{
	return area.spot[8].addr;
}

static void drop_odd_spot(void)
{
	area.spot[8] = area.spot[--area.nspots];
}

static long odd_access(long addr, long b)
{
	return probe_read((void *)addr);
}

static long odd_is_zero(long addr, long b)
{
	return page_is((void *)addr, 0);
}

static void test_dontfork(long arg)
{
	char *odd;

	plain_table(0);
	odd = odd_page();
	must_call(madvise(odd, page_size, MADV_DONTFORK));
	become_zygote();
	expect_shared(0);
	spots_intact((long)&area, 0);
	drop_odd_spot();
	spawn(1);
	sees(ask(1, odd_access, (long)odd, 0) == SIGSEGV,
	     "the child has a page that was MADV_DONTFORK");
	ask(1, spots_intact, (long)&area, 0);
	page_fill(odd, 4711);
	sees(page_is(odd, 4711), "the parent cannot write its MADV_DONTFORK page");
}

static void test_wipeonfork(long arg)
{
	char *odd;

	plain_table(0);
	odd = odd_page();
	must_call(madvise(odd, page_size, MADV_WIPEONFORK));
	become_zygote();
	expect_shared(0);
	spots_intact((long)&area, 0);
	drop_odd_spot();
	spawn(1);
	sees(ask(1, odd_is_zero, (long)odd, 0), "the child sees a page that was MADV_WIPEONFORK");
	ask(1, spots_intact, (long)&area, 0);
}

static void test_mlocked(long arg)
{
	plain_table(0);
	if (mlock(odd_page(), page_size))
		skip("mlock: %s", strerror(errno));
	become_zygote();
	expect_shared(0);
	spawn(1);
	ask(1, spots_intact, (long)&area, 0);
	must(proc_field(0, "status", "VmLck") > 0, "the parent's lock is gone");
	must(proc_field(pid_of(1), "status", "VmLck") == 0, "the child has a locked page");
	must_call(munlock(odd_page(), page_size));
	spots_intact((long)&area, 0);
}

static void test_uffd(long arg)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg;
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		skip("userfaultfd: %s", strerror(errno));
	must_call(ioctl(fd, UFFDIO_API, &api));
	plain_table(0);
	reg.range.start = (uintptr_t)odd_page();
	reg.range.len = page_size;
	reg.mode = UFFDIO_REGISTER_MODE_MISSING;
	must_call(ioctl(fd, UFFDIO_REGISTER, &reg));
	become_zygote();
	expect_shared(0);
	spawn(1);
	ask(1, spots_intact, (long)&area, 0);
	spots_intact((long)&area, 0);
	close(fd);
	spots_intact((long)&area, 0);
}

/* A marker of poison is one process's, also when nothing is registered any more. */
static void test_uffd_poison(long arg)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_POISON };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_poison poison = { .mode = 0 };
	char *p, *bad;

	if (fd < 0)
		skip("userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api))
		skip("userfaultfd does not poison");
	p = map_at(arena(1), table_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		   0);
	bad = p + 100 * page_size;
	page_fill(p, 1);
	reg.range.start = (uintptr_t)p;
	reg.range.len = table_size;
	must_call(ioctl(fd, UFFDIO_REGISTER, &reg));
	poison.range.start = (uintptr_t)bad;
	poison.range.len = page_size;
	must_call(ioctl(fd, UFFDIO_POISON, &poison));
	must_call(ioctl(fd, UFFDIO_UNREGISTER, &reg.range));
	close(fd);
	become_zygote();
	spawn(1);
	sees(probe_read(bad), "a poisoned page can be read");
	sees(!ask(1, read_page, (long)p, 0), "a child cannot read what its parent has");
	sees(!ask(1, read_page, (long)bad, 0), "a child has its parent's poison");
	sees(probe_read(bad), "a poisoned page can be read after a child has");
}

static void test_growsdown(long arg)
{
	plain_table(MAP_GROWSDOWN);
	become_zygote();
	expect_shared(0);
	spawn(1);
	for (int i = 0; i <= 1; i++)
		model_init(&board->model[i], &area);
	model_scribble_all(2);
	model_check_all(2);
}

static long stack_is(long addr, long tag)
{
	return page_is((void *)addr, tag);
}

static void test_real_stack(long arg)
{
	char big[16 * 4096 + 2 * 65536];
	char *page = (char *)(((uintptr_t)big + page_size - 1) / page_size * page_size);

	page_fill(page, 1);
	become_zygote();
	spawn(1);
	sees(ask(1, stack_is, (long)page, 1), "the child does not have the parent's stack");
	page_fill(page, 2);
	sees(ask(1, stack_is, (long)page, 1), "the child sees a write to the parent's stack");
	sees(page_is(page, 2), "the parent's stack lost a write");
}

static long clock_moves(long a, long b)
{
	struct timespec t0, t1;

	/* through the vDSO: the data page behind it is VM_PFNMAP */
	clock_gettime(CLOCK_MONOTONIC, &t0);
	do {
		clock_gettime(CLOCK_MONOTONIC, &t1);
	} while (t0.tv_sec == t1.tv_sec && t0.tv_nsec == t1.tv_nsec);
	return t1.tv_sec > t0.tv_sec || (t1.tv_sec == t0.tv_sec && t1.tv_nsec > t0.tv_nsec);
}

static void test_vvar(long arg)
{
	clock_moves(0, 0);
	become_zygote();
	spawn(1);
	spawn_from(1, 2);
	must(ask(2, clock_moves, 0, 0) == 1, "time stands still in the grandchild");
	must(ask(1, clock_moves, 0, 0) == 1, "time stands still in the child");
	must(clock_moves(0, 0) == 1, "time stands still in the parent");
}

static void test_not_zygote(long arg)
{
	if (cohort_mode != MODE_OPTIN && cohort_mode != MODE_NEVER)
		skip("only in the modes optin and never");
	/* with a cohort elsewhere every fork is looked at */
	spawn(3);
	must(!ask(3, set_flags, PR_COHORT_ZYGOTE, 0), "PR_SET_COHORT");
	plain_table(0);
	if (cohort_mode == MODE_NEVER)
		become_zygote();
	must(tables_shared_with(1, 2) == 0, "a fork outside any cohort shares tables");
	spots_intact((long)&area, 0);
}

static void test_stop_sharing(long arg)
{
	long found;

	if (cohort_mode != MODE_OPTIN)
		skip("only in the mode optin");
	plain_table(0);
	become_zygote();
	spawn(3);
	must_call(prctl(PR_SET_COHORT, 0, 0, 0, 0));
	found = tables_shared_with(1, 2);
	must(!found, "a process that is no zygote any more shares %ld tables", found);
	ask(3, spots_intact, (long)&area, 0);
	spots_intact((long)&area, 0);
}

/* --- more than one entry of the topmost table ----------------------------- */

#define HUGE	((char *)(uintptr_t)0x300000000000ULL)
#define SLOT	((size_t)0x8000000000ULL)	/* what an entry of the topmost table maps */

static void need_terabytes(void)
{
	if (sizeof(long) < 8)
		skip("no terabytes to spare");
}

static long far_access(long slot, long tag)
{
	char *p = HUGE + slot * SLOT;

	sees(page_is(p, 600 + slot), "slot %ld is not as the zygote left it", slot);
	page_fill(p, tag);
	sees(page_is(p, tag), "slot %ld lost a write", slot);
	return 0;
}

/* There is nothing in its slots 0, 2 and 3. */
static void test_terabytes(long arg)
{
	char *p;

	need_terabytes();
	p = mmap(HUGE, 5 * SLOT, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (p != HUGE)
		skip("no room for a region of terabytes: %s", strerror(errno));
	page_fill(HUGE + SLOT, 601);
	page_fill(HUGE + 4 * SLOT, 604);
	become_zygote();
	spawn(1);
	ask(1, far_access, 1, 701);
	ask(1, far_access, 4, 704);
	far_access(1, 801);
	far_access(4, 804);
}

static long huge_pages_right(long tag, long new)
{
	sees(page_is(HUGE, tag) && page_is(HUGE + 32 * SLOT - page_size, tag),
	     "a page far away does not hold %ld", tag);
	page_fill(HUGE, new);
	page_fill(HUGE + 32 * SLOT - page_size, new);
	return 0;
}

/* Sixteen terabytes of shared memory with two touched pages. */
static void test_sparse(long arg)
{
	long before, after;
	char *p;

	need_terabytes();
	p = mmap(HUGE, 32 * SLOT, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	before = proc_field(0, "status", "VmPTE");
	if (p != HUGE)
		skip("no room for a region of terabytes: %s", strerror(errno));
	page_fill(HUGE, 1);
	page_fill(HUGE + 32 * SLOT - page_size, 1);
	become_zygote();
	spawn(1);
	spawn(2);
	after = proc_field(0, "status", "VmPTE");
	must(after < before + 16384, "page tables grew from %ld to %ld kB", before, after);
	ask(1, huge_pages_right, 1, 2);
	ask(2, huge_pages_right, 2, 3);
	quit(1);
	huge_pages_right(3, 4);
	ask(2, huge_pages_right, 4, 5);
	must_call(munmap(HUGE, 32 * SLOT));
	ask(2, huge_pages_right, 5, 6);
}

static const struct test_case cases[] = {
	{ "A table with a MADV_DONTFORK page in it is not shared", test_dontfork,
	  .guards = INVARIANT(1) },
	{ "A table with a MADV_WIPEONFORK page in it is not shared", test_wipeonfork,
	  .guards = INVARIANT(1) },
	{ "A table with a locked page in it is not shared", test_mlocked, .guards = INVARIANT(1) },
	{ "A table with a userfaultfd in it is not shared", test_uffd, .guards = INVARIANT(1) },
	{ "A page that userfaultfd has poisoned is so for one process", test_uffd_poison,
	  .guards = INVARIANT(1) },
	{ "A table with memory that grows down is not shared", test_growsdown,
	  .guards = INVARIANT(1) },
	{ "Does a child have all of a region of terabytes?", test_terabytes,
	  .guards = INVARIANT(2) },
	{ "Do terabytes of shared memory cost what is in them?", test_sparse, .guards = LIMIT },
	{ "Are the stacks of parent and child apart?", test_real_stack, .guards = INVARIANT(1) },
	{ "Does the vDSO's clock go on in every generation?", test_vvar, .guards = STOCK },
	{ "A fork outside any cohort shares nothing", test_not_zygote,
	  .guards = INVARIANT(10) | POLICY },
	{ "Children forked after PR_SET_COHORT 0 share nothing", test_stop_sharing,
	  .guards = POLICY },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
