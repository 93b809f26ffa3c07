// SPDX-License-Identifier: GPL-2.0-only
/* Marked pages, and accesses that may raise a signal. */
#include "../common.h"

#include <setjmp.h>

static __thread sigjmp_buf probe_jump;
static __thread sig_atomic_t probing;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (probing)
		siglongjmp(probe_jump, sig);
	dprintf(STDOUT_FILENO, "# [%d] unexpected signal %d (code %d) at %p\n",
		getpid(), sig, info->si_code, info->si_addr);
	note_fatal("an unexpected signal");
	signal(sig, SIG_DFL);
	raise(sig);
}

void catch_faults(void)
{
	struct sigaction sa = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
}

static int probe(char *addr, bool write)
{
	int sig = sigsetjmp(probe_jump, 1);

	if (!sig) {
		char c;

		__atomic_store_n(&probing, 1, __ATOMIC_SEQ_CST);
		c = touch(addr);
		if (write)
			__atomic_store_n(addr, c, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&probing, 0, __ATOMIC_SEQ_CST);
	return sig;
}

int probe_read(const void *addr)
{
	return probe((char *)addr, false);
}

int probe_write(void *addr)
{
	return probe(addr, true);
}

int probe_load(const __u64 *addr, __u64 *value)
{
	int sig = sigsetjmp(probe_jump, 1);

	if (!sig) {
		__atomic_store_n(&probing, 1, __ATOMIC_SEQ_CST);
		*value = __atomic_load_n(addr, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&probing, 0, __ATOMIC_SEQ_CST);
	return sig;
}

static inline __u64 tag_word(unsigned int tag, size_t i)
{
	__u64 x = ((__u64)tag << 16) ^ i;

	/* mix, so that words of different tags differ */
	x *= 0x9e3779b97f4a7c15ULL;
	return x ^ (x >> 29);
}

void page_fill(void *addr, unsigned int tag)
{
	__u64 *word = addr;
	size_t i;

	if (!tag) {
		memset(addr, 0, page_size);
		return;
	}
	for (i = 0; i < page_size / sizeof(*word); i++)
		word[i] = tag_word(tag, i);
}

bool page_is(const void *addr, unsigned int tag)
{
	const __u64 *word = addr;
	size_t i;

	for (i = 0; i < page_size / sizeof(*word); i++)
		if (word[i] != (tag ? tag_word(tag, i) : 0))
			return false;
	return true;
}
