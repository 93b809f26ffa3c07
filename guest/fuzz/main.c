// SPDX-License-Identifier: GPL-2.0-or-later
/* The controller: hands out rounds, collects what came of them, reports. */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"

/* Guest seconds after which a worker hangs: a debug kernel emulated is slow. */
#define HANG_SECONDS	300
#define FIRST_WORKERS	5

const char *const op_names[NR_OPS] = {
#define X(name) #name,
	COMMANDS(X)
#undef X
};

struct board *board;
char *heap;
int file_fds[NR_FILES];
int pipes[NR_SLOTS][2];
bool failed;
struct options opt = {
	.seed = 1, .seconds = 0, .episode_ops = 20000, .mode = "any",
};

static bool wants_log;
static u32 episode;
static u64 ops, rounds, forks;
static double started, told;

static double now_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

void fail(const char *fmt, ...)
{
	va_list ap;

	/* The first mistake; what follows it may be its consequence. */
	if (failed)
		return;
	failed = true;
	printf("# FAIL seed %llu episode %u operation %llu: ",
	       (unsigned long long)opt.seed, episode, (unsigned long long)ops);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
}

void broken(const char *fmt, ...)
{
	va_list ap;

	printf("# fuzz: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	exit(2);
}

void format_command(const struct cmd *cmd, char *text, size_t size)
{
	snprintf(text, size, "%u %s %u %u %u %u %u", cmd->slot, op_names[cmd->op],
		 cmd->page, cmd->n, cmd->a, cmd->b, cmd->c);
}

bool parse_command(const char *line, struct cmd *cmd)
{
	unsigned int slot, page, n, a, b, c;
	char name[16];

	if (sscanf(line, "%u %15s %u %u %u %u %u", &slot, name, &page, &n, &a, &b,
		   &c) != 7)
		return false;
	for (u32 op = 0; op < NR_OPS; op++) {
		if (strcmp(name, op_names[op]))
			continue;
		*cmd = (struct cmd){ op, slot, page, n, a, b, c };
		return (slot < NR_SLOTS || slot == CONTROLLER) &&
		       page + n <= NR_PAGES && n <= 2 * CHUNK;
	}
	return false;
}

/* ---- workers ------------------------------------------------------------------ */

static void prepare_slot(u32 slot)
{
	struct slot *s = &board->slots[slot];

	s->go = s->done = s->n = s->noise = 0;
	s->noise_bad = 0;
	s->id = ++world->next_id;
}

static void end_slot(u32 slot)
{
	char page[PAGE];

	proc_end(slot);
	board->pids[slot] = 0;
	while (read(pipes[slot][0], page, sizeof(page)) > 0)
		;
}

static void reap(u32 slot)
{
	int status;

	while (waitpid(world->procs[slot].pid, &status, 0) < 0 && errno == EINTR)
		;
	end_slot(slot);
}

static void kill_all(void)
{
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive)
			kill(world->procs[i].pid, SIGKILL);
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive)
			reap(i);
}

/*
 * Without a race all run on one processor: a message to another one is slow, and
 * under emulation slower than all else.
 */
static void choose_processors(bool race)
{
	static cpu_set_t all;
	cpu_set_t one;

	if (!CPU_COUNT(&all))
		sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(all), race ? &all : &one);
}

static void *shared_memory(u64 at, size_t size)
{
	void *memory = mmap((void *)at, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED)
		broken("no memory: %s", strerror(errno));
	return memory;
}

static void first_worker(void)
{
	pid_t pid;

	prepare_slot(0);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		broken("cannot fork: %s", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0);
		shared_memory((u64)page_addr(0) + GIGABYTE / 2, BALLAST);
		worker(0);
	}
	proc_start(0, pid);
	world->procs[0].zygote = PR_COHORT_ZYGOTE;
	board->pids[0] = pid;
}

/* ---- rounds ------------------------------------------------------------------- */

/*
 * Until Linux 6.18, a huge page of a file can be reached beyond the file's end.
 * So there is none but where the end is that of a huge page.
 */
static bool collapse_allowed(const struct proc *proc, const struct cmd *cmd)
{
	for (u32 i = cmd->page; i < (u32)cmd->page + cmd->n; i++)
		if (proc->pages[i].kind >= K_PRIVATE &&
		    world->objects[proc->pages[i].obj].size % CHUNK)
			return false;
	return true;
}

