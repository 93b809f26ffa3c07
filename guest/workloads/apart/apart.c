// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * apart CMD ARG...: run CMD and the programs that it executes with code and data of each
 * shared library in different tables, as if they were linked for it (2 MB alignment).
 *
 * A process beside CMD traces it. Where the dynamic linker asks for room for a library, the
 * kernel is given an address at which the library's first writable byte begins a new table;
 * no two libraries have a table in common. The files stay as they are. What a process maps
 * after its first fork is left alone: it is a zygote then, and runs at full speed.
 */
#include "../lib/measure.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#ifdef SYS_mmap2
#define NR_MMAP SYS_mmap2
#else
#define NR_MMAP SYS_mmap
#endif

#define MAX_PROCESSES 512

static struct process {
	pid_t pid;
	bool placing;		/* between exec and its first fork */
	bool opening;		/* in open() */
	int opened;		/* the file that it has opened last, or -1 */
	uintptr_t next;		/* the next library's place, at the beginning of a table */
} process[MAX_PROCESSES];

static struct process *find(pid_t pid)
{
	struct process *room = NULL;

	for (int i = 0; i < MAX_PROCESSES; i++) {
		if (process[i].pid == pid)
			return &process[i];
		if (!process[i].pid && !room)
			room = &process[i];
	}
	if (!room)
		die("more than %d processes", MAX_PROCESSES);
	*room = (struct process){ .pid = pid, .opened = -1 };
	return room;
}

/* Change the first argument of the system call that @pid is about to make. */
static void set_argument(pid_t pid, uintptr_t value)
{
#if defined(__x86_64__)
	ptrace(PTRACE_POKEUSER, pid, offsetof(struct user_regs_struct, rdi), value);
#elif defined(__aarch64__)
	struct user_regs_struct regs;
	struct iovec io = { &regs, sizeof(regs) };

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io))
		return;
	regs.regs[0] = value;
	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &io);
#elif defined(__arm__)
	struct user_regs regs;

	if (ptrace(PTRACE_GETREGS, pid, NULL, &regs))
		return;
	regs.uregs[0] = value;
	ptrace(PTRACE_SETREGS, pid, NULL, &regs);
#else
#error "write set_argument() for this architecture"
#endif
}

struct library {
	uintptr_t end, writable, align;
};

/* Read the headers of the file that @pid has as @fd; false if it is no library with data. */
static bool library_read(struct library *lib, pid_t pid, int fd)
{
	char path[64], head[KB(4)];
	const ElfW(Ehdr) *eh = (const void *)head;
	ssize_t size;
	int file;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	size = pread(file, head, sizeof(head), 0);
	close(file);
	if (size < (ssize_t)sizeof(*eh) || memcmp(head, ELFMAG, SELFMAG) || eh->e_type != ET_DYN ||
	    eh->e_phoff + eh->e_phnum * sizeof(ElfW(Phdr)) > (size_t)size)
		return false;
	*lib = (struct library){ .writable = UINTPTR_MAX };
	for (int i = 0; i < eh->e_phnum; i++) {
		const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(head + eh->e_phoff) + i;

		if (ph->p_type != PT_LOAD)
			continue;
		if (ph->p_vaddr + ph->p_memsz > lib->end)
			lib->end = ph->p_vaddr + ph->p_memsz;
		if ((ph->p_flags & PF_W) && ph->p_vaddr < lib->writable)
			lib->writable = ph->p_vaddr;
		if (ph->p_align > lib->align)
			lib->align = ph->p_align;
	}
	lib->end = (lib->end + PAGE - 1) & ~(PAGE - 1);
	return lib->writable < lib->end && lib->align >= PAGE;
}

/*
 * A process is about to map memory. The dynamic linker maps a library as a whole before it
 * maps its parts; if it is linked for larger pages, it first asks for room for it and more.
 */
