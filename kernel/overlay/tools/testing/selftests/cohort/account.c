// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accounts: what the kernel reports for each process must be what its page tables
 * hold, and the sum over all processes must be the pages that exist.
 */
#include "common.h"

#include <dirent.h>
#include <sched.h>

#define PM_FILE		0x2000000000000000ULL
/* More than three tables, each of up to 2,048 entries (with pages of 16 KB). */
#define MAX_PAGES	8192

struct scan {
	long anon, file, swap;		/* pages */
	int nr_pfns;
	__u64 pfn[MAX_PAGES];
};

static __u64 zero_pfn;

static void find_zero_page(void)
{
	char *p = mmap(NULL, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED, "mmap: %s", strerror(errno));
	touch(p);
	zero_pfn = pagemap_entry(0, p) & PM_PFN;
	munmap(p, page_size);
	if (!zero_pfn)
		skip("page frame numbers are hidden");
}

/* read the entries of a process's page tables in a range */
static void scan_range(struct scan *s, pid_t pid, char *start, size_t len)
{
	static __u64 entry[MAX_PAGES];
	size_t n = len / page_size;
	char path[64];
	int fd;

	must(n <= MAX_PAGES, "the range is too large to look at");
	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	must(pread(fd, entry, n * sizeof(*entry), (uintptr_t)start / page_size * sizeof(*entry)) ==
	     (ssize_t)(n * sizeof(*entry)), "%s is short", path);
	close(fd);
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < n; i++) {
		__u64 pfn = entry[i] & PM_PFN;

		if (entry[i] & PM_SWAP)
			s->swap++;
		if (!(entry[i] & PM_PRESENT) || pfn == zero_pfn)
			continue;
		if (entry[i] & PM_FILE)
			s->file++;
		else
			s->anon++;
		s->pfn[s->nr_pfns++] = pfn;
	}
}

/* sums over the regions of a range in /proc/PID/smaps, in kB */
struct smaps {
	long rss, pss, shared, private;
	long regions;
};

static void smaps_range(struct smaps *s, pid_t pid, char *start, size_t len)
{
	char path[64], line[256];
	bool in = false;
	FILE *f;

	memset(s, 0, sizeof(*s));
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	f = fopen(path, "r");
	must(f, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		unsigned long from, to;
		char key[32];
		long value;

		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			in = from < (uintptr_t)start + len && to > (uintptr_t)start;
			s->regions += in;
			continue;
		}
		if (!in || sscanf(line, "%31[^:]: %ld", key, &value) != 2)
			continue;
		if (!strcmp(key, "Rss"))
			s->rss += value;
		else if (!strcmp(key, "Pss"))
			s->pss += value;
		else if (!strncmp(key, "Shared_", 7) && !strstr(key, "Hugetlb"))
			s->shared += value;
		else if (!strncmp(key, "Private_", 8) && !strstr(key, "Hugetlb"))
			s->private += value;
	}
	fclose(f);
}

