// SPDX-License-Identifier: GPL-2.0-only
/*
 * Other walkers of page tables: the kernel's daemons and monitors, and calls that
 * work on another process. Whatever they do with a shared table, each process
 * keeps seeing what it must.
 */
#include "common.h"
#include "lib/uffd.h"

#include <sched.h>
#include <sys/uio.h>

/*
 * Settings of the machine that a case changes. They are in shared memory: the
 * main process restores them, however the case ends.
 */
#define MAX_SETTINGS	8

static struct {
	struct setting {
		char path[96], old[64];
	} setting[MAX_SETTINGS];
	bool damon;		/* we started it */
} *machine;

/* false if there is no such setting */
static bool set(const char *path, const char *value)
{
	struct setting *s = machine->setting;
	char *open_bracket, *end;

	while (s->path[0] && strcmp(s->path, path))
		must(++s < machine->setting + MAX_SETTINGS, "too many settings");
	if (!s->path[0]) {
		char buf[256];

		if (read_text(path, buf, sizeof(buf)) <= 0)
			return false;
		/* one of several words: "always [madvise] never" */
		open_bracket = strchr(buf, '[');
		end = open_bracket ? strchr(open_bracket, ']') : strchr(buf, '\n');
		if (end)
			*end = 0;
		snprintf(s->old, sizeof(s->old), "%.60s", open_bracket ? open_bracket + 1 : buf);
		snprintf(s->path, sizeof(s->path), "%s", path);
	}
	return !write_text(path, value);
}

static void restore_settings(void)
{
	for (int i = 0; i < MAX_SETTINGS && machine->setting[i].path[0]; i++) {
		write_text(machine->setting[i].path, machine->setting[i].old);
		machine->setting[i].path[0] = 0;
	}
}

static long number_in(const char *path)
{
	char buf[64];

	return read_text(path, buf, sizeof(buf)) > 0 ? atol(buf) : -1;
}

/* wait until a counter has grown; false if it does not in time */
static bool wait_for(const char *path, long growth)
{
	long first = number_in(path);
	double end = now() + (quick ? 5 : 20);

	while (number_in(path) < first + growth) {
		if (now() > end)
			return false;
		usleep(20000);
	}
	return true;
}

/* --- KSM ------------------------------------------------------------------ */

static long merge_all(long on, long b)
{
	return prctl(PR_SET_MEMORY_MERGE, on, 0, 0, 0) ? -errno : 0;
}

/* All processes have equal pages, but only one child's are mergeable. */
static void test_ksm(long arg)
{
	if (!set(KSM "run", "1") || !set(KSM "sleep_millisecs", "0") ||
	    !set(KSM "pages_to_scan", "20000"))
		skip("no KSM, or not root");
	area_make(&area, ANON);
	for (int i = 0; i < area.nspots; i++) {
		area.spot[i].tag = 77;
		page_fill(area.spot[i].addr, 77);
	}
	become_zygote();
	need_peers(8);
	spawn_models(3, &area);
	if (ask(1, merge_all, 1, 0))
		skip("no merging of all that a process has");
	for (int round = 0; round < 2; round++) {
		must(wait_for(KSM "full_scans", 3), "KSM does not scan");
		model_check_all(4);
		/* a process that still shares writes beside pages that may be merged */
		ask(2, model_scribble, 2, 4);
		/* fork one more from the mergeable process */
		if (!round) {
			spawn_from(1, 4);
			model_init(&board->model[4], &area);
		}
		model_check_all(5);
	}
	models_right(5);
	ask(1, merge_all, 0, 0);
	models_right(5);
}

/* --- khugepaged ----------------------------------------------------------- */

static char *elsewhere;		/* a second mapping of the file, in one process */

static long map_elsewhere(long a, long b)
{
	struct part *p = &area.part[0];

	map_at(elsewhere, table_size, p->prot, p->flags, p->fd, 0);
	for (size_t off = 0; off < table_size; off += page_size)
		touch(elsewhere + off);
	return 0;
}

static long collapse(long addr, long b)
{
	for (int i = 0; i < 20; i++) {
		if (!madvise((void *)addr, table_size, MADV_COLLAPSE))
			return 0;
		if (errno != EAGAIN && errno != EBUSY)
			break;
		usleep(1000);
	}
	return -errno;
}

/*
 * The pages of a file become a huge page: collapse clears or frees the tables
 * that map them.
 */
