// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whom the OOM killer kills when the whole machine is out of memory: a family that maps
 * the same memory, or processes of about its members' size that map their own.
 *
 *   oom-victim [--zygote] [--memory dense|sparse] [--sharers N] [--protect] [--look]
 *
 * A zygote touches memory and forks N sharers, which stay. Each process has a name, and
 * counts as much more than the next as the OOM killer can surely tell:
 *
 *   outsider-big    has its own memory
 *   zygote          has memory that its children do not map
 *   sharer-heavy    the first sharer, with memory of its own
 *   sharer-I        maps the zygote's memory and nothing else
 *   outsider-small  has its own memory
 *   spare           some small ones, so that there is always somebody left to kill
 *
 * So each sharer is larger than outsider-small only because of what it maps together with
 * the others. The program itself, which the OOM killer spares (oom_score_adj -1000), takes
 * memory page by page until outsider-small is killed, and reads from the kernel's log whom
 * it killed. With dense memory, 16 MB private and 16 MB shared, tables weigh little. With
 * sparse memory each table has one page, and without tables a sharer would be smaller than
 * outsider-small. With --protect the OOM killer spares the zygote too, as on Android. With
 * --look the program reads every /proc/PID/stat before, as ps does.
 *
 * Metrics: victims, whose digits are the first five that were killed, in this order, by the
 * numbers of enum role; killed, all until outsider-small; family, those of them that are the
 * zygote or a sharer; out-of-order, how many of them were killed after a smaller one;
 * descending, how many sharers were killed right after the one that was forked next; taken,
 * what the program had got when the first was killed; per-kill, the time until the
 * allocations that met an OOM had their pages, by the number of the killed: a single OOM
 * waits for some of the kernel's ticks, and reclaim is done by whoever comes first.
 */
#include "../lib/process.h"

#include <dirent.h>
#include <sys/prctl.h>

#define FIRST_VICTIMS 5
#define SPARES 16
/* The longest record of /dev/kmsg. */
#define KMSG_BYTES KB(8)

/* In the order in which they ought to be killed. */
enum role {
	BIG = 1,
	ZYGOTE,
	HEAVY,
	SHARER,
	SMALL,
	SPARE,
	OTHER,
};

static const char *const role_name[] = {
	[BIG] = "outsider-big",
	[ZYGOTE] = "zygote",
	[HEAVY] = "sharer-heavy",
	[SMALL] = "outsider-small",
	[SPARE] = "spare",
};

/*
 * What the family maps, in tables: @private of memory that is copied on write, @shared of
 * shared memory; of each table every page, or one alone. @step: by so many pages a process
 * is larger than the next. On one processor a counter of resident pages lacks up to 31, and
 * a process has three of them.
 */
struct memory {
	const char *name;
	size_t private, shared, pages_per_table, step;
};

static const struct memory memories[] = {
	{ "dense", 8, 8, TABLE / PAGE, 256 },
	{ "sparse", 96, 0, 1, 64 },
};

static const struct memory *memory = &memories[0];
static size_t sharers = 2;
static bool zygote, protect;
static int ready = -1;		/* the end of a pipe to which a child says that it stays */
static char *private, *shared;

/* What the kernel's log has said. */
static struct {
	size_t killed, family, out_of_order, descending;
	unsigned int victims;
	int last_sharer;
	enum role smallest;
	bool small;
} seen;

/* --- processes ------------------------------------------------------------------------ */

static void name_me(const char *name)
{
	if (prctl(PR_SET_NAME, name))
		die_errno("prctl(PR_SET_NAME)");
}

static void set_score_adj(const char *adj)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	if (fd < 0 || write(fd, adj, strlen(adj)) < 0)
		die_errno("/proc/self/oom_score_adj");
	close(fd);
}

/* The program from its first page to its last: the linker names both. */
extern char __executable_start[], end[];

static void stay(void)
{
	size_t before = (uintptr_t)__executable_start % PAGE;

	/* All map the same of the program: a fork leaves it to faults, unless tables are shared. */
	if (madvise(__executable_start - before, end - __executable_start + before,
		    MADV_POPULATE_READ))
		die_errno("madvise(MADV_POPULATE_READ)");
	if (write(ready, "", 1) != 1)
		bare_exit(1);
	for (;;)
		pause();
}

/* Start a process that becomes @what, and wait until it stays. */
static void start(void (*what)(size_t), size_t which)
{
	int said[2];
	pid_t pid;
	char c;

	if (pipe(said))
		die_errno("pipe");
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		/* Whoever started this one is to see that it has ended. */
		close(ready);
		close(said[0]);
		ready = said[1];
		what(which);
		stay();
	}
	close(said[1]);
	if (read(said[0], &c, 1) != 1)
		die("oom-victim: a process has ended too soon");
	close(said[0]);
}

/* So many pages of a process's own, which no child maps. */
static void own_pages(size_t pages)
{
	scratch_map(pages * PAGE);
}

/* The pages with which a process, with the tables they need, counts @points more. */
static size_t pages_of(size_t points)
{
	return points - (points + TABLE / PAGE) / (TABLE / PAGE + 1);
}

/* What the OOM killer counts of the memory that a sharer maps: pages and tables. */
static size_t sharer_points(void)
{
	return (memory->private + memory->shared) * (memory->pages_per_table + 1);
}

static void touch(char *start, size_t tables, bool write)
{
	for (size_t i = 0; i < tables; i++)
		for (size_t k = 0; k < memory->pages_per_table; k++) {
			volatile char *p = start + i * TABLE + k * PAGE;

			if (write)
				*p = 1;
			else
				(void)*p;
		}
}

