// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sharing at fork: which tables are shared, and who sees what afterwards.
 */
#include "common.h"

#include <spawn.h>

static void test_shared(long arg)
{
	if (!sharing_possible())
		skip("this kernel shares no tables now");
	area_make(&area, arg);
	become_zygote();
	expect_shared(area.tables);
	spots_intact((long)&area, 0);
}

/* --- who sees which write ------------------------------------------------- */

static void test_visibility(long arg)
{
	area_make(&area, arg);
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	for (int i = 0; i <= 3; i++)
		model_init(&board->model[i], &area);

	/* the children see what the zygote had */
	model_check_all(4);

	/* the parent writes first, then each child, then all once more */
	ask(SELF, model_scribble, SELF, 4);
	model_check_all(4);
	for (int i = 1; i <= 3; i++) {
		ask(i, model_scribble, i, 4);
		model_check_all(4);
	}
	model_scribble_all(4);
	model_check_all(4);

	/* they exit one at a time */
	for (int i = 1; i <= 3; i++) {
		quit(i);
		board->model[i].n = 0;
		model_check_all(4);
	}
}

static void test_child_first(long arg)
{
	area_make(&area, arg);
	become_zygote();
	spawn(1);
	spawn(2);
	for (int i = 0; i <= 2; i++)
		model_init(&board->model[i], &area);
	/* no process has read anything when the child writes */
	ask(1, model_scribble, 1, 3);
	model_check_all(3);
	/* a child of the writer, with the table that is its own by now */
	spawn_from(1, 3);
	board->model[3] = board->model[1];
	model_check_all(4);
	ask(3, model_scribble, 3, 4);
	ask(1, model_scribble, 1, 4);
	model_check_all(4);
}

static void test_grandchildren(long arg)
{
	area_make(&area, arg);
	become_zygote();
	spawn(1);
	spawn_from(1, 2);
	spawn_from(2, 3);
	spawn_from(1, 4);
	for (int i = 0; i <= 4; i++)
		model_init(&board->model[i], &area);
	/* from the youngest to the oldest */
	for (int i = 4; i >= 0; i--) {
		ask(i, model_scribble, i, 5);
		model_check_all(5);
	}
}

static void test_parent_exits(long arg)
{
	/* the zygote is peer 1 here, because it is the one that goes first */
	area_make(&area, arg);
	become_zygote();
	spawn(1);
	area_unmap(&area);
	spawn_from(1, 2);
	spawn_from(1, 3);
	spawn_from(1, 4);
	for (int i = 2; i <= 4; i++)
		model_init(&board->model[i], &area);
	quit(1);
	model_check_all(5);
	ask(2, model_scribble, 2, 5);
	model_check_all(5);
	/* SIGKILL instead of an orderly exit */
	kill_peer(2);
	board->model[2].n = 0;
	model_check_all(5);
	ask(3, model_scribble, 3, 5);
	model_check_all(5);
	quit(3);
	board->model[3].n = 0;
	/* the last user owns the table: it can write, and fork again */
	model_check_all(5);
	spawn_from(4, 5);
	board->model[5] = board->model[4];
	ask(4, model_scribble, 4, 6);
	model_check_all(6);
	ask(5, model_scribble, 5, 6);
	model_check_all(6);
}

static void test_adopt(long arg)
{
	long adopted, copied;

	area_make(&area, arg);
	become_zygote();
	spawn(1);
	model_init(&board->model[1], &area);
	area_unmap(&area);
	adopted = vm_event("cohort_ptp_adopted");
	copied = vm_event("cohort_ptp_unshared_fault");
	ask(1, model_scribble, 1, 2);
	ask(1, model_check, 1, 0);
	if (!sharing_possible() || kind_shared(area.kind) || kind_readonly(area.kind))
		return;
	adopted = vm_event("cohort_ptp_adopted") - adopted;
	copied = vm_event("cohort_ptp_unshared_fault") - copied;
	must(adopted >= 1, "the last user adopted no table (%ld copied by faults)", copied);
}

