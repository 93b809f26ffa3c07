// SPDX-License-Identifier: GPL-2.0-only
/*
 * A memory cgroup with a zygote and its children, to which the case sets limits.
 */
#include "group.h"

#include <poll.h>

static void put_bytes(const char *file, long bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", bytes);
	group_put(file, text);
}

/* From now on the group may use @more bytes more than it does. */
void limit_group(long more)
{
	/*
	 * What processors have charged ahead counts as used. A limit below takes it back, by
	 * workers.
	 */
	put_bytes("memory.high", group_number("memory.current", NULL) - page_size);
	usleep(50000);
	group_put("memory.high", "max");
	put_bytes("memory.max", group_number("memory.current", NULL) + more);
}

/*
 * Wait for a byte of each of @n processes. One that was killed writes none, and others keep
 * the pipe open: give up before the case counts as hung.
 */
void wait_for(int fd, int n)
{
	struct pollfd pipe = { .fd = fd, .events = POLLIN };
	char c;

	while (n--)
		must(poll(&pipe, 1, case_seconds * 500) == 1 && read(fd, &c, 1) == 1,
		     "a process ended too soon");
}

void report(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(1);
}

int number;	/* of a child in its group, from 0 */

/* A zygote in the group, with @n children that map the memory it touches and do @what. */
pid_t start_group(int n, void (*touch)(void), void (*what)(int said), int said, int go)
{
	pid_t pid = fork();
	char c;

	must(pid >= 0, "fork: %s", strerror(errno));
	if (pid)
		return pid;
	group_put("cgroup.procs", "0");
	touch();
	become_zygote();
	for (int i = 0; i < n; i++) {
		if (fork())
			continue;
		/* What the child stores to later is its own before the limit is reached. */
		*(volatile char *)&c = 0;
		number = i;
		board->word[CHILD + i] = getpid();
		report(said);
		if (read(go, &c, 1) != 1)
			_exit(1);
		what(said);
		pause();
	}
	report(said);
	pause();
	_exit(0);
}

void end_group(void)
{
	group_put("cgroup.kill", "1");
	while (wait(NULL) > 0 || errno == EINTR)
		;
	remove_group();
}

void do_nothing(int said)
{
}

/* Wait until the child of a full group has answered, or was killed. */
long wait_answer(void)
{
	for (int i = 0; i < 6000; i++) {
		long said = __atomic_load_n(&board->word[ANSWER], __ATOMIC_SEQ_CST);

		if (said || is_gone(board->word[CHILD]))
			return said;
		usleep(10000);
	}
	fail("no answer");
	return 0;
}

/* Is each touched page of each table, from page @first on, as it was? */
void check_pages(pid_t pid, const char *who, int first)
{
	for (size_t at = 0; at < len; at += table_size)
		for (int page = first; page < KEPT; page++)
			sees(memory_byte(pid, memory + at + page * page_size) == 1,
			     "page %d of table %zu is wrong in %s", page, at / table_size, who);
}

/* In the group, but not of the cohort: of this size, and growing. */
void grow(size_t size, size_t more, int said, int go)
{
	char *p, c;

	group_put("cgroup.procs", "0");
	p = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		_exit(1);
	memset(p, 1, size);
	report(said);
	if (read(go, &c, 1) != 1)
		_exit(1);
	memset(p + size, 1, more);
	_exit(0);
}

/*
 * Fill the memory of the group with another process of @size bytes that grows by @more, which
 * ends with the status that it returns.
 */
int fill_up(size_t size, size_t more)
{
	int said[2], go[2], status;
	pid_t other;

	must_call(pipe(said));
	must_call(pipe(go));
	other = fork();
	if (!other)
		grow(size, more, said[1], go[0]);
	wait_for(said[0], 1);
	limit_group(page_size * 64);
	must(write(go[1], "", 1) == 1, "the other process is gone");
	must(waitpid(other, &status, 0) == other, "waitpid: %s", strerror(errno));
	must(group_number("memory.events", "oom_kill") > 0, "nobody was killed");
	return status;
}

/* The same in a group that has a zygote and its @n children. */
int fill_group(int n, void (*touch)(void), size_t size, size_t more, pid_t *zygote)
{
	int said[2], never[2];

	make_group();
	must_call(pipe(said));
	must_call(pipe(never));
	*zygote = start_group(n, touch, do_nothing, said[1], never[0]);
	wait_for(said[0], n + 1);
	return fill_up(size, more);
}
