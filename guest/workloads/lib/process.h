/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Forks, and the state of the process that measures them. */
#ifndef LIB_PROCESS_H
#define LIB_PROCESS_H

#include "measure.h"

#include <sys/syscall.h>
#include <sys/types.h>

/*
 * Become a zygote. Ends the program on a kernel without Cohort: a run that was
 * to share and could not must not print figures.
 */
void become_zygote(int flags);

/*
 * Run again, without address space randomization, as the first process of a group that shares
 * TLB entries: the code that it maps from its first instruction on is the group's. Ends the
 * program where there can be none.
 */
void lead_tlb_group(char **argv);

/*
 * Run again without address space randomization, so that the number of tables a
 * layout needs is the same in every boot and on every kernel compared.
 */
void fixed_layout(char **argv);

/*
 * Stay on one processor, at a real-time priority. Without the privilege to do so
 * the figures are noisier but right.
 */
void take_processor(void);

/* Fork as a bare system call; measure.h says why. */
static inline pid_t bare_fork(void)
{
#if defined(__x86_64__)
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
#else
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, 0L, NULL);
#endif
}

__attribute__((noreturn)) void bare_exit(int status);

/* Wait for @pid; ends the program unless the child left with 0. */
void bare_wait(pid_t pid);

#endif
