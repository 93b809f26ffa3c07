// SPDX-License-Identifier: GPL-2.0-only
/*
 * Leaving a shared table: whatever one process does to its address space, only
 * that process may notice. Each action is done by the parent, by a child, and
 * by a child whose parent has gone, and all the others look on.
 */
#include "common.h"

#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <linux/userfaultfd.h>

#ifndef __NR_mseal
#define __NR_mseal		462
#endif
#ifndef __NR_process_madvise
#define __NR_process_madvise	440
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA		0x53564d41
#define PR_SET_VMA_ANON_NAME	0
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE	67
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#ifndef UFFDIO_MOVE
struct uffdio_move {
	__u64 dst, src, len, mode;
	__s64 move;
};

#define UFFDIO_MOVE		_IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFD_FEATURE_MOVE	0x10000
#endif

static struct area area;

enum {
	BY_FAULT = 1, BY_MAP = 2, BY_UNMAP = 4, BY_CHANGE = 8, BY_LEAVING = 16,
};

static const char * const cause_names[] = {
	"cohort_ptp_unshared_fault", "cohort_ptp_unshared_map",
	"cohort_ptp_unshared_unmap", "cohort_ptp_unshared_change",
	"cohort_ptp_left",
};

/* what an action works on: the whole of a part, or the middle third of it */
struct range {
	char *start;
	size_t len;
	struct part *part;
};

static struct range whole(int part)
{
	struct part *p = &area.part[part];

	return (struct range){ p->addr, p->len, p };
}

static struct range middle(int part)
{
	struct part *p = &area.part[part];
	int first = 0, last, n;
	struct range r = { .part = p };

	while (area.spot[first].part != part)
		first++;
	for (last = first; last + 1 < area.nspots && area.spot[last + 1].part == part;)
		last++;
	n = last - first + 1;
	r.start = area.spot[first + n / 3].addr;
	r.len = area.spot[first + 2 * n / 3].addr + page_size - r.start;
	return r;
}

static struct range one_page(char *addr)
{
	struct range r = { addr, page_size, NULL };

	for (int i = 0; i < area.nparts; i++)
		if (addr >= area.part[i].addr && addr < area.part[i].addr + area.part[i].len)
			r.part = &area.part[i];
	return r;
}

static bool inside(const struct want *w, struct range r)
{
	return w->addr >= r.start && w->addr < r.start + r.len;
}

/* --- how an action changes what its process must see ---------------------- */

static void now_acc(struct model *m, struct range r, enum access acc)
{
	for (int i = 0; i < m->n; i++)
		if (inside(&m->want[i], r))
			m->want[i].acc = acc;
}

/* the private copies are gone, what was below comes through */
static void now_dropped(struct model *m, struct range r)
{
	for (int i = 0; i < m->n; i++)
		if (inside(&m->want[i], r) && !m->want[i].shared)
			m->want[i].tag = area.spot[m->want[i].id].file_tag;
}

static void now_private_zero(struct model *m, struct range r)
{
	for (int i = 0; i < m->n; i++)
		if (inside(&m->want[i], r)) {
			m->want[i].tag = 0;
			m->want[i].shared = false;
			m->want[i].acc = WRITE;
		}
}

static struct want *add_want(struct model *m, char *addr, unsigned int tag, enum access acc)
{
	struct want *w = &m->want[m->n++];

	must(m->n <= MAX_WANTS, "too many pages to watch");
	*w = (struct want){ .addr = addr, .tag = tag, .acc = acc, .id = -1 };
	return w;
}

/* everything in r is found elsewhere now; a hole, or `left` in its place */
static void now_moved(struct model *m, struct range r, char *to, enum access left)
{
	int n = m->n;

	for (int i = 0; i < n; i++) {
		struct want *w = &m->want[i];
		char *old = w->addr;

		if (!inside(w, r))
			continue;
		w->addr = to + (old - r.start);
		if (left == NONE) {
			add_want(m, old, 0, NONE);
		} else {
			struct want *copy = add_want(m, old, 0, w->acc);

			copy->id = w->id;
			copy->shared = w->shared;
			copy->tag = w->shared ? w->tag : area.spot[w->id].file_tag;
		}
	}
}