static int compare_pfn(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * Compare smaps of the area with the page tables of each process in the mask, and
 * the sum of the proportional sizes with the distinct pages.
 */
static void check_sums(unsigned long mask, const char *when)
{
	static __u64 all[MAX_PAGES * 8];
	size_t len = 4 * table_size;
	long kb = page_size / 1024, pss = 0, unique = 0, regions = 0;
	static struct scan scan;
	struct smaps s;
	int n = 0;

	for (int who = 0; who < MAX_PEERS && mask >> who; who++) {
		if (!(mask & 1UL << who))
			continue;
		scan_range(&scan, pid_of(who), area.base, len);
		smaps_range(&s, pid_of(who), area.base, len);
		must(s.rss == scan.nr_pfns * kb, "%s: process %d: Rss %ld kB, %d pages", when, who,
		     s.rss, scan.nr_pfns);
		must(s.shared + s.private == s.rss,
		     "%s: process %d: shared %ld, private %ld, Rss %ld", when, who, s.shared,
		     s.private, s.rss);
		pss += s.pss;
		regions += s.regions;
		must(n + scan.nr_pfns <= (int)ARRAY_SIZE(all), "too many pages");
		memcpy(all + n, scan.pfn, scan.nr_pfns * sizeof(*all));
		n += scan.nr_pfns;
	}
	qsort(all, n, sizeof(*all), compare_pfn);
	for (int i = 0; i < n; i++)
		if (!i || all[i] != all[i - 1])
			unique++;
	/* smaps rounds each region's size down to a kB */
	must(pss <= unique * kb && pss >= unique * kb - regions,
	     "%s: all Pss together are %ld kB, but there are %ld pages of %ld kB", when, pss,
	     unique, kb);
}

static void test_pss(long arg)
{
	find_zero_page();
	area_make(&area, ARG_KIND(arg));
	check_sums(1, "before fork");
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	for (int i = 0; i <= 3; i++)
		model_init(&board->model[i], &area);
	check_sums(0xf, "after fork");
	ask(1, spots_touch, (long)&area, 0);
	check_sums(0xf, "after a child read");
	ask(2, model_scribble, 2, 4);
	check_sums(0xf, "after a child wrote");
	ask(SELF, model_scribble, 0, 4);
	check_sums(0xf, "after the parent wrote");
	spawn_from(1, 4);
	check_sums(0x1f, "after a child forked");
	quit(1);
	check_sums(0x1d, "after that child went");
	area_unmap(&area);
	check_sums(0x1d, "after the parent unmapped");
	quit(2);
	quit(3);
	check_sums(0x11, "when one is left");
}

/*
 * smaps counts a page as shared while two processes map it, through one table or
 * two.
 */
static void test_shared_private(long arg)
{
	size_t len = 4 * table_size;
	struct smaps s;

	area_make(&area, ARG_KIND(arg));
	smaps_range(&s, getpid(), area.base, len);
	must(!s.shared && s.private == s.rss, "alone: %ld kB shared, %ld private", s.shared,
	     s.private);
	become_zygote();
	spawn(1);
	ask(1, spots_touch, (long)&area, 0);
	for (int i = 0; i <= 1; i++) {
		smaps_range(&s, pid_of(i), area.base, len);
		must(!s.private && s.shared == s.rss, "process %d of two: %ld kB private", i,
		     s.private);
		must(s.pss <= s.rss / 2 && s.pss >= s.rss / 2 - 4,
		     "process %d of two: Pss %ld kB of Rss %ld", i, s.pss, s.rss);
		must(!(pagemap_entry(pid_of(i), area.spot[0].addr) & PM_EXCLUSIVE),
		     "pagemap calls a page of two processes exclusive");
	}
	ask(1, forget_area, 0, 0);
	smaps_range(&s, getpid(), area.base, len);
	must(!s.shared && s.private == s.rss, "alone again: %ld kB shared", s.shared);
	must(pagemap_entry(0, area.spot[0].addr) & PM_EXCLUSIVE,
	     "pagemap does not call a page of one process exclusive");
}

/* --- the counters behind VmRSS -------------------------------------------- */

static long rss(pid_t pid)
{
	return proc_field(pid, "status", "VmRSS");
}

static void one_cpu(void)
{
	cpu_set_t set;

	/* stay on one CPU: each CPU keeps a remainder of the counters */
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* a process unmaps the area: VmRSS must fall by what its page tables held */
static void check_fall(int who, const char *when)
{
	static struct scan scan;
	long anon, file, before, fall, kb = page_size / 1024;
	pid_t pid = pid_of(who);

	/*
	 * Let the process answer once before counting: its answer writes, which
	 * unshares the table of the program's data.
	 */
	ask(who, nothing, 0, 0);
	scan_range(&scan, pid, area.base, 4 * table_size);
	anon = proc_field(pid, "status", "RssAnon");
	file = proc_field(pid, "status", "RssFile") + proc_field(pid, "status", "RssShmem");
	before = rss(pid);
	ask(who, forget_area, 0, 0);
	anon -= proc_field(pid, "status", "RssAnon");
	file -= proc_field(pid, "status", "RssFile") + proc_field(pid, "status", "RssShmem");
	fall = before - rss(pid);
	must(labs(fall / kb - scan.nr_pfns) <= 64, "%s: VmRSS fell by %ld pages, not %d", when,
	     fall / kb, scan.nr_pfns);
	must(labs(anon / kb - scan.anon) <= 64, "%s: RssAnon fell by %ld pages, not %ld", when,
	     anon / kb, scan.anon);
	must(labs(file / kb - scan.file) <= 64, "%s: the rest fell by %ld pages, not %ld", when,
	     file / kb, scan.file);
}

static void full_area(enum kind kind)
{
	area_make(&area, kind);
	/* touch every page, so that no remainder hides an error */
	for (int i = 0; i < area.nparts; i++)
		for (size_t off = 0; off < area.part[i].len; off += page_size)
			touch(area.part[i].addr + off);
	if (!kind_readonly(kind))
		for (int i = 0; i < area.nparts; i++)
			for (size_t off = 0; off < area.part[i].len; off += page_size)
				if (area.part[i].prot & PROT_WRITE)
					area.part[i].addr[off + 8] = 1;
}

static long write_half(long a, long b)
{
	for (int i = 0; i < area.nparts; i++)
		for (size_t off = 0; off < area.part[i].len; off += 2 * page_size)
			if (area.part[i].prot & PROT_WRITE)
				area.part[i].addr[off + 16] = 2;
	return 0;
}

static void test_rss(long arg)
{
	enum kind kind = ARG_KIND(arg);

	find_zero_page();
	one_cpu();
	for (int order = 0; order < 4; order++) {
		if (quick && order != (int)kind % 4)
			continue;
		full_area(kind);
		become_zygote();
		for (int i = 1; i <= 3; i++)
			spawn(i);
		switch (order) {
		case 0:
			check_fall(1, "a child that did nothing");
			check_fall(2, "the next child");
			check_fall(SELF, "the parent, second to last");
			check_fall(3, "the last");
			break;
		case 1:
			check_fall(SELF, "the parent, first");
			check_fall(3, "a child");
			quit(1);
			check_fall(2, "the last child");
			break;
		case 2:
			ask(2, write_half, 0, 0);
			check_fall(2, "a child that wrote");
			ask(SELF, write_half, 0, 0);
			check_fall(1, "a child that did not write");
			check_fall(SELF, "the parent that wrote");
			check_fall(3, "the last child");
			break;
		case 3:
			spawn_from(3, 4);
			quit(3);
			check_fall(SELF, "the parent");
			ask(4, write_half, 0, 0);
			check_fall(1, "a child");
			quit(2);
			check_fall(4, "a grandchild that wrote");
			break;
		}
		for (int i = 1; i <= 4; i++)
			if (pid_of(i) && !is_gone(pid_of(i)))
				quit(i);
		memset(board->pid + 1, 0, sizeof(board->pid) - sizeof(*board->pid));
	}
}

/* stock counts all anonymous pages of the parent in a new child */
static void test_rss_at_fork(long arg)
{
	long anon, child;

	one_cpu();
	full_area(ARG_KIND(arg));
	become_zygote();
	spawn(1);
	anon = proc_field(0, "status", "RssAnon");
	child = proc_field(pid_of(1), "status", "RssAnon");
	must(labs(anon - child) <= 64L * (long)page_size / 1024,
	     "the parent has %ld kB of anonymous memory, its child %ld", anon, child);
}

/* --- what is left when all have gone -------------------------------------- */

static void test_page_tables(long arg)
{
	/* on ARM, hardware has the other half of the page */
	long before, fall, kb = table_size / page_size * sizeof(long) / 1024;

	area_make(&area, ARG_KIND(arg));
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	must(proc_field(pid_of(2), "status", "VmPTE") >= 0, "no VmPTE");
	for (int i = 1; i <= 3; i++)
		quit(i);
	before = proc_field(0, "status", "VmPTE");
	area_unmap(&area);
	fall = before - proc_field(0, "status", "VmPTE");
	/* upper tables may be freed with them */
	must(fall >= area.tables * kb && fall <= (area.tables + 2) * kb,
	     "VmPTE fell by %ld kB for %d tables", fall, area.tables);
}

static long page_table_pages(void)
{
	/* flush the remainder that each CPU keeps */
	write_text("/proc/sys/vm/stat_refresh", "1");
	return vm_event("nr_page_table_pages");
}

static void test_nothing_left(long arg)
{
	int rounds = quick ? 20 : 100;
	long before, after = 0;

	area_make(&area, BORDERS);
	become_zygote();
	before = page_table_pages();
	for (int round = 0; round < rounds; round++) {
		spawn(1);
		spawn_from(1, 2);
		if (round % 4 == 0)
			ask(2, spots_touch, (long)&area, 0);
		if (round % 4 == 1) {
			model_init(&board->model[2], &area);
			ask(2, model_scribble, 2, 0);
		}
		if (round % 4 == 2)
			ask(1, forget_area, 0, 0);
		if (round % 2)
			quit(1);
		kill_peer(2);
		if (!(round % 2))
			quit(1);
	}
	/* tables are freed after a grace period; others on this machine may fork */
	for (int i = 0; i < 100; i++) {
		after = page_table_pages();
		if (after - before < rounds)
			return;
		usleep(100000);
	}
	fail("%ld page-table pages more after %d rounds of forks", after - before, rounds);
}

/* --- memory cgroups ------------------------------------------------------- */

static long enter_group(long a, long b)
{
	group_put("cgroup.procs", "0");
	return 0;
}

#define SPARSE_TABLES	64

static char *sparse;

/* map many tables with a page each, so that leaks at fork add up */
static long make_and_fork(long a, long b)
{
	sparse = arena(SPARSE_TABLES);
	map_at(sparse, SPARSE_TABLES * table_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	madvise(sparse, SPARSE_TABLES * table_size, MADV_NOHUGEPAGE);
	for (int i = 0; i < SPARSE_TABLES; i++)
		sparse[i * table_size] = 1;
	become_zygote();
	for (int i = 2; i <= 5; i++)
		spawn(i);
	return 0;
}

static long write_sparse(long every, long b)
{
	for (int i = 0; i < SPARSE_TABLES; i += every)
		sparse[i * table_size + page_size] = 2;
	return 0;
}

static void test_memcg(long arg)
{
	long limit = 64 * sysconf(_SC_NPROCESSORS_ONLN) * page_size;
	long anon = 0, tables = 0;
	int rounds = 8;

	make_group();
	for (int round = 0; round < rounds; round++) {
		spawn(1);
		ask(1, enter_group, 0, 0);
		ask(1, make_and_fork, 0, 0);
		/* one unshares all, one half, one nothing, one dies at once */
		kill_peer(5);
		ask(2, write_sparse, 1, 0);
		ask(3, write_sparse, 2, 0);
		if (round % 2)
			quit(1);
		for (int i = 2; i <= 4; i++)
			quit(i);
		if (!(round % 2))
			quit(1);
	}
	/*
	 * These sums miss up to 64 changes per CPU, and the kernel frees late.
	 * The tables of one process, leaked in each round, are more than that.
	 */
	for (int i = 0; i < 100; i++) {
		anon = group_number("memory.stat", "anon");
		tables = group_number("memory.stat", "pagetables");
		if (anon <= limit && tables <= limit)
			break;
		usleep(100000);
	}
	remove_group();
	must(anon <= limit && tables <= limit,
	     "nobody is left, but %ld bytes and %ld bytes of tables are charged", anon, tables);
}

/* --- a random run --------------------------------------------------------- */

static unsigned long long seed = 88172645463325252ULL;

static unsigned int any(unsigned int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static long do_step(long what, long random)
{
	struct part *p = &area.part[random % area.nparts];
	size_t pages = p->len / page_size;
	char *at = p->addr + (random >> 4) % pages * page_size;
	size_t len = p->addr + p->len - at;

	if (len > 40 * page_size)
		len = 40 * page_size;
	switch (what) {
	case 0:
	case 1:
		if (!probe_read(at))
			probe_write(at);
		break;
	case 2:
		for (size_t off = 0; off < len; off += page_size)
			probe_read(at + off);
		break;
	case 3:
		for (size_t off = 0; off < len; off += page_size)
			probe_write(at + off);
		break;
	case 4:
		madvise(at, len, MADV_DONTNEED);
		break;
	case 5:
		munmap(at, len);
		break;
	case 6:
		mprotect(at, len, PROT_READ);
		break;
	case 7:
		mprotect(at, len, p->prot);
		break;
	case 8:
		/*
		 * into the last table of the area, which is empty at first, or
		 * within it
		 */
		mremap(at, len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
		       area.base + 3 * table_size + (random >> 8) % 400 * page_size);
		break;
	case 9:
		/* and back, over what is there */
		mremap(area.base + 3 * table_size + (random >> 8) % 400 * page_size, len, len,
		       MREMAP_MAYMOVE | MREMAP_FIXED, at);
		break;
	case 10:
		mremap(at, len, (len / page_size + 1) / 2 * page_size, 0);
		break;
	}
	return 0;
}

static void test_random(long arg)
{
	int steps = quick ? 30 : 150, used = 1;
	unsigned long alive = 1;
	char when[64];

	find_zero_page();
	seed ^= arg * 7919;
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	need_peers(60);
	for (int step = 0; step < steps; step++) {
		int who, what = any(15);

		do {
			who = any(used);
		} while (!(alive & 1UL << who));
		if (what >= 11 && used < 60 && __builtin_popcountl(alive) < 7) {
			if (who == SELF)
				spawn(used);
			else
				spawn_from(who, used);
			alive |= 1UL << used++;
		} else if (what >= 11) {
			if (who == SELF)
				continue;
			quit(who);
			alive &= ~(1UL << who);
		} else {
			ask(who, do_step, what, any(1 << 20));
		}
		snprintf(when, sizeof(when), "step %d (%d by %d)", step, what, who);
		check_sums(alive, when);
	}
}

#define FULL	(KIND(ANON) | KIND(PRIV_FILE) | KIND(PRIV_FILE_RO) | KIND(SHARED_FILE) | \
		 KIND(SHARED_DISK) | KIND(MIXED))

static const struct test_case cases[] = {
	{ "Do all Pss add up to the pages there are?", test_pss, 0, ALL_KINDS & ~KIND(NEAR_THP),
	  SOME_KINDS, .guards = INVARIANT(3) | INVARIANT(7) },
	{ "Is a page of two processes shared, and of one private?", test_shared_private, 0,
	  KIND(ANON) | KIND(HEAP) | KIND(BORDERS), .guards = INVARIANT(3) | INVARIANT(7) },
	{ "Does VmRSS fall by what a process unmaps?", test_rss, 0, FULL,
	  .guards = INVARIANT(5) | INVARIANT(7) },
	{ "Does a new child's RssAnon count its parent's anonymous memory?", test_rss_at_fork, 0,
	  KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED), .guards = INVARIANT(7) },
	{ "Is VmPTE right when all children have gone?", test_page_tables, 0,
	  SOME_KINDS | KIND(BORDERS), .guards = INVARIANT(7) },
	{ "Are all page tables freed after many forks?", test_nothing_left,
	  .guards = INVARIANT(5) },
	{ "Is a memory cgroup empty when its processes have gone?", test_memcg,
	  .guards = INVARIANT(7) },
	{ "Does every sum stay right in a random run?", test_random, 0,
	  SOME_KINDS | KIND(BORDERS), .guards = INVARIANT(3) | INVARIANT(7) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
