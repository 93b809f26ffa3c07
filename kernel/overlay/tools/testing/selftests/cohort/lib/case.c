// SPDX-License-Identifier: GPL-2.0-only
/* Cases that run each in its own process. */
#include "../common.h"

#include <stdarg.h>

bool quick;
int race_seconds;
bool costly;
struct board *board;
void (*after_each_case)(void);
bool all_fatal;

int case_seconds = 300;
static const char *expected_mode;
static const char *word;
static bool list;

#define NR_INVARIANTS	14
static int kmsg_fd = -1;

/* --- verdicts ------------------------------------------------------------- */

static void verdict(int code, const char *where, const char *fmt, va_list args)
{
	char text[240];

	vsnprintf(text, sizeof(text), fmt, args);
	if (board && board->verdict == KSFT_PASS) {
		snprintf(board->reason, sizeof(board->reason), "%s%s", where, text);
		board->verdict = code;
	}
	if (code != KSFT_SKIP)
		dprintf(STDOUT_FILENO, "# [%d] %s%s\n", getpid(), where, text);
}

void die(const char *file, int line, bool fatal, const char *cond, const char *fmt, ...)
{
	const char *slash = strrchr(file, '/');
	char where[64];
	va_list args;

	/* print it first: after the verdict others may kill this process */
	if (fatal)
		note_fatal("what a process sees is wrong");
	snprintf(where, sizeof(where), "%s:%d: ", slash ? slash + 1 : file, line);
	va_start(args, fmt);
	verdict(KSFT_FAIL, where, fmt, args);
	va_end(args);
	if (cond)
		note("it must be that %s", cond);
	_exit(KSFT_FAIL);
}

void skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	verdict(KSFT_SKIP, "", fmt, args);
	va_end(args);
	_exit(KSFT_SKIP);
}

void note(const char *fmt, ...)
{
	char text[240];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	dprintf(STDOUT_FILENO, "# %s\n", text);
}

void note_fatal(const char *why)
{
	note("FATAL: %s", why);
}

/* --- running cases -------------------------------------------------------- */

static const char * const complaints[] = {
	"BUG:", "WARNING:", "KASAN:", "KCSAN:", "possible recursive locking",
	"circular locking", "bad pmd", "Bad rss", "Bad page", "Bad swap",
};

/* True if the kernel complained since the last look. */
static bool kernel_complained(void)
{
	char buf[8192];
	bool bad = false;
	ssize_t n;

	while (kmsg_fd >= 0) {
		n = read(kmsg_fd, buf, sizeof(buf) - 1);
		if (n < 0 && errno == EPIPE)
			continue;	/* overwritten before we read it */
		if (n <= 0)
			break;
		buf[n] = 0;
		for (size_t i = 0; i < ARRAY_SIZE(complaints); i++)
			if (strstr(buf, complaints[i])) {
				char *text = strchr(buf, ';');

				note("kernel log: %.200s", text ? text + 1 : buf);
				bad = true;
				break;
			}
	}
	if (bad)
		note_fatal("the kernel complains");
	return bad;
}

/* Kill what the case left behind; false if a process does not die. */
static bool reap_all(pid_t group)
{
	double end = now() + case_seconds;

	for (;;) {
		pid_t pid;

		kill(-group, SIGKILL);
		pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0)
			return true;
		if (!pid) {
			if (now() > end)
				return false;
			usleep(500);
		}
	}
}

/* one line of the report: a case, with one of its kinds of memory */
struct run {
	char desc[160];
	void (*fn)(long arg);
	long arg;
	unsigned int guards;
};

