// SPDX-License-Identifier: GPL-2.0-only
/* Peers that map one file each by itself, and programs that do. */
#include "join.h"

#include <grp.h>
#include <linux/sched.h>

struct view view[8];
size_t table_pages;
int file = -1;

bool joining(void)
{
	char buf[64];

	return cohort_mode != MODE_STOCK && cohort_mode != MODE_NEVER &&
	       read_text(COHORT_SYSFS "join", buf, sizeof(buf)) > 0 &&
	       !strstr(buf, "[never]");
}

/* all map the whole file, each at an address of its own if so asked */
void start(int peers, int prot, int flags, const char *fs, bool apart)
{
	char *at = arena(TABLES);

	/* The cases hold on a stock kernel too; on ours they are to say something of it. */
	if (cohort_mode != MODE_STOCK && !joining())
		skip("this kernel lets nobody join tables now");
	table_pages = table_size / page_size;
	file = make_file(fs, TABLES * table_pages);
	for (int i = 0; i <= peers; i++) {
		if (i && apart)
			at = arena(TABLES);
		view[i] = (struct view){ at, 0, TABLES * table_pages, prot, flags, file };
	}
}

void spawn_all(int peers)
{
	need_peers(8);
	for (int i = 1; i <= peers; i++) {
		spawn(i);
		ask(i, nothing, 0, 0);
	}
}

char *page_at(int who, long page)
{
	return view[who].at + page * page_size;
}

long map_view(long who, long unused)
{
	struct view *v = &view[who];

	map_at(page_at(who, v->first), v->pages * page_size, v->prot, v->flags, v->fd,
	       v->first * page_size);
	return 0;
}

long unmap_view(long who, long unused)
{
	struct view *v = &view[who];

	must_call(munmap(page_at(who, v->first), v->pages * page_size));
	return 0;
}

/* read one word of each page; returns how many faults that took */
long read_view(long who, long step)
{
	struct view *v = &view[who];
	long before = minor_faults();

	for (size_t i = 0; i < v->pages; i += step)
		touch(page_at(who, v->first + i));
	return minor_faults() - before;
}

/* does every page hold what the file had? but for one, or -1 */
long view_right(long who, long but)
{
	struct view *v = &view[who];

	for (size_t i = v->first; i < v->first + v->pages; i++)
		if ((long)i != but)
			sees(page_is(page_at(who, i), FILE_TAG(i)),
			     "peer %ld: page %zu is not the file's", who, i);
	return 0;
}

long fill_page(long addr, long tag)
{
	page_fill((char *)addr, tag);
	return 0;
}

long has_page(long addr, long tag)
{
	return page_is((char *)addr, tag);
}

void map_and_read(int who)
{
	ask(who, map_view, who, 0);
	ask(who, read_view, who, 1);
	ask(who, view_right, who, -1);
}

static const struct {
	int prot, flags;
} prots[NR_PROTS] = {
	[READ_ONLY]	= { PROT_READ, MAP_PRIVATE },
	[CODE]		= { PROT_READ | PROT_EXEC, MAP_PRIVATE },
	[WRITABLE]	= { PROT_READ | PROT_WRITE, MAP_PRIVATE },
	[SHARED]	= { PROT_READ | PROT_WRITE, MAP_SHARED },
};

void start_prot(int peers, long arg)
{
	int p = arg & 0xf;

	start(peers, prots[p].prot, prots[p].flags, arg & DISK ? "disk" : "tmpfs",
	      arg & APART);
}

#define PROGRAM	"--map"

/* what a program does when it has mapped the file */
#define END	"0"
#define STAY	"1"
#define BEAR	"c"	/* it makes a child in the cgroup whose descriptor follows */

/* What is the group of a child that is made in a cgroup, after it has read all pages? */
static long child_group(int cgroup, char *p)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = cgroup,
	};
	long found, pid = syscall(__NR_clone3, &args, sizeof(args));
	int status;

	if (pid < 0)
		return -errno;
	if (!pid) {
		for (size_t i = 0; i < TABLES * table_size; i += page_size)
			touch(p + i);
		/* 0: none; 1: one, and tables of it; 2: none, but tables */
		found = proc_field(0, "cohort", "Group") ? 1 : 2 * !!shared_tables(0);
		_exit(found);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	return WEXITSTATUS(status);
}

/*
 * A program that maps a file at an address, or at 0 anywhere. It reports how many tables
 * it shares, or where the file is, or of its child, to a pipe.
 */
