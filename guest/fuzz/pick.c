// SPDX-License-Identifier: GPL-2.0-or-later
/* Random numbers, and the pages and processes that a command is to name. */
#include "generate.h"

#include <sys/mman.h>

static u64 state[2];

void rnd_seed(u64 seed)
{
	for (u32 i = 0; i < 2; i++) {	/* splitmix64 */
		u64 z = seed += 0x9e3779b97f4a7c15ULL;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
		state[i] = z ^ z >> 31;
	}
}

u64 rnd64(void)			/* xorshift128+ */
{
	u64 a = state[0], b = state[1];

	state[0] = b;
	a ^= a << 23;
	state[1] = a ^ b ^ a >> 17 ^ b >> 26;
	return state[1] + b;
}

bool racing;
u32 claimed_read[NR_OBJECTS], claimed_write[NR_OBJECTS];
u32 claimed_slots;

u32 pick_length(u32 limit)
{
	u32 kind = rnd(100), n;

	n = kind < 66 ? 1 : kind < 92 ? 2 + rnd(3) : kind < 98 ? 5 + rnd(12) :
	    17 + rnd(CHUNK);
	return n < limit ? n : limit;
}

u32 pick_page(u32 limit)
{
	u32 page = rnd(limit / CHUNK) * CHUNK;

	switch (rnd(16)) {
	case 0:
		return page + rnd(CHUNK);
	case 1 ... 6:
		return page + rnd(HOT_PAGES);
	case 7 ... 10:
		return page + CHUNK / 2 + rnd(HOT_PAGES);
	default:
		return page + CHUNK - HOT_PAGES + rnd(HOT_PAGES);
	}
}

void pick_range(struct cmd *cmd, u32 limit, u32 longest)
{
	u32 kind = rnd(100);

	if (kind < 5 && longest >= CHUNK) {	/* a whole table, or two */
		cmd->page = rnd(limit / CHUNK) * CHUNK;
		cmd->n = kind < 2 && cmd->page + 2U * CHUNK <= limit ? 2 * CHUNK : CHUNK;
	} else if (kind < 20) {			/* over an edge */
		u32 edge = rnd(limit / CHUNK) * CHUNK;
		u32 before = edge ? rnd(5) : 0;

		cmd->page = edge - before;
		cmd->n = before + 1 + rnd(5);
	} else {
		cmd->page = pick_page(limit);
		cmd->n = pick_length(limit - cmd->page);
	}
	if (cmd->n > longest)
		cmd->n = longest;
	if (cmd->page + cmd->n > (int)segment_end(cmd->page))
		cmd->n = segment_end(cmd->page) - cmd->page;
}

static bool one_region(const struct mpage *a, const struct mpage *b)
{
	return a->inst == b->inst && a->kind == b->kind && a->prot == b->prot &&
	       !((a->flags ^ b->flags) &
		 (F_LOCKED | F_DONTFORK | F_WIPE | F_MISSING | F_WP));
}

bool too_many_regions(struct cmd *cmd)
{
	const struct mpage *pages = proc_of(cmd)->pages;
	u32 sum = 0, most = 0;

	cmd->page = 0;
	for (u32 chunk = 0; chunk < MAP_PAGES / CHUNK; chunk++) {
		u32 regions = 0;

		for (u32 i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++)
			regions += pages[i].kind && (i % CHUNK == 0 ||
				   !one_region(&pages[i], &pages[i - 1]));
		sum += regions;
		/* In a race, only private objects may change their place. */
		if (regions > most && !(racing && chunk < UPPER_PAGES / CHUNK)) {
			most = regions;
			cmd->page = chunk * CHUNK;
		}
	}
	if (sum <= MAX_REGIONS || !most)
		return false;
	cmd->op = OP_MAP;
	cmd->n = CHUNK;
	cmd->c = PROT_READ | PROT_WRITE;
	if (cmd->page < UPPER_PAGES)
		cmd->a = 3 + 2 * rnd(NR_FILES);
	return true;
}

bool pick_region(struct cmd *cmd, u32 limit, u32 longest)
{
	const struct mpage *pages = proc_of(cmd)->pages, *first;
	u32 at = pick_page(limit), tries = 0, n = 1;

	while (pages[at].kind == K_NONE)
		if (++tries > 20)
			return false;
		else
			at = pick_page(limit);
	if (rnd(3) == 0)	/* its start */
		while (at && pages[at - 1].inst == pages[at].inst &&
		       pages[at - 1].kind)
			at--;
	first = pages + at;
	longest = rnd(3) ? pick_length(longest) : longest;
	while (n < longest && at + n < limit && at + n < segment_end(at) &&
	       one_region(first, first + n))
		n++;
	cmd->page = at;
	cmd->n = n;
	return true;
}

bool claim(const struct cmd *cmd, const struct proc *proc, bool write)
{
	if (!racing)
		return true;
	for (u32 pass = 0; pass < 2; pass++)
		for (u32 i = cmd->page; i < cmd->page + (u32)cmd->n; i++) {
			const struct mpage *page = &proc->pages[i];
			u32 who = cmd->slot + 1, obj = page->obj;
			bool writes = write && page->kind == K_SHARED;

			if (page->kind < K_PRIVATE)
				continue;
			if (claimed_write[obj] && claimed_write[obj] != who)
				return false;
			if (writes && claimed_read[obj] && claimed_read[obj] != who)
				return false;
			if (!pass)
				continue;
			if (writes)
				claimed_write[obj] = who;
			/* None of several readers may write later. */
			claimed_read[obj] = claimed_read[obj] &&
				claimed_read[obj] != who ? ~0U : who;
		}
	return true;
}

bool only_anon(const struct cmd *cmd, u32 page)
{
	for (u32 i = page; i < page + cmd->n; i++)
		if (proc_of(cmd)->pages[i].kind > K_ANON)
			return false;
	return true;
}

bool any_flag(const struct cmd *cmd, u16 flags)
{
	for (u32 i = cmd->page; i < (u32)cmd->page + cmd->n; i++)
		if (proc_of(cmd)->pages[i].flags & flags)
			return true;
	return false;
}

int pick_slot(bool alive, int but)
{
	int found = -1;

	for (u32 i = 0, seen = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive == alive && (int)i != but &&
		    !(claimed_slots & (1U << i)) && rnd(++seen) == 0)
			found = i;
	return found;
}
