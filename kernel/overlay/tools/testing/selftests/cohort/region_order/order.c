// SPDX-License-Identifier: GPL-2.0-only
/*
 * Request a page size, and find the size of a mapped page. The size comes from
 * /proc/kpageflags, so that these tests do not rely on smaps or vmstat.
 */
#include "order.h"

int set_order(void *addr, size_t len, int order, int policy)
{
	return madvise(addr, len, advice(order, policy)) ? -errno : 0;
}

#define KPF_HEAD	0x8000ULL
#define KPF_TAIL	0x10000ULL

/* read words of a file with one word per page */
static void read_words(const char *path, __u64 first, int n, __u64 *words)
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

/* The order of the page at an address, or ABSENT, or PART if it is not mapped whole. */
int mapped_order(const char *addr)
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
void smaps_order(const void *addr, char *line, size_t size)
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

void must_have(const void *addr, int order, int policy)
{
	char line[64], want[64];

	smaps_order(addr, line, sizeof(line));
	snprintf(want, sizeof(want), "%d%s%s", order, policy & WAIT ? " wait" : "",
		 policy & COPY ? " copy" : "");
	must(!strcmp(line, want), "smaps has order `%s`, not `%s`", line, want);
}

void must_have_none(const void *addr)
{
	char line[64];

	smaps_order(addr, line, sizeof(line));
	must(!line[0], "smaps has order `%s`", line);
}

void need_orders(void)
{
	/* an empty range: it fails only if the advice is unknown */
	if (set_order(NULL, 0, 0, 0) == -EINVAL)
		skip("this kernel has no page size for each region");
}
