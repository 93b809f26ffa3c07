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
#include "fuzz.h"

#include <string.h>
#include <linux/userfaultfd.h>

#include "kernel.h"

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

static bool racing;
static u32 claimed_read[NR_OBJECTS], claimed_write[NR_OBJECTS];	/* slot + 1 */
static u32 claimed_slots;	/* to be forked into, or somebody's target */

static const u8 prots[] = {
	PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
	PROT_READ, PROT_READ, PROT_NONE, PROT_READ | PROT_EXEC,
	PROT_READ | PROT_WRITE | PROT_EXEC,
};

static struct proc *proc_of(const struct cmd *cmd)
{
	return &world->procs[cmd->slot];
}

/* ---- ranges ------------------------------------------------------------- */

static u32 pick_length(u32 limit)
{
	u32 kind = rnd(100), n;

	n = kind < 66 ? 1 : kind < 92 ? 2 + rnd(3) : kind < 98 ? 5 + rnd(12) :
	    17 + rnd(CHUNK);
	return n < limit ? n : limit;
}

/*
 * Mostly one of a few pages of a table, so that commands meet: those at its edges
 * and some in the middle. It also keeps tables cheap to copy and regions few.
 */
static u32 pick_page(u32 limit)
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

/* Anywhere in the chunks below @limit, often at the edge of a table. */
static void pick_range(struct cmd *cmd, u32 limit, u32 longest)
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

/*
 * Regions are what fork and exit cost most, and random operations make ever more:
 * a process with many gets a table's worth of one region instead of a child.
 */
static bool too_many_regions(struct cmd *cmd)
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
		/* What is not private must not change its place in a race. */
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

/* Pages from one that is mapped, as long as they look like one region. */
static bool pick_region(struct cmd *cmd, u32 limit, u32 longest)
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

/*
 * In a race: may @cmd read, or write, the objects that its range shows at the
 * start of the round? No command of a race changes which they are.
 */
static bool claim(const struct cmd *cmd, const struct proc *proc, bool write)
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
			/* Of several readers none may write later. */
			claimed_read[obj] = claimed_read[obj] &&
				claimed_read[obj] != who ? ~0U : who;
		}
	return true;
}

static bool only_anon(const struct cmd *cmd, u32 page)
{
	for (u32 i = page; i < page + cmd->n; i++)
		if (proc_of(cmd)->pages[i].kind > K_ANON)
			return false;
	return true;
}

static bool any_flag(const struct cmd *cmd, u16 flags)
{
	for (u32 i = cmd->page; i < (u32)cmd->page + cmd->n; i++)
		if (proc_of(cmd)->pages[i].flags & flags)
			return true;
	return false;
}

static int pick_slot(bool alive, int but)
{
	int found = -1;

	for (u32 i = 0, seen = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive == alive && (int)i != but &&
		    !(claimed_slots & (1U << i)) && rnd(++seen) == 0)
			found = i;
	return found;
}

/* ---- commands: false if the one asked for makes no sense now ---------------- */

static bool gen_map(struct cmd *cmd)
{
	u32 used = 0;

	for (u32 i = 0; i < NR_OBJECTS; i++)
		used += world->objects[i].used;
	pick_range(cmd, MAP_PAGES, 2 * CHUNK);
	cmd->c = prots[rnd(ARRAY_SIZE(prots))];
	if (rnd(6) == 0 && (cmd->n <= 16 || rnd(8) == 0))
		cmd->c |= 1 << 8;
	if (cmd->page < UPPER_PAGES ? rnd(48) == 0 : rnd(100) < 50)
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
	/* What a refused pin has copied before is open for private files. */
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

static bool finish(struct cmd *cmd)
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
		if (too_many_regions(cmd))
			return true;
		cmd->a = child;
		claimed_slots |= 1U << child;
		return true;
	}
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
		cmd->a = 1 + rnd(4);
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
		cmd->a = rnd(100);
		return true;
	default:
		return true;
	}
}

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

/* What the controller does itself, now and then. */
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

	if (!sum)
		for (u32 i = 0; i < NR_OPS; i++)
			sum += weights[i];
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
	u32 pages = 0;

	claimed_slots |= 1U << slot;
	for (u32 i = 0; i < length; i++) {
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
		    cmd->op == OP_SPLICE || cmd->op == OP_PIN || pages > 1200)
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

		if (round->cmds[i].slot == slot && (op == OP_FORK || op == OP_EXIT))
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
static bool generate_watch(struct round *round)
{
	struct cmd watch = { .op = OP_WATCH }, *cmd = round->cmds;
	int watcher = pick_slot(true, -1);
	int other = pick_slot(true, watcher);

	watch.slot = watcher;
	watch.a = other;
	if (other < 0 || !pick_region(&watch, NR_PAGES, 8) ||
	    !(proc_of(&watch)->pages[watch.page].prot & PROT_READ))
		return false;
	memset(cmd, 0, sizeof(*cmd));
	cmd->slot = other;
	if (!disturb(cmd, &watch))
		return false;
	round->n = 1;
	/* What was freed is used again. */
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

void generate(struct round *round)
{
	u32 slots = 1;

	memset(claimed_read, 0, sizeof(claimed_read));
	memset(claimed_write, 0, sizeof(claimed_write));
	claimed_slots = 0;
	round->n = 0;
	round->kill = -1;
	round->race = racing = false;
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
	if (rnd(200) < opt.race && generate_watch(round))
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
			 i % 3 == 2 ? 2 + 2 * rnd(NR_FILES) : 0;
	}
	for (u32 i = 0; i < 2 * NR_CHUNKS && step == 1; i++) {
		struct cmd *cmd = &round->cmds[round->n++];

		cmd->op = OP_WRITE;
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
	}
}
