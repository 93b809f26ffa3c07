// SPDX-License-Identifier: GPL-2.0-only
/* Threads of this process that run until they are stopped. */
#include "../common.h"

#include <pthread.h>

#define MAX_THREADS	8

static pthread_t threads[MAX_THREADS];
static int nr_threads;
static bool stop;

void start_thread(void *(*fn)(void *arg), void *arg)
{
	must(nr_threads < MAX_THREADS, "too many threads");
	must(!pthread_create(&threads[nr_threads], NULL, fn, arg), "no thread");
	nr_threads++;
}

bool stopping(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

void stop_and_join(void)
{
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	while (nr_threads)
		pthread_join(threads[--nr_threads], NULL);
	stop = false;
}
