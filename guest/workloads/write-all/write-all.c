// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What it costs a cohort that each of its members writes to every table: the
 * case in which sharing saves nothing.
 *
 *   write-all [--zygote] [--sizes 2m,256m,...] [--rounds N] [--children N]
 *             [--parent-writes]
 *
 * The parent has touched every page of a private anonymous region; children are
 * forked, and each stores a byte to the first page of every table. Metrics, with
 * -S the size in megabytes, each round: fork-instructions-S of the first fork;
 * write-instructions-S of the first child's stores with their faults;
 * total-instructions-S from before the first fork until the last child has been
 * waited for. Then the kernel's counters over the last round.
 */
#include "../lib/counters.h"
#include "../lib/process.h"

#define MAX_SIZES 8
#define MAX_ROUNDS 100
#define MAX_CHILDREN 16

struct scratch {
	struct counter_reader reader;
	struct counters before, after;
	pid_t pid[MAX_CHILDREN];
	struct {
		uint64_t fork, write, total;
	} round[MAX_ROUNDS];
};

static void write_all(char *p, size_t size)
{
	for (size_t i = 0; i < size; i += TABLE)
		*(volatile char *)(p + i) = 2;
}

/* Through @told, shared memory, the first child reports its figure. */
static void one_round(struct scratch *s, int i, char *p, size_t size, int children,
		      bool parent_writes, volatile uint64_t *told)
{
	uint64_t t0, t1 = 0, t2;

	counters_read(&s->reader, &s->before);
	t0 = ticks();
	for (int c = 0; c < children; c++) {
		pid_t pid = bare_fork();

		if (!pid) {
			if (!c)
				*told = 0;	/* its fault is not to be counted */
			t2 = ticks();
			write_all(p, size);
			t2 = ticks() - t2;
			if (!c)
				*told = t2;
			bare_exit(0);
		}
		if (!c)
			t1 = ticks();
		if (pid < 0)
			die_errno("fork");
		s->pid[c] = pid;
	}
	if (parent_writes)
		write_all(p, size);
	for (int c = 0; c < children; c++)
		bare_wait(s->pid[c]);
	s->round[i].total = ticks() - t0;
	s->round[i].fork = t1 - t0;
	s->round[i].write = *told;
	counters_read(&s->reader, &s->after);
	counters_sub(&s->after, &s->before);
}

int main(int argc, char **argv)
{
	size_t size[MAX_SIZES] = { MB(2), MB(256) }, max;
	bool zygote = false, parent_writes = false;
	int sizes = 2, rounds = 5, children = 1;
	volatile uint64_t *told;
	struct scratch *s;
	char *p;

	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote")) {
			zygote = true;
		} else if (!strcmp(argv[i], "--parent-writes")) {
			parent_writes = true;
		} else if (!strcmp(argv[i], "--sizes") && more) {
			sizes = 0;
			for (char *t = strtok(strdup(argv[++i]), ","); t; t = strtok(NULL, ",")) {
				if (sizes == MAX_SIZES)
					die("at most %d sizes", MAX_SIZES);
				size[sizes++] = parse_size(t) & ~(TABLE - 1);
			}
		} else if (!strcmp(argv[i], "--rounds") && more) {
			rounds = atoi(argv[++i]);
		} else if (!strcmp(argv[i], "--children") && more) {
			children = atoi(argv[++i]);
		} else {
			die("write-all: what is %s?", argv[i]);
		}
	}
	if (!sizes || rounds < 1 || rounds > MAX_ROUNDS || children < 1 ||
	    children > MAX_CHILDREN)
		die("write-all: one to %d rounds of one to %d children", MAX_ROUNDS, MAX_CHILDREN);

	fixed_layout(argv);
	s = scratch_map(sizeof(*s));
	told = map_own_tables(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	*told = 0;
	counters_open(&s->reader);
	if (zygote)
		become_zygote(0);
	take_processor();

	for (int k = 0; k < sizes; k++) {
		char suffix[32], name[64];

		max = size[k];
		p = map_own_tables(max, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
		if (madvise(p, max, MADV_NOHUGEPAGE) && errno != EINVAL)
			die_errno("madvise(MADV_NOHUGEPAGE)");
		if (madvise(p, max, MADV_POPULATE_WRITE))
			die_errno("madvise(MADV_POPULATE_WRITE)");
		snprintf(suffix, sizeof(suffix), "-%zu", max >> 20);
		/* Unreported: it warms the allocator. */
		one_round(s, 0, p, max, children, parent_writes, told);
		for (int i = 0; i < rounds; i++)
			one_round(s, i, p, max, children, parent_writes, told);
		for (int i = 0; i < rounds; i++) {
			snprintf(name, sizeof(name), "fork-instructions%s", suffix);
			metric(name, s->round[i].fork, "instructions");
			snprintf(name, sizeof(name), "write-instructions%s", suffix);
			metric(name, s->round[i].write, "instructions");
			snprintf(name, sizeof(name), "total-instructions%s", suffix);
			metric(name, s->round[i].total, "instructions");
		}
		counters_print(&s->reader, &s->after, "round", suffix);
		munmap(p, max);
	}
	return 0;
}
