// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Would a fault in a large page of a file gain from going on as soon as the part
 * that it needs is read? (S. Winwood, Y. Shuf, H. Franke, OLS 2002, section 4.5.)
 *
 *   early-restart [--size SIZE] [--faults N]
 *
 * The kernel reads a large page as a whole and maps it then. What the other way
 * would give is had from above: a program that needs a base page reads it past the
 * page cache (O_DIRECT), goes on when it has it, and another thread of it then
 * faults in the large page around it.
 *
 * A file of --size on EROFS, on a loop device without a page cache of its own, is
 * on the guest's disk. Its blocks of 2 MB are gone through in a scattered order,
 * nothing of them in the page cache. Metrics:
 *
 * - fault-4k, fault-64k, fault-2m: one access in each of --faults blocks, in a
 *   region that asks for pages of this size (with MADV_RANDOM: no more is read)
 * - whole-K and early-K, for K of 1, 32 and 512: of each block K pages are used, from
 *   one in the middle on, and each keeps the program busy for 20 us. `whole` faults
 *   in pages of 2 MB; `early` begins with the base page as above.
 * - small-K: the same in pages of 64 KB.
 * - whole-alone and so on: one page of a block, and then 300 ms in which the disk
 *   has nothing to do.
 * - ready-whole-K and so on: of that, until the first page of a block can be used.
 *
 * All but the faults are means of a block.
 */
#include "../lib/measure.h"

#include <linux/loop.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>


#define IMAGE	"/var/tmp/early-restart.image"
#define LARGE	MB(2)
#define BUSY_NS	20000

/* The format of EROFS: fs/erofs/erofs_fs.h. */
#define BLOCK	4096u
#define INODES	36	/* in units of 32 bytes: behind the super block */
#define DATA	512	/* in blocks: aligned to large pages */

struct super {
	uint32_t magic, checksum, feature_compat;
	uint8_t blkszbits, sb_extslots;
	uint16_t root_nid;
	uint64_t inos, build_time;
	uint32_t build_time_nsec, blocks, meta_blkaddr, xattr_blkaddr;
};

struct inode {
	uint16_t format, xattr_icount, mode, nlink;
	uint32_t size, reserved, blkaddr, ino;
	uint16_t uid, gid;
	uint32_t reserved2;
};

struct dirent_name {
	uint32_t nid, nid_high;
	uint16_t nameoff;
	uint8_t type, reserved;
};

static int file, raw;		/* on EROFS, and the loop device below it */
static size_t size = MB(128);

static void put(int fd, const void *what, size_t len, off_t at)
{
	if (pwrite(fd, what, len, at) != (ssize_t)len)
		die_errno(IMAGE);
}

