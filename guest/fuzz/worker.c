// SPDX-License-Identifier: GPL-2.0-or-later
/* The workers: execute commands and report the results; they do not know what is right. */
#include "worker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

u32 me;
struct slot *my;
u64 scratch[16 * PAGE / 8] __attribute__((aligned(4096)));

/* Mistakes that the oracle must find: for the fuzzer's own tests. */
static bool sabotaged(const struct cmd *cmd)
{
	static u32 count;
	const char *how = opt.sabotage;

	if (!how || my->id < 3 || ++count < 40)
		return false;
	if (!strcmp(how, "lost-write") && cmd->op == OP_WRITE)
		return true;
	if (!strcmp(how, "stale") && cmd->op == OP_ADVISE &&
	    cmd->a == MADV_DONTNEED)
		return true;
	if (!strcmp(how, "unmap") && cmd->op == OP_UNMAP)
		return true;
	if (!strcmp(how, "protect") && cmd->op == OP_PROTECT)
		return true;
	if (!strcmp(how, "leak") && cmd->op == OP_WRITE) {
		/* A store of ours shows up in another process. */
		for (u32 i = 0; i < NR_SLOTS; i++) {
			struct iovec from = { scratch, PAGE };
			struct iovec to = {
				layout_addr(&board->slots[i].layout, cmd->page), PAGE
			};

			if (i == me || !board->pids[i])
				continue;
			fill_words(scratch, own_tag(cmd->page, cmd->a));
			process_vm_writev(board->pids[i], &from, 1, &to, 1, 0);
		}
		return false;
	}
	if (!strcmp(how, "crash"))
		abort();
	if (!strcmp(how, "hang"))
		for (;;)
			pause();
	return false;
}

/* Serves a slot until it is told to end. Never returns, so forks may nest. */
void worker(u32 slot, bool resumes)
{
	struct sigaction action = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER,
	};
	u32 last;

	me = slot;
	my = &board->slots[slot];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	last = my->done;
	if (resumes) {
		my->results[my->at].ret = 0;
		my->results[my->at].done = 1;
		my->at++;
	}
	for (;;) {
		u32 go;
		bool ends = false;

		while ((go = __atomic_load_n(&my->go, __ATOMIC_ACQUIRE)) == last)
			futex_wait(&my->go, last, 0);
		last = go;
		noise(my->noise);
		for (; my->at < my->n; my->at++) {
			const struct cmd *cmd = &my->cmds[my->at];
			struct result *res = &my->results[my->at];

			res->first = my->nr_pages;
			if (cmd->op == OP_EXIT) {
				ends = true;
				res->ret = 0;
			} else if (sabotaged(cmd)) {
				struct page_result *pr = NULL;

				for (u32 k = 0; cmd->op == OP_WRITE && k < cmd->n; k++) {
					pr = next_page();
					pr->status = ST_OK;
				}
				res->ret = 0;
			} else {
				res->ret = execute(cmd);
			}
			res->done = 1;
		}
		noise(false);
		__atomic_store_n(&my->done, go, __ATOMIC_RELEASE);
		futex_wake(&my->done);
		if (ends)
			_exit(0);
	}
}
