/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of a page size for each region share: asking for one, finding
 * out what a page's size is, and a file on a file system that has large pages.
 */
#ifndef COHORT_SELFTEST_REGION_ORDER_H
#define COHORT_SELFTEST_REGION_ORDER_H

#include "common.h"

#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#ifndef MADV_ORDER
#define MADV_ORDER		0x4f00
#define MADV_ORDER_SHIFT	16
#define MADV_ORDER_WAIT		0x01
#define MADV_ORDER_COPY		0x02
#define MADV_ORDER_NONE		0x80
#define PR_SET_REGION_ORDER	0x434f4803
#define PR_GET_REGION_ORDER	0x434f4804
#define PR_ORDER_HEAP		1
#define PR_ORDER_ANON		2
#define PR_ORDER_FILE		4
#define PR_ORDER_STACK		8
#endif

#define WAIT	MADV_ORDER_WAIT
#define COPY	MADV_ORDER_COPY

static inline int advice(int order, int policy)
{
	return MADV_ORDER | order << MADV_ORDER_SHIFT | policy;
}

static inline int set_order(void *addr, size_t len, int order, int policy)
{
	return madvise(addr, len, advice(order, policy)) ? -errno : 0;
}

/* --- what is mapped ------------------------------------------------------ */

static inline int pmd_order(void)
{
	return __builtin_ctzl(table_size / page_size);
}

#define KPF_HEAD	0x8000ULL
#define KPF_TAIL	0x10000ULL

/* words of a file that has one for each page */
static inline void read_words(const char *path, __u64 first, int n, __u64 *words)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = n * sizeof(*words);

	must(fd >= 0, "%s: %s", path, strerror(errno));
	memset(words, 0, size);
	must(pread(fd, words, size, first * sizeof(*words)) > 0, "%s cannot be read at %llu", path,
	     first);
	close(fd);
}

#define MOST	8192	/* base pages of a large one */

#define ABSENT	-1	/* nothing is mapped */
#define PART	-2	/* some of a large page, or one that is not aligned */

/* The order of the page at an address, if all of it is mapped around there. */
static inline int mapped_order(const char *addr)
{
	__u64 entry = pagemap_entry(0, addr), pfn = entry & PM_PFN, head;
	static __u64 words[MOST + 1];
	unsigned long nr = 1, i;
	const char *start;

	if (!(entry & PM_PRESENT))
		return ABSENT;
	must(pfn, "no right to see the numbers of pages");
	/* large pages are aligned to their size: the head is in this range */
	head = pfn & ~(__u64)(table_size / page_size - 1);
	read_words("/proc/kpageflags", head, pfn - head + 1, words);
	for (i = pfn - head; i && words[i] & KPF_TAIL; i--)
		;
	if (!(words[i] & KPF_HEAD))
		return 0;
	head += i;
	read_words("/proc/kpageflags", head, MOST, words);
	while (nr < MOST && words[nr] & KPF_TAIL)
		nr++;
	must(!(nr & (nr - 1)), "a page of %lu pages", nr);
	addr -= (uintptr_t)addr % page_size;
	start = addr - (pfn - head) * page_size;
	if ((uintptr_t)start % (nr * page_size))
		return PART;
	read_words("/proc/self/pagemap", (uintptr_t)start / page_size, nr, words);
	for (i = 0; i < nr; i++)
		if (!(words[i] & PM_PRESENT) || (words[i] & PM_PFN) != head + i)
			return PART;
	return __builtin_ctzl(nr);
}

/* The line of smaps for the region at an address: "" if there is none. */
static inline void smaps_order(const void *addr, char *line, size_t size)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to;
	char text[256], perms[8];
	bool in = false;

	must(file, "/proc/self/smaps: %s", strerror(errno));
	line[0] = '\0';
	while (fgets(text, sizeof(text), file)) {
		if (sscanf(text, "%lx-%lx %4s", &from, &to, perms) == 3) {
			in = (uintptr_t)addr >= from && (uintptr_t)addr < to;
		} else if (in && !strncmp(text, "Order:", 6)) {
			text[strcspn(text, "\n")] = '\0';
			snprintf(line, size, "%s", text + 6 + strspn(text + 6, " "));
		}
	}
	fclose(file);
}

static inline void must_have(const void *addr, int order, int policy)
{
	char line[64], want[64];

	smaps_order(addr, line, sizeof(line));
	snprintf(want, sizeof(want), "%d%s%s", order, policy & WAIT ? " wait" : "",
		 policy & COPY ? " copy" : "");
	must(!strcmp(line, want), "smaps has order `%s`, not `%s`", line, want);
}

static inline void must_have_none(const void *addr)
{
	char line[64];

	smaps_order(addr, line, sizeof(line));
	must(!line[0], "smaps has order `%s`", line);
}

#define RW	(PROT_READ | PROT_WRITE)
#define ANONYMOUS	(MAP_PRIVATE | MAP_ANONYMOUS)
#define TAG(page)	(7000u + (unsigned int)(page))

