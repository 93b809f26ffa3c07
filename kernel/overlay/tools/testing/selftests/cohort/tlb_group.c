// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared TLB entries: a zygote and its children use the same ones for the code that the
 * zygote has mapped before its first child, and nobody else uses them. On ARM.
 */
#include "common.h"

#include "lib/uffd.h"

#include <sched.h>
#include <sys/ptrace.h>

/* the kernel's mm/gup_test.h */
#define GUP_TEST	"/sys/kernel/debug/gup_test"
#define PIN_LONGTERM_TEST_START	_IOW('g', 7, struct pin_longterm_test)

struct pin_longterm_test {
	__u64 addr;
	__u64 size;
	__u32 flags;
};

#define STARTED		"COHORT_SELFTEST_TLB_GROUP"
#define LEADER		"--leader"
#define OUTSIDER	"--outsider"

#define CODE_PAGES	8
/* behind it: pages that are no code any more, and data; the first has been code */
#define HOLE_PAGES	2
#define DATA_PAGES	1
#define FILE_PAGES	(CODE_PAGES + HOLE_PAGES + DATA_PAGES)
#define CODE_TAG	3u
#define OWN_TAG		1000u
/* away from what the kernel places: other programs of the test map it too */
#define CODE_AT		((char *)0x60000000)
#define ROUNDS		3
/* code of the group, too, in a table that the leader does not have */
#define LATE_AT		((char *)0x60800000)
#define LATE_TAG	7u
/* and such as a probe can be in */
#define PROBED_AT	((char *)0x61000000)

static char *code;
static int late_file = -1;
static long (*probed_code)(long a, long b);

static bool member(int who)
{
	return proc_field(pid_of(who), "cohort", "TlbGroup") == 1;
}

static long read_code(long page, long tag)
{
	return page_is(code + page * page_size, tag + page);
}

/* who sees the group's code in each page but that one */
static void sees_code(int who, long but)
{
	for (long page = 0; page < CODE_PAGES; page++)
		if (page != but)
			sees(ask(who, read_code, page, CODE_TAG),
			     "process %d does not see page %ld of the code", who, page);
}

/* map the code as a loader maps a library: all of it, then what differs; pages have tags */
static int map_code(unsigned int tag)
{
	int fd = memfd_create("code", 0);
	char *page, *data;

	page = aligned_alloc(page_size, page_size);
	if (fd < 0 || !page)
		return -1;
	for (long i = 0; i < FILE_PAGES; i++) {
		page_fill(page, tag + i);
		if (pwrite(fd, page, page_size, i * page_size) != (ssize_t)page_size)
			return -1;
	}
	free(page);
	code = mmap(CODE_AT, FILE_PAGES * page_size, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0);
	if (code != CODE_AT || !page_is(code + CODE_PAGES * page_size, tag + CODE_PAGES) ||
	    mprotect(code + CODE_PAGES * page_size, HOLE_PAGES * page_size, PROT_NONE))
		return -1;
	data = code + (CODE_PAGES + HOLE_PAGES) * page_size;
	data = mmap(data, DATA_PAGES * page_size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED, fd, (CODE_PAGES + HOLE_PAGES) * page_size);
	close(fd);
	return data == MAP_FAILED ? -1 : 0;
}

/* the leader does not read it */
static int map_late(void)
{
	late_file = memfd_create("late", 0);
	if (late_file < 0 || ftruncate(late_file, page_size))
		return -1;
	return mmap(LATE_AT, page_size, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED_NOREPLACE, late_file, 0) == LATE_AT ? 0 : -1;
}

/* the program's own code once more, where the group's lies */
static int map_probed(void)
{
	long offset = probed_offset(), in_page = offset % page_size;
	int fd = open("/proc/self/exe", O_RDONLY);
	char *at;

	if (fd < 0 || offset < 0)
		return -1;
	at = mmap(PROBED_AT, 2 * page_size, PROT_READ | PROT_EXEC,
		  MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, offset - in_page);
	close(fd);
	probed_code = (void *)(at + in_page);
	return at == PROBED_AT ? 0 : -1;
}

static void need_group(void)
{
	if (proc_field(0, "cohort", "TlbGroup") < 0)
		skip("this kernel shares no TLB entries");
	must(proc_field(0, "cohort", "TlbGroup") == 1, "this process is no member");
	must(code, "the code is not mapped");
}

