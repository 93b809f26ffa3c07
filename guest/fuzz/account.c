// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Accounting, at moments when no worker runs: what the kernel says about one
 * process must agree with itself, and the PSS of all must add up to the pages
 * that are resident, each counted once.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

u32 most_shared;

struct sums {
	u64 rss, pss;		/* kB, in the ranges that are tested */
	u64 all_rss;		/* kB, of the whole process */
	u64 status_rss;		/* kB, as /proc/PID/status has it */
	u32 regions;
};

static bool is_tested(u32 slot, u64 start, u64 end)
{
	for (u32 page = 0; page < NR_PAGES; page = segment_end(page)) {
		u64 low = (unsigned long)layout_addr(&board->slots[slot].layout, page);

		if (start >= low && end <= low + (segment_end(page) - page) * PAGE)
			return true;
	}
	return false;
}

static bool read_smaps(u32 slot, struct sums *sums)
{
	pid_t pid = world->procs[slot].pid;
	char path[40], line[256];
	bool inside = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		unsigned long long a, b;
		char perms[8];

		if (sscanf(line, "%llx-%llx %7s", &a, &b, perms) == 3) {
			inside = is_tested(slot, a, b);
			sums->regions += inside;
		} else if (sscanf(line, "Rss: %llu", &a) == 1) {
			sums->all_rss += a;
			sums->rss += inside ? a : 0;
		} else if (inside && sscanf(line, "Pss: %llu", &a) == 1) {
			sums->pss += a;
		}
	}
	fclose(file);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmRSS:", 6))
			sums->status_rss = strtoull(line + 6, NULL, 10);
	fclose(file);
	return true;
}

/* ---- the pages themselves ------------------------------------------------- */

#define FRAMES	(1 << 17)
static u64 frames[FRAMES];	/* a hash set of page frame numbers */
static u32 nr_frames;
static u64 zero_frame;

static u64 frame_of(u64 entry)
{
	return entry >> 63 ? entry & ((1ULL << 55) - 1) : 0;
}

static void find_zero_frame(void)
{
	volatile char *page = mmap(NULL, PAGE, PROT_READ,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open("/proc/self/pagemap", O_RDONLY);
	u64 entry = 0;

	if (page != MAP_FAILED && page[0] == 0 &&
	    pread(fd, &entry, 8, (unsigned long)page / PAGE * 8) == 8)
		zero_frame = frame_of(entry);
	close(fd);
	munmap((void *)page, PAGE);
}

static void add_frame(u64 frame)
{
	u32 at = (frame * 0x9e3779b97f4a7c15ULL) >> 47;

	while (frames[at] && frames[at] != frame)
		at = (at + 1) % FRAMES;
	if (!frames[at]) {
		frames[at] = frame;
		nr_frames++;
	}
}

/* The contents of /proc/PID/pagemap for all tested pages. */
bool read_pagemap(u32 slot, u64 entries[NR_PAGES])
{
	const struct layout *of = &board->slots[slot].layout;
	char path[40];
	bool good = true;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", world->procs[slot].pid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return false;
	for (u32 page = 0; page < NR_PAGES; page = segment_end(page)) {
		ssize_t size = (segment_end(page) - page) * 8;

		good &= pread(fd, entries + page, size,
			      (unsigned long)layout_addr(of, page) / PAGE * 8) == size;
	}
	close(fd);
	return good;
}

static bool read_frames(u32 slot)
{
	static u64 entries[NR_PAGES];

	if (!read_pagemap(slot, entries))
		return false;
	for (u32 i = 0; i < NR_PAGES; i++) {
		u64 frame = frame_of(entries[i]);

		if (frame && frame != zero_frame)
			add_frame(frame);
	}
	return true;
}

/* ---- the check -------------------------------------------------------------- */

/* Empty when all agrees. */
static void agree(char *text, size_t size)
{
	struct sums all = {};

	text[0] = 0;
	nr_frames = 0;
	memset(frames, 0, sizeof(frames));
	for (u32 slot = 0; slot < NR_SLOTS; slot++) {
		struct proc *proc = &world->procs[slot];
		struct sums sums = {};
		u32 shared;

		if (!proc->alive)
			continue;
		if (!read_smaps(slot, &sums) || !read_frames(slot)) {
			snprintf(text, size, "process %u is gone", slot);
			return;
		}
		shared = shared_tables(proc->pid);
		if (shared > most_shared)
			most_shared = shared;
		if (sums.all_rss != sums.status_rss) {
			snprintf(text, size,
				 "process %u: Rss of its regions is %llu kB, VmRSS %llu kB (%u tables shared)",
				 slot, (unsigned long long)sums.all_rss,
				 (unsigned long long)sums.status_rss, shared);
			return;
		}
		all.pss += sums.pss;
		all.regions += sums.regions;
	}
	/* Each region's sum is cut to whole kB. */
	if (all.pss > nr_frames * 4ULL + 4 ||
	    all.pss + all.regions + 4 < nr_frames * 4ULL)
		snprintf(text, size,
			 "the PSS of all is %llu kB in %u regions, but %u kB are resident",
			 (unsigned long long)all.pss, all.regions, nr_frames * 4);
}

/* While it is shared still: looking at all pages may unshare every table. */
void account_sharing(void)
{
	for (u32 slot = 0; slot < NR_SLOTS; slot++) {
		u32 shared = world->procs[slot].alive ?
			     shared_tables(world->procs[slot].pid) : 0;

		if (shared > most_shared)
			most_shared = shared;
	}
}

void account_check(void)
{
	char text[200];

	if (!zero_frame)
		find_zero_frame();
	if (!zero_frame)
		return;		/* frame numbers are for root */
	/* Reclaim, migration and merging go on: a real mistake stays. */
	for (u32 i = 0; i < 5; i++) {
		agree(text, sizeof(text));
		if (!text[0])
			return;
		usleep(100000 << i);
	}
	fail("accounting: %s", text);
}

/* The state when all processes of the run are gone. */
void account_leaks(bool start)
{
	static const struct {
		const char *name;
		u32 slack;	/* pages: the machine is not quite at rest */
	} counts[] = {
		{ "nr_page_table_pages", 100 }, { "nr_anon_pages", 1500 },
	};
	static u64 before[ARRAY_SIZE(counts)];

	for (u32 i = 0; i < ARRAY_SIZE(counts); i++) {
		u64 now = 0;

		if (start) {
			vmstat(counts[i].name, &before[i]);
			continue;
		}
		/* Tables wait for RCU. */
		for (u32 k = 0; k < 50; k++) {
			vmstat(counts[i].name, &now);
			if (now <= before[i] + counts[i].slack)
				break;
			usleep(100000);
		}
		if (now > before[i] + counts[i].slack)
			fail("%s was %llu and is %llu with all processes gone",
			     counts[i].name, (unsigned long long)before[i],
			     (unsigned long long)now);
	}
}
