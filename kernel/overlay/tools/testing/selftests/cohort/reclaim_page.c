// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shared pages that are moved, merged, truncated, written back or poisoned: the
 * kernel must change the entries of every sharer.
 */
#include "common.h"

static const char * const ksm_files[] = {
	KSM "run", KSM "pages_to_scan", KSM "sleep_millisecs",
};

/* KSM's settings, in shared memory so that main() can restore them */
static char (*ksm_was)[16];

/* --- moved ---------------------------------------------------------------- */

static long compact(long a, long b)
{
	for (;;) {
		if (write_text("/proc/sys/vm/compact_memory", "1"))
			return -1;
		usleep(20000);
	}
}

static void test_compaction(long arg)
{
	double end = now() + race_seconds;
	int rounds = 0;

	if (access("/proc/sys/vm/compact_memory", W_OK))
		skip("no memory compaction");
	/* fork it before this process is a zygote: the compactor does not share */
	spawn(7);
	tell(7, compact, 0, 0);
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	do {
		for (int i = 0; i <= 3; i++) {
			if (i)
				spawn(i);
			model_init(&board->model[i], &area);
			for (int j = 0; rounds && j < area.nspots; j++)
				board->model[i].want[j].tag = board->word[j];
		}
		model_check_all(4);
		ask(1 + rounds % 3, model_scribble, 1 + rounds % 3, 4);
		model_check_all(4);
		ask(SELF, model_scribble, SELF, 4);
		model_check_all(4);
		for (int j = 0; j < area.nspots; j++)
			board->word[j] = board->model[0].want[j].tag;
		for (int i = 1; i <= 3; i++)
			quit(i);
		rounds++;
	} while (now() < end || rounds < 3);
	must(!is_gone(pid_of(7)), "the compactor died");
}

/* --- merged --------------------------------------------------------------- */

/* pages of the area that are alike, from page 100 on */
#define ALIKE	32

static long ksm_number(const char *file)
{
	char path[64], buf[32];

	snprintf(path, sizeof(path), KSM "%s", file);
	return read_text(path, buf, sizeof(buf)) > 0 ? atol(buf) : -1;
}

static void ksm_scan(void)
{
	long until = ksm_number("full_scans") + 3;

	for (int i = 0; i < 600 && ksm_number("full_scans") < until; i++)
		usleep(50000);
	must(ksm_number("full_scans") >= until, "ksmd does not get round");
}

static void ksm_start(void)
{
	char *p = area.base;

	for (int i = 0; i < 3; i++)
		if (!ksm_was[i][0])
			read_text(ksm_files[i], ksm_was[i], sizeof(ksm_was[i]));
	if (write_text(KSM "run", "1"))
		skip("no KSM in this kernel");
	write_text(KSM "pages_to_scan", "10000");
	write_text(KSM "sleep_millisecs", "1");
	for (int i = 100; i < 100 + ALIKE; i++)
		page_fill(p + i * page_size, 8000000u);
	must_call(madvise(p, table_size, MADV_MERGEABLE));
}

static long alike_intact(long skip_page, long b)
{
	for (int i = 100; i < 100 + ALIKE; i++)
		if (i != skip_page)
			sees(page_is(area.base + i * page_size, 8000000u), "merged page %d differs",
			     i);
	return 0;
}

static long write_alike(long page, long tag)
{
	page_fill(area.base + page * page_size, tag);
	return 0;
}

static long unmerge(long a, long b)
{
	must_call(madvise(area.base, table_size, MADV_UNMERGEABLE));
	return 0;
}

