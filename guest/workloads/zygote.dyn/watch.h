/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which code an application uses is seen in a child whose tables have no library's code
 * when it begins, while a fault maps one page only: what they have at its end it has used.
 * The kernel's accesses count too: on ARM libraries have constants between their code,
 * which programs give to system calls. The C library's madvise() and write(), with which
 * the child begins and ends, are noted along.
 */
#ifndef WATCH_H
#define WATCH_H

#include "zygote.h"

struct watch {
	size_t pages;
	uintptr_t page[MAX_CODE_PAGES];
};

extern struct watch *watch;

/* The code pages of the zygote, this program's own left out. */
void watch_code(void);
/* Note in @bit which of the watched pages application @a uses. */
void application_uses(size_t a, unsigned char *bit);
/* Which of the watched pages are in @pid's tables. */
void code_present(pid_t pid, unsigned char *bit);

#endif