/* --- the actions ---------------------------------------------------------- */

/*
 * Each runs in the process that acts, changes m, the model of that process, and
 * returns with the work done or gives up with skip() or fail().
 */
typedef void (*action_fn)(struct model *m, long me);

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

/* the kernel writes for us: the fault comes from inside a system call */
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

/* there is no room behind the middle, so it goes where there is */
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
	id = shmget(IPC_PRIVATE, page_size, 0600 | IPC_CREAT);
	must(id >= 0, "shmget: %s", strerror(errno));
	must(shmat(id, r.start, SHM_REMAP) == r.start, "shmat: %s", strerror(errno));
	must_call(shmctl(id, IPC_RMID, NULL));
	/* new memory, which this process will share with its children only */
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

static void advise_middle(int advice, bool private_only)
{
	for (int i = 0; i < area.nparts; i++) {
		struct range r = middle(i);

		if (private_only && (area.part[i].shared || area.part[i].fd >= 0))
			continue;
		if (!madvise(r.start, r.len, advice))
			continue;
		if (errno == EINVAL)
			skip("this kernel lacks advice %d", advice);
		must(errno == EAGAIN || errno == EBUSY || errno == ENOMEM, "madvise %d: %s",
		     advice, strerror(errno));
	}
}

static void dontneed_middle(struct model *m, long me)
{
	advise_middle(MADV_DONTNEED, false);
	for (int i = 0; i < area.nparts; i++)
		now_dropped(m, middle(i));
}

static void dontneed_all(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		must_call(madvise(whole(i).start, whole(i).len, MADV_DONTNEED));
		now_dropped(m, whole(i));
	}
}

static void dontneed_twice(struct model *m, long me)
{
	/* again, when the table is one's own and empty */
	dontneed_all(m, me);
	dontneed_all(m, me);
	for (int i = 0; i < area.nspots; i++)
		touch(area.spot[i].addr);
	dontneed_all(m, me);
}

static void advise_free(struct model *m, long me)
{
	advise_middle(MADV_FREE, true);
	for (int i = 0; i < area.nparts; i++) {
		if (area.part[i].shared || area.part[i].fd >= 0)
			continue;
		for (int j = 0; j < m->n; j++)
			if (inside(&m->want[j], middle(i)))
				m->want[j].or_zero = true;
	}
}

static void advise_cold(struct model *m, long me)
{
	advise_middle(MADV_COLD, false);
}

static void advise_pageout(struct model *m, long me)
{
	advise_middle(MADV_PAGEOUT, false);
}

static void advise_populate_read(struct model *m, long me)
{
	advise_middle(MADV_POPULATE_READ, false);
}

static void advise_populate_write(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		if (!(area.part[i].prot & PROT_WRITE))
			continue;
		if (!madvise(middle(i).start, middle(i).len, MADV_POPULATE_WRITE))
			continue;
		if (errno == EINVAL)
			skip("no MADV_POPULATE_WRITE");
		fail("MADV_POPULATE_WRITE: %s", strerror(errno));
	}
}

static void advise_process(struct model *m, long me)
{
	struct iovec iov = { middle(0).start, middle(0).len };
	int pidfd = syscall(__NR_pidfd_open, getpid(), 0);

	if (pidfd < 0 || syscall(__NR_process_madvise, pidfd, &iov, 1, MADV_PAGEOUT, 0) < 0)
		skip("process_madvise: %s", strerror(errno));
	close(pidfd);
}

