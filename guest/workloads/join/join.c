// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instances of one program, each started by exec.
 *
 *   join [--label NAME[,aslr=process]] [--keep-ids] [--fixed] [--instances 5] [--ready WORD]
 *        -- PROGRAM ARGUMENT...
 *
 * Starts them one after the other, as a runtime starts containers of one image, and
 * waits for each until it has printed a line that holds the word. All of them stay,
 * with an open standard input, until the last is ready; each finds its number, from 1, as
 * INSTANCE in its environment. They run in a cgroup of their own, as containers and services do.
 * With --label its memory.cohort says so, with spaces for commas; --keep-ids adds that word. With
 * --fixed their addresses are not random.
 *
 * Metrics: start-instructions from the fork to the word, start-faults (of its first process
 * alone) and start-file-faults of each instance; table-pages, how many pages of page tables all
 * of them need; processes; file-tables, the last-level tables of all processes that map a page
 * of a file; shared-table-pages, the sum of the tables that each process shares; of all but the
 * first instance, file-pages, the pages of files that their processes have mapped, and
 * found-pages, those of them in tables that others are charged for; joined, opened and
 * withdrawn, how often that happened; memory, what is not free any more in KB.
 */
#include "../lib/counters.h"
#include "../lib/instance.h"
#include "../lib/pages.h"

#include <sys/personality.h>
#include <sys/stat.h>

#define CGROUP "/sys/fs/cgroup/join"
#define MAX_INSTANCES 200

/*
 * Let all programs that are executed from now on run in a cgroup, which is charged for what the
 * kernel allocates for them, with @label if that is not NULL.
 */
static void enter_cgroup(const char *label, bool keep_ids)
{
	char text[128];

	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		die_errno(CGROUP);
	if (label) {
		snprintf(text, sizeof(text), "%s%s", label, keep_ids ? " keep-ids" : "");
		for (char *c = text; *c; c++)
			if (*c == ',')
				*c = ' ';
		put(CGROUP "/memory.cohort", text);
	}
	put(CGROUP "/cgroup.procs", "0");
}

/* A line of /proc/PID/FILE; 0 on a kernel that has none. */
static uint64_t kilobytes(pid_t pid, const char *file, const char *key)
{
	long value = proc_field(pid, file, key);

	return value > 0 ? value : 0;
}

/* Sums over processes; of newcomers also what they have mapped of files. */
struct sums {
	size_t processes, file_tables, shared_tables;
	uint64_t mapped, found;
};

/* Add a process with all below it. */
static void add(struct sums *s, pid_t pid, bool newcomer)
{
	long shared = proc_field(pid, "cohort", "SharedTables");
	char path[64];
	FILE *f;
	int child;

	s->processes++;
	s->file_tables += file_tables(pid);
	s->shared_tables += shared > 0 ? shared : 0;
	if (newcomer) {
		s->mapped += kilobytes(pid, "status", "RssFile") +
			     kilobytes(pid, "status", "RssShmem");
		s->found += kilobytes(pid, "cohort", "BorrowedFile") +
			    kilobytes(pid, "cohort", "BorrowedShmem");
	}
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(path, "re");
	if (!f)
		die_errno(path);
	while (fscanf(f, "%d", &child) == 1)
		add(s, child, newcomer);
	fclose(f);
}

int main(int argc, char **argv)
{
	static struct instance instance[MAX_INSTANCES];
	static uint64_t instructions[MAX_INSTANCES], file_faults[MAX_INSTANCES];
	struct run_counts counts;
	const char *ready = "ready";
	struct sums sums = { 0 };
	const char *label = NULL;
	bool keep_ids = false;
	size_t instances = 5;
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--label") && more)
			label = argv[++i];
		else if (!strcmp(argv[i], "--keep-ids"))
			keep_ids = true;
		else if (!strcmp(argv[i], "--fixed"))
			personality(ADDR_NO_RANDOMIZE);
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
	enter_cgroup(label, keep_ids);

	/* Once for nothing: the files are in the page cache then. */
	instance_start(&instance[0], argv, 0);
	instance_wait(&instance[0], ready);
	instance_kill(&instance[0]);

	count_all();
	run_begin(&counts);
	for (size_t k = 0; k < instances; k++) {
		struct instance *p = &instance[k];
		int64_t before = vmstat("cohort_fault_file");

		instance_start(p, argv, k + 1);
		instructions[k] = instance_wait(p, ready) - p->started;
		file_faults[k] = vmstat("cohort_fault_file") - before;
	}
	run_print(&counts);
	for (size_t k = 0; k < instances; k++) {
		struct instance *p = &instance[k];

		metric("start-instructions", instructions[k], "instructions");
		metric("start-faults", minor_faults(p->pid), "faults");
		metric("start-file-faults", file_faults[k], "faults");
		add(&sums, p->pid, k);
	}
	metric("processes", sums.processes, "processes");
	metric("file-tables", sums.file_tables, "tables");
	metric("shared-table-pages", sums.shared_tables, "pages");
	metric("file-pages", sums.mapped / (PAGE / KB(1)), "pages");
	metric("found-pages", sums.found / (PAGE / KB(1)), "pages");
	return 0;
}
