// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages, objects and processes, and what an access to a page must come to. */
#include "oracle.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel.h"

struct world *world;
const struct cmd *now;

void wrong(const char *fmt, ...)
{
	char command[120], what[300];
	va_list ap;

	format_command(now, command, sizeof(command));
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	fail("%s: %s", command, what);
}

/* ---- pages and objects ---------------------------------------------------- */

static void put_object(struct mpage *page)
{
	struct object *obj = &world->objects[page->obj];

	if (page->kind < K_PRIVATE)
		return;
	if (!--obj->refs && !obj->file)
		obj->used = false;
}

void set_none(struct mpage *page)
{
	put_object(page);
	memset(page, 0, sizeof(*page));
}

void set_page(struct mpage *page, const struct mpage *to)
{
	if (to->kind >= K_PRIVATE)
		world->objects[to->obj].refs++;
	put_object(page);
	*page = *to;
}

void forget(struct mpage *page)
{
	page->flags &= ~(F_COWED | F_FILLED | F_WP_ON | F_WP_MAYBE | F_PINNED);
	page->lazy = 0;
	memset(page->tag, 0, sizeof(page->tag));
}

bool is_private(const struct mpage *page)
{
	return page->kind == K_ANON ||
	       (page->kind == K_PRIVATE && page->flags & F_COWED);
}

u64 *content(struct mpage *page)
{
	return is_private(page) ? page->tag :
				  world->objects[page->obj].tag[page->off];
}

/* Must it show anything but zeros? */
bool page_has_content(const struct mpage *page)
{
	const u64 *tag = is_private(page) ? page->tag :
		page->kind == K_NONE ? NULL :
		world->objects[page->obj].tag[page->off];
	u64 any = 0;

	for (u32 i = 0; i < CELLS && tag; i++)
		any |= tag[i];
	return any;
}

bool beyond_end(const struct mpage *page)
{
	return page->kind >= K_PRIVATE &&
	       page->off >= world->objects[page->obj].size;
}

enum answer access_page(const struct mpage *page, bool write)
{
	if (page->kind == K_NONE || !(page->prot & (write ? PROT_WRITE : PROT_READ)))
		return MUST_SEGV;
	if (beyond_end(page))
		return MUST_BUS;
	if (write && page->flags & F_WP_ON)
		return MUST_BUS;
	if (page->flags & F_MISSING && !(page->flags & F_FILLED))
		return MAY_BUS;
	if (write && page->flags & F_WP_MAYBE)
		return MAY_BUS;
	return MUST_WORK;
}

void copy_page(struct mpage *page)
{
	if (page->kind == K_PRIVATE && !(page->flags & F_COWED)) {
		memcpy(page->tag, content(page), sizeof(page->tag));
		page->flags |= F_COWED;
	}
	page->flags |= F_FILLED;
}

void write_page(struct mpage *page, u64 tag, u32 cells)
{
	u64 *at;

	copy_page(page);
	at = content(page);
	for (u32 i = 0; i < CELLS; i++)
		if (cells & (1 << i))
			at[i] = tag;
	page->lazy &= ~cells;
	page->flags &= ~F_WP_MAYBE;
}

void compare(struct mpage *page, u32 number, const struct page_result *pr,
	     const char *who)
{
	u64 *want = content(page);

	if (pr->status == ST_GARBAGE) {
		wrong("%s page %u holds garbage, for instance %016llx; should be %016llx %016llx %016llx %016llx",
		      who, number, (unsigned long long)(pr->tag[0] ? pr->tag[0] : pr->tag[1]),
		      (unsigned long long)want[0], (unsigned long long)want[1],
		      (unsigned long long)want[2], (unsigned long long)want[3]);
		return;
	}
	for (u32 i = 0; i < CELLS; i++) {
		if (want[i] == UNKNOWN)
			want[i] = pr->tag[i];
		if (want[i] == pr->tag[i])
			continue;
		if (page->lazy & (1 << i) && pr->tag[i] == 0) {
			want[i] = 0;
			page->lazy &= ~(1 << i);
			continue;
		}
		wrong("%s page %u cell %u holds %016llx, should be %016llx (kind %u prot %u flags %x object %u+%u)",
		      who, number, i, (unsigned long long)pr->tag[i],
		      (unsigned long long)want[i], page->kind, page->prot,
		      page->flags, page->obj, page->off);
		return;
	}
}

static bool possible(enum answer answer, u8 status)
{
	switch (answer) {
	case MUST_WORK:
		return status == ST_OK || status == ST_GARBAGE;
	case MUST_SEGV:
		return status == ST_SEGV;
	case MUST_BUS:
		return status == ST_BUS;
	default:
		return status != ST_SEGV;
	}
}

const char *const answer_words[] = {
	"must work", "must fault", "must raise SIGBUS", "may raise SIGBUS",
};

static const char *const status_words[] = {
	"worked", "faulted", "raised SIGBUS", "worked",
};

bool check_answer(struct mpage *page, u32 number, bool write, u8 status)
{
	enum answer answer = access_page(page, write);

	if (possible(answer, status))
		return true;
	wrong("%s page %u %s, but %s (kind %u prot %u flags %x object %u+%u)",
	      write ? "writing" : "reading", number, status_words[status],
	      answer_words[answer], page->kind, page->prot, page->flags,
	      page->obj, page->off);
	return false;
}

/* ---- processes -------------------------------------------------------------- */

void world_reset(void)
{
	memset(world, 0, sizeof(*world));
	for (u32 i = 0; i < NR_FILES; i++) {
		world->objects[i].used = true;
		world->objects[i].file = true;
	}
}

void proc_start(u32 slot, pid_t pid)
{
	struct proc *proc = &world->procs[slot];

	memset(proc, 0, sizeof(*proc));
	proc->alive = true;
	proc->pid = pid;
	proc->id = board->slots[slot].id;
	world->alive++;
}

void proc_end(u32 slot)
{
	struct proc *proc = &world->procs[slot];

	for (u32 i = 0; i < NR_PAGES; i++)
		set_none(&proc->pages[i]);
	proc->alive = false;
	world->alive--;
}

void proc_exec(struct proc *proc)
{
	for (u32 i = 0; i < NR_PAGES; i++)
		set_none(&proc->pages[i]);
	proc->brk = 0;
	proc->pinned = false;
	proc->zygote = PR_COHORT_ZYGOTE;
}

void fork_proc(struct proc *parent, u32 slot, pid_t pid)
{
	struct proc *child = &world->procs[slot];

	proc_start(slot, pid);
	child->brk = parent->brk;
	child->zygote = parent->zygote;
	for (u32 i = 0; i < NR_PAGES; i++) {
		struct mpage *page = &child->pages[i];

		if (parent->pages[i].kind == K_NONE ||
		    parent->pages[i].flags & F_DONTFORK)
			continue;
		set_page(page, &parent->pages[i]);
		page->flags &= ~(F_LOCKED | F_MISSING | F_WP | F_WP_ON |
				 F_WP_MAYBE | F_PINNED);
		if (page->flags & F_WIPE)
			forget(page);
	}
}