/* "invariants 2 and 9, the interface" */
static void guards_text(unsigned int guards, char *text, size_t size)
{
	static const char * const others[] = {
		"the interface", "a policy", "a limit", "privilege", "stock Linux",
		"region orders", "selective merging",
	};
	int left = __builtin_popcount(guards & 0xffff), n = 0, all = left;

	text[0] = 0;
	for (int i = 1; i <= NR_INVARIANTS; i++)
		if (guards & INVARIANT(i)) {
			n += snprintf(text + n, size - n, "%s%d",
				      left == all ? all > 1 ? "invariants " : "invariant " :
				      left == 1 ? " and " : ", ", i);
			left--;
		}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (guards & INTERFACE << i)
			n += snprintf(text + n, size - n, "%s%s", n ? ", " : "", others[i]);
}

static void check_guards(const struct test_case *cases, int n)
{
	unsigned int known = KSM_SELECTIVE | (KSM_SELECTIVE - INTERFACE) |
			     (INVARIANT(NR_INVARIANTS + 1) - INVARIANT(1));

	for (int i = 0; i < n; i++)
		if (!cases[i].guards || cases[i].guards & ~known)
			ksft_exit_fail_msg("`%s` must say what it guards\n", cases[i].desc);
}

static void add_run(struct run **runs, int *n, const struct test_case *c, int kind,
		    const char *word)
{
	struct run *r;

	*runs = realloc(*runs, (*n + 1) * sizeof(**runs));
	if (!*runs)
		ksft_exit_fail_perror("realloc");
	r = &(*runs)[*n];
	r->fn = c->fn;
	r->guards = c->guards;
	r->arg = c->kinds ? CASE_ARG(c->arg, kind) : c->arg;
	if (c->kinds)
		snprintf(r->desc, sizeof(r->desc), "%s [%s]", c->desc, kind_name(kind));
	else
		snprintf(r->desc, sizeof(r->desc), "%s", c->desc);
	if (!word || strstr(r->desc, word))
		++*n;
}

static int run_one(const struct run *c)
{
	struct timespec tick = { .tv_sec = 1 };
	double end = now() + case_seconds;
	int status, code;
	sigset_t chld;
	pid_t pid;

	memset(board, 0, sizeof(*board));
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid) {
		sigprocmask(SIG_UNBLOCK, &chld, NULL);
		setpgid(0, 0);
		board->pid[SELF] = getpid();
		catch_faults();
		c->fn(c->arg);
		_exit(board->verdict);
	}
	setpgid(pid, pid);
	/*
	 * In the mode always the case shares the table of errno with this process. Leave it
	 * now: when the wait below ends, the numbers that the case compares would change.
	 */
	errno = 0;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		sigtimedwait(&chld, NULL, &tick);
		if (now() > end) {
			snprintf(board->reason, sizeof(board->reason),
				 "no result after %d seconds", case_seconds);
			note("%s", board->reason);
			note_fatal("a case hangs");
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			reap_all(pid);
			return KSFT_FAIL;
		}
	}
	if (!reap_all(pid)) {
		note_fatal("a process of this case does not die");
		return KSFT_FAIL;
	}
	if (WIFSIGNALED(status)) {
		note("killed by signal %d", WTERMSIG(status));
		note_fatal("an unexpected signal");
		return KSFT_FAIL;
	}
	code = WEXITSTATUS(status);
	/* a peer may have failed while no process waited for its answer */
	if (code == KSFT_PASS)
		code = board->verdict;
	if (code != KSFT_PASS && code != KSFT_SKIP)
		code = KSFT_FAIL;
	return code;
}

static void report_one(const struct run *r)
{
	char guards[160];
	double start = now();
	int code = run_one(r);

	guards_text(r->guards, guards, sizeof(guards));
	if (after_each_case)
		after_each_case();
	if (kernel_complained())
		code = KSFT_FAIL;
	if (code == KSFT_FAIL && all_fatal)
		note_fatal("no failure of this program is excused");
	if (code == KSFT_SKIP)
		ksft_test_result_skip("%s: %s\n", r->desc, board->reason);
	else if (code == KSFT_PASS)
		ksft_test_result_pass("%s\n", r->desc);
	else
		ksft_test_result_fail("%s (guards %s)\n", r->desc, guards);
	if (now() - start > 5)
		note("took %.1f s", now() - start);
}

