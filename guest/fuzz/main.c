// SPDX-License-Identifier: GPL-2.0-or-later
/* The controller: options, episodes, replays and the verdict. */
#include "control.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FIRST_WORKERS	5

const char *const op_names[NR_OPS] = {
#define X(name) #name,
	COMMANDS(X)
#undef X
};

struct board *board;
struct layout layout = { .base = MAP_BASE };
bool failed;
struct options opt = {
	.seed = 1, .seconds = 0, .episode_ops = 20000, .mode = "any",
	.join = "user",
};

static bool wants_log;
static const char *asked_exec, *asked_join;	/* a script may say otherwise */
static u32 episode;
static double started, told;

double now_seconds(void)
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
	if (opt.log && opt.exec)
		printf("> exec %s %s\n", opt.exec, opt.join);
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

static bool is_one_of(const char *word, const char *const words[])
{
	while (*words && strcmp(word, *words))
		words++;
	return *words;
}

static void check_exec(void)
{
	static const char *const execs[] = { "equal", "random", NULL };
	static const char *const joins[] = { "user", "group", "never", NULL };

	if (opt.exec && !is_one_of(opt.exec, execs))
		broken("--exec %s is none of equal and random", opt.exec);
	if (!is_one_of(opt.join, joins))
		broken("--join %s is none of user, group and never", opt.join);
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

/* A script says how workers start and who joins: "exec random user"; else as asked. */
static void read_header(FILE *file)
{
	static char exec[10], join[10];
	char line[200];

	opt.exec = asked_exec;
	opt.join = asked_join;
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "exec %9s %9s", exec, join) == 2) {
			opt.exec = exec;
			opt.join = join;
			check_exec();
		}
		break;
	}
	rewind(file);
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
	read_header(file);
	episode = 1;
	begin_episode();
	memset(&round, 0, sizeof(round));
	round.kill = -1;
	while (fgets(line, sizeof(line), file) && !failed) {
		number++;
		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (!strncmp(line, "exec ", 5))
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
		if (failed)
			puts("# FATAL: the fuzzer's oracle knows better");
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

/* A run in which nobody joined a table has not tested joining. */
static void check_joins(const struct joins *from)
{
	struct joins now;

	if (!execs)
		return;
	printf("metric execs %llu workers\n", (unsigned long long)execs);
	count_joins(&now);
	printf("metric join-opened %llu tables\n",
	       (unsigned long long)(now.opened - from->opened));
	printf("metric join-joined %llu tables\n",
	       (unsigned long long)(now.joined - from->joined));
	printf("metric join-withdrawn %llu tables\n",
	       (unsigned long long)(now.withdrawn - from->withdrawn));
	printf("metric upper-joined %llu tables\n",
	       (unsigned long long)(now.upper - from->upper));
	if (!strcmp(opt.mode, "any") || !strcmp(opt.mode, "never") ||
	    !strcmp(opt.join, "never") || opt.replay || opt.replay_all || opt.episode)
		return;
	if (!failed && now.joined == from->joined)
		fail("%llu workers were started by exec and none has joined a table (%llu were opened)",
		     (unsigned long long)execs,
		     (unsigned long long)(now.opened - from->opened));
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
	     "  --exec L         workers start by exec too, with their pages at equal or at\n"
	     "                   random addresses\n"
	     "  --join J         user, group, never: who joins tables then (user); the run\n"
	     "                   fails if none was joined\n"
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
		{ "exec", 1, 0, 'X' }, { "join", 1, 0, 'j' },
		{ "worker", 1, 0, 'w' }, { "nothing", 0, 0, 'x' }, { "help", 0, 0, 'h' }, { 0 },
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
		case 'X': opt.exec = optarg; break;
		case 'j': opt.join = optarg; break;
		case 'w': worker_by_exec(optarg);
		case 'x': exit(0);
		case 'h': usage(); exit(0);
		default: usage(); exit(2);
		}
	if (!opt.seconds && !opt.max_ops && !opt.episode && !opt.replay &&
	    !opt.replay_all)
		opt.max_ops = 20000;
	check_exec();
	asked_exec = opt.exec;
	asked_join = opt.join;
}

int main(int argc, char **argv)
{
	u64 before = 0, after = 0, upper_before = 0, upper_after = 0;
	struct joins joins;

	parse_options(argc, argv);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	make_board();
	if (opt.sabotage)
		snprintf(board->sabotage, sizeof(board->sabotage), "%s", opt.sabotage);
	world = shared_memory(WORLD_AT, sizeof(*world));
	/* The workers must neither have it nor be slowed down by it. */
	madvise(world, sizeof(*world), MADV_DONTFORK);
	place_heap();
	system_setup();
	choose_processors(opt.race);
	started = told = now_seconds();
	vmstat("cohort_ptp_shared", &before);
	vmstat("cohort_pmd_shared", &upper_before);
	count_joins(&joins);
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
	opt.exec = NULL;	/* who joins is as it was found */
	system_restore();
	/* Another machine's other processes come and go. */
	if (!failed && strcmp(opt.mode, "any"))
		account_leaks(false);
	printf("metric operations %llu operations\n", (unsigned long long)ops);
	printf("metric rounds %llu rounds\n", (unsigned long long)rounds);
	printf("metric forks %llu forks\n", (unsigned long long)forks);
	printf("metric seconds %.3f s\n", now_seconds() - started);
	check_sharing(after - before, upper_after - upper_before);
	check_joins(&joins);
	if (opt.tap && !opt.replay_all && failed)
		puts("# FATAL: the fuzzer's oracle knows better");
	if (opt.tap && !opt.replay_all)
		printf("TAP version 13\n1..1\n%s 1 - %llu operations from seed %llu go as they must\n",
		       failed ? "not ok" : "ok", (unsigned long long)ops,
		       (unsigned long long)opt.seed);
	else if (!failed)
		printf("# clean: %llu operations\n", (unsigned long long)ops);
	fflush(stdout);
	return failed;
}