/* One file that is named data. */
static void make_image(void)
{
	struct super super = {
		.magic = 0xe0f5e1e2, .blkszbits = 12, .root_nid = INODES, .inos = 2,
		.blocks = DATA + size / BLOCK,
	};
	struct inode root = {
		.mode = S_IFDIR | 0755, .nlink = 2, .blkaddr = 1, .ino = 1,
	}, node = {
		.mode = S_IFREG | 0644, .nlink = 1, .size = size, .blkaddr = DATA, .ino = 2,
	};
	struct dirent_name names[3] = {
		{ INODES, 0, sizeof(names), 2 },
		{ INODES, 0, sizeof(names) + 1, 2 },
		{ INODES + 1, 0, sizeof(names) + 3, 1 },
	};
	static const char text[] = "...data";
	int fd = open(IMAGE, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint64_t *words = malloc(LARGE);

	if (fd < 0 || !words)
		die_errno(IMAGE);
	root.size = sizeof(names) + strlen(text);
	put(fd, &super, sizeof(super), 1024);
	put(fd, &root, sizeof(root), INODES * 32);
	put(fd, &node, sizeof(node), (INODES + 1) * 32);
	put(fd, names, sizeof(names), BLOCK);
	put(fd, text, strlen(text), BLOCK + sizeof(names));
	for (size_t at = 0; at < size; at += LARGE) {
		/* each page begins with its own place */
		for (size_t i = 0; i < LARGE / sizeof(*words); i++)
			words[i] = at + i * sizeof(*words);
		put(fd, words, LARGE, (off_t)DATA * BLOCK + at);
	}
	free(words);
	if (fsync(fd))
		die_errno("fsync");
	close(fd);
}

static void mount_image(void)
{
	struct loop_config config = {
		.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY | LO_FLAGS_DIRECT_IO,
	};
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	char path[64];
	int image, loop, n;

	if (control < 0)
		die_errno("/dev/loop-control");
	n = ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(path, sizeof(path), "/dev/loop%d", n);
	image = open(IMAGE, O_RDONLY | O_CLOEXEC);
	config.fd = image;
	loop = open(path, O_RDONLY | O_CLOEXEC);
	if (image < 0 || loop < 0 || ioctl(loop, LOOP_CONFIGURE, &config))
		die_errno(path);
	mkdir("/mnt", 0755);
	if (mount(path, "/mnt", "erofs", MS_RDONLY, NULL))
		die_errno("mount of EROFS");
	raw = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	file = open("/mnt/data", O_RDONLY | O_CLOEXEC);
	if (raw < 0 || file < 0)
		die_errno("/mnt/data");
	close(image);
	close(loop);
	close(control);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void drop_cache(void)
{
	if (posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		die("the page cache of the file cannot be dropped");
}

static char *map_file(int order)
{
	char *p;

	drop_cache();
	p = map_own_tables(size, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
	if (mmap(p, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) != p)
		die_errno("mmap of the file");
	if (madvise(p, size, MADV_RANDOM) ||
	    madvise(p, size, MADV_ORDER | order << MADV_ORDER_SHIFT))
		die_errno("madvise");
	return p;
}

/* Where the I-th block that is gone to is: neighbours are far apart. */
static size_t scattered(size_t i)
{
	return i * 37 % (size / LARGE) * LARGE;
}

static void use(const char *at, size_t offset)
{
	uint64_t start = now_ns();

	if (*(volatile const uint64_t *)at != offset)
		die("the page at %zu is another one", offset);
	while (now_ns() - start < BUSY_NS)
		;
}

/* Pages of a block are used from one in the middle on, and go round. */
static size_t nth_page(size_t i)
{
	return (LARGE / PAGE / 2 + 3 + i) % (LARGE / PAGE) * PAGE;
}

/* --- the thread that brings the rest ---------------------------------------- */

#define MOST	4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static const char *wanted[MOST];	/* in the order in which they were asked for */
static size_t nr_wanted, nr_brought;

static void *bring(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	for (;;) {
		const char *at;

		while (nr_wanted == nr_brought)
			pthread_cond_wait(&wake, &lock);
		at = wanted[nr_brought];
		pthread_mutex_unlock(&lock);
		*(volatile const char *)at;
		pthread_mutex_lock(&lock);
		nr_brought++;
		pthread_cond_broadcast(&wake);
	}
	return NULL;
}

static void want(const char *at)
{
	pthread_mutex_lock(&lock);
	if (nr_wanted == MOST)
		die("more blocks than were foreseen");
	wanted[nr_wanted++] = at;
	pthread_cond_broadcast(&wake);
	pthread_mutex_unlock(&lock);
}

static void all_brought(void)
{
	pthread_mutex_lock(&lock);
	while (nr_brought < nr_wanted)
		pthread_cond_wait(&wake, &lock);
	pthread_mutex_unlock(&lock);
}

/* --- what is measured --------------------------------------------------------- */

static void faults(const char *name, int order, size_t count)
{
	const char *p = map_file(order);

	for (size_t i = 0; i < count; i++) {
		const char *at = p + scattered(i) + nth_page(0);
		uint64_t start = now_ns();

		if (*(volatile const uint64_t *)at != (uint64_t)(at - p))
			die("the page at %zu is another one", (size_t)(at - p));
		metric(name, (now_ns() - start) / 1000, "us");
	}
	munmap((void *)p, size);
}

static void work(const char *how, int order, bool early, size_t used, size_t count,
		 const char *where, long pause)
{
	static char page[PAGE] __attribute__((aligned(4096)));
	const char *p = map_file(order);
	uint64_t begin = now_ns(), ready = 0;
	char name[32];

	for (size_t i = 0; i < count; i++) {
		size_t block = scattered(i);
		uint64_t start = now_ns();

		for (size_t k = 0; k < used; k++) {
			size_t offset = block + nth_page(k);
			const char *at;

			if (!k && early) {
				if (pread(raw, page, PAGE, (off_t)DATA * BLOCK + offset) != PAGE)
					die_errno("reading past the page cache");
				want(p + offset);
			}
			at = !k && early ? page : p + offset;
			if (!k) {
				*(volatile const char *)at;
				ready += now_ns() - start;
			}
			use(at, offset);
		}
		/* the program has something else to do, and the disk nothing */
		if (pause)
			usleep(pause * 1000);
	}
	/* what has been begun belongs to it */
	all_brought();
	snprintf(name, sizeof(name), "%s-%s", how, where);
	metric(name, (now_ns() - begin) / 1000 / count, "us");
	snprintf(name, sizeof(name), "ready-%s-%s", how, where);
	metric(name, ready / 1000 / count, "us");
	munmap((void *)p, size);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		size_t used;
		long pause;
	} uses[] = { { "1", 1, 0 }, { "32", 32, 0 }, { "512", 512, 0 }, { "alone", 1, 300 } };
	size_t count = 16;
	pthread_t helper;

	for (int i = 1; i < argc; i++) {
		if (i + 1 == argc)
			die("%s: no value", argv[i]);
		if (!strcmp(argv[i], "--size"))
			size = parse_size(argv[++i]);
		else if (!strcmp(argv[i], "--faults"))
			count = parse_size(argv[++i]);
		else
			die("%s: unknown option", argv[i]);
	}
	if (size % LARGE || !(size / LARGE % 37) || count > size / LARGE)
		die("--size must be blocks of 2 MB, no multiple of 37 of them, and --faults of them");
	make_image();
	mount_image();
	if (pthread_create(&helper, NULL, bring, NULL))
		die("no thread");

	/* what the disk may read at once after a pause is gone after this */
	faults("warm-up", 9, size / LARGE);
	faults("fault-2m", 9, count);
	faults("fault-64k", 4, count);
	faults("fault-4k", 0, count);
	for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
		const char *name = uses[i].name;

		faults("warm-up", 9, 8);
		work("whole", 9, false, uses[i].used, count, name, uses[i].pause);
		work("early", 9, true, uses[i].used, count, name, uses[i].pause);
		work("small", 4, false, uses[i].used, count, name, uses[i].pause);
	}
	return 0;
}
