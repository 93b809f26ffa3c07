// SPDX-License-Identifier: GPL-2.0-or-later
/* Which code an application uses. */
#include "watch.h"

#include <sys/mman.h>

struct watch *watch;

/* Set how much a file fault maps, in bytes, and return what it was. */
static long fault_around(long bytes)
{
	const char *path = "/sys/kernel/debug/fault_around_bytes";
	long was = read_number(path);
	FILE *f = fopen(path, "w");

	if (!f || fprintf(f, "%ld", bytes) < 0 || fclose(f))
		die_errno(path);
	return was;
}

/* How many pages from page @i on lie side by side. */
static size_t run_from(size_t i)
{
	size_t n = 1;

	while (i + n < watch->pages && watch->page[i + n] == watch->page[i] + n * PAGE)
		n++;
	return n;
}

void watch_code(void)
{
	struct regions *rs = &s->regions;
	uintptr_t own = (uintptr_t)watch_code;

	watch = map_own_tables(sizeof(*watch), PROT_READ | PROT_WRITE, MAP_SHARED);
	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];

		if (!is_code(r) || (own >= r->start && own < r->end))
			continue;
		for (uintptr_t at = r->start; at < r->end; at += PAGE) {
			if (watch->pages == MAX_CODE_PAGES)
				die("more than %d pages of code", MAX_CODE_PAGES);
			watch->page[watch->pages++] = at;
		}
	}
}

void application_uses(size_t a, unsigned char *bit)
{
	int to_child[2], to_parent[2];
	long around = fault_around(PAGE);
	char byte = 0;
	pid_t pid;

	if (pipe(to_child) || pipe(to_parent))
		die_errno("pipe");
	fflush(stdout);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		for (size_t i = 0; i < watch->pages; i += run_from(i))
			if (madvise((void *)watch->page[i], run_from(i) * PAGE, MADV_DONTNEED))
				bare_exit(1);
		application_run(a);
		if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1)
			bare_exit(1);
		bare_exit(0);
	}
	close(to_parent[1]);
	if (read(to_parent[0], &byte, 1) != 1)
		die("application %s did not end", application[a].name);
	code_present(pid, bit);
	fault_around(around);
	if (write(to_child[1], &byte, 1) != 1)
		die_errno("pipe");
	bare_wait(pid);
	close(to_child[0]);
	close(to_child[1]);
	close(to_parent[0]);
}

void code_present(pid_t pid, unsigned char *bit)
{
	int pagemap = pagemap_open(pid);

	for (size_t i = 0; i < watch->pages; i += run_from(i))
		pages_present(pagemap, watch->page[i], watch->page[i] + run_from(i) * PAGE, bit + i, NULL);
	close(pagemap);
}
