/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The clock that counts instructions, memory for what is measured, and figures
 * printed the way the lab collects them.
 *
 * A program that measures fork must not disturb what it measures. Anything the
 * parent writes after a fork copies a page, and in a cohort may unshare a whole
 * table, which would then be counted as the cost of the fork. So:
 *
 *  - whatever is written between a fork and the end of its measurement lives in
 *    a scratch arena that fork leaves out (MADV_DONTFORK) and that has its last
 *    level tables to itself, or on the stack;
 *  - fork is the bare system call: the C library's wrapper runs handlers and
 *    takes locks, all of them writes to its data;
 *  - the measuring process and its children are first-in-first-out of one
 *    priority, so that a child runs when the parent waits for it and at no other
 *    time. Children of ordinary priority would not do: the scheduler's fair server
 *    lets those in ahead of real-time tasks now and then.
 */
#ifndef LIB_MEASURE_H
#define LIB_MEASURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifndef __x86_64__
#include <sys/syscall.h>
#endif

#include "uapi.h"

#define KB(n) ((size_t)(n) << 10)
#define MB(n) ((size_t)(n) << 20)
#define PAGE ((size_t)4096)
/* A last-level table maps 512 entries of 4 KB. */
#define TABLE MB(2)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Print a sentence on standard error and exit with status 1. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
/* The same with @what and the text of errno. */
__attribute__((noreturn)) void die_errno(const char *what);

void metric(const char *name, unsigned long long value, const char *unit);

/* "64", "64k", "64m", "4g": bytes. */
size_t parse_size(const char *s);

/*
 * Under `-icount shift=0` the time stamp counter goes up by one per instruction;
 * elsewhere it counts cycles. Other processors than x86 read the monotonic clock,
 * one nanosecond per instruction under the same option.
 */
static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
#else
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
#endif
}

/*
 * Map @size bytes (rounded up to whole tables) at an address where no other
 * region shares a last-level table with them. The alignment costs only address
 * space.
 */
void *map_own_tables(size_t size, int prot, int flags);

/*
 * The scratch arena, populated: writing to it after a fork costs no fault, and
 * a fork neither copies nor shares anything of it.
 */
void *scratch_map(size_t size);

/* The number in a file of /proc or /sys; ends the program if there is none. */
uint64_t read_number(const char *path);

#endif
