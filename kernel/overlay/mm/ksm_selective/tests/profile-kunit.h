/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Selective merging: tests of sets of pages and of their text. Included at the
 * end of profile.c, so that its statics can be tested.
 */
#ifdef CONFIG_KSM_SELECTIVE_KUNIT_TEST

#ifndef _MM_KSM_SELECTIVE_PROFILE_KUNIT_H
#define _MM_KSM_SELECTIVE_PROFILE_KUNIT_H

#include <kunit/test.h>

/* Every page that was set is found, in order, and no other. */
static void ksm_test_runs(struct kunit *test)
{
	static const unsigned long pages[] = {
		3, 4, 5, 510, 511, 512, 513, 5000, 1UL << 30, (1UL << 30) + 1,
	};
	unsigned long from = 0, to, page, i, n = 0, was = ksm_profile_bytes;
	struct payer payer = { .bytes = sizeof(payer) };
	struct profile p = { .payer = &payer };

	list_add(&payer.node, &payers);
	nr_payers++;
	to = 1UL << 31;
	KUNIT_EXPECT_FALSE(test, next_run(&p, &from, &to));
	/* backwards, to see them sorted */
	for (i = ARRAY_SIZE(pages); i--; )
		set_page(&p, &payer, pages[i]);
	set_page(&p, &payer, 5);
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes - was, 4 * sizeof(struct chunk));
	KUNIT_EXPECT_EQ(test, payer.bytes, sizeof(payer) + 4 * sizeof(struct chunk));

	for (; next_run(&p, &from, &to); from = to, to = 1UL << 31)
		for (page = from; page < to; page++)
			KUNIT_EXPECT_EQ(test, page, pages[n++]);
	KUNIT_EXPECT_EQ(test, n, ARRAY_SIZE(pages));

	/* cut at both ends */
	from = 4;
	to = 5;
	KUNIT_EXPECT_TRUE(test, next_run(&p, &from, &to));
	KUNIT_EXPECT_EQ(test, from, 4);
	KUNIT_EXPECT_EQ(test, to, 5);
	from = 6;
	to = 510;
	KUNIT_EXPECT_FALSE(test, next_run(&p, &from, &to));
	from = 514;
	to = 5000;
	KUNIT_EXPECT_FALSE(test, next_run(&p, &from, &to));

	empty(&p);
	list_del(&payer.node);
	nr_payers--;
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, was);
}

/* Profiles stay within the limit, and pages that are refused are counted. */
static void ksm_test_bound(struct kunit *test)
{
	unsigned long max = ksm_profile_max_bytes, refused = ksm_profile_refused;
	unsigned long from = 0, to = ULONG_MAX >> PAGE_SHIFT;
	struct payer payer = { .bytes = sizeof(payer) };
	struct profile p = { .payer = &payer };
	int i;

	list_add(&payer.node, &payers);
	nr_payers++;
	ksm_profile_max_bytes = ksm_profile_bytes + 2 * sizeof(struct chunk);
	for (i = 0; i < 5; i++)
		set_page(&p, &payer, i * CHUNK_PAGES);
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, ksm_profile_max_bytes);
	KUNIT_EXPECT_EQ(test, ksm_profile_refused - refused, 3);
	KUNIT_EXPECT_EQ(test, set_range(&p, &payer, 0, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, set_range(&p, &payer, 0, 8UL << 20), -ENOSPC);
	KUNIT_EXPECT_TRUE(test, next_run(&p, &from, &to));
	empty(&p);
	list_del(&payer.node);
	nr_payers--;
	ksm_profile_max_bytes = max;
	ksm_profile_refused = refused;
}

static ssize_t write_text(const char *text)
{
	char buf[256];

	strscpy(buf, text);
	return ksm_profile_write(buf, strlen(buf));
}

/* Text that was read can be written and is read again, at any size of reads. */
static void ksm_test_text(struct kunit *test)
{
	static const char text[] =
		"global 10000-12000\n"
		"global 7f000000-7f003000\n"
		"known a\\x20b 1000\n"
		"app 10000-11000 a\\x20b 1000\n";
	static const struct ksm_app app = { .user = KUIDT_INIT(1000), .name = "a b" };
	char out[256];
	size_t step, n;
	ssize_t len;

	KUNIT_ASSERT_EQ(test, ksm_profile_bytes, 0);	/* at boot, before all others */
	KUNIT_EXPECT_EQ(test, write_text(text), strlen(text));
	KUNIT_EXPECT_NOT_NULL(test, find_app(&app));
	for (step = 1; step < sizeof(out); step += 13) {
		memset(out, 0, sizeof(out));
		for (n = 0; n + step < sizeof(out); n += len) {
			len = ksm_profile_read(out + n, n, step);
			KUNIT_ASSERT_GE(test, len, 0);
			KUNIT_ASSERT_LE(test, len, step);
			if (!len)
				break;
		}
		KUNIT_EXPECT_STREQ(test, out, text);
	}
	KUNIT_EXPECT_EQ(test, write_text("clear\n"), 6);
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
	KUNIT_EXPECT_EQ(test, write_text(out), strlen(text));
	memset(out, 0, sizeof(out));
	ksm_profile_read(out, 0, sizeof(out) - 1);
	KUNIT_EXPECT_STREQ(test, out, text);
	write_text("clear");
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
}

