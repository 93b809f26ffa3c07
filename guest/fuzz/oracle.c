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
#include "fuzz.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "kernel.h"

struct world *world;

#define PROT_MASK (PROT_READ | PROT_WRITE | PROT_EXEC)

static const struct cmd *now;	/* the command at hand, for reports */

static void __attribute__((format(printf, 1, 2))) wrong(const char *fmt, ...)
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

static void set_none(struct mpage *page)
{
	put_object(page);
	memset(page, 0, sizeof(*page));
}

static void set_page(struct mpage *page, const struct mpage *to)
{
	if (to->kind >= K_PRIVATE)
		world->objects[to->obj].refs++;
	put_object(page);
	*page = *to;
}

/* Private content is gone: the next look finds zeros, or the file. */
static void forget(struct mpage *page)
{
	page->flags &= ~(F_COWED | F_FILLED | F_WP_ON | F_WP_MAYBE | F_PINNED);
	page->lazy = 0;
	memset(page->tag, 0, sizeof(page->tag));
}

static bool is_private(const struct mpage *page)
{
	return page->kind == K_ANON ||
	       (page->kind == K_PRIVATE && page->flags & F_COWED);
}

/* Where the content is: the page's own or the object's. */
static u64 *content(struct mpage *page)
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

static bool beyond_end(const struct mpage *page)
{
	return page->kind >= K_PRIVATE &&
	       page->off >= world->objects[page->obj].size;
}

enum answer { MUST_WORK, MUST_SEGV, MUST_BUS, MAY_BUS };

/* What an access of the process itself must come to. */
static enum answer access_page(const struct mpage *page, bool write)
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

/* The same through GUP: @force as a debugger. An error is an error here. */
static enum answer access_remote(const struct mpage *page, bool write, bool force)
{
	struct mpage open = *page;

	if (force && (!write || page->kind == K_ANON || page->kind == K_PRIVATE))
		open.prot = PROT_READ | PROT_WRITE;
	return access_page(&open, write);
}

/* A store: private file pages are copied first. */
static void copy_page(struct mpage *page)
{
	if (page->kind == K_PRIVATE && !(page->flags & F_COWED)) {
		memcpy(page->tag, content(page), sizeof(page->tag));
		page->flags |= F_COWED;
	}
	page->flags |= F_FILLED;
}

static void write_page(struct mpage *page, u64 tag, u32 cells)
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

/* Compares what was seen with what must be; learns what is open. */
static void compare(struct mpage *page, u32 number, const struct page_result *pr,
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

static const char *const answer_words[] = {
	"must work", "must fault", "must raise SIGBUS", "may raise SIGBUS",
};

static const char *const status_words[] = {
	"worked", "faulted", "raised SIGBUS", "worked",
};

static bool check_answer(struct mpage *page, u32 number, bool write, u8 status)
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

static void fork_proc(struct proc *parent, u32 slot, pid_t pid)
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

/* ---- commands ----------------------------------------------------------------- */

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

/* Regions in turn, until one refuses; holes are passed over and told at the end. */
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

/* ---- files ------------------------------------------------------------------ */

static void apply_pwrite(const struct cmd *cmd, s64 ret)
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

static void apply_truncate(const struct cmd *cmd, s64 ret)
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

static void apply_punch(const struct cmd *cmd, s64 ret)
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

static void apply_uffd(struct proc *proc, const struct cmd *cmd, s64 ret)
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
static void apply_splice(struct proc *proc, const struct cmd *cmd, s64 ret)
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

static void apply_drain(struct proc *proc, const struct cmd *cmd, s64 ret,
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

static void apply_pin(struct proc *proc, const struct cmd *cmd, s64 ret)
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

static void apply_pinread(struct proc *proc, const struct cmd *cmd, s64 ret,
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

static void apply_unpin(struct proc *proc)
{
	proc->pinned = false;
	for (u32 i = 0; i < NR_PAGES; i++)
		proc->pages[i].flags &= ~F_PINNED;
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
