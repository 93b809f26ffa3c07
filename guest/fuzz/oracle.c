// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The oracle: what every page of every process must hold.
 *
 * A page is private (its content is in struct mpage) or an object's (a file, or
 * shared anonymous memory). A private page of a file that nobody wrote to shows
 * the file. Sharing page tables must change none of this, so nothing here knows
 * of it.
 *
 * Where Linux itself leaves open what happens (MADV_FREE; whether a page that
 * was only read counts as missing), the oracle takes either answer.
 */
#include "oracle.h"

#include <errno.h>
#include <string.h>

#include "kernel.h"

/*
 * A write to each page in turn until one cannot be written, as populating does;
 * the content stays.
 */
static void populate(struct mpage *page, u32 n)
{
	for (u32 i = 0; i < n; i++) {
		enum answer answer = access_page(page + i, true);

		/* Open: so is whether the rest was done, but anonymous pages keep. */
		if (answer != MUST_WORK)
			break;
		copy_page(page + i);
	}
}

static void apply_map(struct proc *proc, const struct cmd *cmd)
{
	struct mpage new = { .prot = cmd->c & 7, .inst = ++world->next_inst };
	struct mpage *page = &proc->pages[cmd->page];

	if (cmd->a == 0) {
		new.kind = K_ANON;
	} else if (cmd->a == 1) {
		u32 i = NR_FILES;

		while (i < NR_OBJECTS && world->objects[i].used)
			i++;
		if (i == NR_OBJECTS)
			broken("the oracle has no object left");
		memset(&world->objects[i], 0, sizeof(world->objects[i]));
		world->objects[i].used = true;
		world->objects[i].size = cmd->n;
		new.kind = K_SHARED;
		new.obj = i;
	} else {
		new.kind = cmd->a & 1 ? K_SHARED : K_PRIVATE;
		new.obj = (cmd->a - 2) / 2;
		new.off = cmd->b;
	}
	for (u32 i = 0; i < cmd->n; i++) {
		set_page(page + i, &new);
		if (new.kind >= K_PRIVATE)
			new.off++;
	}
	if (cmd->c & (1 << 8) && new.kind == K_PRIVATE && new.prot & PROT_WRITE)
		populate(page, cmd->n);
}

static void apply_move(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	static struct mpage old[NR_PAGES];
	struct mpage *from = &proc->pages[cmd->page], *to = &proc->pages[cmd->a];

	if (ret) {
		/* The worker unmaps the target then, see move(). */
		for (u32 i = 0; i < cmd->n; i++)
			set_none(to + i);
		for (u32 i = 0; i < cmd->n && ret == -EXDEV; i++)
			set_none(from + i);
		return;
	}
	for (u32 i = 0; i < cmd->n; i++) {
		/* Linux 6.17 and later move several regions, holes included. */
		old[i] = from[i];
		set_none(to + i);
		set_page(to + i, &old[i]);
		/* The moved region is not registered with userfaultfd. */
		to[i].flags &= ~(F_PINNED | F_MISSING | F_WP | F_WP_ON | F_WP_MAYBE);
	}
	for (u32 i = 0; i < cmd->n; i++) {
		if (!cmd->b) {
			set_none(from + i);
			continue;
		}
		forget(from + i);
		from[i].flags &= ~F_LOCKED;
	}
}

static void apply_resize(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage *page = &proc->pages[cmd->page];
	struct mpage last;

	if (cmd->a <= cmd->n) {
		if (page->kind == K_NONE ? ret != -EFAULT : ret != 0) {
			wrong("shrinking returned %lld", (long long)ret);
			return;
		}
		for (u32 i = cmd->a; !ret && i < cmd->n; i++)
			set_none(page + i);
		return;
	}
	if (ret)
		return;		/* the next page was in use, or two regions */
	last = page[cmd->n - 1];
	forget(&last);
	for (u32 i = cmd->n; i < cmd->a; i++) {
		if (page[i].kind != K_NONE) {
			wrong("grew over page %u, which is mapped", cmd->page + i);
			return;
		}
		if (last.kind >= K_PRIVATE)
			last.off++;
		set_page(page + i, &last);
	}
	/* A locked region is populated. */
	if (last.flags & F_LOCKED && last.kind == K_PRIVATE)
		populate(page + cmd->n, cmd->a - cmd->n);
}