/* Is this of any sense now? After shortening, commands name what is no more. */
static bool valid(const struct cmd *cmd, u32 taken, const struct round *round,
		  u32 posted)
{
	const struct proc *proc = &world->procs[cmd->slot];
	/* Some are judged by the state before them, which is known then only. */
	bool first = board->slots[cmd->slot].n == 0;
	bool of_file = cmd->op == OP_PWRITE || cmd->op == OP_TRUNC ||
		       cmd->op == OP_PUNCH;

	if (!proc->alive ||
	    (!of_file && cmd->page + cmd->n > (int)segment_end(cmd->page)))
		return false;
	switch (cmd->op) {
	case OP_WATCH:
		return first && cmd->n <= 16 && (int)cmd->a != round->kill &&
		       cmd->a < NR_SLOTS && posted & (1U << cmd->a) &&
		       cmd->slot != cmd->a;
	case OP_MOVE:
		return cmd->a < MAP_PAGES && cmd->a + cmd->n <= segment_end(cmd->a);
	case OP_RESIZE:
		return cmd->a && cmd->page + cmd->a <= segment_end(cmd->page);
	case OP_FORK:
		return cmd->a < NR_SLOTS && !world->procs[cmd->a].alive &&
		       !(taken & (1U << cmd->a));
	case OP_VMREAD:
	case OP_VMWRITE:
	case OP_MEMREAD:
	case OP_MEMWRITE:
	case OP_ADVOTHER:
		return cmd->a < NR_SLOTS && cmd->a != cmd->slot &&
		       world->procs[cmd->a].alive && cmd->n <= 16;
	case OP_SPLICE:
		return proc->nr_lent < MAX_LENT;
	case OP_PIN:
		for (u32 i = cmd->page; i < (u32)cmd->page + cmd->n; i++)
			if (proc->pages[i].kind != K_ANON)
				return false;
		return first && cmd->n <= 8;
	case OP_ADVISE:
		return cmd->page + cmd->n <= (int)NR_PAGES &&
		       (cmd->a != MADV_COLLAPSE ||
			(first && collapse_allowed(proc, cmd)));
	case OP_TRUNC:
		return first && cmd->a < NR_FILES && cmd->b <= OBJ_PAGES &&
		       (!world->objects[cmd->a].huge || cmd->b % CHUNK == 0);
	case OP_PUNCH:
	case OP_PWRITE:
		return cmd->a < NR_FILES && cmd->page + cmd->n <= OBJ_PAGES;
	case OP_BRK:
		return cmd->a <= CHUNK;
	default:
		return cmd->page + cmd->n <= (int)NR_PAGES;
	}
}

/* See noise_main(): no private file page may be where it writes. */
static bool noise_allowed(const struct proc *proc)
{
	for (u32 i = 0; i < NOISE_PAGES; i++)
		if (proc->pages[i].kind == K_PRIVATE)
			return false;
	return true;
}

static void log_round(const struct round *round)
{
	char text[120];

	int unread;

	printf("> round %s %d\n", round->race ? "race" : "serial", round->kill);
	for (u32 i = 0; i < round->n; i++) {
		format_command(&round->cmds[i], text, sizeof(text));
		printf("> %s\n", text);
	}
	fflush(stdout);
	/* The round may be the end of the machine: let the reader have it first. */
	while (ioctl(STDOUT_FILENO, FIONREAD, &unread) == 0 && unread)
		usleep(200);
}

static bool wait_for(u32 slot)
{
	struct slot *s = &board->slots[slot];
	double since = now_seconds();
	u32 done;

	while ((done = __atomic_load_n(&s->done, __ATOMIC_ACQUIRE)) != s->go) {
		int status;

		futex_wait(&s->done, done, 1000);
		if (__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) == s->go)
			break;
		if (waitpid(world->procs[slot].pid, &status, WNOHANG) > 0) {
			if (WIFSIGNALED(status))
				fail("process %u was ended by signal %d", slot,
				     WTERMSIG(status));
			else
				fail("process %u has exited", slot);
			end_slot(slot);
			return false;
		}
		if (now_seconds() - since > HANG_SECONDS) {
			fail("process %u hangs", slot);
			return false;
		}
	}
	return true;
}

/* Takes what came of a burst; false if the worker has not done it. */
static bool collect(u32 slot, bool killed)
{
	struct slot *s = &board->slots[slot];
	bool ended = false;

	ops += s->n;
	for (u32 i = 0; i < s->n && !failed && !killed; i++) {
		struct result *res = &s->results[i];

		if (!res->done) {
			fail("process %u left a command out", slot);
			return false;
		}
		oracle_apply(&s->cmds[i], res, s->pages + res->first);
		if (s->cmds[i].op == OP_FORK && res->ret > 0) {
			board->pids[s->cmds[i].a] = res->ret;
			forks++;
		}
		ended |= s->cmds[i].op == OP_EXIT;
	}
	if (s->noise_bad)
		fail("a thread of process %u has read %016llx, which nobody wrote",
		     slot, (unsigned long long)s->noise_bad);
	if (ended || killed)
		reap(slot);
	return true;
}

