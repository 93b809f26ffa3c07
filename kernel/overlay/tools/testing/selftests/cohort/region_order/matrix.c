// SPDX-License-Identifier: GPL-2.0-only
/* The cases: each question, once for each order and policy. */
#include "matrix.h"

#define MAX_CASES	2000

static const char * const fs_names[] = { "tmpfs", "erofs" };
static const char * const policies[] = { "", ", wait", ", copy", ", wait, copy" };
static struct test_case cases[MAX_CASES];
static int n;
bool short_run;

void read_options(int argc, char **argv)
{
	page_size = sysconf(_SC_PAGESIZE);
	table_size = page_size * (page_size / sizeof(long));
	for (int i = 1; i < argc; i++)
		short_run |= !strcmp(argv[i], "-q");
}

void add_questions(const struct question *questions, size_t nr)
{
	for (size_t q = 0; q < nr; q++)
		for (int order = 0; order <= pmd_order(); order++)
			for (int policy = 0; policy <= (WAIT | COPY); policy++) {
				char *desc;

				if (order == 1 || (!order && policy))
					continue;
				if (short_run && ((order != 0 && order != 2 && order != 4 &&
						   order != pmd_order()) ||
						  ((policy & COPY) && !questions[q].copies) ||
						  ((policy & WAIT) && order == 2)))
					continue;
				if (asprintf(&desc, "%s: order %d%s", questions[q].desc, order,
					     policies[policy]) < 0)
					ksft_exit_fail_perror("asprintf");
				cases[n].desc = desc;
				cases[n].fn = questions[q].fn;
				cases[n].guards = questions[q].guards;
				cases[n++].arg = ARG(order, policy);
			}
}

void add_file_questions(const struct file_question *questions, size_t nr)
{
	for (size_t q = 0; q < nr; q++)
		for (int order = 0; order <= pmd_order(); order++)
			for (int pick = 0; pick < 4; pick++) {
				int policy = pick & 1 ? WAIT : 0;
				enum fs fs = pick & 2 ? IMAGE : TMPFS;
				char *desc;

				if (order == 1 || (!order && policy) ||
				    !(questions[q].where & KIND(fs)))
					continue;
				if ((questions[q].where & ON_DISK) && !order)
					continue;
				if (short_run && ((order != 0 && order != 2 && order != 6 &&
						   order != pmd_order()) ||
						  (policy && order != 6)))
					continue;
				if (asprintf(&desc, "%s: %s, order %d%s", questions[q].desc,
					     (questions[q].where & ON_DISK) ? "disk" : fs_names[fs],
					     order, policies[policy]) < 0)
					ksft_exit_fail_perror("asprintf");
				cases[n].desc = desc;
				cases[n].fn = questions[q].fn;
				cases[n].guards = questions[q].guards;
				cases[n++].arg = ON(ARG(order, policy), fs);
			}
}

void add_cases(const struct test_case *more, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		cases[n++] = more[i];
}

int run_orders(int argc, char **argv)
{
	keep_switches();
	return run_cases(argc, argv, cases, n);
}
