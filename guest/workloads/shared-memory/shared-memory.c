// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many processes on one large piece of shared memory, as a database's backends
 * on its buffers.
 *
 *   shared-memory [--zygote | --group] [--size 16g] [--processes 500]
 *                 [--buffers 16384] [--accesses 1000] [--seed N]
 *
 * The parent maps shared memory and forks, as PostgreSQL's postmaster does. There
 * are so many buffers of 8 KB in use, spread over all of it. Each process reads
 * and writes buffers; some are asked for far more often than others (the rank of
 * the next buffer is a uniform number squared, as of the inner pages of indices).
 * With --group each process executes this program again and maps the memory itself, as
 * a member of a group: as if it had another parent.
 * All of them stay until the last is done. Each checks that a buffer holds what
 * one of them wrote there.
 *
 * Metrics: fork-instructions of each process, access-instructions of all accesses
 * of each; buffers-used and pages-used, how many different ones; table-pages, how
 * many pages of page tables there are more than before the first fork;
 * shared-table-pages, the last-level tables that the last process shares;
 * file-faults, on file and shared memory, and minor-faults, all, of the processes
 * together; resident, the VmRSS of the last process in KB.
 */
#include "../lib/counters.h"
#include "../lib/pages.h"
#include "../lib/process.h"

#include <sys/resource.h>
#include <sys/wait.h>

#define BUFFER KB(8)
#define MAX_PROCESSES 2000

/* The processes' reports, each in a line of its own; shared from the start. */
struct line {
	uint64_t access, faults;
	uint32_t done, pad[11];
};

struct board {
	uint32_t go, wrong;
	struct line line[MAX_PROCESSES];
};

/* The parent's notes between forks. */
struct scratch {
	pid_t pid[MAX_PROCESSES];
	uint64_t fork[MAX_PROCESSES];
};

static size_t size = (size_t)16 << 30, buffers = 16384, accesses = 1000;
static char *memory;

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Where buffer @n lies: they are in use all over the memory. */
static char *buffer_at(size_t n)
{
	return memory + n * (size / buffers) / BUFFER * BUFFER;
}

static size_t next_buffer(uint64_t *state)
{
	double u = (next_random(state) >> 11) * 0x1p-53;

	return u * u * buffers;
}

/* A backend: both pages of a buffer, every fourth time to write. */
static void access_all(struct board *board, uint64_t state)
{
	for (size_t i = 0; i < accesses; i++) {
		size_t n = next_buffer(&state);
		volatile uint64_t *first = (uint64_t *)buffer_at(n);
		volatile uint64_t *second = first + PAGE / 8;

		if (next_random(&state) % 4 == 0) {
			*first = n + 1;
			*second = n + 1;
		} else {
			uint64_t a = *first, b = *second;

			if ((a && a != n + 1) || (b && b != n + 1))
				board->wrong++;
		}
	}
}

static uint64_t self_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* The same numbers as the processes draw: which buffers are used at all? */
static void count_used(size_t processes, uint64_t seed)
{
	unsigned char *used = calloc(1, buffers);
	size_t nr = 0;

	if (!used)
		die_errno("calloc");
	for (size_t i = 0; i < processes; i++) {
		uint64_t state = seed + i * 0x9e3779b97f4a7c15ULL;

		for (size_t k = 0; k < accesses; k++) {
			size_t n = next_buffer(&state);

			next_random(&state);
			nr += !used[n];
			used[n] = 1;
		}
	}
	free(used);
	metric("buffers-used", nr, "buffers");
	metric("pages-used", nr * (BUFFER / PAGE), "pages");
}

/* The memory and the board of a process that was executed: descriptors of files. */
static int memory_file = -1, board_file = -1;

static struct board *map_all(void)
{
	struct board *board;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_file,
		      0);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		     board_file, 0);
	if (memory == MAP_FAILED || board == MAP_FAILED)
		die_errno("mmap");
	return board;
}

/* Be process @i, in a process that was forked or executed for it. */
__attribute__((noreturn)) static void be(struct board *board, size_t i, uint64_t seed)
{
	struct line *line = &board->line[i];
	uint64_t before = self_faults(), t0 = ticks();

	access_all(board, seed + i * 0x9e3779b97f4a7c15ULL);
	line->access = ticks() - t0;
	line->faults = self_faults() - before;
	line->done = 1;
	while (!__atomic_load_n(&board->go, __ATOMIC_ACQUIRE))
		pause();
	bare_exit(0);
}

