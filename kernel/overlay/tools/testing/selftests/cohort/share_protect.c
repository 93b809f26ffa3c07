// SPDX-License-Identifier: GPL-2.0-only
/*
 * What protects the private memory in a shared table: the entry above, which denies
 * writing to all of it, or each entry (cohort_protect=).
 */
#include "common.h"

#include <sys/ptrace.h>

#define PRIVATE_TAG	1u
#define SHARED_TAG	2u
#define NEW_TAG		77u
#define POKED_TAG	88u

static char *private_page, *shared_page;	/* in one table */

/* does each entry protect itself? */
static bool by_entry(void)
{
	char buf[64];

	must(read_text(COHORT_SYSFS "protect", buf, sizeof(buf)) > 0, "no %sprotect",
	     COHORT_SYSFS);
	return strstr(buf, "[pte]");
}

/* private and shared memory side by side, and two children */
static void start(void)
{
	char *base = arena(1);
	int fd = make_file("tmpfs", 4);

	if (!sharing_possible())
		skip("this kernel shares no tables now");
	private_page = map_at(base, 4 * page_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared_page = map_at(base + 8 * page_size, 4 * page_size, PROT_READ | PROT_WRITE,
			     MAP_SHARED, fd, 0);
	madvise(private_page, 4 * page_size, MADV_NOHUGEPAGE);
	page_fill(private_page, PRIVATE_TAG);
	page_fill(shared_page, SHARED_TAG);
	become_zygote();
	spawn(1);
	spawn(2);
	for (int i = 1; i <= 2; i++)
		ask(i, nothing, 0, 0);
}

static long fill(long addr, long tag)
{
	page_fill((char *)addr, tag);
	return 0;
}

static long is(long addr, long tag)
{
	return page_is((char *)addr, tag);
}

static void all_see(char *page, unsigned int tag, int but)
{
	for (int i = 0; i <= 2; i++)
		if (i != but)
			sees(ask(i, is, (long)page, tag), "process %d does not see %u", i, tag);
}

/* the tables of a child that are not shared any more after a step */
static long left_by(int who, void (*step)(int who))
{
	long before = shared_tables(pid_of(who));

	step(who);
	return before - shared_tables(pid_of(who));
}

static void fill_shared(int who)
{
	ask(who, fill, (long)shared_page, NEW_TAG);
}

static void fill_private(int who)
{
	ask(who, fill, (long)private_page, NEW_TAG);
}

static void poke(int who, char *page)
{
	char *text = aligned_alloc(page_size, page_size);
	pid_t pid = pid_of(who);
	int status;

	page_fill(text, POKED_TAG);
	if (ptrace(PTRACE_SEIZE, pid, 0, 0))
		skip("ptrace: %s", strerror(errno));
	must_call(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
	must(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status),
	     "the traced process does not hold still");
	for (size_t i = 0; i < page_size; i += sizeof(long))
		must_call(ptrace(PTRACE_POKEDATA, pid, page + i, *(long *)(text + i)));
	must_call(ptrace(PTRACE_DETACH, pid, 0, 0));
	free(text);
}

static void poke_shared(int who)
{
	poke(who, shared_page);
}

static void poke_private(int who)
{
	poke(who, private_page);
}

static void test_shared(long poked)
{
	void (*step)(int) = poked ? poke_shared : fill_shared;
	unsigned int tag = poked ? POKED_TAG : NEW_TAG;

	start();
	/* through the table, if only entries of private memory deny writing */
	must(left_by(1, step) == !by_entry(), "the child that writes %s the table",
	     by_entry() ? "leaves" : "keeps");
	all_see(shared_page, tag, -1);
	all_see(private_page, PRIVATE_TAG, -1);
	must(left_by(2, step) == !by_entry(), "the second child that writes %s the table",
	     by_entry() ? "leaves" : "keeps");
	all_see(shared_page, tag, -1);
	all_see(private_page, PRIVATE_TAG, -1);
}

static void test_private(long poked)
{
	void (*step)(int) = poked ? poke_private : fill_private;
	unsigned int tag = poked ? POKED_TAG : NEW_TAG;

	start();
	must(left_by(1, step) == 1, "the child that writes private memory keeps the table");
	sees(ask(1, is, (long)private_page, tag), "the child does not see what it wrote");
	all_see(private_page, PRIVATE_TAG, 1);
	all_see(shared_page, SHARED_TAG, -1);
	/* the others are still apart */
	page_fill(private_page, 5);
	sees(ask(2, is, (long)private_page, PRIVATE_TAG), "a child sees its parent's write");
	sees(ask(1, is, (long)private_page, tag), "a child sees its parent's write");
}

/* The last user takes the table back, writes, and forks again. */
static void test_last(long unused)
{
	start();
	munmap(private_page, 4 * page_size);
	munmap(shared_page, 4 * page_size);
	quit(1);
	ask(2, fill, (long)private_page, NEW_TAG);
	sees(ask(2, is, (long)private_page, NEW_TAG), "the last user does not see its write");
	spawn_from(2, 3);
	ask(3, nothing, 0, 0);
	ask(2, fill, (long)private_page, 5);
	sees(ask(3, is, (long)private_page, NEW_TAG), "a child sees its parent's write");
	ask(3, fill, (long)private_page, 6);
	sees(ask(2, is, (long)private_page, 5), "the parent sees its child's write");
	sees(ask(3, is, (long)shared_page, SHARED_TAG), "the shared page has changed");
}

static const struct test_case cases[] = {
	{ "Does a store to shared memory beside private memory reach all?", test_shared, 0,
	  .guards = INVARIANT(2) | POLICY },
	{ "Does ptrace's write to shared memory beside private memory reach all?", test_shared, 1,
	  .guards = INVARIANT(2) | POLICY },
	{ "Does a store to private memory beside shared memory stay apart?", test_private, 0,
	  .guards = INVARIANT(2) },
	{ "Does ptrace's write to private memory beside shared memory stay apart?", test_private,
	  1, .guards = INVARIANT(2) },
	{ "Is the last user's next child protected again?", test_last,
	  .guards = INVARIANT(2) | INVARIANT(5) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