static void advise_remove(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		struct range r = middle(i);

		if (!area.part[i].shared)
			continue;
		must_call(madvise(r.start, r.len, MADV_REMOVE));
		for (int p = 0; p < MAX_MODELS; p++)
			for (int j = 0; j < board->model[p].n; j++)
				if (inside(&board->model[p].want[j], r))
					board->model[p].want[j].tag = 0;
	}
}

/* advice about how to read, dump or fork: no page changes */
static void advise_flags(struct model *m, long me)
{
	static const int advice[] = {
		MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_NORMAL, MADV_DONTDUMP,
		MADV_DODUMP, MADV_DONTFORK, MADV_DOFORK, MADV_HUGEPAGE, MADV_NOHUGEPAGE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(advice); i++)
		for (int j = 0; j < area.nparts; j++)
			madvise(middle(j).start, middle(j).len, advice[i]);
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, middle(0).start, middle(0).len, "named");
}

static void advise_dontfork(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++)
		must_call(madvise(middle(i).start, middle(i).len, MADV_DONTFORK));
}

static void fork_without(struct model *m)
{
	for (int i = 0; i < area.nparts; i++)
		now_acc(m, middle(i), NONE);
}

static void advise_wipeonfork(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++)
		if (!area.part[i].shared && area.part[i].fd < 0)
			must_call(madvise(middle(i).start, middle(i).len, MADV_WIPEONFORK));
}

static void fork_wiped(struct model *m)
{
	for (int i = 0; i < area.nparts; i++)
		if (!area.part[i].shared && area.part[i].fd < 0)
			now_private_zero(m, middle(i));
}

static void advise_collapse(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++) {
		madvise(whole(i).start, whole(i).len, MADV_HUGEPAGE);
		/* it may be refused (EAGAIN, EBUSY, ENOMEM), never do harm */
		madvise(whole(i).start, whole(i).len, MADV_COLLAPSE);
	}
}

static void advise_mergeable(struct model *m, long me)
{
	if (madvise(middle(0).start, middle(0).len, MADV_MERGEABLE))
		skip("no KSM in this kernel");
	must_call(madvise(middle(0).start, middle(0).len, MADV_UNMERGEABLE));
	if (!prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0))
		must_call(prctl(PR_SET_MEMORY_MERGE, 0, 0, 0, 0));
}

static void lock_some(struct model *m, long me)
{
	for (int i = 0; i < area.nparts; i++)
		if (mlock(middle(i).start, middle(i).len))
			skip("mlock: %s", strerror(errno));
}

static void lock_and_unlock(struct model *m, long me)
{
	lock_some(m, me);
	for (int i = 0; i < area.nparts; i++)
		must_call(munlock(middle(i).start, middle(i).len));
}

static void lock_everything(struct model *m, long me)
{
	if (mlockall(MCL_CURRENT))
		skip("mlockall: %s", strerror(errno));
	must(proc_field(0, "status", "VmLck") > 0, "mlockall locked nothing");
	must_call(munlockall());
	must(!proc_field(0, "status", "VmLck"), "munlockall left something locked");
}

static void seal(struct model *m, long me)
{
	struct range r = middle(0);

	if (syscall(__NR_mseal, r.start, r.len, 0))
		skip("mseal: %s", strerror(errno));
	must(munmap(r.start, r.len) && errno == EPERM, "a sealed range was unmapped");
}

static int uffd_open(unsigned long long features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd < 0)
		skip("userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api))
		skip("userfaultfd lacks a feature (%llx)", features);
	return fd;
}

static void uffd_register(int fd, struct range r, __u64 mode)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)r.start, r.len }, .mode = mode,
	};

	if (!ioctl(fd, UFFDIO_REGISTER, &reg))
		return;
	if (errno == EINVAL)
		skip("userfaultfd does not do that to this memory");
	fail("UFFDIO_REGISTER: %s", strerror(errno));
}

static void uffd_missing(struct model *m, long me)
{
	int fd = uffd_open(0);

	uffd_register(fd, middle(0), UFFDIO_REGISTER_MODE_MISSING);
	close(fd);
}

