// SPDX-License-Identifier: GPL-2.0-or-later
/* Applications that stay, so that others can read what code they ran (Tables 1, 2, Figures 2 to 4). */
#include "zygote.h"

/*
 * Start each application in a child, one after the other, and leave it alive when it has done its
 * work once: its tables then hold the code that it ran. A line on standard input lets all of them
 * repeat their work, at the same time, until standard input ends.
 */
void run_footprint(void)
{
	size_t apps = ARRAY_SIZE(application);
	pid_t child[APPLICATIONS];
	int done[2], go[2];
	char byte = 0;

	if (pipe(go))
		die_errno("pipe");
	for (size_t a = 0; a < apps; a++) {
		if (pipe(done))
			die_errno("pipe");
		/* An interpreter flushes what the child has of standard output. */
		fflush(stdout);
		child[a] = bare_fork();
		if (child[a] < 0)
			die_errno("fork");
		if (!child[a]) {
			close(go[1]);
			application_run(a);
			if (write(done[1], &byte, 1) != 1 || read(go[0], &byte, 1))
				bare_exit(1);
			for (;;)
				application_run(a);
		}
		close(done[1]);
		if (read(done[0], &byte, 1) != 1)
			die("application %s did not do its work", application[a].name);
		close(done[0]);
	}
	for (size_t a = 0; a < apps; a++)
		printf("application %s %d\n", application[a].name, child[a]);
	printf("ready\n");
	fflush(stdout);
	if (getchar() != EOF) {
		close(go[1]);
		while (getchar() != EOF)
			;
	}
	for (size_t a = 0; a < apps; a++)
		kill(child[a], SIGKILL);
}
