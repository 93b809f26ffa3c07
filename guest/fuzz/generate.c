// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes up commands. What it picks depends on the seed and on the oracle's view
 * before the round; a burst's later commands may so be of less use than they
 * seemed, but never wrong: the oracle judges each by the state it finds.
 *
 * In a race nothing may happen twice at once to what is not private, or there
 * would be no one right answer: a round then claims the objects it touches, and
 * leaves out what changes objects as a whole or moves them to other addresses.
 */
#include "generate.h"

#include <string.h>
#include <sys/mman.h>

#include "kernel.h"

static u16 weights[NR_OPS] = {
	[OP_CHECK] = 340, [OP_WRITE] = 400, [OP_FILL] = 20, [OP_MAP] = 40,
	[OP_UNMAP] = 20, [OP_PROTECT] = 50, [OP_MOVE] = 25, [OP_RESIZE] = 15,
	[OP_ADVISE] = 120, [OP_LOCK] = 6, [OP_UNLOCK] = 5, [OP_FORK] = 22,
	[OP_EXIT] = 14, [OP_EXEC] = 1, [OP_VMREAD] = 16, [OP_VMWRITE] = 30,
	[OP_MEMREAD] = 6, [OP_MEMWRITE] = 12, [OP_PWRITE] = 10, [OP_TRUNC] = 8,
	[OP_PUNCH] = 6, [OP_BRK] = 14, [OP_REFS] = 3, [OP_LOOK] = 1,
	[OP_UREG] = 6, [OP_UUNREG] = 3, [OP_UCOPY] = 6, [OP_UZERO] = 3,
	[OP_UPROT] = 6, [OP_SPLICE] = 12, [OP_DRAIN] = 12, [OP_PIN] = 12,
	[OP_PINREAD] = 6, [OP_UNPIN] = 2, [OP_ZYGOTE] = 1, [OP_MIGRATE] = 4,
	[OP_ADVOTHER] = 8, [OP_SCAN] = 4,
};

/* Work that the controller does itself, now and then. */
static const struct {
	u8 op;
	u16 every;		/* rounds, on average */
} globals[] = {
	{ OP_KILL, 150 }, { OP_QUIET, 700 }, { OP_COMPACT, 1500 },
	{ OP_DROP, 900 }, { OP_SWAPOFF, 1500 }, { OP_MODE, 400 },
	{ OP_RECLAIM, 400 },
};

static void pick_command(struct cmd *cmd, u32 slot)
{
	static u32 sum;

	if (!sum) {
		if (opt.exec) {
			weights[OP_BECOME] = 4;
			weights[OP_LEAVE] = 2;
			weights[OP_BALLAST] = 2;
		}
		for (u32 i = 0; i < NR_OPS; i++)
			sum += weights[i];
	}
	for (;;) {
		u32 at = rnd(sum), op = 0;

		while (at >= weights[op])
			at -= weights[op++];
		memset(cmd, 0, sizeof(*cmd));
		cmd->op = op;
		cmd->slot = slot;
		if (finish(cmd))
			return;
	}
}

static void add_burst(struct round *round, u32 slot, u32 length)
{
	u32 pages = 0, first = 0;

	claimed_slots |= 1U << slot;
	if (opt.exec)
		first = add_mirrors(round, slot);
	for (u32 i = first; i < length || i == first; i++) {
		if (i == MAX_BURST)
			break;
		struct cmd *cmd = &round->cmds[round->n];

		pick_command(cmd, slot);
		/* These go by what are right before the burst only. */
		if (i && (cmd->op == OP_PIN || cmd->op == OP_TRUNC ||
			  (cmd->op == OP_ADVISE && cmd->a == MADV_COLLAPSE))) {
			i--;
			continue;
		}
		round->n++;
		pages += cmd->n;
		if (cmd->op == OP_EXIT || cmd->op == OP_FORK ||
		    cmd->op == OP_SPLICE || cmd->op == OP_PIN || pages > 1200 ||
		    cmd->op == OP_SPAWN || cmd->op == OP_BECOME)
			break;
	}
}

