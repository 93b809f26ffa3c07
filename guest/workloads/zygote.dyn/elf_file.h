/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A shared library's file: how long it is mapped, where it becomes writable, what it needs. */
#ifndef ELF_FILE_H
#define ELF_FILE_H

#include "../lib/measure.h"

struct elf_file {
	const char *map;
	uintptr_t end, writable, align;
	char *needed[64];
	int needs;
};

/* Where such a file is looked at, mapped before the address space is full. */
#define WINDOW MB(64)

/* False if there is no such file; @window is WINDOW bytes of address space for it. */
bool elf_read(struct elf_file *f, void *window, const char *path);

#endif
