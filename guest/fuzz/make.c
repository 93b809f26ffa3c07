// SPDX-License-Identifier: GPL-2.0-or-later
/* Makes up the arguments of one command. */
#include "generate.h"

#include <sys/mman.h>

#include "kernel.h"

static const u8 prots[] = {
	PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
	PROT_READ, PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC,
	PROT_READ | PROT_WRITE | PROT_EXEC,
};

/* The functions below are false if the command makes no sense now. */

static bool gen_map(struct cmd *cmd)
{
	u32 used = 0;

	for (u32 i = 0; i < NR_OBJECTS; i++)
		used += world->objects[i].used;
	pick_range(cmd, MAP_PAGES, 2 * CHUNK);
	cmd->c = prots[rnd(ARRAY_SIZE(prots))];
	if (rnd(6) == 0 && (cmd->n <= 16 || rnd(8) == 0))
		cmd->c |= 1 << 8;
	if (cmd->page < UPPER_PAGES ? rnd(48) == 0 : rnd(100) < (opt.exec ? 25 : 50))
		return true;
	if (racing)
		return cmd->page >= UPPER_PAGES;
	if (used < NR_OBJECTS - 16 && rnd(3) == 0) {
		cmd->a = 1;
		return true;
	}
	cmd->a = 2 + 2 * rnd(NR_FILES) + rnd(2);
	if (cmd->page < UPPER_PAGES)
		cmd->a |= 1;
	cmd->b = rnd(2) ? cmd->page % CHUNK : rnd(OBJ_PAGES / 2);
	if (cmd->b + cmd->n > OBJ_PAGES)
		cmd->b = 0;
	return true;
}

static bool gen_move(struct cmd *cmd)
{
	const struct mpage *first;

	if (!pick_region(cmd, MAP_PAGES, CHUNK))
		return false;
	if (any_flag(cmd, F_MISSING | F_WP))
		return false;
	first = &proc_of(cmd)->pages[cmd->page];
	if (rnd(3) == 0 && cmd->n == CHUNK)
		cmd->a = rnd(MAP_PAGES / CHUNK) * CHUNK;
	else if (rnd(3) == 0)		/* the same place in another table */
		cmd->a = (cmd->page + CHUNK * rnd(MAP_PAGES / CHUNK)) % MAP_PAGES;
	else
		cmd->a = pick_page(MAP_PAGES);
	if (cmd->a + cmd->n > segment_end(cmd->a))
		return false;
	if (cmd->a < (u32)cmd->page + cmd->n && cmd->page < cmd->a + cmd->n)
		return false;
	cmd->b = rnd(4) == 0;
	/* Private memory is rare there: a table with it is not shared as a whole. */
	if (cmd->a < UPPER_PAGES && rnd(16) && first->kind != K_SHARED)
		return false;
	if ((racing || (opt.noise && cmd->a < NOISE_PAGES)) &&
	    !only_anon(cmd, cmd->page))
		return false;
	return !racing || only_anon(cmd, cmd->a);
}

static bool gen_resize(struct cmd *cmd)
{
	if (!pick_region(cmd, MAP_PAGES, CHUNK) || racing)
		return false;
	if (any_flag(cmd, F_MISSING | F_WP))
		return false;
	if (rnd(2) || cmd->n == 1)
		cmd->a = cmd->n + pick_length(segment_end(cmd->page) -
					      cmd->page - cmd->n);
	else
		cmd->a = 1 + rnd(cmd->n - 1);
	/* A private file region must not grow to where noise is. */
	return cmd->a > 0 && cmd->a <= segment_end(cmd->page) - cmd->page &&
	       !(opt.noise && cmd->page < NOISE_PAGES && !only_anon(cmd, cmd->page));
}