static void test_generations(long arg)
{
	int n = quick ? 8 : 24;

	/* each generation writes a page of its own, forks and exits */
	area_make(&area, arg);
	become_zygote();
	need_peers(n);
	spawn(1);
	model_init(&board->model[SELF], &area);
	for (int i = 1; i < n; i++) {
		struct model *m = &board->model[1];

		model_init(m, &area);
		/* model 1 belongs to the living generation */
		if (i > 1) {
			for (int j = 0; j < m->n; j++)
				m->want[j].tag = board->word[j];
		}
		ask(i, model_check, 1, 0);
		ask(i, model_scribble, 1, 2);
		for (int j = 0; j < m->n; j++)
			board->word[j] = m->want[j].tag;
		spawn_from(i, i + 1);
		quit(i);
	}
	ask(SELF, model_check, SELF, 0);
	ask(n, model_check, 1, 0);
}

static void test_many(long arg)
{
	int n = quick ? 16 : 64, written = 0;

	area_make(&area, arg);
	become_zygote();
	need_peers(n);
	for (int i = 1; i <= n; i++)
		spawn(i);
	for (int i = 1; i <= n; i++)
		ask(i, spots_intact, (long)&area, 0);
	if (sharing_possible())
		must(shared_tables(pid_of(n)) >= area.tables, "child %d shares %ld tables", n,
		     shared_tables(pid_of(n)));
	/* only writers check the shared pages */
	for (int j = 0; j < area.nspots; j++)
		if (area.part[area.spot[j].part].shared)
			written++;
	if (written < area.nspots) {
		model_init(&board->model[2], &area);
		for (int j = 0; j < board->model[2].n; j++)
			if (board->model[2].want[j].shared)
				board->model[2].want[j--] =
					board->model[2].want[--board->model[2].n];
	}
	/* every second peer writes; every third is killed; the rest checks again */
	for (int i = 1; i <= n; i += 2) {
		model_init(&board->model[1], &area);
		ask(i, model_scribble, 1, 2);
		ask(i, model_check, 1, 0);
	}
	for (int i = 2; i <= n; i += 2)
		ask(i, model_check, 2, 0);
	for (int i = 3; i <= n; i += 3)
		kill_peer(i);
	for (int i = 2; i <= n; i += 2)
		if (i % 3)
			ask(i, model_check, 2, 0);
	model_check(2, 0);
}

/* --- one read fault serves all -------------------------------------------- */

static char *fresh_page;	/* far from all touched pages */

static long read_fresh(long index, long unused)
{
	touch(fresh_page);
	sees(page_is(fresh_page, FILE_TAG(index)), "the file's page is not what was written");
	return 0;
}

static long faults_of_touch(long a, long b)
{
	long before;

	minor_faults();
	before = minor_faults();
	touch(fresh_page);
	return minor_faults() - before;
}

