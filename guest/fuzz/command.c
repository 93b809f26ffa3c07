// SPDX-License-Identifier: GPL-2.0-or-later
/* The commands that a worker executes. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"

static int uffd = -1;
static int pin_fd = -1;

static s64 errno_or(s64 ret)
{
	return ret < 0 ? -errno : ret;
}

/* a: 0 anonymous, 1 shared anonymous, 2+2f private, 3+2f shared of file f;
 * b: first page of the file; c: protection, and bit 8 to populate at once */
static s64 map(const struct cmd *cmd)
{
	int flags = MAP_FIXED, fd = -1;

	if (cmd->c & (1 << 8))
		flags |= MAP_POPULATE;
	flags |= cmd->a & 1 ? MAP_SHARED : MAP_PRIVATE;
	if (cmd->a < 2)
		flags |= MAP_ANONYMOUS | MAP_NORESERVE;
	else
		fd = board->file_fds[(cmd->a - 2) / 2];
	return mmap(page_addr(cmd->page), cmd->n * PAGE, cmd->c & 7, flags, fd,
		    cmd->b * PAGE) == MAP_FAILED ? -errno : 0;
}

/* a: to which page; b: 1 to leave the old range mapped */
static s64 move(const struct cmd *cmd)
{
	void *to = page_addr(cmd->a);
	int err;

	/* Linux 6.17 moves several regions, and leaves the target of a hole as it was. */
	if (board->moves_holes)
		munmap(to, cmd->n * PAGE);
	if (mremap(page_addr(cmd->page), cmd->n * PAGE, cmd->n * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED | (cmd->b ? MREMAP_DONTUNMAP : 0),
		   to) == to)
		return 0;
	err = errno;
	/* It may have unmapped the target first: then let it always be so. */
	munmap(to, cmd->n * PAGE);
	if (!board->moves_holes)
		return -err;
	/* And it may have moved some regions. */
	munmap(page_addr(cmd->page), cmd->n * PAGE);
	return -EXDEV;
}

/* a: the child's slot; all workers are the controller's children */
static s64 do_fork(const struct cmd *cmd)
{
	u32 slot = cmd->a;	/* the board changes once the parent is done */
	pid_t pid;

	board->slots[slot].layout = layout;
	pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
	if (pid)
		return errno_or(pid);
	noise_forked();
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
	if (pin_fd >= 0)
		close(pin_fd);
	pin_fd = -1;
	worker(slot, false);
}

/*
 * Leaves the group that it shares tables with, if it is in one, and is what it was
 * before. a: 0 may not be dumped for a moment, 1 has another user for a moment,
 * 2 moves to the cgroup it began in, 3 and 4 to others, which have labels
 */
static s64 leave(u32 how)
{
	static const char *const cgroups[] = { "", "fuzz-a/", "fuzz-b/" };
	char path[60];

	switch (how) {
	case 0:
		prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
		break;
	case 1:		/* raw: of this thread alone */
		syscall(RAW_SETRESUID, -1, 65534, -1);
		syscall(RAW_SETRESUID, -1, 0, -1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		break;
	default:
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%scgroup.procs",
			 cgroups[(how - 2) % ARRAY_SIZE(cgroups)]);
		return write_file(path, "0");
	}
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return 0;
}

static s64 do_exec(void)
{
	static char *const argv[] = { "/proc/self/exe", "--nothing", NULL };
	int status = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		execve(argv[0], argv, NULL);
		_exit(9);
	}
	if (pid < 0)
		return -errno;
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* Where the process that the command names has the page. */
static void *remote_addr(const struct cmd *cmd)
{
	return layout_addr(&board->slots[cmd->a].layout, cmd->page);
}