static void run_round(struct round *round)
{
	u32 posted = 0, taken = 0, watchers = 0;

	if (opt.log)
		log_round(round);
	rounds++;
	for (u32 i = 0; i < NR_SLOTS; i++)
		board->slots[i].n = 0;
	for (u32 i = 0; i < round->n; i++) {
		struct cmd *cmd = &round->cmds[i];
		struct slot *s = &board->slots[cmd->slot % NR_SLOTS];

		if (cmd->slot == CONTROLLER) {
			ops++;
			if (cmd->op != OP_KILL) {
				system_command(cmd);
			} else if (cmd->a < NR_SLOTS && world->procs[cmd->a].alive) {
				kill(world->procs[cmd->a].pid, SIGKILL);
				reap(cmd->a);
			}
			return;
		}
		if (s->n == MAX_BURST || !valid(cmd, taken, round, posted))
			continue;
		if (cmd->op == OP_FORK) {
			taken |= 1U << cmd->a;
			prepare_slot(cmd->a);
		}
		s->results[s->n].done = 0;
		s->cmds[s->n] = *cmd;
		if (cmd->op == OP_WATCH) {
			s->cmds[s->n].b = board->slots[cmd->a].go + 1;
			watchers |= 1U << cmd->slot;
		}
		s->n++;
		posted |= 1U << cmd->slot;
	}
	for (u32 i = 0; i < NR_SLOTS; i++) {
		struct slot *s = &board->slots[i];

		if (!(posted & (1U << i)))
			continue;
		s->noise = round->race && opt.noise &&
			   noise_allowed(&world->procs[i]);
		__atomic_add_fetch(&s->go, 1, __ATOMIC_RELEASE);
		futex_wake(&s->go);
	}
	if (round->kill >= 0 && world->procs[round->kill].alive)
		kill(world->procs[round->kill].pid, SIGKILL);
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (posted & (1U << i) && (int)i != round->kill && !wait_for(i))
			return;
	/* What a watcher saw comes after all that the others did. */
	for (u32 k = 0; k < 2 * NR_SLOTS; k++) {
		u32 i = k % NR_SLOTS;

		if (posted & (1U << i) && !(watchers & (1U << i)) == (k < NR_SLOTS) &&
		    !collect(i, (int)i == round->kill))
			return;
	}
}

/*
 * Is there anything to be seen in a page? Looking at one where the kernel has
 * nothing and nothing must be is a fault for nothing, so that is done to a few.
 */
static bool worth_a_look(const struct mpage *page, u64 entry, u32 number)
{
	if (page->kind == K_NONE || !(page->prot & PROT_READ))
		return number % 16 == 0;	/* it faults: by a signal */
	return entry >> 61 || page_has_content(page) || number % 16 == 1;
}

static void look_at(u32 slot, u32 chunk, const u64 *entries)
{
	static struct round round;
	const struct proc *proc = &world->procs[slot];

	for (u32 i = 0; i < CHUNK && !failed;) {
		u32 pages = 0;

		memset(&round, 0, sizeof(round));
		round.kill = -1;
		for (; i < CHUNK && round.n < MAX_BURST; i++) {
			u32 number = chunk * CHUNK + i;
			struct cmd *last = &round.cmds[round.n - 1];

			if (!worth_a_look(&proc->pages[number], entries[i], number))
				continue;
			pages++;
			if (round.n && last->page + last->n == (int)number)
				last->n++;
			else
				round.cmds[round.n++] = (struct cmd){
					OP_CHECK, slot, number, 1, 0, 0, 0
				};
		}
		if (pages)
			run_round(&round);
	}
}

/* Every page of every process that holds something, and all accounts. */
static void look_at_all(void)
{
	static u64 entries[NR_PAGES];

	for (u32 slot = 0; slot < NR_SLOTS && !failed; slot++) {
		if (!world->procs[slot].alive)
			continue;
		if (!read_pagemap(world->procs[slot].pid, entries))
			broken("cannot read the page map of process %u", slot);
		for (u32 chunk = 0; chunk < NR_CHUNKS && !failed; chunk++)
			look_at(slot, chunk, entries + chunk * CHUNK);
	}
	if (!failed)
		account_check();
}

/* All at once. */
static void exit_all(void)
{
	static struct round round;

	memset(&round, 0, sizeof(round));
	round.kill = -1;
	round.race = true;
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive)
			round.cmds[round.n++] = (struct cmd){ OP_EXIT, i, 0, 0, 0, 0, 0 };
	run_round(&round);
}

