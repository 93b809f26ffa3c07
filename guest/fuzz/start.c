// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Workers that start by exec: the program is executed again, finds the board by its
 * descriptor, and serves a slot. It has no page of any other worker, and other addresses.
 */
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"

static int board_fd, ballast_fd;

/* Memory without a name, for all who have the descriptor. */
static int make_memory(size_t size)
{
	int fd = memfd_create("fuzz-board", 0);

	if (fd < 0 || ftruncate(fd, size))
		broken("no memory: %s", strerror(errno));
	return fd;
}

static void map_memory(unsigned long at, size_t size, int fd)
{
	int flags = MAP_FIXED_NOREPLACE;

	flags |= fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	if (mmap((void *)at, size, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED)
		broken("no memory: %s", strerror(errno));
}

static void map_board(void)
{
	const unsigned long table = CHUNK * PAGE;

	_Static_assert(sizeof(*board) < CHUNK * PAGE, "the board fills a table");
	map_memory(BOARD_AT, sizeof(*board), board_fd);
	/*
	 * The table must not be joined by those who map the board: what is tested is not
	 * to be what tests, and a join of it is none of the pages that are tested.
	 */
	map_memory(BOARD_AT + table - PAGE, PAGE, -1);
	*(volatile char *)(BOARD_AT + table - PAGE) = 1;
	board = (struct board *)BOARD_AT;
}

void make_board(void)
{
	board_fd = make_memory(sizeof(*board));
	ballast_fd = make_memory(BALLAST);
	map_board();
	board->ballast_fd = ballast_fd;
}

void place_heap(void)
{
	layout.heap = ((unsigned long)sbrk(0) + 3 * CHUNK * PAGE - 1) / (CHUNK * PAGE) *
		      (CHUNK * PAGE);
	/* A page that nobody may touch keeps its region apart from the C library's. */
	if (brk((char *)layout.heap) ||
	    mprotect((char *)layout.heap - PAGE, PAGE, PROT_NONE))
		broken("cannot move the heap's end: %s", strerror(errno));
}

/* Becomes a worker without memory. Returns if that fails. */
static void exec_self(u32 slot, u32 group)
{
	static const char *const names[] = { "", "fuzz-a", "fuzz-b" };
	char where[40];
	char *const argv[] = { "fuzz", "--worker", where, NULL };
	char *const env[] = { NULL };
	bool random = board->slots[slot].layout.base != MAP_BASE;

	/* Linux without groups refuses: then there is none. */
	prctl(PR_SET_COHORT, PR_COHORT_GROUP, names[group % ARRAY_SIZE(names)], 0, 0);
	personality(random ? PER_LINUX : PER_LINUX | ADDR_NO_RANDOMIZE);
	snprintf(where, sizeof(where), "%d,%u", board_fd, slot);
	execve("/proc/self/exe", argv, env);
}

pid_t start_by_exec(u32 slot, u32 shift, u32 group, int flags)
{
	pid_t pid;

	board->slots[slot].layout.base = MAP_BASE + shift * PAGE;
	pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (pid)
		return pid < 0 ? -errno : pid;
	exec_self(slot, group);
	_exit(9);
}

s64 become(u32 shift, u32 group)
{
	my->layout.base = MAP_BASE + shift * PAGE;
	exec_self(me, group);
	my->layout = layout;
	return -errno;
}

void worker_by_exec(const char *where)
{
	struct slot *slot;
	bool resumes;
	u32 number;

	if (sscanf(where, "%d,%u", &board_fd, &number) != 2 || number >= NR_SLOTS)
		broken("--worker is for the fuzzer itself");
	map_board();
	place_heap();
	slot = &board->slots[number];
	layout.base = slot->layout.base;
	slot->layout.heap = layout.heap;
	opt.sabotage = board->sabotage[0] ? board->sabotage : NULL;
	prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0);
	map_memory(layout.base + BALLAST_AT, BALLAST, board->ballast_fd);
	/* After a BECOME; a new process gets its first burst when it is ready. */
	resumes = slot->go != slot->done;
	__atomic_store_n(&slot->ready, 1, __ATOMIC_RELEASE);
	futex_wake(&slot->ready);
	worker(number, resumes);
}
