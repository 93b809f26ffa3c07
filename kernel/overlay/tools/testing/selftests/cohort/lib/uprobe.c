// SPDX-License-Identifier: GPL-2.0-only
/* Uprobes: a function that the kernel counts the calls of. */
#include "../common.h"

#include <linux/perf_event.h>

/* ARM's uprobes know no Thumb code, which compilers make of all else */
#ifdef __arm__
__attribute__((target("arm")))
#endif
long probed(long a, long b)
{
	return a + b;
}

static int uprobe_type(void)
{
	char buf[16];

	if (read_text("/sys/bus/event_source/devices/uprobe/type", buf, sizeof(buf)) <= 0)
		return -1;
	return atoi(buf);
}

void need_uprobes(void)
{
	if (uprobe_type() < 0)
		skip("no uprobes in this kernel");
}

long probed_offset(void)
{
	unsigned long from, to, off;
	static char line[512];
	long found = -1;
	FILE *maps;

	maps = fopen("/proc/self/maps", "r");
	if (!maps)
		return -1;
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &off) == 3 &&
		    (unsigned long)probed >= from && (unsigned long)probed < to)
			found = (unsigned long)probed - from + off;
	fclose(maps);
	return found;
}

int count_calls(pid_t pid, int cpu)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = uprobe_type() };
	static char self[256];
	ssize_t n;
	int fd;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	must(n > 0, "readlink: %s", strerror(errno));
	self[n] = 0;
	attr.config1 = (uintptr_t)self;
	attr.config2 = probed_offset();
	must(attr.config2 != -1ull, "our own code is not in our maps");
	fd = syscall(__NR_perf_event_open, &attr, pid, cpu, -1, 0);
	if (fd < 0)
		skip("perf_event_open of a uprobe: %s", strerror(errno));
	return fd;
}

long hits(int fd)
{
	__u64 n = 0;

	must(read(fd, &n, sizeof(n)) == sizeof(n), "perf event: %s", strerror(errno));
	return n;
}