static void help(const char *name)
{
	printf("usage: %s [-q] [-l] [-g] [-x] [-m MODE] [-t SECONDS] [-T SECONDS] [-k WORD]\n"
	       "  -q  quick: fewer pages, rounds and children (slow machines)\n"
	       "  -l  list the cases, and what each guards\n"
	       "  -g  be no zygote, though this program was started as one (a TLB group stays)\n"
	       "  -x  also what the whole machine feels: poisoned pages, dropped caches\n"
	       "  -m  the mode that must be on: stock, never, optin or always (COHORT_MODE)\n"
	       "  -t  how long each race runs\n"
	       "  -T  how long a case may take before it counts as hung\n"
	       "  -k  only cases with WORD in their description\n", name);
	exit(KSFT_FAIL);
}

void read_options(int argc, char **argv)
{
	int opt;

	/* exec_sleep() started this program */
	if (argc == 2 && !strcmp(argv[1], SLEEP))
		exit(sleep(1000));
	while ((opt = getopt(argc, argv, "glqxm:t:T:k:")) != -1) {
		switch (opt) {
		case 'q':
			quick = true;
			break;
		case 'l':
			list = true;
			break;
		case 'g':
			if (prctl(PR_SET_COHORT, 0, 0, 0, 0)) {
				perror("PR_SET_COHORT");
				exit(KSFT_FAIL);
			}
			break;
		case 'x':
			costly = true;
			break;
		case 'm':
			expected_mode = optarg;
			break;
		case 't':
			race_seconds = atoi(optarg);
			break;
		case 'T':
			case_seconds = atoi(optarg);
			break;
		case 'k':
			word = optarg;
			break;
		default:
			help(argv[0]);
		}
	}
	if (race_seconds <= 0)
		race_seconds = 1;
	page_size = sysconf(_SC_PAGESIZE);
	/* classic 32-bit ARM pairs two hardware tables to 512 entries as well */
	table_size = page_size * (page_size / 8);
}

int run_cases(int argc, char **argv, const struct test_case *cases, int n)
{
	int i, kind, nr_runs = 0;
	struct run *runs = NULL;
	char guards[160];

	if (!page_size)
		read_options(argc, argv);
	check_guards(cases, n);
	for (i = 0; i < n; i++) {
		unsigned int mask = cases[i].kinds;

		if (!mask)
			add_run(&runs, &nr_runs, &cases[i], 0, word);
		if (quick && mask & cases[i].quick_kinds)
			mask &= cases[i].quick_kinds;
		for (kind = 0; kind < NR_KINDS; kind++)
			if (mask & KIND(kind))
				add_run(&runs, &nr_runs, &cases[i], kind, word);
	}
	if (list) {
		for (i = 0; i < nr_runs; i++) {
			guards_text(runs[i].guards, guards, sizeof(guards));
			printf("%s\t%s\n", runs[i].desc, guards);
		}
		return KSFT_PASS;
	}

	ksft_print_header();
	cohort_mode = detect_mode(expected_mode);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	begin_pressure();
	/* become the parent of a case's orphans, so that reap_all() finds them */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	kmsg_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg_fd >= 0)
		lseek(kmsg_fd, 0, SEEK_END);

	ksft_set_plan(nr_runs + 1);
	for (i = 0; i < nr_runs; i++)
		report_one(&runs[i]);

	end_pressure();
	/* tables and their locks are freed late: give RCU a moment to complain */
	usleep(100000);
	if (kmsg_fd < 0)
		ksft_test_result_skip("The kernel log stays clean: cannot be read\n");
	else
		ksft_test_result(!kernel_complained(), "The kernel log stays clean\n");

	ksft_print_cnts();
	if (ksft_get_fail_cnt() || ksft_get_error_cnt())
		return KSFT_FAIL;
	/* the check of the log is one pass */
	return ksft_get_pass_cnt() > 1 ? KSFT_PASS : KSFT_SKIP;
}
