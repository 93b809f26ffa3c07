// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access by the kernel, not by the process's own instructions: ptrace, the
 * process_vm calls, /proc/PID/mem, pages lent to pipes, direct I/O, io_uring.
 * Each looks up a page, and some keep it. It must be the page of the process that
 * was named.
 */
#include "common.h"

#include <limits.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static char *page_alloc(void)
{
	char *p = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	must(p != MAP_FAILED, "mmap: %s", strerror(errno));
	return p;
}

/* --- writing into another process ----------------------------------------- */

enum method { POKE, WRITEV, MEM };

static void poke_page(pid_t pid, char *addr, const char *page)
{
	for (size_t i = 0; i < page_size; i += sizeof(long))
		must_call(ptrace(PTRACE_POKEDATA, pid, addr + i, *(long *)(page + i)));
}

static void seize(pid_t pid)
{
	int status;

	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		skip("ptrace: %s", strerror(errno));
	must_call(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
	must(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status),
	     "the traced process does not hold still");
}

/* write a new page at each third spot of process `victim`; note who sees it */
static long write_into(long victim, long method)
{
	struct model *m = &board->model[victim];
	pid_t pid = pid_of(victim);
	char *page = page_alloc();
	char path[64];
	int fd = -1;

	if (method == POKE)
		seize(pid);
	if (method == MEM) {
		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		fd = open(path, O_RDWR | O_CLOEXEC);
		must(fd >= 0, "%s: %s", path, strerror(errno));
	}
	for (int i = 0; i < m->n; i += 3) {
		struct want *w = &m->want[i];
		struct iovec local = { page, page_size }, remote = { w->addr, page_size };
		unsigned int tag = 6000000u + method * 1000u + victim * 100u + i;
		ssize_t ret = page_size;

		page_fill(page, tag);
		if (method == POKE)
			poke_page(pid, w->addr, page);
		else if (method == MEM)
			ret = pwrite(fd, page, page_size, (off_t)(uintptr_t)w->addr);
		else
			ret = process_vm_writev(pid, &local, 1, &remote, 1, 0);
		if (method == WRITEV && w->acc == READ) {
			must(ret < 0 && errno == EFAULT, "read-only memory was written");
			continue;
		}
		must(ret == (ssize_t)page_size, "spot %d cannot be written: %s", i,
		     strerror(errno));
		w->tag = tag;
		for (int p = 0; w->shared && p < MAX_MODELS; p++)
			if (board->model[p].n)
				board->model[p].want[i].tag = tag;
	}
	if (method == POKE)
		must_call(ptrace(PTRACE_DETACH, pid, 0, 0));
	if (fd >= 0)
		close(fd);
	munmap(page, page_size);
	return 0;
}

static void test_write_into(long arg)
{
	static const struct {
		int writer, victim;
	} pairs[] = {
		{ 0, 1 },		/* the parent into a child */
		{ 1, 0 },		/* a child into the parent */
		{ 1, 2 },		/* a child into its sibling */
		{ 2, 2 },		/* a process into itself */
	};
	long method = ARG_ARG(arg);

	if (method == WRITEV && process_vm_writev(getpid(), NULL, 0, NULL, 0, 0))
		skip("process_vm_writev: %s", strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		if (method == POKE && pairs[i].writer == pairs[i].victim)
			continue;
		start_models(ARG_KIND(arg), 3);
		ask(pairs[i].writer, write_into, pairs[i].victim, method);
		model_check_all(4);
		model_scribble_all(4);
		model_check_all(4);
		for (int p = 1; p <= 3; p++)
			quit(p);
		/* free the disk: with large pages the next area's file does not fit */
		if (area.kind == SHARED_DISK) {
			area_unmap(&area);
			close(area.part[0].fd);
		}
	}
}