static bool gen_advise(struct cmd *cmd)
{
	static const struct {
		u8 advice, weight;
	} table[] = {
		{ MADV_DONTNEED, 24 }, { MADV_FREE, 8 }, { MADV_PAGEOUT, 14 },
		{ MADV_COLD, 4 }, { MADV_WILLNEED, 4 }, { MADV_POPULATE_READ, 8 },
		{ MADV_POPULATE_WRITE, 6 }, { MADV_REMOVE, 3 }, { MADV_DONTFORK, 1 },
		{ MADV_DOFORK, 5 }, { MADV_WIPEONFORK, 1 }, { MADV_KEEPONFORK, 5 },
		{ MADV_HUGEPAGE, 3 }, { MADV_NOHUGEPAGE, 3 }, { MADV_COLLAPSE, 10 },
		{ MADV_MERGEABLE, 8 }, { MADV_UNMERGEABLE, 2 },
		{ MADV_DONTNEED_LOCKED, 2 }, { MADV_SEQUENTIAL, 1 },
		{ MADV_RANDOM, 1 }, { MADV_NORMAL, 2 },
	};
	u32 sum = 0, at, i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		sum += table[i].weight;
	at = rnd(sum);
	for (i = 0; at >= table[i].weight; i++)
		at -= table[i].weight;
	cmd->a = table[i].advice;
	pick_range(cmd, NR_PAGES, 2 * CHUNK);
	if (!rnd(32)) {
		/* Pages of that size: what a fault fills is not that page alone. */
		static const u8 orders[] = { 0, 2, 4, 4, 4, 6, 9 };

		cmd->a = MADV_ORDER | orders[rnd(ARRAY_SIZE(orders))] << MADV_ORDER_SHIFT |
			 (rnd(3) ? 0 : MADV_ORDER_COPY);
		return true;
	}
	switch (cmd->a) {
	case MADV_DONTFORK:
	case MADV_WIPEONFORK:
		/* Tables with such regions are not shared: keep them rare. */
		cmd->page = MAP_PAGES - CHUNK + pick_page(CHUNK);
		cmd->n = pick_length(MAP_PAGES - cmd->page);
		return true;
	case MADV_HUGEPAGE:
	case MADV_COLLAPSE:
		cmd->page = cmd->page / CHUNK * CHUNK;
		cmd->n = CHUNK;
		return cmd->page < MAP_PAGES;
	case MADV_REMOVE:
		return pick_region(cmd, MAP_PAGES, CHUNK) &&
		       proc_of(cmd)->pages[cmd->page].kind == K_SHARED &&
		       claim(cmd, proc_of(cmd), true);
	case MADV_POPULATE_WRITE:
		if (!pick_region(cmd, NR_PAGES, CHUNK))
			return false;
		return claim(cmd, proc_of(cmd), false);
	default:
		return true;
	}
}

static bool gen_lock(struct cmd *cmd)
{
	if (!pick_region(cmd, MAP_PAGES, 64) || cmd->page < MAP_PAGES - CHUNK)
		return false;
	cmd->a = rnd(2);
	return !any_flag(cmd, F_MISSING | F_WP) &&
	       claim(cmd, proc_of(cmd), false);
}

static bool gen_other(struct cmd *cmd)
{
	int target = pick_slot(true, cmd->slot);
	u8 self = cmd->slot;
	bool found;
	bool write = cmd->op == OP_VMWRITE || cmd->op == OP_MEMWRITE;

	if (target < 0)
		return false;
	cmd->a = target;
	/* Mostly where the other has something. */
	cmd->slot = target;
	found = rnd(4) && pick_region(cmd, NR_PAGES, 16);
	cmd->slot = self;
	if (!found)
		pick_range(cmd, NR_PAGES, 16);
	cmd->b = ++world->seq;
	if (!claim(cmd, &world->procs[target], write))
		return false;
	claimed_slots |= 1U << target;
	return true;
}

