/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: tests of the states of a process. Included at the end of
 * state.c, so that its statics can be tested.
 */
#ifdef CONFIG_KSM_SELECTIVE_KUNIT_TEST

#ifndef _MM_KSM_SELECTIVE_STATE_KUNIT_H
#define _MM_KSM_SELECTIVE_STATE_KUNIT_H

#include <kunit/test.h>

static const unsigned int reasons[] = {
	KSM_DORMANT_WRITTEN, KSM_DORMANT_FROZEN, KSM_DORMANT_OOM,
};

/* An active process is never scanned. */
static void ksm_test_active(struct kunit *test)
{
	unsigned int state = 0;

	KUNIT_EXPECT_FALSE(test, state_begin(&state));
	KUNIT_EXPECT_FALSE(test, state_end(&state));
	KUNIT_EXPECT_FALSE(test, state_forget(&state));
	KUNIT_EXPECT_EQ(test, state, 0);
}

/* A process that becomes dormant is scanned once. */
static void ksm_test_once(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		unsigned int state = 0;

		KUNIT_EXPECT_TRUE(test, state_set(&state, reasons[i]));
		KUNIT_EXPECT_TRUE(test, state_begin(&state));
		KUNIT_EXPECT_TRUE(test, state & KSM_SCANNING);
		KUNIT_EXPECT_TRUE(test, state_end(&state));
		KUNIT_EXPECT_EQ(test, state, reasons[i] | KSM_SCANNED);
		KUNIT_EXPECT_FALSE(test, state_begin(&state));
		/* The same reason again changes nothing. */
		KUNIT_EXPECT_FALSE(test, state_set(&state, reasons[i]));
		KUNIT_EXPECT_FALSE(test, state_begin(&state));
	}
}

/* After it has been active it is scanned again. */
static void ksm_test_again(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		unsigned int state = reasons[i] | KSM_SCANNED;

		KUNIT_EXPECT_FALSE(test, state_clear(&state, reasons[i]));
		KUNIT_EXPECT_EQ(test, state, 0);
		KUNIT_EXPECT_FALSE(test, state_begin(&state));
		KUNIT_EXPECT_TRUE(test, state_set(&state, reasons[i]));
		KUNIT_EXPECT_TRUE(test, state_begin(&state));
	}
}

/* Waking ends a scan, even if the process is dormant again at once. */
static void ksm_test_woken(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		unsigned int state = reasons[i];

		KUNIT_EXPECT_TRUE(test, state_begin(&state));
		state_clear(&state, reasons[i]);
		KUNIT_EXPECT_FALSE(test, state & KSM_SCANNING);
		KUNIT_EXPECT_FALSE(test, state_end(&state));

		state = reasons[i];
		KUNIT_EXPECT_TRUE(test, state_begin(&state));
		state_clear(&state, reasons[i]);
		KUNIT_EXPECT_TRUE(test, state_set(&state, reasons[i]));
		KUNIT_EXPECT_FALSE(test, state & KSM_SCANNING);
		KUNIT_EXPECT_FALSE(test, state_end(&state));
		KUNIT_EXPECT_TRUE(test, state_begin(&state));
	}
}

/* A second reason changes nothing, and nor does its end. */
static void ksm_test_two_reasons(struct kunit *test)
{
	unsigned int state = KSM_DORMANT_WRITTEN | KSM_SCANNED;

	KUNIT_EXPECT_FALSE(test, state_set(&state, KSM_DORMANT_OOM));
	KUNIT_EXPECT_TRUE(test, state & KSM_SCANNED);
	KUNIT_EXPECT_FALSE(test, state_clear(&state, KSM_DORMANT_WRITTEN));
	KUNIT_EXPECT_EQ(test, state, KSM_DORMANT_OOM | KSM_SCANNED);
	/* Nor does the end of a reason that it did not have. */
	KUNIT_EXPECT_FALSE(test, state_clear(&state, KSM_DORMANT_WRITTEN));
	KUNIT_EXPECT_EQ(test, state, KSM_DORMANT_OOM | KSM_SCANNED);
	/* But a process that is frozen or thawed has run meanwhile. */
	KUNIT_EXPECT_TRUE(test, state_set(&state, KSM_DORMANT_FROZEN));
	KUNIT_EXPECT_FALSE(test, state & KSM_SCANNED);
	KUNIT_EXPECT_TRUE(test, state_begin(&state));
	KUNIT_EXPECT_TRUE(test, state_clear(&state, KSM_DORMANT_FROZEN));
	KUNIT_EXPECT_EQ(test, state, KSM_DORMANT_OOM);
}

/* After an unmerge all dormant processes are scanned again, and no others. */
static void ksm_test_forget(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		unsigned int state = reasons[i] | KSM_SCANNED;

		KUNIT_EXPECT_TRUE(test, state_forget(&state));
		KUNIT_EXPECT_TRUE(test, state_begin(&state));
		KUNIT_EXPECT_TRUE(test, state_forget(&state));
		KUNIT_EXPECT_FALSE(test, state_end(&state));
		KUNIT_EXPECT_EQ(test, state, reasons[i]);
	}
}

/* A forked process starts active and becomes dormant like any other. */
static void ksm_test_fork(struct kunit *test)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(reasons); i++) {
		struct ksm_selective s = { .state = KSM_FORKED };

		KUNIT_EXPECT_FALSE(test, ksm_selective_settled(&s));
		KUNIT_EXPECT_FALSE(test, __ksm_selective_begin(&s));
		KUNIT_EXPECT_TRUE(test, state_set(&s.state, reasons[i]));
		KUNIT_EXPECT_TRUE(test, __ksm_selective_begin(&s));
		KUNIT_EXPECT_TRUE(test, ksm_selective_scanning(&s));
		KUNIT_EXPECT_TRUE(test, __ksm_selective_end(&s));
		KUNIT_EXPECT_TRUE(test, ksm_selective_settled(&s));
		state_clear(&s.state, reasons[i]);
		/* It stays one. */
		KUNIT_EXPECT_EQ(test, s.state, KSM_FORKED);
	}
}

static struct kunit_case ksm_state_cases[] = {
	KUNIT_CASE(ksm_test_active),
	KUNIT_CASE(ksm_test_once),
	KUNIT_CASE(ksm_test_again),
	KUNIT_CASE(ksm_test_woken),
	KUNIT_CASE(ksm_test_two_reasons),
	KUNIT_CASE(ksm_test_forget),
	KUNIT_CASE(ksm_test_fork),
	{}
};

static struct kunit_suite ksm_state_suite = {
	.name = "ksm_selective_state",
	.test_cases = ksm_state_cases,
};

kunit_test_suite(ksm_state_suite);

#endif
#endif
