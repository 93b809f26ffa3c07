// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the number of a table's users does to the cost of using it: one parent with
 * some touched memory, and more and more children that map it and sleep.
 *
 *   sharers [--zygote] [--memory 64m] [--users 2,10,100,...] [--rounds N]
 *           [--reclaim | --truncate | --unmap | --oom] [--stretch]
 *
 * At each number of users a child more is forked, N times, and leaves again. Measured
 * are its fork, its first store to a page of the memory, a read of its
 * /proc/self/stat, and its end. With --reclaim the memory is a file's, mapped
 * privately, which all users have read, and their memory cgroup is asked to give pages
 * back: the instructions of one page. With --truncate half of that file is cut off and
 * added again: the instructions of one page that was cut off. With --unmap the child
 * unmaps its memory: the instructions of munmap() for a table. With --oom a child more grows until their memory
 * cgroup is full: the instructions until the OOM killer has chosen it, as the largest,
 * and it is gone. With --stretch the kernel's tracer tells the longest stretch that ran
 * with preemption off meanwhile, instead; at the end also that of all users' ends. Then
 * nobody has a real-time priority: it would keep ksoftirqd from running what RCU has to
 * free, until it has so much that it does all in one go.
 *
 * Metrics, with -U the number of users: fork-U, store-U, stat-U, exit-U a round;
 * reclaim-U; truncate-U; unmap-U a round; oom-U a round; or stretch-U, and stretch-end.
 */
#include "../lib/process.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define MAX_STEPS 16
#define MAX_ROUNDS 100
#define TABLE MB(2)

#define CGROUP "/sys/fs/cgroup/sharers"
#define TRACING "/sys/kernel/tracing/"

/* What is measured at each number of users. */
enum work { ROUND, RECLAIM, TRUNCATE, UNMAP, OOM };

/* What a child reports. */
struct report {
	uint64_t store[MAX_ROUNDS], stat[MAX_ROUNDS], unmap[MAX_ROUNDS];
};

static struct report *report;
static char *memory;
static size_t size = MB(64);
static bool traced;
/* The memory's file, if it has one. */
static int file = -1;

static uint64_t read_stat(void)
{
	char text[1024];
	uint64_t t = ticks();
	int fd = open("/proc/self/stat", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
		bare_exit(2);
	close(fd);
	return ticks() - t;
}

/* A user that comes, unmaps the memory and goes. */
static void unmap(int i, int users)
{
	char name[32];
	pid_t pid = bare_fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		uint64_t t = ticks();

		if (munmap(memory, size))
			bare_exit(2);
		report->unmap[i] = ticks() - t;
		bare_exit(0);
	}
	bare_wait(pid);
	snprintf(name, sizeof(name), "unmap-%d", users);
	if (!traced)
		metric(name, report->unmap[i] / (size / TABLE), "instructions");
}

/* A user that comes, does a little and goes. */
static void one_round(int i, int users, bool print)
{
	uint64_t fork, exit = ticks();
	char name[32];
	pid_t pid = bare_fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		char *p = memory + i % (size / TABLE) * TABLE;
		uint64_t t = ticks();

		*(volatile char *)p = 2;
		report->store[i] = ticks() - t;
		report->stat[i] = read_stat();
		bare_exit(0);
	}
	/* The child runs when the parent waits: take_processor(). */
	fork = ticks() - exit;
	exit = ticks();
	bare_wait(pid);
	exit = ticks() - exit;
	if (!print)
		return;
	snprintf(name, sizeof(name), "fork-%d", users);
	metric(name, fork, "instructions");
	snprintf(name, sizeof(name), "store-%d", users);
	metric(name, report->store[i], "instructions");
	snprintf(name, sizeof(name), "stat-%d", users);
	metric(name, report->stat[i], "instructions");
	snprintf(name, sizeof(name), "exit-%d", users);
	metric(name, exit - report->store[i] - report->stat[i], "instructions");
}

static void read_all(void)
{
	for (size_t i = 0; i < size; i += PAGE)
		(void)*(volatile char *)(memory + i);
}

/* A user that stays. It has no signal handler: the parent ends it. */
static pid_t sleeper(bool reads)
{
	pid_t pid = bare_fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		/* The parent waits for it to stop. */
		if (reads)
			read_all();
		raise(SIGSTOP);
		bare_exit(0);
	}
	if (waitpid(pid, NULL, WUNTRACED) != pid)
		die_errno("waitpid");
	return pid;
}