static void uffd_wp(struct model *m, long me)
{
	struct range r = middle(0);
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)r.start, r.len }, .mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int fd = uffd_open(UFFD_FEATURE_PAGEFAULT_FLAG_WP);

	uffd_register(fd, r, UFFDIO_REGISTER_MODE_WP);
	must_call(ioctl(fd, UFFDIO_WRITEPROTECT, &wp));
	wp.mode = 0;
	must_call(ioctl(fd, UFFDIO_WRITEPROTECT, &wp));
	close(fd);
}

static void uffd_copy(struct model *m, long me)
{
	struct want *w = &m->want[3];
	char *buf = aligned_alloc(page_size, page_size);
	struct uffdio_copy copy = {
		.dst = (uintptr_t)w->addr, .src = (uintptr_t)buf, .len = page_size,
	};
	int fd = uffd_open(0);

	must(buf, "out of memory");
	page_fill(buf, 4200000u + me);
	must_call(madvise(w->addr, page_size, MADV_DONTNEED));
	uffd_register(fd, one_page(w->addr), UFFDIO_REGISTER_MODE_MISSING);
	must_call(ioctl(fd, UFFDIO_COPY, &copy));
	w->tag = 4200000u + me;
	free(buf);
	close(fd);
}

static void uffd_move(struct model *m, long me)
{
	struct want *to = &m->want[3], *from = &m->want[0];
	struct uffdio_move mv = {
		.dst = (uintptr_t)to->addr, .src = (uintptr_t)from->addr, .len = page_size,
	};
	int fd = uffd_open(UFFD_FEATURE_MOVE);

	must_call(madvise(to->addr, page_size, MADV_DONTNEED));
	to->tag = 0;
	uffd_register(fd, one_page(to->addr), UFFDIO_REGISTER_MODE_MISSING);
	if (!ioctl(fd, UFFDIO_MOVE, &mv)) {
		to->tag = from->tag;
		from->tag = 0;
	} else {
		/* a page that others have too cannot be moved */
		must(errno == EBUSY, "UFFDIO_MOVE: %s", strerror(errno));
	}
	close(fd);
}

static void clear_soft_dirty(struct model *m, long me)
{
	must(!write_text("/proc/self/clear_refs", "4"), "clear_refs cannot be written");
}

static void clear_accessed(struct model *m, long me)
{
	must(!write_text("/proc/self/clear_refs", "1"), "clear_refs cannot be written");
}

static void bind_memory(struct model *m, long me)
{
	unsigned long node0 = 1;
	void *pages[1] = { area.spot[0].addr };
	int nodes[1] = { 0 }, status[1];

	/* MPOL_BIND, MPOL_MF_STRICT | MPOL_MF_MOVE; both may refuse, but do no harm */
	syscall(__NR_mbind, middle(0).start, middle(0).len, 2, &node0, 64, 3);
	/* MPOL_MF_MOVE */
	syscall(__NR_move_pages, 0, 1, pages, nodes, status, 2);
}

/* --- a mapping in a hole -------------------------------------------------- */

static char *hole(int i)
{
	if (area.kind == MIXED)
		return area.base + 2 * i * (table_size / 16);
	/* before and behind what lies in the middle of three tables */
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
		/* a read fault: the kind that fills a shared table for all */
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
		/* two windows onto one page, both of this process alone */
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

/* --- the matrix ----------------------------------------------------------- */

#define ALL	ALL_KINDS
#define ANONS	(KIND(ANON) | KIND(HEAP) | KIND(BORDERS) | KIND(NEAR_THP))
#define PRIVATE	(ANONS | KIND(PRIV_FILE) | KIND(PRIV_DISK))
#define SHARED	(KIND(SHARED_FILE) | KIND(SHARED_DISK) | KIND(SHARED_ANON) | KIND(MEMFD) | \
		 KIND(SYSV))