static void test_collapse(long arg)
{
	bool outside = ARG_ARG(arg);
	long err;

	elsewhere = arena(1);
	start_models(ARG_KIND(arg), 4);
	model_check_all(5);
	/* collapse through the shared table, or through the mapping elsewhere */
	ask(4, map_elsewhere, 0, 0);
	err = ask(outside ? 4 : 2, collapse, (long)(outside ? elsewhere : area.base), 0);
	if (err == -EINVAL)
		skip("no huge pages of this file: %s", strerror(-err));
	/* EBUSY is allowed (a page may be pinned), wrong data is not */
	if (err)
		note("not collapsed: %s", strerror(-err));
	for (int i = 0; i <= 4; i++)
		ask(i, spots_touch, (long)&area, 0);
	models_right(5);
	/* and back to small pages: a hole in the huge one */
	if (area.part[0].shared) {
		must_call(fallocate(area.part[0].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    0, page_size));
		for (int i = 0; i <= 4; i++)
			board->model[i].want[0].tag = 0;
		must(area.spot[0].addr == area.base, "the first spot is elsewhere");
		models_right(5);
	}
	/* a fork now shares the present state */
	spawn_from(2, 5);
	board->model[5] = board->model[2];
	models_right(6);
}

static void test_khugepaged(long arg)
{
	if (!set(THP "khugepaged/scan_sleep_millisecs", "5") ||
	    !set(THP "khugepaged/pages_to_scan", "65536") || !set(THP "enabled", "always"))
		skip("no khugepaged, or not root");
	set(THP "shmem_enabled", "advise");
	set(THP "khugepaged/defrag", "1");
	area_make(&area, ARG_KIND(arg));
	for (int i = 0; i < area.nparts; i++)
		madvise(area.part[i].addr, area.part[i].len, MADV_HUGEPAGE);
	become_zygote();
	need_peers(8);
	spawn_models(3, &area);
	for (int round = 0; round < (quick ? 2 : 4); round++) {
		if (!wait_for(THP "khugepaged/full_scans", 2))
			skip("khugepaged does not scan");
		model_check_all(4);
		/* this process gets its own table, which khugepaged may collapse */
		ask(round, model_scribble, round, 4);
	}
	models_right(4);
}

/* --- NUMA ----------------------------------------------------------------- */

static void need_nodes(void)
{
	if (access("/sys/devices/system/node/node1", F_OK))
		skip("one node only");
}

/* MPOL_MF_MOVE: pages that this process alone maps; _ALL: all pages */
static long move_spots(long node, long all)
{
	void *pages[MAX_SPOTS];
	int nodes[MAX_SPOTS], status[MAX_SPOTS];

	for (int i = 0; i < area.nspots; i++) {
		pages[i] = area.spot[i].addr;
		nodes[i] = node;
	}
	if (syscall(__NR_move_pages, 0, area.nspots, pages, nodes, status, all ? 4 : 2) < 0)
		return -errno;
	for (int i = 0; i < area.nspots; i++)
		if (all && status[i] >= 0)
			must(status[i] == node, "spot %d is on node %d, not %ld", i, status[i],
			     node);
	return 0;
}

static long bind_spots(long node, long unused)
{
	unsigned long mask = 1UL << node;

	for (int i = 0; i < area.nparts; i++)
		/* MPOL_BIND, MPOL_MF_MOVE */
		if (syscall(__NR_mbind, area.part[i].addr, area.part[i].len, 2, &mask, 64, 2) < 0)
			return -errno;
	return 0;
}

static long migrate_all(long from, long to)
{
	unsigned long old = 1UL << from, new = 1UL << to;

	return syscall(__NR_migrate_pages, 0, 64, &old, &new) < 0 ? -errno : 0;
}

static void test_move(long arg)
{
	long err;

	need_nodes();
	start_models(ARG_KIND(arg), 3);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i <= 3; i++) {
			err = ask(i, move_spots, (i + round) % 2, i % 2);
			must(!err || err == -EPERM, "move_pages: %s", strerror(-err));
			model_check_all(4);
			if (i == 2)
				ask(i, model_scribble, i, 4);
		}
	models_right(4);
	err = ask(1, bind_spots, 1, 0);
	must(!err || err == -EIO, "mbind: %s", strerror(-err));
	model_check_all(4);
	err = ask(3, migrate_all, 1, 0);
	must(!err, "migrate_pages: %s", strerror(-err));
	models_right(4);
	/* fork a child of the process with a memory policy */
	spawn_from(1, 4);
	board->model[4] = board->model[1];
	models_right(5);
}

