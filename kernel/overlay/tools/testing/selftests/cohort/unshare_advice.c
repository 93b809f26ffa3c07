// SPDX-License-Identifier: GPL-2.0-only
/*
 * Leaving a shared table, or not, by advice, locks and userfaultfd: see unshare.h.
 */
#include "unshare/unshare.h"
#include "lib/uffd.h"

#include <sys/uio.h>

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
	/* again, when the table is private and empty */
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

/* advice that changes no page */
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
		/* it may fail (EAGAIN, EBUSY, ENOMEM) without effect */
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
		/* a page that others map cannot be moved */
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

static const struct action actions[] = {
	{ "MADV_DONTNEED, a part", dontneed_middle, ALL, BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "MADV_DONTNEED, all", dontneed_all, ALL, BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "MADV_DONTNEED over and over", dontneed_twice, ALL, BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(5) },
	{ "MADV_FREE", advise_free, ANONS | KIND(MIXED), 0, .guards = INVARIANT(8) },
	{ "MADV_COLD", advise_cold, ALL, 0, .guards = INVARIANT(8) },
	{ "MADV_PAGEOUT", advise_pageout, ALL, 0, .guards = INVARIANT(8) },
	{ "MADV_PAGEOUT by process_madvise", advise_process, ALL, 0, .guards = INVARIANT(8) },
	{ "MADV_POPULATE_READ", advise_populate_read, ALL, 0, .guards = INVARIANT(6) },
	{ "MADV_POPULATE_WRITE", advise_populate_write, WRITABLE, BY_FAULT,
	  .guards = INVARIANT(2) },
	{ "advice about reading and dumping", advise_flags, ALL, 0, .guards = INVARIANT(1) },
	{ "MADV_DONTFORK", advise_dontfork, ALL, 0, fork_without, .guards = INVARIANT(1) },
	{ "MADV_WIPEONFORK", advise_wipeonfork, ANONS | KIND(MIXED), 0, fork_wiped,
	  .guards = INVARIANT(1) },
	{ "MADV_COLLAPSE", advise_collapse, ALL, 0, .guards = INVARIANT(6) },
	{ "MADV_MERGEABLE and back", advise_mergeable, PRIVATE, 0, .guards = INVARIANT(1) },

	{ "mlock", lock_some, ALL, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mlock and munlock", lock_and_unlock, ALL, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mlockall and munlockall", lock_everything, ALL, BY_CHANGE, .guards = INVARIANT(1) },
	{ "mseal", seal, ALL, 0, .guards = INVARIANT(1) },
	{ "mbind and move_pages", bind_memory, ALL, 0, .guards = INVARIANT(4) },

	{ "userfaultfd, missing mode", uffd_missing, ANONS | KIND(SHARED_ANON) | KIND(MEMFD),
	  BY_CHANGE, .guards = INVARIANT(1) },
	{ "userfaultfd, write protection", uffd_wp, ANONS, BY_CHANGE, .guards = INVARIANT(1) },
	{ "UFFDIO_COPY", uffd_copy, ANONS, BY_CHANGE | BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(6) },
	{ "UFFDIO_MOVE", uffd_move, ANONS, BY_CHANGE | BY_UNMAP | BY_LEAVING,
	  .guards = INVARIANT(1) | INVARIANT(6) },
	{ "clear_refs of soft-dirty bits", clear_soft_dirty, ALL, 0, .guards = INVARIANT(1) },
	{ "clear_refs of accessed bits", clear_accessed, ALL, 0, .guards = INVARIANT(4) },

	/* the shared parts change for everybody, the private ones for nobody */
	{ "MADV_REMOVE", advise_remove, SHARED | KIND(MIXED), 0, .guards = INVARIANT(4) },
};

int main(int argc, char **argv)
{
	return run_actions(argc, argv, actions, ARRAY_SIZE(actions), NULL, 0);
}
