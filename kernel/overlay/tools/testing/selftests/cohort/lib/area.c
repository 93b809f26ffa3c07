// SPDX-License-Identifier: GPL-2.0-only
/* Memory of each kind, with marked pages in it. */
#include "../common.h"

#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/statfs.h>

static const struct {
	const char *name;
	bool shared, anon, readonly;
} kinds[NR_KINDS] = {
	[ANON]		= { "private anonymous", false, true, false },
	[HEAP]		= { "heap (brk)", false, true, false },
	[PRIV_FILE]	= { "private tmpfs file", false, false, false },
	[PRIV_FILE_RO]	= { "private file, read and exec only", false, false, true },
	[PRIV_DISK]	= { "private file on disk", false, false, false },
	[SHARED_FILE]	= { "shared tmpfs file", true, false, false },
	[SHARED_DISK]	= { "shared file on disk", true, false, false },
	[SHARED_ANON]	= { "shared anonymous", true, false, false },
	[MEMFD]		= { "memfd", true, false, false },
	[SYSV]		= { "SysV shm", true, false, false },
	[MIXED]		= { "private and shared in one table", false, false, false },
	[BORDERS]	= { "anonymous over table borders", false, true, false },
	[NEAR_THP]	= { "anonymous beside a huge page", false, true, false },
	[ALONE]		= { "shared, alone in its gigabyte", true, false, false },
};

struct area area;

const char *kind_name(enum kind kind)
{
	return kinds[kind].name;
}

bool kind_shared(enum kind kind)
{
	return kinds[kind].shared;
}

bool kind_anon(enum kind kind)
{
	return kinds[kind].anon;
}

bool kind_readonly(enum kind kind)
{
	return kinds[kind].readonly;
}

char *arena(int tables)
{
	/*
	 * Far from the kernel's own choices, so that a table holds nothing but
	 * what the case mapped.
	 */
	const uintptr_t first = sizeof(long) == 8 ? (uintptr_t)0x2000000000ULL : 0x50000000;
	static uintptr_t next;
	uintptr_t addr;

	/* 32-bit address spaces are small: reuse addresses that were unmapped long ago */
	if (!next || (sizeof(long) == 4 && next > 0xa0000000))
		next = first;
	addr = (next + table_size - 1) / table_size * table_size;
	next = addr + (tables + 1) * table_size;
	return (char *)addr;
}

void no_huge_pages(void *addr, size_t len)
{
	/* a kernel without huge pages does not know the advice */
	must(!madvise(addr, len, MADV_NOHUGEPAGE) || errno == EINVAL, "MADV_NOHUGEPAGE: %s",
	     strerror(errno));
}

void *map_at(char *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	void *p = mmap(addr, len, prot, flags | MAP_FIXED_NOREPLACE, fd, off);

	must(p == addr, "mmap at %p: %s", addr,
	     p == MAP_FAILED ? strerror(errno) : "elsewhere");
	return p;
}