/* ---- episodes ------------------------------------------------------------------- */

static bool time_left(void)
{
	double now = now_seconds();

	if (now - told > 10) {
		told = now;
		printf("# %llu operations, %u episodes, %.0f s\n",
		       (unsigned long long)ops, episode, now - started);
		fflush(stdout);
	}
	return !(opt.seconds && now - started > opt.seconds) &&
	       !(opt.max_ops && ops >= opt.max_ops);
}

static void begin_episode(void)
{
	opt.log = wants_log;
	world_reset();
	system_reset_files();
	system_restore();
	first_worker();
}

static void end_episode(void)
{
	opt.log = false;	/* a replay does the same by itself */
	if (!failed)
		look_at_all();
	if (!failed)
		exit_all();
	kill_all();
}

static void run_episode(void)
{
	static struct round round;
	u64 from = ops;

	printf("# seed %llu episode %u\n", (unsigned long long)opt.seed, episode);
	fflush(stdout);
	rnd_seed(opt.seed * 1000003 + episode);
	begin_episode();
	for (u32 step = 0; !failed; step++) {
		if (step < FIRST_WORKERS + 2)
			generate_start(&round, step);
		else if (ops - from < opt.episode_ops && time_left() && world->alive)
			generate(&round);
		else
			break;
		run_round(&round);
		if (step == FIRST_WORKERS + 1)
			account_sharing();
	}
	end_episode();
}

static bool has_race(FILE *file)
{
	char line[200];
	bool race = false;

	while (fgets(line, sizeof(line), file))
		race |= !strncmp(line, "round race", 10);
	rewind(file);
	return race;
}

static void replay(const char *path)
{
	static struct round round;
	FILE *file = fopen(path, "r");
	char line[200], how[10];
	u32 number = 0;
	int kill;

	if (!file)
		broken("cannot read %s: %s", path, strerror(errno));
	choose_processors(has_race(file));
	episode = 1;
	begin_episode();
	memset(&round, 0, sizeof(round));
	round.kill = -1;
	while (fgets(line, sizeof(line), file) && !failed) {
		number++;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "round %9s %d", how, &kill) == 2) {
			if (round.n)
				run_round(&round);
			memset(&round, 0, sizeof(round));
			round.race = !strcmp(how, "race");
			round.kill = kill;
		} else if (round.n == ARRAY_SIZE(round.cmds) ||
			   !parse_command(line, &round.cmds[round.n++])) {
			broken("%s:%u is no command: %s", path, number, line);
		}
	}
	fclose(file);
	if (round.n && !failed)
		run_round(&round);
	end_episode();
}

static int is_script(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot && !strcmp(dot, ".fuzz");
}

/* All scripts in a directory, each a test of its own; true if any has failed. */
static bool replay_all(const char *dir)
{
	struct dirent **scripts;
	int count = scandir(dir, &scripts, is_script, alphasort);
	bool any = false;

	if (count <= 0)
		broken("there is no .fuzz file in %s", dir);
	printf("TAP version 13\n1..%d\n", count);
	for (int i = 0; i < count; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dir, scripts[i]->d_name);
		failed = false;
		replay(path);
		any |= failed;
		printf("%s %d - %s\n", failed ? "not ok" : "ok", i + 1,
		       scripts[i]->d_name);
		fflush(stdout);
		free(scripts[i]);
	}
	free(scripts);
	return any;
}

static void check_sharing(u64 shared, u64 upper)
{
	if (!strcmp(opt.mode, "any") || !strcmp(opt.mode, "never"))
		return;
	printf("metric fork-shared %llu tables\n", (unsigned long long)shared);
	printf("metric upper-shared %llu tables\n", (unsigned long long)upper);
	printf("metric most-shared %u tables\n", most_shared);
	/* A fuzzer of sharing that shares nothing has tested nothing. */
	if (opt.replay || opt.replay_all || opt.episode)
		return;
	if (!failed && (shared < forks || !most_shared))
		fail("%llu forks shared %llu tables, and no process was seen to share more than %u",
		     (unsigned long long)forks, (unsigned long long)shared,
		     most_shared);
}

