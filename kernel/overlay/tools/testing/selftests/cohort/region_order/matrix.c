// SPDX-License-Identifier: GPL-2.0-only
/* The cases: each question, once per order and policy of a table. */
#include "matrix.h"

#define MAX_CASES	2000

static const char * const fs_names[] = { "tmpfs", "erofs" };
static const char * const policies[] = { "", ", wait", ", copy", ", wait, copy" };
static struct test_case cases[MAX_CASES];
static int n;

#define P(policy)	(1u << (policy))
#define NONE_OR_WAIT	(P(0) | P(WAIT))
#define ALL_POLICIES	(NONE_OR_WAIT | P(COPY) | P(WAIT | COPY))
#define LARGEST		-1	/* pmd_order() */
#define OTHERS		-2	/* each order that has no row of its own */

/* the policies that an order is tested with; order 1 does not exist */
struct row {
	int order;
	unsigned int full, quick;
};

static const struct row anon_rows[] = {
	{ 0, P(0), P(0) },
	{ 2, ALL_POLICIES, P(0) | P(COPY) },
	{ 4, ALL_POLICIES, ALL_POLICIES },
	{ OTHERS, ALL_POLICIES, 0 },
	{ LARGEST, ALL_POLICIES, ALL_POLICIES },
};

static const struct row file_rows[] = {
	{ 0, P(0), P(0) },
	{ 2, NONE_OR_WAIT, P(0) },
	{ 6, NONE_OR_WAIT, NONE_OR_WAIT },
	{ OTHERS, NONE_OR_WAIT, 0 },
	{ LARGEST, NONE_OR_WAIT, P(0) },
};

static unsigned int policies_of(const struct row *rows, size_t nr, int order)
{
	const struct row *found = NULL;

	if (order == 1)
		return 0;
	for (size_t i = 0; i < nr; i++)
		if (rows[i].order == order || (rows[i].order == LARGEST && order == pmd_order()) ||
		    (rows[i].order == OTHERS && !found))
			found = &rows[i];
	return quick ? found->quick : found->full;
}

/* "WHAT: [WHERE, ]order N[, wait][, copy]" */
static void add_case(const char *desc, const char *where, void (*fn)(long arg), long arg,
		     unsigned int guards)
{
	struct test_case *c = &cases[n++];
	char *text;

	if (asprintf(&text, "%s: %s%sorder %d%s", desc, where, *where ? ", " : "", ARG_ORDER(arg),
		     policies[ARG_POLICY(arg)]) < 0)
		ksft_exit_fail_perror("asprintf");
	*c = (struct test_case){ .desc = text, .fn = fn, .arg = arg, .guards = guards };
}

void add_questions(const struct question *questions, size_t nr)
{
	for (const struct question *q = questions; q < questions + nr; q++)
		for (int order = 0; order <= pmd_order(); order++) {
			unsigned int asked = policies_of(anon_rows, ARRAY_SIZE(anon_rows), order);

			/* a quick run tests copying only where it matters */
			if (quick && !q->copies)
				asked &= NONE_OR_WAIT;
			for (int policy = 0; policy <= (WAIT | COPY); policy++)
				if (asked & P(policy))
					add_case(q->desc, "", q->fn, ARG(order, policy), q->guards);
		}
}

static void add_file_cases(const struct file_question *q, int order, enum fs fs)
{
	unsigned int asked = policies_of(file_rows, ARRAY_SIZE(file_rows), order);
	const char *where = q->where & ON_DISK ? "disk" : fs_names[fs];

	/* order 0 is what such a file has anyway */
	if (!(q->where & KIND(fs)) || (q->where & ON_DISK && !order))
		return;
	for (int policy = 0; policy <= WAIT; policy++)
		if (asked & P(policy))
			add_case(q->desc, where, q->fn, ON(ARG(order, policy), fs), q->guards);
}

void add_file_questions(const struct file_question *questions, size_t nr)
{
	for (const struct file_question *q = questions; q < questions + nr; q++)
		for (int order = 0; order <= pmd_order(); order++)
			for (enum fs fs = TMPFS; fs <= IMAGE; fs++)
				add_file_cases(q, order, fs);
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