/* Become process @i by executing this program with the arguments @argv and its number. */
static void execute(size_t i, int argc, char **argv)
{
	char number[16], *again[32];
	int n = 0;

	for (; n < argc && n < 28; n++)
		again[n] = argv[n];
	snprintf(number, sizeof(number), "%zu", i);
	again[n++] = "--backend";
	again[n++] = number;
	again[n] = NULL;
	execv("/proc/self/exe", again);
	die_errno("/proc/self/exe");
}

int main(int argc, char **argv)
{
	uint64_t seed = 88172645463325252ULL, faults = 0, file_faults;
	size_t processes = 500;
	int64_t tables;
	struct board *board;
	bool zygote = false, group = false;
	long backend = -1;
	struct scratch *s;

	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote"))
			zygote = true;
		else if (!strcmp(argv[i], "--group"))
			group = true;
		else if (!strcmp(argv[i], "--backend") && more)
			backend = strtol(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--size") && more)
			size = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--processes") && more)
			processes = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--buffers") && more)
			buffers = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--accesses") && more)
			accesses = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--seed") && more)
			seed = strtoull(argv[++i], NULL, 0);
		else
			die("shared-memory: what is %s?", argv[i]);
	}
	if (!processes || processes > MAX_PROCESSES || !buffers || !accesses || !seed ||
	    size / buffers < BUFFER)
		die("shared-memory: 1 to %d processes, buffers of 8 KB that fit, accesses, a seed",
		    MAX_PROCESSES);

	if (backend >= 0) {
		/* The parent's descriptors, where it has put them. */
		memory_file = 100;
		board_file = 101;
		be(map_all(), backend, seed);
	}
	fixed_layout(argv);
	/* Before the memory, which is then mapped where it can be shared best. */
	if (zygote)
		become_zygote(0);
	if (group) {
		memory_file = dup2(memfd_create("memory", 0), 100);
		board_file = dup2(memfd_create("board", 0), 101);
		if (ftruncate(memory_file, size) || ftruncate(board_file, sizeof(*board)))
			die_errno("memfd_create");
		if (prctl(PR_SET_COHORT, PR_COHORT_GROUP, "shared-memory", 0, 0))
			die_errno("PR_COHORT_GROUP");
		board = map_all();
	} else {
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (memory == MAP_FAILED || board == MAP_FAILED)
			die_errno("mmap");
	}
	s = scratch_map(sizeof(*s));
	count_used(processes, seed);
	take_processor();

	count_all();
	tables = vmstat("nr_page_table_pages");
	file_faults = vmstat("cohort_fault_file");
	for (size_t i = 0; i < processes; i++) {
		struct line *line = &board->line[i];
		uint64_t t0 = ticks(), t1;
		pid_t pid = bare_fork();

		if (!pid && group)
			execute(i, argc, argv);
		if (!pid)
			be(board, i, seed);
		t1 = ticks();
		if (pid < 0)
			die_errno("fork");
		s->pid[i] = pid;
		s->fork[i] = t1 - t0;
		/* One after the other, so that the run is the same every time. */
		while (!line->done)
			usleep(100);
	}
	metric("table-pages", vmstat("nr_page_table_pages") - tables, "pages");
	if (vmstat("cohort_fault_file") >= 0)
		metric("file-faults", vmstat("cohort_fault_file") - file_faults, "faults");
	for (size_t i = 0; i < processes; i++) {
		metric("fork-instructions", s->fork[i], "instructions");
		metric("access-instructions", board->line[i].access, "instructions");
		faults += board->line[i].faults;
	}
	metric("minor-faults", faults, "faults");
	metric("resident", proc_field(s->pid[processes - 1], "status", "VmRSS"), "KB");
	if (proc_field(s->pid[processes - 1], "cohort", "SharedTables") >= 0) {
		metric("shared-table-pages",
		       proc_field(s->pid[processes - 1], "cohort", "SharedTables"), "pages");
		metric("shared-pmd-tables",
		       proc_field(s->pid[processes - 1], "cohort", "SharedPmdTables"), "pages");
	}
	metric("wrong", board->wrong, "buffers");
	for (size_t i = 0; i < processes; i++)
		kill(s->pid[i], SIGKILL);
	for (size_t i = 0; i < processes; i++)
		while (waitpid(s->pid[i], NULL, 0) < 0)
			if (errno != EINTR)
				die_errno("waitpid");
	return board->wrong ? 1 : 0;
}
