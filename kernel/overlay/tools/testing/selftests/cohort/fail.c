// SPDX-License-Identifier: GPL-2.0-only
/*
 * Failing allocations: each allocation of a system call fails in turn. The call
 * then does its work, or reports an error and leaves the memory of every process
 * as it was. The kernel retries a page fault until it succeeds.
 *
 * Needs fault injection (CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC and debugfs).
 */
#include "common.h"
#include "lib/uffd.h"

#include <sys/uio.h>

/* --- the operations ---------------------------------------------------------- */

static char *part_start(void)
{
	return area.spot[1].addr;
}

static size_t part_len(void)
{
	const struct part *p = &area.part[0];

	return (p->addr + p->len - part_start()) / 2 / page_size * page_size;
}

static bool in_part(const struct want *w)
{
	return w->addr >= part_start() && w->addr < part_start() + part_len();
}

/* each returns -1 with errno if it failed */
static long do_protect(void)
{
	return mprotect(part_start(), part_len(), PROT_NONE);
}

static void none_in_part(struct model *m)
{
	for (int i = 0; i < m->n; i++)
		if (in_part(&m->want[i]))
			m->want[i].acc = NONE;
}

static long do_unmap(void)
{
	return munmap(part_start(), part_len());
}

static long do_unmap_all(void)
{
	return munmap(area.part[0].addr, area.part[0].len);
}

static void none_in_first(struct model *m)
{
	for (int i = 0; i < m->n; i++)
		if (area.spot[m->want[i].id].part == 0)
			m->want[i].acc = NONE;
}

static char *elsewhere;

static long do_move(void)
{
	return mremap(part_start(), part_len(), part_len(), MREMAP_MAYMOVE | MREMAP_FIXED,
		      elsewhere) == MAP_FAILED ? -1 : 0;
}

static void moved_part(struct model *m)
{
	for (int i = 0; i < m->n; i++)
		if (in_part(&m->want[i]))
			m->want[i].addr += elsewhere - part_start();
}

static long do_grow(void)
{
	const struct part *p = &area.part[0];

	return mremap(p->addr, p->len, p->len + page_size, 0) == MAP_FAILED ? -1 : 0;
}

static long do_map_hole(void)
{
	void *p = mmap(area.base, page_size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return p == MAP_FAILED ? -1 : 0;
}

static long do_map_over(void)
{
	void *p = mmap(part_start(), part_len(), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	return p == MAP_FAILED ? -1 : 0;
}

static void zero_in_part(struct model *m)
{
	for (int i = 0; i < m->n; i++)
		if (in_part(&m->want[i])) {
			m->want[i].tag = 0;
			m->want[i].acc = WRITE;
			m->want[i].shared = false;
		}
}

static long do_dontneed(void)
{
	return madvise(part_start(), part_len(), MADV_DONTNEED);
}

static void dropped_part(struct model *m)
{
	for (int i = 0; i < m->n; i++)
		if (in_part(&m->want[i]) && !m->want[i].shared)
			m->want[i].tag = area.spot[m->want[i].id].file_tag;
}

static long do_lock(void)
{
	return mlock(part_start(), part_len());
}

static long do_populate(void)
{
	int ret = madvise(part_start(), part_len(), MADV_POPULATE_WRITE);

	/* a read-only part has nothing to populate for writing */
	return ret && errno == EINVAL ? 0 : ret;
}

static long do_collapse(void)
{
	return madvise(area.base, table_size, MADV_COLLAPSE);
}

static long do_mergeable(void)
{
	return madvise(part_start(), part_len(), MADV_MERGEABLE);
}

static long do_merge_any(void)
{
	return prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0);
}

static long do_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	int ret, saved;

	if (fd < 0)
		return -1;
	reg.range.start = (uintptr_t)part_start();
	reg.range.len = part_len();
	ret = ioctl(fd, UFFDIO_API, &api);
	if (!ret)
		ret = ioctl(fd, UFFDIO_REGISTER, &reg);
	saved = errno;
	close(fd);
	errno = saved;
	return ret;
}

static int refs_fd;

