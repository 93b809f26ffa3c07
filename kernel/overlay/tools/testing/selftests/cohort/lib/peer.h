/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes that execute commands, in lock-step. */
#ifndef COHORT_SELFTEST_PEER_H
#define COHORT_SELFTEST_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#define SELF		0	/* the process that runs the case */
#define MAX_PEERS	96
#define DEAD		(-1000000)	/* the answer of a peer that has exited */

typedef long (*peer_fn)(long a, long b);

void need_peers(int n);			/* before the first fork, if more than 8 */
void spawn(int who);			/* fork a peer; who counts from 1 */
void spawn_from(int parent, int who);	/* let a peer fork a peer */
pid_t pid_of(int who);
long ask(int who, peer_fn fn, long a, long b);
void tell(int who, peer_fn fn, long a, long b);
long answer(int who);
/* a peer unshares what it writes to answer: ask this before counting */
long nothing(long unused, long unused2);
void quit(int who);			/* orderly exit; waits until it is gone */
void kill_peer(int who);		/* SIGKILL; waits until it is gone */
/* run in a peer: read a page; returns 0 or the signal */
long read_page(long addr, long unused);
/* run in a peer: exec a program that only sleeps */
long exec_sleep(long unused, long unused2);
void wait_exec(int who);
#define SLEEP	"--sleep"
void wait_gone(int who);
bool is_gone(pid_t pid);

#endif