#define WRITABLE (PRIVATE | SHARED | KIND(MIXED))
/* one region, so that one mremap call can take it */
#define MOVABLE	(ALL & ~KIND(NEAR_THP))
#define GROWABLE (MOVABLE & ~KIND(HEAP) & ~KIND(SYSV))
#define HOLED	(KIND(MIXED) | KIND(BORDERS))

static const struct action {
	const char *desc;
	action_fn fn;
	unsigned int kinds;
	unsigned int causes;		/* one of these counters must move */
	void (*fork_view)(struct model *m);
} actions[] = {
	{ "a write", write_each_state, WRITABLE, BY_FAULT },
	{ "a write by the kernel for it", write_by_read, WRITABLE, BY_FAULT },

	{ "mprotect to read only, a part", protect_read, WRITABLE, BY_CHANGE },
	{ "mprotect to nothing, a part", protect_none, ALL, BY_CHANGE },
	{ "mprotect to nothing, all", protect_all_none, ALL, BY_CHANGE },
	{ "mprotect there and back", protect_and_back, ALL, BY_CHANGE },
	{ "mprotect to writable", protect_write, KIND(PRIV_FILE_RO) | KIND(MIXED), BY_CHANGE },
	{ "mprotect to executable", protect_exec, WRITABLE, BY_CHANGE },

	{ "mremap, all, to a like place", move_all, MOVABLE, BY_CHANGE },
	{ "mremap, all, to an unlike place", move_askew, MOVABLE, BY_CHANGE },
	{ "mremap, a part", move_middle, MOVABLE, BY_CHANGE },
	{ "mremap over a page of the same table", move_over, MOVABLE,
	  BY_CHANGE | BY_UNMAP | BY_MAP },
	{ "mremap DONTUNMAP", move_and_stay, MOVABLE & ~KIND(PRIV_FILE_RO) & ~KIND(MIXED),
	  BY_CHANGE },
	{ "mremap that duplicates", map_twice, SHARED, 0 },
	{ "mremap that grows", grow, GROWABLE, 0 },
	{ "mremap that shrinks", shrink, MOVABLE, BY_UNMAP | BY_CHANGE | BY_LEAVING },
	{ "mremap that grows by moving", grow_by_moving, MOVABLE, BY_CHANGE },

	{ "munmap, a part", unmap_middle, ALL, BY_UNMAP | BY_LEAVING },
	{ "munmap, all", unmap_all, ALL, BY_UNMAP | BY_LEAVING },
	{ "munmap, first and last page", unmap_ends, ALL, BY_UNMAP },
	{ "munmap across regions and holes", unmap_across, ALL, BY_UNMAP | BY_LEAVING },
	{ "munmap, and another mapping in its place", unmap_and_map, ALL,
	  BY_UNMAP | BY_LEAVING | BY_MAP },
	{ "shmdt", detach, KIND(SYSV), BY_UNMAP | BY_LEAVING },
	{ "a mapping over a part", map_zero_over, ALL, BY_MAP | BY_UNMAP },
	{ "a file mapped over a part", map_file_over, ALL, BY_MAP | BY_UNMAP },
	{ "a reservation over all", map_reserve_over, ALL & ~KIND(HEAP),
	  BY_MAP | BY_UNMAP | BY_LEAVING },
	{ "shmat over a page", shm_over, ALL, BY_MAP | BY_UNMAP },
	{ "remap_file_pages", remap_pages, KIND(SHARED_FILE) | KIND(SHARED_DISK),
	  BY_MAP | BY_UNMAP | BY_CHANGE },
	{ "an anonymous mapping in a hole", map_hole_anon, HOLED, BY_MAP },
	{ "a file mapping in a hole", map_hole_file, HOLED, BY_MAP },
	{ "a shared mapping in a hole", map_hole_shared, HOLED, BY_MAP },
	{ "a reservation in a hole", map_hole_reserve, HOLED, BY_MAP },

	{ "MADV_DONTNEED, a part", dontneed_middle, ALL, BY_UNMAP | BY_LEAVING },
	{ "MADV_DONTNEED, all", dontneed_all, ALL, BY_UNMAP | BY_LEAVING },
	{ "MADV_DONTNEED over and over", dontneed_twice, ALL, BY_UNMAP | BY_LEAVING },
	{ "MADV_FREE", advise_free, ANONS | KIND(MIXED), 0 },
	{ "MADV_COLD", advise_cold, ALL, 0 },
	{ "MADV_PAGEOUT", advise_pageout, ALL, 0 },
	{ "MADV_PAGEOUT by process_madvise", advise_process, ALL, 0 },
	{ "MADV_POPULATE_READ", advise_populate_read, ALL, 0 },
	{ "MADV_POPULATE_WRITE", advise_populate_write, WRITABLE, BY_FAULT },
	{ "advice about reading and dumping", advise_flags, ALL, 0 },
	{ "MADV_DONTFORK", advise_dontfork, ALL, 0, fork_without },
	{ "MADV_WIPEONFORK", advise_wipeonfork, ANONS | KIND(MIXED), 0, fork_wiped },
	{ "MADV_COLLAPSE", advise_collapse, ALL, 0 },
	{ "MADV_MERGEABLE and back", advise_mergeable, PRIVATE, 0 },
	{ "mlock", lock_some, ALL, BY_CHANGE },
	{ "mlock and munlock", lock_and_unlock, ALL, BY_CHANGE },
	{ "mlockall and munlockall", lock_everything, ALL, BY_CHANGE },
	{ "mseal", seal, ALL, 0 },
	{ "mbind and move_pages", bind_memory, ALL, 0 },

	{ "userfaultfd, missing mode", uffd_missing, ANONS | KIND(SHARED_ANON) | KIND(MEMFD),
	  BY_CHANGE },
	{ "userfaultfd, write protection", uffd_wp, ANONS, BY_CHANGE },
	{ "UFFDIO_COPY", uffd_copy, ANONS, BY_CHANGE | BY_UNMAP | BY_LEAVING },
	{ "UFFDIO_MOVE", uffd_move, ANONS, BY_CHANGE | BY_UNMAP | BY_LEAVING },
	{ "clear_refs of soft-dirty bits", clear_soft_dirty, ALL, 0 },
	{ "clear_refs of accessed bits", clear_accessed, ALL, 0 },

	/* the shared parts change for everybody, the private ones for nobody */
	{ "MADV_REMOVE", advise_remove, SHARED | KIND(MIXED), 0 },
};