static int program(char **argv)
{
	char *at = (char *)strtoul(argv[4], NULL, 0), *p = MAP_FAILED;
	int fd = open(argv[2], O_RDONLY), to = atoi(argv[3]);
	long found = 0;

	page_size = sysconf(_SC_PAGESIZE);
	table_size = page_size * (page_size / 8);
	if (fd >= 0)
		p = mmap(at, TABLES * table_size, PROT_READ,
			 MAP_PRIVATE | (at ? MAP_FIXED : 0), fd, 0);
	if (p == MAP_FAILED)
		found = -1;
	for (size_t i = 0; !found && i < TABLES * table_size / page_size; i++)
		if (!page_is(p + i * page_size, FILE_TAG(i)))
			found = -2;
	if (!found)
		found = at ? shared_tables(0) : (long)p;
	if (found >= 0 && *argv[5] == *BEAR)
		found = child_group(atoi(argv[5] + 1), p);
	if (write(to, &found, sizeof(found)) != sizeof(found))
		return 1;
	while (*argv[5] == *STAY)
		usleep(1000);
	return 0;
}

bool start_self(char **argv, long user, void *report, size_t bytes, pid_t *pid)
{
	/* an inherited descriptor: another user may not look into our /proc */
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), ends[2];
	char *const envp[] = { NULL };
	char to[16];
	bool whole;

	must(self >= 0, "/proc/self/exe: %s", strerror(errno));
	must_call(pipe(ends));
	snprintf(to, sizeof(to), "%d", ends[1]);
	argv[3] = to;
	*pid = fork();
	must(*pid >= 0, "fork: %s", strerror(errno));
	if (!*pid) {
		if (user && (setgroups(0, NULL) || setgid(user) || setuid(user)))
			_exit(1);
		syscall(__NR_execveat, self, "", argv, envp, AT_EMPTY_PATH);
		_exit(1);
	}
	close(ends[1]);
	whole = read(ends[0], report, bytes) == (ssize_t)bytes;
	close(ends[0]);
	close(self);
	return whole;
}

/* Start the program; returns what it reports. */
static long start_program(char *where, long user, const char *then, pid_t *pid)
{
	char path[64], at[32];
	char *argv[] = { "join", PROGRAM, path, NULL, at, (char *)then, NULL };
	long found;

	must_call(fchmod(file, 0644));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dup(file));
	snprintf(at, sizeof(at), "%p", where);
	return start_self(argv, user, &found, sizeof(found), pid) ? found : -4;
}

long end_program(long pid, long unused)
{
	int status;

	kill(pid, SIGKILL);
	return waitpid(pid, &status, 0) == pid ? 0 : -errno;
}

static long finish(pid_t pid, long found)
{
	int status;

	must(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "exec: status %x", status);
	return found;
}

long run_program(long who, long user)
{
	long found;
	pid_t pid;

	found = start_program(view[who].at, user, END, &pid);
	return finish(pid, found);
}

long hold_program(long who, long user)
{
	long found;
	pid_t pid;

	found = start_program(view[who].at, user, STAY, &pid);
	return found < 0 ? finish(pid, found) : pid;
}

long bear_child(long who, long cgroup)
{
	char then[16];
	long found;
	pid_t pid;

	snprintf(then, sizeof(then), BEAR "%ld", cgroup);
	found = start_program(view[who].at, 0, then, &pid);
	return finish(pid, found);
}

long place_of_file(long unused, long unused2)
{
	long found;
	pid_t pid;

	found = start_program(NULL, 0, END, &pid);
	return finish(pid, found);
}

#define STARTED	"COHORT_JOIN_STARTED"

static char *set_mode(const char *mode)
{
	static char before[64];

	if (read_text(COHORT_SYSFS "join", before, sizeof(before)) <= 0)
		return "";
	write_text(COHORT_SYSFS "join", mode);
	return before;
}

int join_main(int argc, char **argv, const char *mode, const struct test_case *cases, int n)
{
	char *word, *end;
	int ret;

	if (argc == 6 && !strcmp(argv[1], PROGRAM))
		return program(argv);
	if (!getenv(STARTED)) {
		setenv(STARTED, set_mode(mode), 1);
		execv("/proc/self/exe", argv);
	}
	all_fatal = true;
	ret = run_cases(argc, argv, cases, n);
	word = getenv(STARTED) ? strchr(getenv(STARTED), '[') : NULL;
	end = word ? strchr(word, ']') : NULL;
	if (end) {
		*end = 0;
		set_mode(word + 1);
	}
	return ret;
}