static void test_fill(long arg)
{
	static const char * const fs[] = { "tmpfs", "disk" };
	int which = arg & 1;
	bool shared = arg & 2;
	bool writable = arg & 4;
	size_t pages = table_size / page_size;
	char *base = arena(1);
	int fd = make_file(fs[which], pages);
	long filled, before;

	map_at(base, table_size, PROT_READ | (writable ? PROT_WRITE : 0),
	       shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	/* the table exists, and the kernel maps a few neighbours with a page */
	touch(base);
	fresh_page = base + pages / 2 * page_size;
	become_zygote();
	for (int i = 1; i <= 3; i++)
		spawn(i);
	for (int i = 1; i <= 3; i++)
		ask(i, nothing, 0, 0);
	must(!(pagemap_entry(pid_of(2), fresh_page) & PM_PRESENT),
	     "the page is mapped before anybody touched it");

	write_text(COHORT_SYSFS "count", "on");
	filled = vm_event("cohort_fault_filled");
	before = vm_event("cohort_fault_file");
	ask(1, read_fresh, pages / 2, 0);
	if (sharing_possible()) {
		must(pagemap_entry(pid_of(2), fresh_page) & PM_PRESENT,
		     "the sibling does not have what the child's fault brought in");
		must(pagemap_entry(SELF, fresh_page) & PM_PRESENT,
		     "the parent does not have what the child's fault brought in");
		must(!ask(2, faults_of_touch, 0, 0), "the sibling faults on it again");
		must(vm_event("cohort_fault_filled") > filled, "cohort_fault_filled did not grow");
		must(vm_event("cohort_fault_file") > before, "cohort_fault_file did not grow");
	}
	write_text(COHORT_SYSFS "count", "off");
	ask(2, read_fresh, pages / 2, 0);
	ask(3, read_fresh, pages / 2, 0);
	read_fresh(pages / 2, 0);

	/* a process that writes its private page has left the table */
	if (writable && !shared) {
		for (int i = 1; i <= 2; i++) {
			struct want *w = &board->model[i].want[0];

			board->model[i].n = 1;
			w->addr = fresh_page;
			w->tag = FILE_TAG(pages / 2);
			w->acc = WRITE;
		}
		ask(1, model_scribble, 1, 0);
		ask(1, model_check, 1, 0);
		ask(2, model_check, 2, 0);
		ask(3, read_fresh, pages / 2, 0);
	}
}

static void test_zero_page(long arg)
{
	char *base = arena(1);
	struct model *m;

	map_at(base, table_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(base, table_size, MADV_NOHUGEPAGE);
	page_fill(base, 1);
	become_zygote();
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		m = &board->model[i];
		m->n = 2;
		m->want[0] = (struct want){ .addr = base, .tag = 1, .acc = WRITE };
		m->want[1] = (struct want){ .addr = base + 7 * page_size, .acc = WRITE };
	}
	/* all read the untouched page, then each writes it in turn */
	model_check_all(3);
	for (int i = 2; i >= 0; i--) {
		ask(i, model_scribble, i, 3);
		model_check_all(3);
	}
}

static void test_file_write(long arg)
{
	char *page = aligned_alloc(page_size, page_size);
	enum kind kind = arg;

	/* write(2) to a file is seen by all that map the file's page */
	area_make(&area, kind);
	become_zygote();
	for (int i = 0; i <= 2; i++) {
		if (i)
			spawn(i);
		model_init(&board->model[i], &area);
	}
	for (int s = 0; s < area.nspots; s++) {
		struct part *p = &area.part[area.spot[s].part];
		unsigned int tag = 5000000u + s;

		if (area.spot[s].tag != area.spot[s].file_tag)
			continue;	/* a private copy: must stay as it is */
		page_fill(page, tag);
		must(pwrite(p->fd, page, page_size, area.spot[s].addr - p->addr) ==
		     (ssize_t)page_size, "write: %s", strerror(errno));
		for (int i = 0; i <= 2; i++)
			board->model[i].want[s].tag = tag;
	}
	model_check_all(3);
}

/* --- other ways to make a process ----------------------------------------- */

static void test_vfork(long arg)
{
	int status;
	pid_t pid;

	area_make(&area, arg);
	become_zygote();
	spawn(1);
	spots_intact((long)&area, 0);
	pid = vfork();
	if (!pid) {
		/* the memory is the parent's: this is the parent writing */
		if (!kind_readonly(area.kind))
			page_fill(area.spot[0].addr, 77);
		_exit(0);
	}
	must(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "vfork failed");
	if (!kind_readonly(area.kind)) {
		sees(page_is(area.spot[0].addr, 77), "the write after vfork is lost");
		if (!kind_shared(area.kind))
			ask(1, spots_intact, (long)&area, 0);
	} else {
		ask(1, spots_intact, (long)&area, 0);
	}
}

static void test_exec(long arg)
{
	char self[256], *argv[] = { self, "-l", NULL }, *envp[] = { NULL };
	posix_spawn_file_actions_t quiet;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	pid_t pid;
	int status;

	must(n > 0, "readlink: %s", strerror(errno));
	self[n] = 0;
	area_make(&area, arg);
	become_zygote();
	spawn(1);
	for (int i = 0; i < 4; i++) {
		pid = fork();
		must(pid >= 0, "fork: %s", strerror(errno));
		if (!pid) {
			int null = open("/dev/null", O_WRONLY);

			spots_intact((long)&area, 0);
			if (i & 1 && !kind_readonly(area.kind) && !kind_shared(area.kind))
				page_fill(area.spot[1].addr, 99);
			dup2(null, STDOUT_FILENO);
			execve(self, argv, envp);
			_exit(127);
		}
		must(waitpid(pid, &status, 0) == pid && !status, "exec: status %x", status);
		spots_intact((long)&area, 0);
		ask(1, spots_intact, (long)&area, 0);
	}
	/* posix_spawn is a clone with CLONE_VM | CLONE_VFORK */
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	must(!posix_spawn(&pid, self, &quiet, NULL, argv, envp), "posix_spawn fails");
	must(waitpid(pid, &status, 0) == pid && !status, "posix_spawn: status %x", status);
	spots_intact((long)&area, 0);
	ask(1, spots_intact, (long)&area, 0);
}

/* --- the first table of all ------------------------------------------------ */

/* Programs that are not position independent lie before it on 32-bit ARM. */
#define FIRST	((char *)0x1c0000)

static long first_is(long tag, long unused)
{
	sees(page_is(FIRST, tag), "the first table does not hold %ld", tag);
	return 0;
}

static long first_fill(long tag, long unused)
{
	page_fill(FIRST, tag);
	return first_is(tag, 0);
}

static void test_first(long arg)
{
	void *p = mmap(FIRST, 4 * page_size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p != FIRST)
		skip("no memory at %p: %s", FIRST, strerror(errno));
	first_fill(7, 0);
	become_zygote();
	for (int i = 1; i <= 8; i++) {
		spawn(1);
		spawn(2);
		ask(1, first_is, 7, 0);
		/* one leaves the table, and one has it to its end */
		ask(1 + i % 2, first_fill, 10 + i, 0);
		ask(2 - i % 2, first_is, 7, 0);
		first_is(7, 0);
		quit(1);
		quit(2);
	}
	/* the zygote leaves, so that the last child gets the table back and frees it */
	spawn(1);
	first_fill(8, 0);
	ask(1, first_is, 7, 0);
	ask(1, first_fill, 9, 0);
	quit(1);
	first_is(8, 0);
}

#define FILE_KINDS	(KIND(PRIV_FILE) | KIND(PRIV_DISK) | KIND(SHARED_FILE) | \
			 KIND(SHARED_DISK))

