// SPDX-License-Identifier: GPL-2.0-only
/* The memory of a case, and the switches of the machine. */
#include "mem.h"

#include <dirent.h>

/* --- the switches of the machine ----------------------------------------- */

static char unevictable[8] = "1";

#define MAX_SWITCHES	16
static char switch_path[MAX_SWITCHES][128];
static char switch_was[MAX_SWITCHES][16];
static int nr_switches;

static void add_switch(const char *path)
{
	char text[64], *from, *to;

	if (nr_switches == MAX_SWITCHES || read_text(path, text, sizeof(text)) <= 0)
		return;
	from = strchr(text, '[');
	to = from ? strchr(from, ']') : NULL;
	if (!to)
		return;
	*to = '\0';
	snprintf(switch_path[nr_switches], sizeof(switch_path[0]), "%s", path);
	snprintf(switch_was[nr_switches], sizeof(switch_was[0]), "%s", from + 1);
	nr_switches++;
}

static void find_switches(void)
{
	struct dirent *entry;
	char path[128];
	DIR *dir = opendir(THP);

	add_switch(THP "enabled");
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "hugepages-", 10)) {
			snprintf(path, sizeof(path), THP "%.64s/enabled", entry->d_name);
			add_switch(path);
		}
	if (dir)
		closedir(dir);
}

void switch_all(const char *to)
{
	for (int i = 0; i < nr_switches; i++)
		write_text(switch_path[i], to);
}

static void switch_off(void)
{
	switch_all("never");
}

/* Reset what a case changed, however it ended. */
static void after_case(void)
{
	switch_off();
	write_text(UNEVICTABLE, unevictable);
}

static void restore_switches(void)
{
	for (int i = 0; i < nr_switches; i++)
		write_text(switch_path[i], switch_was[i]);
}

void keep_switches(void)
{
	find_switches();
	read_text(UNEVICTABLE, unevictable, sizeof(unevictable));
	switch_off();
	atexit(restore_switches);
	after_each_case = after_case;
}

/* --- what is mapped ------------------------------------------------------ */

/* Count the regions in a range. */
int regions(const char *addr, size_t len)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	char text[512];
	int n = 0;

	must(file, "/proc/self/maps: %s", strerror(errno));
	while (fgets(text, sizeof(text), file))
		if (sscanf(text, "%lx-%lx", &from, &to) == 2 && to > (uintptr_t)addr &&
		    from < (uintptr_t)addr + len)
			n++;
	fclose(file);
	return n;
}

/* --- the memory of a case ------------------------------------------------ */

struct order_mem mem;

size_t nr_pages(void)
{
	return mem.len / page_size;
}

char *page_at(size_t i)
{
	return mem.base + i * page_size;
}

void compact(void)
{
	write_text("/proc/sys/vm/compact_memory", "1");
}

/* Map four aligned pages of the order (two of the largest) and request it. */
void map_mem(long arg)
{
	int err;

	need_orders();
	mem.order = ARG_ORDER(arg);
	mem.policy = ARG_POLICY(arg);
	mem.block = page_size << mem.order;
	mem.len = mem.block * (mem.order == pmd_order() ? 2 : 4);
	if (mem.order == 0)
		mem.len = 16 * page_size;
	compact();
	mem.base = map_at(arena(5), mem.len, RW, ANONYMOUS, -1, 0);
	err = set_order(mem.base, mem.len, mem.order, mem.policy);
	must(!err, "MADV_ORDER: %s", strerror(-err));
	must_have(mem.base, mem.order, mem.policy);
}

void fill(unsigned int shift)
{
	for (size_t i = 0; i < nr_pages(); i++)
		page_fill(page_at(i), TAG(i) + shift);
}

void check(unsigned int shift)
{
	for (size_t i = 0; i < nr_pages(); i++)
		sees(page_is(page_at(i), TAG(i) + shift), "page %zu is not what was written", i);
}

/* Check that pages of the order map all blocks of a range. */
void must_map(char *from, size_t len, int order)
{
	for (size_t off = 0; off < len; off += mem.block) {
		int got = mapped_order(from + off);

		must(got == order, "block %zu: a page of order %d, not %d", off / mem.block, got,
		     order);
	}
}