static void test_ksm(long arg)
{
	bool before_fork = arg;
	long sharing;

	area_make(&area, ANON);
	/* no spots: their pages would differ */
	area.nspots = 0;
	ksm_start();
	if (before_fork)
		ksm_scan();
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	/* once more if they were merged before: ksmd must find them in shared tables, too */
	ksm_scan();
	sharing = ksm_number("pages_sharing");
	must(sharing >= ALIKE - 1, "of %d pages %ld are merged", ALIKE, sharing);
	for (int i = 0; i <= 3; i++)
		ask(i, alike_intact, -1, 0);
	/* each process writes a different page */
	for (int i = 0; i <= 3; i++)
		ask(i, write_alike, 110 + i, 8100000 + i);
	for (int i = 0; i <= 3; i++) {
		ask(i, alike_intact, 110 + i, 0);
		ask(i, write_alike, 110 + i, 8000000);
	}
	ksm_scan();
	for (int i = 0; i <= 3; i++)
		ask(i, alike_intact, -1, 0);
	ask(1, unmerge, 0, 0);
	for (int i = 0; i <= 3; i++)
		ask(i, alike_intact, -1, 0);
	quit(1);
	/* run = 2 unmerges everything everywhere, and must come to an end */
	must(!write_text(KSM "run", "2"), "KSM does not unmerge");
	for (int i = 0; i <= 3; i++)
		if (i != 1)
			ask(i, alike_intact, -1, 0);
	write_text(KSM "run", "0");
}

/* --- files that shrink ---------------------------------------------------- */

static void now_file(int nr, char *start, size_t len, enum access acc, bool even_private)
{
	for (int p = 0; p < nr; p++)
		for (int i = 0; i < board->model[p].n; i++) {
			struct want *w = &board->model[p].want[i];
			const struct spot *s = &area.spot[w->id];

			if (w->addr < start || w->addr >= start + len)
				continue;
			/* a hole keeps private copies, a truncation does not */
			if (!w->shared && w->tag != s->file_tag && !even_private)
				continue;
			w->tag = 0;
			w->acc = acc;
		}
}

static long truncate_to(long part, long size)
{
	return ftruncate(area.part[part].fd, size) ? -errno : 0;
}

static void test_truncate(long arg)
{
	enum kind kind = ARG_KIND(arg);
	int part = kind == MIXED ? 1 : 0;
	struct part *p;
	enum access back;
	size_t half;

	start_models(kind, 3);
	p = &area.part[part];
	half = p->len / 2 / page_size * page_size;
	back = p->prot & PROT_WRITE ? WRITE : READ;
	for (int i = 0; i <= 3; i++)
		ask(i, model_check, i, 0);
	ask(1, model_scribble, 1, 4);
	/* one truncates the file: all lose the pages, and their private copies */
	must(!ask(2, truncate_to, part, half), "ftruncate: %s", strerror(errno));
	now_file(4, p->addr + half, p->len - half, BUS, true);
	model_check_all(4);
	/* it is extended again: zeros for all */
	must(!truncate_to(part, p->len), "ftruncate: %s", strerror(errno));
	now_file(4, p->addr + half, p->len - half, back, true);
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
	must(!ask(3, truncate_to, part, 0), "ftruncate: %s", strerror(errno));
	now_file(4, p->addr, p->len, BUS, true);
	model_check_all(4);
	must(!truncate_to(part, p->len), "ftruncate: %s", strerror(errno));
	now_file(4, p->addr, p->len, back, true);
	model_check_all(4);
}

static void test_punch(long arg)
{
	enum kind kind = ARG_KIND(arg);
	int part = kind == MIXED ? 2 : 0;
	struct part *p;
	size_t third;

	start_models(kind, 3);
	p = &area.part[part];
	third = p->len / 3 / page_size * page_size;
	model_check_all(4);
	if (fallocate(p->fd, 3 /* KEEP_SIZE | PUNCH_HOLE */, third, third))
		skip("no holes in this file system: %s", strerror(errno));
	now_file(4, p->addr + third, third, p->prot & PROT_WRITE ? WRITE : READ, false);
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
}

static void test_unlink_last(long arg)
{
	/* the file has no name and no descriptor any more */
	start_models(ARG_KIND(arg), 2);
	for (int i = 0; i < area.nparts; i++)
		if (area.part[i].fd >= 0)
			close(area.part[i].fd);
	model_check_all(3);
	area_unmap(&area);
	board->model[0].n = 0;
	model_scribble_all(3);
	model_check_all(3);
}

/* --- write-back ----------------------------------------------------------- */

static long sync_memory(long a, long b)
{
	for (int i = 0; i < area.nparts; i++)
		if (area.part[i].shared)
			must_call(msync(area.part[i].addr, area.part[i].len, MS_SYNC));
	return 0;
}

