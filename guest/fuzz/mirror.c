// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Processes that start by exec have no memory of others. Here they map what another one
 * has, or what is made up for it: in the range of one table up to four pieces of files,
 * and nothing besides. That is what a kernel may let them share.
 */
#include "generate.h"

#include <string.h>
#include <sys/mman.h>

#define MAX_PIECES	4
#define MIRROR_CMDS	(1 + MAX_PIECES + 3)

struct piece {
	u16 page, n;
	u16 off;
	u8 obj, prot;
	bool shared;
};

static struct piece pieces[MAX_PIECES];
static u32 nr_pieces;

/*
 * Several processes map the same in turn, or in a race at once: a table that one of them
 * has opened is there when the next one comes.
 */
static struct {
	u32 left;		/* processes */
	u32 chunk;
	struct piece pieces[MAX_PIECES];
	u32 nr;
} party;

/* The pieces of a chunk; false if anything else is in it, or too many or too few. */
static bool find_pieces(const struct proc *proc, u32 chunk)
{
	u32 pages = 0;

	nr_pieces = 0;
	for (u32 i = chunk * CHUNK; i < (chunk + 1) * CHUNK; i++) {
		const struct mpage *page = &proc->pages[i];
		struct piece *last = &pieces[nr_pieces - 1];

		if (page->kind == K_NONE)
			continue;
		if (page->kind == K_ANON || page->obj >= NR_FILES)
			return false;
		pages++;
		if (nr_pieces && i == (u32)last->page + last->n &&
		    page->off == last->off + last->n && page->obj == last->obj &&
		    page->prot == last->prot &&
		    (page->kind == K_SHARED) == last->shared) {
			last->n++;
			continue;
		}
		if (nr_pieces == MAX_PIECES)
			return false;
		pieces[nr_pieces++] = (struct piece){
			i, 1, page->off, page->obj, page->prot,
			page->kind == K_SHARED,
		};
	}
	return pages >= CHUNK / 8;
}

static void make_up_pieces(u32 chunk)
{
	static const u8 prots[] = {
		PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
		PROT_READ | PROT_WRITE,
	};
	u32 at = rnd(3) ? 0 : rnd(HOT_PAGES), obj = rnd(NR_FILES);
	u32 off = rnd(3) ? at : rnd(OBJ_PAGES / 2);

	nr_pieces = 0;
	while (nr_pieces < MAX_PIECES && at < CHUNK) {
		struct piece *p = &pieces[nr_pieces++];

		p->page = chunk * CHUNK + at;
		p->n = rnd(2) ? CHUNK - at : 1 + rnd(CHUNK - at);
		p->obj = obj;
		p->off = off % (OBJ_PAGES - CHUNK);
		p->prot = prots[rnd(ARRAY_SIZE(prots))];
		p->shared = !racing && (chunk < UPPER_PAGES / CHUNK || rnd(4) == 0);
		at += p->n;
		off += p->n;
		if (rnd(3) == 0) {	/* a hole, another file or another place of it */
			at += rnd(HOT_PAGES);
			obj = rnd(NR_FILES);
			off = rnd(OBJ_PAGES / 2);
		}
	}
}

/* In a race, all who map a file anew may read it, and nobody may write. */
static bool claim_pieces(u32 slot)
{
	for (u32 i = 0; i < nr_pieces; i++) {
		u32 obj = pieces[i].obj, who = slot + 1;

		if (pieces[i].shared ||
		    (claimed_write[obj] && claimed_write[obj] != who))
			return false;
	}
	for (u32 i = 0; i < nr_pieces; i++) {
		u32 *reader = &claimed_read[pieces[i].obj];

		*reader = *reader && *reader != slot + 1 ? ~0U : slot + 1;
	}
	return true;
}

bool mirror_allowed(u32 chunk)
{
	/* Threads store there, and shared memory stays at its place. */
	return !racing || chunk >= UPPER_PAGES / CHUNK;
}

int mirror_source(u32 chunk, int but)
{
	int found = -1;

	for (u32 i = 0, seen = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive && (int)i != but &&
		    find_pieces(&world->procs[i], chunk) && rnd(++seen) == 0)
			found = i;
	if (found >= 0)
		find_pieces(&world->procs[found], chunk);
	return found;
}

/* The commands that map the pieces. */
static u32 add_pieces(struct round *round, u32 slot, u32 chunk, bool looks)
{
	struct cmd *cmd = &round->cmds[round->n];
	u32 looked, n = 0;

	if (racing && !claim_pieces(slot))
		return 0;
	memset(cmd, 0, MIRROR_CMDS * sizeof(*cmd));
	cmd[n].op = OP_UNMAP;
	cmd[n].page = chunk * CHUNK;
	cmd[n++].n = CHUNK;
	for (u32 i = 0; i < nr_pieces; i++, n++) {
		const struct piece *p = &pieces[i];

		cmd[n].op = OP_MAP;
		cmd[n].page = p->page;
		cmd[n].n = p->n;
		cmd[n].a = 2 + 2 * p->obj + p->shared;
		cmd[n].b = p->off;
		cmd[n].c = p->prot;
	}
	looked = looks ? 1 + rnd(3) : 0;
	for (u32 i = 0; i < looked; i++) {
		const struct piece *p = &pieces[rnd(nr_pieces)];
		u32 at = rnd(p->n);

		if (!(p->prot & PROT_READ))
			continue;
		cmd[n].op = OP_CHECK;
		cmd[n].page = p->page + at;
		cmd[n++].n = 1 + rnd(p->n - at < 8 ? p->n - at : 8);
	}
	for (u32 i = 0; i < n; i++)
		cmd[i].slot = slot;
	round->n += n;
	return n;
}

