// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instances of one program, each started by exec.
 *
 *   join [--label NAME[,aslr=process]] [--fixed] [--instances 5] [--ready WORD]
 *        -- PROGRAM ARGUMENT...
 *
 * Starts them one after the other, as a runtime starts containers of one image, and
 * waits for each until it has printed a line that holds the word. All of them stay,
 * with an open standard input, until the last is ready. With --label they run in a
 * cgroup whose memory.cohort says so, with spaces for commas; with --fixed their addresses are not random.
 *
 * Metrics: start-instructions from the fork to the word, start-faults and start-file-faults
 * of each instance; table-pages, how many pages of page tables all of them need;
 * file-tables, the last-level tables of all of them that map a page of a file;
 * shared-table-pages, the sum of the tables that each shares; joined, opened and withdrawn,
 * how often that happened; memory, what is not free any more in KB.
 */
#include "../lib/counters.h"
#include "../lib/pages.h"
#include "../lib/process.h"

#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CGROUP "/sys/fs/cgroup/join"
#define MAX_INSTANCES 200
#define PM_PRESENT (1ULL << 63)
#define PM_FILE (1ULL << 61)

static const char *ready = "ready";
static bool fixed;

static int64_t vmstat(const char *name)
{
	static char text[VMSTAT_BYTES];
	int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		die_errno("/proc/vmstat");
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return vmstat_value(text, name);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die_errno(path);
	close(fd);
}

/* Let all programs that are executed from now on be members of a group. */
static void enter_group(char *label)
{
	for (char *c = label; *c; c++)
		if (*c == ',')
			*c = ' ';
	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		die_errno(CGROUP);
	put(CGROUP "/memory.cohort", label);
	put(CGROUP "/cgroup.procs", "0");
}

struct instance {
	pid_t pid;
	int in, out;		/* our ends of its standard input and output */
	uint64_t instructions, file_faults;
};

static void start(struct instance *p, char **argv)
{
	int in[2], out[2];
	uint64_t t0;

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		die_errno("pipe");
	t0 = ticks();
	p->pid = fork();
	if (p->pid < 0)
		die_errno("fork");
	if (!p->pid) {
		if (fixed)
			personality(ADDR_NO_RANDOMIZE);
		dup2(in[0], 0);
		dup2(out[1], 1);
		dup2(out[1], 2);
		execvp(argv[0], argv);
		die_errno(argv[0]);
	}
	close(in[0]);
	close(out[1]);
	p->in = in[1];
	p->out = out[0];
	p->instructions = t0;
}

/* Wait for the word. What the program printed before is shown if it never comes. */
static void wait_ready(struct instance *p)
{
	static char text[65536];
	size_t len = 0;

	while (len + 1 < sizeof(text)) {
		ssize_t n = read(p->out, text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			break;
		len += n;
		text[len] = '\0';
		if (strstr(text, ready)) {
			p->instructions = ticks() - p->instructions;
			return;
		}
	}
	die("the program has ended before it printed %s: %.1000s", ready, text);
}

/* How many faults a process has taken that needed no disk. */
static uint64_t minor_faults(pid_t pid)
{
	char path[64], line[1024];
	unsigned long faults = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f || !fgets(line, sizeof(line), f) || !strrchr(line, ')') ||
	    sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %lu", &faults) != 1)
		die("%s cannot be read", path);
	fclose(f);
	return faults;
}

/* Last-level tables of a process that map a page of a file or of shared memory. */
static uint64_t file_tables(pid_t pid)
{
	unsigned long start, end, table, last = -1UL;
	static uint64_t entry[512];
	char path[64], line[4096];
	uint64_t found = 0;
	FILE *maps;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (fd < 0 || !maps)
		die_errno(path);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 || (long)start < 0)
			continue;
		for (table = start / TABLE; table <= (end - 1) / TABLE; table++) {
			unsigned long from = table * TABLE > start ? table * TABLE : start;
			unsigned long to = (table + 1) * TABLE < end ? (table + 1) * TABLE : end;
			ssize_t n;

			if (table == last)
				continue;
			n = pread(fd, entry, (to - from) / PAGE * 8, from / PAGE * 8);
			for (ssize_t i = 0; i < n / 8; i++)
				if ((entry[i] & PM_PRESENT) && (entry[i] & PM_FILE)) {
					found++;
					last = table;
					break;
				}
		}
	}
	fclose(maps);
	close(fd);
	return found;
}

int main(int argc, char **argv)
{
	static struct instance instance[MAX_INSTANCES];
	int64_t tables, memory, joined, opened, withdrawn, file_faults;
	uint64_t file = 0, shared = 0;
	char *label = NULL;
	size_t instances = 5;
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--label") && more)
			label = argv[++i];
		else if (!strcmp(argv[i], "--fixed"))
			fixed = true;
		else if (!strcmp(argv[i], "--instances") && more)
			instances = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--ready") && more)
			ready = argv[++i];
		else
			die("join: what is %s?", argv[i]);
	}
	argv += i + 1;
	if (i + 1 >= argc || !instances || instances > MAX_INSTANCES)
		die("join: 1 to %d instances, and a program behind --", MAX_INSTANCES);
	if (label)
		enter_group(label);

	/* Once for nothing: the files are in the page cache then. */
	start(&instance[0], argv);
	wait_ready(&instance[0]);
	kill(instance[0].pid, SIGKILL);
	waitpid(instance[0].pid, NULL, 0);
	close(instance[0].in);
	close(instance[0].out);

	count_all();
	tables = vmstat("nr_page_table_pages");
	memory = vmstat("nr_free_pages");
	joined = vmstat("cohort_ptp_joined");
	opened = vmstat("cohort_ptp_opened");
	withdrawn = vmstat("cohort_ptp_withdrawn");
	for (size_t k = 0; k < instances; k++) {
		file_faults = vmstat("cohort_fault_file");
		start(&instance[k], argv);
		wait_ready(&instance[k]);
		instance[k].file_faults = vmstat("cohort_fault_file") - file_faults;
	}
	metric("table-pages", vmstat("nr_page_table_pages") - tables, "pages");
	metric("memory", (memory - vmstat("nr_free_pages")) * (PAGE / KB(1)), "KB");
	if (joined >= 0) {
		metric("joined", vmstat("cohort_ptp_joined") - joined, "tables");
		metric("opened", vmstat("cohort_ptp_opened") - opened, "tables");
		metric("withdrawn", vmstat("cohort_ptp_withdrawn") - withdrawn, "tables");
	}
	for (size_t k = 0; k < instances; k++) {
		struct instance *p = &instance[k];

		metric("start-instructions", p->instructions, "instructions");
		metric("start-faults", minor_faults(p->pid), "faults");
		metric("start-file-faults", p->file_faults, "faults");
		file += file_tables(p->pid);
		if (proc_field(p->pid, "cohort", "SharedTables") >= 0)
			shared += proc_field(p->pid, "cohort", "SharedTables");
	}
	metric("file-tables", file, "tables");
	metric("shared-table-pages", shared, "pages");
	for (size_t k = 0; k < instances; k++) {
		kill(instance[k].pid, SIGKILL);
		waitpid(instance[k].pid, NULL, 0);
	}
	return 0;
}