/* read every spot of a process from outside */
static long read_from(long victim, long method)
{
	struct model *m = &board->model[victim];
	pid_t pid = pid_of(victim);
	char *page = page_alloc();
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	for (int i = 0; i < m->n; i++) {
		struct iovec local = { page, page_size };
		struct iovec remote = { m->want[i].addr, page_size };
		ssize_t ret;

		if (method == MEM)
			ret = pread(fd, page, page_size, (off_t)(uintptr_t)m->want[i].addr);
		else
			ret = process_vm_readv(pid, &local, 1, &remote, 1, 0);
		must(ret == (ssize_t)page_size, "spot %d cannot be read: %s", i, strerror(errno));
		sees(page_is(page, m->want[i].tag), "spot %d of process %ld reads differently",
		     i, victim);
	}
	close(fd);
	munmap(page, page_size);
	return 0;
}

static void test_read_from(long arg)
{
	if (process_vm_readv(getpid(), NULL, 0, NULL, 0, 0))
		skip("process_vm_readv: %s", strerror(errno));
	start_models(ARG_KIND(arg), 3);
	for (int round = 0; round < 2; round++) {
		for (int victim = 0; victim <= 3; victim++) {
			read_from(victim, WRITEV);
			ask(1, read_from, victim, MEM);
			ask(2, read_from, victim, WRITEV);
		}
		model_scribble_all(4);
		model_check_all(4);
	}
}

/* program text, or what lies beside it: private, read-only, from a file */
static const char program_text[4 * 65536] = { 1, 2, 3 };

static long program_byte(long addr, long b)
{
	return touch((char *)addr);
}

/* write to one child's program text as a debugger does */
static void test_poke_text(long arg)
{
	char *target = (char *)(((uintptr_t)program_text + 2 * page_size) & -page_size);
	pid_t pid;

	touch(program_text);
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	pid = pid_of(2);
	seize(pid);
	must_call(ptrace(PTRACE_POKETEXT, pid, target, 0x77777777L));
	must_call(ptrace(PTRACE_DETACH, pid, 0, 0));
	sees(ask(2, program_byte, (long)target, 0) == 0x77, "the child's text did not change");
	for (int i = 0; i <= 3; i++) {
		sees(ask(i, program_byte, (long)program_text, 0) == 1,
		     "process %d reads another text", i);
		if (i != 2)
			sees(!ask(i, program_byte, (long)target, 0),
			     "process %d has what was poked", i);
	}
}

/* --- pages lent to a pipe ------------------------------------------------- */

static int pipe_fds[2];
static char *lent;

static long lend(long a, long b)
{
	struct iovec iov = { lent, page_size };
	ssize_t ret = vmsplice(pipe_fds[1], &iov, 1, 0);

	must(ret == (ssize_t)page_size, "vmsplice: %s", strerror(errno));
	return 0;
}

/* how the lender leaves the table afterwards */
enum parting { STAY, UNMAP_PAGE, UNMAP_ALL, DONTNEED, WRITE_NEXT, EXIT, NR_PARTINGS };

static long part(long how, long b)
{
	switch (how) {
	case UNMAP_PAGE:
		must_call(munmap(lent, page_size));
		break;
	case UNMAP_ALL:
		area_unmap(&area);
		break;
	case DONTNEED:
		must_call(madvise(area.base, table_size, MADV_DONTNEED));
		break;
	case WRITE_NEXT:
		page_fill(lent + page_size, 31);
		break;
	}
	return 0;
}

static long overwrite(long tag, long b)
{
	page_fill(lent, tag);
	return 0;
}

static void pipe_holds(unsigned int tag)
{
	char *page = page_alloc();
	size_t got = 0;

	while (got < page_size) {
		ssize_t n = read(pipe_fds[0], page + got, page_size - got);

		must(n > 0, "the pipe is short");
		got += n;
	}
	sees(page_is(page, tag), "the page lent to the pipe has changed");
	munmap(page, page_size);
}

/*
 * CVE-2020-29374: the lender holds a page by the pipe alone, another process
 * becomes the only one to map it, writes, and the lender reads the secret.
 */
