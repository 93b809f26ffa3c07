// SPDX-License-Identifier: GPL-2.0-only
/*
 * Leaving a shared table by writing, or by changing what is mapped: see unshare.h.
 */
#include "unshare/unshare.h"

#include <sys/ipc.h>
#include <sys/shm.h>

static void write_each_state(struct model *m, long me)
{
	for (int i = 0; i < 4 && i < area.nspots; i++) {
		struct want *w = &m->want[i];

		page_fill(w->addr, 4000000u + me * 1000u + i);
		if (!w->shared) {
			w->tag = 4000000u + me * 1000u + i;
			continue;
		}
		for (int p = 0; p < MAX_MODELS; p++)
			for (int j = 0; j < board->model[p].n; j++)
				if (board->model[p].want[j].id == i)
					board->model[p].want[j].tag = 4000000u + me * 1000u + i;
	}
}

/* fault from within a system call */
static void write_by_read(struct model *m, long me)
{
	struct want *w = &m->want[0];
	unsigned int tag = 4100000u + me;
	char *buf = aligned_alloc(page_size, page_size);
	int fds[2];

	must(buf, "out of memory");
	page_fill(buf, tag);
	must_call(pipe(fds));
	must(write(fds[1], buf, page_size) == (ssize_t)page_size, "write: %s", strerror(errno));
	must(read(fds[0], w->addr, page_size) == (ssize_t)page_size, "read: %s",
	     strerror(errno));
	close(fds[0]);
	close(fds[1]);
	free(buf);
	w->tag = tag;
	for (int p = 0; w->shared && p < MAX_MODELS; p++)
		if (board->model[p].n)
			board->model[p].want[0].tag = tag;
}

static void protect_read(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(mprotect(middle(i).start, middle(i).len, PROT_READ));
		now_acc(m, middle(i), READ);
	}
}

static void protect_none(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(mprotect(middle(i).start, middle(i).len, PROT_NONE));
		now_acc(m, middle(i), NONE);
	}
}

static void protect_all_none(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(mprotect(whole(i).start, whole(i).len, PROT_NONE));
		now_acc(m, whole(i), NONE);
	}
}

static void protect_and_back(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(mprotect(middle(i).start, middle(i).len, PROT_READ));
		must_call(mprotect(middle(i).start, middle(i).len, PROT_NONE));
		must_call(mprotect(middle(i).start, middle(i).len, area.part[i].prot));
	}
}

static void protect_write(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		if (area.part[i].prot & PROT_WRITE)
			continue;
		must_call(mprotect(middle(i).start, middle(i).len, PROT_READ | PROT_WRITE));
		now_acc(m, middle(i), WRITE);
	}
}

static void protect_exec(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++)
		must_call(mprotect(whole(i).start, whole(i).len, area.part[i].prot | PROT_EXEC));
}

static char *move(struct range r, char *to, int flags)
{
	char *p = mremap(r.start, r.len, r.len, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to);

	if (p == MAP_FAILED && flags && errno == EINVAL)
		skip("mremap cannot MREMAP_DONTUNMAP here");
	must(p == to, "mremap: %s", strerror(errno));
	return p;
}

static void move_all(struct model *m, long me)
{
	char *to = arena(4);

	for (int i = 0; i < area.nparts; i++) {
		struct range r = whole(i);

		/* aligned like the source: the kernel may move the table itself */
		move(r, to + (r.start - area.base), 0);
		now_moved(m, r, to + (r.start - area.base), NONE);
	}
}

static void move_askew(struct model *m, long me)
{
	char *to = arena(4) + 5 * page_size;

	for (int i = 0; i < area.nparts; i++) {
		struct range r = whole(i);

		move(r, to + (r.start - area.base), 0);
		now_moved(m, r, to + (r.start - area.base), NONE);
	}
}

static void move_middle(struct model *m, long me)
{
	char *to = arena(4);

	for (int i = 0; i < area.nparts; i++) {
		struct range r = middle(i);

		move(r, to + (r.start - area.base), 0);
		now_moved(m, r, to + (r.start - area.base), NONE);
	}
}

/* over a page of the same table */
static void move_over(struct model *m, long me)
{
	struct want *over = &m->want[1];
	struct range r = one_page(m->want[3].addr);
	char *to = over->addr;

	move(r, to, 0);
	*over = m->want[3];
	over->addr = to;
	m->want[3].acc = NONE;
	m->want[3].shared = false;
}