/* Before an allocation fails: that of the open file would be one, too. */
static void open_refs(void)
{
	refs_fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	must(refs_fd >= 0, "clear_refs: %s", strerror(errno));
}

static long clear_refs(const char *text)
{
	int ret = write(refs_fd, text, 1) == 1 ? 0 : -1;
	int saved = errno;

	close(refs_fd);
	errno = saved;
	return ret;
}

static long do_clear_accessed(void)
{
	return clear_refs("1");
}

static long do_clear_soft_dirty(void)
{
	return clear_refs("4");
}

static long do_write(void)
{
	/* a fault must succeed: the kernel retries it */
	for (int i = 0; i < 4; i++)
		if (area.part[area.spot[i].part].prot & PROT_WRITE)
			probe_write(area.spot[i].addr);
	return 0;
}

static long do_read(void)
{
	for (int i = 0; i < area.nspots; i++)
		touch(area.spot[i].addr);
	return 0;
}

static long do_write_syscall(void)
{
	struct iovec local = { area.spot[0].addr, page_size };
	struct iovec remote = { area.spot[0].addr, page_size };

	/* write to the sibling's page what it already holds */
	return process_vm_writev(pid_of(2), &local, 1, &remote, 1, 0) < 0 ? -1 : 0;
}

static long do_fork(void)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (!pid) {
		spots_intact((long)&area, 0);
		if (area.part[0].prot & PROT_WRITE && !area.part[0].shared)
			page_fill(area.spot[0].addr, 5);
		_exit(0);
	}
	must(waitpid(pid, &status, 0) == pid && !status, "the child ended with %x", status);
	return 0;
}

static const struct operation {
	const char *name;
	long (*fn)(void);
	void (*done)(struct model *m);	/* what its process sees when it worked */
	bool never_fails;
	bool half;	/* a failed call may have dropped the part's content */
	bool keeps;	/* it changes no region, so it can be repeated */
	void (*before)(void);	/* what no failure is for */
} operations[] = {
	{ "mprotect", do_protect, none_in_part },
	{ "munmap of a part", do_unmap, none_in_part },
	{ "munmap of all", do_unmap_all, none_in_first },
	{ "mremap of a part", do_move, moved_part },
	{ "mremap that grows", do_grow, NULL },
	{ "mmap in a hole", do_map_hole, NULL },
	{ "mmap over a part", do_map_over, zero_in_part, .half = true },
	{ "MADV_DONTNEED", do_dontneed, dropped_part },
	{ "mlock", do_lock, NULL },
	{ "MADV_POPULATE_WRITE", do_populate, NULL },
	{ "MADV_COLLAPSE", do_collapse, NULL },
	{ "MADV_MERGEABLE", do_mergeable, NULL },
	{ "PR_SET_MEMORY_MERGE", do_merge_any, NULL },
	{ "userfaultfd", do_uffd, NULL },
	{ "clear_refs of accessed bits", do_clear_accessed, NULL, .never_fails = true,
	  .before = open_refs },
	{ "clear_refs of soft-dirty bits", do_clear_soft_dirty, NULL, .before = open_refs },
	{ "a write fault", do_write, NULL, .never_fails = true },
	{ "a read fault", do_read, NULL, .never_fails = true },
	{ "process_vm_writev", do_write_syscall, NULL },
	{ "fork", do_fork, NULL, .keeps = true },
};

enum { DONE_CLEAN, DONE_ANYWAY, FAILED };

static long try_operation(long index, long nth)
{
	const struct operation *op = &operations[index];
	long ret;
	bool injected;

	if (op->before)
		op->before();
	arm(nth);
	ret = op->fn();
	injected = disarm();
	if (!ret)
		return injected ? DONE_ANYWAY : DONE_CLEAN;
	must(!op->never_fails, "%s failed: %s", op->name, strerror(errno));
	if (!injected) {
		/* it fails without an injected failure: not tested here */
		if (nth == 1)
			skip("%s: %s", op->name, strerror(errno));
		return DONE_CLEAN;
	}
	return FAILED;
}

static void set_up(enum kind kind)
{
	area_make(&area, kind);
	elsewhere = arena(2) + 3 * page_size;
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		model_init(&board->model[i], &area);
	}
}

