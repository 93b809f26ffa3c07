// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages populated in the zygote before its first fork. */
#include "zygote.h"

static void read_page(uintptr_t at)
{
	(void)*(volatile char *)at;
}

/*
 * Populate the same part of every library's code, in all @want entries. The
 * kernel maps the pages around a fault along; entries beyond the part are
 * dropped again, so that the number is right whatever the kernel does.
 */
static void populate_code(size_t want)
{
	struct regions *rs = &s->regions;
	size_t all = 0, done = 0, seen = 0;

	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++)
		if (is_code(&rs->r[i]))
			all += (rs->r[i].end - rs->r[i].start) / PAGE;
	if (all < want)
		die("%zu pages of code, %zu wanted: more libraries are needed", all, want);
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];
		size_t pages = (r->end - r->start) / PAGE, quota;

		if (!is_code(r))
			continue;
		seen += pages;
		/* Rounding carries over: the sum is exactly @want. */
		quota = (size_t)((double)want * seen / all + 0.5) - done;
		if (quota > pages)
			quota = pages;
		done += quota;
		madvise((void *)r->start, r->end - r->start, MADV_DONTNEED);
		for (size_t k = 0; k < quota; k++)
			read_page(r->start + k * PAGE);
		if (quota < pages)
			madvise((void *)(r->start + quota * PAGE), (pages - quota) * PAGE,
				MADV_DONTNEED);
	}
}

/*
 * What this program runs meanwhile is populated too: the first try tells how much
 * that is.
 */
void populate_code_about(size_t want)
{
	struct footprint fp;

	populate_code(want);
	footprint_read(&fp, &s->regions, s);
	if (fp.code > want)
		populate_code(want - (fp.code - want));
}

/*
 * What a zygote makes of its own: many small objects, written once. The heap
 * grows until the entries that fork copies are @want.
 */
void populate_heap(size_t want)
{
	struct footprint fp;

	footprint_read(&fp, &s->regions, s);
	while (fp.copied < want) {
		size_t missing = want - fp.copied;

		for (size_t bytes = 0; bytes < missing * PAGE; bytes += 256)
			memset(malloc(240), 1, 240);
		footprint_read(&fp, &s->regions, s);
	}
}