static void put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die_errno(path);
	close(fd);
}

/* The pages of the memory that are mapped, and so can be reclaimed from its tables. */
static size_t mapped_pages(void)
{
	size_t n = 0;
	uint64_t entry[PAGE / 8];
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (fd < 0)
		die_errno("/proc/self/pagemap");
	for (size_t at = 0; at < size / PAGE; at += ARRAY_SIZE(entry)) {
		off_t from = ((uintptr_t)memory / PAGE + at) * 8;

		if (pread(fd, entry, sizeof(entry), from) != sizeof(entry))
			die_errno("/proc/self/pagemap");
		for (size_t i = 0; i < ARRAY_SIZE(entry); i++)
			n += entry[i] >> 63;
	}
	close(fd);
	return n;
}

/*
 * Ask the cgroup to give back a megabyte, and say what a page that left the tables
 * cost. The pages are read again afterwards.
 */
static void reclaim(int users)
{
	size_t before = mapped_pages(), after;
	char name[32];
	uint64_t t;
	int fd = open(CGROUP "/memory.reclaim", O_WRONLY);

	if (fd < 0)
		die_errno(CGROUP "/memory.reclaim");
	t = ticks();
	if (write(fd, "1M", 2) < 0 && errno != EAGAIN)
		die_errno(CGROUP "/memory.reclaim");
	t = ticks() - t;
	close(fd);
	after = mapped_pages();
	if (after >= before)
		die("sharers: no mapped page was reclaimed");
	snprintf(name, sizeof(name), "reclaim-%d", users);
	if (!traced)
		metric(name, t / (before - after), "instructions");
	read_all();
}

/* Cut off half of the file, add it again, and let this process read it again. */
static void cut(int users)
{
	char name[32];
	uint64_t t = ticks();

	if (ftruncate(file, size / 2))
		die_errno("ftruncate");
	t = ticks() - t;
	if (ftruncate(file, size))
		die_errno("ftruncate");
	snprintf(name, sizeof(name), "truncate-%d", users);
	if (!traced)
		metric(name, t / (size / 2 / PAGE), "instructions");
	read_all();
}

#define OOM_ROOM	MB(1)