static long work_on_node(long node, long seconds)
{
	char path[96], buf[128];
	cpu_set_t set;
	double end;
	int first;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%ld/cpulist", node);
	if (read_text(path, buf, sizeof(buf)) > 0 && buf[0] >= '0' && buf[0] <= '9') {
		first = atoi(buf);
		CPU_ZERO(&set);
		CPU_SET(first, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	end = now() + seconds;
	while (now() < end)
		spots_touch((long)&area, 0);
	return 0;
}

static void test_balancing(long arg)
{
	const char *debug = "/sys/kernel/debug/sched/numa_balancing/";
	char path[96];

	need_nodes();
	if (!set("/proc/sys/kernel/numa_balancing", "1"))
		skip("no NUMA balancing, or not root");
	snprintf(path, sizeof(path), "%sscan_delay_ms", debug);
	set(path, "1");
	snprintf(path, sizeof(path), "%sscan_period_min_ms", debug);
	set(path, "10");
	start_models(ARG_KIND(arg), 3);
	for (int round = 0; round < 2; round++) {
		for (int i = 1; i <= 3; i++)
			tell(i, work_on_node, (i + round) % 2, race_seconds);
		for (int i = 1; i <= 3; i++)
			must(!answer(i), "process %d did not finish", i);
		model_check_all(4);
		ask(1 + round, model_scribble, 1 + round, 4);
	}
	models_right(4);
}

/* --- DAMON ---------------------------------------------------------------- */

#define DAMON	"/sys/kernel/mm/damon/admin/kdamonds/"

/* Retry while DAMON's files report EBUSY: they do not wait for its lock. 0 or -errno */
static int write_damon(const char *file, const char *value)
{
	double end = now() + 10;
	char path[160];
	int err;

	snprintf(path, sizeof(path), DAMON "%s", file);
	while ((err = write_text(path, value)) == -EBUSY && now() < end)
		usleep(1000);
	return err;
}

static void damon(const char *file, const char *value)
{
	int err = write_damon(file, value);

	must(!err, "%s to %s: %s", value, file, strerror(-err));
}

static bool damon_runs(void)
{
	double end = now() + 10;
	char text[16];
	int n;

	while ((n = read_text(DAMON "0/state", text, sizeof(text))) == -EBUSY && now() < end)
		usleep(1000);
	must(n > 0, "DAMON's state cannot be read: %s", strerror(-n));
	return !strncmp(text, "on", 2);
}

static void end_damon(void)
{
	write_damon("0/state", "off");
	write_damon("nr_kdamonds", "0");
	machine->damon = false;
}

/* DAMON watches one of several siblings and pages out what seems unused. */
static void test_damon(long arg)
{
	static const char * const limits[][2] = {
		{ "sz/min", "0" },
		{ "sz/max", sizeof(long) == 8 ? "18446744073709551615" : "4294967295" },
		{ "nr_accesses/min", "0" }, { "nr_accesses/max", "4294967295" },
		{ "age/min", "0" }, { "age/max", "4294967295" },
	};
	char text[64];
	double end;

	if (number_in(DAMON "nr_kdamonds") != 0)
		skip("no DAMON here, or it is in use");
	if (!quick)
		swap_on();
	start_models(ARG_KIND(arg), 3);
	machine->damon = true;
	damon("nr_kdamonds", "1");
	damon("0/contexts/nr_contexts", "1");
	if (write_text(DAMON "0/contexts/0/operations", "vaddr")) {
		end_damon();
		skip("DAMON does not watch processes here");
	}
	damon("0/contexts/0/monitoring_attrs/intervals/sample_us", "1000");
	damon("0/contexts/0/monitoring_attrs/intervals/aggr_us", "10000");
	damon("0/contexts/0/monitoring_attrs/intervals/update_us", "50000");
	damon("0/contexts/0/targets/nr_targets", "1");
	snprintf(text, sizeof(text), "%d", pid_of(2));
	damon("0/contexts/0/targets/0/pid_target", text);
	damon("0/contexts/0/schemes/nr_schemes", "1");
	damon("0/contexts/0/schemes/0/action", "pageout");
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		snprintf(text, sizeof(text), "0/contexts/0/schemes/0/access_pattern/%s",
			 limits[i][0]);
		damon(text, limits[i][1]);
	}
	damon("0/state", "on");
	end = now() + race_seconds;
	while (now() < end) {
		for (int i = 0; i <= 3; i++)
			ask(i, spots_touch, (long)&area, 0);
		model_check_all(4);
	}
	must(damon_runs(), "DAMON stopped by itself");
	models_right(4);
	end_damon();
	models_right(4);
}

/* --- PAGEMAP_SCAN --------------------------------------------------------- */

/* as in linux/fs.h, which may be older than the kernel, or at odds with libc's headers */
struct scan_region {
	__u64 start, end, categories;
};

struct scan_arg {
	__u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
	__u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN		_IOWR('f', 16, struct scan_arg)
#define SCAN_PROTECT	1	/* PM_SCAN_WP_MATCHING */
#define SCAN_CHECK	2	/* PM_SCAN_CHECK_WPASYNC */
#define IS_WRITTEN	2
#define IS_PRESENT	8
#define IS_SWAPPED	16

static struct scan_region regions[1024];

/* pages of the area in any of the categories, or -errno */
static long scan(pid_t pid, __u64 flags, __u64 categories)
{
	const struct part *last = &area.part[area.nparts - 1];
	struct scan_arg arg = {
		.size = sizeof(arg), .flags = flags, .start = (uintptr_t)area.part[0].addr,
		.end = (uintptr_t)last->addr + last->len, .vec = (uintptr_t)regions,
		.vec_len = ARRAY_SIZE(regions), .category_anyof_mask = categories,
		.return_mask = categories,
	};
	long pages = 0, n;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	n = ioctl(fd, SCAN, &arg);
	if (n < 0)
		n = -errno;
	close(fd);
	for (long i = 0; i < n; i++)
		pages += (regions[i].end - regions[i].start) / page_size;
	return n < 0 ? n : pages;
}

static bool scanned(char *addr, long found)
{
	for (size_t i = 0; i < ARRAY_SIZE(regions) && found > 0; i++) {
		if ((uintptr_t)addr >= regions[i].start && (uintptr_t)addr < regions[i].end)
			return true;
		found -= (regions[i].end - regions[i].start) / page_size;
	}
	return false;
}

/* each process looks at itself; what it finds must be what pagemap says */
static void check_present(int nr)
{
	for (int who = 0; who < nr; who++) {
		long found = scan(pid_of(who), 0, IS_PRESENT | IS_SWAPPED);

		must(found >= 0, "PAGEMAP_SCAN: %s", strerror(-found));
		for (int i = 0; i < area.nspots; i++) {
			char *addr = area.spot[i].addr;
			bool there = pagemap_entry(pid_of(who), addr) & (PM_PRESENT | PM_SWAP);

			must(scanned(addr, found) == there,
			     "process %d, spot %d: PAGEMAP_SCAN and pagemap differ", who, i);
		}
	}
}

static long scan_self(long flags, long categories)
{
	return scan(getpid(), flags, categories);
}

static long watch_writes(long a, long b)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED,
	};
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return -errno;
	for (int i = 0; i < area.nparts; i++) {
		reg.range.start = (uintptr_t)area.part[i].addr;
		reg.range.len = area.part[i].len;
		if (ioctl(fd, UFFDIO_REGISTER, &reg))
			return -errno;
	}
	return 0;
}