static void be_sharer(size_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "sharer-%zu", i);
	name_me(i ? name : role_name[HEAVY]);
	if (protect)
		set_score_adj("0");
	if (!i)
		own_pages(pages_of(memory->step));
	/* A fork leaves shared memory to faults: whoever uses it reads it. */
	touch(shared, memory->shared, false);
}

static void be_zygote(size_t which)
{
	name_me(role_name[which]);
	/* Sparse memory is more than the guest has. */
	private = map_own_tables(memory->private * TABLE, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_NORESERVE);
	touch(private, memory->private, true);
	if (memory->shared)
		shared = map_own_tables(memory->shared * TABLE, PROT_READ | PROT_WRITE,
					MAP_SHARED);
	touch(shared, memory->shared, true);
	own_pages(pages_of(2 * memory->step));
	if (protect)
		set_score_adj("-1000");
	if (zygote)
		become_zygote(0);
	for (size_t i = 0; i < sharers; i++)
		start(be_sharer, i);
}

static void be_outsider(size_t which)
{
	name_me(role_name[which]);
	if (which == BIG)
		own_pages(pages_of(sharer_points() + 3 * memory->step));
	else if (which == SMALL)
		own_pages(pages_of(sharer_points() - memory->step));
	else
		own_pages(pages_of(memory->step));
}

/* Read what ps reads of every process. */
static void look_at_all(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (!proc)
		die_errno("/proc");
	while ((entry = readdir(proc))) {
		char path[300], text[1024];
		int fd;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
		fd = open(path, O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof(text)) <= 0)
			die_errno(path);
		close(fd);
	}
	closedir(proc);
}

/* --- the kernel's log ----------------------------------------------------------------- */

static enum role role_of(const char *name)
{
	for (size_t i = BIG; i < ARRAY_SIZE(role_name); i++)
		if (role_name[i] && !strcmp(name, role_name[i]))
			return i;
	return strncmp(name, "sharer-", 7) ? OTHER : SHARER;
}

static void count_victim(const char *name)
{
	enum role role = role_of(name);
	int sharer = role == SHARER ? atoi(name + strlen("sharer-")) : 0;

	/* One allocation may kill some more: the page allocator's lists keep what is freed. */
	if (seen.small)
		return;
	if (seen.killed < FIRST_VICTIMS)
		seen.victims = 10 * seen.victims + role;
	seen.killed++;
	seen.out_of_order += role < seen.smallest;
	seen.family += role == ZYGOTE || role == HEAVY || role == SHARER;
	if (role == SHARER) {
		seen.descending += sharer == seen.last_sharer - 1;
		seen.last_sharer = sharer;
	}
	seen.small |= role == SMALL;
	if (role > seen.smallest)
		seen.smallest = role;
}

/* Read what is new in the log. */
static void read_log(int log)
{
	static char text[KMSG_BYTES];
	ssize_t n;

	while ((n = read(log, text, sizeof(text) - 1)) > 0) {
		char *line, name[32];

		text[n] = '\0';
		line = strstr(text, ";Out of memory: Killed process ");
		if (line && sscanf(line, ";Out of memory: Killed process %*d (%31[^)])", name) == 1)
			count_victim(name);
	}
	if (n < 0 && errno != EAGAIN)
		die_errno("/dev/kmsg");
}

/* --- out of memory -------------------------------------------------------------------- */

/* Take memory until the smaller outsider is dead. */
static void run_out(int log)
{
	size_t size = sysconf(_SC_PHYS_PAGES) * PAGE, taken = 0;
	uint64_t time = 0;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die_errno("mmap");
	for (size_t at = 0; !seen.small; at += PAGE) {
		size_t before = seen.killed;
		uint64_t t = ticks();

		if (at == size)
			die("oom-victim: all memory is taken, and %zu were killed", before);
		*(volatile char *)(p + at) = 1;
		t = ticks() - t;
		read_log(log);
		if (seen.killed != before)
			time += t;
		if (!seen.killed)
			taken = at / PAGE + 1;
	}
	munmap(p, size);

	metric("victims", seen.victims, "roles");
	metric("killed", seen.killed, "processes");
	metric("family", seen.family, "processes");
	metric("out-of-order", seen.out_of_order, "processes");
	metric("descending", seen.descending, "processes");
	metric("taken", taken, "pages");
	metric("per-kill", time / seen.killed, "ns");
}

static void choose_memory(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(memories); i++)
		if (!strcmp(name, memories[i].name)) {
			memory = &memories[i];
			return;
		}
	die("oom-victim: the memory is dense or sparse, not %s", name);
}

int main(int argc, char **argv)
{
	bool look = false;
	int log;

	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote"))
			zygote = true;
		else if (!strcmp(argv[i], "--protect"))
			protect = true;
		else if (!strcmp(argv[i], "--look"))
			look = true;
		else if (!strcmp(argv[i], "--memory") && more)
			choose_memory(argv[++i]);
		else if (!strcmp(argv[i], "--sharers") && more)
			sharers = strtoul(argv[++i], NULL, 0);
		else
			die("oom-victim: what is %s?", argv[i]);
	}
	if (sharers < 2)
		die("oom-victim: at least 2 sharers");

	fixed_layout(argv);
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log < 0 || lseek(log, 0, SEEK_END) < 0)
		die_errno("/dev/kmsg");
	/* The killed are not waited for, neither here nor in the zygote. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	signal(SIGCHLD, SIG_IGN);
	start(be_outsider, BIG);
	start(be_outsider, SMALL);
	for (int i = 0; i < SPARES; i++)
		start(be_outsider, SPARE);
	start(be_zygote, ZYGOTE);
	if (look)
		look_at_all();
	set_score_adj("-1000");
	run_out(log);
	return 0;
}