static void move_and_stay(struct model *m, long me)
{
	char *to = arena(4);

	for (int i = 0; i < area.nparts; i++) {
		struct range r = whole(i);

		move(r, to + (r.start - area.base), MREMAP_DONTUNMAP);
		now_moved(m, r, to + (r.start - area.base), WRITE);
	}
}

/* old size 0 asks for a second mapping of the same shared memory */
static void map_twice(struct model *m, long me)
{
	struct range r = whole(0);
	char *p = mremap(r.start, 0, r.len, MREMAP_MAYMOVE);
	int n = m->n;

	must(p != MAP_FAILED, "mremap: %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		struct want *w = add_want(m, p + (m->want[i].addr - r.start),
					  m->want[i].tag, m->want[i].acc);

		w->id = m->want[i].id;
		w->shared = true;
	}
}

static void grow(struct model *m, long me)
{
	struct part *p = &area.part[0];
	char *end = p->addr + p->len;

	must(mremap(p->addr, p->len, p->len + 4 * page_size, 0) == p->addr, "mremap: %s",
	     strerror(errno));
	for (int i = 0; i < MAX_MODELS; i++)
		if (board->model[i].n && i != me)
			add_want(&board->model[i], end, 0, NONE);
	add_want(m, end, 0, p->shared || p->fd >= 0 ? BUS : WRITE);
}

static void shrink(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		struct part *p = &area.part[i];
		size_t half = p->len / 2 / page_size * page_size;

		must(mremap(p->addr, p->len, half, 0) == p->addr, "mremap: %s", strerror(errno));
		now_acc(m, (struct range){ p->addr + half, p->len - half, p }, NONE);
	}
}

/* the region cannot grow in place, so it moves */
static void grow_by_moving(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		struct range r = middle(i);
		char *to = mremap(r.start, r.len, r.len + page_size, MREMAP_MAYMOVE);

		must(to != MAP_FAILED, "mremap: %s", strerror(errno));
		must(to != r.start, "a region grew over its neighbour");
		now_moved(m, r, to, NONE);
	}
}

static void unmap_middle(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(munmap(middle(i).start, middle(i).len));
		now_acc(m, middle(i), NONE);
	}
}

static void unmap_all(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(munmap(whole(i).start, whole(i).len));
		now_acc(m, whole(i), NONE);
	}
}

static void unmap_ends(struct model *m, long me)
{
	int ends[] = { 0, area.nspots - 1 };

	for (int i = 0; i < 2; i++) {
		char *addr = area.spot[ends[i]].addr;

		must_call(munmap(addr, page_size));
		now_acc(m, one_page(addr), NONE);
	}
}

static void unmap_and_map(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		struct range r = whole(i);

		must_call(munmap(r.start, r.len));
		map_at(r.start, r.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
		now_private_zero(m, r);
		touch(r.start);
	}
}

static void detach(struct model *m, long me)
{
	must_call(shmdt(area.part[0].addr));
	now_acc(m, whole(0), NONE);
}

/* one munmap over everything, holes and table borders included */
static void unmap_across(struct model *m, long me)
{
	struct range r = { area.part[0].addr, 0, NULL };
	struct part *last = &area.part[area.nparts - 1];

	r.len = last->addr + last->len / 2 / page_size * page_size - r.start;
	must_call(munmap(r.start, r.len));
	now_acc(m, r, NONE);
}

/* The table at the start of the range is its own, the one at the end is not. */
static void unmap_into_last(struct model *m, long me)
{
	struct want *first = &m->want[0];
	struct range r = { first->addr, area.spot[area.nspots - 1].addr - first->addr, NULL };

	page_fill(first->addr, 4200000u + me);
	first->tag = 4200000u + me;
	must_call(munmap(r.start, r.len));
	now_acc(m, r, NONE);
}