/* To be killed while at work: nobody will know how far it came. */
static void pick_victim(struct round *round, u32 slot)
{
	for (u32 i = 0; i < NR_OBJECTS; i++)
		if (claimed_write[i] == slot + 1)
			return;
	for (u32 i = 0; i < round->n; i++) {
		u32 op = round->cmds[i].op;

		if (round->cmds[i].slot == slot && (op == OP_FORK || op == OP_SPAWN || op == OP_EXIT))
			return;
	}
	round->kill = slot;
}

/*
 * Something that takes pages away from @watch's process, or changes them: by the
 * file they are of, by a table that is shared, or from outside.
 */
static bool disturb(struct cmd *cmd, const struct cmd *watch)
{
	static const u8 advice[] = {
		MADV_PAGEOUT, MADV_PAGEOUT, MADV_DONTNEED, MADV_REMOVE, MADV_COLLAPSE,
	};
	const struct mpage *page = &world->procs[watch->slot].pages[watch->page];
	const struct mpage *mine = &proc_of(cmd)->pages[watch->page];
	bool of_file = page->kind >= K_PRIVATE && page->obj < NR_FILES;
	struct object *file = &world->objects[page->obj];

	cmd->page = watch->page;
	cmd->n = watch->n;
	switch (rnd(of_file ? 8 : 4)) {
	case 0:
		cmd->op = OP_VMWRITE;
		cmd->a = watch->slot;
		cmd->b = ++world->seq;
		return true;
	case 1:
		cmd->op = OP_MIGRATE;
		cmd->a = rnd(2);
		return true;
	case 2 ... 3:
		cmd->op = OP_ADVISE;
		cmd->a = advice[rnd(ARRAY_SIZE(advice))];
		if (cmd->a == MADV_COLLAPSE) {
			cmd->page = cmd->page / CHUNK * CHUNK;
			cmd->n = CHUNK;
			return cmd->page < MAP_PAGES;
		}
		return cmd->a != MADV_REMOVE || mine->kind == K_SHARED;
	case 4:
		cmd->op = OP_TRUNC;
		cmd->a = page->obj;
		cmd->b = file->huge ? page->off / CHUNK * CHUNK : page->off;
		return true;
	case 5:
		cmd->op = OP_PWRITE;
		cmd->b = ++world->seq;
		break;
	default:
		cmd->op = OP_PUNCH;
	}
	cmd->a = page->obj;
	cmd->page = page->off;
	return page->off + cmd->n <= file->size;
}

/*
 * One process looks at pages while another one, on another processor, takes them
 * away: what it sees once that is done must be new.
 */
static bool generate_watch(struct round *round, struct cmd watch)
{
	struct cmd *cmd = round->cmds;
	int other = watch.a;

	if (other < 0 || !(proc_of(&watch)->pages[watch.page].prot & PROT_READ))
		return false;
	memset(cmd, 0, sizeof(*cmd));
	cmd->slot = other;
	if (!disturb(cmd, &watch))
		return false;
	round->n = 1;
	/* Freed numbers are used again. */
	for (u32 i = 0; i < 3; i++) {
		cmd = &round->cmds[round->n];
		memset(cmd, 0, sizeof(*cmd));
		cmd->op = OP_WRITE;
		cmd->slot = other;
		if (finish(cmd))
			round->n++;
	}
	round->cmds[round->n++] = watch;
	return round->race = true;
}

static bool generate_any_watch(struct round *round)
{
	struct cmd watch = { .op = OP_WATCH };
	int watcher = pick_slot(true, -1);
	int other = pick_slot(true, watcher);

	watch.slot = watcher;
	watch.a = other;
	return other >= 0 && pick_region(&watch, NR_PAGES, 8) &&
	       generate_watch(round, watch);
}

/*
 * The same where the first look finds no table, while another process has one with the
 * same pages that it changes: one round maps, the next one looks.
 */
static struct cmd newcomer;

