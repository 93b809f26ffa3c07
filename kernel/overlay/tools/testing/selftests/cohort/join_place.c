// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where programs and libraries lie in the processes of a group with `places`: what a
 * process writes of them begins at 2 MB, and the group has a place for each.
 */
#include "join/join.h"
#include "join/label.h"
#include "../../../../include/uapi/linux/region_order.h"

#include <linux/elf.h>
#include <sched.h>
#include <sys/mount.h>

#define BOUNDARY	(2UL << 20)
#define CODE_BYTES	(3UL << 19)	/* before what is written */
#define IMAGE_BYTES	(7UL << 18)
#define MAX_FILES	4
#define RUNS		8
#define MAX_PLACES	1024		/* of a group */

/* what a program that maps images has found */
static struct report {
	unsigned long place[MAX_FILES];
	long shared;		/* tables that it shares now, and did not before */
} *report;

/* the images that each peer's program maps, in this order */
static char paths[3][MAX_FILES][80];
static int nr_paths[3];

/* --- images ---------------------------------------------------------------- */

struct headers {
	struct elf64_hdr elf;
	struct elf64_phdr header[3];
};

static struct elf64_phdr segment(unsigned long start, unsigned long bytes, unsigned int flags)
{
	return (struct elf64_phdr){
		.p_type = PT_LOAD,
		.p_flags = flags,
		.p_offset = start,
		.p_vaddr = start,
		.p_filesz = bytes,
		.p_memsz = bytes,
		.p_align = page_size,
	};
}

/* a library of so many bytes, of which so many are never written */
static struct headers headers_of(unsigned long bytes, unsigned long before)
{
	const int one = 1;
	struct headers h = {
		.elf = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
				     *(const char *)&one ? ELFDATA2LSB : ELFDATA2MSB,
				     EV_CURRENT },
			.e_type = ET_DYN,
			.e_phoff = offsetof(struct headers, header),
			.e_phentsize = sizeof(struct elf64_phdr),
			.e_phnum = 3,
		},
		.header = {
			segment(0, page_size, PF_R),
			segment(page_size, before - page_size, PF_R | PF_X),
			segment(before, bytes - before, PF_R | PF_W),
		},
	};

	return h;
}

static void put_headers(int fd, const struct headers *h)
{
	must(pwrite(fd, h, sizeof(*h), 0) == sizeof(*h), "headers: %s", strerror(errno));
}

static int make_image(const char *fs, unsigned long bytes, unsigned long before)
{
	struct headers h = headers_of(bytes, before);
	int fd = make_file(fs, bytes / page_size);

	put_headers(fd, &h);
	return fd;
}

/* let a peer's program map a file next */
static void map_fd(int who, int fd)
{
	snprintf(paths[who][nr_paths[who]++], sizeof(paths[0][0]), "/proc/self/fd/%d", dup(fd));
}

/* --- the program that maps them -------------------------------------------- */

#define PROGRAM		"--images"
#define STAY		1
#define IN_CHILD	2	/* the last of them is mapped after a fork */
#define WRITE		4	/* what a process writes of each is written */
#define ORDER		8	/* large pages are asked for, for files */

static unsigned long map_image(const char *path, long how)
{
	struct stat st;
	int fd = open(path, O_RDONLY);
	char *p = MAP_FAILED, *data;

	if (fd >= 0 && !fstat(fd, &st))
		p = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return 0;
	if (how & WRITE) {
		data = mmap(p + CODE_BYTES, st.st_size - CODE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_FIXED, fd, CODE_BYTES);
		if (data == MAP_FAILED)
			return 0;
		*data = 1;
	}
	/* page 0 has the headers */
	for (off_t i = 1; i < st.st_size / (off_t)page_size; i++)
		if (!(how & WRITE && i == CODE_BYTES / page_size) &&
		    !page_is(p + i * page_size, FILE_TAG(i)))
			return 0;
	close(fd);
	return (unsigned long)p;
}

