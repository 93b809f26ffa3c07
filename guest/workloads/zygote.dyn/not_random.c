// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The same random numbers and the same time in every run: libraries seed their
 * hash tables with them, and a start-up would differ by some entries and faults.
 * The dynamic linker prefers the program's definitions to the C library's.
 */
#include <stdint.h>
#include <sys/random.h>
#include <time.h>

/* The compiler hides this program's other symbols from the libraries. */
#define SEEN_BY_LIBRARIES __attribute__((visibility("default")))

static uint64_t not_random = 88172645463325252;

static void fill_not_random(void *p, size_t n)
{
	unsigned char *to = p;

	while (n--) {
		not_random ^= not_random << 13;
		not_random ^= not_random >> 7;
		not_random ^= not_random << 17;
		*to++ = not_random;
	}
}

SEEN_BY_LIBRARIES
ssize_t getrandom(void *p, size_t n, unsigned int flags)
{
	(void)flags;
	fill_not_random(p, n);
	return n;
}

SEEN_BY_LIBRARIES
int getentropy(void *p, size_t n)
{
	fill_not_random(p, n);
	return 0;
}

SEEN_BY_LIBRARIES
void arc4random_buf(void *p, size_t n)
{
	fill_not_random(p, n);
}

SEEN_BY_LIBRARIES
uint32_t arc4random(void)
{
	uint32_t n;

	fill_not_random(&n, sizeof(n));
	return n;
}

/* The first second of 2026, where the guest's clock begins too. */
SEEN_BY_LIBRARIES
time_t time(time_t *t)
{
	const time_t now = 1767225600;

	if (t)
		*t = now;
	return now;
}