static void test_vmsplice(long arg)
{
	static const int lenders[] = { 1, 0, 2 }, writers[] = { 0, 1, 1 };
	enum kind kind = ARG_KIND(arg);

	for (size_t pair = 0; pair < ARRAY_SIZE(lenders); pair++)
		for (int how = 0; how < NR_PARTINGS; how++) {
			int lender = lenders[pair], writer = writers[pair];

			if (how == EXIT && lender == SELF)
				continue;
			if (quick && pair == 2 && how != UNMAP_ALL)
				continue;
			area_make(&area, kind);
			/* the first spot is written: a page of the zygote's own */
			lent = area.spot[0].addr;
			must_call(pipe2(pipe_fds, O_CLOEXEC));
			become_zygote();
			spawn(1);
			spawn(2);
			ask(lender, lend, 0, 0);
			if (how == EXIT)
				quit(lender);
			else
				ask(lender, part, how, 0);
			/*
			 * the third process exits, so that the writer may be the
			 * last user
			 */
			if (lender != 1 && writer != 1)
				quit(1);
			if (lender != 2)
				quit(2);
			if (lender && writer)
				area_unmap(&area);
			ask(writer, overwrite, 0x5ec4e7, 0);
			pipe_holds(area.spot[0].tag);
			if (lender != 1 || how != EXIT)
				quit(1);
			if (lender == 2 && how != EXIT)
				quit(2);
			close(pipe_fds[0]);
			close(pipe_fds[1]);
			if (!(lender && writer) && !(lender == SELF && how == UNMAP_ALL))
				area_unmap(&area);
		}
}

static void test_vmsplice_before_fork(long arg)
{
	for (int way = 0; way < 2; way++) {
		area_make(&area, ARG_KIND(arg));
		lent = area.spot[0].addr;
		must_call(pipe2(pipe_fds, O_CLOEXEC));
		lend(0, 0);
		become_zygote();
		spawn(1);
		if (way)
			area_unmap(&area);
		ask(1, overwrite, 0x5ec4e7, 0);
		if (!way)
			spots_intact((long)&area, 0);
		pipe_holds(area.spot[0].tag);
		quit(1);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
	}
}

/* --- direct I/O ----------------------------------------------------------- */

static int direct_fd = -1;

/* the device writes into our pages */
static long direct_read(long who, long b)
{
	struct model *m = &board->model[who];

	for (int i = 0; i < m->n; i++) {
		struct want *w = &m->want[i];
		ssize_t ret;

		if (w->acc != WRITE || w->shared)
			continue;
		ret = pread(direct_fd, w->addr, page_size, i % 64 * page_size);
		if (ret < 0 && errno == EINVAL)
			skip("no direct I/O here");
		must(ret == (ssize_t)page_size, "direct read: %s", strerror(errno));
		w->tag = FILE_TAG(i % 64);
	}
	return 0;
}

/* the device reads our pages while others write theirs */
static long direct_write(long who, long b)
{
	struct model *m = &board->model[who];
	char *page = page_alloc();

	for (int i = 0; i < m->n; i++) {
		off_t off = (who * MAX_SPOTS + i) * page_size;

		must(pwrite(direct_fd, m->want[i].addr, page_size, off) == (ssize_t)page_size,
		     "direct write: %s", strerror(errno));
		must(pread(direct_fd, page, page_size, off) == (ssize_t)page_size,
		     "direct read: %s", strerror(errno));
		sees(page_is(page, m->want[i].tag), "the disk has not what memory has");
	}
	munmap(page, page_size);
	return 0;
}

static void test_direct_read(long arg)
{
	direct_fd = open_direct(make_file("disk", 64), O_RDWR);
	start_models(ARG_KIND(arg), 2);
	for (int i = 0; i <= 2; i++) {
		int who = (i + 1) % 3;

		ask(who, direct_read, who, 0);
		model_check_all(3);
	}
	model_scribble_all(3);
	model_check_all(3);
}

