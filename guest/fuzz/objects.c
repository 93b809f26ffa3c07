// SPDX-License-Identifier: GPL-2.0-or-later
/* Commands on files, userfaultfd, pipes and pins, as the oracle sees them. */
#include "oracle.h"

#include <errno.h>
#include <string.h>

/* ---- files ------------------------------------------------------------------ */

void apply_pwrite(const struct cmd *cmd, s64 ret)
{
	struct object *obj = &world->objects[cmd->a];

	if (ret != (s64)(cmd->n * PAGE)) {
		wrong("returned %lld", (long long)ret);
		return;
	}
	for (u32 i = 0; i < cmd->n; i++)
		for (u32 k = 0; k < CELLS; k++)
			obj->tag[cmd->page + i][k] =
				make_tag(ID_FILE, cmd->b, cmd->page + i);
	if (obj->size < cmd->page + cmd->n)
		obj->size = cmd->page + cmd->n;
}

void apply_truncate(const struct cmd *cmd, s64 ret)
{
	struct object *obj = &world->objects[cmd->a];

	if (ret) {
		wrong("returned %lld", (long long)ret);
		return;
	}
	/* Private copies beyond the end go as well. */
	for (u32 slot = 0; slot < NR_SLOTS && cmd->b < obj->size; slot++) {
		struct proc *proc = &world->procs[slot];

		for (u32 i = 0; proc->alive && i < MAP_PAGES; i++)
			if (proc->pages[i].kind == K_PRIVATE &&
			    proc->pages[i].obj == cmd->a &&
			    proc->pages[i].off >= cmd->b)
				forget(&proc->pages[i]);
	}
	for (u32 i = cmd->b; i < OBJ_PAGES; i++)
		memset(obj->tag[i], 0, sizeof(obj->tag[i]));
	obj->size = cmd->b;
}

void apply_punch(const struct cmd *cmd, s64 ret)
{
	struct object *obj = &world->objects[cmd->a];

	if (ret) {
		wrong("returned %lld", (long long)ret);
		return;
	}
	for (u32 i = 0; i < cmd->n; i++)
		memset(obj->tag[cmd->page + i], 0, sizeof(obj->tag[0]));
}

/* ---- userfaultfd, pipes, pins --------------------------------------------------- */

void apply_uffd(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage *page = &proc->pages[cmd->page];

	if (cmd->op == OP_UCOPY || cmd->op == OP_UZERO) {
		if (ret)
			return;
		if (page->kind == K_NONE || page->flags & F_FILLED) {
			wrong("filled a page that was there");
			return;
		}
		if (is_private(page)) {
			u64 tag = cmd->op == OP_UCOPY ?
				make_tag(proc->id, cmd->a, cmd->page) : 0;

			for (u32 i = 0; i < CELLS; i++)
				page->tag[i] = tag;
			page->lazy = 0;
			page->flags |= F_FILLED;
		}
		return;
	}
	for (u32 i = 0; i < cmd->n; i++) {
		u16 *flags = &page[i].flags;

		if (page[i].kind == K_NONE)
			continue;
		if (cmd->op == OP_UREG && !ret) {
			u16 asked = (cmd->a & 1 ? F_MISSING : 0) |
				    (cmd->a & 2 ? F_WP : 0);

			/* A second registration replaces one that lacks something. */
			if ((*flags & asked) == asked)
				continue;
			*flags &= ~(F_MISSING | F_WP);
			*flags |= asked;
			if (!(*flags & F_WP) && *flags & (F_WP_ON | F_WP_MAYBE)) {
				*flags &= ~F_WP_ON;
				*flags |= F_WP_MAYBE;
			}
		} else if (cmd->op == OP_UUNREG && !ret) {
			*flags &= ~(F_MISSING | F_WP | F_WP_ON | F_WP_MAYBE);
		} else if (cmd->op == OP_UPROT && *flags & F_WP) {
			bool certain = !ret && *flags & F_FILLED;

			*flags &= ~(F_WP_ON | F_WP_MAYBE);
			if (cmd->a)
				*flags |= certain ? F_WP_ON : F_WP_MAYBE;
			else if (ret)
				*flags |= F_WP_MAYBE;
		}
	}
}

/*
 * A page lent to a pipe (vmsplice) keeps what it held; the lender itself may
 * change it in place, but nobody else's stores may ever show up in it.
 */
void apply_splice(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	struct mpage *page = &proc->pages[cmd->page];
	enum answer answer = access_page(page, false);
	struct lent *lent;

	if (answer == MUST_SEGV || answer == MUST_BUS) {
		if (ret != -EFAULT)
			wrong("returned %lld for a page that %s", (long long)ret,
			      answer_words[answer]);
		return;
	}
	if (ret != (s64)PAGE) {
		if (answer == MUST_WORK && ret != -EAGAIN)
			wrong("returned %lld", (long long)ret);
		return;
	}
	if (proc->nr_lent == MAX_LENT)
		broken("more pages lent than the pipe may hold");
	lent = &proc->lent[proc->nr_lent++];
	lent->strict = is_private(page) && !page->lazy;
	memcpy(lent->tag, content(page), sizeof(lent->tag));
}

void apply_drain(struct proc *proc, const struct cmd *cmd, s64 ret,
		 const struct page_result *pr)
{
	struct lent *lent = &proc->lent[0];

	(void)cmd;
	if (!proc->nr_lent) {
		if (ret != -EAGAIN)
			wrong("read %lld bytes from an empty pipe", (long long)ret);
		return;
	}
	if (ret != (s64)PAGE) {
		wrong("returned %lld", (long long)ret);
		return;
	}
	if (pr->status == ST_GARBAGE) {
		wrong("a page lent to a pipe holds garbage");
		return;
	}
	for (u32 i = 0; i < CELLS && lent->strict; i++) {
		u32 id = pr->tag[i] >> 48;

		if (lent->tag[i] == UNKNOWN || pr->tag[i] == lent->tag[i] ||
		    id == proc->id || id == ID_CONST)
			continue;
		wrong("a page lent to a pipe holds %016llx, held %016llx",
		      (unsigned long long)pr->tag[i],
		      (unsigned long long)lent->tag[i]);
		break;
	}
	proc->nr_lent--;
	memmove(lent, lent + 1, proc->nr_lent * sizeof(*lent));
}

void apply_pin(struct proc *proc, const struct cmd *cmd, s64 ret)
{
	if (ret)
		return;
	proc->pinned = true;
	proc->pin_page = cmd->page;
	proc->pin_n = cmd->n;
	for (u32 i = 0; i < cmd->n; i++) {
		struct mpage *page = &proc->pages[cmd->page + i];

		if (page->kind == K_NONE) {
			wrong("pinned page %u, which is not mapped", cmd->page + i);
			return;
		}
		if (page->kind == K_PRIVATE)
			copy_page(page);
		if (page->kind != K_SHARED)
			page->flags |= F_PINNED;
	}
}

void apply_pinread(struct proc *proc, const struct cmd *cmd, s64 ret,
		   const struct page_result *pr)
{
	if (ret || !proc->pinned || cmd->page != proc->pin_page ||
	    cmd->n != proc->pin_n)
		return;
	for (u32 i = 0; i < cmd->n; i++) {
		struct mpage *page = &proc->pages[cmd->page + i];

		if (page->flags & F_PINNED)
			compare(page, cmd->page + i, pr + i, "the pinned");
	}
}

void apply_unpin(struct proc *proc)
{
	proc->pinned = false;
	for (u32 i = 0; i < NR_PAGES; i++)
		proc->pages[i].flags &= ~F_PINNED;
}
