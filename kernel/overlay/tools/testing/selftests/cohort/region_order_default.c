// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region: refused requests, process_madvise(), and defaults
 * that are inherited.
 */
#include "region_order/matrix.h"

#include <sys/auxv.h>
#include <sys/uio.h>

#define REPORT	"--report"	/* run as a program: check its own regions */

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

static long child_without_privilege(long unused, long unused2)
{
	/* inherited, as a priority is */
	must_call(setresuid(65534, 65534, 65534));
	must_have(mem.base, 2, WAIT);
	must_refuse(mem.base, mem.len, advice(2, WAIT), EPERM, "to wait");
	must_refuse(mem.base, mem.len, advice(2, WAIT | COPY), EPERM, "to wait, and copy");
	must(set_default(PR_ORDER_ANON, advice(4, WAIT)) == -EPERM, "to wait by default");
	must_have(mem.base, 2, WAIT);
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_ANON, 0, 0, 0) == (MADV_ORDER | MADV_ORDER_NONE),
	     "a call that is refused changed something");
	must(!set_order(mem.base, mem.len, 2, COPY), "an order without waiting is refused");
	must(!set_default(PR_ORDER_ANON, advice(4, COPY)), "a default without waiting is refused");
	must_have(mem.base, 2, COPY);
	return 0;
}

/* A fault that waits takes precedence over others, so it takes CAP_SYS_NICE to ask. */
static void test_privilege(long arg)
{
	need_orders();
	map_mem(ARG(2, WAIT));
	spawn(1);
	ask(1, child_without_privilege, 0, 0);
	must_have(mem.base, 2, WAIT);
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

static const struct question questions[] = {
	{ "Another process's region", test_process_madvise, .guards = REGION_ORDER },
	{ "A default for new regions", test_default, .guards = REGION_ORDER | INTERFACE },
	{ "A default kept over exec", test_exec, .guards = REGION_ORDER | INTERFACE },
};

static const struct test_case others[] = {
	{ "Wrong requests are refused and change nothing", test_refused,
	  .guards = REGION_ORDER | INTERFACE },
	{ "Waiting needs a privilege", test_privilege, .guards = REGION_ORDER | PRIVILEGE },
	{ "Wrong defaults are refused", test_default_refused,
	  .guards = REGION_ORDER | INTERFACE },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], REPORT))
		return report(argv[2]);
	read_options(argc, argv);
	add_questions(questions, ARRAY_SIZE(questions));
	add_cases(others, ARRAY_SIZE(others));
	return run_orders(argc, argv);
}