static void test_direct_write(long arg)
{
	direct_fd = open_direct(make_file("disk", 64), O_RDWR);
	start_models(ARG_KIND(arg), 2);
	for (int i = 0; i <= 2; i++)
		ask(i, direct_write, i, 0);
	model_scribble_all(3);
	for (int i = 2; i >= 0; i--)
		ask(i, direct_write, i, 0);
	model_check_all(3);
}

/* --- io_uring: buffers that stay pinned ----------------------------------- */

static struct {
	int fd;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring;

static void *ring_map(size_t len, off_t off)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, off);

	must(p != MAP_FAILED, "mmap of the ring: %s", strerror(errno));
	return p;
}

static void ring_open(void)
{
	struct io_uring_params p = { };
	char *sq, *cq;

	ring.fd = syscall(__NR_io_uring_setup, 4, &p);
	if (ring.fd < 0)
		skip("io_uring: %s", strerror(errno));
	sq = ring_map(p.sq_off.array + p.sq_entries * sizeof(unsigned int), IORING_OFF_SQ_RING);
	cq = ring_map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe),
		      IORING_OFF_CQ_RING);
	ring.sqes = ring_map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	ring.sq_mask = (unsigned int *)(sq + p.sq_off.ring_mask);
	ring.sq_array = (unsigned int *)(sq + p.sq_off.array);
	ring.cq_head = (unsigned int *)(cq + p.cq_off.head);
	ring.cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	ring.cq_mask = (unsigned int *)(cq + p.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
}

static long pin(long a, long b)
{
	struct iovec iov = { lent, page_size };

	ring_open();
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &iov, 1))
		skip("io_uring cannot register buffers: %s", strerror(errno));
	return 0;
}

/* move the pinned page to or from the file behind fd */
static void pinned_io(int op, int fd)
{
	unsigned int tail = *ring.sq_tail, index = tail & *ring.sq_mask, head;
	struct io_uring_sqe *sqe = &ring.sqes[index];
	int ret;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = op;
	sqe->fd = fd;
	sqe->addr = (uintptr_t)lent;
	sqe->len = page_size;
	ring.sq_array[index] = index;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	must(syscall(__NR_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	     "io_uring_enter: %s", strerror(errno));
	head = *ring.cq_head;
	must(head != __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE), "nothing completed");
	ret = ring.cqes[head & *ring.cq_mask].res;
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	must(ret == (int)page_size, "fixed buffer I/O: %s", strerror(-ret));
}

/* does the device read this tag from the pinned page? */
static long pinned_is(long tag, long b)
{
	char *page = page_alloc();
	int fd = memfd_create("pinned", MFD_CLOEXEC);
	bool same;

	pinned_io(IORING_OP_WRITE_FIXED, fd);
	must(pread(fd, page, page_size, 0) == (ssize_t)page_size, "read: %s", strerror(errno));
	same = page_is(page, tag);
	close(fd);
	munmap(page, page_size);
	return same;
}

/* the device writes the pinned page */
static long pinned_fill(long tag, long b)
{
	char *page = page_alloc();
	int fd = memfd_create("pinned", MFD_CLOEXEC);

	page_fill(page, tag);
	must(pwrite(fd, page, page_size, 0) == (ssize_t)page_size, "write: %s", strerror(errno));
	pinned_io(IORING_OP_READ_FIXED, fd);
	close(fd);
	munmap(page, page_size);
	return 0;
}

static long lent_is(long tag, long b)
{
	return page_is(lent, tag);
}

/*
 * Vary who pins, when, and who writes in between. The device and the pinner must
 * see one page, and no other process may see it.
 */