/* A child grows beyond what the cgroup may use, and is killed. */
static void run_out(int users, bool print)
{
	char name[32], limit[32];
	int go[2], status;
	uint64_t t;
	pid_t pid;

	if (pipe(go))
		die_errno("pipe");
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		char c, *p = mmap(NULL, 4 * OOM_ROOM, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED || read(go[0], &c, 1) != 1)
			bare_exit(2);
		for (size_t i = 0; i < 4 * OOM_ROOM; i += PAGE)
			*(volatile char *)(p + i) = 1;
		bare_exit(0);
	}
	snprintf(limit, sizeof(limit), "%llu",
		 (unsigned long long)read_number(CGROUP "/memory.current") + OOM_ROOM);
	put(CGROUP "/memory.max", limit);
	t = ticks();
	if (write(go[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid)
		die_errno("a child that grows");
	t = ticks() - t;
	put(CGROUP "/memory.max", "max");
	close(go[0]);
	close(go[1]);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		die("sharers: the child that grew was not killed");
	if (!print)
		return;
	snprintf(name, sizeof(name), "oom-%d", users);
	metric(name, t, "instructions");
}

/* Look for the longest stretch from now on. */
static void begin_stretch(void)
{
	if (traced)
		put(TRACING "tracing_max_latency", "0");
}

/* Print it: the tracer's microseconds, of 1,000 instructions each. */
static void end_stretch(const char *when)
{
	char name[32];

	if (!traced)
		return;
	snprintf(name, sizeof(name), "stretch-%s", when);
	metric(name, 1000 * read_number(TRACING "tracing_max_latency"),
	       "instructions");
}

/* The measured operations, with one user more that comes and goes. */
static void measure(int users, int rounds, enum work work)
{
	char when[16];

	begin_stretch();
	switch (work) {
	case ROUND:
		for (int i = 0; i < rounds; i++)
			one_round(i, users, !traced);
		break;
	case RECLAIM:
		reclaim(users);
		break;
	case TRUNCATE:
		cut(users);
		break;
	case UNMAP:
		for (int i = 0; i < rounds; i++)
			unmap(i, users);
		break;
	case OOM:
		for (int i = 0; i < 4; i++)
			run_out(users, i && !traced);
		break;
	}
	snprintf(when, sizeof(when), "%d", users);
	end_stretch(when);
}

static int parse_users(int *users, char *list)
{
	int n = 0;

	for (char *s = strtok(list, ","); s; s = strtok(NULL, ",")) {
		if (n == MAX_STEPS)
			die("sharers: at most %d numbers of users", MAX_STEPS);
		users[n] = atoi(s);
		if (users[n] < 2 || (n && users[n] <= users[n - 1]))
			die("sharers: numbers of users begin at 2 and grow");
		n++;
	}
	return n;
}

static void map_memory(bool of_file)
{
	if (of_file) {
		file = open("/sharers.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (file < 0 || ftruncate(file, size))
			die_errno("/sharers.data");
		for (size_t i = 0; i < size; i += PAGE)
			if (pwrite(file, &i, sizeof(i), i) != sizeof(i))
				die_errno("/sharers.data");
		fsync(file);
	}
	/* At a whole table, so that the number of tables is what it says. */
	memory = mmap((void *)0x200000000000, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_FIXED_NOREPLACE | (of_file ? 0 : MAP_ANONYMOUS), file, 0);
	if (memory == MAP_FAILED || (madvise(memory, size, MADV_NOHUGEPAGE) && errno != EINVAL))
		die_errno("mmap");
	for (size_t i = 0; i < size; i += PAGE) {
		if (of_file)
			(void)*(volatile char *)(memory + i);
		else
			*(volatile char *)(memory + i) = 1;
	}
}

static enum work work_named(const char *option)
{
	static const char *const name[] = {
		[RECLAIM] = "--reclaim", [TRUNCATE] = "--truncate",
		[UNMAP] = "--unmap", [OOM] = "--oom",
	};

	for (size_t i = RECLAIM; i < ARRAY_SIZE(name); i++)
		if (!strcmp(option, name[i]))
			return i;
	return ROUND;
}

int main(int argc, char **argv)
{
	char list[] = "2,10,100,1000,10000";
	int users[MAX_STEPS], steps, now = 1, rounds = 20;
	enum work work = ROUND;
	bool zygote = false, of_file;
	pid_t *child;

	steps = parse_users(users, list);
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote"))
			zygote = true;
		else if (work_named(argv[i]) != ROUND && work == ROUND)
			work = work_named(argv[i]);
		else if (work_named(argv[i]) != ROUND)
			die("sharers: one of --reclaim, --truncate, --unmap and --oom");
		else if (!strcmp(argv[i], "--stretch"))
			traced = true;
		else if (!strcmp(argv[i], "--memory") && more)
			size = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--rounds") && more)
			rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--users") && more)
			steps = parse_users(users, strdup(argv[++i]));
		else
			die("sharers: what is %s?", argv[i]);
	}
	if (rounds < 1 || rounds > MAX_ROUNDS || size % TABLE || !size || !steps)
		die("sharers: 1 to %d rounds, memory in steps of 2 MB", MAX_ROUNDS);

	fixed_layout(argv);
	of_file = work == RECLAIM || work == TRUNCATE;
	if (work == RECLAIM || work == OOM) {
		/* Its own pages alone count. */
		if (mkdir(CGROUP, 0755) && errno != EEXIST)
			die_errno(CGROUP);
		put(CGROUP "/cgroup.procs", "0");
	}
	map_memory(of_file);
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		die_errno("mmap");
	memset(report, 0, sizeof(*report));
	child = scratch_map(sizeof(*child) * users[steps - 1]);
	if (zygote)
		become_zygote(0);
	if (!traced)
		take_processor();
	else
		put(TRACING "current_tracer", "preemptoff");

	for (int k = 0; k < steps; k++) {
		/* The child that comes and goes is one of the users. */
		while (now < users[k] - 1)
			child[now++] = sleeper(of_file);
		/* Two unreported rounds warm the allocators' lists. */
		one_round(0, users[k], false);
		one_round(0, users[k], false);
		measure(users[k], rounds, work);
		fflush(stdout);
	}
	begin_stretch();
	while (--now) {
		kill(child[now], SIGKILL);
		if (waitpid(child[now], NULL, 0) != child[now])
			die_errno("waitpid");
	}
	end_stretch("end");
	return 0;
}