static bool gen_uffd(struct cmd *cmd)
{
	switch (cmd->op) {
	case OP_UREG:
		if (!pick_region(cmd, MAP_PAGES, 64))
			return false;
		/* One table is enough: it is not shared then. */
		if (cmd->page < MAP_PAGES - CHUNK)
			return false;
		cmd->a = 1 + rnd(3);
		return only_anon(cmd, cmd->page) && !any_flag(cmd, F_LOCKED);
	case OP_UUNREG:
		pick_range(cmd, MAP_PAGES, CHUNK);
		cmd->page = MAP_PAGES - CHUNK + cmd->page % CHUNK;
		if (cmd->page + cmd->n > MAP_PAGES)
			cmd->n = MAP_PAGES - cmd->page;
		return true;
	default:
		for (u32 tries = 0; tries < 20; tries++) {
			cmd->page = MAP_PAGES - CHUNK + pick_page(CHUNK);
			cmd->n = 1;
			if (!any_flag(cmd, cmd->op == OP_UPROT ? F_WP : F_MISSING))
				continue;
			while (cmd->op == OP_UPROT && cmd->n < 16 &&
			       cmd->page + cmd->n < (int)MAP_PAGES &&
			       proc_of(cmd)->pages[cmd->page + cmd->n].flags & F_WP)
				cmd->n++;
			cmd->a = cmd->op == OP_UCOPY ? ++world->seq : rnd(3) != 0;
			return true;
		}
		return false;
	}
}

static bool gen_file(struct cmd *cmd)
{
	u32 size;

	if (racing)
		return false;
	cmd->a = rnd(NR_FILES);
	size = world->objects[cmd->a].size;
	switch (cmd->op) {
	case OP_TRUNC:
		cmd->b = rnd(3) ? OBJ_PAGES - rnd(64) : rnd(OBJ_PAGES);
		if (world->objects[cmd->a].huge)
			cmd->b = rnd(OBJ_PAGES / CHUNK + 1) * CHUNK;
		return true;
	case OP_PUNCH:
		cmd->page = rnd(OBJ_PAGES);
		cmd->n = pick_length(OBJ_PAGES - cmd->page);
		return true;
	default:
		if (!size)
			return false;
		cmd->page = rnd(size);
		cmd->n = 1 + rnd(16);
		if (cmd->page + cmd->n > (int)size)
			cmd->n = size - cmd->page;
		cmd->b = ++world->seq;
		return true;
	}
}

static bool gen_pin(struct cmd *cmd)
{
	struct proc *proc = proc_of(cmd);

	if (cmd->op != OP_PIN) {
		cmd->page = proc->pin_page;
		cmd->n = proc->pin_n;
		return proc->pinned;
	}
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive && world->procs[i].pinned)
			return false;
	cmd->a = rnd(4);
	/* For private files it is open what a refused pin has copied before. */
	return !racing && pick_region(cmd, NR_PAGES, 8) &&
	       proc->pages[cmd->page].kind == K_ANON;
}

/* For an access: one in eight may fault, which costs more than all others. */
static bool pick_accessible(struct cmd *cmd, bool write)
{
	const struct mpage *page;

	if (rnd(8) == 0) {
		pick_range(cmd, NR_PAGES, 4);
		return true;
	}
	if (!pick_region(cmd, NR_PAGES, rnd(60) ? 5 : 100))
		return false;
	page = &proc_of(cmd)->pages[cmd->page];
	return page->prot & (write ? PROT_WRITE : PROT_READ);
}