static long do_action(long index, long me)
{
	actions[index].fn(&board->model[me], me);
	return 0;
}

static char in_data = 1;

/* write wherever libc and we write, so that the tables of these are one's own */
static long warm_up(long a, long b)
{
	char *p = malloc(100);

	*(char *)memset(p, 1, 100) += in_data++;
	free(p);
	errno = 0;
	proc_field(0, "status", "VmLck");
	return 0;
}

static void play(long index, enum kind kind, int role)
{
	static const struct {
		const char *text;
		int first, last, actor, bystander;
	} roles[] = {
		{ "the parent acts", 0, 2, 0, 1 },
		{ "a child acts", 0, 2, 1, 2 },
		{ "a child acts, the parent has gone", 1, 3, 2, 1 },
	};
	const struct action *act = &actions[index];
	int first = roles[role].first, last = roles[role].last;
	int actor = roles[role].actor, bystander = roles[role].bystander;
	long before[ARRAY_SIZE(cause_names)], shared = -1, grown = 0;

	memset(board->model, 0, sizeof(board->model));
	area_make(&area, kind);
	become_zygote();
	for (int i = 1; i <= last; i++)
		spawn(i);
	if (first)
		area_unmap(&area);
	for (int i = first; i <= last; i++) {
		model_init(&board->model[i], &area);
		ask(i, warm_up, 0, 0);
	}

	for (size_t i = 0; i < ARRAY_SIZE(cause_names); i++)
		before[i] = vm_event(cause_names[i]);
	if (sharing_possible())
		shared = shared_tables(pid_of(bystander));

	ask(actor, do_action, index, actor);

	for (size_t i = 0; i < ARRAY_SIZE(cause_names); i++)
		if (act->causes & (1 << i))
			grown += vm_event(cause_names[i]) - before[i];
	/* in a table of shared mappings alone a write is no reason to leave */
	if (sharing_possible() && act->causes &&
	    !(act->causes == BY_FAULT && kind_shared(kind)))
		must(grown > 0, "%s: no counter of unshared tables moved", roles[role].text);
	if (shared >= 0) {
		shared -= shared_tables(pid_of(bystander));
		must(!shared, "%s: another process shares %ld tables less", roles[role].text,
		     shared);
	}

	must(!proc_field(pid_of(bystander), "status", "VmLck"), "%s: another has locked memory",
	     roles[role].text);

	model_check_all(last + 1);
	model_scribble_all(last + 1);
	model_check_all(last + 1);

	/* what the actor made of its memory is what its next child gets */
	spawn_from(actor, 5);
	board->model[5] = board->model[actor];
	if (act->fork_view)
		act->fork_view(&board->model[5]);
	model_check_all(6);
	model_scribble_all(6);
	model_check_all(6);

	/* and the others keep theirs when it goes */
	if (actor != SELF) {
		quit(actor);
		board->model[actor].n = 0;
	}
	quit(5);
	board->model[5].n = 0;
	model_check_all(6);
	for (int i = 1; i <= last; i++)
		if (i != actor)
			quit(i);
	/* role 2 has unmapped it */
	if (!first)
		model_check(SELF, 0);
}