static void take_down(void)
{
	for (int i = 1; i <= 2; i++)
		quit(i);
	area_unmap(&area);
	for (int i = 0; i < area.nparts; i++)
		if (area.part[i].fd >= 0)
			close(area.part[i].fd);
}

static void test_fail(long arg)
{
	enum kind kind = ARG_KIND(arg);
	long index = ARG_ARG(arg), nth, result;
	const struct operation *op = &operations[index];
	int failed = 0, anyway = 0;

	need_injection();
	become_zygote();
	set_up(kind);
	/* after the first ones, allocations repeat in a loop: try fewer of them */
	for (nth = 1; nth < 1000; nth += quick && nth > 32 ? nth / 8 : 1) {
		result = ask(1, try_operation, index, nth);
		if (result == FAILED) {
			failed++;
			if (op->half)
				board->model[1].n = 0;
		} else if (op->done) {
			op->done(&board->model[1]);
		}
		model_check_all(3);
		if (result == DONE_CLEAN)
			break;
		anyway += result == DONE_ANYWAY;
		if ((result == DONE_ANYWAY && !op->keeps) || op->half) {
			model_scribble_all(3);
			model_check_all(3);
			take_down();
			set_up(kind);
		}
	}
	must(nth < 1000, "%s does not come to an end", op->name);
	model_scribble_all(3);
	model_check_all(3);
	note("%s: %d failed it, %d did not, of %ld allocations", op->name, failed, anyway, nth - 1);
}

/* Share a whole PMD table: each allocation of the fork fails in turn. */
static void test_fail_gigabyte(long arg)
{
	const size_t len = 128 << 20, gigabyte = 1 << 30;
	char *base = (char *)(uintptr_t)0x3f00000000ULL;
	int failed = 0, status;
	bool clean = false;
	long nth;

	if (sizeof(long) < 8)
		skip("no gigabyte to spare");
	need_injection();
	become_zygote();
	for (nth = 1; nth < 1000 && !clean; nth++, base += 2 * gigabyte) {
		bool injected;
		pid_t pid;

		map_at(base, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		page_fill(base + table_size, nth);
		arm(nth);
		pid = fork();
		if (!pid) {
			sees(page_is(base + table_size, nth), "a child sees another page");
			page_fill(base + 5 * table_size, nth + 1);
			_exit(0);
		}
		injected = disarm();
		must(pid > 0 || injected, "fork: %s", strerror(errno));
		clean = pid > 0 && !injected;
		failed += pid < 0;
		sees(page_is(base + table_size, nth), "a failed fork has changed a page");
		if (pid > 0) {
			must(waitpid(pid, &status, 0) == pid && !status,
			     "the child ended with %x", status);
			sees(page_is(base + 5 * table_size, nth + 1),
			     "what the child wrote is not to be seen");
		}
		page_fill(base + table_size, nth + 2);
		must_call(munmap(base, len));
	}
	must(clean, "fork does not come to an end");
	must(failed, "no allocation failed");
	note("fork: %d failed, of %ld allocations", failed, nth - 2);
}

#define KINDS	(KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED) | KIND(SHARED_FILE) | KIND(BORDERS))

int main(int argc, char **argv)
{
	struct test_case cases[ARRAY_SIZE(operations) + 1] = { };
	static char text[ARRAY_SIZE(operations)][96];
	int ret;

	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		snprintf(text[i], sizeof(text[i]), "Does a failing %s leave all as it was?",
			 operations[i].name);
		cases[i] = (struct test_case){
			.desc = text[i], .fn = test_fail, .arg = i, .kinds = KINDS,
			.quick_kinds = KIND(ANON) | KIND(MIXED), .guards = INVARIANT(8),
		};
		/* the first table of this kind begins with a hole */
		if (operations[i].fn == do_map_hole)
			cases[i].kinds = KIND(MIXED) | KIND(BORDERS);
	}
	cases[ARRAY_SIZE(operations)] = (struct test_case){
		.desc = "Does a failing fork leave a gigabyte of shared memory as it was?",
		.fn = test_fail_gigabyte, .guards = INVARIANT(8),
	};
	save_injection();
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	restore_injection();
	return ret;
}
