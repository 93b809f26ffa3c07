// SPDX-License-Identifier: GPL-2.0-only
/* Allocations that fail, and memory that breaks. */
#include "../common.h"

#if __has_include("sys/rseq.h")
#include <sys/rseq.h>
#endif

static const struct knob {
	const char *file, *value;
} knobs[] = {
	{ "/sys/kernel/debug/failslab/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/failslab/verbose", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N" },
	{ "/sys/kernel/debug/fail_page_alloc/min-order", "0" },
	{ "/sys/kernel/debug/fail_page_alloc/verbose", "0" },
};

static char knob_was[ARRAY_SIZE(knobs)][16];

static int fail_fd = -1;

void need_injection(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (write_text(knobs[i].file, knobs[i].value))
			skip("no fault injection in this kernel");
}

/*
 * Unregister rseq: on return to user space the kernel writes the CPU number, and
 * kills the process if that fault gets no memory. Every kernel does this.
 */
static void forget_rseq(void)
{
#if __has_include("sys/rseq.h")
	char *thread = __builtin_thread_pointer();

	if (__rseq_size)
		syscall(__NR_rseq, thread + __rseq_offset, 32, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
#endif
}

void arm(long n)
{
	char text[16];

	if (fail_fd < 0) {
		forget_rseq();
		fail_fd = open("/proc/self/fail-nth", O_RDWR | O_CLOEXEC);
	}
	if (fail_fd < 0)
		skip("/proc/self/fail-nth: %s", strerror(errno));
	snprintf(text, sizeof(text), "%ld", n);
	must(pwrite(fail_fd, text, strlen(text), 0) > 0, "fail-nth: %s", strerror(errno));
}

bool disarm(void)
{
	char text[16] = "";
	int saved = errno;

	must(pread(fail_fd, text, sizeof(text) - 1, 0) > 0, "fail-nth: %s", strerror(errno));
	must(pwrite(fail_fd, "0", 1, 0) == 1, "fail-nth: %s", strerror(errno));
	errno = saved;
	return atoi(text) == 0;
}

void save_injection(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (read_text(knobs[i].file, knob_was[i], sizeof(knob_was[i])) < 0)
			knob_was[i][0] = 0;
}

void restore_injection(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		if (knob_was[i][0])
			write_text(knobs[i].file, knob_was[i]);
}

/* --- memory that breaks --------------------------------------------------- */

static void ignore_signal(int sig)
{
}

/* the caller gets SIGBUS at once, as if it had used the page */
long poison(long addr, long unused)
{
	int ret;

	signal(SIGBUS, ignore_signal);
	ret = madvise((void *)addr, page_size, MADV_HWPOISON) ? -errno : 0;
	catch_faults();
	return ret;
}

long dies_late(long unused, long unused2)
{
	/* get SIGBUS on access, not when the page breaks */
	prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_LATE, 0, 0);
	return 0;
}
