// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cohort-exec CMD ARG...: run CMD as a zygote whose later forks share page
 * tables, kept over the execs in between and when children become other users.
 * What `cohort run --keep-ids` does, as a static program that a guest can use
 * without the host's tools.
 */
#include "../lib/process.h"

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: cohort-exec CMD ARG...\n");
		return 2;
	}
	become_zygote(PR_COHORT_KEEP_EXEC | PR_COHORT_KEEP_IDS);
	execvp(argv[1], argv + 1);
	fprintf(stderr, "cohort-exec: %s: %s\n", argv[1], strerror(errno));
	return 127;
}
