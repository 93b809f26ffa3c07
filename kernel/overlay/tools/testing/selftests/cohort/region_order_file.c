// SPDX-License-Identifier: GPL-2.0-only
/*
 * A page size for each region of a file, on tmpfs and on EROFS.
 */
#include "region_order/matrix.h"

static void test_file_read(long arg)
{
	long asked, got, fell_back, blocks;
	char name[32];

	map_file(arg, PROT_READ, MAP_SHARED);
	blocks = mem.len / mem.block;
	snprintf(name, sizeof(name), "order_got_%d", mem.order);
	asked = vm_event("order_asked");
	got = vm_event(name);
	fell_back = vm_event("order_fell_back");
	touch_blocks(mem.base, mem.len, mem.order);
	asked = vm_event("order_asked") - asked;
	got = vm_event(name) - got;
	/* fault-around maps up to 64 kB, which is more than a small block */
	if (mem.block < 65536)
		must(asked && asked <= (long)nr_pages(), "vmstat: %ld asked", asked);
	else
		must(asked == blocks, "vmstat: %ld asked, of %ld blocks", asked, blocks);
	must(got == asked, "vmstat: %ld got, of %ld", got, asked);
	must(vm_event("order_fell_back") == fell_back, "vmstat: fell back");
	check_file(mem.base, nr_pages());
	must_map(mem.base, mem.len, mem.order);
}

/*
 * Read backwards without readahead beyond the block, and again after dropping all
 * pages.
 */
static void test_file_random(long arg)
{
	map_file(arg, PROT_READ, MAP_PRIVATE);
	must_call(madvise(mem.base, mem.len, MADV_RANDOM));
	for (size_t off = mem.len; off; off -= mem.block) {
		touch(mem.base + off - 1);
		must_map(mem.base + off - mem.block, mem.block, mem.order);
		if (mem.order && off > mem.block && file_fs == IMAGE) {
			unsigned char there;

			must_call(mincore(mem.base + off - mem.block - page_size, page_size,
					  &there));
			must(!there, "the block before was read as well");
		}
	}
	check_file(mem.base, nr_pages());
	must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
	if (file_fs == IMAGE) {
		drop_cache();
		must_call(madvise(mem.base, mem.len, MADV_SEQUENTIAL));
	}
	touch_blocks(mem.base, mem.len, mem.order);
	check_file(mem.base, nr_pages());
}

/* Write shared memory of tmpfs: one fault per block. */
static void test_file_write(long arg)
{
	static char page[65536];

	map_file(arg, RW, MAP_SHARED);
	for (size_t off = 0; off < mem.len; off += mem.block) {
		mem.base[off + mem.block / 2] = 1;
		must_map(mem.base + off, mem.block, mem.order);
	}
	for (size_t i = 0; i < mem.len; i++)
		sees(mem.base[i] == (i % mem.block == mem.block / 2), "byte %zu is not 0", i);
	fill(0);
	check(0);
	for (size_t i = 0; i < nr_pages(); i++) {
		must(pread(file_fd, page, page_size, i * page_size) == (ssize_t)page_size, "read");
		sees(page_is(page, TAG(i)), "page %zu of the file is not what was written", i);
	}
	must_map(mem.base, mem.len, mem.order);
}

