// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Containers of one image, started by crun one after the other.
 *
 *   bring-up [--containers 10] [--ready WORD] NAME
 *
 * /lab/files/bundle.py has made /run/bundle/NAME-1 and so on, one more than containers. The last
 * is started and ended before, so that files are in memory. All others stay. Each is created and
 * started by two commands, as engines do, and is ready when its program has printed a line that
 * holds the word.
 *
 * Metrics, one of each container: create-instructions, of `crun create`; exec-instructions,
 * from the start of `crun start` to the first instruction of the program; program-instructions,
 * from there to the word; bring-up-instructions, the sum. The processor's idle time, in which
 * crun waits for the kernel, is left out. file-faults, of the program and crun together, and
 * faults, of the program alone. For all containers: table-pages, file-tables, joined, opened and
 * withdrawn, and memory, as in join.
 */
#include "../lib/counters.h"
#include "../lib/instance.h"
#include "../lib/pages.h"

#include <sys/wait.h>

#define MAX_CONTAINERS 100
#define TRACING "/sys/kernel/tracing/"

/* A moment: ticks, and how many of those before the processor was idle. */
struct moment {
	uint64_t ticks, idle;
};

static struct {
	struct instance crun;
	pid_t pid;
	struct moment begin, created, ready;
	uint64_t exec;
	int64_t file_faults;
} container[MAX_CONTAINERS];

/* Nanoseconds that the only processor has been idle; one is one tick. */
static uint64_t idle_time(void)
{
	static char text[KB(64)];
	int fd = open("/proc/timer_list", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;
	char *p;

	if (fd < 0)
		die_errno("/proc/timer_list");
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += n;
	close(fd);
	text[len] = '\0';
	p = strstr(text, ".idle_sleeptime");
	if (!p || !(p = strchr(p, ':')))
		die("/proc/timer_list has no idle_sleeptime");
	return strtoull(p + 1, NULL, 10);
}

static struct moment now(void)
{
	struct moment m = { .idle = idle_time() };

	m.ticks = ticks();
	return m;
}

static pid_t run(char **argv)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		execvp(argv[0], argv);
		die_errno(argv[0]);
	}
	return pid;
}

static void wait_for(pid_t pid, const char *what)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		die("%s ended with wait status 0x%x", what, status);
}

/* When the process last executed a program, from the trace. */
static uint64_t exec_time(pid_t pid)
{
	char line[1024], want[32];
	uint64_t time = 0;
	FILE *f = fopen(TRACING "trace", "re");

	if (!f)
		die_errno(TRACING "trace");
	snprintf(want, sizeof(want), " pid=%d ", pid);
	while (fgets(line, sizeof(line), f)) {
		char *event = strstr(line, ": sched_process_exec: ");

		if (!event || !strstr(event, want))
			continue;
		*event = '\0';
		time = strtoull(strrchr(line, ' ') + 1, NULL, 10);
	}
	fclose(f);
	if (!time)
		die("the trace has no exec of process %d", pid);
	return time;
}

static void bring_up(size_t i, const char *prefix, const char *ready)
{
	char name[64], bundle[128], file[128], text[16] = "";
	char *create[] = { "crun", "create", "--bundle", bundle, "--pid-file", file, name, NULL };
	char *start[] = { "crun", "start", name, NULL };
	int64_t before = vmstat("cohort_fault_file");
	pid_t starter;
	int fd;

	snprintf(name, sizeof(name), "%s-%zu", prefix, i + 1);
	snprintf(bundle, sizeof(bundle), "/run/bundle/%s", name);
	snprintf(file, sizeof(file), "/run/bundle/%s/pid", name);
	container[i].begin = now();
	instance_start(&container[i].crun, create, i + 1);
	wait_for(container[i].crun.pid, "crun create");
	container[i].created = now();
	starter = run(start);
	instance_wait(&container[i].crun, ready);
	container[i].ready = now();
	wait_for(starter, "crun start");
	container[i].file_faults = vmstat("cohort_fault_file") - before;

	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		die_errno(file);
	close(fd);
	container[i].pid = atoi(text);
	container[i].exec = exec_time(container[i].pid);
}

static void finish(size_t i, const char *prefix)
{
	char name[64];
	char *delete[] = { "crun", "delete", "--force", name, NULL };

	snprintf(name, sizeof(name), "%s-%zu", prefix, i + 1);
	wait_for(run(delete), "crun delete");
	instance_kill(&container[i].crun);
}

int main(int argc, char **argv)
{
	struct run_counts counts;
	const char *ready = "ready", *name = NULL;
	size_t containers = 10, files = 0;

	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--containers") && more)
			containers = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--ready") && more)
			ready = argv[++i];
		else if (argv[i][0] != '-' && !name)
			name = argv[i];
		else
			die("bring-up: what is %s?", argv[i]);
	}
	if (!name || !containers || containers >= MAX_CONTAINERS)
		die("bring-up: the name of bundles, and 1 to %d containers", MAX_CONTAINERS - 1);

	/* One tick is one nanosecond and one instruction. */
	put(TRACING "trace_clock", "x86-tsc");
	put(TRACING "events/sched/sched_process_exec/enable", "1");
	count_all();
	bring_up(containers, name, ready);
	finish(containers, name);

	run_begin(&counts);
	for (size_t i = 0; i < containers; i++)
		bring_up(i, name, ready);
	run_print(&counts);
	for (size_t i = 0; i < containers; i++) {
		struct moment *begin = &container[i].begin, *created = &container[i].created,
			      *end = &container[i].ready;
		uint64_t create = created->ticks - begin->ticks - (created->idle - begin->idle);
		uint64_t start = end->ticks - created->ticks - (end->idle - created->idle);
		uint64_t program = end->ticks - container[i].exec;

		metric("create-instructions", create, "instructions");
		metric("exec-instructions", start - program, "instructions");
		metric("program-instructions", program, "instructions");
		metric("bring-up-instructions", create + start, "instructions");
		metric("file-faults", container[i].file_faults, "faults");
		metric("faults", minor_faults(container[i].pid), "faults");
		files += file_tables(container[i].pid);
	}
	metric("file-tables", files, "tables");
	return 0;
}