static void test_scan(long arg)
{
	long found;

	start_models(ARG_KIND(arg), 3);
	found = scan(getpid(), 0, IS_PRESENT);
	if (found == -ENOTTY || found == -EINVAL)
		skip("no PAGEMAP_SCAN in this kernel");
	check_present(4);
	/* without userfaultfd nothing is protected, and none is reported */
	found = ask(2, scan_self, SCAN_PROTECT | SCAN_CHECK, IS_WRITTEN);
	must(found == -EPERM, "protecting unwatched memory gives %ld", found);
	found = ask(2, scan_self, SCAN_PROTECT, IS_WRITTEN);
	must(!found, "%ld unwatched pages were protected", found);
	models_right(4);
	check_present(4);

	if (ARG_KIND(arg) != ANON && ARG_KIND(arg) != BORDERS)
		return;
	for (int i = 1; i <= 3; i++)
		quit(i);
	memset(board->model, 0, sizeof(board->model));
	for (int i = 0; i < area.nspots; i++)
		page_fill(area.spot[i].addr, area.spot[i].tag = 888 + i);
	spawn_models(3, &area);
	if (ask(1, watch_writes, 0, 0))
		skip("userfaultfd does not watch writes by itself here");
	found = ask(1, scan_self, SCAN_PROTECT | SCAN_CHECK, IS_WRITTEN);
	must(found >= 0, "PAGEMAP_SCAN: %s", strerror(-found));
	found = scan(pid_of(1), 0, IS_WRITTEN);
	must(!found, "%ld pages are written right after they were protected", found);
	/* writes of other processes are not reported */
	ask(2, model_scribble, 2, 4);
	ask(SELF, model_scribble, 0, 4);
	found = scan(pid_of(1), 0, IS_WRITTEN);
	must(!found, "%ld pages are written because other processes wrote theirs", found);
	board->model[1].n /= 2;
	ask(1, model_scribble, 1, 4);
	board->model[1].n *= 2;
	found = scan(pid_of(1), 0, IS_WRITTEN);
	for (int i = 0; i < area.nspots; i++)
		must(scanned(area.spot[i].addr, found) == (i < area.nspots / 2),
		     "spot %d: wrong after writes to the first half", i);
	models_right(4);
}