/* maps the files that are named behind HOW, and says where they are to a pipe */
static int program(int argc, char **argv)
{
	int how = atoi(argv[2]), to = atoi(argv[3]);
	struct report r = { .shared = -1 };
	pid_t child = 0;

	page_size = sysconf(_SC_PAGESIZE);
	table_size = page_size * (page_size / 8);
	r.shared = shared_tables(0);
	if (how & ORDER && prctl(PR_SET_REGION_ORDER, PR_ORDER_FILE,
				 MADV_ORDER | 4 << MADV_ORDER_SHIFT, 0, 0))
		return 1;
	for (int i = 4; i < argc; i++) {
		if (i == argc - 1 && how & IN_CHILD) {
			child = fork();
			if (child) {
				waitpid(child, NULL, 0);
				return 0;
			}
		}
		r.place[i - 4] = map_image(argv[i], how);
	}
	r.shared = shared_tables(0) - r.shared;
	if (write(to, &r, sizeof(r)) != sizeof(r))
		return 1;
	while (how & STAY)
		usleep(1000);
	return 0;
}

/* for peers: start the program with one's images; returns its number */
static long start_images(long who, long how)
{
	char *argv[MAX_FILES + 5] = { "join", PROGRAM, NULL, NULL }, text[16];
	pid_t pid;

	snprintf(text, sizeof(text), "%ld", how);
	argv[2] = text;
	for (int i = 0; i < nr_paths[who]; i++)
		argv[4 + i] = paths[who][i];
	must(start_self(argv, 0, &report[who], sizeof(*report), &pid),
	     "the program says nothing");
	if (!(how & STAY))
		waitpid(pid, NULL, 0);
	for (int i = 0; i < nr_paths[who]; i++)
		must(report[who].place[i], "the program cannot map image %d", i);
	return pid;
}