static void usage(void)
{
	puts("fuzz [options]: random memory operations by a tree of processes, each checked\n"
	     "  --seed N         what it does (1)\n"
	     "  --seconds S      how long, in its own time; --ops N: how much\n"
	     "  --episode K      only this episode of the seed\n"
	     "  --episode-ops N  operations of an episode (20000)\n"
	     "  --race P         percent of rounds with several workers at once (0)\n"
	     "  --noise N        1: threads that touch memory in such rounds (0)\n"
	     "  --mode M         always, optin, never: the kernel's, with sharing checked;\n"
	     "                   any: any kernel, no switch of it is touched (the default)\n"
	     "  --replay FILE    the commands in a file\n"
	     "  --replay-all DIR those in each .fuzz file there; tells each verdict as TAP\n"
	     "  --log            print each round before it is run\n"
	     "  --tap            print the verdict as TAP\n"
	     "  --sabotage HOW   make a mistake that must be found: lost-write, leak,\n"
	     "                   stale, unmap, protect, crash");
}

static void parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", 1, 0, 's' }, { "seconds", 1, 0, 't' },
		{ "ops", 1, 0, 'o' }, { "episode", 1, 0, 'e' },
		{ "episode-ops", 1, 0, 'E' }, { "race", 1, 0, 'r' },
		{ "noise", 1, 0, 'n' }, { "mode", 1, 0, 'm' },
		{ "replay", 1, 0, 'R' }, { "replay-all", 1, 0, 'A' }, { "log", 0, 0, 'l' },
		{ "tap", 0, 0, 'T' }, { "sabotage", 1, 0, 'S' },
		{ "nothing", 0, 0, 'x' }, { "help", 0, 0, 'h' }, { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (c) {
		case 's': opt.seed = strtoull(optarg, NULL, 0); break;
		case 't': opt.seconds = atoi(optarg); break;
		case 'o': opt.max_ops = strtoull(optarg, NULL, 0); break;
		case 'e': opt.episode = atoi(optarg); break;
		case 'E': opt.episode_ops = atoi(optarg); break;
		case 'r': opt.race = atoi(optarg); break;
		case 'n': opt.noise = atoi(optarg); break;
		case 'm': opt.mode = optarg; break;
		case 'R': opt.replay = optarg; break;
		case 'A': opt.replay_all = optarg; break;
		case 'l': wants_log = true; break;
		case 'T': opt.tap = true; break;
		case 'S': opt.sabotage = optarg; break;
		case 'x': exit(0);
		case 'h': usage(); exit(0);
		default: usage(); exit(2);
		}
	if (!opt.seconds && !opt.max_ops && !opt.episode && !opt.replay &&
	    !opt.replay_all)
		opt.max_ops = 20000;
}

int main(int argc, char **argv)
{
	u64 before = 0, after = 0, upper_before = 0, upper_after = 0;

	parse_options(argc, argv);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	board = shared_memory(2UL << 44, sizeof(*board));
	world = shared_memory(3UL << 44, sizeof(*world));
	/* The workers must neither have it nor be slowed down by it. */
	madvise(world, sizeof(*world), MADV_DONTFORK);
	/* The heap that is tested begins at a table of its own. */
	heap = (char *)(((u64)sbrk(0) + 3 * CHUNK * PAGE - 1) / (CHUNK * PAGE) *
			(CHUNK * PAGE));
	if (brk(heap))
		broken("cannot move the heap's end: %s", strerror(errno));
	system_setup();
	choose_processors(opt.race);
	started = told = now_seconds();
	vmstat("cohort_ptp_shared", &before);
	vmstat("cohort_pmd_shared", &upper_before);
	if (strcmp(opt.mode, "any"))
		account_leaks(true);
	if (opt.replay_all) {
		failed = replay_all(opt.replay_all);
	} else if (opt.replay) {
		replay(opt.replay);
	} else if (opt.episode) {
		episode = opt.episode;
		run_episode();
	} else {
		for (episode = 1; !failed && time_left(); episode++)
			run_episode();
	}
	vmstat("cohort_ptp_shared", &after);
	vmstat("cohort_pmd_shared", &upper_after);
	system_restore();
	/* Another machine's other processes come and go. */
	if (!failed && strcmp(opt.mode, "any"))
		account_leaks(false);
	printf("metric operations %llu operations\n", (unsigned long long)ops);
	printf("metric rounds %llu rounds\n", (unsigned long long)rounds);
	printf("metric forks %llu forks\n", (unsigned long long)forks);
	printf("metric seconds %.3f s\n", now_seconds() - started);
	check_sharing(after - before, upper_after - upper_before);
	if (opt.tap && !opt.replay_all)
		printf("TAP version 13\n1..1\n%s 1 - %llu operations from seed %llu go as they must\n",
		       failed ? "not ok" : "ok", (unsigned long long)ops,
		       (unsigned long long)opt.seed);
	else if (!failed)
		printf("# clean: %llu operations\n", (unsigned long long)ops);
	fflush(stdout);
	return failed;
}
