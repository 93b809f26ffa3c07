/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that are started by exec, one after the other, and stay. */
#ifndef LIB_INSTANCE_H
#define LIB_INSTANCE_H

#include "measure.h"

#include <sys/types.h>

struct instance {
	pid_t pid;
	int in, out;		/* our ends of its standard input and output */
	uint64_t started;	/* ticks before the fork */
};

/*
 * Start the program @argv, with pipes to @p as its input and outputs, in a process group of
 * its own. Its environment has @number as INSTANCE.
 */
void instance_start(struct instance *p, char **argv, size_t number);
/*
 * Wait until a line with @word has come from it. Returns the ticks then. Ends the program
 * with what was printed before if the word never comes.
 */
uint64_t instance_wait(struct instance *p, const char *word);
/* Kill it with all of its process group, and wait until no process is left below this one. */
void instance_kill(struct instance *p);

/* How many faults a process has taken that needed no disk. */
uint64_t minor_faults(pid_t pid);

/* Write @text to the file @path; ends the program if that fails. */
void put(const char *path, const char *text);

#endif