static void start_labelled(const char *dir, const char *words)
{
	/* The cases are about 2 MB, as the kernel's code is. */
	if (!joining() || table_size != BOUNDARY)
		skip("this kernel has no places");
	need_groups();
	label(dir, words);
	report = mmap(NULL, 3 * sizeof(*report), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(report != MAP_FAILED, "mmap: %s", strerror(errno));
}

static void need_places(void)
{
	if (sizeof(long) < 8)
		skip("programs of 32 bits have no places");
}

static void start_members(const char *words)
{
	need_places();
	start_labelled(groups[0], words);
}

/* after the files have been made, as peers inherit them */
static void spawn_members(int members)
{
	spawn_all(2);
	for (int i = 1; i <= members; i++)
		must(!ask(i, enter, 0, 0), "cannot enter a cgroup");
}

static void end_members(void)
{
	quit(1);
	quit(2);
	drop_groups();
}

static unsigned long in_table(unsigned long addr)
{
	return addr % BOUNDARY;
}

/* --- the boundary ---------------------------------------------------------- */

/* does what is written begin at 2 MB, in each of some runs? */
static bool has_boundary_in(int who, unsigned long before, long how)
{
	int found = 0;

	for (int i = 0; i < RUNS; i++) {
		ask(who, start_images, who, how);
		found += !in_table(report[who].place[0] + before);
	}
	return found == RUNS;
}

static bool has_boundary(int who, unsigned long before)
{
	return has_boundary_in(who, before, 0);
}

static bool is_congruent(int who)
{
	return has_boundary(who, 0);
}

static void test_boundary(long fs)
{
	bool member, stranger;

	start_members("web places");
	map_fd(1, make_image((const char *)fs, IMAGE_BYTES, CODE_BYTES));
	memcpy(paths[2], paths[1], sizeof(paths[1]));
	nr_paths[2] = nr_paths[1];
	spawn_members(1);
	member = has_boundary(1, CODE_BYTES);
	stranger = has_boundary(2, CODE_BYTES);
	end_members();
	must(member, "what is written does not begin at 2 MB");
	must(!stranger, "nor is it left where it is in a program without a group");
}

/* who has asked for large pages of files gets places for these */
static void test_order(long arg)
{
	bool boundary, congruent;

	start_members("web places");
	map_fd(1, make_image("tmpfs", IMAGE_BYTES, CODE_BYTES));
	spawn_members(1);
	boundary = has_boundary_in(1, CODE_BYTES, ORDER);
	congruent = has_boundary_in(1, 0, ORDER);
	end_members();
	must(!boundary && !congruent, "a group's place overrides the order");
}

/* without `places` an image lies as any file does */
static void test_without(long arg)
{
	bool congruent;

	start_members("web");
	map_fd(1, make_image("tmpfs", IMAGE_BYTES, CODE_BYTES));
	spawn_members(1);
	congruent = is_congruent(1);
	end_members();
	must(congruent, "it does not lie as other files do");
}

/* two programs share the code of an image, though they write its data */
static void test_code(long boundary)
{
	long held;

	start_members(boundary ? "web places" : "web aslr=process");
	map_fd(1, make_image("tmpfs", IMAGE_BYTES, CODE_BYTES));
	memcpy(paths[2], paths[1], sizeof(paths[1]));
	nr_paths[2] = nr_paths[1];
	spawn_members(2);
	held = ask(1, start_images, 1, STAY | WRITE);
	ask(2, start_images, 2, WRITE);
	ask(1, end_program, held, 0);
	end_members();
	if (boundary)
		must(report[2].shared == 1, "%ld tables of an image are shared",
		     report[2].shared);
	else
		must(report[2].shared <= 1, "%ld tables are shared", report[2].shared);
}

enum odd {
	NOT_ELF, OTHER_CLASS, OTHER_ORDER, NO_LIBRARY, OTHER_SIZE, NO_HEADERS,
	MANY_HEADERS, FAR_HEADERS, LAST_BYTES, NO_SEGMENT, FIRST_LATER, BACKWARDS, OVERFLOW,
	HUGE_SEGMENT, FILE_LARGER, ODD_ALIGN, HUGE_ALIGN, NOT_CACHED,
	/* not odd, but without a boundary */
	SMALL, ALL_WRITTEN, NONE_WRITTEN
};

static void spoil(struct headers *h, enum odd odd)
{
	struct elf64_phdr *last = &h->header[2];

	switch (odd) {
	case NOT_ELF:
		h->elf.e_ident[0] = 0;
		break;
	case OTHER_CLASS:
		h->elf.e_ident[EI_CLASS] = ELFCLASS32;
		break;
	case OTHER_ORDER:
		h->elf.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
		break;
	case NO_LIBRARY:
		h->elf.e_type = ET_CORE;
		break;
	case OTHER_SIZE:
		h->elf.e_phentsize = sizeof(struct elf32_phdr);
		break;
	case NO_HEADERS:
		h->elf.e_phnum = 0;
		break;
	case MANY_HEADERS:
		h->elf.e_phnum = 0xffff;
		break;
	case FAR_HEADERS:
		h->elf.e_phoff = -8UL;
		break;
	case LAST_BYTES:
		h->elf.e_phoff = page_size - 2 * sizeof(struct elf64_phdr);
		break;
	case NO_SEGMENT:
		for (int i = 0; i < 3; i++)
			h->header[i].p_type = PT_NOTE;
		break;
	case FIRST_LATER:
		h->header[0].p_offset = page_size;
		break;
	case BACKWARDS:
		last->p_vaddr = 0;
		break;
	case OVERFLOW:
		last->p_vaddr = -page_size;
		last->p_memsz = 2 * page_size;
		break;
	case HUGE_SEGMENT:
		last->p_memsz = -1UL;
		break;
	case FILE_LARGER:
		last->p_filesz = last->p_memsz + 1;
		break;
	case ODD_ALIGN:
		last->p_align = 3 * page_size;
		break;
	case HUGE_ALIGN:
		last->p_align = ~(~0UL >> 1);
		break;
	case ALL_WRITTEN:
		h->header[0].p_flags |= PF_W;
		break;
	case NONE_WRITTEN:
		last->p_flags &= ~PF_W;
		break;
	default:
		break;
	}
}

static bool cached(int fd)
{
	unsigned char first = 0;
	char *p = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, 0);

	must(p != MAP_FAILED, "mmap: %s", strerror(errno));
	must_call(mincore(p, page_size, &first));
	munmap(p, page_size);
	return first & 1;
}