static bool generate_newcomer(struct round *round)
{
	u32 chunk = rnd(MAP_PAGES / CHUNK);
	int other = mirror_source(chunk, -1);
	int slot = pick_slot(true, other);

	if (other < 0 || slot < 0 || !add_mirror(round, slot, other, chunk, false))
		return false;
	newcomer = (struct cmd){ .op = OP_WATCH, .slot = slot, .a = other };
	newcomer.page = round->cmds[1].page + rnd(HOT_PAGES);
	newcomer.n = 1 + rnd(8);
	return true;
}

void generate(struct round *round)
{
	struct cmd watch = newcomer;
	u32 slots = 1;

	memset(claimed_read, 0, sizeof(claimed_read));
	memset(claimed_write, 0, sizeof(claimed_write));
	claimed_slots = 0;
	round->n = 0;
	round->kill = -1;
	round->race = racing = false;
	newcomer.op = 0;
	if (watch.op == OP_WATCH && generate_watch(round, watch))
		return;
	round->n = 0;
	for (u32 i = 0; i < ARRAY_SIZE(globals); i++) {
		struct cmd *cmd = &round->cmds[0];

		if (rnd(globals[i].every))
			continue;
		memset(cmd, 0, sizeof(*cmd));
		cmd->op = globals[i].op;
		cmd->slot = CONTROLLER;
		if (cmd->op == OP_KILL)
			cmd->a = pick_slot(true, -1);
		if (finish(cmd)) {
			round->n = 1;
			return;
		}
	}
	if (opt.exec && rnd(400) < opt.race && generate_newcomer(round))
		return;
	if (rnd(200) < opt.race && generate_any_watch(round))
		return;
	if (rnd(100) < opt.race) {
		round->race = racing = true;
		slots = 2 + rnd(world->alive);
	}
	for (u32 i = 0; i < slots; i++) {
		int slot = pick_slot(true, -1);

		if (slot < 0)
			break;
		add_burst(round, slot, 1 + rnd(MAX_BURST));
		if (racing && round->kill < 0 && world->alive > 4 && !rnd(25))
			pick_victim(round, slot);
	}
}

/* The first rounds of an episode: something to share, and some who share it. */
void generate_start(struct round *round, u32 step)
{
	memset(round, 0, sizeof(*round));
	round->kill = -1;
	newcomer.op = 0;
	end_party();
	for (u32 i = 0; i < NR_CHUNKS && step == 0; i++) {
		struct cmd *cmd = &round->cmds[round->n++];

		cmd->op = i == NR_CHUNKS - 1 ? OP_BRK : OP_MAP;
		cmd->n = CHUNK;
		cmd->page = i * CHUNK;
		if (cmd->op == OP_BRK) {
			cmd->a = rnd(CHUNK);
			cmd->n = 0;
			break;
		}
		cmd->c = PROT_READ | PROT_WRITE;
		cmd->a = cmd->page < UPPER_PAGES ? 1 + 2 * rnd(NR_FILES + 1) :
			 i % 3 == 2 || (opt.exec && i % 3) ? 2 + 2 * rnd(NR_FILES) : 0;
		/* What has no name comes to others by fork alone. */
		if (opt.exec && cmd->a == 1)
			cmd->a = 3;
	}
	for (u32 i = 0; i < 2 * NR_CHUNKS && step == 1; i++) {
		struct cmd *cmd = &round->cmds[round->n++];

		/* Private pages of files that nobody has written to may be joined. */
		cmd->op = opt.exec && rnd(2) ? OP_CHECK : OP_WRITE;
		cmd->page = i / 2 * CHUNK + (i % 2 ? CHUNK - HOT_PAGES : 0);
		cmd->n = 1 + rnd(HOT_PAGES);
		cmd->a = ++world->seq;
		cmd->b = 15;
	}
	if (step >= 2) {
		round->n = 1;
		round->cmds[0].op = OP_FORK;
		round->cmds[0].slot = rnd(step - 1);
		round->cmds[0].a = step - 1;
		if (opt.exec && step % 3) {
			round->cmds[0].op = OP_SPAWN;
			round->cmds[0].b = pick_shift();
			round->cmds[0].c = pick_group();
		}
	}
}
