/* SPDX-License-Identifier: GPL-2.0-only */
/* Cases that run each in its own process. */
#ifndef COHORT_SELFTEST_CASE_H
#define COHORT_SELFTEST_CASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "kselftest.h"

extern bool quick;			/* -q: fewer pages, rounds and children */
extern int race_seconds;		/* -t: how long one race may run */
extern int case_seconds;		/* -T: how long a case may take; raise before run_cases() */
extern bool costly;			/* -x: allow cases that affect the whole machine */

/*
 * A case guards invariants by number, as Documentation/mm/cohort.rst has
 * them, or something that is none. Every case must say it.
 */
#define INVARIANT(n)	(1u << (n))	/* 1 to 14 */
#define INTERFACE	(1u << 16)	/* what calls, files and counters take and say */
#define POLICY		(1u << 17)	/* what is shared, and when: a choice */
#define LIMIT		(1u << 18)	/* a bound on what fork does */
#define PRIVILEGE	(1u << 19)	/* who may share with whom: users, namespaces, programs */
#define STOCK		(1u << 20)	/* what stock Linux promises, shared tables or not */
#define REGION_ORDER	(1u << 21)	/* Documentation/mm/region-order.rst */
#define KSM_SELECTIVE	(1u << 22)	/* Documentation/mm/ksm-selective.rst */

/*
 * A description is a question or says what must be. With `kinds` the case runs
 * once for each kind of memory in that mask (in a quick run, only for those in
 * `quick_kinds` too, if that is set) and gets CASE_ARG(arg, kind).
 */
struct test_case {
	const char *desc;
	void (*fn)(long arg);
	long arg;
	unsigned int kinds;
	unsigned int quick_kinds;
	unsigned int guards;
};

#define CASE_ARG(arg, kind)	((arg) << 8 | (kind))
#define ARG_KIND(arg)		((enum kind)((arg) & 0xff))
#define ARG_ARG(arg)		((arg) >> 8)

extern void (*after_each_case)(void);	/* in the main process, if set */
extern bool all_fatal;		/* every failure is fatal; set before run_cases() */

void read_options(int argc, char **argv);	/* optional: run_cases() calls it otherwise */
int run_cases(int argc, char **argv, const struct test_case *cases, int n);

/*
 * These end the process at once. In a peer that ends the whole case: the process
 * that waits for the peer sees the verdict. With @fatal it prints "# FATAL", and
 * the lab does not retry.
 */
void die(const char *file, int line, bool fatal, const char *cond, const char *fmt, ...)
	__noreturn __printf(5, 6);
void skip(const char *fmt, ...) __noreturn __printf(1, 2);

#define fail(fmt, ...)	die(__FILE__, __LINE__, false, NULL, fmt, ##__VA_ARGS__)
#define __must(fatal, cond, fmt, ...) do {				\
	if (!(cond))							\
		die(__FILE__, __LINE__, fatal, #cond, fmt, ##__VA_ARGS__); \
	} while (0)
#define must(cond, fmt, ...)	__must(false, cond, fmt, ##__VA_ARGS__)
/*
 * must() about what a process sees: the content of memory, or whether an access
 * raises a signal. Its failure is fatal, as a loaded host cannot cause it.
 */
#define sees(cond, fmt, ...)	__must(true, cond, fmt, ##__VA_ARGS__)
/* for system calls that do not fail on a sane machine */
#define must_call(expr)	must((long)(expr) != -1, #expr ": %s", strerror(errno))

void note(const char *fmt, ...) __printf(1, 2);
void note_fatal(const char *why);	/* the lab looks for this line */

#endif
