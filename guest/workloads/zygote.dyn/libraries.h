/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loading Debian's shared libraries into a zygote: as the dynamic linker places
 * them, or with code and data of each in 2 MB ranges of their own.
 *
 * The paper relinked its libraries for that. Here the files stay as Debian built
 * them and only their addresses are chosen: the distance between a library's
 * code and its data is fixed, but where a multiple of 2 MB falls is not, so the
 * library is put where its first writable byte begins a 2 MB range. The dynamic
 * linker leaves the address to the kernel; a kernel that finds one single hole
 * in the address space puts it there.
 */
#ifndef LIBRARIES_H
#define LIBRARIES_H

#include "../lib/pages.h"

struct loader {
	bool separate;
	char dir[256];			/* where libc lies, and Debian's libraries with it */
	void *window;			/* separate: where files are looked at */
	uintptr_t top;			/* separate: free below, and a multiple of TABLE */
	int separated;			/* of all objects it brought: code and data apart */
	int placing;
	const char *in_progress[64];	/* dependencies being loaded, against cycles */
};

/*
 * Load the list. The heap is made large enough first: neither layout may make
 * the C library fall back to mmap, or the two would differ in more than they say.
 */
void libraries_load(struct loader *l, struct regions *rs);

/* A function of a library that is loaded; NULL if the suite has it otherwise. */
void *function(const char *soname, const char *name);

/* The shared objects in this process, less the program itself. */
int objects_loaded(void);

#endif