/* Text that is not a profile is refused and adds nothing. */
static void ksm_test_bad_text(struct kunit *test)
{
	static const char *const bad[] = {
		"global", "global ", "global 1000", "global 1000-", "global -2000",
		"global 2000-1000\n", "global 1000-1000", "global 1001-2000",
		"global 1000-2001", "global 1000-2000 x", "global 1000-2000x",
		"global 1000-ffffffffffffffff000", "global 1000-fffffffffffff000",
		"app 1000-2000", "app 1000-2000 ", "app x-y z", "known", "known ",
		"known a_name_that_is_too_long", "known x y", "known x -1",
		"known x 4294967295", "known x 1 ", "app 1000-2000 x 1 2", "clean", "clear all", "globals 1000-2000",
	};
	int i;

	KUNIT_ASSERT_EQ(test, ksm_profile_bytes, 0);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, write_text(bad[i]), -EINVAL, "'%s'", bad[i]);
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
	/* the part of a line that ends in the next write */
	KUNIT_EXPECT_EQ(test, write_text("global 1000-2000\nglob"), 17);
	write_text("clear");
}

static struct ksm_app ksm_test_app(const char *name, unsigned int user)
{
	struct ksm_app app = { .user = KUIDT_INIT(user) };

	strscpy(app.name, name);
	return app;
}

static bool ksm_test_scan(const char *name, unsigned long merged)
{
	struct ksm_app app = ksm_test_app(name, 0);
	struct profile *p;
	bool known;

	ksm_profile_begin(&app);
	if (merged)
		ksm_profile_merged(&app, merged);
	ksm_profile_end(&app);
	mutex_lock(&profile_mutex);
	p = find_app(&app);
	known = p && p->known;
	mutex_unlock(&profile_mutex);
	return known;
}

/* A process that merged with no other does not make its application known. */
static void ksm_test_known(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, ksm_profile_bytes, 0);
	ksm_scope = KSM_SCOPE_APP;
	KUNIT_EXPECT_FALSE(test, ksm_test_scan("a", 0));
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
	KUNIT_EXPECT_TRUE(test, ksm_test_scan("a", PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, ksm_test_scan("a", 0));
	KUNIT_EXPECT_FALSE(test, ksm_test_scan("b", 0));
	/* A scan that learns from all dormant processes does. */
	ksm_learning = true;
	KUNIT_EXPECT_TRUE(test, ksm_test_scan("b", 0));
	ksm_learning = false;
	/* An application that does not fit is not known. */
	write_text("clear");
	ksm_profile_max_bytes = sizeof(struct profile);
	KUNIT_EXPECT_FALSE(test, ksm_test_scan("a", PAGE_SIZE));
	ksm_profile_max_bytes = 1 << 20;
	ksm_profile_refused = 0;
	ksm_scope = KSM_SCOPE_ALL;
	write_text("clear");
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
}

/* Pages merge in an application, each in a chunk of its own. */
static void ksm_test_merge(const char *name, unsigned int user, int from, int to)
{
	struct ksm_app app = ksm_test_app(name, user);
	int i;

	for (i = from; i < to; i++)
		ksm_profile_merged(&app, (i * CHUNK_PAGES) << PAGE_SHIFT);
}

static int ksm_test_chunks(const char *name, unsigned int user)
{
	struct ksm_app app = ksm_test_app(name, user);
	struct profile *p = find_app(&app);
	struct rb_node *node;
	int n = 0;

	if (!p)
		return -1;
	for (node = rb_first(&p->chunks); node; node = rb_next(node))
		n++;
	return n;
}

/* A name of one user's says nothing about another's processes. */
static void ksm_test_users(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, ksm_profile_bytes, 0);
	ksm_test_merge("a", 1000, 0, 3);
	ksm_test_merge("a", 1001, 0, 1);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("a", 0), -1);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("a", 1000), 3);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("a", 1001), 1);
	write_text("clear");
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
	KUNIT_EXPECT_EQ(test, nr_payers, 0);
}

/* Whatever others fill, a user has its share, and keeps it. */
static void ksm_test_shares(struct kunit *test)
{
	unsigned long max = ksm_profile_max_bytes, refused = ksm_profile_refused;
	char name[TASK_COMM_LEN];
	int i, user;

	KUNIT_ASSERT_EQ(test, ksm_profile_bytes, 0);
	ksm_profile_max_bytes = 40 * sizeof(struct paid_chunk);
	/* alone it gets all, by names or in the global set */
	for (i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "name%d", i);
		ksm_test_merge(name, 1000, i, i + 1);
	}
	KUNIT_EXPECT_GT(test, ksm_profile_bytes,
			ksm_profile_max_bytes - 2 * sizeof(struct paid_chunk));
	KUNIT_EXPECT_GT(test, ksm_profile_refused, refused);
	/* less than a half of it is another's, and a third's */
	ksm_test_merge("a", 0, 200, 205);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("a", 0), 5);
	ksm_test_merge("b", 1001, 300, 303);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("b", 1001), 3);
	/* and stays so when the first goes on */
	for (user = 1000; user <= 1001; user++)
		ksm_test_merge("more", user, 400, 500);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("a", 0), 5);
	KUNIT_EXPECT_EQ(test, ksm_test_chunks("b", 1001), 3);
	KUNIT_EXPECT_LE(test, ksm_profile_bytes, ksm_profile_max_bytes);
	write_text("clear");
	KUNIT_EXPECT_EQ(test, ksm_profile_bytes, 0);
	ksm_profile_max_bytes = max;
	ksm_profile_refused = refused;
}

static struct kunit_case ksm_profile_cases[] = {
	KUNIT_CASE(ksm_test_runs),
	KUNIT_CASE(ksm_test_bound),
	KUNIT_CASE(ksm_test_text),
	KUNIT_CASE(ksm_test_bad_text),
	KUNIT_CASE(ksm_test_known),
	KUNIT_CASE(ksm_test_users),
	KUNIT_CASE(ksm_test_shares),
	{}
};

static struct kunit_suite ksm_profile_suite = {
	.name = "ksm_selective_profile",
	.test_cases = ksm_profile_cases,
};

kunit_test_suite(ksm_profile_suite);

#endif
#endif