static const struct test_case cases[] = {
	{ "Does a zygote's child share the table?", test_shared, .kinds = ALL_KINDS,
	  .guards = POLICY },
	{ "Who sees a write after fork, parent first?", test_visibility, .kinds = ALL_KINDS,
	  .guards = INVARIANT(2) },
	{ "Who sees a write after fork, child first?", test_child_first, .kinds = ALL_KINDS,
	  .guards = INVARIANT(2) },
	{ "Who sees a write among grandchildren?", test_grandchildren, .kinds = SOME_KINDS,
	  .guards = INVARIANT(2) },
	{ "Do the children keep the data when the zygote is gone?", test_parent_exits,
	  .kinds = ALL_KINDS, .guards = INVARIANT(2) | INVARIANT(5) },
	{ "Does the last user get the table back, with its data?", test_adopt,
	  .kinds = SOME_KINDS, .guards = INVARIANT(5) | POLICY },
	{ "Does each of many generations see its ancestors' writes?", test_generations,
	  .kinds = SOME_KINDS, .guards = INVARIANT(2) | INVARIANT(5) },
	{ "Do many children stay apart?", test_many, .kinds = SOME_KINDS,
	  .guards = INVARIANT(2) | INVARIANT(5) },
	{ "Does a vfork child write its parent's memory only?", test_vfork,
	  .kinds = SOME_KINDS, .guards = INVARIANT(2) },
	{ "Does exec in a child leave the others alone?", test_exec, .kinds = SOME_KINDS,
	  .guards = INVARIANT(5) },
	{ "Does one read fault serve all? [private tmpfs file]", test_fill, 0,
	  .guards = INVARIANT(6) },
	{ "Does one read fault serve all? [private disk file]", test_fill, 1,
	  .guards = INVARIANT(6) },
	{ "Does one read fault serve all? [shared tmpfs file]", test_fill, 2,
	  .guards = INVARIANT(6) },
	{ "Does one read fault serve all? [shared disk file]", test_fill, 3,
	  .guards = INVARIANT(6) },
	{ "Does one read fault serve all? [private writable tmpfs file]", test_fill, 4,
	  .guards = INVARIANT(6) },
	{ "Does one read fault serve all? [private writable disk file]", test_fill, 5,
	  .guards = INVARIANT(6) },
	{ "Who sees a write to a page that all read as zeros?", test_zero_page,
	  .guards = INVARIANT(2) | INVARIANT(6) },
	{ "Who sees a write to the first pages of all?", test_first,
	  .guards = INVARIANT(2) | INVARIANT(5) },
	{ "Do all see write(2) to the file?", test_file_write, .kinds = FILE_KINDS,
	  .guards = INVARIANT(2) | INVARIANT(6) },
};

int main(int argc, char **argv)
{
	return run_cases(argc, argv, cases, ARRAY_SIZE(cases));
}
