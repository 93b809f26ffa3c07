// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A zygote of real libraries, and what its children cost.
 *
 *   zygote fork    [OPTIONS]   40 forks: instructions, tables, entries (Table 4)
 *   zygote inherit [OPTIONS]   code entries that applications find (Table 3)
 *   zygote launch  [OPTIONS]   fork to the application's first own code (Figures 7, 9)
 *   zygote footprint [OPTIONS] applications that stay, for others to read what code they ran
 *   zygote ipc     [OPTIONS]   two children, one calling the other by binder (Figure 13)
 *   zygote beside  [OPTIONS]   what --beside starts
 *
 *   --zygote          ask the kernel to share page tables
 *   --tlb             ask it to share TLB entries too
 *   --layout shipped  libraries as the dynamic linker places them (default)
 *   --layout 2mb      code and data of a library in 2 MB ranges of their own
 *   --rounds N        default 40, launch 100
 *   --code N          code entries to populate before the first fork (5900)
 *   --copied N        entries that a stock fork has to copy (3900)
 *   --calls N         ipc: how many (100000)
 *   --server          ipc: the server is the one that a translation model counts, not the client
 *   --beside          ipc: a program outside the zygote's family runs the same libraries meanwhile
 *
 * It loads the list in libraries.c, reads code pages until so many of their
 * entries are populated, and fills the heap until so many entries are there
 * that a stock fork copies. Both numbers are the paper's zygote's.
 */
#include "zygote.h"

#define LIBRARIES_NEEDED 88

struct options opt;
struct scratch *s;

static void print_zygote(const struct loader *l)
{
	struct footprint fp;

	footprint_read(&fp, &s->regions, s);
	metric("libraries", objects_loaded(), "libraries");
	metric("libraries-separated", l->separated, "libraries");
	metric("regions", fp.regions, "regions");
	metric("code-entries", fp.code, "PTEs");
	metric("copied-by-stock", fp.copied, "PTEs");
	metric("zygote-table-kb", proc_field(getpid(), "status", "VmPTE"), "KB");
	fflush(stdout);
}

static void options_parse(int argc, char **argv)
{
	if (argc < 2)
		die("usage: zygote fork|inherit|launch|footprint|ipc [OPTIONS]");
	opt = (struct options){ .what = argv[1], .code = 5900, .copied = 3900, .calls = 100000 };
	opt.rounds = !strcmp(opt.what, "launch") ? 100 : 40;
	for (int i = 2; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--zygote"))
			opt.zygote = true;
		else if (!strcmp(argv[i], "--tlb"))
			opt.tlb = true;
		else if (!strcmp(argv[i], "--server"))
			opt.server = true;
		else if (!strcmp(argv[i], "--beside"))
			opt.beside = true;
		else if (!strcmp(argv[i], "--calls") && more)
			opt.calls = atol(argv[++i]);
		else if (!strcmp(argv[i], "--layout") && more && !strcmp(argv[i + 1], "shipped"))
			i++;
		else if (!strcmp(argv[i], "--layout") && more && !strcmp(argv[i + 1], "2mb"))
			opt.separate = ++i;
		else if (!strcmp(argv[i], "--rounds") && more)
			opt.rounds = atoi(argv[++i]);
		else if (!strcmp(argv[i], "--code") && more)
			opt.code = atol(argv[++i]);
		else if (!strcmp(argv[i], "--copied") && more)
			opt.copied = atol(argv[++i]);
		else
			die("zygote: what is %s?", argv[i]);
	}
	if (opt.rounds < 1 || opt.rounds > MAX_ROUNDS)
		die("zygote: one to %d rounds", MAX_ROUNDS);
}

int main(int argc, char **argv)
{
	struct loader l = { 0 };

	options_parse(argc, argv);
	if (opt.tlb)
		lead_tlb_group(argv);
	fixed_layout(argv);
	l.separate = opt.separate;
	s = scratch_map(sizeof(*s));
	libraries_load(&l, &s->regions);
	if (objects_loaded() < LIBRARIES_NEEDED)
		die("%d shared libraries here, %d needed", objects_loaded(), LIBRARIES_NEEDED);
	if (!parts_find())
		die("none of the parts is here");
	if (!strcmp(opt.what, "launch")) {
		if (!application_whole(HELLO))
			die("the application to launch lacks parts");
		/* Before the heap is filled up: what it allocates counts. */
		application_run(HELLO);
	}
	populate_heap(opt.copied);
	populate_code_about(opt.code);
	print_zygote(&l);

	if (!strcmp(opt.what, "footprint")) {
		/* Its children share the processor with those who watch them. */
		run_footprint();
		return 0;
	}
	counters_open(&s->reader);
	take_processor();
	if (!strcmp(opt.what, "fork"))
		run_fork();
	else if (!strcmp(opt.what, "inherit"))
		run_inherit();
	else if (!strcmp(opt.what, "launch"))
		run_launch();
	else if (!strcmp(opt.what, "ipc"))
		run_ipc();
	else if (!strcmp(opt.what, "beside"))
		run_beside();
	else
		die("zygote: %s is not fork, inherit, launch, footprint or ipc", opt.what);
	return 0;
}
