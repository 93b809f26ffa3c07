/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the workloads share: reading the clock that counts instructions, the
 * kernel's counters, and printing figures the way the lab collects them.
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
#ifndef MEASURE_H
#define MEASURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KB(n) ((size_t)(n) << 10)
#define MB(n) ((size_t)(n) << 20)
#define PAGE ((size_t)4096)
/* What one last level table maps: 512 entries of 4 KB. */
#define TABLE MB(2)
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define PR_SET_COHORT 0x434f4801
#define PR_GET_COHORT 0x434f4802
#define PR_COHORT_ZYGOTE 1
#define PR_COHORT_KEEP_EXEC 2
#define PR_COHORT_KEEP_IDS 4

/* --- ending with a sentence ------------------------------------------------ */

__attribute__((noreturn, format(printf, 1, 2), unused))
static void die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

__attribute__((noreturn, unused))
static void die_errno(const char *what)
{
	die("%s: %s", what, strerror(errno));
}

/* --- figures --------------------------------------------------------------- */

__attribute__((unused))
static void metric(const char *name, unsigned long long value, const char *unit)
{
	printf("metric %s %llu %s\n", name, value, unit);
}

/* --- the clock ------------------------------------------------------------- */

/*
 * Under `-icount shift=0` the time stamp counter goes up by one an instruction;
 * elsewhere it counts cycles. Elsewhere than on x86 the monotonic clock, one
 * nanosecond an instruction under the same option, stands in for it.
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

/* --- memory that fork leaves out -------------------------------------------- */

/*
 * Map @size bytes (rounded up to whole tables) at an address where no other
 * region shares a last level table with them. Only address space is spent on
 * the alignment.
 */