/* children, too, run on one processor, whose TLB has what all of them have left */
static void share_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	must_call(sched_setaffinity(0, sizeof(set), &set));
}

static void start(int peers)
{
	need_group();
	need_peers(peers);
	for (int i = 1; i <= peers; i++) {
		spawn(i);
		must(member(i), "child %d is no member", i);
	}
	for (int i = 0; i <= peers; i++)
		sees_code(i, -1);
}

static void test_children(long arg)
{
	start(3);
	spawn_from(2, 4);
	must(member(4), "a grandchild is no member");
	sees_code(4, -1);
	quit(2);
	must(member(4), "its parent's end makes a grandchild leave");
	sees_code(4, -1);
}

/* Ways to differ from the others in page 1 of the code. */
enum { UNMAP, OVER, OVER_FILE, WRITABLE, NO_ACCESS, MOVE, POKE, PIN, WATCH };

/* a device may read a page for long: it gets one that is this process's alone */
static long pin(char *page)
{
	struct pin_longterm_test what = { .addr = (uintptr_t)page, .size = page_size };
	int fd = open(GUP_TEST, O_RDWR);

	if (fd < 0)
		return -errno;
	return ioctl(fd, PIN_LONGTERM_TEST_START, &what) ? -errno : 0;
}

/* a program provides what is missing */
static long watch(char *page)
{
	struct uffdio_register what = {
		.range = { (uintptr_t)page, page_size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return -errno;
	return ioctl(fd, UFFDIO_REGISTER, &what) ? -errno : 0;
}

static long differ(long way, long unused)
{
	char *page = code + page_size;
	void *to = mmap(NULL, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd;

	switch (way) {
	case UNMAP:
		return munmap(page, page_size);
	case OVER:
		if (mmap(page, page_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
			return -errno;
		page_fill(page, OWN_TAG);
		return 0;
	case OVER_FILE:
		fd = make_file("tmpfs", 1);
		if (mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 fd, 0) != page)
			return -errno;
		close(fd);
		page_fill(page, OWN_TAG);
		return mprotect(page, page_size, PROT_READ | PROT_EXEC) ? -errno : 0;
	case WRITABLE:
		if (mprotect(page, page_size, PROT_READ | PROT_WRITE | PROT_EXEC))
			return -errno;
		page_fill(page, OWN_TAG);
		return 0;
	case NO_ACCESS:
		return mprotect(page, page_size, PROT_NONE) ? -errno : 0;
	case MOVE:
		return mremap(page, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED,
			      to) == to ? 0 : -errno;
	case PIN:
		return pin(page);
	case WATCH:
		return watch(page);
	}
	return 0;
}

static long reads(long page, long unused)
{
	return probe_read(code + page * page_size);
}

static void poke(int who)
{
	char *text = aligned_alloc(page_size, page_size);
	pid_t pid = pid_of(who);
	int status;

	page_fill(text, OWN_TAG);
	must_call(ptrace(PTRACE_SEIZE, pid, 0, 0));
	must_call(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
	must(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status),
	     "the traced process does not hold still");
	for (size_t i = 0; i < page_size; i += sizeof(long))
		must_call(ptrace(PTRACE_POKEDATA, pid, code + page_size + i,
				 *(long *)(text + i)));
	must_call(ptrace(PTRACE_DETACH, pid, 0, 0));
	free(text);
}

static void test_differ(long way)
{
	long err;

	if (way == PIN && access(GUP_TEST, F_OK))
		skip("this kernel has no gup_test");
	start(3);
	if (way == POKE) {
		poke(1);
	} else {
		err = ask(1, differ, way, 0);
		must(!err, "the change: %s", strerror(-err));
	}
	must(!member(1), "who differs is still a member");
	if (way == UNMAP || way == NO_ACCESS || way == MOVE)
		sees(ask(1, reads, 1, 0) == SIGSEGV, "it still reads the page");
	else if (way == PIN || way == WATCH)
		sees(ask(1, read_code, 1, CODE_TAG), "it does not see the page any more");
	else
		sees(ask(1, read_code, 1, OWN_TAG - 1), "it does not see its own page");
	sees_code(1, 1);
	for (int i = 0; i <= 3; i++) {
		if (i == 1)
			continue;
		must(member(i), "process %d has left too", i);
		sees_code(i, -1);
	}
	/* its children are none, and see what it has */
	spawn_from(1, 4);
	must(!member(4), "its child is a member");
	sees_code(4, 1);
	/* nor does what its siblings' children see change */
	spawn_from(2, 5);
	must(member(5), "a sibling's child is no member");
	sees_code(5, -1);
	quit(1);
	sees_code(2, -1);
}

/* Its own breakpoint is in no other member's code. */
static void test_uprobe(long arg)
{
	unsigned char original;
	int fd;

	need_uprobes();
	need_group();
	original = memory_byte(getpid(), probed_code);
	start(3);
	fd = count_calls(pid_of(1), -1);
	sees(memory_byte(pid_of(1), probed_code) != original, "the probe is not there");
	must(!member(1), "who has a breakpoint in its code is still a member");
	for (int i = 0; i <= 3; i++) {
		must(member(i) || i == 1, "process %d has left too", i);
		sees(memory_byte(pid_of(i), probed_code) == original || i == 1,
		     "a probe of process 1 is in process %d", i);
		must(ask(i, probed_code, i, 1) == i + 1, "the probe breaks process %d", i);
	}
	must(hits(fd) == 1, "%ld calls are counted, not 1", hits(fd));
	close(fd);
	for (int i = 0; i <= 3; i++)
		must(ask(i, probed_code, i, 2) == i + 2, "the probe breaks process %d", i);
}

static long grow(long unused, long unused2)
{
	if (munmap(code + CODE_PAGES * page_size, HOLE_PAGES * page_size))
		return -errno;
	return mremap(code, CODE_PAGES * page_size, (CODE_PAGES + 1) * page_size, 0) == code ?
	       0 : -errno;
}

/* What a member's code grows by, its siblings do not have there. */
static void test_grow(long arg)
{
	long err;

	start(2);
	err = ask(1, grow, 0, 0);
	must(!err, "mremap: %s", strerror(-err));
	must(!member(1), "who has more code is still a member");
	must(member(2), "a sibling has left");
	sees(ask(1, read_code, CODE_PAGES, CODE_TAG), "it does not see the page more");
	sees(ask(2, reads, CODE_PAGES, 0) == SIGSEGV, "its sibling sees it too");
	sees_code(1, -1);
	sees_code(2, -1);
}

static long fill(long page, long tag)
{
	char *at = code + page * page_size;

	if (mprotect(at, page_size, PROT_READ | PROT_WRITE))
		return -errno;
	page_fill(at, tag);
	return 0;
}

/* What the leader's loader made data is each member's own. */
static void test_relocated(long arg)
{
	long err;

	start(2);
	err = ask(1, fill, CODE_PAGES, OWN_TAG);
	must(!err, "mprotect: %s", strerror(-err));
	must(member(1) && member(2), "who writes to data leaves");
	err = ask(2, fill, CODE_PAGES, OWN_TAG + 1);
	must(!err, "mprotect: %s", strerror(-err));
	for (int i = 0; i < 20; i++) {
		sees(ask(1, read_code, CODE_PAGES, OWN_TAG - CODE_PAGES),
		     "process 1 does not see what it wrote");
		sees(ask(2, read_code, CODE_PAGES, OWN_TAG + 1 - CODE_PAGES),
		     "process 2 does not see what it wrote");
	}
}

static long not_for_children(long unused, long unused2)
{
	return madvise(code, CODE_PAGES * page_size, MADV_DONTFORK) ? -errno : 0;
}

/* A child that lacks the code does not find it in a TLB, and may have its own page there. */
static void test_dontfork(long arg)
{
	long err;

	start(2);
	err = ask(1, not_for_children, 0, 0);
	must(!err, "madvise: %s", strerror(-err));
	spawn_from(1, 3);
	must(!member(3), "a child without the code is a member");
	sees(ask(3, reads, 0, 0) == SIGSEGV, "it reads the code");
	must(!ask(3, differ, OVER, 0), "mmap: %s", strerror(errno));
	sees(ask(3, read_code, 1, OWN_TAG - 1), "it does not see its own page");
	sees_code(2, -1);
}

/* The program maps nothing else below 2 MB: see the Makefile. */
static long use_first(long unused, long unused2)
{
	char *p = mmap((void *)(1ul << 20), page_size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	if (probe_write(p))
		return -EFAULT;
	return munmap(p, page_size) ? -errno : 0;
}

/* munmap() never frees the first table, so a process that leaves the group still has it. */
static void test_first(long arg)
{
	long err;

	start(2);
	err = ask(1, use_first, 0, 0);
	must(!err, "a member cannot use the first table: %s", strerror(-err));
	err = ask(1, differ, UNMAP, 0);
	must(!err && !member(1), "it is a member still: %s", strerror(-err));
	err = ask(1, use_first, 0, 0);
	must(!err, "who has left cannot use the first table: %s", strerror(-err));
}

static void test_other(long arg)
{
	start(2);
	/* no code of the group: data of its own, beside it */
	must(ask(1, set_flags, 0, 0) == 0, "prctl: %s", strerror(errno));
	must(member(1), "a prctl makes it leave");
	must(member(2), "a sibling has left");
}

static long become(long uid, long unused)
{
	return setresuid(uid, uid, uid) ? -errno : 0;
}

static long lead_again(long unused, long unused2)
{
	return prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE | PR_COHORT_KEEP_EXEC | PR_COHORT_TLB,
		     0, 0, 0) ? -errno : 0;
}

static long lead_alone(long unused, long unused2)
{
	return prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE | PR_COHORT_TLB, 0, 0, 0) ? -errno : 0;
}

static void test_user(long arg)
{
	start(2);
	must(!ask(1, become, 65534, 0), "setresuid: %s", strerror(errno));
	must(!member(1), "another user is a member");
	must(member(2), "a sibling has left");
	sees_code(1, -1);
	must(ask(1, lead_again, 0, 0) == -EPERM, "without a privilege it may ask for a group");
	must(ask(2, lead_again, 0, 0) == -EBUSY, "a member may ask for another group");
	must(ask(2, lead_alone, 0, 0) == -EINVAL, "a group without an exec");
}

/* Run this program once more, outside the group or to lead one. Returns its status. */
static int run_self(char *what, char *arg)
{
	char *const argv[] = { "tlb_group", what, arg, NULL };
	pid_t pid = fork();
	int status;

	if (!pid) {
		execv("/proc/self/exe", argv);
		_exit(126);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 125;
	return WEXITSTATUS(status);
}

/* false with the paper's scheme */
static bool keeps_away(void)
{
	char text[4096];

	return read_text("/proc/cmdline", text, sizeof(text)) < 0 ||
	       !strstr(text, "cohort_tlb_window=");
}

/* A program outside the group: has its own page where the code is, and other memory not. */
static int outsider(void)
{
	catch_faults();
	if (proc_field(0, "cohort", "TlbGroup") != 0)
		return 1;
	/* a hint is only that, and the kernel's own choice comes along there, too */
	if (keeps_away() && mmap(CODE_AT, page_size, PROT_READ,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == CODE_AT)
		return 6;
	for (int i = 0; keeps_away() && i < 450; i++) {
		char *at = mmap(NULL, 4 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			break;
		if (at < CODE_AT + CODE_PAGES * page_size && at + (4 << 20) > CODE_AT)
			return 2;
	}
	if (mmap(CODE_AT, page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != CODE_AT)
		return 3;
	page_fill(CODE_AT, OWN_TAG);
	for (int i = 0; i < 50; i++) {
		if (!page_is(CODE_AT, OWN_TAG))
			return 4;
		usleep(1000);
	}
	if (probe_read(CODE_AT + page_size) != SIGSEGV)
		return 5;
	return 0;
}

/* in turns with a program that runs on the same processor */
static long read_on(long rounds, long unused)
{
	for (long i = 0; i < rounds; i++) {
		for (long page = 0; page < CODE_PAGES; page++)
			if (!read_code(page, CODE_TAG))
				return 0;
		usleep(500);
	}
	return 1;
}

static void test_outsider(long arg)
{
	int ret;

	share_processor();
	start(2);
	tell(1, read_on, 200, 0);
	ret = run_self(OUTSIDER, NULL);
	sees(answer(1) == 1, "process 1 does not see the code");
	sees(ret != 4 && ret != 5, "a program outside the group sees its pages");
	must(ret == 0, "a program outside the group: %d", ret);
	sees_code(2, -1);
	ret = run_self(LEADER, "0");
	must(!ret, "a program outside may lead a second group");
}

static void test_storm(long arg)
{
	int n = quick ? 40 : 200;

	start(1);
	for (int i = 0; i < n; i++) {
		spawn(2);
		sees_code(2, -1);
		if (i % 3)
			quit(2);
		else
			kill_peer(2);
		sees_code(1, -1);
	}
}

/* tables come and go while a thread maps and unmaps memory */
static void *churn(void *unused)
{
	long len = 4 << 20;

	while (!stopping()) {
		char *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at == MAP_FAILED)
			continue;
		at[0] = 1;
		at[len - page_size] = 1;
		munmap(at, len);
	}
	return NULL;
}

/* and pages of the code while another drops them */
static void *drop(void *unused)
{
	while (!stopping()) {
		madvise(code + 2 * page_size, 2 * page_size, MADV_DONTNEED);
		usleep(100);
	}
	return NULL;
}

static long differ_beside(long way, long unused)
{
	long err;

	start_thread(churn, NULL);
	start_thread(churn, NULL);
	start_thread(drop, NULL);
	usleep(2000);
	err = differ(way, 0);
	stop_and_join();
	return err;
}

/* Who leaves has threads that free tables and fault meanwhile. */
static void test_beside(long arg)
{
	int n = quick ? 12 : 60;

	start(1);
	for (int i = 0; i < n; i++) {
		int way = i % POKE;
		long err;

		spawn(2);
		err = ask(2, differ_beside, way, 0);
		must(!err, "the change: %s", strerror(-err));
		must(!member(2), "who differs is still a member");
		sees_code(2, 1);
		if (way == OVER || way == WRITABLE)
			sees(ask(2, read_code, 1, OWN_TAG - 1), "it does not see its own page");
		quit(2);
		must(member(1), "a sibling has left");
		sees_code(1, -1);
	}
}

enum { DONE, DONE_INJECTED, FAILED };

static long unmap_failing(long nth, long unused)
{
	bool injected;
	long err;

	arm(nth);
	err = munmap(code + page_size, page_size);
	injected = disarm();
	if (err)
		return injected ? FAILED : -errno;
	return injected ? DONE_INJECTED : DONE;
}

/* Who cannot leave for want of memory has all its code, as before, and leaves the next time. */
static void test_leave_fails(long arg)
{
	long got = FAILED, failed = 0;

	need_injection();
	start(1);
	for (long nth = 1; got != DONE && nth < 500; nth++) {
		spawn(2);
		got = ask(2, unmap_failing, nth, 0);
		must(got >= 0, "munmap: %s", strerror(-got));
		if (got == FAILED) {
			failed++;
			sees_code(2, -1);
			must(!ask(2, differ, UNMAP, 0), "munmap fails for ever");
		}
		must(!member(2), "who differs is still a member");
		sees(ask(2, reads, 1, 0) == SIGSEGV, "it still reads the page");
		sees_code(2, 1);
		quit(2);
		must(member(1), "a sibling has left");
		sees_code(1, -1);
	}
	must(got == DONE, "munmap takes more than 500 allocations");
	must(failed, "no allocation of munmap failed");
}

static long read_late(long unused, long unused2)
{
	return page_is(LATE_AT, LATE_TAG);
}

static long reads_late(long unused, long unused2)
{
	return probe_read(LATE_AT);
}

/* without a call of the kernel: longer than an audit waits for tasks that never return */
static long run_on(long million, long unused)
{
	for (long i = million * 1000000; i; i--)
		asm volatile("" : "+r" (i));
	return 0;
}

/* two members on one processor, and a page of code for them that nobody has used */
static void start_late(void)
{
	char *text = aligned_alloc(page_size, page_size);

	share_processor();
	start(2);
	page_fill(text, LATE_TAG);
	must(pwrite(late_file, text, page_size, 0) == (ssize_t)page_size, "no page to share");
	free(text);
	sees(ask(1, read_late, 0, 0), "it does not see the code");
}

/* A page that the file loses is in no TLB, though it is in several tables. */
static void test_truncate(long arg)
{
	start_late();
	sees(ask(2, read_late, 0, 0), "a sibling does not see the code");
	must_call(ftruncate(late_file, 0));
	for (int i = 1; i <= 2; i++)
		sees(ask(i, reads_late, 0, 0) == SIGBUS, "process %d reads a page that is gone", i);
}

/*
 * A member's own table had code that nobody else has used. What a TLB keeps of it goes with
 * the member: the page may be another's soon.
 */
static void test_alone(long arg)
{
	start_late();
	quit(1);
	ask(2, run_on, 60, 0);
	must_call(ftruncate(late_file, 0));
	sees(ask(2, reads_late, 0, 0) == SIGBUS, "a sibling reads a page that is gone");
}

static int rounds_failed;

static void test_rounds(long arg)
{
	need_group();
	must(!rounds_failed, "group %d of %d: its leader's status is %d", rounds_failed >> 8,
	     ROUNDS, rounds_failed & 255);
}

/* A group of its own, whose code has other tags than that before it. */
static int leader(unsigned int round)
{
	unsigned int tag = CODE_TAG + 100 * round;
	int status;

	/* beside a group that there is */
	if (!round)
		return lead_again(0, 0) != -EBUSY;
	if (proc_field(0, "cohort", "TlbGroup") != 1)
		return 2;
	if (map_code(tag))
		return 3;
	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (!pid) {
			for (long page = 0; page < CODE_PAGES; page++)
				if (!read_code(page, tag))
					_exit(4);
			_exit(proc_field(0, "cohort", "TlbGroup") == 1 ? 0 : 5);
		}
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			return 6;
		if (WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	return 0;
}

static const struct test_case cases[] = {
	{ "Children are members and see the code", test_children, .guards = INVARIANT(1) },
	{ "Who unmaps code leaves", test_differ, UNMAP, .guards = INVARIANT(1) },
	{ "Who maps memory over code leaves", test_differ, OVER, .guards = INVARIANT(1) },
	{ "Who maps a file over code leaves", test_differ, OVER_FILE, .guards = INVARIANT(1) },
	{ "Who makes code writable leaves", test_differ, WRITABLE, .guards = INVARIANT(1) },
	{ "Who makes code inaccessible leaves", test_differ, NO_ACCESS,
	  .guards = INVARIANT(1) },
	{ "Who moves code leaves", test_differ, MOVE, .guards = INVARIANT(1) },
	{ "What is code no more is each process's own", test_relocated,
	  .guards = INVARIANT(1) },
	{ "Whose code grows leaves", test_grow, .guards = INVARIANT(1) },
	{ "Whose code a debugger changes leaves", test_differ, POKE, .guards = INVARIANT(1) },
	{ "Whose code is pinned for long leaves", test_differ, PIN, .guards = INVARIANT(1) },
	{ "Whose code a program provides leaves", test_differ, WATCH,
	  .guards = INVARIANT(1) },
	{ "Who gets a uprobe in its code leaves", test_uprobe, .guards = INVARIANT(1) },
	{ "A child without the code does not see it", test_dontfork, .guards = INVARIANT(1) },
	{ "Who leaves can use its first table again", test_first, .guards = STOCK },
	{ "Who changes nothing of the code stays", test_other, .guards = POLICY },
	{ "Who becomes another user leaves", test_user, .guards = PRIVILEGE },
	{ "A program outside sees its own pages, and stays away", test_outsider,
	  .guards = INVARIANT(1) | PRIVILEGE },
	{ "Code that its file loses is gone for all", test_truncate, .guards = INVARIANT(4) },
	{ "Code that one member alone has used goes with it", test_alone,
	  .guards = INVARIANT(4) | INVARIANT(5) },
	{ "Members come and go", test_storm, .guards = INVARIANT(4) | INVARIANT(5) },
	{ "Members leave while their threads free tables", test_beside,
	  .guards = INVARIANT(1) },
	{ "A leave that finds no memory changes nothing", test_leave_fails,
	  .guards = INVARIANT(1) },
	{ "One group after another", test_rounds, .guards = INVARIANT(1) },
};

int main(int argc, char **argv)
{
	char word[16];
	int ret;

	if (argc >= 2 && (!strcmp(argv[1], OUTSIDER) || !strcmp(argv[1], LEADER))) {
		page_size = sysconf(_SC_PAGESIZE);
		return argc == 2 ? outsider() : leader(atoi(argv[2]));
	}
	read_options(argc, argv);
	if (!getenv(STARTED) && !lead_again(0, 0)) {
		for (int i = 1; i <= ROUNDS && !rounds_failed; i++) {
			snprintf(word, sizeof(word), "%d", i);
			ret = run_self(LEADER, word);
			if (ret)
				rounds_failed = i << 8 | ret;
		}
		snprintf(word, sizeof(word), "%d", rounds_failed);
		setenv(STARTED, word, 1);
		execv("/proc/self/exe", argv);
	}
	if (getenv(STARTED)) {
		rounds_failed = atoi(getenv(STARTED));
		/* before the first child */
		if (map_code(CODE_TAG) || map_late() || map_probed())
			code = NULL;
	}
	save_injection();
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	restore_injection();
	return ret;
}