u32 add_mirror(struct round *round, u32 slot, int from, u32 chunk, bool looks)
{
	if (!mirror_allowed(chunk))
		return 0;
	if (from < 0 || !find_pieces(&world->procs[from], chunk))
		make_up_pieces(chunk);
	return add_pieces(round, slot, chunk, looks);
}

static void start_party(u32 chunk)
{
	if (!mirror_allowed(chunk))
		return;
	if (mirror_source(chunk, -1) < 0 || !rnd(4))
		make_up_pieces(chunk);
	party.chunk = chunk;
	party.nr = nr_pieces;
	memcpy(party.pieces, pieces, sizeof(pieces));
	party.left = 2 + rnd(4);
}

static u32 join_party(struct round *round, u32 slot)
{
	if (!mirror_allowed(party.chunk))
		return 0;
	party.left--;
	nr_pieces = party.nr;
	memcpy(pieces, party.pieces, sizeof(pieces));
	return add_pieces(round, slot, party.chunk, true);
}

void end_party(void)
{
	party.left = 0;
}

static bool has_little(const struct proc *proc)
{
	u32 pages = 0;

	for (u32 i = 0; i < MAP_PAGES; i++)
		pages += proc->pages[i].kind != K_NONE;
	return pages < MAP_PAGES / 8;
}

static bool has_upper(const struct proc *proc)
{
	for (u32 i = 0; i < UPPER_PAGES; i++)
		if (proc->pages[i].kind != K_NONE)
			return true;
	return false;
}

/*
 * One or another file where a table of tables may be shared. Whoever touches the ballast
 * first, while nothing is there yet, may join one.
 */
static u32 add_upper(struct round *round, u32 slot)
{
	u32 file = 3 + 2 * rnd(2), seq = ++world->seq;
	const struct cmd cmds[] = {
		{ OP_MAP, slot, 0, 2 * CHUNK, file, 0, PROT_READ | PROT_WRITE },
		{ OP_MAP, slot, 2 * CHUNK, CHUNK, file, 0, PROT_READ | PROT_WRITE },
		{ OP_BALLAST, slot, 0, 0, rnd(HOT_PAGES), 0, 0 },
		{ OP_CHECK, slot, rnd(UPPER_PAGES - 16), 1 + rnd(16), 0, 0, 0 },
		{ OP_WRITE, slot, rnd(UPPER_PAGES - 16), 1 + rnd(4), seq, 15, 0 },
	};
	u32 n = ARRAY_SIZE(cmds) - rnd(2);

	memcpy(&round->cmds[round->n], cmds, n * sizeof(*cmds));
	round->n += n;
	return n;
}

u32 add_mirrors(struct round *round, u32 slot)
{
	u32 n = 0;

	if (!racing && rnd(4) && !has_upper(&world->procs[slot]))
		n = add_upper(round, slot);
	if (has_little(&world->procs[slot])) {
		int from = pick_slot(true, slot);

		/* A newcomer does as one other does. */
		for (u32 i = n ? UPPER_PAGES / CHUNK : 0; i < MAP_PAGES / CHUNK; i++)
			if (n + MIRROR_CMDS <= MAX_BURST && rnd(4))
				n += add_mirror(round, slot,
						from >= 0 ? from : mirror_source(i, slot),
						i, true);
		return n;
	}
	if (!party.left && rnd(6) == 0)
		start_party(rnd(MAP_PAGES / CHUNK));
	return party.left ? n + join_party(round, slot) : n;
}

u32 pick_shift(void)
{
	int other;

	if (strcmp(opt.exec, "random"))
		return 0;
	switch (rnd(8)) {
	case 0:
		return 0;
	case 1 ... 2:		/* where another one is */
		other = pick_slot(true, -1);
		return other < 0 ? 0 :
		       (board->slots[other].layout.base - MAP_BASE) / PAGE;
	case 3:			/* the same place in a gigabyte */
		return rnd(MAX_SHIFT / (CHUNK * CHUNK)) * CHUNK * CHUNK;
	case 4 ... 6:		/* in a table */
		return rnd(MAX_SHIFT / CHUNK) * CHUNK;
	default:
		return rnd(MAX_SHIFT);
	}
}

u32 pick_group(void)
{
	u32 group = !strcmp(opt.join, "group");

	return rnd(6) ? group : rnd(3);
}