/* an image with odd headers lies as any file does */
static void test_odd(long odd)
{
	struct headers h = headers_of(IMAGE_BYTES, CODE_BYTES);
	bool congruent, boundary = false;
	int fd;

	start_members("web places");
	fd = make_image(odd == NOT_CACHED ? "disk" : "tmpfs", IMAGE_BYTES, CODE_BYTES);
	spoil(&h, odd);
	put_headers(fd, &h);
	map_fd(1, fd);
	if (odd == NOT_CACHED) {
		must_call(fsync(fd));
		must_call(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
		if (cached(fd)) {
			drop_groups();
			skip("the file stays in memory");
		}
	}
	spawn_members(1);
	if (odd == NOT_CACHED) {
		/* once: then it is in memory */
		ask(1, start_images, 1, 0);
		congruent = !in_table(report[1].place[0]);
		boundary = has_boundary(1, CODE_BYTES);
	} else {
		congruent = is_congruent(1);
	}
	end_members();
	must(congruent, "it does not lie as other files do");
	must(odd != NOT_CACHED || boundary, "nor in another way once it is in memory");
}

/* An image without a boundary lies among the others: alike in each run, if it is the first. */
static void test_plain(long how)
{
	unsigned long before = how == SMALL ? BOUNDARY / 4 : CODE_BYTES, first = 0;
	struct headers h = headers_of(IMAGE_BYTES, before);
	int fd, alike = 0;

	start_members("web places");
	fd = make_image("tmpfs", IMAGE_BYTES, before);
	spoil(&h, how);
	put_headers(fd, &h);
	map_fd(1, fd);
	spawn_members(1);
	for (int i = 0; i < RUNS; i++) {
		ask(1, start_images, 1, 0);
		if (!i)
			first = report[1].place[0];
		alike += in_table(report[1].place[0]) == in_table(first);
	}
	end_members();
	must(alike == RUNS, "%d of %d runs have it at another offset", RUNS - alike, RUNS);
}

/* two mounts of one lower directory have files of their own for one file */
static long mount_overlay(long i, long unused)
{
	char at[16], options[160];
	struct headers h = headers_of(IMAGE_BYTES, CODE_BYTES);
	int fd;

	if (!i) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", "/mnt", "tmpfs", 0, NULL))
			return -errno;
		must_call(mkdir("/mnt/lower", 0755));
		fd = open("/mnt/lower/image", O_RDWR | O_CREAT, 0644);
		for (size_t n = 0; n < IMAGE_BYTES / page_size; n++) {
			static char page[65536];

			page_fill(page, FILE_TAG(n));
			must(write(fd, page, page_size) == (ssize_t)page_size, "write");
		}
		put_headers(fd, &h);
		close(fd);
	}
	snprintf(at, sizeof(at), "/mnt/%ld", i);
	must_call(mkdir(at, 0755));
	for (const char *const *dir = (const char *const[]){ "up", "work", "all", NULL }; *dir;
	     dir++) {
		snprintf(options, sizeof(options), "%s/%s", at, *dir);
		must_call(mkdir(options, 0755));
	}
	snprintf(options, sizeof(options), "lowerdir=/mnt/lower,upperdir=%s/up,workdir=%s/work",
		 at, at);
	strcat(at, "/all");
	return mount("none", at, "overlay", 0, options) ? -errno : 0;
}

static void test_overlay(long arg)
{
	long ret, held;

	start_members("web places");
	for (int i = 1; i <= 2; i++)
		snprintf(paths[i][nr_paths[i]++], sizeof(paths[0][0]), "/mnt/%d/all/image", i - 1);
	/* in this process, so that both peers have the mounts */
	ret = mount_overlay(0, 0);
	if (!ret)
		ret = mount_overlay(1, 0);
	if (ret) {
		drop_groups();
		skip("no overlayfs: %s", strerror(-ret));
	}
	spawn_members(2);
	held = ask(1, start_images, 1, STAY | WRITE);
	ask(2, start_images, 2, WRITE);
	ask(1, end_program, held, 0);
	end_members();
	for (int i = 1; i <= 2; i++)
		must(!in_table(report[i].place[0] + CODE_BYTES),
		     "what is written does not begin at 2 MB");
	must(report[2].shared == 1, "%ld tables of one lower file are shared", report[2].shared);
}

