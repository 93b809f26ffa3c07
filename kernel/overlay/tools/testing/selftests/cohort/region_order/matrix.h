/* SPDX-License-Identifier: GPL-2.0-only */
/* The cases: each question, once for each order and policy. */
#ifndef COHORT_SELFTEST_MATRIX_H
#define COHORT_SELFTEST_MATRIX_H

#include "mem.h"

/* once for each order and policy */
struct question {
	const char *desc;
	void (*fn)(long arg);
	bool copies;		/* a policy of copying matters */
	unsigned int guards;
};

#define ON_TMPFS	KIND(TMPFS)
#define ON_IMAGE	KIND(IMAGE)
#define ON_DISK		KIND(7)		/* and it is a file on disk, not of EROFS */

/* once for each order, each policy that files have, and each of these file systems */
struct file_question {
	const char *desc;
	void (*fn)(long arg);
	unsigned int where;
	unsigned int guards;
};

/* These need read_options() before them. */
void add_questions(const struct question *questions, size_t nr);
void add_file_questions(const struct file_question *questions, size_t nr);
void add_cases(const struct test_case *more, size_t nr);
int run_orders(int argc, char **argv);

#endif