static void map_zero_over(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		struct range r = middle(i);

		must_call(mmap(r.start, r.len, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
		now_private_zero(m, r);
	}
}

static void map_file_over(struct model *m, long me)
{
	size_t pages = table_size / page_size;
	int fd = make_file("tmpfs", pages);

	for (int i = 0; i < area.nparts; i++) {
		struct range r = middle(i);

		if (r.len > table_size)
			r.len = table_size;
		must_call(mmap(r.start, r.len, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0));
		for (int j = 0; j < m->n; j++)
			if (inside(&m->want[j], r)) {
				size_t index = (m->want[j].addr - r.start) / page_size;

				m->want[j].tag = FILE_TAG(index);
				m->want[j].acc = READ;
				m->want[j].shared = false;
			}
	}
	close(fd);
}

static void map_reserve_over(struct model *m, long me)
{
	size_t len = area.tables * table_size;

	if (area.kind == NEAR_THP)
		len = area.part[0].len;
	must_call(mmap(area.base, len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
	now_acc(m, (struct range){ area.base, len, NULL }, NONE);
}

static void shm_over(struct model *m, long me)
{
	struct range r = one_page(m->want[1].addr);
	int id;

	if (access("/proc/sysvipc", F_OK))
		skip("no SysV shared memory in this kernel");
	if ((uintptr_t)r.start % SHMLBA)
		skip("SysV shared memory may not lie there");
	id = shmget(IPC_PRIVATE, page_size, 0600 | IPC_CREAT);
	must(id >= 0, "shmget: %s", strerror(errno));
	must(shmat(id, r.start, SHM_REMAP) == r.start, "shmat: %s", strerror(errno));
	must_call(shmctl(id, IPC_RMID, NULL));
	/* new shared memory, which only later children see */
	now_private_zero(m, r);
	m->want[1].shared = true;
	m->want[1].id = MAX_SPOTS;
}

static void remap_pages(struct model *m, long me)
{
	struct want *from = &m->want[3];
	size_t off = (from->addr - area.part[0].addr) / page_size;

	if (syscall(__NR_remap_file_pages, m->want[1].addr, page_size, 0, off, 0))
		skip("remap_file_pages: %s", strerror(errno));
	m->want[1].id = from->id;
	m->want[1].tag = from->tag;
}

/* --- a mapping in a hole -------------------------------------------------- */

static char *hole(int i)
{
	if (area.kind == MIXED)
		return area.base + 2 * i * (table_size / 16);
	/* before and after the region in the middle of three tables */
	return i ? area.base + 5 * table_size / 2 + 8 * page_size : area.base;
}

static void watch_hole(char *addr, long me)
{
	for (int i = 0; i < MAX_MODELS; i++)
		if (board->model[i].n && i != me)
			add_want(&board->model[i], addr, 0, NONE);
}

static void map_hole_anon(struct model *m, long me)
{
	for (int i = 0; i < 2; i++) {
		map_at(hole(i), 4 * page_size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		watch_hole(hole(i), me);
		add_want(m, hole(i), 0, WRITE);
		touch(hole(i));
	}
}

static void map_hole_file(struct model *m, long me)
{
	int fd = make_file("tmpfs", 4);

	for (int i = 0; i < 2; i++) {
		map_at(hole(i), 4 * page_size, PROT_READ, MAP_PRIVATE, fd, 0);
		watch_hole(hole(i), me);
		add_want(m, hole(i), FILE_TAG(0), READ);
		/* a read fault would fill a shared table for all */
		touch(hole(i));
	}
	close(fd);
}

static void map_hole_shared(struct model *m, long me)
{
	int fd = make_file("tmpfs", 4);

	for (int i = 0; i < 2; i++) {
		map_at(hole(i), 4 * page_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		watch_hole(hole(i), me);
		/* a mapping of this process alone */
		add_want(m, hole(i), FILE_TAG(0), READ);
		must_call(mprotect(hole(i), page_size, PROT_READ));
		touch(hole(i));
	}
	close(fd);
}

static void map_hole_reserve(struct model *m, long me)
{
	for (int i = 0; i < 2; i++) {
		map_at(hole(i), 4 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		watch_hole(hole(i), me);
		add_want(m, hole(i), 0, NONE);
		must_call(mprotect(hole(i), page_size, PROT_READ | PROT_WRITE));
		m->want[m->n - 1].acc = WRITE;
	}
}

static const struct action actions[] = {
	{ "a write", write_each_state, WRITABLE, BY_FAULT, .guards = INVARIANT(2) },
	{ "a write by the kernel for it", write_by_read, WRITABLE, BY_FAULT,
	  .guards = INVARIANT(2) },

	{ "mprotect to read only, a part", protect_read, WRITABLE, BY_CHANGE,
	  .guards = INVARIANT(1) },
	{ "mprotect to nothing, a part", protect_none, ALL, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mprotect to nothing, all", protect_all_none, ALL, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mprotect there and back", protect_and_back, ALL, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mprotect to writable", protect_write, KIND(PRIV_FILE_RO) | KIND(MIXED), BY_CHANGE,
	  .guards = INVARIANT(1) },
	{ "mprotect to executable", protect_exec, WRITABLE, BY_CHANGE, .guards = INVARIANT(1) },

	{ "mremap, all, to a like place", move_all, MOVABLE, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mremap, all, to an unlike place", move_askew, MOVABLE, BY_CHANGE,
	  .guards = INVARIANT(1) },
	{ "mremap, a part", move_middle, MOVABLE, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mremap over a page of the same table", move_over, MOVABLE,
	  BY_CHANGE | BY_UNMAP | BY_MAP, .guards = INVARIANT(1) },
	{ "mremap DONTUNMAP", move_and_stay, MOVABLE & ~KIND(PRIV_FILE_RO) & ~KIND(MIXED),
	  BY_CHANGE, .guards = INVARIANT(1) },
	{ "mremap that duplicates", map_twice, SHARED, 0, .guards = INVARIANT(1) },
	{ "mremap that grows", grow, GROWABLE, 0, .guards = INVARIANT(1) },
	{ "mremap that shrinks", shrink, MOVABLE, BY_UNMAP | BY_CHANGE | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "mremap that grows by moving", grow_by_moving, MOVABLE, BY_CHANGE,
	  .guards = INVARIANT(1) },

	{ "munmap, a part", unmap_middle, ALL, BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "munmap, all", unmap_all, ALL, BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "munmap, first and last page", unmap_ends, ALL, BY_UNMAP, .guards = INVARIANT(1) },
	{ "munmap across regions and holes", unmap_across, ALL, BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "munmap from a table of its own into another", unmap_into_last,
	  KIND(BORDERS) | KIND(NEAR_THP), BY_UNMAP, .guards = INVARIANT(1) },
	{ "munmap, and another mapping in its place", unmap_and_map, ALL,
	  BY_UNMAP | BY_LEAVING | BY_MAP, .guards = INVARIANT(1) | INVARIANT(5) },
	{ "shmdt", detach, KIND(SYSV), BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },

	{ "a mapping over a part", map_zero_over, ALL, BY_MAP | BY_UNMAP, .guards = INVARIANT(1) },
	{ "a file mapped over a part", map_file_over, ALL, BY_MAP | BY_UNMAP,
	  .guards = INVARIANT(1) },
	{ "a reservation over all", map_reserve_over, ALL & ~KIND(HEAP),
	  BY_MAP | BY_UNMAP | BY_LEAVING, .guards = INVARIANT(1) | INVARIANT(5) },
	{ "shmat over a page", shm_over, ALL, BY_MAP | BY_UNMAP, .guards = INVARIANT(1) },
	{ "remap_file_pages", remap_pages, KIND(SHARED_FILE) | KIND(SHARED_DISK),
	  BY_MAP | BY_UNMAP | BY_CHANGE, .guards = INVARIANT(1) },

	{ "an anonymous mapping in a hole", map_hole_anon, HOLED, BY_MAP,
	  .guards = INVARIANT(1) | INVARIANT(6) },
	{ "a file mapping in a hole", map_hole_file, HOLED, BY_MAP, .guards = INVARIANT(1) },
	{ "a shared mapping in a hole", map_hole_shared, HOLED, BY_MAP, .guards = INVARIANT(1) },
	{ "a reservation in a hole", map_hole_reserve, HOLED, BY_MAP, .guards = INVARIANT(1) },
};

/* --- growth --------------------------------------------------------------- */

#define GROWTH	16		/* pages */

static long grow_brk(long pages, long tag)
{
	char *old = sbrk(pages * (long)page_size);

	must(old != (void *)-1, "brk: %s", strerror(errno));
	if (pages > 0) {
		sees(page_is(old, 0), "new heap is not empty");
		page_fill(old, tag);
	}
	return 0;
}

static void watch(int who, int index, char *addr, unsigned int tag, enum access acc)
{
	struct model *m = &board->model[who];

	if (m->n <= index)
		m->n = index + 1;
	m->want[index] = (struct want){ .addr = addr, .tag = tag, .acc = acc, .id = index };
}

static void test_brk(long arg)
{
	uintptr_t end = (uintptr_t)sbrk(0), middle;
	long grown = vm_event("cohort_ptp_unshared_map");
	char *low, *top;

	/* let the heap end in the middle of its own table */
	middle = (end + table_size) / table_size * table_size + table_size / 2;
	must(sbrk(middle - end) == (void *)end, "brk: %s", strerror(errno));
	top = (char *)middle;
	low = top - table_size / 4;
	page_fill(low, 1);
	become_zygote();
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		watch(i, 0, low, 1, WRITE);
		watch(i, 1, top, 0, NONE);
		watch(i, 2, low - 8 * page_size, 0, WRITE);
	}
	model_check_all(3);
	/* one after another grows its heap into the hole */
	for (int k = 0; k <= 2; k++) {
		int who = (k + 1) % 3;

		ask(who, grow_brk, GROWTH, 50 + who);
		watch(who, 1, top, 50 + who, WRITE);
		model_check_all(3);
	}
	if (sharing_possible())
		must(vm_event("cohort_ptp_unshared_map") > grown,
		     "cohort_ptp_unshared_map did not move");
	/* and one gives much of it back */
	ask(2, grow_brk, -(long)(GROWTH + table_size / 2 / page_size), 0);
	for (int i = 0; i < 3; i++)
		watch(2, i, board->model[2].want[i].addr, 0, NONE);
	model_check_all(3);
	model_scribble_all(3);
	model_check_all(3);
}

static void test_brk_shrink(long arg)
{
	int n = 0;

	area_make(&area, HEAP);
	become_zygote();
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		model_init(&board->model[i], &area);
	}
	/* the area is followed by up to two tables of heap that nobody uses */
	while ((char *)sbrk(0) - n * page_size > area.base + table_size / 2)
		n++;
	ask(1, grow_brk, -n, 0);
	now_acc(&board->model[1], (struct range){ area.base + table_size / 2, table_size, NULL },
		NONE);
	model_check_all(3);
	model_scribble_all(3);
	model_check_all(3);
}

static void test_stack_growth(long arg)
{
	char *base = arena(1), *stack = base + table_size - GROWTH * page_size;

	/* other memory in the same table, a stack guard gap away */
	map_at(base, GROWTH * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	       -1, 0);
	map_at(stack, GROWTH * page_size, PROT_READ | PROT_WRITE,
	       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
	page_fill(base, 1);
	page_fill(stack, 2);
	become_zygote();
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		watch(i, 0, base, 1, WRITE);
		watch(i, 1, stack, 2, WRITE);
		/* an access here makes the stack grow */
		watch(i, 2, stack - 3 * page_size, 0, WRITE);
	}
	ask(1, model_scribble, 1, 3);
	model_check_all(3);
	model_scribble_all(3);
	model_check_all(3);
}

/* --- leaving for good ----------------------------------------------------- */

static void test_exit(long arg)
{
	long left = vm_event("cohort_ptp_left");

	area_make(&area, ARG_KIND(arg));
	become_zygote();
	for (int i = 1; i <= 4; i++)
		spawn(i);
	for (int i = 1; i <= 4; i++) {
		model_init(&board->model[i], &area);
		ask(i, nothing, 0, 0);
	}
	model_init(&board->model[SELF], &area);
	quit(1);
	board->model[1].n = 0;
	if (sharing_possible())
		must(vm_event("cohort_ptp_left") - left >= area.tables,
		     "cohort_ptp_left grew by %ld for %d tables",
		     vm_event("cohort_ptp_left") - left, area.tables);
	model_check_all(5);
	kill_peer(2);
	board->model[2].n = 0;
	model_check_all(5);
	/* a process that has unshared exits */
	ask(3, model_scribble, 3, 5);
	quit(3);
	board->model[3].n = 0;
	model_check_all(5);
	model_scribble_all(5);
	model_check_all(5);
}

static const struct test_case more_cases[] = {
	{ "Who notices a heap that grows into a hole of its table?", test_brk,
	  .guards = INVARIANT(1) },
	{ "Who notices a heap that shrinks?", test_brk_shrink, .guards = INVARIANT(1) },
	{ "Who notices a stack that grows?", test_stack_growth, .guards = INVARIANT(1) },
	{ "Who notices an exit?", test_exit, 0, ALL, SOME_KINDS, .guards = INVARIANT(5) },
};

int main(int argc, char **argv)
{
	return run_actions(argc, argv, actions, ARRAY_SIZE(actions), more_cases,
			   ARRAY_SIZE(more_cases));
}
