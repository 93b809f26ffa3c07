// SPDX-License-Identifier: GPL-2.0-only
/*
 * Nobody gains by sharing, and nobody pays for it: the OOM killer takes whom it would take if each
 * process had tables of its own.
 */
#include "fair/group.h"

static void check_victim(int n, void (*touch)(void), size_t size, size_t more)
{
	pid_t zygote;
	int status = fill_group(n, touch, size, more, &zygote);

	/* The last sharer may count as gone before all its memory is free, as on stock. */
	must((WIFEXITED(status) && !WEXITSTATUS(status)) ||
	     group_number("memory.events", "oom_kill") == n + 2,
	     "a process smaller than each of %d sharers was killed before one of them", n + 1);
	must(waitpid(zygote, NULL, 0) == zygote, "waitpid: %s", strerror(errno));
	end_group();
}

/* On a stock kernel each of the sharers is the largest process. */
static void test_victim(long n)
{
	choose_size();
	check_victim(n, touch_memory, len / 2, len / 8);
}

/* What processors have charged ahead must not be enough for another process to grow. */
static void need_few_cpus(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) > 6)
		skip("too many processors for a group of little memory");
}

/*
 * The same where each sharer maps four pages of each of its tables, which nobody has
 * counted: it is as large as these and the tables.
 */
static void test_victim_sparse(long n)
{
	need_few_cpus();
	check_victim(n, touch_others, SPARSE_TABLES * 3 * page_size,
		     SPARSE_TABLES * page_size);
}

/* The other way round: one page of each table, and the other process is the largest. */
static void test_larger(long n)
{
	pid_t zygote;
	int status;

	need_few_cpus();
	status = fill_group(n, touch_first, SPARSE_TABLES * 4 * page_size,
			    SPARSE_TABLES * page_size, &zygote);
	must(WIFSIGNALED(status),
	     "%ld sharers half as large as another process were killed before it",
	     group_number("memory.events", "oom_kill"));
	must(group_number("memory.events", "oom_kill") == 1, "others were killed, too");
	end_group();
}

/*
 * So many pages of a process that ends, at most, are freed after the OOM killer has begun to
 * look for another one, on a stock kernel, too. What is below them is free by then.
 */
#define LATE_PAGES	10000

static int file;
static char *own;

static void touch_file(void)
{
	own = arena(len / 2 / table_size);
	memory = map_at(arena(len / table_size), len, PROT_READ, MAP_PRIVATE, file, 0);
	for (size_t at = 0; at < len; at += table_size)
		touch(memory + at);
}

/*
 * The first child reads the whole file, and has less memory of its own than the second, which
 * reads nothing.
 */
static void fill_or_not(int said)
{
	size_t size = len / (number ? 2 : 4);

	map_at(own, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(own, 1, size);
	for (size_t at = 0; !number && at < len; at += page_size)
		touch(memory + at);
	report(said);
}

/*
 * Until a process looks, it counts for what it filled of the shared tables itself, and not for
 * what a sibling did: as on a stock kernel. So nobody reads a process's files here before the
 * OOM killer comes.
 */
static void test_filled(long arg)
{
	int said[2], go[2], status;
	pid_t zygote;

	choose_size();
	if (len / page_size < LATE_PAGES)
		skip("too few pages");
	/* from outside of the group, which is not charged for the file */
	file = make_file("tmpfs", len / page_size);
	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	zygote = start_group(2, touch_file, fill_or_not, said[1], go[0]);
	wait_for(said[0], 3);
	must(write(go[1], "go", 2) == 2, "the children are gone");
	wait_for(said[0], 2);
	status = fill_up(len / 2, len / 8);
	must(WIFEXITED(status) && !WEXITSTATUS(status),
	     "a process smaller than who has read the file was killed");
	must(is_gone(board->word[CHILD]), "who has read the file was not killed");
	must(group_number("memory.events", "oom_kill") == 1, "others were killed, too");
	must(!is_gone(board->word[CHILD + 1]) && !is_gone(zygote), "others are gone, too");
	end_group();
}

#define NOBODY	65534

/* The call marks the process, which gets tables of its own before the call returns. */
static void become_nobody(int said)
{
	long answer = seteuid(NOBODY) ? -errno : 1;

	__atomic_store_n(&board->word[ANSWER], answer, __ATOMIC_SEQ_CST);
}

/* A sharer of a full group becomes another user, beside a larger process. */
static void test_other_user(long arg)
{
	int said[2], go[2], never[2];
	pid_t zygote, child, other;
	long answer, killed;

	if (geteuid())
		skip("not root, so nobody else can be had");
	need_few_cpus();
	if (sysconf(_SC_AVPHYS_PAGES) < 4 * LATE_PAGES)
		skip("too little memory");
	len = SPARSE_TABLES * table_size;
	map_memory();
	make_group();
	must_call(pipe(said));
	must_call(pipe(go));
	must_call(pipe(never));
	zygote = start_group(1, touch_many, become_nobody, said[1], go[0]);
	wait_for(said[0], 2);
	child = board->word[CHILD];
	other = fork();
	if (!other)
		grow(2 * LATE_PAGES * page_size, 0, said[1], never[0]);
	wait_for(said[0], 1);
	limit_group(0);
	must(write(go[1], "", 1) == 1, "the child is gone");
	answer = wait_answer();
	must(answer, "who becomes another user was killed");
	must(answer == 1, "seteuid: %s", strerror(-answer));
	killed = group_number("memory.events", "oom_kill");
	must(!is_gone(child) && !is_gone(zygote), "a sharer was killed before a larger process");
	must(killed <= 1, "%ld processes were killed", killed);
	/* It ends late: its memory is many pages. */
	for (int i = 0; killed && i < 3000 && !is_gone(other); i++)
		usleep(10000);
	must(!killed || is_gone(other), "another than the larger process was killed");
	if (sharing_possible()) {
		must(killed, "memory was not short");
		must(!shared_tables(child), "another user shares %ld tables", shared_tables(child));
	}
	check_pages(zygote, "the zygote", 0);
	check_pages(child, "the child", 0);
	end_group();
}

static const struct test_case cases[] = {
	{ "Does the OOM killer take one of two sharers before a smaller process?", test_victim, 1,
	  .guards = INVARIANT(14) },
	{ "Does the OOM killer take one of eight sharers before a smaller process?", test_victim, 7,
	  .guards = INVARIANT(14) },
	{ "Does the OOM killer take one of four sharers of sparse tables before a smaller process?",
	  test_victim_sparse, 3, .guards = INVARIANT(14) },
	{ "Does the OOM killer take a larger process before four sharers of sparse tables?",
	  test_larger, 3, .guards = INVARIANT(14) },
	{ "Does the OOM killer take who has read a file, and not a sibling that has not?",
	  test_filled, .guards = INVARIANT(14) },
	{ "Does the OOM killer take a larger process before who becomes another user?",
	  test_other_user, .guards = INVARIANT(14) | PRIVILEGE },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
