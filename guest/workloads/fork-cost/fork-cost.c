// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a fork costs a process that has touched so much memory: instructions in
 * the parent until fork returns, instructions from there until the child has
 * left and been waited for, and the kernel's counters for both.
 *
 *   fork-cost [--zygote] [--kind anon|shared|file] [--sizes 1m,4m,...]
 *             [--rounds N] [--budget SIZE] [--child-writes N]
 *
 * Metrics, with -S the size in megabytes: fork-instructions-S and
 * exit-instructions-S a round, fork-ptp-alloc-S ... of the last round.
 */
#include "../lib/counters.h"
#include "../lib/process.h"

#define MAX_SIZES 16
#define MAX_ROUNDS 200

/* All that is written between a fork and the end of its round. */
struct scratch {
	struct counter_reader reader;
	struct counters before, forked, after;
	struct {
		uint64_t fork, exit;
		struct counters in_fork, in_exit;
	} round[MAX_ROUNDS];
};

struct options {
	bool zygote;
	const char *kind;
	size_t size[MAX_SIZES];
	int sizes;
	int rounds;
	size_t budget;
	size_t child_writes;
};

static size_t parse_sizes(struct options *o, char *list)
{
	size_t max = 0;

	o->sizes = 0;
	for (char *s = strtok(list, ","); s; s = strtok(NULL, ",")) {
		if (o->sizes == MAX_SIZES)
			die("at most %d sizes", MAX_SIZES);
		o->size[o->sizes] = parse_size(s) & ~(PAGE - 1);
		if (o->size[o->sizes] < max)
			die("sizes must grow: the region is touched once, step by step");
		max = o->size[o->sizes++];
	}
	return max;
}

static char *map_region(const struct options *o, size_t size)
{
	int prot = PROT_READ | PROT_WRITE;
	char *p;
	int fd;

	if (!strcmp(o->kind, "anon"))
		p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	else if (!strcmp(o->kind, "shared"))
		p = mmap(NULL, size, prot, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	else if (!strcmp(o->kind, "file")) {
		fd = memfd_create("fork-cost", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, size))
			die_errno("memfd_create");
		p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	} else
		die("--kind %s: anon, shared or file", o->kind);
	if (p == MAP_FAILED)
		die_errno("mmap");
	/* Base pages: the entries are what fork copies and a cohort shares. */
	if (madvise(p, size, MADV_NOHUGEPAGE) && errno != EINVAL)
		die_errno("madvise(MADV_NOHUGEPAGE)");
	return p;
}

static void touch(const struct options *o, char *p, size_t from, size_t to)
{
	bool read_only = !strcmp(o->kind, "file");

	if (from >= to)
		return;
	if (!madvise(p + from, to - from, read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE))
		return;
	if (errno != EINVAL)
		die_errno("madvise(MADV_POPULATE)");
	for (size_t i = from; i < to; i += PAGE) {
		if (read_only)
			(void)*(volatile char *)(p + i);
		else
			*(volatile char *)(p + i) = 1;
	}
}

static void one_round(struct scratch *s, int i, char *p, size_t size, size_t writes)
{
	uint64_t t0, t1, t2;
	pid_t pid;

	counters_read(&s->reader, &s->before);
	t0 = ticks();
	pid = bare_fork();
	if (!pid) {
		for (size_t w = 0; w < writes; w++)
			*(volatile char *)(p + size / writes * w) = 2;
		bare_exit(0);
	}
	t1 = ticks();
	counters_read(&s->reader, &s->forked);
	if (pid < 0)
		die_errno("fork");
	t2 = ticks();
	bare_wait(pid);
	s->round[i].exit = ticks() - t2;
	s->round[i].fork = t1 - t0;
	counters_read(&s->reader, &s->after);
	counters_sub(&s->after, &s->forked);
	counters_sub(&s->forked, &s->before);
	s->round[i].in_fork = s->forked;
	s->round[i].in_exit = s->after;
}

int main(int argc, char **argv)
{
	char sizes[] = "1m,4m,16m,64m,256m,1g";
	struct options o = { .kind = "anon", .rounds = 40, .budget = (size_t)8 << 30 };
	struct scratch *s;
	size_t max, done = 0;
	char *p;

	max = parse_sizes(&o, sizes);
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote"))
			o.zygote = true;
		else if (!strcmp(argv[i], "--kind") && more)
			o.kind = argv[++i];
		else if (!strcmp(argv[i], "--sizes") && more)
			max = parse_sizes(&o, strdup(argv[++i]));
		else if (!strcmp(argv[i], "--rounds") && more)
			o.rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--budget") && more)
			o.budget = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--child-writes") && more)
			o.child_writes = atol(argv[++i]);
		else
			die("fork-cost: what is %s?", argv[i]);
	}
	if (!o.sizes || o.rounds < 1 || o.rounds > MAX_ROUNDS)
		die("fork-cost: one to %d rounds of at least one size", MAX_ROUNDS);
	if (o.child_writes && !strcmp(o.kind, "file"))
		die("fork-cost: the file is mapped for reading");

	fixed_layout(argv);
	p = map_region(&o, max);
	s = scratch_map(sizeof(*s));
	counters_open(&s->reader);
	if (o.zygote)
		become_zygote(0);
	take_processor();

	for (int k = 0; k < o.sizes; k++) {
		size_t size = o.size[k];
		int rounds = o.rounds;
		char suffix[32];
		char name[64];

		/*
		 * Copying a large process's tables is slow in a guest without
		 * hardware virtualization and varies little: keep the memory that
		 * all rounds of a size go over within a budget, three at least.
		 */
		while (rounds > 3 && rounds * size > o.budget)
			rounds--;
		touch(&o, p, done, size);
		done = size;
		snprintf(suffix, sizeof(suffix), "-%zu", size >> 20);
		/* Unreported: it warms the allocator and the kernel's caches. */
		one_round(s, 0, p, size, o.child_writes);
		for (int i = 0; i < rounds; i++)
			one_round(s, i, p, size, o.child_writes);

		for (int i = 0; i < rounds; i++) {
			snprintf(name, sizeof(name), "fork-instructions%s", suffix);
			metric(name, s->round[i].fork, "instructions");
			snprintf(name, sizeof(name), "exit-instructions%s", suffix);
			metric(name, s->round[i].exit, "instructions");
		}
		counters_print(&s->reader, &s->round[rounds - 1].in_fork, "fork", suffix);
		counters_print(&s->reader, &s->round[rounds - 1].in_exit, "exit", suffix);
		fflush(stdout);
	}
	return 0;
}
