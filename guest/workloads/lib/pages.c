// SPDX-License-Identifier: GPL-2.0-or-later
/* Which pages of a process are in its page tables, region by region. */
#include "pages.h"

#include <inttypes.h>

void regions_read(struct regions *rs, pid_t pid)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		die_errno(path);
	rs->count = 0;
	while (fgets(line, sizeof(line), f)) {
		struct region *r = &rs->r[rs->count];

		if (rs->count == MAX_REGIONS)
			die("more than %d regions", MAX_REGIONS);
		r->path[0] = '\0';
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %" SCNu64 " %127s",
			   &r->start, &r->end, r->perms, &r->inode, r->path) < 4)
			die("%s: cannot read \"%s\"", path, line);
		rs->count++;
	}
	fclose(f);
}

/* Bits of a pagemap word (Documentation/admin-guide/mm/pagemap.rst). */
#define PM_PRESENT (1ULL << 63)
#define PM_FILE (1ULL << 61)

int pagemap_open(pid_t pid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		die_errno(path);
	return fd;
}

size_t pages_present(int pagemap, uintptr_t start, uintptr_t end,
		     unsigned char *bit, size_t *anon)
{
	uint64_t word[512];
	size_t present = 0, index = 0;

	for (uintptr_t at = start; at < end;) {
		size_t want = (end - at) / PAGE;
		ssize_t got;

		if (want > ARRAY_SIZE(word))
			want = ARRAY_SIZE(word);
		got = pread(pagemap, word, want * 8, at / PAGE * 8);
		if (got <= 0)
			die_errno("pagemap");
		for (ssize_t i = 0; i < got / 8; i++, index++) {
			bool here = word[i] & PM_PRESENT;

			present += here;
			if (anon && here && !(word[i] & PM_FILE))
				++*anon;
			if (bit)
				bit[index] = here;
		}
		at += got / 8 * PAGE;
	}
	return present;
}

size_t file_tables(pid_t pid)
{
	unsigned long start, end, table, last = -1UL;
	static uint64_t entry[512];
	char path[64], line[4096];
	size_t found = 0;
	FILE *maps;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (fd < 0 || !maps)
		die_errno(path);
	while (fgets(line, sizeof(line), maps)) {
		/* [vsyscall] of 64 bits is the kernel's. */
		if (sscanf(line, "%lx-%lx", &start, &end) != 2 ||
		    (sizeof(start) > 4 && (long)start < 0))
			continue;
		for (table = start / TABLE; table <= (end - 1) / TABLE; table++) {
			unsigned long from = table * TABLE > start ? table * TABLE : start;
			unsigned long to = (table + 1) * TABLE < end ? (table + 1) * TABLE : end;
			ssize_t n;

			if (table == last)
				continue;
			n = pread(fd, entry, (to - from) / PAGE * 8, from / PAGE * 8);
			for (ssize_t i = 0; i < n / 8; i++)
				if ((entry[i] & PM_PRESENT) && (entry[i] & PM_FILE)) {
					found++;
					last = table;
					break;
				}
		}
	}
	fclose(maps);
	close(fd);
	return found;
}

void footprint_read(struct footprint *fp, struct regions *rs, const void *skip)
{
	int pagemap = pagemap_open(getpid());

	regions_read(rs, getpid());
	memset(fp, 0, sizeof(*fp));
	fp->regions = rs->count;
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];
		size_t anon = 0, n;

		if (r->path[0] == '[' && strcmp(r->path, "[heap]") && strcmp(r->path, "[stack]"))
			continue;
		if ((uintptr_t)skip >= r->start && (uintptr_t)skip < r->end)
			continue;
		n = pages_present(pagemap, r->start, r->end, NULL, &anon);
		if (is_code(r))
			fp->code += n;
		if (anon)
			fp->copied += n;
	}
	close(pagemap);
}

long proc_field(pid_t pid, const char *file, const char *key)
{
	char path[64], text[KB(4)];
	const char *p = text;
	size_t len = strlen(key);
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	while (p && *p) {
		if (!strncmp(p, key, len) && p[len] == ':')
			return strtol(p + len + 1, NULL, 10);
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	return -1;
}