int make_file(const char *fs, size_t pages)
{
	static const char * const tmpfs_dirs[] = { "/dev/shm", "/tmp", "/run" };
	static const char * const disk_dirs[] = { "/var/tmp", "/root", "/tmp", "." };
	bool disk = !strcmp(fs, "disk");
	const char * const *dirs = disk ? disk_dirs : tmpfs_dirs;
	int n = disk ? ARRAY_SIZE(disk_dirs) : ARRAY_SIZE(tmpfs_dirs);
	struct statfs st;
	char *page;
	size_t i;
	int fd = -1;

	for (int d = 0; d < n && fd < 0; d++) {
		bool in_memory;

		if (statfs(dirs[d], &st))
			continue;
		/* tmpfs, ramfs (the initial root), overlayfs over either */
		in_memory = st.f_type == 0x01021994 || st.f_type == (typeof(st.f_type))0x858458f6;
		if (in_memory == disk)
			continue;
		fd = open(dirs[d], O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		skip("no %s to make a file on", disk ? "disk file system" : fs);

	page = aligned_alloc(page_size, page_size);
	must(page, "out of memory");
	for (i = 0; i < pages; i++) {
		page_fill(page, FILE_TAG(i));
		must(pwrite(fd, page, page_size, i * page_size) == (ssize_t)page_size,
		     "file on %s: %s", fs, strerror(errno));
	}
	free(page);
	return fd;
}

int open_direct(int fd, int flags)
{
	char path[64];
	int direct;

	must_call(fsync(fd));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct = open(path, flags | O_DIRECT | O_CLOEXEC);
	if (direct < 0)
		skip("O_DIRECT: %s", strerror(errno));
	return direct;
}

static struct part *area_part(struct area *a, char *addr, size_t len, int prot,
			      int flags, int fd)
{
	struct part *p = &a->part[a->nparts++];

	p->addr = addr;
	p->len = len;
	p->prot = prot;
	p->flags = flags;
	p->fd = fd;
	p->shared = flags & MAP_SHARED;
	return p;
}

/*
 * Choose n pages of a part, both ends included, and leave them in each state that
 * a fork can meet: never touched, read, written, written and read.
 */
void area_spots(struct area *a, int part, int n)
{
	struct part *p = &a->part[part];
	size_t pages = p->len / page_size;
	int i;

	for (i = 0; i < n && a->nspots < MAX_SPOTS; i++) {
		size_t index = n > 1 ? (pages - 1) * i / (n - 1) : 0;
		struct spot *s = &a->spot[a->nspots];

		s->addr = p->addr + index * page_size;
		s->part = part;
		s->file_tag = p->fd >= 0 ? FILE_TAG(index) : 0;
		s->tag = s->file_tag;
		if (i % 4 == 2) {
			/* never touched */
		} else if (i % 4 != 1 && (p->prot & PROT_WRITE)) {
			s->tag = 2000000u + a->nspots;
			page_fill(s->addr, s->tag);
		} else {
			touch(s->addr);
		}
		if (p->shared)
			s->file_tag = s->tag;
		a->nspots++;
	}
}

static void add_sysv(struct area *a)
{
	int id;

	if (access("/proc/sysvipc", F_OK))
		skip("no SysV shared memory in this kernel");
	id = shmget(IPC_PRIVATE, table_size, 0600 | IPC_CREAT);
	must(id >= 0, "shmget: %s", strerror(errno));
	must(shmat(id, a->base, 0) == a->base, "shmat: %s", strerror(errno));
	must_call(shmctl(id, IPC_RMID, NULL));
	area_part(a, a->base, table_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
}

/* five regions with holes between them, all in one table */
static void add_mixed(struct area *a)
{
	const int rw = PROT_READ | PROT_WRITE;
	size_t len = table_size / 16;

	area_part(a, a->base + len, len, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	area_part(a, a->base + 3 * len, len, rw, MAP_PRIVATE,
		  make_file("tmpfs", len / page_size));
	area_part(a, a->base + 5 * len, len, rw, MAP_SHARED,
		  make_file("tmpfs", len / page_size));
	area_part(a, a->base + 7 * len, len, PROT_READ, MAP_PRIVATE,
		  make_file("tmpfs", len / page_size));
	area_part(a, a->base + 9 * len, len, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
}

/* 128 MB alone in a gigabyte: fork shares its PMD table */
static void add_alone(struct area *a)
{
	static uintptr_t next_gigabyte = sizeof(long) == 8 ? (uintptr_t)0x3c00000000ULL : 0;

	if (sizeof(long) < 8)
		skip("no gigabyte to spare");
	next_gigabyte += 2UL << 30;
	a->base = (char *)next_gigabyte + (256UL << 20);
	a->tables = 0;
	area_part(a, a->base, 128UL << 20, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Adds the regions of a kind; returns how many pages of each the case knows. */
static int add_parts(struct area *a, enum kind kind)
{
	const int rw = PROT_READ | PROT_WRITE;
	size_t table_pages = table_size / page_size;
	size_t len = table_size;
	struct part *p;

	switch (kind) {
	case ANON:
		area_part(a, a->base, len, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		break;
	case HEAP:
		/* the aligned table inside what brk gave; the rest is left alone */
		p = sbrk(3 * table_size);
		must(p != (void *)-1, "brk: %s", strerror(errno));
		a->base = (char *)(((uintptr_t)p + table_size - 1) / table_size * table_size);
		area_part(a, a->base, len, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		break;
	case PRIV_FILE:
	case PRIV_DISK:
		area_part(a, a->base, len, rw, MAP_PRIVATE,
			  make_file(kind == PRIV_DISK ? "disk" : "tmpfs", table_pages));
		break;
	case PRIV_FILE_RO:
		area_part(a, a->base, len, PROT_READ | PROT_EXEC, MAP_PRIVATE,
			  make_file("tmpfs", table_pages));
		break;
	case SHARED_FILE:
	case SHARED_DISK:
		area_part(a, a->base, len, rw, MAP_SHARED,
			  make_file(kind == SHARED_DISK ? "disk" : "tmpfs", table_pages));
		break;
	case SHARED_ANON:
		area_part(a, a->base, len, rw, MAP_SHARED | MAP_ANONYMOUS, -1);
		break;
	case MEMFD:
		p = area_part(a, a->base, len, rw, MAP_SHARED, memfd_create("cohort", MFD_CLOEXEC));
		must(p->fd >= 0, "memfd_create: %s", strerror(errno));
		must_call(ftruncate(p->fd, len));
		break;
	case SYSV:
		add_sysv(a);
		break;
	case MIXED:
		add_mixed(a);
		return quick ? 4 : 8;
	case BORDERS:
		/* begins and ends in the middle of a table */
		a->tables = 3;
		area_part(a, a->base + table_size / 2, 2 * table_size, rw,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1);
		return quick ? 13 : 25;
	case NEAR_THP:
		area_part(a, a->base, 3 * table_size, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		return quick ? 13 : 25;
	case ALONE:
		add_alone(a);
		break;
	case NR_KINDS:
		break;
	}
	return quick ? 8 : 16;
}

static void map_part(struct area *a, struct part *p)
{
	if (a->kind != HEAP && a->kind != SYSV)
		map_at(p->addr, p->len, p->prot, p->flags, p->fd, 0);
	if (a->kind == MEMFD) {
		/* a new memfd holds zeros, so its file tag is 0 */
		close(p->fd);
		p->fd = -1;
	}
	if (a->kind == NEAR_THP) {
		madvise(p->addr + table_size, table_size, MADV_HUGEPAGE);
		madvise(p->addr, table_size, MADV_NOHUGEPAGE);
		madvise(p->addr + 2 * table_size, table_size, MADV_NOHUGEPAGE);
		/* a write first: a read would get the huge page of zeros */
		*(p->addr + table_size) = 1;
		*(p->addr + table_size) = 0;
		/* a huge page has its entry in the PMD table */
		a->tables = huge_mapped(p->addr + table_size) ? 2 : 3;
	} else if (p->fd < 0 && a->kind != HEAP) {
		/* these tests are about base pages */
		madvise(p->addr, p->len, MADV_NOHUGEPAGE);
	}
}

void area_make(struct area *a, enum kind kind)
{
	int n;

	memset(a, 0, sizeof(*a));
	a->kind = kind;
	a->tables = 1;
	a->base = kind == HEAP ? NULL : arena(4);
	n = add_parts(a, kind);
	for (int i = 0; i < a->nparts; i++) {
		map_part(a, &a->part[i]);
		area_spots(a, i, n);
	}
}

void area_unmap(struct area *a)
{
	for (int i = 0; i < a->nparts; i++)
		must_call(munmap(a->part[i].addr, a->part[i].len));
}

long forget_area(long unused, long unused2)
{
	area_unmap(&area);
	return 0;
}

long spots_intact(long area, long unused)
{
	struct area *a = (struct area *)area;

	for (int i = 0; i < a->nspots; i++)
		sees(page_is(a->spot[i].addr, a->spot[i].tag),
		     "spot %d (%s, part %d) is not as the zygote left it", i,
		     kind_name(a->kind), a->spot[i].part);
	return 0;
}

long spots_touch(long area, long unused)
{
	struct area *a = (struct area *)area;

	for (int i = 0; i < a->nspots; i++)
		touch(a->spot[i].addr);
	return 0;
}