static void place(struct process *p, const uint64_t *args)
{
	bool room = (args[3] & (MAP_ANONYMOUS | MAP_PRIVATE)) == (MAP_ANONYMOUS | MAP_PRIVATE) &&
		    args[2] == PROT_NONE;
	bool file = (args[3] & (MAP_DENYWRITE | MAP_PRIVATE)) == (MAP_DENYWRITE | MAP_PRIVATE) &&
		    !args[5];
	struct library lib;
	uintptr_t code, base;

	if (args[0] || (args[3] & MAP_FIXED) || (!room && !file))
		return;
	if (!library_read(&lib, p->pid, file ? (int)args[4] : p->opened))
		return;
	if (args[1] + PAGE <= lib.end || (room && args[1] > lib.end + 2 * lib.align + PAGE))
		return;
	code = lib.writable & ~(lib.align - 1);
	if (lib.align >= TABLE)
		base = (p->next + lib.align - 1) & ~(lib.align - 1);
	else
		base = ((p->next + code + TABLE - 1) & ~(TABLE - 1)) - code;
	set_argument(p->pid, base);
	p->next = (base + args[1] + TABLE - 1) & ~(TABLE - 1);
}

static void at_call(struct process *p)
{
	struct __ptrace_syscall_info call;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, p->pid, sizeof(call), &call) <= 0)
		return;
	if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
		p->opening = call.entry.nr == SYS_openat;
		if (call.entry.nr == NR_MMAP)
			place(p, call.entry.args);
	} else if (call.op == PTRACE_SYSCALL_INFO_EXIT && p->opening) {
		p->opening = false;
		p->opened = call.exit.is_error ? -1 : call.exit.rval;
	}
}

/* A traced process has stopped: let it go on. */
static void stopped(struct process *p, int status)
{
	int sig = WSTOPSIG(status), event = status >> 16;
	long how;

	if (event == PTRACE_EVENT_EXEC) {
		p->placing = true;
		p->opened = -1;
		/* Half the way to the stack, which is at the top. */
		p->next = ((uintptr_t)&how / 2) & ~(TABLE - 1);
		sig = 0;
	} else if (event == PTRACE_EVENT_FORK) {
		p->placing = false;
		sig = 0;
	} else if (event == PTRACE_EVENT_STOP) {
		if (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU) {
			ptrace(PTRACE_LISTEN, p->pid, NULL, NULL);
			return;
		}
		sig = 0;
	} else if (event) {
		sig = 0;
	} else if (sig == (SIGTRAP | 0x80)) {
		if (p->placing)
			at_call(p);
		sig = 0;
	}
	how = p->placing ? PTRACE_SYSCALL : PTRACE_CONT;
	ptrace(how, p->pid, NULL, (void *)(intptr_t)sig);
}

static void trace(pid_t pid, int ready)
{
	int status, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC |
		   PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK))
		die_errno("ptrace");
	/* Do not keep what waits for the ends of pipes; outlive the terminal. */
	setsid();
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (write(ready, "", 1) != 1)
		die_errno("pipe");
	close(ready);
	while ((pid = waitpid(-1, &status, __WALL)) > 0) {
		struct process *p = find(pid);

		if (WIFSTOPPED(status))
			stopped(p, status);
		else
			p->pid = 0;
	}
}

int main(int argc, char **argv)
{
	pid_t self = getpid(), pid;
	int ready[2];
	char byte;

	if (argc < 2)
		die("usage: apart CMD ARG...");
	if (pipe2(ready, O_CLOEXEC))
		die_errno("pipe");
	/* CMD keeps this process's number, and has no child that it does not know. */
	pid = fork();
	if (!pid) {
		if (fork())
			_exit(0);
		close(ready[0]);
		trace(self, ready[1]);
		return 0;
	}
	close(ready[1]);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid || read(ready[0], &byte, 1) != 1)
		die("cannot be traced");
	close(ready[0]);
	execvp(argv[1], argv + 1);
	die_errno(argv[1]);
}
