// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cohort-exec [--tlb] [--leave-ids] CMD ARG...: run CMD as a zygote whose later forks
 * share page tables, kept over the execs in between and when children become other
 * users. What `cohort run --keep-ids` does, as a static program that a guest can use
 * without the host's tools. With --tlb it shares TLB entries of its code too; with
 * --leave-ids children that become other users leave.
 */
#include "../lib/process.h"

int main(int argc, char **argv)
{
	int flags = PR_COHORT_KEEP_EXEC | PR_COHORT_KEEP_IDS;

	for (; argc > 1; argc--, argv++) {
		if (!strcmp(argv[1], "--tlb"))
			flags |= PR_COHORT_TLB;
		else if (!strcmp(argv[1], "--leave-ids"))
			flags &= ~PR_COHORT_KEEP_IDS;
		else
			break;
	}
	if (argc < 2) {
		fprintf(stderr, "usage: cohort-exec [--tlb] [--leave-ids] CMD ARG...\n");
		return 2;
	}
	become_zygote(flags);
	execvp(argv[1], argv + 1);
	fprintf(stderr, "cohort-exec: %s: %s\n", argv[1], strerror(errno));
	return 127;
}
