// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lab-mark start|stop|begin|end|cohort|warm|step [NUMBER] [-- COMMAND...]: one mark from a shell or a
 * job, then, if there is one, the command in the same process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../lib/mark.h"

static int usage(void)
{
	fprintf(stderr,
		"usage: lab-mark start|stop|begin|end|cohort|warm|step [NUMBER] [-- COMMAND...]\n");
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long number = 0;
	int next = 2;

	if (argc < 2)
		return usage();
	if (next < argc && strcmp(argv[next], "--")) {
		char *end;

		errno = 0;
		number = strtoul(argv[next], &end, 0);
		if (errno || end == argv[next] || *end)
			return usage();
		next++;
	}
	if (next < argc && strcmp(argv[next++], "--"))
		return usage();

	if (!strcmp(argv[1], "start"))
		mark(MARK_START, number);
	else if (!strcmp(argv[1], "stop"))
		mark(MARK_STOP, number);
	else if (!strcmp(argv[1], "begin"))
		mark(MARK_BEGIN, number);
	else if (!strcmp(argv[1], "end"))
		mark(MARK_END, number);
	else if (!strcmp(argv[1], "cohort"))
		mark(MARK_COHORT, number);
	else if (!strcmp(argv[1], "warm"))
		mark(MARK_WARM, number);
	else if (!strcmp(argv[1], "step"))
		mark(MARK_STEP, number);
	else
		return usage();

	if (next < argc) {
		execvp(argv[next], argv + next);
		fprintf(stderr, "lab-mark: cannot run %s: %s\n", argv[next], strerror(errno));
		return 127;
	}
	return 0;
}