/* --- places ---------------------------------------------------------------- */

/* how far two images are from each other */
static long distance(int who, int a, int b)
{
	return report[who].place[b] - report[who].place[a];
}

enum { BOTH_STAY, FIRST_ENDS, FORKED, STRANGER };

/* Do two programs that map the same images have them at the same distance? */
static void test_places(long how)
{
	long held, other, first, second;
	int fds[3];

	start_members("web places");
	fds[0] = make_image("tmpfs", IMAGE_BYTES, CODE_BYTES);
	fds[1] = make_image("tmpfs", 64 * page_size, 16 * page_size);
	fds[2] = make_image("tmpfs", 2 * IMAGE_BYTES, CODE_BYTES);
	for (int i = 0; i < 3; i++) {
		map_fd(1, fds[i]);
		map_fd(2, fds[2 - i]);
	}
	spawn_members(how == STRANGER ? 1 : 2);
	held = ask(1, start_images, 1, STAY);
	first = distance(1, 0, 2);
	must(!in_table(report[1].place[0] + CODE_BYTES) &&
	     !in_table(report[1].place[2] + CODE_BYTES),
	     "what is written does not begin at 2 MB");
	if (how == FIRST_ENDS) {
		/* the group stays: somebody else is in it */
		other = ask(2, start_images, 2, STAY);
		ask(1, end_program, held, 0);
		held = ask(1, start_images, 1, STAY);
		ask(2, end_program, other, 0);
		must(distance(1, 0, 2) == first, "another distance in a later program");
	} else {
		ask(2, start_images, 2, how == FORKED ? IN_CHILD : 0);
	}
	ask(1, end_program, held, 0);
	end_members();
	second = distance(2, 2, 0);
	if (how == STRANGER) {
		must(first != second, "it has a group's places");
		return;
	}
	must(first == second, "they are %ld and %ld bytes apart", first, second);
	must(distance(1, 0, 1) == distance(2, 2, 1), "a small image has another place");
	must(report[1].place[0] != report[2].place[2], "the same address in two programs");
}

#define MANY	"--many"