static void test_action(long arg)
{
	enum kind kind = ARG_KIND(arg);
	long index = ARG_ARG(arg);
	int role;

	for (role = 0; role < 3; role++) {
		/* a quick run takes the roles in turn */
		if (quick && role != (index + kind) % 3)
			continue;
		play(index, kind, role);
	}
}

/* --- growth --------------------------------------------------------------- */

#define GROWTH	16		/* pages */

static long grow_brk(long pages, long tag)
{
	char *old = sbrk(pages * (long)page_size);

	must(old != (void *)-1, "brk: %s", strerror(errno));
	if (pages > 0) {
		must(page_is(old, 0), "new heap is not empty");
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

	/* the heap is to end in the middle of a table of its own */
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
	/* one after another grows its heap into the hole that all had there */
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
		/* looking there makes it grow, in the one that looks */
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
		ask(i, warm_up, 0, 0);
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
	/* one goes that has a copy of its own */
	ask(3, model_scribble, 3, 5);
	quit(3);
	board->model[3].n = 0;
	model_check_all(5);
	model_scribble_all(5);
	model_check_all(5);
}

static const struct test_case more_cases[] = {
	{ "Who notices a heap that grows into a hole of its table?", test_brk },
	{ "Who notices a heap that shrinks?", test_brk_shrink },
	{ "Who notices a stack that grows?", test_stack_growth },
	{ "Who notices an exit?", test_exit, 0, ALL, SOME_KINDS },
};

int main(int argc, char **argv)
{
	struct test_case cases[ARRAY_SIZE(actions) + ARRAY_SIZE(more_cases)] = { };
	static char text[ARRAY_SIZE(actions)][96];

	for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
		snprintf(text[i], sizeof(text[i]), "Who notices %s?", actions[i].desc);
		cases[i] = (struct test_case){
			.desc = text[i], .fn = test_action, .arg = i,
			.kinds = actions[i].kinds, .quick_kinds = SOME_KINDS,
		};
	}
	memcpy(cases + ARRAY_SIZE(actions), more_cases, sizeof(more_cases));
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