static void test_pin(long arg)
{
	bool before_fork = ARG_ARG(arg) & 1, child_pins = ARG_ARG(arg) & 2;
	bool other_first = ARG_ARG(arg) & 4;
	int pinner = child_pins ? 1 : 0, other = !pinner;
	unsigned int old;

	area_make(&area, ARG_KIND(arg));
	lent = area.spot[0].addr;
	old = area.spot[0].tag;
	if (before_fork)
		pin(0, 0);
	become_zygote();
	spawn(1);
	spawn(2);
	if (!before_fork)
		ask(pinner, pin, 0, 0);
	sees(ask(pinner, pinned_is, old, 0), "the device reads another page");
	if (other_first) {
		ask(other, overwrite, 1, 0);
		sees(ask(pinner, lent_is, old, 0), "the pinner sees another's write");
		sees(ask(pinner, pinned_is, old, 0), "the device sees another's write");
	}
	ask(pinner, overwrite, 2, 0);
	sees(ask(pinner, pinned_is, 2, 0), "the pinner's write missed the pinned page");
	ask(pinner, pinned_fill, 3, 0);
	sees(ask(pinner, lent_is, 3, 0), "the device's write missed the pinner");
	sees(ask(other, lent_is, other_first ? 1 : old, 0), "another sees the device's write");
	sees(ask(2, lent_is, old, 0), "a sibling sees the device's write");
	if (!other_first)
		ask(other, overwrite, 4, 0);
	ask(2, overwrite, 5, 0);
	sees(ask(pinner, lent_is, 3, 0), "the pinner sees another's write");
	sees(ask(pinner, pinned_is, 3, 0), "the device sees another's write");
	/* the pinner forks again: parent and device must stay together */
	spawn_from(pinner, 3);
	ask(pinner, overwrite, 6, 0);
	sees(ask(pinner, pinned_is, 6, 0), "after another fork the pinner lost its page");
	sees(ask(3, lent_is, 3, 0), "the new child sees its parent's write");
	ask(3, overwrite, 7, 0);
	quit(2);
	quit(3);
	sees(ask(pinner, pinned_is, 6, 0), "the device sees another's write");
	sees(ask(pinner, lent_is, 6, 0), "the pinner sees another's write");
}

#define PRIVATE		(KIND(ANON) | KIND(PRIV_FILE) | KIND(HEAP))
#define QUICK_PRIVATE	(KIND(ANON) | KIND(PRIV_FILE))
#define MOST		(PRIVATE | KIND(PRIV_FILE_RO) | KIND(SHARED_ANON) | KIND(SHARED_DISK) | \
			 KIND(MIXED))

#define PIN(text, arg)	\
	{ text, test_pin, arg, PRIVATE, QUICK_PRIVATE, INVARIANT(2) | INVARIANT(9) }

static const struct test_case cases[] = {
	{ "Who sees what ptrace writes?", test_write_into, POKE, MOST, .guards = INVARIANT(2) },
	{ "Who sees what process_vm_writev writes?", test_write_into, WRITEV, MOST,
	  .guards = INVARIANT(2) },
	{ "Who sees what is written to /proc/PID/mem?", test_write_into, MEM, MOST,
	  .guards = INVARIANT(2) },
	{ "Do process_vm_readv and /proc/PID/mem read what the process sees?", test_read_from, 0,
	  MOST, .guards = INVARIANT(2) },
	{ "Who sees a breakpoint poked into one child's text?", test_poke_text,
	  .guards = INVARIANT(2) },
	{ "Does a page lent to a pipe keep its content? (CVE-2020-29374)", test_vmsplice, 0,
	  PRIVATE, QUICK_PRIVATE, .guards = INVARIANT(2) },
	{ "Does a page lent before the fork keep its content?", test_vmsplice_before_fork, 0,
	  PRIVATE, QUICK_PRIVATE, .guards = INVARIANT(2) },
	{ "Who sees what direct I/O reads from disk?", test_direct_read, 0,
	  PRIVATE | KIND(MIXED), .guards = INVARIANT(2) | INVARIANT(9) },
	{ "Does direct I/O write what the process sees?", test_direct_write, 0, MOST,
	  .guards = INVARIANT(2) | INVARIANT(9) },
	PIN("Parent pins, forks, writes", 1),
	PIN("Parent pins, forks, child writes first", 1 | 4),
	PIN("Parent pins after fork and writes", 0),
	PIN("Parent pins after fork, child writes first", 4),
	PIN("Child pins after fork and writes", 2),
	PIN("Child pins after fork, parent writes first", 2 | 4),
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
