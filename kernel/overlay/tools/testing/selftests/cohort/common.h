/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What all Cohort selftests stand on: cases that run each in its own process,
 * peers (processes that do what they are told, in lock-step), areas (memory
 * of one kind with marked pages in it) and models (what a process must see).
 *
 * Nothing in here needs a kernel with Cohort. A case says what stock Linux
 * promises; only what asks the counters is skipped where there are none.
 */
#ifndef COHORT_SELFTEST_COMMON_H
#define COHORT_SELFTEST_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
/* /proc/PID/mem has offsets above 2 GB on 32-bit machines too */
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <linux/types.h>

#include "kselftest.h"

/* The headers installed may be older than the kernel under test. */
#ifndef PR_SET_COHORT
#define PR_SET_COHORT		0x434f4801
#define PR_GET_COHORT		0x434f4802
#define PR_COHORT_ZYGOTE	1
#define PR_COHORT_KEEP_EXEC	2
#endif
#ifndef MADV_COLD
#define MADV_COLD		20
#define MADV_PAGEOUT		21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE	0x100000
#endif

#define COHORT_SYSFS	"/sys/kernel/mm/cohort/"

enum cohort_mode { MODE_STOCK, MODE_NEVER, MODE_OPTIN, MODE_ALWAYS };

extern unsigned long page_size;
extern unsigned long table_size;	/* what one last-level table maps */
extern enum cohort_mode cohort_mode;
extern bool quick;			/* -q: fewer pages, rounds and children */
extern int race_seconds;		/* -t: how long one race may run */
extern int case_seconds;		/* -T: how long a case may take; raise before run_cases() */
extern bool costly;			/* -x: what the whole machine feels is allowed */

/* --- cases ---------------------------------------------------------------- */

/*
 * A description is a question or says what must be. With `kinds` the case runs
 * once for each kind of memory in that mask (in a quick run, only for those in
 * `quick_kinds` too, if that is set) and gets CASE_ARG(arg, kind).
 */
struct test_case {
	const char *desc;
	void (*fn)(long arg);
	long arg;
	unsigned int kinds;
	unsigned int quick_kinds;
};

#define CASE_ARG(arg, kind)	((arg) << 8 | (kind))
#define ARG_KIND(arg)		((enum kind)((arg) & 0xff))
#define ARG_ARG(arg)		((arg) >> 8)

extern void (*after_each_case)(void);	/* in the main process, if set */

int run_cases(int argc, char **argv, const struct test_case *cases, int n);

/*
 * Both end the process at once. In a peer that ends the whole case, because
 * whoever waits for the peer sees the verdict.
 */
void die(const char *file, int line, const char *cond, const char *fmt, ...)
	__noreturn __printf(4, 5);
void skip(const char *fmt, ...) __noreturn __printf(1, 2);

#define fail(fmt, ...)	die(__FILE__, __LINE__, NULL, fmt, ##__VA_ARGS__)
#define must(cond, fmt, ...) do {				\
	if (!(cond))						\
		die(__FILE__, __LINE__, #cond, fmt, ##__VA_ARGS__);	\
	} while (0)
/* for system calls that never fail on a sane machine */
#define must_call(expr)	must((long)(expr) != -1, #expr ": %s", strerror(errno))

void note(const char *fmt, ...) __printf(1, 2);

/* --- the kernel's side ---------------------------------------------------- */

bool sharing_possible(void);	/* a zygote's fork shares tables here and now */
void become_zygote(void);	/* does nothing on a stock kernel */
int read_text(const char *path, char *buf, size_t size);	/* length or -errno */
int write_text(const char *path, const char *text);		/* 0 or -errno */
long vm_event(const char *name);	/* from /proc/vmstat, -1 if there is none */
/* value of "Key:" in /proc/PID/FILE, -1 if there is none; pid 0 is oneself */
long proc_field(pid_t pid, const char *file, const char *key);
long shared_tables(pid_t pid);
bool huge_mapped(const void *addr);	/* is it in a region with a huge page? */
unsigned char memory_byte(pid_t pid, const void *addr);	/* as a debugger reads it */
__u64 pagemap_entry(pid_t pid, const void *addr);
#define PM_PRESENT	0x8000000000000000ULL
#define PM_SWAP		0x4000000000000000ULL
#define PM_EXCLUSIVE	0x0100000000000000ULL
#define PM_SOFT_DIRTY	0x0080000000000000ULL
#define PM_PFN		0x007fffffffffffffULL
long minor_faults(void);
double now(void);			/* seconds */

/* --- marked pages --------------------------------------------------------- */

/* Every word of a page depends on its tag; tag 0 is a page of zeros. */
void page_fill(void *addr, unsigned int tag);
bool page_is(const void *addr, unsigned int tag);

void catch_faults(void);	/* every case begins with this */
/* 0, or the signal that the access raised */
int probe_read(const void *addr);
int probe_load(const __u64 *addr, __u64 *value);
int probe_write(void *addr);	/* writes back the byte that is there */

static inline char touch(const void *addr)
{
	return __atomic_load_n((const char *)addr, __ATOMIC_RELAXED);
}

/* --- areas ---------------------------------------------------------------- */

enum kind {
	ANON, HEAP, PRIV_FILE, PRIV_FILE_RO, PRIV_DISK, SHARED_FILE, SHARED_DISK,
	SHARED_ANON, MEMFD, SYSV, MIXED, BORDERS, NEAR_THP, ALONE, NR_KINDS
};