/* a: whose memory; b, c: as for a store. Through pins (VM) or as a debugger (MEM). */
static s64 other_memory(const struct cmd *cmd, bool writes)
{
	struct iovec local = { scratch, cmd->n * PAGE };
	struct iovec remote = { remote_addr(cmd), cmd->n * PAGE };
	pid_t pid = board->pids[cmd->a];
	bool mem = cmd->op == OP_MEMREAD || cmd->op == OP_MEMWRITE;
	s64 ret;

	if (writes)
		for (u32 i = 0; i < cmd->n; i++)
			fill_words(scratch + i * PAGE / 8,
				   make_tag(board->slots[cmd->a].id, cmd->b,
					    cmd->page + i));
	if (mem) {
		char path[40];
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/mem", pid);
		fd = open(path, O_RDWR);
		if (fd < 0)
			return -errno;
		ret = writes ? pwrite64(fd, scratch, cmd->n * PAGE,
					(unsigned long)remote.iov_base) :
			       pread64(fd, scratch, cmd->n * PAGE,
				       (unsigned long)remote.iov_base);
		ret = errno_or(ret);
		close(fd);
	} else if (writes) {
		ret = errno_or(process_vm_writev(pid, &local, 1, &remote, 1, 0));
	} else {
		ret = errno_or(process_vm_readv(pid, &local, 1, &remote, 1, 0));
	}
	for (s64 i = 0; !writes && i < ret / (s64)PAGE; i++)
		digest(scratch + i * PAGE / 8, next_page());
	return ret;
}

/* a: the file; page, n: in the file; b: seq */
static s64 file_write(const struct cmd *cmd)
{
	for (u32 i = 0; i < cmd->n; i++)
		fill_words(scratch + i * PAGE / 8,
			   make_tag(ID_FILE, cmd->b, cmd->page + i));
	return errno_or(pwrite64(board->file_fds[cmd->a], scratch, cmd->n * PAGE,
				 cmd->page * PAGE));
}

static s64 refs(u32 how)
{
	char text[2] = { '0' + how, 0 };
	int fd = open("/proc/self/clear_refs", O_WRONLY);
	s64 ret;

	if (fd < 0)
		return -errno;
	ret = errno_or(write(fd, text, 1));
	close(fd);
	return ret < 0 ? ret : 0;
}

