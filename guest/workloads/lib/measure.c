// SPDX-License-Identifier: GPL-2.0-or-later
/* Errors, figures, memory and options. */
#include "measure.h"

#include <stdarg.h>

void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

void die_errno(const char *what)
{
	die("%s: %s", what, strerror(errno));
}

void metric(const char *name, unsigned long long value, const char *unit)
{
	printf("metric %s %llu %s\n", name, value, unit);
}

void *map_own_tables(size_t size, int prot, int flags)
{
	size_t len = (size + TABLE - 1) & ~(TABLE - 1);
	char *raw = mmap(NULL, len + TABLE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;

	if (raw == MAP_FAILED)
		die_errno("mmap");
	start = (char *)(((uintptr_t)raw + TABLE - 1) & ~(TABLE - 1));
	if (start > raw)
		munmap(raw, start - raw);
	if (raw + len + TABLE > start + len)
		munmap(start + len, raw + TABLE - start);
	if (mmap(start, len, prot, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != start)
		die_errno("mmap");
	return start;
}

void *scratch_map(size_t size)
{
	char *p = map_own_tables(size, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	if (madvise(p, size, MADV_DONTFORK))
		die_errno("madvise(MADV_DONTFORK)");
	for (size_t i = 0; i < size; i += PAGE)
		*(volatile char *)(p + i) = 0;
	return p;
}

size_t parse_size(const char *s)
{
	char *end;
	size_t n = strtoull(s, &end, 0);

	switch (*end) {
	case 'k': case 'K': return n << 10;
	case 'm': case 'M': return n << 20;
	case 'g': case 'G': return n << 30;
	case '\0': return n;
	}
	die("%s: not a size", s);
}

uint64_t read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned long long n;

	if (!f || fscanf(f, "%llu", &n) != 1)
		die_errno(path);
	fclose(f);
	return n;
}
