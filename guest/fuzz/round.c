// SPDX-License-Identifier: GPL-2.0-or-later
/* Rounds: starts and ends workers, hands out commands, collects the results. */
#include "control.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"

/* Guest seconds after which a worker hangs: a debug kernel emulated is slow. */
#define HANG_SECONDS	300

u64 ops, rounds, forks, execs;

static void prepare_slot(u32 slot)
{
	struct slot *s = &board->slots[slot];

	s->go = s->done = s->n = s->noise = s->ready = 0;
	s->noise_bad = 0;
	s->at = s->nr_pages = 0;
	s->id = ++world->next_id;
}

static void end_slot(u32 slot)
{
	char page[PAGE];

	proc_end(slot);
	board->pids[slot] = 0;
	while (read(board->pipes[slot][0], page, sizeof(page)) > 0)
		;
}

static void reap(u32 slot)
{
	int status;

	while (waitpid(world->procs[slot].pid, &status, 0) < 0 && errno == EINTR)
		;
	end_slot(slot);
}

/* Waits until a process that was started by exec serves its slot. */
static bool wait_ready(u32 slot)
{
	struct slot *s = &board->slots[slot];
	double since = now_seconds();
	int status;

	execs++;
	while (!__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE)) {
		futex_wait(&s->ready, 0, 1000);
		if (__atomic_load_n(&s->ready, __ATOMIC_ACQUIRE))
			break;
		if (waitpid(world->procs[slot].pid, &status, WNOHANG) > 0) {
			fail("process %u was executed and ended with status %x", slot,
			     status);
			end_slot(slot);
			return false;
		}
		if (now_seconds() - since > HANG_SECONDS) {
			fail("process %u was executed and hangs", slot);
			return false;
		}
	}
	return true;
}

void kill_all(void)
{
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive)
			kill(world->procs[i].pid, SIGKILL);
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (world->procs[i].alive)
			reap(i);
}

void choose_processors(bool race)
{
	static cpu_set_t all;
	cpu_set_t one;

	if (!CPU_COUNT(&all))
		sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(all), race ? &all : &one);
}

void *shared_memory(unsigned long at, size_t size)
{
	void *memory = mmap((void *)at, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (memory == MAP_FAILED)
		broken("no memory: %s", strerror(errno));
	return memory;
}

void first_worker(void)
{
	pid_t pid;

	prepare_slot(0);
	board->slots[0].layout = layout;
	fflush(stdout);
	pid = opt.exec ? start_by_exec(0, 0, !strcmp(opt.join, "group"), 0) : fork();
	if (pid < 0)
		broken("cannot fork: %s", strerror(errno));
	if (pid == 0) {
		prctl(PR_SET_COHORT, PR_COHORT_ZYGOTE, 0, 0, 0);
		shared_memory(layout.base + BALLAST_AT, BALLAST);
		worker(0, false);
	}
	proc_start(0, pid);
	world->procs[0].zygote = PR_COHORT_ZYGOTE;
	board->pids[0] = pid;
	if (opt.exec)
		wait_ready(0);
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

/* True if the command still applies: after shortening, it may name things that no longer exist. */
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
	case OP_SPAWN:
		return cmd->a < NR_SLOTS && !world->procs[cmd->a].alive &&
		       !(taken & (1U << cmd->a)) && cmd->b <= MAX_SHIFT;
	case OP_BECOME:
		return cmd->b <= MAX_SHIFT;
	case OP_BALLAST:
		return cmd->a < BALLAST / PAGE;
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
		} else if (s->cmds[i].op == OP_SPAWN && res->ret > 0) {
			board->pids[s->cmds[i].a] = res->ret;
			if (!wait_ready(s->cmds[i].a))
				return false;
		} else if (s->cmds[i].op == OP_BECOME) {
			execs++;
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

void run_round(struct round *round)
{
	u32 posted = 0, taken = 0, watchers = 0;

	if (opt.log)
		log_round(round);
	rounds++;
	for (u32 i = 0; i < NR_SLOTS; i++) {
		board->slots[i].n = 0;
		board->slots[i].at = 0;
		board->slots[i].nr_pages = 0;
	}
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
		if (cmd->op == OP_FORK || cmd->op == OP_SPAWN) {
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
	/* A watcher's results come after those of all others. */
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

void look_at_all(void)
{
	static u64 entries[NR_PAGES];

	for (u32 slot = 0; slot < NR_SLOTS && !failed; slot++) {
		if (!world->procs[slot].alive)
			continue;
		if (!read_pagemap(slot, entries))
			broken("cannot read the page map of process %u", slot);
		for (u32 chunk = 0; chunk < NR_CHUNKS && !failed; chunk++)
			look_at(slot, chunk, entries + chunk * CHUNK);
	}
	if (!failed)
		account_check();
}

void exit_all(void)
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
