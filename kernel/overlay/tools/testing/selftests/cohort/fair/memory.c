// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of some size that a process touches in one of several ways.
 */
#include "memory.h"

size_t len;
char *memory;

/* an eighth of the machine's memory, but no more than a debug kernel can touch soon */
void choose_size(void)
{
	char text[256];
	long kb = 0;

	must(read_text("/proc/meminfo", text, sizeof(text)) > 0 &&
	     sscanf(text, "MemTotal: %ld", &kb) == 1, "no MemTotal");
	len = (size_t)kb * 1024 / 8 / table_size * table_size;
	if (len > (64UL << 20))
		len = 64UL << 20;
}

void map_memory(void)
{
	memory = mmap(NULL, len + table_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	memory = (char *)(((uintptr_t)memory + table_size - 1) / table_size * table_size);
	madvise(memory, len, MADV_NOHUGEPAGE);
}

void touch_memory(void)
{
	choose_size();
	map_memory();
	for (size_t at = 0; at < len; at += page_size)
		memory[at] = 1;
}

/* the first page of each table */
void touch_first(void)
{
	len = SPARSE_TABLES * table_size;
	map_memory();
	for (size_t at = 0; at < len; at += table_size)
		memory[at] = 1;
}

/* some pages of each table, none where an estimate of what it maps might look */
void touch_others(void)
{
	static const int page[] = { 1, 3, 5, 7 };

	len = SPARSE_TABLES * table_size;
	map_memory();
	for (size_t at = 0; at < len; at += table_size)
		for (unsigned int i = 0; i < ARRAY_SIZE(page); i++)
			memory[at + page[i] * page_size] = 1;
}

/* the case has mapped it: it looks at the pages of others at these addresses */
void touch_many(void)
{
	for (size_t at = 0; at < len; at += table_size)
		for (int page = 0; page < KEPT; page++)
			memory[at + page * page_size] = 1;
}