static int advise_page(struct mpage *page, u32 advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_FREE:
		if (page->flags & F_LOCKED)
			return -EINVAL;
		if (advice == MADV_FREE && page->kind != K_ANON)
			return -EINVAL;
		if (advice == MADV_FREE) {
			page->lazy = 15;
			page->flags &= ~F_FILLED;
			if (page->flags & F_WP_ON)
				page->flags ^= F_WP_ON | F_WP_MAYBE;
		} else {
			forget(page);
		}
		return 0;
	case MADV_DONTNEED_LOCKED:
		forget(page);
		return 0;
	case MADV_REMOVE:
		if (page->flags & F_LOCKED || page->kind != K_SHARED)
			return -EINVAL;	/* or another error: see below */
		if (!beyond_end(page))
			memset(content(page), 0, sizeof(page->tag));
		return 0;
	case MADV_DONTFORK:
		page->flags |= F_DONTFORK;
		return 0;
	case MADV_DOFORK:
		page->flags &= ~F_DONTFORK;
		return 0;
	case MADV_WIPEONFORK:
		if (page->kind != K_ANON)
			return -EINVAL;
		page->flags |= F_WIPE;
		return 0;
	case MADV_KEEPONFORK:
		page->flags &= ~F_WIPE;
		return 0;
	case MADV_POPULATE_WRITE:
		if (access_page(page, true) != MUST_WORK)
			return -EFAULT;
		copy_page(page);
		return 0;
	case MADV_COLLAPSE:
		if (page->kind >= K_PRIVATE)
			world->objects[page->obj].huge = true;
		return 0;
	default:
		return 0;
	}
}

static bool advice_is_strict(u32 advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE ||
	       advice == MADV_DONTFORK || advice == MADV_DOFORK ||
	       advice == MADV_WIPEONFORK || advice == MADV_KEEPONFORK;
}

/* All regions in turn, until one refuses; holes are skipped and reported at the end. */
static void apply_advise(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage *page = &proc->pages[cmd->page];
	bool populates = cmd->a == MADV_POPULATE_WRITE;
	int err = 0, hole = 0;
	bool open = false;

	for (u32 i = 0; i < cmd->n && !err; i++) {
		if (page[i].kind == K_NONE) {
			hole = -ENOMEM;
			if (populates)
				break;
			continue;
		}
		open |= access_page(page + i, true) == MAY_BUS;
		err = advise_page(page + i, cmd->a);
	}
	if (!err)
		err = hole;
	if (advice_is_strict(cmd->a) ? ret != err : (populates && !open && !ret != !err))
		wrong("returned %lld, should be %d", (long long)ret, err);
}

static void apply_protect(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage *page = &proc->pages[cmd->page];
	u32 i;

	for (i = 0; i < cmd->n && page[i].kind != K_NONE; i++)
		page[i].prot = cmd->a;
	if (ret != (i < cmd->n ? -ENOMEM : 0))
		wrong("returned %lld with %u of %u pages mapped",
		      (long long)ret, i, cmd->n);
}

/* Both set the flag up to the first hole; the generator asks for whole ranges. */
static void apply_lock(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage *page = &proc->pages[cmd->page];
	u32 i;

	for (i = 0; i < cmd->n && page[i].kind != K_NONE; i++) {
		if (cmd->op == OP_LOCK)
			page[i].flags |= F_LOCKED;
		else
			page[i].flags &= ~F_LOCKED;
	}
	if (i < cmd->n && ret != -ENOMEM)
		wrong("returned %lld with a hole", (long long)ret);
	/* Populates only when there is no hole; private regions by writing. */
	if (cmd->op == OP_LOCK && !(cmd->a & 1) && i == cmd->n) {
		for (i = 0; i < cmd->n; i++) {
			enum answer answer;
			bool write = page[i].kind <= K_PRIVATE &&
				     page[i].prot & PROT_WRITE;

			answer = access_page(page + i, write);
			if (answer != MUST_WORK)
				break;
			if (write)
				copy_page(page + i);
		}
	}
}

static void apply_brk(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage new = {
		.kind = K_ANON, .prot = PROT_READ | PROT_WRITE,
		.inst = ++world->next_inst,
	};
	struct mpage *page = &proc->pages[MAP_PAGES];

	if (ret) {
		wrong("returned %lld", (long long)ret);
		return;
	}
	for (u32 i = proc->brk; i < cmd->a; i++)
		set_page(page + i, &new);
	for (u32 i = cmd->a; i < proc->brk; i++)
		set_none(page + i);
	proc->brk = cmd->a;
}

static void apply_store(struct proc *proc, const struct cmd *cmd,
			const struct page_result *pr)
{
	for (u32 i = 0; i < cmd->n; i++) {
		u32 number = cmd->page + i;
		struct mpage *page = &proc->pages[number];
		u64 tag = cmd->op == OP_FILL ? make_tag(ID_CONST, cmd->a, 0) :
					       make_tag(proc->id, cmd->a, number);

		if (!check_answer(page, number, true, pr[i].status))
			return;
		if (pr[i].status == ST_OK)
			write_page(page, tag, cmd->op == OP_FILL ? 15 : cmd->b);
	}
}

static void apply_check(struct proc *proc, const struct cmd *cmd,
			const struct page_result *pr)
{
	for (u32 i = 0; i < cmd->n; i++) {
		u32 number = cmd->page + i;
		struct mpage *page = &proc->pages[number];

		if (!check_answer(page, number, false, pr[i].status))
			return;
		if (pr[i].status == ST_OK || pr[i].status == ST_GARBAGE)
			compare(page, number, pr + i, "the");
	}
}