__attribute__((unused))
static void *map_own_tables(size_t size, int prot, int flags)
{
	size_t len = (size + TABLE - 1) & ~(TABLE - 1);
	char *raw = mmap(NULL, len + TABLE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;

	if (raw == MAP_FAILED)
		die_errno("mmap");
	start = (char *)(((uintptr_t)raw + TABLE - 1) & ~(TABLE - 1));
	if (start > raw)
		munmap(raw, start - raw);
	if (raw + len + TABLE > start + len)
		munmap(start + len, raw + TABLE - start);
	if (mmap(start, len, prot, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != start)
		die_errno("mmap");
	return start;
}

/*
 * The scratch arena, populated: writing to it after a fork costs no fault, and
 * a fork neither copies nor shares anything of it.
 */
__attribute__((unused))
static void *scratch_map(size_t size)
{
	char *p = map_own_tables(size, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	if (madvise(p, size, MADV_DONTFORK))
		die_errno("madvise(MADV_DONTFORK)");
	for (size_t i = 0; i < size; i += PAGE)
		*(volatile char *)(p + i) = 0;
	return p;
}

/* --- the kernel's counters --------------------------------------------------- */

/* One line a counter of /proc/vmstat that the workloads report. */
#define MEASURE_COUNTERS(X) \
	X(ptp_alloc, "PTPs") \
	X(ptp_shared, "PTPs") \
	X(ptp_unshared_fault, "PTPs") \
	X(ptp_unshared_map, "PTPs") \
	X(ptp_unshared_unmap, "PTPs") \
	X(ptp_unshared_change, "PTPs") \
	X(ptp_left, "PTPs") \
	X(ptp_adopted, "PTPs") \
	X(pte_copied_fork, "PTEs") \
	X(pte_copied_unshare, "PTEs") \
	X(fault_file, "faults") \
	X(fault_filled, "PTEs")

enum counter {
#define X(name, unit) C_##name,
	MEASURE_COUNTERS(X)
#undef X
	C_COUNT
};

__attribute__((unused))
static const char *const counter_name[C_COUNT] = {
#define X(name, unit) "cohort_" #name,
	MEASURE_COUNTERS(X)
#undef X
};

__attribute__((unused))
static const char *const counter_unit[C_COUNT] = {
#define X(name, unit) unit,
	MEASURE_COUNTERS(X)
#undef X
};

struct counters {
	uint64_t value[C_COUNT];
};

#define VMSTAT_BYTES KB(64)

/*
 * Everything a reading needs, so that it can live in the scratch arena. A
 * kernel without Cohort has none of the counters; @present says so, and then
 * nothing is reported rather than zeros.
 */
struct counter_reader {
	int fd;
	bool present;
	char text[VMSTAT_BYTES];
};

/* The value after "NAME " at a line's start in @text, or -1. */
__attribute__((unused))
static int64_t vmstat_value(const char *text, const char *name)
{
	size_t len = strlen(name);
	const char *p = text;

	while (p && *p) {
		if (!strncmp(p, name, len) && p[len] == ' ')
			return strtoll(p + len + 1, NULL, 10);
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	return -1;
}

__attribute__((unused))
static void counters_read(struct counter_reader *r, struct counters *c)
{
	ssize_t n = pread(r->fd, r->text, sizeof(r->text) - 1, 0);

	r->text[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < C_COUNT; i++) {
		int64_t v = r->present ? vmstat_value(r->text, counter_name[i]) : 0;

		c->value[i] = v < 0 ? 0 : v;
	}
}

__attribute__((unused))
static void counters_open(struct counter_reader *r)
{
	ssize_t n;

	r->fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	if (r->fd < 0)
		die_errno("/proc/vmstat");
	n = pread(r->fd, r->text, sizeof(r->text) - 1, 0);
	r->text[n > 0 ? n : 0] = '\0';
	r->present = vmstat_value(r->text, counter_name[C_ptp_alloc]) >= 0;
}

__attribute__((unused))
static void counters_sub(struct counters *d, const struct counters *from)
{
	for (int i = 0; i < C_COUNT; i++)
		d->value[i] -= from->value[i];
}

/* Print every counter as PREFIX-name-with-hyphens[SUFFIX]. */
__attribute__((unused))
static void counters_print(const struct counter_reader *r, const struct counters *d,
			   const char *prefix, const char *suffix)
{
	for (int i = 0; r->present && i < C_COUNT; i++) {
		char name[96];
		int n = snprintf(name, sizeof(name), "%s-%s%s", prefix,
				 counter_name[i] + strlen("cohort_"), suffix);

		for (int j = 0; j < n; j++)
			if (name[j] == '_')
				name[j] = '-';
		metric(name, d->value[i], counter_unit[i]);
	}
}

/* --- being a zygote ---------------------------------------------------------- */

/*
 * Become a zygote. Ends the program on a kernel that knows nothing of Cohort: a
 * run that was to share and could not must not print figures.
 */
__attribute__((unused))
static void become_zygote(int flags)
{
	if (prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE | flags, 0, 0, 0))
		die("prctl(PR_SET_COHORT): %s (a kernel without Cohort?)", strerror(errno));
}

/* --- a quiet machine --------------------------------------------------------- */

/*
 * Run again without address space randomization, so that the number of tables a
 * layout needs is the same in every boot and on every kernel compared.
 */
__attribute__((unused))
static void fixed_layout(char **argv)
{
	int old = personality(0xffffffff);

	if (old < 0 || (old & ADDR_NO_RANDOMIZE))
		return;
	if (personality(old | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv("/proc/self/exe", argv);
	die_errno("exec of /proc/self/exe");
}

/*
 * Stay on one processor, ahead of everyone but the own children. Without the
 * privilege to do so the figures are noisier but right.
 */
__attribute__((unused))
static void take_processor(void)
{
	struct sched_param sp = { .sched_priority = 1 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu() < 0 ? 0 : sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
	if (sched_setscheduler(0, SCHED_FIFO, &sp))
		fprintf(stderr, "no real-time priority: %s\n", strerror(errno));
}

/* Fork as a bare system call; see the top of this file. */
static inline pid_t bare_fork(void)
{
#if defined(__x86_64__)
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0L);
#else
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, 0L, NULL);
#endif
}

__attribute__((noreturn, unused))
static void bare_exit(int status)
{
	for (;;)
		syscall(SYS_exit_group, status);
}

/* Wait for @pid; ends the program unless the child left with 0. */
__attribute__((unused))
static void bare_wait(pid_t pid)
{
	int status;

	while (syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
		if (errno != EINTR)
			die_errno("wait4");
	if (status)
		die("child ended with wait status 0x%x", status);
}

/* --- options ------------------------------------------------------------------ */

/* "64", "64k", "64m", "4g": bytes. */
__attribute__((unused))
static size_t parse_size(const char *s)
{
	char *end;
	size_t n = strtoull(s, &end, 0);

	switch (*end) {
	case 'k': case 'K': return n << 10;
	case 'm': case 'M': return n << 20;
	case 'g': case 'G': return n << 30;
	case '\0': return n;
	}
	die("%s: not a size", s);
}

#endif /* MEASURE_H */