#define KIND(k)		(1u << (k))
/* but for ALONE, which shares the table above as well: see upper.c */
#define ALL_KINDS	(KIND(ALONE) - 1)
/* one of each nature, where all of them would be more of the same */
#define SOME_KINDS	(KIND(ANON) | KIND(PRIV_FILE) | KIND(PRIV_FILE_RO) | \
			 KIND(SHARED_DISK) | KIND(SHARED_ANON) | KIND(MIXED))

struct part {
	char *addr;
	size_t len;
	int prot;
	int flags;
	int fd;			/* -1: anonymous */
	bool shared;
};

struct spot {			/* a page that the case knows */
	char *addr;
	int part;
	unsigned int file_tag;	/* what is below a private write */
	unsigned int tag;	/* what the zygote left there */
};

#define MAX_PARTS	5
#define MAX_SPOTS	64

struct area {
	enum kind kind;
	char *base;		/* aligned to a table */
	int tables;		/* tables in use */
	int nparts;
	struct part part[MAX_PARTS];
	int nspots;
	struct spot spot[MAX_SPOTS];
};

const char *kind_name(enum kind kind);
bool kind_shared(enum kind kind);	/* only shared mappings */
bool kind_anon(enum kind kind);		/* only private anonymous memory */
bool kind_readonly(enum kind kind);

/* An address with whole tables of nothing around it, another one each time. */
char *arena(int tables);
void *map_at(char *addr, size_t len, int prot, int flags, int fd, off_t off);
int make_file(const char *fs, size_t pages);	/* "tmpfs" or "disk" */
#define FILE_TAG(index)	(1000000u + (unsigned int)(index))

void area_make(struct area *a, enum kind kind);
void area_spots(struct area *a, int part, int n);
void area_unmap(struct area *a);

/* --- peers ---------------------------------------------------------------- */

#define SELF		0	/* the process that runs the case */
#define MAX_PEERS	96
#define DEAD		(-1000000)	/* what a peer that is gone answers */

typedef long (*peer_fn)(long a, long b);

void need_peers(int n);			/* before the first fork, if more than 8 */
void spawn(int who);			/* fork a peer; who counts from 1 */
void spawn_from(int parent, int who);	/* let a peer fork a peer */
pid_t pid_of(int who);
long ask(int who, peer_fn fn, long a, long b);
void tell(int who, peer_fn fn, long a, long b);
long answer(int who);
void quit(int who);			/* orderly exit; waits until it is gone */
void kill_peer(int who);		/* SIGKILL; waits until it is gone */
void wait_gone(int who);
bool is_gone(pid_t pid);

/* --- swap and pressure ---------------------------------------------------- */

#define CGROUP	"/sys/fs/cgroup/cohort-selftest/"

bool swap_on(void);		/* undone at the end of the run */
bool swap_off(void);
void need_swap(void);		/* or skip the case */
/* what this process touches from here on, press() can reclaim apart from the rest */
void need_cgroup(void);
void press(void);

/* --- merging --------------------------------------------------------------- */

#define KSM	"/sys/kernel/mm/ksm/"

long ksm(const char *file);	/* what a file of KSM's says */
void ksm_set(const char *file, const char *value);

/* --- allocations that fail ------------------------------------------------ */

void need_injection(void);	/* or skip the case */
void arm(long n);		/* the n-th allocation from now on fails, in this process alone */
bool disarm(void);		/* was there an n-th one, so that it failed? */
void save_injection(void);	/* the machine's settings, before run_cases() ... */
void restore_injection(void);	/* ... and after it */

/* --- memory that breaks --------------------------------------------------- */

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif
#ifndef PR_MCE_KILL
#define PR_MCE_KILL		33
#define PR_MCE_KILL_SET		1
#define PR_MCE_KILL_LATE	0
#define PR_MCE_KILL_EARLY	1
#endif

/* run in a peer: take the page at an address out of use; 0 or -errno */
long poison(long addr, long unused);
/* run in a peer: it is told by SIGBUS when it uses such a page, not at once */
long dies_late(long unused, long unused2);

/* --- models: what each process must see ----------------------------------- */

enum access { NONE, BUS, READ, WRITE };

struct want {
	char *addr;
	unsigned int tag;
	short id;		/* which spot this began as */
	unsigned char acc;
	bool shared;		/* a write here is seen through every mapping */
	bool or_zero;		/* MADV_FREE: the old page or zeros */
};

#define MAX_WANTS	192
#define MAX_MODELS	8

struct model {
	int n;
	struct want want[MAX_WANTS];
};

/*
 * Memory that all processes of a case share, for what they tell each other.
 * It is the only thing the framework itself keeps in shared memory.
 */
struct board {
	int verdict;
	char reason[300];
	pid_t pid[MAX_PEERS];
	struct model model[MAX_MODELS];
	long word[64];
};

extern struct board *board;

void model_init(struct model *m, const struct area *a);
/* look at everything that process `who` must see (run it there) */
long model_check(long who, long unused);
/* write new tags wherever `who` may write (run it there), note who sees them */
long model_scribble(long who, long nr_models);
void model_check_all(int n);
void model_scribble_all(int n);
/* both, twice: nothing may be left that only a write brings out */
void models_right(int n);
/* fork so many peers of the process that runs the case, and a model of each of them */
void spawn_models(int peers, const struct area *a);
/* the same for a case without models: are the spots as the zygote left them? */
long spots_intact(long area, long unused);
long spots_touch(long area, long unused);	/* read each spot */

#endif