static inline void need_orders(void)
{
	/* of no memory at all: what is asked is if the advice is known */
	if (set_order(NULL, 0, 0, 0) == -EINVAL)
		skip("this kernel has no page size for each region");
}

/* --- a file with large pages ---------------------------------------------- */

/* the format of EROFS: fs/erofs/erofs_fs.h */
#define EROFS_BLOCK	4096u
#define EROFS_INODES	36	/* in units of 32 bytes: behind the super block */
#define EROFS_DATA	16	/* in blocks, for pages of up to 64 kB */

struct erofs_super {
	__u32 magic, checksum, feature_compat;
	__u8 blkszbits, sb_extslots;
	__u16 root_nid;
	__u64 inos, build_time;
	__u32 build_time_nsec, blocks, meta_blkaddr, xattr_blkaddr;
};

struct erofs_inode {
	__u16 format, xattr_icount, mode, nlink;
	__u32 size, reserved, blkaddr, ino;
	__u16 uid, gid;
	__u32 reserved2;
};

struct erofs_dirent {
	__u32 nid, nid_high;
	__u16 nameoff;
	__u8 type, reserved;
};

static inline void put(int fd, const void *what, size_t size, off_t at)
{
	must(pwrite(fd, what, size, at) == (ssize_t)size, "image: %s", strerror(errno));
}

/*
 * A file on a file system that has large folios: EROFS, as it needs no program
 * to make one. The file is @pages of FILE_TAG and @more bytes of the next; it is
 * gone when it is closed.
 */
static inline int make_image(size_t pages, size_t more)
{
	size_t size = pages * page_size + more;
	struct erofs_super super = {
		.magic = 0xe0f5e1e2, .blkszbits = 12, .root_nid = EROFS_INODES, .inos = 2,
		.blocks = EROFS_DATA + (size + EROFS_BLOCK - 1) / EROFS_BLOCK,
	};
	struct erofs_inode root = {
		.mode = S_IFDIR | 0755, .nlink = 2, .blkaddr = 1, .ino = 1,
	}, node = {
		.mode = S_IFREG | 0644, .nlink = 1, .size = size, .blkaddr = EROFS_DATA, .ino = 2,
	};
	struct erofs_dirent names[3] = {
		{ EROFS_INODES, 0, sizeof(names), 2 },
		{ EROFS_INODES, 0, sizeof(names) + 1, 2 },
		{ EROFS_INODES + 1, 0, sizeof(names) + 3, 1 },
	};
	static const char text[] = "...data";
	int image = make_file("tmpfs", 0), control, loop, fd, n;
	struct loop_config config = {
		.fd = image,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY,
	};
	char path[64], dir[] = "/tmp/order.XXXXXX";
	char *page;

	root.size = sizeof(names) + strlen(text);
	put(image, &super, sizeof(super), 1024);
	put(image, &root, sizeof(root), EROFS_INODES * 32);
	put(image, &node, sizeof(node), (EROFS_INODES + 1) * 32);
	put(image, names, sizeof(names), EROFS_BLOCK);
	put(image, text, strlen(text), EROFS_BLOCK + sizeof(names));
	page = aligned_alloc(page_size, page_size);
	must(page, "out of memory");
	for (size_t i = 0; i < pages + !!more; i++) {
		page_fill(page, FILE_TAG(i));
		put(image, page, i < pages ? page_size : more,
		    EROFS_DATA * EROFS_BLOCK + i * page_size);
	}
	free(page);
	must_call(ftruncate(image, (off_t)super.blocks * EROFS_BLOCK));

	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		skip("no loop devices");
	/* somebody may take it first */
	for (int i = 0;; i++) {
		n = ioctl(control, LOOP_CTL_GET_FREE);
		must(n >= 0, "LOOP_CTL_GET_FREE: %s", strerror(errno));
		snprintf(path, sizeof(path), "/dev/loop%d", n);
		loop = open(path, O_RDONLY | O_CLOEXEC);
		must(loop >= 0, "%s: %s", path, strerror(errno));
		if (!ioctl(loop, LOOP_CONFIGURE, &config))
			break;
		must(errno == EBUSY && i < 100, "LOOP_CONFIGURE: %s", strerror(errno));
		close(loop);
	}
	must(mkdtemp(dir), "%s: %s", dir, strerror(errno));
	if (mount(path, dir, "erofs", MS_RDONLY, NULL)) {
		int err = errno;

		rmdir(dir);
		if (err == ENODEV)
			skip("no EROFS");
		fail("mount: %s", strerror(err));
	}
	snprintf(path, sizeof(path), "%s/data", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, "%s: %s", path, strerror(errno));
	must_call(umount2(dir, MNT_DETACH));
	rmdir(dir);
	close(loop);
	close(control);
	close(image);
	return fd;
}

#endif
