// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many processes may have private copies before a MaskPage of BabelFish is full (ISCA'20,
 * Appendix).
 *
 *   private-copies [--processes 64] [--writers N] [--rounds 4]
 *
 * A zygote fills two tables of memory, of 2 MB each, alone in their gigabyte, and forks. N of its
 * children write to a page of the first table, each to another, and so have a copy of that page and a
 * table of their own. Then all children read a word of each page of both tables, one child after the other,
 * in each round. All of this is the model's region, each child's reading of the last round a request.
 * Each checks what it reads.
 */
#include "../lib/mark.h"
#include "../lib/process.h"

#include <sys/prctl.h>

#define MAX_PROCESSES 256
#define TABLES 2
#define PAGES (TABLES * TABLE / PAGE)

/* Nothing else lies in this gigabyte. */
#define PLACE ((char *)(64ul << 30))

static size_t processes = 64, writers, rounds = 4;

/* A word of each page, at a place of its own in it: else they all fall into one set of the cache. */
static volatile uint32_t *word(size_t page)
{
	return (volatile uint32_t *)(PLACE + page * PAGE + page % (PAGE / 64) * 64);
}

static void child(size_t number, int go, int done)
{
	char turn;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i <= rounds; i++) {
		if (read(go, &turn, 1) != 1)
			bare_exit(2);
		if (!i) {
			if (number < writers)
				*word(number) = PAGES + number;
		} else {
			if (i == rounds)
				mark(MARK_BEGIN, number + 1);
			for (size_t page = 0; page < PAGES; page++) {
				bool own = page == number && number < writers;

				if (*word(page) != (own ? PAGES + number : page))
					bare_exit(3);
			}
			if (i == rounds)
				mark(MARK_END, number + 1);
		}
		if (write(done, &turn, 1) != 1)
			bare_exit(2);
	}
	bare_exit(0);
}

int main(int argc, char **argv)
{
	int go[MAX_PROCESSES][2], done[2];
	pid_t pids[MAX_PROCESSES];
	char turn = 0;

	fixed_layout(argv);
	for (int i = 1; i < argc; i += 2) {
		size_t n = i + 1 < argc ? strtoul(argv[i + 1], NULL, 0) : 0;

		if (i + 1 < argc && !strcmp(argv[i], "--processes"))
			processes = n;
		else if (i + 1 < argc && !strcmp(argv[i], "--writers"))
			writers = n;
		else if (i + 1 < argc && !strcmp(argv[i], "--rounds"))
			rounds = n;
		else
			die("usage: private-copies [--processes N] [--writers N] [--rounds N]");
	}
	if (!processes || processes > MAX_PROCESSES || writers > processes || !rounds)
		die("private-copies: %zu of %zu processes, %zu rounds", writers, processes, rounds);

	become_zygote(0);
	if (mmap(PLACE, TABLES * TABLE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != PLACE)
		die_errno("mmap");
	if (madvise(PLACE, TABLES * TABLE, MADV_NOHUGEPAGE))
		die_errno("MADV_NOHUGEPAGE");
	for (size_t page = 0; page < PAGES; page++)
		*word(page) = page;
	if (pipe(done))
		die_errno("pipe");
	for (size_t i = 0; i < processes; i++) {
		if (pipe(go[i]))
			die_errno("pipe");
		pids[i] = bare_fork();
		if (pids[i] < 0)
			die_errno("fork");
		if (!pids[i])
			child(i, go[i][0], done[1]);
	}
	mark(MARK_START, 0);
	for (size_t round = 0; round <= rounds; round++) {
		for (size_t i = 0; i < processes; i++) {
			if (write(go[i][1], &turn, 1) != 1 || read(done[0], &turn, 1) != 1)
				die_errno("a child");
		}
	}
	mark(MARK_STOP, 0);
	for (size_t i = 0; i < processes; i++)
		bare_wait(pids[i]);
	metric("processes", processes, "processes");
	metric("writers", writers, "processes");
	return 0;
}