/* --- advice from another process ------------------------------------------ */

static long advise_other(long who, long advice)
{
	int pidfd = syscall(__NR_pidfd_open, pid_of(who), 0);
	long err = 0;

	must(pidfd >= 0, "pidfd_open: %s", strerror(errno));
	for (int i = 0; i < area.nparts; i++) {
		struct iovec iov = { area.part[i].addr, area.part[i].len };

		if (syscall(__NR_process_madvise, pidfd, &iov, 1, advice, 0) < 0)
			err = -errno;
	}
	close(pidfd);
	return err;
}

static void test_advise_other(long arg)
{
	static const int advices[] = { MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED, MADV_COLLAPSE };

	start_models(ARG_KIND(arg), 3);
	if (ask(1, advise_other, 2, MADV_COLD) == -ENOSYS)
		skip("no process_madvise in this kernel");
	for (size_t i = 0; i < ARRAY_SIZE(advices); i++) {
		/* a child about its sibling, the parent about a child, a child about it */
		ask(1, advise_other, 2, advices[i]);
		model_check_all(4);
		ask(SELF, advise_other, 3, advices[i]);
		model_check_all(4);
		ask(2, advise_other, SELF, advices[i]);
		model_check_all(4);
		ask(1 + i % 3, model_scribble, 1 + i % 3, 4);
		model_check_all(4);
	}
	models_right(4);
}

#define FILES	(KIND(SHARED_FILE) | KIND(PRIV_FILE) | KIND(PRIV_FILE_RO))
#define OWN	(KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED) | KIND(BORDERS))
#define MOST	(OWN | KIND(SHARED_FILE) | KIND(PRIV_FILE_RO) | KIND(ALONE))

static void put_back(void)
{
	if (machine->damon)
		end_damon();
	restore_settings();
}

static const struct test_case cases[] = {
	{ "Who sees what while one process's pages are merged?", test_ksm,
	  .guards = INVARIANT(1) | INVARIANT(2) },
	{ "Who sees what when a sharer makes huge pages of the file?", test_collapse, 0, FILES,
	  KIND(PRIV_FILE_RO), .guards = INVARIANT(6) },
	{ "Who sees what when another mapping makes huge pages of the file?", test_collapse, 1,
	  FILES, KIND(SHARED_FILE), .guards = INVARIANT(4) },
	{ "Who sees what while khugepaged looks for pages?", test_khugepaged, 0,
	  OWN | KIND(SHARED_ANON) | KIND(MEMFD), KIND(ANON) | KIND(SHARED_ANON),
	  .guards = INVARIANT(6) | INVARIANT(8) },
	{ "Who sees what when pages move to another node?", test_move, 0, MOST,
	  KIND(MIXED) | KIND(ALONE), .guards = INVARIANT(4) },
	{ "Who sees what while pages follow their users to another node?", test_balancing, 0,
	  MOST, KIND(MIXED), .guards = INVARIANT(8) },
	{ "Who sees what while DAMON watches and pages out one process?", test_damon, 0, MOST,
	  KIND(MIXED) | KIND(ALONE), .guards = INVARIANT(4) | INVARIANT(8) },
	{ "Does PAGEMAP_SCAN find what each process has, and has written?", test_scan, 0, MOST,
	  KIND(ANON) | KIND(ALONE), .guards = INVARIANT(1) },
	{ "Who sees what when one process advises on another's memory?", test_advise_other, 0,
	  MOST, KIND(MIXED) | KIND(ALONE), .guards = INVARIANT(8) },
};

int main(int argc, char **argv)
{
	machine = mmap(NULL, sizeof(*machine), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (machine == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	after_each_case = put_back;
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
