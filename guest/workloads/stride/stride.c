// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A heap that is strided over, at many sizes: where does it stop fitting into
 * TLBs and caches? (S. Winwood, Y. Shuf, H. Franke, OLS 2002, section 5.1.)
 *
 *   stride [--order N | --native 0|1] [--max SIZE] [--step SIZE] [--every PAGES] [--accesses N]
 *
 * The heap is one region of --max bytes, in pages of order N if that is given (0
 * for base pages), else by the machine's rules, and all of it is written first.
 * With --native it runs on a machine as it is, in base pages (0) or in huge ones
 * (1), and keeps its ordinary priority.
 * Then, for each size of --step, two steps, ... up to --max: a word of every
 * --every'th page of so much of it is read, one cache line further in each than
 * in the one before, so that neighbours do not meet in one set of a cache. One
 * pass warms up, then --accesses reads go round and round in a region of the
 * translation model that has the size in KB as its number.
 *
 * Metrics: init-faults and init-instructions of writing the heap; the model's for
 * each size, in order, or with --native the ticks of the processor's clock.
 */
#include "../lib/process.h"

#include <sys/resource.h>

#include "../lib/mark.h"

#define LINE 64

static uint64_t faults(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		die_errno("getrusage");
	return usage.ru_minflt + usage.ru_majflt;
}

/* The loop that is measured: it touches no memory but the heap. */
__attribute__((noinline))
static void read_round(const char *heap, size_t pages, size_t every, size_t accesses)
{
	size_t page = 0;

	for (size_t i = 0; i < accesses; i++) {
		*(volatile const uint64_t *)(heap + page * every * PAGE + page * LINE % PAGE);
		if (++page == pages)
			page = 0;
	}
}

int main(int argc, char **argv)
{
	size_t max = MB(32), step = KB(128), every = 16, accesses = 16384;
	unsigned long order = -1UL;
	int native = -1;
	uint64_t before, start;
	char *heap;

	for (int i = 1; i < argc; i++) {
		if (i + 1 == argc)
			die("%s: no value", argv[i]);
		if (!strcmp(argv[i], "--order"))
			order = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--native"))
			native = !!parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--max"))
			max = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--step"))
			step = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--every"))
			every = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--accesses"))
			accesses = parse_size(argv[++i]);
		else
			die("%s: unknown option", argv[i]);
	}
	if (!every || !step || step % (every * PAGE) || max % step)
		die("--max must be steps, and a step pages that are read");
	fixed_layout(argv);
	if (native < 0)
		take_processor();

	heap = map_own_tables(max, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	if (order != -1UL && madvise(heap, max, MADV_ORDER | order << MADV_ORDER_SHIFT))
		die("madvise of order %lu: %s", order, strerror(errno));
	if (native >= 0 && madvise(heap, max, native ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		die_errno("madvise for huge pages");
	before = faults();
	start = ticks();
	for (size_t at = 0; at < max; at += LINE)
		*(volatile uint64_t *)(heap + at) = at;
	start = ticks() - start;
	before = faults() - before;
	metric("init-instructions", start, "instructions");
	metric("init-faults", before, "faults");
	fflush(stdout);

	mark(MARK_WARM, 0);
	for (size_t size = step; size <= max; size += step) {
		size_t pages = size / PAGE / every;

		read_round(heap, pages, every, pages);
		mark(MARK_START, size >> 10);
		start = ticks();
		read_round(heap, pages, every, accesses);
		start = ticks() - start;
		mark(MARK_STOP, 0);
		if (native >= 0)
			metric("ticks", start, "ticks");
	}
	return 0;
}
