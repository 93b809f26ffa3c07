// SPDX-License-Identifier: GPL-2.0-only
/* Shared by the races. */
#include "race.h"

static double deadline;

bool time_left(void)
{
	return now() < deadline;
}

void start_clock(void)
{
	deadline = now() + race_seconds;
}

/* a number that differs from call to call and from process to process */
unsigned int any(unsigned int n)
{
	static __thread unsigned long long x;

	if (!x)
		x = ((unsigned long long)getpid() << 32 | (uintptr_t)&x) * 2654435761u + 1;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (x >> 16) % n;
}

struct spot *any_spot(void)
{
	return &area.spot[any(area.nspots)];
}

bool may_write(const struct spot *s)
{
	return (area.part[s->part].prot & PROT_WRITE) && !area.part[s->part].shared;
}

unsigned int mine[MAX_SPOTS];

void look(const struct spot *s)
{
	unsigned int tag = mine[s - area.spot] ? mine[s - area.spot] : s->tag;

	sees(page_is(s->addr, tag), "spot %d does not hold %s", (int)(s - area.spot),
	     mine[s - area.spot] ? "what this process wrote" : "what the zygote left");
}

void scribble(const struct spot *s)
{
	unsigned int tag = 9000000u + getpid() % 100000 * 100u + any(100);

	page_fill(s->addr, tag);
	mine[s - area.spot] = tag;
}

/* --- children that read, write, unmap and exit, while the parent forks ---- */

void live(int steps)
{
	for (int i = 0; i < steps; i++) {
		const struct spot *s = any_spot();

		switch (any(8)) {
		case 0:
			if (may_write(s))
				scribble(s);
			break;
		case 1:
			mprotect(s->addr, page_size, PROT_READ);
			look(s);
			mprotect(s->addr, page_size, area.part[s->part].prot);
			break;
		case 2:
			if (!area.part[s->part].shared) {
				madvise(s->addr, page_size, MADV_DONTNEED);
				mine[s - area.spot] = NEVER;
				sees(page_is(s->addr, s->file_tag), "MADV_DONTNEED left something");
				if (may_write(s))
					scribble(s);
				else
					must(s->tag == s->file_tag, "a read-only page was written");
			}
			break;
		default:
			look(s);
		}
	}
}

pid_t fork_one(int steps)
{
	pid_t pid = fork();

	must(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		live(steps);
		_exit(0);
	}
	return pid;
}

int reap(int least)
{
	int status, n = 0;

	while (waitpid(-1, &status, n < least ? 0 : WNOHANG) > 0) {
		must(!status, "a child ended with status %x", status);
		n++;
	}
	return n;
}