/* the disk itself, past the page cache */
static void disk_has(struct model *m)
{
	char path[64], *page = aligned_alloc(page_size, page_size);
	struct part *p = &area.part[0];
	int fd;

	must_call(fdatasync(p->fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fd);
	fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	for (int i = 0; i < m->n; i++) {
		must(pread(fd, page, page_size, m->want[i].addr - p->addr) == (ssize_t)page_size,
		     "read: %s", strerror(errno));
		sees(page_is(page, m->want[i].tag), "spot %d is not on disk as it was written", i);
	}
	close(fd);
	free(page);
}

static void test_writeback(long arg)
{
	start_models(ARG_KIND(arg), 3);
	/*
	 * Write-back makes the page clean and read-only for everybody. If one
	 * sharer keeps a writable entry, its next write is not noticed and lost.
	 */
	for (int round = 0; round < (quick ? 1 : 3); round++)
		for (int i = 0; i <= 3; i++) {
			int next = (i + 1) % 4;

			ask(i, model_scribble, i, 4);
			ask(next, sync_memory, 0, 0);
			disk_has(&board->model[0]);
			ask(next, model_scribble, next, 4);
			ask(i, model_scribble, i, 4);
			disk_has(&board->model[0]);
			model_check_all(4);
		}
}

static void test_drop_caches(long arg)
{
	if (!costly)
		skip("only with -x: the whole machine loses its caches");
	start_models(ARG_KIND(arg), 3);
	for (int i = 0; i <= 3; i++) {
		sync();
		must(!write_text("/proc/sys/vm/drop_caches", "3"), "drop_caches");
		model_check_all(4);
		ask(i, model_scribble, i, 4);
		model_check_all(4);
	}
}

/* --- the bits that say what was used -------------------------------------- */

static long reset_refs(long value, long b)
{
	char text[2] = { '0' + value, 0 };

	return write_text("/proc/self/clear_refs", text);
}

static void test_clear_refs(long arg)
{
	start_models(ARG_KIND(arg), 2);
	for (int value = 1; value <= 5; value++)
		for (int i = 0; i <= 2; i++) {
			must(!ask(i, reset_refs, value, 0), "clear_refs %d", value);
			model_check_all(3);
			if (value == 1 || value == 4) {
				ask(i, model_scribble, i, 3);
				model_check_all(3);
			}
		}
}

static long referenced(long addr, long b)
{
	return region_field((void *)addr, "Referenced");
}

static long touch_at(long addr, long b)
{
	touch((void *)addr);
	return 0;
}

/* what a process reads of its own memory must not tell what a sibling has used */
static void test_referenced(long arg)
{
	const int pages = 16;
	long before, after;
	char *p;
	int fd;

	/* in a cohort, a fault maps the neighbours of a page old */
	become_zygote();
	fd = make_file(arg ? "disk" : "tmpfs", pages);
	p = map_at(arena(1), pages * page_size, PROT_READ, MAP_SHARED, fd, 0);
	/* map all, 64 kB per fault: Rss and Referenced would grow by what is mapped later */
	for (size_t at = 0; at < pages * page_size; at += 64 << 10)
		touch(p + at);
	for (int i = 1; i <= 2; i++) {
		spawn(i);
		ask(i, nothing, 0, 0);
	}
	before = ask(1, referenced, (long)p, 0);
	ask(2, touch_at, (long)p + 5 * page_size, 0);
	after = ask(1, referenced, (long)p, 0);
	must(before == after, "Referenced was %ld kB before a sibling's read, %ld kB after it",
	     before, after);
	for (int round = 0; round < 3; round++) {
		must(!ask(1, reset_refs, 1, 0), "clear_refs");
		ask(2, touch_at, (long)p + (5 + round) * page_size, 0);
		after = ask(1, referenced, (long)p, 0);
		must(!after, "a sibling's read is seen after clear_refs: %ld kB", after);
	}
	/* one's own uses are seen */
	ask(1, touch_at, (long)p, 0);
	after = ask(1, referenced, (long)p, 0);
	must(after > 0, "Referenced is %ld kB after a read of one's own", after);
}

static long store_at(long addr, long unused)
{
	*(volatile char *)addr = 1;
	return 0;
}

static long keeps_soft_dirty(long unused, long unused2)
{
	char *p = map_at(arena(1), page_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(!reset_refs(4, 0), "clear_refs");
	store_at((long)p, 0);
	return !!(pagemap_entry(0, p) & PM_SOFT_DIRTY);
}

/* The children of a process that has used clear_refs share nothing: let another one try. */
static void need_soft_dirty(void)
{
	long kept;

	spawn(7);
	kept = ask(7, keeps_soft_dirty, 0, 0);
	quit(7);
	if (!kept)
		skip("no soft-dirty bits in this kernel");
}

static void test_soft_dirty(long arg)
{
	need_soft_dirty();
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		model_init(&board->model[i], &area);
	}
	must(!ask(1, reset_refs, 4, 0), "clear_refs");
	for (int i = 0; i < area.nspots; i++)
		must(!(pagemap_entry(pid_of(1), area.spot[i].addr) & PM_SOFT_DIRTY),
		     "spot %d is dirty after clear_refs", i);
	/* a write by another process must not set this one's bit */
	ask(2, model_scribble, 2, 3);
	ask(SELF, model_scribble, 0, 3);
	for (int i = 0; i < area.nspots; i++)
		must(!(pagemap_entry(pid_of(1), area.spot[i].addr) & PM_SOFT_DIRTY),
		     "spot %d is dirty because another wrote its own", i);
	board->model[1].n /= 2;
	ask(1, model_scribble, 1, 3);
	for (int i = 0; i < area.nspots; i++) {
		bool dirty = pagemap_entry(pid_of(1), area.spot[i].addr) & PM_SOFT_DIRTY;

		must(dirty == (i < board->model[1].n),
		     "spot %d: wrong after writes to the first half", i);
	}
	model_check_all(3);
}

static bool soft_dirty(int who, int spot)
{
	return pagemap_entry(pid_of(who), area.spot[spot].addr) & PM_SOFT_DIRTY;
}

/*
 * A store to shared memory sets the bit in the entry that all users of a table have. Before
 * clear_refs nobody learns anything by it, as all pages of a new region are said to be
 * dirty. After it, the process sees its own stores only.
 */
static void test_soft_dirty_shared(long arg)
{
	const int stored = 2, idle = 6;		/* never touched before the fork */

	need_soft_dirty();
	area_make(&area, ARG_KIND(arg));
	become_zygote();
	for (int i = 1; i <= 2; i++)
		spawn(i);
	for (int round = 0; round < 2; round++) {
		must(soft_dirty(1, stored) && soft_dirty(1, idle),
		     "a page of a new region is not dirty, %s a sibling's store",
		     round ? "after" : "before");
		ask(2, store_at, (long)area.spot[stored].addr, 0);
	}
	/* first a child, then the zygote; the other child tracks no stores */
	for (int who = 1; who >= 0; who--) {
		must(!ask(who, reset_refs, 4, 0), "clear_refs");
		for (int i = 0; i < area.nspots; i++)
			must(!soft_dirty(who, i), "spot %d is dirty after clear_refs", i);
		for (int i = 0; i < area.nspots; i++) {
			if (i == idle)
				continue;
			ask(2, store_at, (long)area.spot[i].addr, 0);
			ask(who, touch_at, (long)area.spot[i].addr, 0);
		}
		for (int i = 0; i < area.nspots; i++)
			must(!soft_dirty(who, i), "spot %d is dirty by a sibling's store", i);
		ask(who, store_at, (long)area.spot[stored].addr, 0);
		for (int i = 0; i < area.nspots; i++)
			must(soft_dirty(who, i) == (i == stored),
			     "spot %d: wrong after a store to another", i);
	}
	must(soft_dirty(1, stored) && !soft_dirty(1, idle),
	     "the zygote's stores have changed what its child sees");
}

static long map_more(long addr, long fd)
{
	must(mmap((char *)addr, table_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		  3 * table_size) == (char *)addr, "mmap: %s", strerror(errno));
	return 0;
}

/*
 * Two processes track stores to memory that they share, each by itself or as their parent
 * did. One maps more behind it, so that its region is one that has been stored to, and then
 * reads a page. A store of the other one must still be seen.
 */
static void test_tracked(long by_itself)
{
	char *p;
	int fd;

	need_soft_dirty();
	fd = make_file("tmpfs", 4 * table_size / page_size);
	p = map_at(arena(4), 3 * table_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(by_itself || !reset_refs(4, 0), "clear_refs");
	store_at((long)p, 0);
	for (int i = 0; i < 3; i++)
		touch(p + i * table_size);
	become_zygote();
	for (int i = 1; i <= 2; i++) {
		spawn(i);
		must(!by_itself || !ask(i, reset_refs, 4, 0), "clear_refs");
		ask(i, touch_at, (long)p + table_size, 0);
	}
	p += table_size + 100 * page_size;
	ask(1, map_more, (long)p + 2 * table_size - 100 * page_size, fd);
	ask(1, touch_at, (long)p, 0);
	ask(2, touch_at, (long)p, 0);
	must(!(pagemap_entry(pid_of(2), p) & PM_SOFT_DIRTY), "it is dirty before the store");
	ask(2, store_at, (long)p, 0);
	must(pagemap_entry(pid_of(2), p) & PM_SOFT_DIRTY, "a store is not seen");
}

#define IDLE	"/sys/kernel/mm/page_idle/bitmap"

static bool page_idle(__u64 pfn, bool set)
{
	__u64 word = 1ULL << pfn % 64;
	int fd = open(IDLE, O_RDWR | O_CLOEXEC);
	ssize_t n;

	must(fd >= 0, IDLE ": %s", strerror(errno));
	if (set)
		n = pwrite(fd, &word, 8, pfn / 64 * 8);
	else
		n = pread(fd, &word, 8, pfn / 64 * 8);
	must(n == 8, IDLE ": %s", strerror(errno));
	close(fd);
	return word >> pfn % 64 & 1;
}

static long touch_cold(long addr, long b)
{
	pid_t pid = fork();

	/* a fork flushes the parent's whole TLB, so that the access walks the tables */
	if (!pid)
		_exit(0);
	must(pid > 0 && waitpid(pid, NULL, 0) == pid, "fork: %s", strerror(errno));
	touch((char *)addr);
	return 0;
}

static void test_page_idle(long arg)
{
	char *addr;
	__u64 pfn;

	if (access(IDLE, W_OK))
		skip("no idle page tracking in this kernel");
	start_models(ARG_KIND(arg), 3);
	addr = area.spot[0].addr;
	for (int i = 1; i <= 3; i++) {
		bool idle = true;

		/* the last access must be noticed */
		ask(i, touch_cold, (long)addr, 0);
		pfn = pagemap_entry(pid_of(i), addr) & PM_PFN;
		must(pfn, "the page is not there");
		for (int tries = 0; tries < 20 && idle; tries++) {
			page_idle(pfn, true);
			ask(i, touch_cold, (long)addr, 0);
			idle = page_idle(pfn, false);
		}
		must(!idle, "process %d's access is not seen", i);
	}
	model_check_all(4);
}

/* --- memory that breaks --------------------------------------------------- */

static long advise(long addr, long advice)
{
	return madvise((void *)addr, page_size, advice) ? -errno : 0;
}

static void test_soft_offline(long arg)
{
	long ret;

	if (!costly)
		skip("only with -x: the page is lost to the machine");
	start_models(ARG_KIND(arg), 3);
	ret = ask(1, advise, (long)area.spot[0].addr, MADV_SOFT_OFFLINE);
	if (ret == -EINVAL || ret == -EPERM)
		skip("no soft offlining in this kernel");
	/* the page moved or not (EBUSY): its content is the same */
	model_check_all(4);
	model_scribble_all(4);
	model_check_all(4);
}

static void test_poison(long arg)
{
	char *addr;
	long ret;

	if (!costly)
		skip("only with -x: the page is lost to the machine");
	start_models(ARG_KIND(arg), 3);
	addr = area.spot[0].addr;
	for (int i = 0; i <= 3; i++) {
		ask(i, dies_late, 0, 0);
		ask(i, model_check, i, 0);
	}
	ret = ask(2, poison, (long)addr, 0);
	if (ret == -EINVAL || ret == -EPERM)
		skip("memory cannot be poisoned in this kernel");
	must(!ret, "MADV_HWPOISON: %s", strerror(-ret));
	for (int i = 0; i <= 3; i++) {
		struct want *w = &board->model[i].want[0];

		if (w->tag == area.spot[0].tag)
			w->acc = BUS;
	}
	model_check_all(4);
	/* the rest of the table is not affected */
	model_scribble_all(4);
	model_check_all(4);
}

#define FILES	(KIND(PRIV_FILE) | KIND(PRIV_DISK) | KIND(PRIV_FILE_RO) | KIND(SHARED_FILE) | \
		 KIND(SHARED_DISK) | KIND(MIXED))
#define QUICK	(KIND(ANON) | KIND(SHARED_ANON) | KIND(MIXED))
#define OWN	(KIND(ANON) | KIND(PRIV_FILE) | KIND(MIXED) | KIND(BORDERS))
#define SHARED	(KIND(SHARED_FILE) | KIND(SHARED_DISK) | KIND(SHARED_ANON) | KIND(MEMFD))

static const struct test_case cases[] = {
	{ "Does memory stay right while it is compacted?", test_compaction, 0, SOME_KINDS,
	  QUICK, .guards = INVARIANT(4) },
	{ "Who sees a write to a page that KSM merged after fork?", test_ksm, 0,
	  .guards = INVARIANT(2) },
	{ "Who sees a write to a page that KSM merged before fork?", test_ksm, 1,
	  .guards = INVARIANT(2) },
	{ "Do all lose what is cut off a file?", test_truncate, 0, FILES, .guards = INVARIANT(4) },
	{ "Do all see a hole punched into a file?", test_punch, 0, FILES, .guards = INVARIANT(4) },
	{ "Does the memory of a file that nobody has open stay?", test_unlink_last, 0, FILES,
	  .guards = INVARIANT(3) },
	{ "Does every write reach the disk, whoever made it?", test_writeback, 0,
	  KIND(SHARED_DISK) | KIND(SHARED_FILE), .guards = INVARIANT(4) },
	{ "Does memory stay right when caches are dropped?", test_drop_caches, 0, FILES,
	  .guards = INVARIANT(3) },
	{ "Does memory stay right when clear_refs is used?", test_clear_refs, 0, SOME_KINDS,
	  .guards = INVARIANT(2) | INVARIANT(4) },
	{ "Does Referenced say nothing of a sibling's reads? tmpfs", test_referenced, 0,
	  .guards = PRIVILEGE },
	{ "Does Referenced say nothing of a sibling's reads? disk", test_referenced, 1,
	  .guards = PRIVILEGE },
	{ "Whose soft-dirty bits does a write set?", test_soft_dirty, 0, OWN,
	  .guards = INVARIANT(1) },
	{ "Who sees a store to shared memory by its soft-dirty bit?", test_soft_dirty_shared, 0,
	  SHARED, KIND(SHARED_ANON), .guards = INVARIANT(1) | PRIVILEGE },
	{ "Is every sharer's access to an idle page seen?", test_page_idle, 0,
	  KIND(ANON) | KIND(SHARED_FILE), .guards = INVARIANT(4) },
	{ "Are stores seen that a process tracks, inherited?", test_tracked, 0,
	  .guards = INVARIANT(1) },
	{ "Are stores seen that a process tracks, by itself?", test_tracked, 1,
	  .guards = INVARIANT(1) },
	{ "Does memory stay right when a page is taken out of use?", test_soft_offline, 0,
	  SOME_KINDS, .guards = INVARIANT(4) },
	/* no file on disk: a clean page would be read again without SIGBUS */
	{ "Do all sharers of a broken page get SIGBUS?", test_poison, 0,
	  SOME_KINDS & ~KIND(SHARED_DISK), .guards = INVARIANT(4) },
};

int main(int argc, char **argv)
{
	int ret;

	ksm_was = mmap(NULL, 3 * sizeof(*ksm_was), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ksm_was == MAP_FAILED)
		return KSFT_FAIL;
	ret = run_cases(argc, argv, cases, ARRAY_SIZE(cases));
	for (int i = 0; i < 3; i++)
		if (ksm_was[i][0])
			write_text(ksm_files[i], ksm_was[i]);
	return ret;
}