/* Readers of page tables; what they say is not checked here. */
static s64 look(u32 page, u32 n)
{
	static const char *const files[] = {
		"/proc/self/smaps_rollup", "/proc/self/numa_maps",
	};
	static unsigned char core[NR_PAGES];
	static char text[4096];
	int fd = open("/proc/self/pagemap", O_RDONLY);

	for (u32 i = 0; i < n; i += 512)
		if (pread64(fd, scratch, (n - i < 512 ? n - i : 512) * 8,
			    (unsigned long)page_addr(page + i) / PAGE * 8) < 0)
			break;
	close(fd);
	mincore(page_addr(page), n * PAGE, core);
	for (u32 i = 0; i < ARRAY_SIZE(files); i++) {
		fd = open(files[i], O_RDONLY);
		while (fd >= 0 && read(fd, text, sizeof(text)) > 0)
			;
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

static s64 uffd_command(const struct cmd *cmd)
{
	struct uffdio_range range = {
		(unsigned long)page_addr(cmd->page), cmd->n * PAGE
	};
	s64 ret;

	if (uffd < 0) {
		struct uffdio_api api = {
			.api = UFFD_API, .features = UFFD_FEATURE_SIGBUS,
		};

		uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		if (uffd < 0)
			return -errno;
		if (ioctl(uffd, UFFDIO_API, &api) < 0)
			return -errno;
	}
	switch (cmd->op) {
	case OP_UREG: {		/* a: 1 missing, 2 write protection */
		struct uffdio_register reg = { .range = range, .mode = cmd->a };

		return errno_or(ioctl(uffd, UFFDIO_REGISTER, &reg));
	}
	case OP_UUNREG:
		return errno_or(ioctl(uffd, UFFDIO_UNREGISTER, &range));
	case OP_UCOPY: {	/* a: seq */
		struct uffdio_copy copy = {
			.dst = range.start, .src = (unsigned long)scratch, .len = PAGE,
		};

		fill_words(scratch, own_tag(cmd->page, cmd->a));
		ret = errno_or(ioctl(uffd, UFFDIO_COPY, &copy));
		return ret < 0 ? ret : copy.copy == (s64)PAGE ? 0 : -EIO;
	}
	case OP_UZERO: {
		struct uffdio_zeropage zero = { .range = { range.start, PAGE } };

		return errno_or(ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	}
	default: {		/* UPROT: a: 1 on, 0 off */
		struct uffdio_writeprotect wp = {
			.range = range,
			.mode = cmd->a ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
		};

		return errno_or(ioctl(uffd, UFFDIO_WRITEPROTECT, &wp));
	}
	}
}

static s64 lend(u32 page)
{
	struct iovec iov = { page_addr(page), PAGE };

	return errno_or(vmsplice(board->pipes[me][1], &iov, 1, SPLICE_F_NONBLOCK));
}

static s64 drain(void)
{
	ssize_t got = read(board->pipes[me][0], scratch, PAGE);

	if (got == (ssize_t)PAGE)
		digest(scratch, next_page());
	return errno_or(got);
}

/* Long-term pins through the kernel's test driver: a: 1 for writing, 2 fast. */
static s64 pin(const struct cmd *cmd)
{
	struct pin_longterm_test test = {
		.addr = (unsigned long)page_addr(cmd->page), .size = cmd->n * PAGE,
		.flags = cmd->a,
	};
	s64 ret;

	if (pin_fd >= 0)
		return -EBUSY;
	pin_fd = open("/sys/kernel/debug/gup_test", O_RDWR | O_CLOEXEC);
	if (pin_fd < 0)
		return -errno;
	ret = errno_or(ioctl(pin_fd, PIN_LONGTERM_TEST_START, &test));
	if (ret < 0) {
		close(pin_fd);
		pin_fd = -1;
	}
	return ret;
}

/* The content of the pinned pages, as a device would see it. */
static s64 pin_read(const struct cmd *cmd)
{
	u64 addr = (unsigned long)scratch;
	s64 ret;

	if (pin_fd < 0)
		return -EBADF;
	ret = errno_or(ioctl(pin_fd, PIN_LONGTERM_TEST_READ, &addr));
	for (u32 i = 0; !ret && i < cmd->n; i++)
		digest(scratch + i * PAGE / 8, next_page());
	return ret;
}

static s64 unpin(void)
{
	if (pin_fd < 0)
		return -EBADF;
	close(pin_fd);		/* which unpins */
	pin_fd = -1;
	return 0;
}

/* a: node */
static s64 migrate(const struct cmd *cmd)
{
	static void *pages[CHUNK];
	static int nodes[CHUNK], status[CHUNK];
	u32 n = cmd->n < CHUNK ? cmd->n : CHUNK;

	for (u32 i = 0; i < n; i++) {
		pages[i] = page_addr(cmd->page + i);
		nodes[i] = cmd->a;
	}
	return errno_or(syscall(SYS_move_pages, 0, n, pages, nodes, status,
				4 /* MPOL_MF_MOVE_ALL */));
}

/* a: whose; b: advice, of the kinds that lose nothing */
static s64 advise_other(const struct cmd *cmd)
{
	struct iovec remote = { remote_addr(cmd), cmd->n * PAGE };
	int fd = syscall(SYS_pidfd_open, board->pids[cmd->a], 0);
	s64 ret;

	if (fd < 0)
		return -errno;
	ret = errno_or(syscall(SYS_process_madvise, fd, &remote, 1, cmd->b, 0));
	close(fd);
	return ret;
}

/* a: categories of pages to ask for */
static s64 scan(const struct cmd *cmd)
{
	static struct pm_scan_region regions[64];
	struct pm_scan args = {
		.size = sizeof(args),
		.start = (unsigned long)page_addr(cmd->page),
		.end = (unsigned long)page_addr(cmd->page) + cmd->n * PAGE,
		.vec = (unsigned long)regions,
		.vec_len = ARRAY_SIZE(regions),
		.category_anyof_mask = cmd->a,
		.return_mask = cmd->a,
	};
	int fd = open("/proc/self/pagemap", O_RDONLY);
	s64 ret;

	if (fd < 0)
		return -errno;
	ret = errno_or(ioctl(fd, PM_SCAN, &args));
	close(fd);
	return ret;
}

s64 execute(const struct cmd *cmd)
{
	char *addr = page_addr(cmd->page);
	size_t len = cmd->n * PAGE;

	switch (cmd->op) {
	case OP_CHECK:
		return check_pages(cmd->page, cmd->n);
	case OP_WATCH:		/* a: whose work; b: filled in by the controller */
		return watch_pages(cmd->page, cmd->n, cmd->a, cmd->b);
	case OP_WRITE:		/* a: seq, b: cells */
		return store_pages(cmd->page, cmd->n, own_tag, cmd->a, cmd->b);
	case OP_FILL:		/* a: which of the few equal contents */
		return store_pages(cmd->page, cmd->n, const_tag, cmd->a, 15);
	case OP_MAP:
		return map(cmd);
	case OP_UNMAP:
		return errno_or(munmap(addr, len));
	case OP_PROTECT:	/* a: protection */
		return errno_or(mprotect(addr, len, cmd->a));
	case OP_MOVE:
		return move(cmd);
	case OP_RESIZE:		/* a: new number of pages */
		return mremap(addr, len, cmd->a * PAGE, 0) == MAP_FAILED ?
			-errno : 0;
	case OP_ADVISE:		/* a: advice */
		return errno_or(madvise(addr, len, cmd->a));
	case OP_LOCK:		/* a: 1 only what is faulted later */
		return errno_or(syscall(SYS_mlock2, addr, len, cmd->a));
	case OP_UNLOCK:
		return errno_or(munlock(addr, len));
	case OP_FORK:
		return do_fork(cmd);
	case OP_EXEC:
		return do_exec();
	case OP_VMREAD:
	case OP_MEMREAD:
		return other_memory(cmd, false);
	case OP_VMWRITE:
	case OP_MEMWRITE:
		return other_memory(cmd, true);
	case OP_PWRITE:
		return file_write(cmd);
	case OP_TRUNC:		/* a: file, b: pages */
		return errno_or(ftruncate(board->file_fds[cmd->a], cmd->b * PAGE));
	case OP_PUNCH:		/* a: file */
		return errno_or(fallocate(board->file_fds[cmd->a],
					  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					  cmd->page * PAGE, len));
	case OP_BRK:		/* a: pages */
		return errno_or(brk((char *)layout.heap + cmd->a * PAGE));
	case OP_REFS:		/* a: 1 to 4 */
		return refs(cmd->a);
	case OP_LOOK:
		return look(cmd->page, cmd->n);
	case OP_UREG:
	case OP_UUNREG:
	case OP_UCOPY:
	case OP_UZERO:
	case OP_UPROT:
		return uffd_command(cmd);
	case OP_SPLICE:
		return lend(cmd->page);
	case OP_DRAIN:
		return drain();
	case OP_PIN:
		return pin(cmd);
	case OP_PINREAD:
		return pin_read(cmd);
	case OP_UNPIN:
		return unpin();
	case OP_SPAWN:		/* a: slot, b: pages it is moved by, c: group */
		return start_by_exec(cmd->a, cmd->b, cmd->c, CLONE_PARENT);
	case OP_BECOME:		/* b, c: the same */
		return become(cmd->b, cmd->c);
	case OP_LEAVE:
		return leave(cmd->a);
	case OP_BALLAST: {	/* a: page of it */
		u64 word = 0;
		long sig = probe_load(&word, (u64 *)(layout.base + BALLAST_AT +
						     cmd->a * PAGE), 1);

		return sig ? sig : word != 0;
	}
	case OP_ZYGOTE:		/* a: flags */
		return errno_or(prctl(PR_SET_COHORT, cmd->a, 0, 0, 0));
	case OP_MIGRATE:
		return migrate(cmd);
	case OP_ADVOTHER:
		return advise_other(cmd);
	case OP_SCAN:
		return scan(cmd);
	default:
		return -ENOSYS;
	}
}