/* maps more images than a group has places; says how many follow each other */
static int many(char **argv)
{
	unsigned long bytes = 4 * getpagesize(), at, next = 0;
	struct report r = { .shared = 0 };
	struct headers h;
	char *p;
	int fd;

	page_size = getpagesize();
	h = headers_of(bytes, bytes / 2);
	for (int i = 0; i < MAX_PLACES + 16; i++) {
		fd = open("/dev/shm", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
		if (fd < 0 || ftruncate(fd, bytes) || pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
			return 1;
		p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		if (p == MAP_FAILED || memcmp(p, &h, sizeof(h)))
			return 1;
		close(fd);
		at = (unsigned long)p;
		r.shared += !next || at == next;
		next = at + bytes;
	}
	return write(atoi(argv[3]), &r, sizeof(r)) != sizeof(r);
}

static long start_many(long who, long unused)
{
	char *argv[] = { "join", MANY, "", NULL, NULL };
	int status;
	pid_t pid;

	must(start_self(argv, 0, &report[who], sizeof(*report), &pid),
	     "the program says nothing");
	must(waitpid(pid, &status, 0) == pid && !status, "status %x", status);
	return 0;
}

static void test_limit(long arg)
{
	start_members("web places");
	spawn_members(1);
	ask(1, start_many, 1, 0);
	end_members();
	must(report[1].shared == MAX_PLACES, "%ld images have a place", report[1].shared);
}

/* kernel memory of the members' cgroup */
static long kernel_memory(void)
{
	return cgroup_number(groups[0], "memory.stat", "slab_unreclaimable");
}

/* Whose mmap() makes places pays for them, until the last member ends. */
static void test_charge(long arg)
{
	const long least = 64 * MAX_PLACES;
	long held, before, after, left;

	need_places();
	start_labelled(group, "web places");
	map_fd(1, make_image("tmpfs", IMAGE_BYTES, CODE_BYTES));
	spawn_members(1);
	/* the group stays while somebody is in it */
	held = ask(1, start_images, 1, STAY);
	before = kernel_memory();
	ask(1, start_many, 1, 0);
	after = kernel_memory();
	ask(1, end_program, held, 0);
	quit(1);
	quit(2);
	/* Wait long: after few changes memory.stat is stale for 2 s or more. */
	for (int i = 0; i < 500; i++) {
		left = kernel_memory();
		if (left - before < least / 2)
			break;
		usleep(20000);
	}
	drop_groups();
	must(after - before >= least, "the member's cgroup pays %ld bytes for %d places",
	     after - before, MAX_PLACES);
	must(left - before < least / 2, "%ld bytes are left when nobody is", left - before);
}

static const struct test_case cases[] = {
	{ "what is written of an image begins at 2 MB", test_boundary, (long)"tmpfs",
	  .guards = POLICY },
	{ "and on a disk", test_boundary, (long)"disk", .guards = POLICY },
	{ "an image in a process that has asked for large pages of files", test_order,
	  .guards = POLICY },
	{ "an image in a group without places", test_without, .guards = POLICY },
	{ "code of an image is shared, its data is not", test_code, true,
	  .guards = INVARIANT(1) | INVARIANT(6) },
	{ "code and data of an image as they lie", test_code, false,
	  .guards = INVARIANT(1) | INVARIANT(6) },
	{ "mounts of one lower directory", test_overlay, .guards = POLICY },
	{ "less than 1 MB of code", test_plain, SMALL, .guards = POLICY },
	{ "no image", test_odd, NOT_ELF, .guards = POLICY },
	{ "an image for 32 bits", test_odd, OTHER_CLASS, .guards = POLICY },
	{ "an image in another byte order", test_odd, OTHER_ORDER, .guards = POLICY },
	{ "an image of another type", test_odd, NO_LIBRARY, .guards = POLICY },
	{ "headers of another size", test_odd, OTHER_SIZE, .guards = POLICY },
	{ "no headers", test_odd, NO_HEADERS, .guards = POLICY },
	{ "more headers than a page has room for", test_odd, MANY_HEADERS, .guards = POLICY },
	{ "headers far away", test_odd, FAR_HEADERS, .guards = POLICY },
	{ "headers that begin in the first page", test_odd, LAST_BYTES, .guards = POLICY },
	{ "no segment", test_odd, NO_SEGMENT, .guards = POLICY },
	{ "the first segment is not the file's start", test_odd, FIRST_LATER,
	  .guards = POLICY },
	{ "segments in another order", test_odd, BACKWARDS, .guards = POLICY },
	{ "a segment that ends beyond all addresses", test_odd, OVERFLOW, .guards = POLICY },
	{ "a segment of all addresses", test_odd, HUGE_SEGMENT, .guards = POLICY },
	{ "a segment with more in the file than in memory", test_odd, FILE_LARGER,
	  .guards = POLICY },
	{ "an alignment that is no power of two", test_odd, ODD_ALIGN, .guards = POLICY },
	{ "an alignment of half of all addresses", test_odd, HUGE_ALIGN, .guards = POLICY },
	{ "an image that is written from its start on", test_plain, ALL_WRITTEN,
	  .guards = POLICY },
	{ "an image that nobody writes", test_plain, NONE_WRITTEN, .guards = POLICY },
	{ "an image that is not in memory", test_odd, NOT_CACHED, .guards = INVARIANT(8) },
	{ "two members have images at one distance", test_places, BOTH_STAY,
	  .guards = POLICY },
	{ "places stay when their first user ends", test_places, FIRST_ENDS,
	  .guards = POLICY },
	{ "a child has the places of its parent's group", test_places, FORKED,
	  .guards = POLICY },
	{ "a program without a group has no places", test_places, STRANGER,
	  .guards = PRIVILEGE },
	{ "more images than a group has places", test_limit, .guards = INVARIANT(13) },
	{ "the cgroup of the member that makes places pays for them", test_charge,
	  .guards = INVARIANT(14) },
};

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], PROGRAM))
		return program(argc, argv);
	if (argc == 4 && !strcmp(argv[1], MANY))
		return many(argv);
	return join_main(argc, argv, "group", cases, ARRAY_SIZE(cases));
}
