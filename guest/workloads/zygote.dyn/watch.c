// SPDX-License-Identifier: GPL-2.0-or-later
/* Which code an application uses. */
#include "watch.h"

struct watch *watch;

#if defined(__x86_64__)
static long bare_syscall(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static long bare_syscall(long nr, long a, long b, long c)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
#elif defined(__arm__)
static long bare_syscall(long nr, long a, long b, long c)
{
	register long r0 __asm__("r0") = a;
	register long r1 __asm__("r1") = b;
	register long r2 __asm__("r2") = c;
	register long r3 __asm__("r3") = nr;

	/* Thumb code has its frame in r7. */
	__asm__ volatile("push {r7}\n\tmov r7, r3\n\tsvc 0\n\tpop {r7}"
			 : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3) : "memory");
	return r0;
}
#else
#error "write bare_syscall() for this architecture"
#endif

static void on_use(int sig, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(PAGE - 1);
	size_t low = 0, high = watch->pages;

	(void)context;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (watch->page[middle] < page)
			low = middle + 1;
		else
			high = middle;
	}
	/* Not the watch's doing, or opening the page failed: a real crash. */
	if (low == watch->pages || watch->page[low] != page || watch->used[low] ||
	    bare_syscall(SYS_mprotect, page, PAGE, PROT_READ | PROT_EXEC)) {
		bare_syscall(SYS_exit_group, 128 + sig, 0, 0);
	}
	watch->used[low] = 1;
}

void watch_code(void)
{
	struct regions *rs = &s->regions;
	uintptr_t own = (uintptr_t)on_use;

	watch = map_own_tables(sizeof(*watch), PROT_READ | PROT_WRITE, MAP_SHARED);
	regions_read(rs, getpid());
	for (int i = 0; i < rs->count; i++) {
		struct region *r = &rs->r[i];

		if (!is_code(r) || (own >= r->start && own < r->end))
			continue;
		for (uintptr_t at = r->start; at < r->end; at += PAGE) {
			if (watch->pages == MAX_CODE_PAGES)
				die("more than %d pages of code", MAX_CODE_PAGES);
			watch->page[watch->pages++] = at;
		}
	}
}

void application_uses(size_t a, unsigned char *bit)
{
	pid_t pid;

	memset(watch->used, 0, watch->pages);
	fflush(stdout);
	pid = bare_fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		struct sigaction act = { .sa_sigaction = on_use, .sa_flags = SA_SIGINFO | SA_NODEFER };

		if (sigaction(SIGSEGV, &act, NULL))
			bare_exit(1);
		for (size_t i = 0; i < watch->pages; i++)
			if (bare_syscall(SYS_mprotect, watch->page[i], PAGE, PROT_NONE))
				bare_syscall(SYS_exit_group, 1, 0, 0);
		application_run(a);
		bare_exit(0);
	}
	bare_wait(pid);
	memcpy(bit, watch->used, watch->pages);
}

void code_present(pid_t pid, unsigned char *bit)
{
	int pagemap = pagemap_open(pid);
	size_t i = 0, n;

	for (; i < watch->pages; i += n) {
		for (n = 1; i + n < watch->pages && watch->page[i + n] == watch->page[i] + n * PAGE; n++)
			;
		pages_present(pagemap, watch->page[i], watch->page[i] + n * PAGE, bit + i, NULL);
	}
	close(pagemap);
}
