/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which code an application uses is seen in a child that may not execute or read
 * any page of a library: each first use is a signal, upon which the page is noted
 * and opened. The handler must not call a library itself, hence the system calls
 * spelled out; its return goes through one page of the C library, noted along.
 */
#ifndef WATCH_H
#define WATCH_H

#include "zygote.h"

struct watch {
	size_t pages;
	uintptr_t page[MAX_CODE_PAGES];
	unsigned char used[MAX_CODE_PAGES];
};

/* Shared with the child that is watched, so that it can leave the answer there. */
extern struct watch *watch;

/* The code pages of the zygote, this program's own left out: it is the handler. */
void watch_code(void);
/* Note in @bit which of the watched pages application @a uses. */
void application_uses(size_t a, unsigned char *bit);
/* Which of the watched pages are in @pid's tables. */
void code_present(pid_t pid, unsigned char *bit);

#endif