/* Check that no page of a range is larger than the order. */
void must_map_at_most(char *from, size_t len, int order)
{
	size_t off = 0;

	while (off < len) {
		int got = mapped_order(from + off);

		must(got <= order, "page %zu: order %d, which is more than %d",
		     (size_t)(off / page_size), got, order);
		off += page_size << (got > 0 ? got : 0);
	}
}

/*
 * The largest order after base pages: an existing last-level table is not
 * replaced by an entry of the level above.
 */
static int order_in_table(void)
{
	return mem.order == pmd_order() ? mem.order - 1 : mem.order;
}

void must_map_in_table(char *from, size_t len)
{
	for (size_t off = 0; off < len; off += page_size << order_in_table()) {
		int got = mapped_order(from + off);

		must(got == order_in_table(), "page %zu: order %d, not %d",
		     (size_t)(off / page_size), got, order_in_table());
	}
}

long child_check(long shift, long unused)
{
	check(shift);
	return 0;
}

unsigned int own_tag(size_t page)
{
	return TAG(page);
}

/*
 * Unmap a page in the middle of every second block, and check the others. Returns
 * its offset in the block.
 */
size_t unmap_middles(unsigned int (*tag)(size_t page))
{
	size_t hole = mem.block / 2 / page_size * page_size;

	for (size_t off = 0; off < mem.len; off += 2 * mem.block)
		must_call(munmap(mem.base + off + hole, page_size));
	for (size_t i = 0; i < nr_pages(); i++)
		if (i * page_size % (2 * mem.block) == hole)
			sees(probe_read(page_at(i)) == SIGSEGV, "page %zu is still there", i);
		else
			sees(page_is(page_at(i), tag(i)), "page %zu has changed", i);
	return hole;
}

long set_default(unsigned long kinds, int what)
{
	return prctl(PR_SET_REGION_ORDER, kinds, what, 0, 0) ? -errno : 0;
}

/* --- files --------------------------------------------------------------- */

int file_fd;
enum fs file_fs;

void set_mem(long arg, int blocks)
{
	need_orders();
	mem.order = ARG_ORDER(arg);
	mem.policy = ARG_POLICY(arg);
	mem.block = page_size << mem.order;
	mem.len = mem.order ? mem.block * blocks : 32 * page_size;
	file_fs = ARG_FS(arg);
	compact();
}

/* A file of mem.len with nothing in the page cache: on tmpfs a hole. */
void make_mem_file(void)
{
	if (file_fs == IMAGE) {
		file_fd = make_image(nr_pages(), 0);
	} else {
		file_fd = make_file("tmpfs", 0);
		must_call(ftruncate(file_fd, mem.len));
	}
}

int file_prot(long arg)
{
	return ARG_FS(arg) == TMPFS ? RW : PROT_READ;
}

/* Map the file from page @first on, and request the order. */
void map_fd(char *addr, size_t len, int prot, int flags, size_t first)
{
	int err;

	mem.base = map_at(addr, len, prot, flags, file_fd, first * page_size);
	err = set_order(mem.base, len, mem.order, mem.policy);
	must(!err, "MADV_ORDER: %s", strerror(-err));
	must_have(mem.base, mem.order, mem.policy);
}

/*
 * Make a file of four blocks (three of the largest) with nothing in the page
 * cache, and map it.
 */
void map_file(long arg, int prot, int flags)
{
	set_mem(arg, ARG_ORDER(arg) == pmd_order() ? 3 : 4);
	make_mem_file();
	map_fd(arena(7), mem.len, prot, flags, 0);
}

unsigned int file_tag(size_t i)
{
	return file_fs == TMPFS ? 0 : FILE_TAG(i);
}

void check_file(char *base, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		sees(page_is(base + i * page_size, file_tag(i)), "page %zu is not the file's", i);
}

/* Drop the file from the page cache; what is mapped stays. */
void drop_cache(void)
{
	must_call(posix_fadvise(file_fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* Fault in the middle of each block, and check that the whole block is mapped. */
void touch_blocks(char *base, size_t len, int order)
{
	for (size_t off = 0; off < len; off += mem.block) {
		touch(base + off + mem.block / 2);
		if (order)
			must_map(base + off, mem.block, order);
	}
}

/* Check that each page is mapped by a whole page of at most an order. */
void must_map_whole(char *from, size_t len, int most)
{
	for (size_t off = 0; off < len; off += page_size) {
		int got = mapped_order(from + off);

		must(got >= 0 && got <= most, "page %zu is of order %d",
		     (size_t)(off / page_size), got);
	}
}