bool finish(struct cmd *cmd)
{
	struct proc *proc = proc_of(cmd);

	switch (cmd->op) {
	case OP_CHECK:
		if (!pick_accessible(cmd, false))
			return false;
		return claim(cmd, proc, false);
	case OP_WRITE:
		if (!pick_accessible(cmd, true))
			return false;
		cmd->a = ++world->seq;
		cmd->b = rnd(3) ? 15 : 1 + rnd(15);
		return claim(cmd, proc, true);
	case OP_FILL:
		if (!pick_region(cmd, NR_PAGES, 32))
			return false;
		cmd->a = 1 + rnd(3);
		return claim(cmd, proc, true);
	case OP_MAP:
		return gen_map(cmd);
	case OP_UNMAP:
		pick_range(cmd, MAP_PAGES, 2 * CHUNK);
		/* Holes are of interest, empty processes are not. */
		if (cmd->n > 64 && rnd(3))
			cmd->n = 1 + rnd(8);
		return true;
	case OP_PROTECT:
		pick_range(cmd, NR_PAGES, 2 * CHUNK);
		cmd->a = prots[rnd(ARRAY_SIZE(prots))];
		if (cmd->n > 64 && rnd(2))
			cmd->a = PROT_READ | PROT_WRITE;
		return true;
	case OP_MOVE:
		return gen_move(cmd);
	case OP_RESIZE:
		return gen_resize(cmd);
	case OP_ADVISE:
		return gen_advise(cmd);
	case OP_LOCK:
		return gen_lock(cmd);
	case OP_UNLOCK:
		cmd->page = MAP_PAGES - CHUNK;
		cmd->n = CHUNK;
		return true;
	case OP_FORK: {
		int child = pick_slot(false, -1);

		if (child < 0)
			return false;
		if (opt.exec && rnd(2)) {
			cmd->op = OP_SPAWN;
			cmd->b = pick_shift();
			cmd->c = pick_group();
		} else if (too_many_regions(cmd)) {
			return true;
		}
		cmd->a = child;
		claimed_slots |= 1U << child;
		return true;
	}
	case OP_BECOME:
		cmd->b = pick_shift();
		cmd->c = pick_group();
		return true;
	case OP_BALLAST:
		cmd->a = rnd(HOT_PAGES);
		return true;
	case OP_LEAVE:
		cmd->a = rnd(5);
		return true;
	case OP_EXIT:
	case OP_KILL:
		return world->alive > 3;
	case OP_EXEC:
		return true;
	case OP_VMREAD:
	case OP_VMWRITE:
	case OP_MEMREAD:
	case OP_MEMWRITE:
		return !racing && gen_other(cmd);
	case OP_PWRITE:
	case OP_TRUNC:
	case OP_PUNCH:
		return gen_file(cmd);
	case OP_BRK:
		cmd->a = rnd(4) ? (proc->brk + rnd(40)) % CHUNK : rnd(CHUNK + 1);
		return true;
	case OP_REFS:
		/* A process whose stores are tracked (4) shares nothing any more: do it rarely. */
		cmd->a = rnd(40) ? 1 + rnd(3) : 4;
		return true;
	case OP_LOOK:
		pick_range(cmd, NR_PAGES, CHUNK);
		return true;
	case OP_UREG:
	case OP_UUNREG:
	case OP_UCOPY:
	case OP_UZERO:
	case OP_UPROT:
		return gen_uffd(cmd);
	case OP_SPLICE:
		if (proc->nr_lent >= MAX_LENT || !pick_region(cmd, NR_PAGES, 1))
			return false;
		return claim(cmd, proc, false);
	case OP_DRAIN:
		return true;
	case OP_PIN:
	case OP_PINREAD:
	case OP_UNPIN:
		return gen_pin(cmd);
	case OP_ZYGOTE:
		cmd->a = rnd(5) ? PR_COHORT_ZYGOTE : 0;
		return true;
	case OP_MIGRATE:
		pick_range(cmd, NR_PAGES, CHUNK);
		cmd->a = rnd(2);
		return true;
	case OP_ADVOTHER: {
		static const u8 advice[] = { MADV_COLD, MADV_PAGEOUT, MADV_WILLNEED };

		if (!gen_other(cmd))
			return false;
		cmd->b = advice[rnd(ARRAY_SIZE(advice))];
		return true;
	}
	case OP_SCAN:
		pick_range(cmd, NR_PAGES, CHUNK);
		cmd->a = 1 + rnd(127);
		return true;
	case OP_MODE:
		cmd->a = rnd(opt.exec ? 120 : 100);
		return true;
	default:
		return true;
	}
}