/* The same through GUP: @force as a debugger. An error is an error here. */
static enum answer access_remote(const struct mpage *page, bool write, bool force)
{
	struct mpage open = *page;

	if (force && (!write || page->kind == K_ANON || page->kind == K_PRIVATE))
		open.prot = PROT_READ | PROT_WRITE;
	return access_page(&open, write);
}

/* Another process's memory: the pages before the first that may not be had. */
static void apply_other(const struct cmd *cmd, s64 ret,
			const struct page_result *pr)
{
	struct proc *proc = &world->procs[cmd->a];
	bool write = cmd->op == OP_VMWRITE || cmd->op == OP_MEMWRITE;
	bool force = cmd->op == OP_MEMREAD || cmd->op == OP_MEMWRITE;
	u32 least = 0, most = 0, got = ret > 0 ? ret / PAGE : 0;

	/* A machine that is not ours may keep processes from each other. */
	if ((ret == -EPERM || ret == -EACCES) && !strcmp(opt.mode, "any"))
		return;
	while (most < cmd->n) {
		enum answer answer = access_remote(&proc->pages[cmd->page + most],
						   write, force);

		if (answer == MUST_SEGV || answer == MUST_BUS)
			break;
		if (answer == MUST_WORK && least == most)
			least++;
		most++;
	}
	if (got < least || got > most || (ret > 0 && ret % PAGE)) {
		wrong("returned %lld, should be %u to %u pages", (long long)ret,
		      least, most);
		return;
	}
	for (u32 i = 0; i < got; i++) {
		u32 number = cmd->page + i;
		struct mpage *page = &proc->pages[number];

		if (write)
			write_page(page, make_tag(proc->id, cmd->b, number), 15);
		else
			compare(page, number, pr + i, "the other's");
	}
}

/* ---------------------------------------------------------------------------- */

void oracle_apply(const struct cmd *cmd, const struct result *res,
		  const struct page_result *pr)
{
	struct proc *proc = &world->procs[cmd->slot];
	s64 ret = res->ret;

	now = cmd;
	switch (cmd->op) {
	case OP_CHECK:
	case OP_WATCH:
		return apply_check(proc, cmd, pr);
	case OP_WRITE:
	case OP_FILL:
		return apply_store(proc, cmd, pr);
	case OP_MAP:
		if (ret)
			return wrong("returned %lld", (long long)ret);
		return apply_map(proc, cmd);
	case OP_UNMAP:
		if (ret)
			return wrong("returned %lld", (long long)ret);
		for (u32 i = 0; i < cmd->n; i++)
			set_none(&proc->pages[cmd->page + i]);
		return;
	case OP_PROTECT:
		return apply_protect(proc, cmd, ret);
	case OP_MOVE:
		return apply_move(proc, cmd, ret);
	case OP_RESIZE:
		return apply_resize(proc, cmd, ret);
	case OP_ADVISE:
		return apply_advise(proc, cmd, ret);
	case OP_LOCK:
	case OP_UNLOCK:
		return apply_lock(proc, cmd, ret);
	case OP_FORK:
		if (ret <= 0)
			return wrong("returned %lld", (long long)ret);
		return fork_proc(proc, cmd->a, ret);
	case OP_EXEC:
		if (ret)
			wrong("the program returned %lld", (long long)ret);
		return;
	case OP_SPAWN:
		if (ret <= 0)
			return wrong("returned %lld", (long long)ret);
		proc_start(cmd->a, ret);
		world->procs[cmd->a].zygote = PR_COHORT_ZYGOTE;
		return;
	case OP_BALLAST:
		if (ret)
			wrong("returned %lld", (long long)ret);
		return;
	case OP_BECOME:
		if (ret)
			return wrong("returned %lld", (long long)ret);
		return proc_exec(proc);
	case OP_VMREAD:
	case OP_VMWRITE:
	case OP_MEMREAD:
	case OP_MEMWRITE:
		return apply_other(cmd, ret, pr);
	case OP_PWRITE:
		return apply_pwrite(cmd, ret);
	case OP_TRUNC:
		return apply_truncate(cmd, ret);
	case OP_PUNCH:
		return apply_punch(cmd, ret);
	case OP_BRK:
		return apply_brk(proc, cmd, ret);
	case OP_UREG:
	case OP_UUNREG:
	case OP_UCOPY:
	case OP_UZERO:
	case OP_UPROT:
		return apply_uffd(proc, cmd, ret);
	case OP_SPLICE:
		return apply_splice(proc, cmd, ret);
	case OP_DRAIN:
		return apply_drain(proc, cmd, ret, pr);
	case OP_PIN:
		return apply_pin(proc, cmd, ret);
	case OP_PINREAD:
		return apply_pinread(proc, cmd, ret, pr);
	case OP_UNPIN:
		return apply_unpin(proc);
	case OP_ZYGOTE:
		proc->zygote = cmd->a;
		return;
	default:		/* changes nothing that can be seen */
		return;
	}
}