/* Shared memory without a file. */
static void test_shared_anon(long arg)
{
	int err;

	set_mem(arg, 2);
	mem.base = map_at(arena(5), mem.len, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = set_order(mem.base, mem.len, mem.order, mem.policy);
	must(!err, "MADV_ORDER: %s", strerror(-err));
	spawn(1);
	for (size_t off = 0; off < mem.len; off += mem.block) {
		mem.base[off] = 1;
		must_map(mem.base + off, mem.block, mem.order);
	}
	fill(0);
	ask(1, child_check, 0, 0);
	must_map(mem.base, mem.len, mem.order);
}

/* A page in the cache is used as it is, with smaller ones around it. */
static void test_file_late(long arg)
{
	static char page[65536];
	size_t there;

	set_mem(arg, 3);
	there = 3 * (mem.block / page_size) / 2;
	if (file_fs == TMPFS) {
		file_fd = make_file("tmpfs", 0);
		must_call(ftruncate(file_fd, mem.len));
		page_fill(page, FILE_TAG(there));
		put(file_fd, page, page_size, there * page_size);
	} else {
		file_fd = make_image(nr_pages(), 0);
		must_call(posix_fadvise(file_fd, 0, 0, POSIX_FADV_RANDOM));
		must(pread(file_fd, page, page_size, there * page_size) == (ssize_t)page_size,
		     "read: %s", strerror(errno));
	}
	sees(page_is(page, FILE_TAG(there)), "the page read is not the file's");
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	touch(mem.base + mem.block / 2);
	touch(mem.base + mem.block);
	for (size_t i = 0; i < nr_pages(); i++)
		sees(page_is(page_at(i), i == there ? FILE_TAG(i) : file_tag(i)),
		     "page %zu is not the file's", i);
	must(!mapped_order(page_at(there)), "the page that was there is of order %d",
	     mapped_order(page_at(there)));
	must_map(mem.base, mem.block, mem.order);
	must_map(mem.base + 2 * mem.block, mem.block, mem.order);
	must_map_at_most(mem.base + mem.block, mem.block, mem.order ? mem.order - 1 : 0);
	/* a page of half the block fits before it */
	if (mem.order > 2)
		must(mapped_order(mem.base + mem.block) == mem.order - 1,
		     "the first half of the block is of order %d",
		     mapped_order(mem.base + mem.block));
}

/* No large page reaches beyond the end of the file. */
static void test_file_end(long arg)
{
	size_t pages, more = 100;

	set_mem(arg, 2);
	pages = nr_pages() + 3;
	if (file_fs == TMPFS) {
		file_fd = make_file("tmpfs", 0);
		must_call(ftruncate(file_fd, pages * page_size + more));
	} else {
		file_fd = make_image(pages, more);
	}
	map_fd(arena(7), mem.len + 8 * mem.block + 8 * page_size, PROT_READ, MAP_SHARED, 0);
	touch(page_at(pages - 1));
	check_file(mem.base, pages);
	for (size_t i = more; i < page_size; i++)
		sees(!page_at(pages)[i], "byte %zu behind the end is not 0", i);
	sees(probe_read(page_at(pages + 1)) == SIGBUS, "there is a page behind the end");
	must_map(mem.base, mem.len, mem.order);
	must_map_whole(mem.base + mem.len, 4 * page_size, mem.order < 2 ? mem.order : 2);
}

/* Where addresses and file differ in alignment, no large page fits. */
static void test_file_askew(long arg)
{
	set_mem(arg, 2);
	make_mem_file();
	map_fd(arena(7) + page_size, mem.len, PROT_READ, MAP_SHARED, 0);
	check_file(mem.base, nr_pages());
	must_map_whole(mem.base, mem.len, 0);
	must_call(munmap(mem.base, mem.len));
	/* a page of half the block fits where they differ by half a block */
	if (mem.order < 3)
		return;
	if (file_fs == TMPFS)
		must_call(fallocate(file_fd, 3, 0, mem.len));	/* a hole again */
	else
		drop_cache();
	map_fd(arena(7) + mem.block / 2, mem.len, PROT_READ, MAP_SHARED, 0);
	check_file(mem.base, nr_pages());
	for (size_t off = 0; off < mem.len; off += mem.block / 2)
		must(mapped_order(mem.base + off) == mem.order - 1, "offset %zu: order %d", off,
		     mapped_order(mem.base + off));
}

/* Map a part of a file: large pages stay within the region. */
static void test_file_part(long arg)
{
	size_t block, first;

	map_file(arg, PROT_READ, MAP_SHARED);
	must_call(munmap(mem.base, mem.len));
	block = mem.block / page_size;
	first = block - 1;
	map_fd(arena(7) + first * page_size, mem.block + 2 * page_size, PROT_READ, MAP_SHARED,
	       first);
	for (size_t i = 0; i < block + 2; i++)
		sees(page_is(page_at(i), file_tag(first + i)), "page %zu is not the file's", i);
	must_map(mem.base + page_size, mem.block, mem.order);
	must(!mapped_order(mem.base), "before the first whole block: order %d",
	     mapped_order(mem.base));
	must(!mapped_order(page_at(block + 1)), "behind the last whole block: order %d",
	     mapped_order(page_at(block + 1)));
}

static long child_cow(long page, long tag)
{
	page_fill(page_at(page), tag);
	sees(page_is(page_at(page), tag), "page %ld is not what was written", page);
	return 0;
}

/* A private write copies one page; the file and other processes do not see it. */
static void test_file_cow(long arg)
{
	static char page[65536];
	size_t block;

	map_file(arg, RW, MAP_PRIVATE);
	block = mem.block / page_size;
	become_zygote();
	touch_blocks(mem.base, mem.len, mem.order);
	spawn(1);
	for (size_t i = 0; i < nr_pages(); i += block)
		page_fill(page_at(i), TAG(i));
	ask(1, child_cow, nr_pages() - 1, 77);
	for (size_t i = 0; i < nr_pages(); i++) {
		sees(page_is(page_at(i), i % block ? file_tag(i) : TAG(i)),
		     "page %zu is not what it was", i);
		must(pread(file_fd, page, page_size, i * page_size) == (ssize_t)page_size, "read");
		sees(page_is(page, file_tag(i)), "page %zu of the file has changed", i);
	}
	if (mem.order)
		must(!mapped_order(mem.base), "the copy is of order %d", mapped_order(mem.base));
	quit(1);
	/* a write before any read */
	must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
	fill(0);
	check(0);
	must(pread(file_fd, page, page_size, 0) == (ssize_t)page_size, "read");
	sees(page_is(page, file_tag(0)), "the file has changed");
}

static long child_file(long unused, long unused2)
{
	must_have(mem.base, mem.order, mem.policy);
	check_file(mem.base, nr_pages());
	must_map(mem.base, mem.len, mem.order);
	return 0;
}

/* Children see the file and others' writes in pages of the order. */
static void test_file_fork(long arg)
{
	map_file(arg, file_prot(arg), MAP_SHARED);
	become_zygote();
	touch(mem.base);
	spawn(1);
	ask(1, child_file, 0, 0);
	spawn_from(1, 2);
	ask(2, child_file, 0, 0);
	if (file_fs == TMPFS) {
		fill(3);
		ask(1, child_check, 3, 0);
		ask(2, child_check, 3, 0);
	}
	quit(1);
	touch_blocks(mem.base, mem.len, mem.order);
	if (file_fs == TMPFS)
		check(3);
	else
		check_file(mem.base, nr_pages());
}

static void move(char *to, size_t len)
{
	must(mremap(mem.base, mem.len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to, "mremap: %s",
	     strerror(errno));
	mem.base = to;
}

static void test_file_mremap(long arg)
{
	map_file(arg, PROT_READ, MAP_SHARED);
	touch_blocks(mem.base, mem.len, mem.order);
	move(arena(7), mem.len);
	check_file(mem.base, nr_pages());
	must_map(mem.base, mem.len, mem.order);
	must_have(mem.base, mem.order, mem.policy);
	/* by one base page */
	move(arena(7) + page_size, mem.len);
	check_file(mem.base, nr_pages());
	must_have(mem.base, mem.order, mem.policy);
	if (file_fs == IMAGE) {
		must_call(madvise(mem.base, mem.len, MADV_DONTNEED));
		drop_cache();
		check_file(mem.base, nr_pages());
		must_map_at_most(mem.base, mem.len, 0);
	}
	/* and back, beyond the end of the file */
	move(arena(7), 2 * mem.len);
	check_file(mem.base, nr_pages());
	sees(probe_read(mem.base + mem.len) == SIGBUS, "there is a page behind the end");
}

static void test_file_mprotect(long arg)
{
	size_t half;

	map_file(arg, file_prot(arg), MAP_SHARED);
	half = mem.len / 2 + page_size;
	touch(mem.base + mem.len / 2);
	must_call(mprotect(mem.base, half, PROT_NONE));
	sees(probe_read(mem.base) == SIGSEGV, "a read of memory without rights");
	must_have(mem.base, mem.order, mem.policy);
	must_have(mem.base + half, mem.order, mem.policy);
	must_call(mprotect(mem.base, half, PROT_READ));
	sees(probe_write(mem.base) == SIGSEGV, "a write to read-only memory");
	check_file(mem.base, nr_pages());
	must_call(mprotect(mem.base, half, file_prot(arg)));
	must(regions(mem.base, mem.len) == 1, "they do not merge again");
	if (file_fs == TMPFS) {
		fill(5);
		check(5);
	}
	must_map(mem.base, mem.len, mem.order);
}

static void test_file_unmap(long arg)
{
	map_file(arg, PROT_READ, MAP_SHARED);
	touch_blocks(mem.base, mem.len, mem.order);
	unmap_middles(file_tag);
	if (mem.order)
		must_map(mem.base + mem.block, mem.block, mem.order);
}

/* Truncate in the middle of a large page, and extend again. */
static void test_file_truncate(long arg)
{
	size_t cut;

	map_file(arg, RW, MAP_SHARED);
	fill(0);
	must_map(mem.base, mem.len, mem.order);
	cut = nr_pages() - mem.block / page_size / 2 - 1;
	must_call(ftruncate(file_fd, cut * page_size + 100));
	for (size_t i = 0; i < cut; i++)
		sees(page_is(page_at(i), TAG(i)), "page %zu is not what was written", i);
	for (size_t i = 100; i < page_size; i++)
		sees(!page_at(cut)[i], "byte %zu behind the end is not 0", i);
	for (size_t i = cut + 1; i < nr_pages(); i++)
		sees(probe_read(page_at(i)) == SIGBUS, "page %zu is still there", i);
	must_call(ftruncate(file_fd, mem.len));
	for (size_t i = cut + 1; i < nr_pages(); i++)
		sees(page_is(page_at(i), 0), "page %zu is not empty", i);
	fill(10);
	check(10);
	must_map(mem.base, mem.len - mem.block, mem.order);
	/* and a new file in the same place has large pages again */
	must_call(ftruncate(file_fd, 0));
	sees(probe_read(mem.base) == SIGBUS, "an empty file has a page");
	must_call(ftruncate(file_fd, mem.len));
	fill(20);
	check(20);
	must_map(mem.base, mem.len, mem.order);
}

static void punch(size_t page, size_t pages)
{
	/* FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE */
	must(!fallocate(file_fd, 3, page * page_size, pages * page_size), "fallocate: %s",
	     strerror(errno));
}

static void test_file_punch(long arg)
{
	size_t block;

	map_file(arg, RW, MAP_SHARED);
	block = mem.block / page_size;
	fill(0);
	for (size_t i = block / 2; i < nr_pages(); i += block)
		punch(i, 1);
	for (size_t i = 0; i < nr_pages(); i++)
		sees(page_is(page_at(i), i % block == block / 2 ? 0 : TAG(i)),
		     "page %zu is not what it was", i);
	fill(10);
	check(10);
	punch(0, nr_pages());
	for (size_t i = 0; i < nr_pages(); i++)
		sees(page_is(page_at(i), 0), "page %zu is not empty", i);
	must_map_at_most(mem.base, mem.len, mem.order);
	check_file(mem.base, nr_pages());
}

/* Reclaim drops or swaps out pages; their content must come back. */
static void test_file_pressure(long arg)
{
	need_orders();
	need_swap();
	need_cgroup();
	map_file(arg, file_prot(arg), MAP_SHARED);
	if (file_fs == TMPFS)
		fill(0);
	for (int i = 0; i < 3; i++) {
		press();
		if (file_fs == TMPFS)
			check(0);
		else
			check_file(mem.base, nr_pages());
	}
	must_have(mem.base, mem.order, mem.policy);
}

/* A cgroup without room for a block gets smaller pages, and no endless wait. */
static void test_file_limit(long arg)
{
	need_orders();
	/*
	 * map before entering the cgroup: the image's tmpfs pages are charged
	 * elsewhere
	 */
	map_file(arg, file_prot(arg), MAP_SHARED);
	need_cgroup();
	need_swap();
	if (write_text(CGROUP "memory.max", file_fs == TMPFS ? "2M" : "8M"))
		skip("no limit can be set");
	if (file_fs == TMPFS) {
		fill(0);
		check(0);
	} else {
		check_file(mem.base, nr_pages());
	}
	write_text(CGROUP "memory.max", "max");
	check_file(mem.base, file_fs == TMPFS ? 0 : nr_pages());
}

static long child_race(long how, long seconds)
{
	static char page[65536];
	double end = now() + seconds;
	unsigned int seed = how;

	while (now() < end) {
		size_t at = rand_r(&seed) % nr_pages();

		if (file_fs == IMAGE) {
			posix_fadvise(file_fd, at * page_size, 0, POSIX_FADV_DONTNEED);
			madvise(page_at(at), page_size, MADV_DONTNEED);
			sees(page_is(page_at(at), file_tag(at)), "page %zu is not the file's", at);
		} else if (how == 1) {
			must_call(ftruncate(file_fd, at * page_size));
			must_call(ftruncate(file_fd, mem.len));
		} else if (how == 2) {
			punch(at, 1 + rand_r(&seed) % (nr_pages() - at));
		} else {
			page_fill(page, TAG(at));
			put(file_fd, page, page_size, at * page_size);
		}
	}
	return 0;
}

/* Other processes truncate, punch, write and drop while this one reads and writes. */
static void test_file_race(long arg)
{
	int seconds = quick ? 1 : 3;
	unsigned int seed = 9;
	double end;

	map_file(arg, file_prot(arg), MAP_SHARED);
	for (int who = 1; who <= 3; who++)
		spawn(who);
	for (int who = 1; who <= 3; who++)
		tell(who, child_race, who, seconds);
	for (end = now() + seconds; now() < end;) {
		size_t at = rand_r(&seed) % nr_pages();
		static __u64 tagged[65536 / sizeof(__u64)];
		__u64 word;
		int sig;

		page_fill(tagged, file_fs == TMPFS ? TAG(at) : file_tag(at));
		sig = probe_load((__u64 *)page_at(at), &word);
		sees(!sig || (sig == SIGBUS && file_fs == TMPFS), "signal %d", sig);
		/* a write may be half done */
		for (int bits = 0; bits < 64 && !sig; bits += 8) {
			__u64 byte = word & 0xffULL << bits;

			sees(byte == (tagged[0] & 0xffULL << bits) || (file_fs == TMPFS && !byte),
			     "page %zu has %llx", at, word);
		}
		if (rand_r(&seed) % 4 == 0)
			must_call(madvise(page_at(at), page_size, MADV_DONTNEED));
		/* a byte that no check reads */
		if (file_fs == TMPFS)
			probe_write(page_at(at) + page_size - 1);
	}
	for (int who = 1; who <= 3; who++)
		answer(who);
	must_map_at_most(mem.base, mem.len, mem.order);
}

/* The same file in a region with an order, in a smaller one, and in one without. */
static void test_file_others(long arg)
{
	char *large, *none;

	map_file(arg, PROT_READ, MAP_SHARED);
	touch_blocks(mem.base, mem.len, mem.order);
	large = mem.base;
	none = map_at(arena(7), mem.len, PROT_READ, MAP_SHARED, file_fd, 0);
	check_file(none, nr_pages());
	must_have_none(none);
	if (mem.order == pmd_order()) {
		must(huge_mapped(large), "a block is not mapped as one");
		must(huge_mapped(none), "a region without an order does not map it as one");
	}
	mem.order = mem.order > 4 ? 4 : 2;
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	check_file(mem.base, nr_pages());
	must(!huge_mapped(mem.base), "a page larger than the region's is mapped as one");
}

/* A file system without large folios gives base pages, and counts them. */
static void test_file_small(long arg)
{
	long fell_back;

	set_mem(arg, 2);
	file_fd = make_file("disk", nr_pages());
	file_fs = IMAGE;
	must_call(fsync(file_fd));
	drop_cache();
	map_fd(arena(7), mem.len, PROT_READ, MAP_SHARED, 0);
	fell_back = vm_event("order_fell_back");
	check_file(mem.base, nr_pages());
	must(vm_event("order_fell_back") > fell_back, "vmstat: none fell back");
	must_map_at_most(mem.base, mem.len, 0);
}

static void test_file_default(long arg)
{
	int order = ARG_ORDER(arg), policy = ARG_POLICY(arg), what = advice(order, policy);
	char *p;

	set_mem(arg, 2);
	make_mem_file();
	must(!set_default(PR_ORDER_FILE, what), "prctl: %s", strerror(errno));
	must(prctl(PR_GET_REGION_ORDER, PR_ORDER_FILE, 0, 0, 0) == what, "it is not kept");
	p = map_at(arena(1), page_size, RW, ANONYMOUS, -1, 0);
	must_have_none(p);
	p = map_at(arena(1), page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must_have(p, order, policy);
	/* mmap must place it where pages of the order fit */
	for (int i = 0; i < 3; i++) {
		p = mmap(NULL, mem.len, PROT_READ, MAP_PRIVATE, file_fd, 0);
		must(p != MAP_FAILED, "mmap: %s", strerror(errno));
		must(!((uintptr_t)p % mem.block), "mmap placed it at %p", p);
		must_have(p, order, policy);
		must(mmap(NULL, page_size, PROT_READ, MAP_PRIVATE, file_fd, 0) != MAP_FAILED,
		     "mmap: %s", strerror(errno));
	}
	mem.base = map_at(arena(7), mem.len, PROT_READ, MAP_SHARED, file_fd, 0);
	must_have(mem.base, order, policy);
	touch_blocks(mem.base, mem.len, order);
	check_file(mem.base, nr_pages());
	must(!set_default(PR_ORDER_FILE, MADV_ORDER | MADV_ORDER_NONE), "none");
	p = map_at(arena(1), page_size, PROT_READ, MAP_SHARED, file_fd, 0);
	must_have_none(p);
}

static const struct file_question questions[] = {
	{ "A file read in pages of the order", test_file_read, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file read backwards, and again", test_file_random, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A shared file written in pages of the order", test_file_write, ON_TMPFS,
	  .guards = REGION_ORDER },
	{ "Shared memory without a file", test_shared_anon, ON_TMPFS, .guards = REGION_ORDER },
	{ "A page in the cache is used as it is", test_file_late, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "The end of a file", test_file_end, ON_TMPFS | ON_IMAGE, .guards = REGION_ORDER },
	{ "A file that is aligned otherwise than its region", test_file_askew,
	  ON_TMPFS | ON_IMAGE, .guards = REGION_ORDER },
	{ "A part of a file", test_file_part, ON_TMPFS | ON_IMAGE, .guards = REGION_ORDER },
	{ "Private writes to a file", test_file_cow, ON_TMPFS | ON_IMAGE,
	  .guards = INVARIANT(2) | REGION_ORDER },
	{ "A file after forks", test_file_fork, ON_TMPFS | ON_IMAGE,
	  .guards = INVARIANT(6) | REGION_ORDER },
	{ "A file that is moved and grown", test_file_mremap, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file that is protected in part", test_file_mprotect, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "Base pages unmapped out of a file", test_file_unmap, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file truncated under its large pages", test_file_truncate, ON_TMPFS,
	  .guards = REGION_ORDER },
	{ "Holes under a file's large pages", test_file_punch, ON_TMPFS, .guards = REGION_ORDER },
	{ "A file's pages reclaimed", test_file_pressure, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file in a cgroup with little room", test_file_limit, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file read while others change it", test_file_race, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file in regions of several orders", test_file_others, ON_TMPFS | ON_IMAGE,
	  .guards = REGION_ORDER },
	{ "A file system without large pages", test_file_small, ON_IMAGE | ON_DISK,
	  .guards = REGION_ORDER },
	{ "A default for files", test_file_default, ON_TMPFS | ON_IMAGE, .guards = REGION_ORDER },
};

int main(int argc, char **argv)
{
	read_options(argc, argv);
	add_file_questions(questions, ARRAY_SIZE(questions));
	return run_orders(argc, argv);
}
